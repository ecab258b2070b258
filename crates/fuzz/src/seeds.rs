//! Inputs to begin with: generated certificates and small ones of the system's keyrings, in the
//! form the target reads.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use talaria_cert::{
    BATCH_BYTES, Cert, Splitter, Summary, Tag, Verdict, Verification, enarmor, verdicts,
};
use talaria_corpus::{CorpusProfile, Generate, certs};
use talaria_gnupg::{write_keybox, write_ownertrust};
use talaria_message::Rules;
use talaria_recon::{Digest, GossipMessage, PeerConfig, Prefix, PrefixTree};
use talaria_sim::Numbers;

/// A time at which the generated certificates are valid.
const NOW: u32 = 1_740_000_000;

/// The maximum size of certificates taken from a keyring.
const CERT_BYTES_MAX: usize = 2500;

/// The number of certificates taken from each keyring.
const CERTS_PER_RING: usize = 3;

/// Writes the seeds of each target: `folder/TARGET/…`.
///
/// # Errors
///
/// If a file cannot be written.
pub fn write(folder: &Path) -> Result<(), Box<dyn std::error::Error>> {
    messages(folder)?;
    trees(folder)?;
    backup(folder)?;
    log(folder)?;
    compressed(folder)?;
    power(folder)?;
    let mut all = Vec::new();
    let native = CorpusProfile { native_per_mille: 1000, ..CorpusProfile::small() };
    for profile in [CorpusProfile::small(), CorpusProfile::ed25519(), native] {
        all.extend(certs(&Generate { seed: 7, first: 0, count: 6, profile }));
    }
    all.extend(system_certs()?);
    for (number, cert) in all.iter().enumerate() {
        let seed = |target: &str, bytes: &[u8]| put(folder, target, number, bytes);
        let next = &all[(number + 1) % all.len()];
        let verdicts = verdicts(&[cert], Verification::Full).remove(0);
        seed("keyring", cert.as_bytes())?;
        seed("web", cert.as_bytes())?;
        seed("salvage", &[&cert.fingerprint().to_stored(), cert.as_bytes()].concat())?;
        // Two copies of one certificate, and another one.
        let minimal = cert.minimal(&verdicts);
        let ring = [minimal.as_bytes(), cert.as_bytes(), next.as_bytes()].concat();
        seed("keyring", &ring)?;
        // Bytes that choose the limits, and the stored copy.
        for choice in [&[0; 8][..], &[3, 9, 2, 5, 4, 1, 2, 3], &[255; 8]] {
            seed("limits", &[choice, cert.as_bytes()].concat())?;
            seed("limits", &[choice, &ring].concat())?;
        }
        seed("pubring", &with_trust_packets(cert))?;
        seed("pubring", &[with_trust_packets(cert), with_trust_packets(next)].concat())?;
        let armored = enarmor(cert.as_bytes());
        seed("armor", armored.as_bytes())?;
        let text = format!("Subject: key\n\n{armored}\nand\n{}", enarmor(minimal.as_bytes()));
        seed("armor", text.as_bytes())?;
        let mut keybox = Vec::new();
        write_keybox(&mut keybox, [cert, next], NOW)?;
        seed("keybox", &keybox)?;
        seed("keyboxd", &keyboxd(&[cert, next])?)?;
        let ownertrusts = [(cert.fingerprint(), 6), (next.fingerprint(), 132)];
        seed("trust", write_ownertrust(&ownertrusts).as_bytes())?;
        seed("trust", &trustdb(&[cert, next]))?;
        let good = vec![Verdict::Good; verdicts.len()];
        for verdicts in [verdicts, good] {
            let mut stored = Vec::new();
            Summary::evaluate(cert, &verdicts, NOW).write(&mut stored);
            seed("summary", &stored)?;
        }
        let user_id = String::from_utf8_lossy(cert.user_ids().next().unwrap_or(b"A <a@b.org>"));
        let (name, fingerprint) =
            (user_id.split(" <").next().unwrap_or_default(), cert.fingerprint());
        seed("address", user_id.as_bytes())?;
        seed("address", format!("{name} <{number}@bücher.xn--bcher-kva.example>").as_bytes())?;
        for search in [
            format!("0x{fingerprint}!"),
            format!("{}", fingerprint.key_id()),
            format!("={user_id}"),
            format!("<{}", user_id.split('<').next_back().unwrap_or_default()),
            format!("+{name}"),
            format!("@{name}"),
            format!("&{fingerprint}"),
            format!("k:04{fingerprint}"),
            format!("c:{number}"),
        ] {
            seed("query", search.as_bytes())?;
        }
    }
    recon(folder)?;
    keyserver(folder, &all)?;
    Ok(())
}

