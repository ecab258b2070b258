//! One judge of certificates: listings, encryption, signatures and the bindings agree about what a
//! certificate may be used for, on the keyrings of distributions.

use std::collections::{BTreeSet, HashMap};
use std::io::Read as _;
use std::ops::ControlFlow;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, SystemTime};

use proptest::collection::vec;
use proptest::prelude::{Strategy, any, prop_assert, prop_oneof};
use proptest::sample::Index;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
use rayon::prelude::*;
use talaria::cert::{
    Armor, BATCH_BYTES, Capabilities, Cert as OwnCert, Fault, Gnupg, Judge, Purpose, Rules,
    Splitter, Summary, Tag, Verification, Verified, verdicts,
};
use talaria::message::openpgp::cert::{CertBuilder, CertParser};
use talaria::message::openpgp::packet::signature::SignatureBuilder;
use talaria::message::openpgp::parse::Parse as _;
use talaria::message::openpgp::policy::StandardPolicy;
use talaria::message::openpgp::serialize::MarshalInto as _;
use talaria::message::openpgp::types::{KeyFlags, RevocationStatus, SignatureType};
use talaria::message::openpgp::{Cert, Packet};
use talaria::message::{Recipients, judge, read_cert, usable};
use talaria::store::{Access, Cursor, Order, Row, Store};
use talaria::{ImportOptions, Input, Monitor, import};
use talaria_corpus::{CorpusProfile, Generate};

const KEYRINGS: [&str; 2] =
    ["/usr/share/keyrings/debian-keyring.gpg", "/usr/share/keyrings/archlinux.gpg"];

/// 2026-11-25.
const NOW: u32 = 1_795_564_800;

/// Whether a certificate has a key of a kind that nobody here can compute with. It is listed as
/// what it is, and refused by name.
fn has_unsupported(cert: &Cert) -> bool {
    cert.keys().any(|key| !key.key().pk_algo().is_supported())
}

/// The keys that Sequoia, with the policy that `sq` has by default, uses for a purpose.
fn by_sequoia(cert: &Cert, purpose: Purpose, now: u32) -> BTreeSet<String> {
    let time = SystemTime::UNIX_EPOCH + Duration::from_secs(now.into());
    let policy = StandardPolicy::new();
    let Ok(valid) = cert.with_policy(&policy, time) else { return BTreeSet::new() };
    let is_revoked = matches!(valid.revocation_status(), RevocationStatus::Revoked(_));
    if is_revoked || valid.alive().is_err() {
        return BTreeSet::new();
    }
    let keys = valid.keys().alive().revoked(false).supported();
    let keys = match purpose {
        Purpose::Certify => keys.for_certification(),
        Purpose::Sign => keys.for_signing(),
        Purpose::Encrypt => keys.for_storage_encryption().for_transport_encryption(),
        Purpose::Authenticate => keys.for_authentication(),
    };
    keys.map(|key| key.key().fingerprint().to_hex()).collect()
}

#[test]
fn strict_rules_are_those_of_sequoia() {
    for keyring in KEYRINGS {
        if !Path::new(keyring).exists() {
            talaria_needs::left_out("debian-keyring");
            continue;
        }
        let (mut asked, mut different) = (0, Vec::new());
        for cert in CertParser::from_file(keyring).unwrap().map(Result::unwrap) {
            let judge = judge(&cert, Rules::Strict, &mut |_| None, NOW).unwrap();
            for purpose in Purpose::ALL {
                asked += 1;
                let theirs = by_sequoia(&cert, purpose, NOW);
                let found = judge.usable(purpose, NOW);
                let ours = found.as_ref().map_or_else(
                    |_| BTreeSet::new(),
                    |found| found.keys.iter().map(ToString::to_string).collect(),
                );
                if ours != theirs {
                    different.push(format!(
                        "{} {purpose}: {found:?}, Sequoia: {theirs:?}",
                        cert.fingerprint()
                    ));
                }
            }
        }
        assert!(asked > 400, "{asked}");
        assert!(different.is_empty(), "{} of {asked}\n{}", different.len(), different.join("\n"));
    }
}

