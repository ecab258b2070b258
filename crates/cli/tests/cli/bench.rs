//! Benchmarks with small numbers, which test only that they work.

use std::path::Path;
use std::time::Duration;

use talaria_bench::Table;
use talaria_bench::backup::{self, BackupOptions};
use talaria_bench::keyserver::{self, KeyserverOptions, Section};
use talaria_bench::messages::{self, MessagesOptions};
use talaria_bench::trust::{self, TrustOptions};

/// Runs all parts except those in `skip`, and checks the written files.
fn measure(skip: &[Section], names: &[&str]) -> Vec<Table> {
    let folder = tempfile::Builder::new().prefix("b").tempdir().unwrap();
    let results = folder.path().join("results");
    let options = KeyserverOptions {
        certs: 300,
        growth: vec![200, 400],
        page_sizes: vec![4096, 16_384],
        skip: skip.to_vec(),
        digests: vec![300, 1000],
        uploads: 24,
        differences: 20,
        load: Duration::from_secs(1),
        patience: Duration::from_secs(2),
        program: env!("CARGO_BIN_EXE_talaria").into(),
        scratch: folder.path().to_owned(),
        runs: 1,
        results: Some(results.clone()),
        ..KeyserverOptions::default()
    };
    let mut out = Vec::new();
    let tables = keyserver::run(&options, &mut out).unwrap_or_else(|error| panic!("{error:?}"));
    for table in &tables {
        let mut ours = table.rows.iter().filter(|row| row[0].to_string().contains("talaria"));
        assert!(ours.clone().count() > 0, "{}", table.title);
        assert!(ours.all(|row| row.iter().any(|cell| cell.number().is_some_and(|n| n > 0.0))));
        assert!(String::from_utf8_lossy(&out).contains(&table.title));
    }
    for name in names {
        has_figures(&results.join(format!("keyserver-{name}.csv")));
        assert!(results.join(format!("keyserver-{name}.svg")).exists(), "{name}");
    }
    tables
}

fn has_figures(csv: &Path) {
    assert!(std::fs::read_to_string(csv).unwrap().lines().count() > 1, "{}", csv.display());
}

/// Programs that are not installed are skipped.
#[test]
fn bench_measures_builds_lookups_and_uploads_beside_sks() {
    let tables = measure(&[Section::Gossip], &["build", "tree", "uploads"]);
    let has_wrk = std::process::Command::new("wrk").arg("-v").output().is_ok();
    assert_eq!(tables.len(), if has_wrk { 4 } else { 3 });
}

/// Two SKS servers would take a minute, so SKS is skipped.
#[test]
fn bench_measures_gossip() {
    use Section::{Builds, Lookups, Sks, Trees, Uploads};
    assert_eq!(measure(&[Builds, Trees, Lookups, Uploads, Sks], &["gossip"]).len(), 1);
}

/// Programs that are not installed are left out.
#[test]
fn bench_measures_backup() {
    let folder = tempfile::tempdir().unwrap();
    let results = folder.path().join("results");
    let options = BackupOptions {
        files: 300,
        bytes: 3_000_000,
        tree: Some(Path::new(env!("CARGO_MANIFEST_DIR")).join("src/commands")),
        chunks: vec![2000],
        profile_runs: 1,
        program: env!("CARGO_BIN_EXE_talaria").into(),
        scratch: folder.path().to_owned(),
        runs: 1,
        results: Some(results.clone()),
    };
    let mut out = Vec::new();
    let tables = backup::run(&options, &mut out).unwrap_or_else(|error| panic!("{error:?}"));
    let names = [("many", 3), ("one", 3), ("tree", 3), ("profiles", 9), ("memory", 1)];
    assert_eq!(tables.len(), names.len());
    for (table, (name, rows)) in tables.iter().zip(names) {
        assert_eq!(table.rows.len(), rows, "{name}");
        assert!(table.rows.iter().all(|row| row[1..].iter().all(|cell| cell.number().is_some())));
        has_figures(&results.join(format!("backup-{name}.csv")));
        assert!(results.join(format!("backup-{name}.svg")).exists(), "{name}");
    }
}

#[test]
fn bench_measures_trust_beside_gpg() {
    let keyring = Path::new("/usr/share/keyrings/debian-keyring.gpg");
    if !keyring.exists() || talaria_needs::peer("gpg").is_none() {
        talaria_needs::left_out("gpg or debian-keyring");
        return;
    }
    let folder = tempfile::Builder::new().prefix("b").tempdir().unwrap();
    let results = folder.path().join("results");
    let options = TrustOptions {
        quick: Some(40),
        growth: vec![300],
        program: env!("CARGO_BIN_EXE_talaria").into(),
        scratch: folder.path().to_owned(),
        runs: 1,
        results: Some(results.clone()),
        ..TrustOptions::default()
    };
    let mut out = Vec::new();
    let tables = trust::run(&options, &mut out).unwrap_or_else(|error| panic!("{error:?}"));
    assert_eq!(tables.len(), 3);
    for (table, name) in tables.iter().zip(["listing", "check", "growth"]) {
        assert!(table.rows.iter().all(|row| row.iter().any(|cell| cell.number().is_some())));
        has_figures(&results.join(format!("trust-{name}.csv")));
        assert!(results.join(format!("trust-{name}.svg")).exists(), "{name}");
    }
}

#[test]
fn bench_measures_messages_beside_gpg() {
    if talaria_needs::found(talaria_needs::peer("gpg"), "gpg").is_none() {
        return;
    }
    let folder = tempfile::Builder::new().prefix("m").tempdir().unwrap();
    let results = folder.path().join("results");
    let options = MessagesOptions {
        bytes: 1 << 20,
        // A second run finds the files of the first one.
        runs: 2,
        objects: 20,
        signatures: 20,
        program: env!("CARGO_BIN_EXE_talaria").into(),
        scratch: folder.path().to_owned(),
        results: Some(results.clone()),
        ..MessagesOptions::default()
    };
    let mut out = Vec::new();
    let tables = messages::run(&options, &mut out).unwrap_or_else(|error| panic!("{error:?}"));
    assert_eq!(tables.len(), 3);
    for (table, name) in tables.iter().zip(["bulk", "small", "signatures"]) {
        assert!(table.rows.iter().all(|row| row.iter().any(|cell| cell.number().is_some())));
        has_figures(&results.join(format!("messages-{name}.csv")));
    }
}
