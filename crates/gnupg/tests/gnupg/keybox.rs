//! Keyboxes and home directories that the installed gpg also reads.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use crate::common::{Gpg, now};
use talaria_cert::{BATCH_BYTES, Cert, Splitter};
use talaria_gnupg::{
    Home, Keybox, LeftOutReason, Source, is_keybox, read_ownertrust, read_trustdb, write_keybox,
    write_ownertrust,
};

const KEYRING: &str = "/usr/share/keyrings/debian-maintainers.gpg";

fn certs(bytes: &[u8]) -> Vec<Cert> {
    let mut splitter = Splitter::new(bytes, BATCH_BYTES);
    let mut certs = Vec::new();
    while let Some(batch) = splitter.next_batch().unwrap() {
        certs.extend(batch.certs().map(|(_, raw)| Cert::parse(raw).unwrap()));
    }
    certs
}

/// gpg and the certificates of a keyring; otherwise a notice.
fn setting() -> Option<(Gpg, Vec<Cert>)> {
    let found = Gpg::new().zip(fs::read(KEYRING).ok());
    if found.is_none() {
        talaria_needs::left_out("gpg or its keyring");
    }
    found.map(|(gpg, bytes)| (gpg, certs(&bytes)))
}

fn read(path: &Path) -> Vec<Cert> {
    let file = fs::File::open(path).unwrap();
    Keybox::new(file).map(|entry| Cert::parse(&entry.unwrap().1.unwrap()).unwrap()).collect()
}

/// The fingerprints of all keys and the number of user IDs in gpg's listing.
fn listed(gpg: &Gpg, more: &[&str]) -> (BTreeSet<String>, usize) {
    let listing = gpg.run(&[&["--with-colons", "-k"], more].concat());
    let listing = String::from_utf8_lossy(&listing);
    let fingerprints = listing.lines().filter_map(|line| line.strip_prefix("fpr:::::::::"));
    let user_ids = listing.lines().filter(|line| line.starts_with("uid:")).count();
    (fingerprints.map(|f| f.trim_end_matches(':').to_owned()).collect(), user_ids)
}

fn expected(certs: &[Cert]) -> (BTreeSet<String>, usize) {
    let keys = certs.iter().flat_map(Cert::keys).map(|key| key.fingerprint().to_string());
    (keys.collect(), certs.iter().map(|cert| cert.user_ids().count()).sum())
}

#[test]
fn gpg_reads_written_keyboxes() {
    let Some((gpg, certs)) = setting() else { return };
    let mut bytes = Vec::new();
    assert_eq!(write_keybox(&mut bytes, &certs, now()).unwrap(), []);
    assert!(is_keybox(&bytes));
    fs::write(gpg.home().join("pubring.kbx"), &bytes).unwrap();
    assert_eq!(listed(&gpg, &[]), expected(&certs));
    // Searches use the tables of a blob: by fingerprint, by a subkey and by user ID.
    let plain = |cert: &&Cert| cert.user_ids().all(<[u8]>::is_ascii) && cert.keys().count() > 1;
    let cert = certs.iter().find(plain).unwrap();
    let subkey = cert.keys().last().unwrap().fingerprint();
    let user_id = format!("={}", String::from_utf8_lossy(cert.user_ids().last().unwrap()));
    for query in [cert.fingerprint().to_string(), subkey.key_id().to_string(), user_id] {
        let (keys, _) = listed(&gpg, &[&query]);
        assert!(keys.contains(&cert.fingerprint().to_string()), "{query}");
    }
    assert_eq!(read(&gpg.home().join("pubring.kbx")), certs);
}

#[test]
fn keyboxes_written_by_gpg_are_read() {
    let Some((gpg, certs)) = setting() else { return };
    let certs = &certs[..20];
    let file = gpg.home().join("input");
    fs::write(&file, certs.iter().flat_map(Cert::as_bytes).copied().collect::<Vec<_>>()).unwrap();
    let options = ["--import-options", "keep-ownertrust,import-local-sigs,no-import-clean"];
    let name = file.to_str().unwrap();
    gpg.run(
        &[&options[..], &["--no-default-keyring", "--keyring", "pubring.kbx"], &["--import", name]]
            .concat(),
    );
    // gpg leaves out unverifiable parts, so the test compares only keys.
    let read = read(&gpg.home().join("pubring.kbx"));
    assert_eq!(expected(&read).0, expected(certs).0);

    let trust: Vec<_> =
        certs.iter().zip(2..=6).map(|(cert, value)| (cert.fingerprint(), value)).collect();
    let trust = write_ownertrust(&trust);
    fs::write(&file, &trust).unwrap();
    gpg.run(&["--import-ownertrust", name]);
    let mut expected = read_ownertrust(&trust).unwrap();
    expected.sort();
    let mut found = read_trustdb(&fs::read(gpg.home().join("trustdb.gpg")).unwrap()).unwrap();
    found.sort();
    assert_eq!(found, expected);
    let text = String::from_utf8(gpg.run(&["--export-ownertrust"])).unwrap();
    let mut exported = read_ownertrust(&text).unwrap();
    exported.sort();
    assert_eq!(exported, expected);
}

