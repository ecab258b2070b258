//! The memory and the time that visits of the statistics cost.

use std::time::Duration;

use talaria_cert::View;

use crate::site::{NOW, Site, config, generated, get, wait_for};
use crate::{MIB, alone};

/// Counting reads every certificate. If it mapped the store into memory, the process would grow by
/// all of it.
#[test]
fn a_visit_of_the_statistics_maps_no_store() {
    let _alone = alone();
    let server = Site::apart(&generated(20_000), config());
    let stored = std::fs::metadata(server.path()).unwrap().len();
    assert_eq!(server.get("/").status, 200);
    let process = server.process();
    process.forget_peak();
    let before = process.resident();
    wait_for("the certificates are counted", || {
        let page = server.open("/statistics").text();
        page.contains("20,000") && page.contains("class=\"totals\"")
    });
    assert_eq!(server.get("/pks/lookup?op=stats&options=mr").status, 200);
    let grown = process.peak().saturating_sub(before);
    eprintln!("{} MiB more, of a store of {} MiB", grown / MIB, stored / MIB);
    assert!(grown < stored / 3, "{} MiB more, of a store of {} MiB", grown / MIB, stored / MIB);
}

/// Peers can fill the table of certificates that they do not deliver. To count them takes a tenth
/// of a second.
#[test]
fn no_visit_counts_what_peers_did_not_deliver() {
    const VISITS: u32 = 100;
    let _alone = alone();
    let server = Site::apart(&generated(1), config());
    let digests: Vec<[u8; 16]> = (0..250_000u128).map(u128::to_be_bytes).collect();
    let mut store = server.store();
    store.keyserver_mut().mark_unobtainable("x:1", View::Sks, &digests, 1, NOW.into()).unwrap();
    assert_eq!(server.metric("gossip_unobtainable"), 250_000);
    let paths = [server.http, server.operator].into_iter().zip(["/ready", "/metrics"]);
    for (address, path) in paths.chain([(server.http, "/pks/stats")]) {
        let before = server.process().cpu();
        for _ in 0..VISITS {
            assert_eq!(get(address, path).status, 200, "{path}");
        }
        let each = server.process().cpu().saturating_sub(before) / VISITS;
        eprintln!("{path}: {each:?} of CPU time");
        assert!(each < Duration::from_millis(10), "{path}: {each:?}");
    }
}