/// Operations of stores, with faults and power cuts.
fn power(folder: &Path) -> io::Result<()> {
    for number in 0..8 {
        let mut numbers = Numbers::new(number);
        let bytes: Vec<u8> = (0..24).flat_map(|_| numbers.draw().to_le_bytes()).collect();
        put(folder, "power", usize::try_from(number).unwrap_or_default(), &bytes)?;
    }
    Ok(())
}

/// Requests of clients of a keyserver, after a byte for the kind.
fn keyserver(folder: &Path, all: &[Cert]) -> io::Result<()> {
    let seed = |number: usize, choice: u8, bytes: &[u8]| {
        put(folder, "keyserver", number * 8 + usize::from(choice), &[&[choice], bytes].concat())
    };
    for (number, cert) in all.iter().enumerate() {
        let fingerprint = cert.fingerprint();
        let armored = enarmor(cert.as_bytes());
        seed(number, 0, format!("0x{fingerprint}").as_bytes())?;
        let query = format!("op=index&options=mr,json&exact=on&search=0x{fingerprint}");
        seed(number, 1, query.as_bytes())?;
        let parts = format!(
            "multipart/form-data; boundary=x\n--x\r\nContent-Disposition: form-data; \
             name=\"keytext\"\r\n\r\n{armored}\r\n--x--\r\n"
        );
        seed(number, 2, parts.as_bytes())?;
        seed(number, 3, cert.as_bytes())?;
        seed(number, 3, armored.as_bytes())?;
        seed(number, 4, format!("bytes={number}-{}", number + 9).as_bytes())?;
        seed(number, 5, b"# peers\nkeys.example.org 11370 # ours\n192.0.2.1\t11380\n")?;
    }
    seed(all.len(), 5, b"2026-02-28")
}

/// Messages of a gossip peer, after a byte that chooses the greeting and the size of the pieces.
fn recon(folder: &Path) -> io::Result<()> {
    let tree: PrefixTree = (0..=200).map(|n| Digest([n; 16])).collect();
    let digests: Vec<Digest> = tree.iter().step_by(50).collect();
    let prefixes = [0, 2, 7, 128].map(|bits| Prefix::new(digests[1], bits).expect("a prefix"));
    let mut messages = vec![
        GossipMessage::Elements(digests.clone()),
        GossipMessage::FullElements(digests.clone()),
        GossipMessage::SyncFail,
        GossipMessage::Flush,
        GossipMessage::Done,
        GossipMessage::Error("no".to_owned()),
    ];
    for prefix in prefixes {
        let values = Box::new(tree.at(prefix).values());
        messages.push(GossipMessage::Poly { prefix, len: 201, values });
        messages.push(GossipMessage::Full { prefix, digests: digests.clone() });
    }
    messages.push(GossipMessage::Config(PeerConfig {
        version: "1.1.6".to_owned(),
        http_port: 11371,
        bit_quantum: 2,
        m_bar: 5,
        filters: "yminsky.dedup,yminsky.merge".to_owned(),
    }));
    for (number, pair) in messages.windows(2).enumerate() {
        let mut bytes = vec![0x21];
        pair.iter().for_each(|message| message.encode(&mut bytes));
        put(folder, "recon", number, &bytes)?;
    }
    Ok(())
}

/// Trees and lists of backups: the level of the first chunk, then chunks, which the first byte of
/// an identifier numbers.
fn trees(folder: &Path) -> io::Result<()> {
    let id = |number: u8| format!("{number:02x}{}", "0".repeat(62));
    let flat = [
        "d 0755 0 0 1.000000000 - - user.a=QQ==;user.b= a\n",
        "f 4644 1000 7 -2.000000005 4100 =QQ==,hole:4096,=QUJD - a/b c\\x0a\n",
        "h - - - - - a/b\\x20c\\x0a - a/d\n",
        "l 0777 0 0 1.000000000 - ../\\xff - a/e\nc 0600 0 0 1.000000000 - 1:3 - b\n",
        "p 0600 0 0 1.000000000 - - - c\n",
    ]
    .concat();
    let (left, right, list) = (id(1), id(2), id(3));
    let chunks = [
        format!("{left} a\n{right} b\n"),
        "d 0755 0 0 1.000000000 - - - a\nf 0600 0 0 1.000000000 0 - - a/b\n".to_owned(),
        format!("f 0600 0 0 1.000000000 5 *{list}:4,=QQ== - b\n"),
        format!("{left}:0:1\nhole:1\n=QUI=\n"),
    ];
    put(folder, "tree", 0, &[b"\0", flat.as_bytes()].concat())?;
    let chunks = chunks.each_ref().map(String::as_bytes).join(&0xff);
    put(folder, "tree", 1, &[b"\x01", chunks.as_slice()].concat())
}