/// What of a certificate is answered differently by a listing, by encryption and by signing.
/// `listed` is the summary by the standard rules.
fn disagreements(own: &OwnCert, listed: &Summary, now: u32) -> Vec<String> {
    let verdicts = verdicts(&[own], Verification::Full).remove(0);
    let name = own.fingerprint();
    let mut found = Vec::new();
    for rules in Rules::ALL {
        let judge = Judge::new(Verified::new(own.clone()), rules, now, |_| None);
        let by_these = Summary::by(rules, own, &verdicts, now);
        // What the stored summary says by other rules without a look at the certificate.
        if let Ok(known) = listed.clone().under(rules) {
            let Summary { gnupg_differs, holds, .. } = known;
            let by_these = Summary { gnupg_differs, holds, ..by_these.clone() };
            if known != by_these {
                found.push(format!("{name} {}: {known:?}, {by_these:?}", rules.name()));
            }
        }
        let listed = if rules == Rules::Standard { listed } else { &by_these };
        for purpose in Purpose::ALL {
            let is_listed = listed.able(now).has(purpose.capability().0);
            let judged = judge.usable(purpose, now);
            // Signatures of others by such a key count, and the owner makes none.
            let is_weak = judged.as_ref().is_err_and(|why| matches!(why.fault, Fault::Weak(_)));
            let is_made = matches!(purpose, Purpose::Certify | Purpose::Sign);
            if is_listed != (judged.is_ok() || is_made && is_weak && is_listed) {
                found.push(format!("{name} {} {purpose}: {is_listed}, {judged:?}", rules.name()));
            }
        }
    }
    let Ok(cert) = read_cert(own.as_bytes()) else { return found };
    // A signature that stands on the wrong component is put on the right one in this form.
    let again = cert.to_vec().ok().and_then(|again| OwnCert::parse(&again).ok());
    let is_same = again.is_some_and(|again| again.packets().eq(own.packets()));
    if has_unsupported(&cert) || !is_same {
        return found;
    }
    let judge = judge(&cert, Rules::Standard, &mut |_| None, now).unwrap();
    let taken = Recipients::default().add(&cert, Rules::Standard, &mut |_| None, now);
    if listed.able(now).has(Capabilities::ENCRYPT) != taken.is_ok() {
        found.push(format!("{name} encrypt: {taken:?}"));
    }
    let signs = judge.usable(Purpose::Sign, now);
    let may = usable(&cert, Purpose::Sign, Rules::Standard, &mut |_| None, now);
    if signs.is_ok() != may.is_ok() {
        found.push(format!("{name} sign: {signs:?}"));
    }
    found
}

/// The certificates of a keyring that can be read.
fn certs_in(mut bytes: Vec<u8>) -> Vec<OwnCert> {
    if bytes.starts_with(b"-----BEGIN") {
        let mut packets = Vec::new();
        Armor::new(&bytes[..]).read_to_end(&mut packets).unwrap();
        bytes = packets;
    }
    let mut splitter = Splitter::new(&bytes[..], BATCH_BYTES);
    let mut certs = Vec::new();
    while let Some(batch) = splitter.next_batch().unwrap() {
        certs.extend(batch.certs().filter_map(|(_, raw)| OwnCert::parse(raw).ok()));
    }
    certs
}

