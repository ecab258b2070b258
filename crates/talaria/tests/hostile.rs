//! Hostile input to an import: it is refused by name, in bounded time and memory, without
//! harm to other input and to the store.

use std::fs::{self, File};
use std::io::{self, BufWriter, Read as _, Write as _};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::AtomicBool;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use talaria::cert::{CERT_BYTES_MAX, Cert, PACKET_BYTES_MAX, Tag, enarmor};
use talaria::store::{Access, Cursor, Depth, Order, Store};
use talaria::{FileReport, ImportOptions, Input, Monitor, import};
use talaria_corpus::{CorpusProfile, Generate, certs};

/// A time at which the generated certificates are in their prime.
const NOW: u32 = 1_740_000_000;

const MIB: usize = 1 << 20;

/// A store in its own folder. Tests that measure time or memory need the machine for
/// themselves, so there is one at a time.
struct Ground {
    folder: tempfile::TempDir,
    store: Store,
    _alone: MutexGuard<'static, ()>,
}

impl Ground {
    fn new() -> Self {
        static ALONE: Mutex<()> = Mutex::new(());
        let alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(&folder.path().join("certs.db"), Access::Create).unwrap();
        Self { folder, store, _alone: alone }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn import_file(&mut self, path: &Path) -> FileReport {
        let options = ImportOptions::new(NOW);
        let stop = AtomicBool::new(false);
        let mut monitor = Monitor { report: &mut |_| {}, stop: &stop };
        let inputs = [Input::Path(path.to_owned())];
        import(&mut self.store, &inputs, options, &mut monitor).unwrap().remove(0)
    }

    fn import(&mut self, bytes: &[u8]) -> FileReport {
        let path = self.path("input");
        fs::write(&path, bytes).unwrap();
        self.import_file(&path)
    }

    fn has(&self, cert: &Cert) -> bool {
        let stored = self.store.get(cert.fingerprint()).unwrap();
        stored.is_some_and(|stored| stored.cert.union(cert) == stored.cert)
    }

    /// Lists and reads all certificates, and returns their number.
    fn assert_usable(&self) -> usize {
        let mut rows = 0;
        let list = |row| {
            self.store.current(row, talaria::cert::Rules::Standard, NOW.into()).unwrap();
            rows += 1;
            ControlFlow::Continue(())
        };
        self.store.walk(&mut Cursor::start(Order::Insertion), list).unwrap();
        assert_eq!(self.store.check(Depth::Signatures, |_| {}).unwrap().findings, []);
        rows
    }
}

fn corpus(count: u64) -> Vec<Cert> {
    certs(&Generate { seed: 3, first: 0, count, profile: CorpusProfile::ed25519() })
}

/// A packet with a length of five bytes.
fn packet(tag: Tag, body: &[u8]) -> Vec<u8> {
    let mut out = header(tag, u32::try_from(body.len()).unwrap());
    out.extend_from_slice(body);
    out
}

fn header(tag: Tag, length: u32) -> Vec<u8> {
    let mut out = vec![0xc0 | tag.0, 255];
    out.extend(length.to_be_bytes());
    out
}

/// Only the primary key.
fn primary(cert: &Cert) -> Vec<u8> {
    packet(Tag::PUBLIC_KEY, cert.packets().next().unwrap().body)
}

/// A key on NIST P-256 with a point that may not be on the curve: its signatures take the
/// slowest path.
fn slow_key() -> Vec<u8> {
    let mut body = vec![4, 0x50, 0, 0, 0, 19, 8, 0x2a, 0x86, 0x48, 0xce, 0x3d, 3, 1, 7, 2, 3, 4];
    body.extend([0x5a; 64]);
    body
}

/// A version 4 signature of type `kind` with these subpackets and meaningless numbers.
fn signature(kind: u8, algorithm: u8, hashed: &[u8], unhashed: &[u8], prefix: [u8; 2]) -> Vec<u8> {
    let length = |area: &[u8]| u16::try_from(area.len()).unwrap().to_be_bytes();
    let mut body = vec![4, kind, algorithm, 8];
    body.extend(length(hashed));
    body.extend_from_slice(hashed);
    body.extend(length(unhashed));
    body.extend_from_slice(unhashed);
    body.extend(prefix);
    for _ in 0..2 {
        body.extend([1, 0]);
        body.extend([0x81; 32]);
    }
    body
}

/// Subpackets for the creation time and the issuer key ID.
fn made_by(issuer: u64, time: u32) -> Vec<u8> {
    let mut area = vec![5, 2];
    area.extend(time.to_be_bytes());
    area.extend([9, 16]);
    area.extend(issuer.to_be_bytes());
    area
}

/// Runs `work` and returns the peak growth of the memory of the process in bytes;
/// `None` if the system does not report it.
fn memory_growth<T>(work: impl FnOnce() -> T) -> (T, Option<usize>) {
    let status = |name: &str| -> Option<usize> {
        let text = fs::read_to_string("/proc/self/status").ok()?;
        let line = text.lines().find(|line| line.starts_with(name))?;
        line.split_whitespace().nth(1)?.parse::<usize>().ok().map(|kib| kib << 10)
    };
    // Resets the high-water mark (proc(5)).
    let _ = fs::write("/proc/self/clear_refs", "5");
    let before = status("VmRSS:");
    let result = work();
    (result, status("VmHWM:").zip(before).map(|(peak, before)| peak.saturating_sub(before)))
}

fn assert_below(growth: Option<usize>, mib: usize) {
    let Some(growth) = growth else { return };
    assert!(growth <= mib * MIB, "memory grew by {} MiB", growth / MIB);
}

#[test]
fn a_truncated_certificate_is_refused_and_its_neighbours_are_read() {
    let mut ground = Ground::new();
    let all = corpus(4);
    let [before, cut, ..] = &all[..] else { unreachable!() };
    let raw = cut.as_bytes();
    let start = before.as_bytes().len();
    let mut ends = vec![0];
    for packet in cut.packets() {
        let end = packet.body.as_ptr() as usize + packet.body.len() - raw.as_ptr() as usize;
        ends.push(end);
    }
    for length in 0..raw.len() {
        // At the end of the input.
        let report = ground.import(&[before.as_bytes(), &raw[..length]].concat());
        assert!(ground.has(before));
        assert_eq!(report.error, None);
        let whole_packets = ends.contains(&length);
        assert_eq!(report.rejected_count, u64::from(!whole_packets), "{length}: {report:?}");
        if let Some(rejected) = report.rejected.first() {
            let offset: usize = rejected.place["offset ".len()..].parse().unwrap();
            assert!((start..start + length).contains(&offset), "{length}: {report:?}");
        }
    }
    assert_eq!(ground.assert_usable(), 2);
    drop(ground);
    for length in 0..raw.len() {
        // Between others: a truncated certificate swallows the start of the next one.
        let mut ground = Ground::new();
        let parts = [before.as_bytes(), &raw[..length], all[2].as_bytes(), all[3].as_bytes()];
        let report = ground.import(&parts.concat());
        let has = [&all[0], &all[2], &all[3]].map(|cert| ground.has(cert));
        assert!(has[0] && has[2], "{length}: {report:?}");
        // If the swallowed part ends at the end of a packet, nobody can notice it.
        assert!(has[1] || report.rejected_count == 0, "{length}: {report:?}");
    }
}

#[test]
fn random_bytes_do_not_hide_certificates_before_them() {
    let mut ground = Ground::new();
    let good = &corpus(1)[0];
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut random = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    for round in 0..200 {
        let length = usize::try_from(random() % (1 << (round % 17))).unwrap() + 1;
        let mut noise: Vec<u8> = (0..length).map(|_| random().to_be_bytes()[0]).collect();
        let report = ground.import(&[good.as_bytes(), &noise].concat());
        assert_eq!(report.error, None, "round {round}");
        assert!(ground.has(good), "round {round}");
        // Alone, as packets or as another format chosen by the first byte.
        ground.import(&noise);
        noise[0] |= 0x80;
        let report = ground.import(&noise);
        assert!(report.rejected_count > 0, "round {round}: {report:?}");
    }
    // Random bytes may look like a key.
    assert!((1..10).contains(&ground.assert_usable()));
}

#[test]
fn false_lengths_allocate_nothing() {
    let mut ground = Ground::new();
    let good = &corpus(1)[0];
    let key = primary(good);
    let ((), growth) = memory_growth(|| {
        for length in [1 << 24, (1 << 24) + 1, 1 << 31, u32::MAX - 1, u32::MAX] {
            for tag in [2, 6, 13, 14, 17, 21, 63] {
                let lie = [&key[..], &header(Tag(tag), length), b"short"].concat();
                let old =
                    [&key[..], &[0x82 | tag << 2 & 0x3c], &length.to_be_bytes(), b"x"].concat();
                for lie in [lie, old] {
                    let report = ground.import(&[good.as_bytes(), &lie].concat());
                    assert!(ground.has(good));
                    assert_eq!(report.rejected_count, 1, "{tag} {length}: {report:?}");
                    // At the key or at the packet after it.
                    let offset: usize =
                        report.rejected[0].place["offset ".len()..].parse().unwrap();
                    let at = offset.checked_sub(good.as_bytes().len());
                    assert!([Some(0), Some(key.len())].contains(&at), "{tag} {length}: {report:?}");
                }
            }
        }
    });
    assert_below(growth, 150);
    // Lengths within packets: numbers, curve, material of a version 6 key, salt and areas of
    // signatures, subpackets, images.
    let mut inner = vec![
        packet(Tag::PUBLIC_KEY, &[4, 0, 0, 0, 1, 1, 0xff, 0xff, 1]),
        packet(Tag::PUBLIC_KEY, &[4, 0, 0, 0, 1, 22, 0xff, 1]),
        packet(Tag::PUBLIC_KEY, &[6, 0, 0, 0, 1, 27, 0xff, 0xff, 0xff, 0xff, 1]),
    ];
    for body in [
        &[4, 0x13, 22, 8, 0xff, 0xff, 1][..],
        &[4, 0x13, 22, 8, 0, 6, 255, 0xff, 0xff, 0xff, 0xff, 2, 0, 0, 1, 2],
        &[6, 0x13, 27, 8, 0xff, 0xff, 0xff, 0xff, 1],
        &[6, 0x13, 27, 8, 0, 0, 0, 0, 0, 0, 0, 0, 1, 2, 255, 1],
        &[3, 255, 0x10],
    ] {
        inner.push([&key[..], &packet(Tag::SIGNATURE, body)].concat());
    }
    for body in [&[255, 0xff, 0xff, 0xff, 0xff, 1][..], &[254, 255, 1], &[0; 1000], &[255], &[]] {
        inner.push([&key[..], &packet(Tag::USER_ATTRIBUTE, body)].concat());
        inner.push([&key[..], &packet(Tag::PUBLIC_SUBKEY, body)].concat());
    }
    let (report, growth) = memory_growth(|| ground.import(&inner.concat()));
    assert_eq!((report.error, report.rejected_count), (None, 3), "the keys are malformed");
    assert_below(growth, 100);
    assert_eq!(ground.assert_usable(), 1);
}

#[test]
fn a_user_id_of_100_mb_is_skipped_and_reported() {
    let mut ground = Ground::new();
    let all = corpus(3);
    let path = ground.path("large");
    let mut out = BufWriter::new(File::create(&path).unwrap());
    out.write_all(all[0].as_bytes()).unwrap();
    out.write_all(&primary(&all[1])).unwrap();
    let length = 100 << 20;
    out.write_all(&header(Tag::USER_ID, length)).unwrap();
    io::copy(&mut io::repeat(b'A').take(length.into()), &mut out).unwrap();
    out.write_all(all[2].as_bytes()).unwrap();
    out.into_inner().unwrap();
    let (report, growth) = memory_growth(|| ground.import_file(&path));
    assert_below(growth, 200);
    assert_eq!((report.new, report.rejected_count, report.error), (2, 1, None));
    let rejected = &report.rejected[0];
    assert_eq!(rejected.place, format!("offset {}", all[0].as_bytes().len()));
    assert_eq!(
        rejected.reason,
        format!("packet of type 13 has {length} bytes, the limit is {PACKET_BYTES_MAX}")
    );
    assert!(ground.has(&all[0]) && ground.has(&all[2]));
    assert_eq!(ground.assert_usable(), 2);
}

#[test]
fn a_user_id_of_the_largest_size_can_be_used() {
    let mut ground = Ground::new();
    let good = &corpus(1)[0];
    let text: Vec<u8> = (b'a'..b'x').cycle().take(PACKET_BYTES_MAX).collect();
    let raw = [primary(good), packet(Tag::USER_ID, &text)].concat();
    let (report, growth) = memory_growth(|| ground.import(&raw));
    assert_eq!((report.new, report.rejected_count), (1, 0));
    assert_below(growth, 700);
    assert_eq!(ground.assert_usable(), 1);
}

/// A certificate with additional signatures: every other one by a stranger, the rest
/// with the key itself as the claimed issuer.
fn signed(cert: &Cert, count: u32) -> Vec<u8> {
    let own = cert.fingerprint().key_id().0;
    let mut raw = cert.as_bytes().to_vec();
    for number in 0..count {
        let issuer = if number % 2 == 0 { own } else { u64::from(number) };
        let body = signature(0x10, 22, &made_by(issuer, NOW - number), &[], [0, 0]);
        raw.extend(packet(Tag::SIGNATURE, &body));
    }
    raw
}

#[test]
fn time_is_linear_in_the_number_of_signatures() {
    let times = [25_000, 50_000, 100_000].map(|count| {
        // The best of some runs excludes other load of the machine.
        (0..3)
            .map(|_| times_of_signatures(count))
            .reduce(|a, b| [0, 1, 2].map(|at| a[at].min(b[at])))
    });
    println!("import, join, list and check of 25k, 50k, 100k signatures: {times:?}");
    let [Some(small), _, Some(large)] = times else { unreachable!() };
    for (large, small) in large.iter().zip(small) {
        // Four times the size: linear work takes four times as long, quadratic work sixteen times.
        let floor = small.max(Duration::from_millis(5));
        assert!(large.as_secs_f64() < 8.0 * floor.as_secs_f64(), "{times:?}");
    }
}

/// The time to import a certificate with so many signatures, to merge it twice, and to list
/// and check it.
fn times_of_signatures(count: u32) -> [Duration; 3] {
    let cert = &corpus(1)[0];
    let mut ground = Ground::new();
    let raw = signed(cert, count);
    let started = Instant::now();
    let report = ground.import(&raw);
    let first = started.elapsed();
    assert_eq!((report.new, report.rejected_count), (1, 0));
    let started = Instant::now();
    let report = ground.import(&signed(cert, 10));
    assert_eq!((report.updated, report.unchanged), (0, 1), "nothing in it is new");
    let extra = packet(Tag::SIGNATURE, &signature(0x10, 22, &made_by(1, 5), &[], [9, 9]));
    let report = ground.import(&[cert.as_bytes(), &extra].concat());
    assert_eq!(report.updated, 1);
    let second = started.elapsed();
    let started = Instant::now();
    assert_eq!(ground.assert_usable(), 1);
    let third = started.elapsed();
    let row = ground.store.row(cert.fingerprint()).unwrap().unwrap();
    let expected = cert.signature_count() + count as usize + 1;
    assert_eq!(row.summary.signatures as usize, expected);
    assert_eq!(ground.store.stored(row.id).unwrap().unwrap().verdicts.len(), expected);
    [first, second, third]
}

/// Each signature covers its component: many on a large one must not multiply.
#[test]
fn time_is_linear_in_the_signatures_on_a_large_component() {
    let mut ground = Ground::new();
    let cert = &corpus(1)[0];
    let own = cert.fingerprint().key_id().0;
    let mut raw = primary(cert);
    raw.extend(packet(Tag::USER_ATTRIBUTE, &vec![7; 15 * MIB]));
    for number in 0..2000 {
        let body = signature(0x10, 22, &made_by(own, NOW - number), &[], [0, 0]);
        raw.extend(packet(Tag::SIGNATURE, &body));
    }
    let started = Instant::now();
    let report = ground.import(&raw);
    let elapsed = started.elapsed();
    println!("2000 signatures on 15 MiB: {elapsed:?}");
    assert_eq!(report.new, 1);
    assert!(elapsed < Duration::from_secs(5), "{elapsed:?}");
    assert_eq!(ground.assert_usable(), 1);
}

#[test]
fn the_refusal_of_a_too_large_certificate_names_it() {
    let mut ground = Ground::new();
    let all = corpus(4);
    let path = ground.path("large");
    let mut out = BufWriter::new(File::create(&path).unwrap());
    out.write_all(all[0].as_bytes()).unwrap();
    out.write_all(&primary(&all[1])).unwrap();
    for number in 0..6 {
        out.write_all(&packet(Tag::USER_ATTRIBUTE, &vec![number; 15 * MIB])).unwrap();
    }
    out.write_all(all[2].as_bytes()).unwrap();
    out.into_inner().unwrap();
    let (report, growth) = memory_growth(|| ground.import_file(&path));
    assert_eq!((report.new, report.rejected_count), (2, 1), "{report:?}");
    let rejected = &report.rejected[0];
    assert_eq!(rejected.place, format!("offset {}", all[0].as_bytes().len()));
    assert_eq!(rejected.reason, format!("certificate has more than {CERT_BYTES_MAX} bytes"));
    assert_below(growth, 450);
    // Two copies that are too large only together.
    for (part, expected) in [(10, (1, 0)), (20, (0, 1))] {
        let mut raw = primary(&all[3]);
        for number in 0..3 {
            raw.extend(packet(Tag::USER_ATTRIBUTE, &vec![part + number; 15 * MIB]));
        }
        let report = ground.import(&raw);
        assert_eq!((report.new, report.rejected_count), expected, "{report:?}");
        if let Some(rejected) = report.rejected.first() {
            assert_eq!(rejected.fingerprint, Some(all[3].fingerprint().to_string()));
            assert!(rejected.reason.contains(&CERT_BYTES_MAX.to_string()), "{rejected:?}");
        }
    }
    assert_eq!(ground.assert_usable(), 3);
}

/// Signatures nested in signatures, as deep as `bytes` allow.
fn nested(bytes: usize) -> Vec<u8> {
    let mut inner = signature(0x19, 19, &[], &[], [0, 0]);
    loop {
        let mut area = vec![255];
        area.extend(u32::try_from(inner.len() + 1).unwrap().to_be_bytes());
        area.push(32);
        area.extend_from_slice(&inner);
        if area.len() > bytes {
            return area;
        }
        // The shortest possible signature, without numbers.
        inner = vec![4, 0x19, 19, 8, 0, 0];
        inner.extend(u16::try_from(area.len()).unwrap().to_be_bytes());
        inner.extend(area);
        inner.extend([0, 0]);
    }
}

#[test]
fn deeply_nested_packets_are_not_followed() {
    let mut ground = Ground::new();
    let good = &corpus(1)[0];
    let user_id = b"Mallory <mallory@example.org>";
    for key in [slow_key(), good.packets().next().unwrap().body.to_vec()] {
        let raw = [packet(Tag::PUBLIC_KEY, &key), packet(Tag::USER_ID, user_id)].concat();
        let cert = Cert::parse(&raw).unwrap();
        let own = cert.fingerprint().key_id().0;
        let hashed = made_by(own, NOW - 5);
        for depth_bytes in [100, 1000, 10_000, 65_000] {
            let unhashed = nested(depth_bytes);
            // The digest prefix matches, so that the whole signature is examined.
            let prefix =
                digest_prefix(&key, user_id, &signature(0x13, key[5], &hashed, &[], [0, 0]));
            let body = signature(0x13, key[5], &hashed, &unhashed, prefix);
            let report = ground.import(&[&raw[..], &packet(Tag::SIGNATURE, &body)].concat());
            assert_eq!((report.error.as_deref(), report.rejected_count), (None, 0));
        }
    }
    // Images within images within images.
    let mut attribute = vec![1];
    for _ in 0..10_000 {
        let mut outer = vec![255];
        outer.extend(u32::try_from(attribute.len()).unwrap().to_be_bytes());
        outer.extend_from_slice(&attribute);
        attribute = outer;
    }
    let raw = [good.as_bytes(), &packet(Tag::USER_ATTRIBUTE, &attribute)].concat();
    assert_eq!(ground.import(&raw).rejected_count, 0);
    assert_eq!(ground.assert_usable(), 2);
}

/// The first 16 bits of the SHA-256 digest of a certification (RFC 9580, section 5.2.4).
fn digest_prefix(key: &[u8], user_id: &[u8], signature: &[u8]) -> [u8; 2] {
    let hashed = 6 + usize::from(u16::from_be_bytes([signature[4], signature[5]]));
    let mut data = vec![0x99];
    data.extend(u16::try_from(key.len()).unwrap().to_be_bytes());
    data.extend_from_slice(key);
    data.push(0xb4);
    data.extend(u32::try_from(user_id.len()).unwrap().to_be_bytes());
    data.extend_from_slice(user_id);
    data.extend_from_slice(&signature[..hashed]);
    data.extend([4, 0xff]);
    data.extend(u32::try_from(hashed).unwrap().to_be_bytes());
    let digest = openssl::sha::sha256(&data);
    [digest[0], digest[1]]
}

#[test]
fn endless_armor_uses_bounded_memory() {
    let mut ground = Ground::new();
    let good = corpus(1);
    // Only base64 digits; endless user IDs; endless begin lines.
    let packets = [&[0xcd, 46][..], &[b'x'; 46]].concat();
    let line = enarmor(&packets).lines().nth(2).unwrap().to_owned();
    let begin = "-----BEGIN PGP PUBLIC KEY BLOCK-----".to_owned();
    let one = enarmor(good[0].as_bytes());
    let unfinished = enarmor(&primary(&good[0]));
    let unfinished: Vec<&str> = unfinished.lines().take(4).collect();
    let unfinished = unfinished.join("\n").trim_end_matches('=').to_owned();
    for (start, again, bytes) in [
        (one.clone() + &begin + "\n\n", "A".repeat(64), 200 << 20),
        (one.clone() + &unfinished + "\n", line, 200 << 20),
        (one.clone(), begin + "\n\n*", 50 << 20),
    ] {
        let path = ground.path("endless.asc");
        let mut out = BufWriter::new(File::create(&path).unwrap());
        out.write_all(start.as_bytes()).unwrap();
        let lines = format!("{again}\n").repeat(1000);
        let mut written = 0;
        while written < bytes {
            out.write_all(lines.as_bytes()).unwrap();
            written += lines.len();
        }
        out.into_inner().unwrap();
        let started = Instant::now();
        let (report, growth) = memory_growth(|| ground.import_file(&path));
        println!("{written} bytes of armor: {:?}, {growth:?} bytes", started.elapsed());
        assert_eq!(report.error, None);
        assert!(report.rejected_count > 0 && report.rejected.len() <= 1000);
        assert!(ground.has(&good[0]), "{report:?}");
        assert_below(growth, 400);
        fs::remove_file(&path).unwrap();
    }
    assert_eq!(ground.assert_usable(), 1);
}

#[test]
fn a_damaged_armor_block_does_not_affect_its_neighbours() {
    let all = corpus(3);
    let blocks: Vec<String> = all.iter().map(|cert| enarmor(cert.as_bytes())).collect();
    let lines = blocks[1].lines().count();
    let mut refused = Vec::new();
    for damaged in 2..lines - 1 {
        for damage in ["*** this is no base64 ***", ""] {
            // A line is replaced, and in the other case everything from it on is missing.
            let mut middle: Vec<&str> = blocks[1].lines().collect();
            middle[damaged] = damage;
            if damage.is_empty() {
                middle.truncate(damaged);
            }
            let text = format!("{}\n{}\n{}", blocks[0], middle.join("\n"), blocks[2]);
            let mut ground = Ground::new();
            let report = ground.import(text.as_bytes());
            assert!(ground.has(&all[0]), "line {damaged}: {report:?}");
            if !ground.has(&all[2]) {
                refused.push((damaged, damage, report.rejected.clone()));
            }
            assert!(report.rejected_count > 0, "line {damaged} {damage:?}: {report:?}");
            ground.assert_usable();
        }
    }
    assert!(refused.is_empty(), "the block behind was lost: {refused:#?}");
}

#[test]
fn only_the_public_part_of_secret_keys_is_stored() {
    let mut ground = Ground::new();
    let home = ground.path("home");
    fs::create_dir(&home).unwrap();
    if talaria_needs::found(talaria_needs::peer("gpg"), "gpg").is_none() {
        return;
    }
    let gpg = |args: &[&str]| {
        let output = Command::new("gpg")
            .arg("--homedir")
            .arg(&home)
            .args(["--batch", "--quiet", "--passphrase", "", "--pinentry-mode", "loopback"])
            .args(args)
            .stderr(Stdio::null())
            .output()
            .unwrap();
        assert!(output.status.success(), "gpg {args:?}");
        output.stdout
    };
    for (algorithm, name) in [("rsa2048", "rsa"), ("ed25519", "ed"), ("nistp256", "nist")] {
        gpg(&["--quick-gen-key", &format!("{name}@example.org"), algorithm, "cert,sign", "2y"]);
        let listing = gpg(&["--with-colons", "--list-keys", &format!("{name}@example.org")]);
        let listing = String::from_utf8(listing).unwrap();
        let fingerprint = listing.lines().find_map(|line| line.strip_prefix("fpr:::::::::"));
        let fingerprint = fingerprint.unwrap().trim_end_matches(':').to_owned();
        let subkey = if algorithm == "rsa2048" { "rsa2048" } else { "cv25519" };
        gpg(&["--quick-add-key", &fingerprint, subkey, "encr", "2y"]);
        let public = Cert::parse(&gpg(&["--export", &fingerprint])).unwrap();
        for export in ["--export-secret-keys", "--export-secret-subkeys"] {
            let secret = gpg(&[export, &fingerprint]);
            let armored = gpg(&["--armor", export, &fingerprint]);
            for raw in [&secret, &armored] {
                let report = ground.import(raw);
                assert_eq!((report.read, report.rejected_count), (1, 0), "{algorithm}: {report:?}");
                let stored = ground.store.get(public.fingerprint()).unwrap().unwrap();
                assert_eq!(stored.cert, public, "{algorithm}, {export}");
            }
        }
    }
    let _ = Command::new("gpgconf").arg("--homedir").arg(&home).args(["--kill", "all"]).status();
    assert_eq!(ground.assert_usable(), 3);
}

#[test]
fn one_bad_certificate_does_not_stop_the_rest() {
    let all = corpus(20);
    let bad = 7;
    let start: usize = all[..bad].iter().map(|cert| cert.as_bytes().len()).sum();
    type Damage = fn(&mut Vec<u8>);
    let damages: [(&str, Damage); 5] = [
        ("an unknown version", |raw| raw[2] = 99),
        ("a number longer than the packet", |raw| raw[18] = 0xff),
        ("a byte that starts no packet", |raw| {
            let at = 2 + usize::from(raw[1]);
            raw[at] = 0x20;
        }),
        ("a partial length", |raw| {
            let at = 2 + usize::from(raw[1]);
            raw[at + 1] = 0xe5;
        }),
        ("some bytes lost", |raw| drop(raw.drain(100..130))),
    ];
    for (what, damage) in damages {
        let mut ground = Ground::new();
        let mut raw: Vec<Vec<u8>> = all.iter().map(|cert| cert.as_bytes().to_vec()).collect();
        damage(&mut raw[bad]);
        let report = ground.import(&raw.concat());
        let lost: Vec<usize> = (0..all.len()).filter(|&at| !ground.has(&all[at])).collect();
        assert_eq!(lost, [bad], "{what}: {report:?}");
        assert!(report.rejected_count > 0, "{what}: {report:?}");
        let offset: usize = report.rejected[0].place["offset ".len()..].parse().unwrap();
        let range = start..start + raw[bad].len();
        assert!(range.contains(&offset), "{what}: {report:?}");
        // Its complete parts may be in the store.
        assert!((19..=20).contains(&ground.assert_usable()), "{what}");
    }
}