/// Files as the programs of the system compress them, if they are there.
fn compressed(folder: &Path) -> io::Result<()> {
    let content = folder.join("content");
    fs::create_dir_all(folder)?;
    fs::write(&content, "a certificate, a certificate, and another one\n".repeat(40))?;
    let lines = [
        "xz",
        "xz --check=none --block-size=512",
        "xz --check=sha256 --lzma2=dict=4KiB",
        "xz --x86 --delta=dist=2 --lzma2=preset=0",
        "zstd",
        "gzip",
        "bzip2",
    ];
    for (number, line) in lines.iter().enumerate() {
        let words: Vec<&str> = line.split(' ').collect();
        let mut command = std::process::Command::new(words[0]);
        let command = command.args(&words[1..]).arg("-c").arg(&content);
        let Ok(output) = command.output() else { continue };
        put(folder, "compressed", 2 * number, &output.stdout)?;
        // Two streams, with padding between and behind them.
        let twice = [&output.stdout[..], &[0; 4], &output.stdout, &[0; 8]].concat();
        put(folder, "compressed", 2 * number + 1, &twice)?;
    }
    fs::remove_file(content)
}

fn put(folder: &Path, target: &str, number: usize, bytes: &[u8]) -> io::Result<()> {
    let folder = folder.join(target);
    fs::create_dir_all(&folder)?;
    let length = bytes.len();
    let sum = bytes.iter().fold(0u32, |sum, &b| sum.wrapping_mul(31).wrapping_add(b.into()));
    fs::write(folder.join(format!("seed-{number:02}-{length}-{sum:08x}")), bytes)
}

/// Small certificates from the keyrings of the system, if any.
fn system_certs() -> io::Result<Vec<Cert>> {
    let Ok(entries) = fs::read_dir("/usr/share/keyrings") else { return Ok(Vec::new()) };
    let mut paths: Vec<PathBuf> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
    paths.sort();
    let mut found = Vec::new();
    for path in paths.iter().filter(|path| path.extension().is_some_and(|end| end == "gpg")) {
        let mut splitter = Splitter::new(fs::File::open(path)?, BATCH_BYTES);
        let Some(batch) = splitter.next_batch()? else { continue };
        let small = batch.certs().filter(|(_, raw)| raw.len() <= CERT_BYTES_MAX);
        found.extend(small.filter_map(|(_, raw)| Cert::parse(raw).ok()).take(CERTS_PER_RING));
    }
    Ok(found)
}

/// A certificate as in `pubring.gpg`: a trust packet after each packet, and old headers.
fn with_trust_packets(cert: &Cert) -> Vec<u8> {
    let mut out = Vec::new();
    for packet in cert.packets() {
        let length = u32::try_from(packet.body.len()).expect("packets are small");
        match packet.tag {
            // The old header supports types up to 15.
            Tag(tag @ 0..16) => out.push(0x80 | tag << 2 | 2),
            Tag(tag) => out.extend([0xc0 | tag, 255]),
        }
        out.extend(length.to_be_bytes());
        out.extend_from_slice(packet.body);
        out.extend([0xb0, 2, 0, 3]);
    }
    out
}

/// The version record and one trust record for each certificate.
fn trustdb(certs: &[&Cert]) -> Vec<u8> {
    let mut out = vec![0; 40];
    out[..5].copy_from_slice(b"\x01gpg\x03");
    for cert in certs {
        let mut record = [0; 40];
        record[0] = 12;
        record[2..22].copy_from_slice(&cert.fingerprint().as_bytes()[..20]);
        record[22] = 6;
        out.extend_from_slice(&record);
    }
    out
}