#[test]
fn what_is_listed_as_usable_is_usable() {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs();
    let now = u32::try_from(now).unwrap();
    for keyring in KEYRINGS {
        if !Path::new(keyring).exists() {
            talaria_needs::left_out("debian-keyring");
            continue;
        }
        let folder = tempfile::tempdir().unwrap();
        let mut store = Store::open(&folder.path().join("store.db"), Access::Create).unwrap();
        let stop = AtomicBool::new(false);
        let mut monitor = Monitor { report: &mut |_| {}, stop: &stop };
        let input = Input::Path(keyring.into());
        import(&mut store, &[input], ImportOptions::new(now), &mut monitor).unwrap();
        let mut rows = Vec::new();
        let visit = |row| {
            rows.push(row);
            ControlFlow::Continue(())
        };
        store.walk(&mut Cursor::start(Order::Insertion), visit).unwrap();
        let able = |which: u8| rows.iter().filter(|row| row.summary.able(now).has(which)).count();
        let able = [able(Capabilities::ENCRYPT), able(Capabilities::SIGN)];
        assert!(able.iter().all(|&able| able > rows.len() / 4), "{able:?} of {}", rows.len());
        assert!(rows.len() > 100, "{}", rows.len());
        let stored = |row: &Row| store.stored(row.id).unwrap().unwrap().cert;
        let different: Vec<String> =
            rows.iter().flat_map(|row| disagreements(&stored(row), &row.summary, now)).collect();
        assert!(different.is_empty(), "{}", different.join("\n"));
    }
}

/// Certificates that others have made for tests, and generated ones with every defect that the
/// generator has.
fn odd_certs(count: u64) -> Vec<OwnCert> {
    let fixtures = concat!(env!("CARGO_MANIFEST_DIR"), "/../cert/tests/fixtures");
    let mut certs = Vec::new();
    for file in std::fs::read_dir(fixtures).unwrap() {
        let path = file.unwrap().path();
        if path.extension().is_some_and(|ext| ext == "asc" || ext == "pgp") {
            certs.extend(certs_in(std::fs::read(path).unwrap()));
        }
    }
    assert!(certs.len() > 20, "{}", certs.len());
    let profile = CorpusProfile {
        native_per_mille: 100,
        expired_per_mille: 200,
        revoked_per_mille: 200,
        signing_subkey_per_mille: 400,
        ..CorpusProfile::small()
    };
    certs.extend(talaria_corpus::certs(&Generate { count, profile, ..Generate::default() }));
    certs
}

#[test]
fn odd_certificates_are_judged_alike_everywhere() {
    let certs = odd_certs(10_000);
    let (able, different) = certs
        .par_iter()
        .map(|cert| {
            let verdicts = verdicts(&[cert], Verification::Full).remove(0);
            let listed = Summary::evaluate(cert, &verdicts, NOW);
            let able = usize::from(listed.able(NOW).has(Capabilities::ENCRYPT));
            let mut different = disagreements(cert, &listed, NOW);
            // Two years later, without another verification, and with a clock that is wrong.
            for time in [NOW + 730 * 86_400, NOW - 2_500 * 86_400] {
                let again = listed.at_another_time(cert, &verdicts, time);
                if again != Summary::evaluate(cert, &verdicts, time) {
                    different.push(format!("{} at {time}", cert.fingerprint()));
                }
            }
            (able, different)
        })
        .reduce(Default::default, |(able, mut all), (more, mut found)| {
            all.append(&mut found);
            (able + more, all)
        });
    assert!(able > certs.len() / 4 && able < certs.len() * 9 / 10, "{able}");
    assert!(different.is_empty(), "{}", different.join("\n"));
}

/// A change of a certificate.
#[derive(Clone, Debug)]
enum Change {
    Flip(Index, u8),
    Drop(Index),
    Repeat(Index, Index),
    Swap(Index, Index),
}

impl Change {
    fn any() -> impl Strategy<Value = Self> {
        prop_oneof![
            4 => (any::<Index>(), 1..=255_u8).prop_map(|(at, bits)| Self::Flip(at, bits)),
            1 => any::<Index>().prop_map(Self::Drop),
            1 => any::<(Index, Index)>().prop_map(|(from, to)| Self::Repeat(from, to)),
            1 => any::<(Index, Index)>().prop_map(|(one, other)| Self::Swap(one, other)),
        ]
    }

