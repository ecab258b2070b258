//! The memory that visits of the statistics cost.

use crate::site::{Site, config, generated, wait_for};
use crate::{MIB, alone};

/// Counting reads every certificate. If it mapped the store into memory, the process would grow by all of it.
#[test]
fn a_visit_of_the_statistics_maps_no_store() {
    const CERTS: u64 = 20_000;
    let _alone = alone();
    let server = Site::apart(&generated(CERTS), config());
    let stored = std::fs::metadata(server.path()).unwrap().len();
    assert_eq!(server.get("/").status, 200);
    let process = server.process();
    process.forget_peak();
    let before = process.resident();
    let grouped = "20,000";
    wait_for("the certificates are counted", || {
        let page = server.open("/statistics").text();
        page.contains(grouped) && page.contains("class=\"totals\"")
    });
    assert_eq!(server.get("/pks/lookup?op=stats&options=mr").status, 200);
    let grown = process.peak().saturating_sub(before);
    eprintln!("{} MiB more, of a store of {} MiB", grown / MIB, stored / MIB);
    assert!(grown < stored / 3, "{} MiB more, of a store of {} MiB", grown / MIB, stored / MIB);
}
