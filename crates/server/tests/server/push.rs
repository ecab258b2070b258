//! Pushing uploads between running servers.

use std::net::SocketAddr;

use crate::site::{Site, agent, armored, make, next_second, wait_for};
use talaria_needs::free_port;
use talaria_server::Config;

/// A server on a known port, which pushes to the port of another server.
fn site(port: u16, target: Option<u16>) -> Site {
    let mut config = Config::default();
    config.server.hostname = format!("127.0.0.1:{port}");
    config.http.listen = vec![SocketAddr::from(([127, 0, 0, 1], port))];
    config.push.targets =
        target.map(|port| format!("http://127.0.0.1:{port}")).into_iter().collect();
    Site::start(config)
}

/// A counter of the server.
fn counter(site: &Site, name: &str) -> u64 {
    let metrics = site.get("/metrics").text();
    let line = metrics.lines().find_map(|line| line.strip_prefix(&format!("talaria_{name} ")));
    line.unwrap_or_else(|| panic!("no {name} in {metrics}")).trim().parse().unwrap()
}

#[test]
fn an_upload_is_pushed_once_and_does_not_return() {
    let (a, b) = (free_port(), free_port());
    let (first, second) = (site(a, Some(b)), site(b, Some(a)));
    let cert = make(&["Alice <alice@example.org>"]);
    let fingerprint = cert.fingerprint().to_hex();
    assert_eq!(first.upload(&cert).status, 200);
    wait_for("the push", || second.cert(&fingerprint).is_some());
    wait_for("the count", || counter(&first, "pushed_total") == 1);
    // The second server knows the source of the certificate.
    next_second();
    assert_eq!(counter(&second, "pushed_total"), 0);
    assert_eq!(counter(&first, "certs_unchanged_total"), 0);

    // A known certificate is not pushed.
    first.upload(&cert);
    next_second();
    assert_eq!(counter(&first, "pushed_total"), 1);
}

#[test]
fn a_target_that_is_down_gets_its_certificates_later() {
    let (a, b) = (free_port(), free_port());
    let first = site(a, Some(b));
    let certs: Vec<_> = (0..5).map(|n| make(&[&format!("Alice <alice{n}@example.org>")])).collect();
    let all: String = certs.iter().map(armored).collect();
    assert_eq!(first.form("/pks/add", &[("keytext", &all)]).status, 200);
    next_second();
    assert_eq!(counter(&first, "pushed_total"), 0);
    let second = site(b, None);
    for cert in &certs {
        wait_for("the push", || second.cert(&cert.fingerprint().to_hex()).is_some());
    }
    wait_for("the count", || counter(&first, "pushed_total") == 5);
}

#[test]
fn a_certificate_that_a_target_refuses_does_not_stop_the_next() {
    let (a, b) = (free_port(), free_port());
    let mut strict = Config::default();
    strict.http.listen = vec![SocketAddr::from(([127, 0, 0, 1], b))];
    strict.policy.signatures = 20;
    let (first, second) = (site(a, Some(b)), Site::start(strict));
    let many: Vec<String> = (0..30).map(|n| format!("Name {n} <n{n}@example.org>")).collect();
    let large = make(&many.iter().map(String::as_str).collect::<Vec<_>>());
    let small = make(&["Alice <alice@example.org>"]);
    first.upload(&large);
    first.upload(&small);
    wait_for("the push", || second.cert(&small.fingerprint().to_hex()).is_some());
}

#[test]
fn certificates_pushed_by_others_go_to_the_other_targets() {
    let (a, b) = (free_port(), free_port());
    let (first, second) = (site(a, Some(b)), site(b, None));
    let cert = make(&["Alice <alice@example.org>"]);
    let answer = agent()
        .post(first.url("/pks/add"))
        .header("Via", "1.1 somebody.example (talaria)")
        .send_form([("keytext", armored(&cert).as_str())])
        .unwrap();
    assert_eq!(answer.status(), 200);
    wait_for("the push", || second.cert(&cert.fingerprint().to_hex()).is_some());
}
