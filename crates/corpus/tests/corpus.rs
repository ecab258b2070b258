//! The guarantees of the generator: reproducible bytes, and certificates that other programs
//! accept.

use std::collections::HashSet;
use std::process::Command;

use talaria_cert::{Verdict, Verification, verdicts};
use talaria_corpus::{CorpusProfile, Generate, certs, generate};

fn bytes(options: &Generate) -> Vec<u8> {
    let mut out = Vec::new();
    generate(options, &mut out).unwrap();
    out
}

fn options(profile: &str, count: u64) -> Generate {
    Generate { count, profile: CorpusProfile::named(profile).unwrap(), ..Generate::default() }
}

#[test]
fn the_same_seed_gives_the_same_bytes_on_any_number_of_cores() {
    let options = options("small", 300);
    let once = bytes(&options);
    let alone = rayon::ThreadPoolBuilder::new().num_threads(1).build().unwrap();
    assert!(once == alone.install(|| bytes(&options)));
    assert!(once != bytes(&Generate { seed: 2, ..options }));
}

#[test]
fn a_generated_certificate_does_not_depend_on_the_size_of_the_set() {
    let all = bytes(&options("small", 300));
    let part = bytes(&Generate { first: 150, count: 40, ..options("small", 0) });
    let at = all.windows(100).position(|window| window == &part[..100]).unwrap();
    assert!(all[at..at + part.len()] == part);
}

/// Self-signatures are good in all profiles and algorithms.
#[test]
fn all_self_signatures_are_good() {
    let native = Generate {
        profile: CorpusProfile {
            native_per_mille: 1000,
            revoked_per_mille: 500,
            ..CorpusProfile::small()
        },
        ..options("small", 200)
    };
    for options in [options("small", 500), options("ring", 30), options("ed25519", 200), native] {
        let certs = certs(&options);
        let certs: Vec<_> = certs.iter().collect();
        let verdicts = verdicts(&certs, Verification::Full).concat();
        let good = verdicts.iter().filter(|verdict| **verdict == Verdict::Good).count();
        let foreign = verdicts.iter().filter(|verdict| **verdict == Verdict::Foreign).count();
        assert!(good >= 2 * certs.len());
        assert_eq!(good + foreign, verdicts.len(), "{verdicts:?}");
        let names: HashSet<_> = certs.iter().map(|cert| cert.fingerprint()).collect();
        assert_eq!(names.len(), certs.len());
    }
}

/// Certificates of the profiles have about the sizes that their documentation gives.
#[test]
fn generated_sizes_match_the_profiles() {
    for (profile, count, range) in
        [("small", 2000, 850..1250), ("ring", 60, 17_000..40_000), ("ed25519", 200, 400..500)]
    {
        let mean = bytes(&options(profile, count)).len() as u64 / count;
        assert!(range.contains(&mean), "{profile}: {mean}");
    }
}

/// GnuPG verifies every signature, also those by others, and finds none bad.
#[test]
fn gnupg_finds_no_bad_signature() {
    let home = tempfile::tempdir().unwrap();
    let file = home.path().join("certs.pgp");
    std::fs::write(&file, bytes(&options("small", 200))).unwrap();
    let gpg = |args: &[&str]| {
        Command::new("gpg")
            .args(["--batch", "--no-auto-check-trustdb", "--homedir"])
            .arg(home.path())
            .args(args)
            .output()
    };
    if talaria_needs::found(talaria_needs::peer("gpg"), "gpg").is_none() {
        return;
    }
    let import = gpg(&["--status-fd", "1", "--import", file.to_str().unwrap()]).unwrap();
    let text = String::from_utf8_lossy(&import.stdout);
    assert!(text.contains("IMPORT_RES 200 0 200 "), "{text}");
    let list = gpg(&["--check-sigs", "--with-colons"]).unwrap();
    let text = String::from_utf8_lossy(&list.stdout);
    let mut good = 0;
    for line in text.lines().filter(|line| line.starts_with("sig:") || line.starts_with("rev:")) {
        assert_eq!(line.split(':').nth(1), Some("!"), "{line}");
        good += 1;
    }
    assert!(good > 600, "{good} signatures");
}