/// A database of keyboxd with the columns that talaria reads, and the smallest possible pages.
fn keyboxd(certs: &[&Cert]) -> Result<Vec<u8>, Box<dyn std::error::Error>> {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("pubring.db");
    let connection = rusqlite::Connection::open(&path)?;
    connection.execute_batch(
        "PRAGMA page_size = 512;
         CREATE TABLE pubkey (ubid BLOB NOT NULL PRIMARY KEY, type INTEGER NOT NULL,
             ephemeral INTEGER NOT NULL DEFAULT 0, revoked INTEGER NOT NULL DEFAULT 0,
             keyblob BLOB NOT NULL);
         CREATE TABLE fingerprint (fpr BLOB NOT NULL PRIMARY KEY);
         CREATE TABLE userid (uid TEXT NOT NULL);",
    )?;
    for cert in certs {
        connection.execute(
            "INSERT OR IGNORE INTO pubkey (ubid, type, keyblob) VALUES (?1, 1, ?2)",
            (&cert.fingerprint().as_bytes()[..20], cert.as_bytes()),
        )?;
    }
    drop(connection);
    Ok(fs::read(path)?)
}

/// Messages of every kind: encrypted ones after their session key, and signed ones.
fn messages(folder: &Path) -> Result<(), Box<dyn std::error::Error>> {
    use crate::known::keys;
    use talaria_message::openpgp::crypto::Password;
    use talaria_message::{
        Aead, ChunkSize, Compression, EncryptOptions, Profile, Recipients, encrypt, pack,
        sign_cleartext, sign_detached, signing_key,
    };
    let signer = |cert| signing_key(cert, Rules::default(), NOW, &mut |_, _| None);
    let mut signers = [signer(&keys()[0])?];
    let mut recipients = Recipients::default();
    recipients.add_password(Password::from("seed"));
    for cert in keys().iter().take(2) {
        recipients.add(cert, Rules::default(), &mut |_| None, NOW)?;
    }
    for choice in 0..6 {
        let sum = [&[9][..], &[5; 32], &160_u16.to_be_bytes()].concat();
        for (at, content) in [&[][..], &[9], &sum, &sum[1..], &sum[1..33]].iter().enumerate() {
            let bytes = [&[choice, 9, 0][..], content].concat();
            put(folder, "wrapped", usize::from(choice) * 5 + at, &bytes)?;
        }
    }
    let text = b"a document\n- in lines \n";
    let mut number = 0;
    for compression in [Compression::None, Compression::Zlib(6), Compression::Bzip2(1)] {
        for (profile, aead) in [
            (Profile::Rfc9580, Some(Aead::Gcm)),
            (Profile::Rfc9580, Some(Aead::Ocb)),
            (Profile::LibrePgp, None),
            (Profile::Rfc4880, None),
        ] {
            let mut options = EncryptOptions::default();
            options.profile = Some(profile);
            options.aead = aead;
            options.chunk = ChunkSize::from_bytes(64).unwrap_or_default();
            options.compression = compression;
            options.size = (number % 2 == 0).then_some(text.len() as u64);
            let mut message = Vec::new();
            let key = encrypt(&text[..], &mut message, &recipients, &mut signers, &options, NOW)?;
            put(folder, "decrypt", number, &[&key.session_key[..], &message].concat())?;
            number += 1;
        }
        let mut options = EncryptOptions::default();
        options.compression = compression;
        let mut message = Vec::new();
        pack(&text[..], &mut message, &mut signers, &options, NOW)?;
        put(folder, "verify", number, &[&[0], &message[..]].concat())?;
        put(folder, "verify", number + 1, &[&[2], &message[..]].concat())?;
        number += 2;
    }
    for cert in keys() {
        let mut signers = [signer(cert)?];
        number += 8;
        let mut signed = vec![1];
        sign_cleartext(&mut &text[..], &mut signed, &mut signers, NOW)?;
        put(folder, "verify", number, &signed)?;
        let mut signature = vec![3];
        sign_detached(&mut &b"a document"[..], &mut signature, &mut signers, false, NOW)?;
        put(folder, "verify", number + 1, &signature)?;
        judged(folder, number, cert, &signature[1..])?;
        // Only for the key, so nothing else opens it.
        let mut recipients = Recipients::default();
        recipients.add(cert, Rules::default(), &mut |_| None, NOW)?;
        let options = EncryptOptions::default();
        let mut message = vec![0; 32];
        encrypt(&text[..], &mut message, &recipients, &mut signers, &options, NOW)?;
        put(folder, "decrypt", number, &message)?;
    }
    Ok(())
}

