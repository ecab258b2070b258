//! Nodes that know no peers, only a NATS server.

use std::collections::BTreeSet;
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

use parking_lot::Mutex;

use super::kills::Process;
use super::site::{Site, content, wait, wait_until_same};
use crate::Event;

/// A real NATS server.
struct Nats {
    child: Child,
    url: String,
    port: String,
}

impl Nats {
    fn start(folder: &Path) -> Self {
        Self::start_at(folder, &talaria_needs::free_port().to_string())
    }

    fn start_at(folder: &Path, port: &str) -> Self {
        let mut command = Command::new("nats-server");
        let command = command.args(["-js", "-a", "127.0.0.1", "-p", port, "-sd"]).arg(folder);
        let child = command.stderr(Stdio::null()).spawn().expect("nats-server is installed");
        let address = format!("127.0.0.1:{port}");
        wait("the NATS server listens", || TcpStream::connect(&address).is_ok());
        Self { child, url: format!("nats://{address}"), port: port.to_owned() }
    }
}

impl Drop for Nats {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn texts(name: &str, count: usize) -> Vec<String> {
    (0..count).map(|number| format!("{name} {number}")).collect()
}

#[test]
fn nodes_that_know_only_a_stream_become_the_same_and_it_may_vanish() {
    let mut site = Site::new(4);
    for number in 1..4 {
        site.copy_to(number);
    }
    let folder = tempfile::tempdir().unwrap();
    let server = Nats::start(&folder.path().join("one"));
    let [a, b] = [0, 1].map(|number| site.serve_by(number, &server.url));
    site.owner.put(&a.log, &texts("a", 100));
    site.owner.try_put(&b.log, &texts("b", 2000), talaria_log::Signing::Together);
    wait_until_same(&[&a.log, &b.log]);
    assert_eq!(content(&a.log).0, 5 + 2100);
    assert_eq!(b.log.verify().unwrap().failed, []);
    // The server loses everything, and what is written meanwhile does not reach it.
    let (url, port) = (server.url.clone(), server.port.clone());
    drop(server);
    site.owner.put(&a.log, &texts("alone", 50));
    site.owner.put(&b.log, &texts("alone, too", 50));
    let server = Nats::start_at(&folder.path().join("two"), &port);
    wait_until_same(&[&a.log, &b.log]);
    // The stream has all of it again: a node that comes later gets it from there.
    a.end();
    b.end();
    let c = site.serve_by(2, &url);
    wait("the node has everything", || content(&c.log).0 == 5 + 2200);
    c.end();
    drop(server);
}

#[test]
fn what_strangers_write_into_a_stream_changes_nothing() {
    let mut site = Site::new(2);
    site.copy_to(1);
    let folder = tempfile::tempdir().unwrap();
    let server = Nats::start(folder.path());
    let a = site.serve_by(0, &server.url);
    a.wait_for("the stream is used", |event| matches!(event, Event::Streaming(_)));
    let subject = format!("talaria.log.{}", site.log);
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let client = async_nats::connect(&server.url).await.unwrap();
        for payload in
            [b"hello".to_vec(), vec![0; 100_000], vec![0, 0, 0, 2, 1, 2], vec![0xff; 900_000]]
        {
            client.publish(subject.clone(), payload.into()).await.unwrap();
        }
        // An entry of another log.
        let other = Site::new(1);
        let log = other.open(0);
        let mut export = Vec::new();
        log.export(&mut export, Path::new("export")).unwrap();
        client.publish(subject.clone(), export.split_off(5).into()).await.unwrap();
        client.flush().await.unwrap();
    });
    site.owner.put(&a.log, &texts("a", 5));
    let b = site.serve_by(1, &server.url);
    wait_until_same(&[&a.log, &b.log]);
    assert_eq!(content(&b.log).0, 3 + 5);
    a.end();
    b.end();
}