    /// Changes the packets behind the primary key; in one of them, any byte of the body.
    fn apply(&self, packets: &mut Vec<(Tag, Vec<u8>)>) {
        let len = packets.len() - 1;
        if len == 0 {
            return;
        }
        match self {
            Self::Flip(at, bits) => {
                let (_, body) = &mut packets[1 + at.index(len)];
                if !body.is_empty() {
                    let at = at.index(body.len());
                    body[at] ^= bits;
                }
            }
            Self::Drop(at) => {
                packets.remove(1 + at.index(len));
            }
            Self::Repeat(from, to) => {
                let packet = packets[1 + from.index(len)].clone();
                packets.insert(1 + to.index(len), packet);
            }
            Self::Swap(one, other) => packets.swap(1 + one.index(len), 1 + other.index(len)),
        }
    }
}

#[test]
fn changed_certificates_are_judged_alike_everywhere() {
    let mut certs = odd_certs(200);
    for keyring in KEYRINGS.into_iter().filter(|keyring| Path::new(keyring).exists()) {
        let small = certs_in(std::fs::read(keyring).unwrap()).into_iter();
        certs.extend(small.filter(|cert| cert.as_bytes().len() < 10_000).take(200));
    }
    // The same changes in each usual run.
    let config = Config { cases: 5_000, failure_persistence: None, ..Config::default() };
    let same = TestRng::deterministic_rng(RngAlgorithm::ChaCha);
    let mut runner = talaria_needs::short_or_full(
        TestRunner::new_with_rng(config.clone(), same),
        TestRunner::new(Config { cases: 100_000, ..config }),
    );
    let changes = (any::<Index>(), vec(Change::any(), 1..4));
    let judged = AtomicUsize::new(0);
    let test = |(at, changes): (Index, Vec<Change>)| {
        let mut packets: Vec<(Tag, Vec<u8>)> =
            at.get(&certs).packets().map(|packet| (packet.tag, packet.body.to_vec())).collect();
        changes.iter().for_each(|change| change.apply(&mut packets));
        let mut bytes = Vec::new();
        for (tag, body) in &packets {
            bytes.push(0xc0 | tag.0);
            bytes.push(0xff);
            bytes.extend_from_slice(&u32::try_from(body.len()).unwrap().to_be_bytes());
            bytes.extend_from_slice(body);
        }
        let Ok(cert) = OwnCert::parse(&bytes) else { return Ok(()) };
        let verdicts = verdicts(&[&cert], Verification::Full).remove(0);
        let listed = Summary::evaluate(&cert, &verdicts, NOW);
        judged.fetch_add(1, Ordering::Relaxed);
        let found = disagreements(&cert, &listed, NOW);
        prop_assert!(found.is_empty(), "{}", found.join("\n"));
        Ok(())
    };
    runner.run(&changes, test).unwrap();
    assert!(judged.into_inner() > 3_000, "too few of them can be read");
}

/// The capabilities of whole certificates, as gpg lists them.
fn by_gpg(certs: &[OwnCert]) -> Option<HashMap<String, String>> {
    let home = tempfile::tempdir().unwrap();
    let keyring = home.path().join("certs.gpg");
    let bytes: Vec<u8> = certs.iter().flat_map(OwnCert::as_bytes).copied().collect();
    std::fs::write(&keyring, bytes).unwrap();
    let listing = Command::new("gpg")
        .arg("--homedir")
        .arg(home.path())
        .args(["--faked-system-time", &format!("{NOW}!"), "--no-default-keyring"])
        .arg("--keyring")
        .arg(&keyring)
        .args(["--batch", "--trust-model", "always", "--with-colons", "--list-keys"])
        .output()
        .ok()?;
    let text = String::from_utf8_lossy(&listing.stdout);
    let mut found = HashMap::new();
    let mut capabilities = None;
    for line in text.lines() {
        let fields: Vec<&str> = line.split(':').collect();
        match fields[0] {
            "pub" => {
                capabilities = Some(fields[11].chars().filter(char::is_ascii_uppercase).collect());
            }
            "fpr" => {
                if let Some(capabilities) = capabilities.take() {
                    found.insert(fields[9].to_owned(), capabilities);
                }
            }
            _ => {}
        }
    }
    (!found.is_empty()).then_some(found)
}