/// An export, its records, a segment and a snapshot, of a small log.
fn log(folder: &Path) -> Result<(), Box<dyn std::error::Error>> {
    use talaria_log::{
        Certificate, EXPORT_MAGIC, LogFolder, Maker, SnapshotFile, Tail, read_record, scan,
        to_records,
    };
    use talaria_message::make::{GenerateOptions, Protection, generate};
    use talaria_message::openpgp::serialize::MarshalInto as _;
    use talaria_message::{Recipients, Rules, signing_key};

    let cert = generate(&GenerateOptions::default(), &Protection::Unprotected, NOW - 1000)?.cert;
    let mut readers = Recipients::default();
    readers.add(&cert, Rules::default(), &mut |_| None, NOW)?;
    let certificate = Certificate::minimal(&cert.to_vec()?)?;
    let mut key = signing_key(&cert, Rules::default(), NOW, &mut |_, _| None)?;
    let entries = crate::log::seed(&mut key, &certificate, &readers);
    let mut records = Vec::new();
    to_records(&entries, &mut records);
    let mut export = EXPORT_MAGIC.to_vec();
    for (number, record) in records.iter().enumerate() {
        // A seed that is refused would teach the fuzzer nothing.
        assert!(!read_record(record)?.is_empty());
        export.extend(u32::try_from(record.len())?.to_be_bytes());
        export.extend(record);
        put(folder, "log", number, &[&[1], &record[..]].concat())?;
    }
    put(folder, "log", records.len(), &[&[0], &export[..]].concat())?;
    let place = tempfile::tempdir()?;
    let path = place.path().join("log");
    let written = LogFolder::create(&path, &entries[0])?;
    for part in entries[1..].chunks(3) {
        let now_ms = crate::log::NOW_MS;
        let added = written.append(|log| {
            let added = log.offer(part.to_vec(), now_ms).added;
            let count = added.len();
            Ok::<_, talaria_log::LogError>((added, count))
        })?;
        assert_eq!(added, part.len());
    }
    let end = usize::try_from(written.bytes())?;
    let segment = fs::read(path.join("segments/00000000"))?;
    let found = scan(&segment[..end + 64], 0)?;
    assert!(found.tail == Tail::Clean && found.frames.len() > 2);
    put(folder, "log", records.len() + 1, &[&[2], &segment[..end + 64]].concat())?;
    put(folder, "log", records.len() + 2, &[&[2], &segment[..end - 9]].concat())?;
    let mut maker = Maker::new(&certificate, &mut key, [3; 16]).ok_or("not their key")?;
    let snapshot = written.put_snapshot(&mut maker, crate::log::NOW_MS)?;
    let mut file = vec![3];
    written.write_snapshot(&snapshot, &mut file, Path::new("seed"))?;
    SnapshotFile::read(&mut &file[1..], written.id())?;
    put(folder, "log", records.len() + 3, &file)?;
    // What stands inside ciphertexts of the place that the target has.
    let (log, object, author, epoch) = ([1; 32], [2; 32], [6; 33], [3; 32]);
    let key = [&b"TLGK\x01"[..], &log, &object, b"\0\x02a*", &author, &[9; 32]].concat();
    let value = [&b"TLGV\x01"[..], &log, &object, b"\0\x02ab", &author, &epoch, b"\x01x"].concat();
    for (number, plain) in [key, value].into_iter().enumerate() {
        put(folder, "log", records.len() + 4 + number, &[&[4], &plain[..]].concat())?;
    }
    Ok(())
}