#[test]
fn forged_copies_in_a_stream_do_not_keep_good_ones_out() {
    let mut site = Site::new(2);
    site.copy_to(1);
    let log = site.open(0);
    site.owner.put(&log, &texts("a", 5));
    let mut export = Vec::new();
    log.export(&mut export, Path::new("export")).unwrap();
    drop(log);
    // The identities of the entries are those of good ones, and their signatures are not.
    let mut forged = export.split_off(5);
    let mut at = 0;
    while at < forged.len() {
        let length = u32::from_be_bytes(forged[at..at + 4].try_into().unwrap()) as usize;
        at += 4 + length;
        forged[at - 40] ^= 1;
    }
    let folder = tempfile::tempdir().unwrap();
    let server = Nats::start(folder.path());
    let b = site.serve_by(1, &server.url);
    b.wait_for("the stream is used", |event| matches!(event, Event::Streaming(_)));
    let subject = format!("talaria.log.{}", site.log);
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let client = async_nats::connect(&server.url).await.unwrap();
        client.publish(subject, forged.into()).await.unwrap();
        client.flush().await.unwrap();
    });
    let a = site.serve_by(0, &server.url);
    wait_until_same(&[&a.log, &b.log]);
    assert_eq!(content(&b.log).0, 3 + 5);
    a.end();
    b.end();
}

#[test]
fn a_message_under_the_name_of_a_good_one_does_not_keep_it_out() {
    let mut site = Site::new(2);
    site.copy_to(1);
    let folder = tempfile::tempdir().unwrap();
    let server = Nats::start(folder.path());
    let subject = format!("talaria.log.{}", site.log);
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let client = runtime.block_on(async { async_nats::connect(&server.url).await.unwrap() });
    let b = site.serve_by(1, &server.url);
    b.wait_for("the stream is used", |event| matches!(event, Event::Streaming(_)));
    // A node that leaves its messages behind, whose names somebody else then takes.
    b.end();
    let log = site.open(0);
    site.owner.put(&log, &texts("a", 5));
    drop(log);
    let message = {
        let other = tempfile::tempdir().unwrap();
        let other = Nats::start(other.path());
        let a = site.serve_by(0, &other.url);
        let message = runtime.block_on(async {
            let context =
                async_nats::jetstream::new(async_nats::connect(&other.url).await.unwrap());
            loop {
                let name = format!("talaria-log-{}", site.log);
                if let Ok(stream) = context.get_stream(&name).await
                    && let Ok(message) = stream.get_raw_message(1).await
                {
                    break message;
                }
                tokio::time::sleep(std::time::Duration::from_millis(20)).await;
            }
        });
        a.end();
        message
    };
    runtime.block_on(async {
        let context = async_nats::jetstream::new(client);
        let name = message.headers;
        context.publish_with_headers(subject, name, "hello".into()).await.unwrap().await.unwrap();
    });
    let a = site.serve_by(0, &server.url);
    let b = site.serve_by(1, &server.url);
    wait_until_same(&[&a.log, &b.log]);
    assert_eq!(content(&b.log).0, 3 + 5);
    a.end();
    b.end();
}

/// Three processes that know only the stream, each killed in turn, and the stream as well.
#[test]
fn no_acknowledged_entry_is_lost_by_kill_9_of_nodes_and_of_the_stream() {
    let kills: usize = talaria_needs::short_or_full(6, 1000);
    let site = Site::new(3);
    site.copy_to(1);
    site.copy_to(2);
    let folder = tempfile::tempdir().unwrap();
    let mut server = Nats::start(folder.path());
    let acknowledged = Arc::new(Mutex::new(BTreeSet::new()));
    let start = |number: usize, url: &str| {
        let nats = [url.to_owned()];
        Process::start(site.folder.path(), number, "127.0.0.1:0", &nats, Some(&acknowledged))
    };
    let mut nodes: Vec<Process> = (0..3).map(|number| start(number, &server.url)).collect();
    for round in 0..kills {
        std::thread::sleep(std::time::Duration::from_millis(100 + round as u64 * 37 % 300));
        if round % 4 == 3 {
            let port = server.port.clone();
            drop(server);
            server = Nats::start_at(folder.path(), &port);
        } else {
            nodes[round % 3].kill();
            nodes[round % 3] = start(round % 3, &server.url);
        }
    }
    nodes.iter_mut().for_each(Process::kill);
    let nodes = [0, 1, 2].map(|number| site.serve_by(number, &server.url));
    wait_until_same(&[&nodes[0].log, &nodes[1].log, &nodes[2].log]);
    let acknowledged = acknowledged.lock();
    assert!(acknowledged.len() > kills);
    nodes[0]
        .log
        .read(|log| {
            let lost = acknowledged.iter().filter(|id| log.entry(id).is_none()).count();
            assert_eq!(lost, 0, "of {}", acknowledged.len());
            assert!(log.forks().is_empty());
        })
        .unwrap();
    for node in nodes {
        node.end();
    }
}