#[test]
fn the_rules_of_gnupg_are_those_of_gpg() {
    for keyring in KEYRINGS {
        if !Path::new(keyring).exists() {
            talaria_needs::left_out("debian-keyring");
            continue;
        }
        let certs = certs_in(std::fs::read(keyring).unwrap());
        let Some(theirs) = talaria_needs::found(by_gpg(&certs), "gpg") else { return };
        let mut different = Vec::new();
        assert_eq!(certs.len(), theirs.len());
        for cert in certs {
            let name = cert.fingerprint().to_string();
            let judge = Judge::new(Verified::new(cert), Rules::Gnupg(Gnupg::V2_2), NOW, |_| None);
            let mut ours = String::new();
            let mut why = Vec::new();
            for (purpose, letter) in Purpose::ALL.into_iter().zip("CSEA".chars()) {
                match judge.usable(purpose, NOW) {
                    Ok(_) => ours.push(letter),
                    Err(fault) => why.push(fault),
                }
            }
            let same = |letter: char| theirs[&name].contains(letter) == ours.contains(letter);
            if !"CSEA".chars().all(same) {
                different.push(format!("{name}: {} by gpg, {ours}: {why:?}", theirs[&name]));
            }
        }
        assert!(different.is_empty(), "{}", different.join("\n"));
    }
}

/// Somebody else's key, bound as a subkey for signing, signs at no time: not before it ended, when
/// the clock goes back, nor after its binding has begun.
#[test]
fn a_stolen_subkey_signs_at_no_other_time_either() {
    const DAY: u32 = 86_400;
    let at = |time: u32| SystemTime::UNIX_EPOCH + Duration::from_secs(time.into());
    let made = NOW - 1_000 * DAY;
    let builder = || CertBuilder::new().set_creation_time(at(made)).add_userid("Mallory");
    let alice = builder().add_signing_subkey().generate().unwrap().0.strip_secret_key_material();
    let key = alice.keys().subkeys().next().unwrap().key().clone();
    let mallory = builder().generate().unwrap().0;
    let primary = mallory.primary_key().key().clone().parts_into_secret().unwrap();
    let ended = (made, Some(Duration::from_secs(u64::from(100 * DAY))), made + 50 * DAY);
    let begins = (NOW + 10 * DAY, None, NOW + 20 * DAY);
    for (bound, validity, time) in [ended, begins] {
        let binding = SignatureBuilder::new(SignatureType::SubkeyBinding)
            .set_signature_creation_time(at(bound))
            .unwrap()
            .set_key_flags(KeyFlags::empty().set_signing())
            .unwrap()
            .set_key_validity_period(validity)
            .unwrap()
            .sign_subkey_binding(&mut primary.clone().into_keypair().unwrap(), None, &key)
            .unwrap();
        let thief = mallory.clone().strip_secret_key_material();
        let thief = thief.insert_packets([Packet::from(key.clone()), binding.into()]).unwrap().0;
        let own = OwnCert::parse(&thief.to_vec().unwrap()).unwrap();
        let verdicts = verdicts(&[&own], Verification::Full).remove(0);
        let listed = Summary::evaluate(&own, &verdicts, NOW);
        let again = listed.at_another_time(&own, &verdicts, time);
        assert_eq!(again, Summary::evaluate(&own, &verdicts, time));
        assert_eq!(again.keys_for(Purpose::Sign, time).unwrap_err().fault, Fault::NotSignedBack);
    }
}