/// Packs and indexes of a backup.
fn backup(folder: &Path) -> Result<(), Box<dyn std::error::Error>> {
    use crate::backup::{REPOSITORY, seed};
    use talaria_backup::{
        IndexedPack, ObjectHash, check_lease, parse_attestation, parse_drill, parse_pack,
        parse_plan, parse_tombstone, parse_verified, write_index,
    };
    let plains: [&[&[u8]]; 3] = [&[], &[b"one"], &[b"first", &[7; 600], b""]];
    for (number, plains) in plains.into_iter().enumerate() {
        let (content, chunks) = seed(plains);
        // A seed that is refused would teach the fuzzer nothing.
        assert_eq!(parse_pack("seed", &content, REPOSITORY)?, chunks);
        put(folder, "pack", number, &content)?;
        let pack = IndexedPack { hash: ObjectHash([9; 32]), bytes: 1 << 20, chunks };
        let packs = vec![pack; number];
        put(folder, "index", number, write_index(REPOSITORY, &packs).as_bytes())?;
    }
    let (client, id, nonce) = ("AB".repeat(20), "cd".repeat(32), "05".repeat(16));
    let documents = [
        ("forgotten", format!("snapshot none 0 {id}\nsnapshot {client} 17 {id}\n")),
        ("attested", format!("snapshot {client} 17 {id}\n")),
        ("verified", format!("pack {id} {id}\ndamaged {id}\n")),
        ("plan", format!("plan none\npack {id}\n")),
        (
            "drill",
            format!(
                "reader {client}\nhost alpha\nsnapshot none 0 {id}\nsample 10\nentries 3\nfiles 2\nbytes 9\nfailed 0\n"
            ),
        ),
        ("lease", format!("client {client}\nrun {nonce}\nbeat end\n")),
    ];
    for (number, (kind, rest)) in documents.into_iter().enumerate() {
        let time = "time 2026-11-22T21:05:06Z";
        let text = format!(
            "talaria backup {kind} 1\nrepository {REPOSITORY}\nnonce {nonce}\n{time}\n{rest}"
        );
        let text = text.as_bytes();
        // A seed that is refused would teach the fuzzer nothing.
        match kind {
            "attested" => assert_eq!(parse_attestation("seed", text, REPOSITORY)?.len(), 1),
            "verified" => assert_eq!(parse_verified("seed", text, REPOSITORY)?.0.len(), 1),
            "forgotten" => assert_eq!(parse_tombstone("seed", text, REPOSITORY)?.len(), 2),
            "plan" => assert_eq!(parse_plan("seed", text, REPOSITORY)?.len(), 1),
            "drill" => assert_eq!(parse_drill("seed", text, REPOSITORY)?.sample, 10),
            _ => check_lease("seed", text, REPOSITORY)?,
        }
        put(folder, "signed", number, text)?;
    }
    Ok(())
}

/// A certificate in its original and its later form, with a signature by it.
fn judged(
    folder: &Path,
    number: usize,
    cert: &talaria_message::openpgp::Cert,
    signature: &[u8],
) -> Result<(), Box<dyn std::error::Error>> {
    use crate::known::{joined, keys};
    use talaria_message::make::{self, RevocationReason, Revoked};
    use talaria_message::openpgp::Packet;
    use talaria_message::openpgp::serialize::MarshalInto as _;
    let ask = &mut |_: usize, _: &talaria_message::openpgp::packet::Key<_, _>| None;
    let revoked = |what, reason| {
        let made = make::revoke(cert, what, reason, "", &mut |_, _| None, NOW);
        made.map(|signature| vec![Packet::from(signature)])
    };
    let subkey = cert.keys().subkeys().next().ok_or("it has subkeys")?;
    let ends = make::set_expiry(cert, Some(NOW + 9), ask, NOW - 9)?;
    let changes = [
        Vec::new(),
        ends.into_iter().map(Packet::from).collect(),
        revoked(Revoked::Certificate, RevocationReason::Retired)?,
        revoked(Revoked::Certificate, RevocationReason::Compromised)?,
        revoked(Revoked::Subkey(subkey.key()), RevocationReason::Superseded)?,
        make::add_user_id(cert, "<b@c.d>", make::Rank::Primary, ask, Rules::default(), NOW)?,
    ];
    let mut certified = Vec::new();
    for other in keys().iter().filter(|other| other.fingerprint() != cert.fingerprint()) {
        let mut by = make::certifier(other, Rules::default(), NOW, ask)?;
        for user_id in make::certifiable(cert, Rules::default(), NOW)? {
            let says = make::CertifyOptions::default();
            let made = make::certify(cert, &user_id, &mut by, &says, NOW)?;
            certified.extend([Packet::from(user_id), made.into()]);
        }
    }
    for (at, packets) in changes.into_iter().chain([certified]).enumerate() {
        let changed = cert.clone().strip_secret_key_material().insert_packets(packets)?.0;
        let bytes = changed.to_vec()?;
        for choice in [1, 2] {
            let input = joined(choice, &bytes, signature);
            put(folder, "judged", number + at, &input)?;
            put(folder, "stored", number + at, &input)?;
        }
    }
    Ok(())
}