#[test]
fn writing_to_a_home_keeps_its_certificates() {
    let Some((gpg, certs)) = setting() else { return };
    let folder = tempfile::tempdir().unwrap();
    let home = folder.path().join("new/home");
    assert_eq!(Home::open(&home).unwrap(), None);
    let trust = [(certs[0].fingerprint(), 6)];
    assert_eq!(Home::write(&home, certs[..30].to_vec(), &trust, 7).unwrap(), []);
    assert_eq!(fs::metadata(&home).unwrap().permissions().mode() & 0o777, 0o700);
    let keybox = home.join("pubring.kbx");
    assert_eq!(fs::metadata(&keybox).unwrap().permissions().mode() & 0o777, 0o600);
    let text = fs::read_to_string(home.join("otrust.txt")).unwrap();
    assert_eq!(read_ownertrust(&text).unwrap(), trust);
    let opened = Home::open(&home).unwrap().unwrap();
    assert_eq!(opened.source(), Some(Source::Keybox(&keybox)));

    // A smaller copy, a new certificate, and an X.509 certificate of gpgsm, which is kept.
    let mut x509 = fs::read(&keybox).unwrap()[32..].to_vec();
    let len = u32::from_be_bytes(x509[..4].try_into().unwrap()) as usize;
    x509.truncate(len);
    x509[4] = 3;
    let mut bytes = fs::read(&keybox).unwrap();
    bytes.extend_from_slice(&x509);
    fs::write(&keybox, &bytes).unwrap();
    let less = certs[3].retain(|_, packet| packet.tag != talaria_cert::Tag::SIGNATURE);
    Home::write(&home, vec![less, certs[40].clone()], &[], 8).unwrap();
    let mut found = read(&keybox);
    assert!(fs::read(&keybox).unwrap().ends_with(&x509));
    assert_eq!(fs::read(home.join("pubring.kbx~")).unwrap(), bytes);
    let mut all = [&certs[..30], &certs[40..41]].concat();
    for list in [&mut found, &mut all] {
        list.sort_by_key(Cert::fingerprint);
    }
    assert!(found == all);
    let names: BTreeSet<_> =
        fs::read_dir(&home).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names.len(), 3, "no lock or temporary file is left: {names:?}");

    let gpg_home = gpg.home().join("pubring.kbx");
    fs::copy(&keybox, gpg_home).unwrap();
    assert_eq!(listed(&gpg, &[]), expected(&all));
}

#[test]
fn a_damaged_keybox_is_never_overwritten() {
    let Some((_, certs)) = setting() else { return };
    let home = tempfile::tempdir().unwrap();
    let keybox = home.path().join("pubring.kbx");
    let mut bytes = Vec::new();
    write_keybox(&mut bytes, &certs[..3], 7).unwrap();
    bytes.truncate(bytes.len() - 100);
    fs::write(&keybox, &bytes).unwrap();
    assert!(Home::write(home.path(), certs[5..6].to_vec(), &[], 7).is_err());
    assert_eq!(fs::read(&keybox).unwrap(), bytes);
    assert_eq!(fs::read_dir(home.path()).unwrap().count(), 1, "no lock is left");
}

#[test]
fn a_pubring_gpg_is_migrated_to_the_keybox() {
    let Some((_, certs)) = setting() else { return };
    let home = tempfile::tempdir().unwrap();
    let ring = home.path().join("pubring.gpg");
    fs::write(&ring, [certs[0].as_bytes(), certs[1].as_bytes()].concat()).unwrap();
    assert_eq!(Home::open(home.path()).unwrap().unwrap().source(), Some(Source::Ring(&ring)),);
    Home::write(home.path(), vec![certs[2].clone()], &[], 7).unwrap();
    assert_eq!(read(&home.path().join("pubring.kbx")).len(), 3);
    let home = Home::open(home.path()).unwrap().unwrap();
    assert!(matches!(home.source(), Some(Source::Keybox(_))));
}

#[test]
fn errors_name_certificates_too_large_for_gnupg() {
    let Some((_, certs)) = setting() else { return };
    let mut raw = certs[0].as_bytes().to_vec();
    // User attributes of 1 MiB each, all different.
    for number in 0..6u8 {
        raw.extend_from_slice(&[0xd1, 255, 0, 0x10, 0, 0]);
        raw.extend(std::iter::repeat_n(number, 1 << 20));
    }
    let large = Cert::parse(&raw).unwrap();
    let mut bytes = Vec::new();
    let left_out = write_keybox(&mut bytes, [&large, &certs[1]], 7).unwrap();
    assert_eq!(left_out.len(), 1);
    assert_eq!(left_out[0].fingerprint, large.fingerprint());
    assert!(matches!(left_out[0].reason, LeftOutReason::TooLarge { .. }));
    assert_eq!(Keybox::new(&bytes[..]).count(), 1);
}
