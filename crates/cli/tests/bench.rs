//! The measurement of a keyserver, with numbers so small that only its working is tested.

use std::time::Duration;

use talaria_bench::keyserver::{self, KeyserverOptions};

/// Every part has a table with figures, in files as well. What is not installed is left out.
#[test]
fn a_keyserver_is_measured_in_all_parts() {
    let folder = tempfile::Builder::new().prefix("b").tempdir().unwrap();
    let results = folder.path().join("results");
    let options = KeyserverOptions {
        certs: 300,
        growth: vec![200, 400],
        page_sizes: vec![4096, 16_384],
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
    let tables = keyserver::run(&options, &mut out).unwrap();
    let has_wrk = std::process::Command::new("wrk").arg("-v").output().is_ok();
    assert_eq!(tables.len(), if has_wrk { 5 } else { 4 });
    for table in &tables {
        let ours = table.rows.iter().filter(|row| row[0].to_string().contains("talaria"));
        assert!(ours.clone().count() > 0, "{}", table.title);
        for row in ours {
            assert!(row.iter().any(|cell| cell.number().is_some_and(|n| n > 0.0)), "{row:?}");
        }
    }
    for name in ["build", "tree", "uploads", "gossip"] {
        let csv = std::fs::read_to_string(results.join(format!("keyserver-{name}.csv"))).unwrap();
        assert!(csv.lines().count() > 1, "{name}");
        assert!(results.join(format!("keyserver-{name}.svg")).exists(), "{name}");
    }
    assert!(String::from_utf8(out).unwrap().contains("Uploads, one certificate per request"));
}
