//! Comparison with the listing of the installed gpg, for the keyrings of Debian.

use std::collections::{BTreeMap, HashMap};
use std::fmt::Write as _;
use std::io::Read as _;
use std::path::Path;

use crate::common::{Gpg, now};
use talaria_cert::{
    Armor, BATCH_BYTES, Cert, Gnupg, KeyId, Rules, Splitter, Summary, Verdict, Verification,
    verdicts,
};
use talaria_gnupg::{Colons, NO_USER_ID, write_cert, write_cert_with_signatures};

const KEYRINGS: &str = "/usr/share/keyrings";

/// Certificates whose listings differ, with the reason, see `docs/gnupg.md`.
const DIFFERENT: &[&str] = &[
    // A DSA key of 2048 bits with q of 224: gpg does not set compliance flag 23.
    "39F880E50E49A4D11341E8F939E4F17F295AFBF4",
];

struct Ring {
    /// The keyring as a binary file for gpg.
    file: tempfile::NamedTempFile,
    certs: Vec<(Cert, Vec<Verdict>)>,
}

impl Ring {
    fn read(path: &Path) -> Self {
        let mut bytes = std::fs::read(path).unwrap();
        if bytes.starts_with(b"-----BEGIN") {
            let mut packets = Vec::new();
            Armor::new(&bytes[..]).read_to_end(&mut packets).unwrap();
            bytes = packets;
        }
        let file = tempfile::NamedTempFile::with_suffix(".gpg").unwrap();
        std::fs::write(&file, &bytes).unwrap();
        let mut splitter = Splitter::new(&bytes[..], BATCH_BYTES);
        let mut certs = Vec::new();
        while let Some(batch) = splitter.next_batch().unwrap() {
            certs.extend(batch.certs().map(|(_, raw)| Cert::parse(raw).unwrap()));
        }
        let verdicts = verdicts(&certs.iter().collect::<Vec<_>>(), Verification::Full);
        Self { file, certs: certs.into_iter().zip(verdicts).collect() }
    }

    fn path(&self) -> &str {
        self.file.path().to_str().unwrap()
    }
}

/// The lines of a listing by certificate, sorted.
fn by_cert(listing: &[u8]) -> BTreeMap<String, Vec<String>> {
    let mut certs: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let mut lines: Vec<String> = Vec::new();
    let mut end = |lines: &mut Vec<String>| {
        let fingerprint = lines.iter().find(|line| line.starts_with("fpr:")).cloned();
        if let Some(fingerprint) = fingerprint {
            lines.sort();
            certs.insert(fingerprint[12..].replace(':', ""), std::mem::take(lines));
        }
    };
    for line in String::from_utf8_lossy(listing).lines() {
        if line.starts_with("pub:") {
            end(&mut lines);
        }
        if !line.starts_with("tru:") {
            lines.push(line.to_owned());
        }
    }
    end(&mut lines);
    certs
}

/// The differences as text; none for the certificates in [`DIFFERENT`].
fn compare(theirs: &[u8], ours: &[u8]) -> String {
    let (theirs, ours) = (by_cert(theirs), by_cert(ours));
    let mut text = String::new();
    for fingerprint in theirs.keys().chain(ours.keys().filter(|f| !theirs.contains_key(*f))) {
        let none = Vec::new();
        let (a, b) =
            (theirs.get(fingerprint).unwrap_or(&none), ours.get(fingerprint).unwrap_or(&none));
        if a == b || DIFFERENT.contains(&fingerprint.as_str()) {
            continue;
        }
        let count = |lines: &[String]| {
            let mut counts: HashMap<String, i32> = HashMap::new();
            for line in lines {
                *counts.entry(line.clone()).or_default() += 1;
            }
            counts
        };
        let (a, b) = (count(a), count(b));
        writeln!(text, "{fingerprint}").unwrap();
        for (sign, these, those) in [("gpg ", &a, &b), ("ours", &b, &a)] {
            for (line, n) in these {
                let more = n - those.get(line).copied().unwrap_or(0);
                if more > 0 {
                    writeln!(text, "  {sign} {more}x {line}").unwrap();
                }
            }
        }
    }
    text
}

