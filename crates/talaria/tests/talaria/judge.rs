//! One judge of certificates: listings, encryption, signatures and the bindings agree about what a
//! certificate may be used for, on the keyrings of distributions.

use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, SystemTime};

use talaria::cert::{Capabilities, Purpose, Rules};
use talaria::message::openpgp::Cert;
use talaria::message::openpgp::cert::CertParser;
use talaria::message::openpgp::parse::Parse as _;
use talaria::message::openpgp::policy::StandardPolicy;
use talaria::message::openpgp::types::RevocationStatus;
use talaria::message::{Recipients, judge, read_cert, usable};
use talaria::store::{Access, Cursor, Order, Store};
use talaria::{ImportOptions, Input, Monitor, import};

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
            let judge = judge(&cert, Rules::Strict, &mut |_| Vec::new(), NOW).unwrap();
            for purpose in
                [Purpose::Certify, Purpose::Sign, Purpose::Encrypt, Purpose::Authenticate]
            {
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
        let (mut able, mut different) = ([0; 2], Vec::new());
        let mut certs = 0;
        let mut rows = Vec::new();
        let visit = |row| {
            rows.push(row);
            ControlFlow::Continue(())
        };
        store.walk(&mut Cursor::start(Order::Insertion), visit).unwrap();
        for row in rows {
            let stored = store.stored(row.id).unwrap().unwrap();
            let Ok(cert) = read_cert(stored.cert.as_bytes()) else { continue };
            certs += 1;
            let listed = row.summary.able(now);
            let taken = Recipients::default().add(&cert, Rules::Standard, &mut |_| Vec::new(), now);
            let judge = judge(&cert, Rules::Standard, &mut |_| Vec::new(), now).unwrap();
            if listed.has(Capabilities::ENCRYPT) != taken.is_ok() && !has_unsupported(&cert) {
                different.push(format!("{} encrypt: {taken:?}", cert.fingerprint()));
            }
            let signs = judge.usable(Purpose::Sign, now);
            let may = usable(&cert, Purpose::Sign, Rules::Standard, &mut |_| Vec::new(), now);
            if signs.is_ok() != may.is_ok() || signs.is_ok() && !listed.has(Capabilities::SIGN) {
                different.push(format!("{} sign: {signs:?}", cert.fingerprint()));
            }
            able[0] += usize::from(taken.is_ok());
            able[1] += usize::from(signs.is_ok());
        }
        assert!(certs > 100, "{certs}");
        assert!(able.iter().all(|&able| able > certs / 4), "{able:?} of {certs}");
        assert!(different.is_empty(), "{}", different.join("\n"));
    }
}