fn keys_are_listed_as_by_gpg(name: &str) {
    for (gpg, release) in [(Gpg::new(), Gnupg::V2_2), (Gpg::new_2_4(), Gnupg::V2_4)] {
        let path = Path::new(KEYRINGS).join(name);
        match gpg.filter(|_| path.exists()) {
            Some(gpg) => keys_are_listed_as_by(&gpg, release, name, &path),
            None if release == Gnupg::V2_4 => talaria_needs::left_out("gpg 2.4"),
            None => talaria_needs::left_out("gpg or its keyring"),
        }
    }
}

fn keys_are_listed_as_by(gpg: &Gpg, release: Gnupg, name: &str, path: &Path) {
    let ring = Ring::read(path);
    let args = ["--no-default-keyring", "--keyring", ring.path(), "--with-keygrip", "-k"];
    let now = now();
    let theirs = gpg
        .run(&[&["--with-colons", "--faked-system-time", &format!("{now}!")], &args[..]].concat());
    let mut ours = Vec::new();
    for (cert, verdicts) in &ring.certs {
        let grips: Vec<_> = cert.keys().map(|key| key.keygrip()).collect();
        let options = Colons { keygrips: Some(&grips), gnupg: release, ..Colons::default() };
        let summary = Summary::by(Rules::Gnupg(release), cert, verdicts, now);
        write_cert(&mut ours, &summary, &options, now);
    }
    assert_eq!(by_cert(&ours).len(), ring.certs.len());
    let different = compare(&theirs, &ours);
    assert!(different.is_empty(), "{name} {release:?}:\n{different}");
}

#[test]
fn key_listings_of_debian_developers_equal_those_of_gpg() {
    keys_are_listed_as_by_gpg("debian-keyring.gpg");
}

#[test]
fn key_listings_of_debian_maintainers_equal_those_of_gpg() {
    keys_are_listed_as_by_gpg("debian-maintainers.gpg");
    keys_are_listed_as_by_gpg("debian-nonupload.gpg");
    keys_are_listed_as_by_gpg("debian-archive-removed-keys.gpg");
}

#[test]
fn key_listings_of_arch_linux_equal_those_of_gpg() {
    keys_are_listed_as_by_gpg("archlinux.gpg");
}

fn signatures_are_listed_as_by_gpg(name: &str) {
    let path = Path::new(KEYRINGS).join(name);
    let Some(gpg) = Gpg::new().filter(|_| path.exists()) else {
        talaria_needs::left_out("gpg or its keyring");
        return;
    };
    let ring = Ring::read(&path);
    let now = now();
    let time = format!("{now}!");
    let args = [
        "--with-colons",
        "--faked-system-time",
        &time,
        "--no-default-keyring",
        "--keyring",
        ring.path(),
    ];
    let theirs = gpg.run(&[&args[..], &["--list-sigs"]].concat());
    let rules = Rules::Gnupg(Gnupg::V2_2);
    let summaries: Vec<_> =
        ring.certs.iter().map(|(cert, verdicts)| Summary::by(rules, cert, verdicts, now)).collect();
    let mut names: HashMap<KeyId, &[u8]> = HashMap::new();
    for summary in &summaries {
        for key in summary.keys() {
            let name = summary.primary_user_id().unwrap_or(NO_USER_ID);
            names.entry(key.fingerprint.key_id()).or_insert(name);
        }
    }
    let mut ours = Vec::new();
    for ((cert, _), summary) in ring.certs.iter().zip(&summaries) {
        let signer = |id: KeyId| names.get(&id).copied();
        let options = Colons { gnupg: Gnupg::V2_2, ..Colons::default() };
        write_cert_with_signatures(&mut ours, cert, summary, &options, now, signer);
    }
    let different = compare(&theirs, &ours);
    assert_eq!(by_cert(&ours).len(), ring.certs.len());
    assert!(different.is_empty(), "{name}:\n{different}");
}

#[test]
fn signature_listings_of_arch_linux_equal_those_of_gpg() {
    signatures_are_listed_as_by_gpg("archlinux.gpg");
}

#[test]
fn signature_listings_of_debian_maintainers_equal_those_of_gpg() {
    signatures_are_listed_as_by_gpg("debian-maintainers.gpg");
    signatures_are_listed_as_by_gpg("debian-archive-removed-keys.gpg");
}

#[test]
fn signature_listings_of_debian_developers_equal_those_of_gpg() {
    signatures_are_listed_as_by_gpg("debian-keyring.gpg");
}
