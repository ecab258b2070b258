//! Gossip: two servers that differ, until they are equal.

use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use talaria_cert::Cert;
use talaria_recon::{Decoder, Exchange, ExchangeRole, Outbox, PrefixTree, Settings};

use super::bench::{Bench, Results};
use super::client::Client;
use super::dump;
use super::figures::float;
use super::server::{Server, free_port, talaria};
use super::sks::Sks;
use super::trees::digest;
use crate::error::BenchError;
use crate::measure::ProgramRun;
use crate::table::{Cell, Table};

/// The time limit until two servers are equal.
const PATIENCE: Duration = Duration::from_secs(300);

/// Certificates that two SKS have in common, at most: they take their time.
const SKS_CERTS: u64 = 10_000;

/// The result.
struct Met {
    who: &'static str,
    certs: u64,
    differences: u64,
    /// The time from the start of the exchange until both have stored their missing certificates.
    seconds: f64,
    cpu_s: f64,
    requests: Option<u64>,
}

pub(super) fn run(bench: &Bench<'_>) -> Result<Results, BenchError> {
    let certs = bench.options.certs;
    let mut all = Vec::new();
    for _ in 0..bench.runs() {
        all.push(talarias(bench)?);
    }
    all.sort_by(|a, b| a.seconds.total_cmp(&b.seconds));
    let mut met = vec![all.swap_remove(all.len() / 2)];
    if bench.has_sks {
        met.push(skses(bench)?);
    }
    let mut table = Table::new(
        "Gossip: two servers until they are equal",
        &[
            "servers",
            "certificates in common",
            "not shared",
            "seconds",
            "CPU s of both",
            "requests of an exchange",
        ],
    );
    table.note(
        "Each server has half of what is not shared. talaria: from the start of the exchange until \
         both have fetched and durably stored what they lacked, as their logs have it; every \
         self-signature is computed; median. Then both trees have to have the same number of digests \
         and both servers every certificate.",
    );
    if bench.has_sks {
        table.note(
            "SKS: from the start of both until each has what it lacked, once; it begins an exchange \
             every six seconds, and fetches a hundred certificates at a time. sks recon needs \
             some CPU time also when nothing happens.",
        );
    }
    for met in &met {
        table.push(vec![
            met.who.into(),
            met.certs.into(),
            met.differences.into(),
            met.seconds.into(),
            met.cpu_s.into(),
            met.requests.into(),
        ]);
    }
    let half = bench.options.differences / 2;
    for (what, count, half) in [
        ("equal sets", certs, 0),
        ("as above", certs, half),
        ("equal sets", 1_000_000, 0),
        ("as above", 1_000_000, half),
    ] {
        let talk = exchange(count, half);
        table.note(format!(
            "An exchange in memory of {} digests, {what}, {} not shared: {} requests, {} messages, {} \
             bytes both ways, {} s.",
            Cell::from(count),
            Cell::from(2 * half),
            Cell::from(talk.requests),
            Cell::from(talk.messages),
            Cell::from(talk.bytes),
            Cell::from(talk.seconds),
        ));
    }
    Ok(Results { name: "keyserver-gossip", table })
}

/// The certificates that two servers do not share, half on each side.
fn apart(bench: &Bench<'_>) -> Vec<Vec<Cert>> {
    let half = (bench.options.differences / 2).max(1);
    vec![bench.dump.others(0, half), bench.dump.others(half, half)]
}

/// Writes a keyring.
fn ring(path: &Path, certs: &[Cert]) -> Result<(), BenchError> {
    let bytes: Vec<&[u8]> = certs.iter().map(Cert::as_bytes).collect();
    std::fs::write(path, bytes.concat()).map_err(BenchError::io("write", path))
}

fn talarias(bench: &Bench<'_>) -> Result<Met, BenchError> {
    let program = &bench.options.program;
    let folder = tempfile::tempdir_in(bench.folder);
    let folder = folder.map_err(BenchError::io("make a folder in", bench.folder))?;
    let apart = apart(bench);
    let stores = ["a.db", "b.db"].map(|name| folder.path().join(name));
    dump::build_for_serving(program, &stores[0], &bench.dump.files(bench.options.certs))
        .measure()?;
    std::fs::copy(&stores[0], &stores[1]).map_err(BenchError::io("write", &stores[1]))?;
    for (store, certs) in stores.iter().zip(&apart) {
        let path = store.with_extension("pgp");
        ring(&path, certs)?;
        let run = ProgramRun::new(program).arg("--quiet").arg("--store").arg(store);
        run.arg("import").arg(&path).measure()?;
    }
    let recon = [free_port("127.0.0.1")?, free_port("127.0.0.1")?];
    // One begins, the other waits: what is wanted is the time of one exchange.
    let settings = |own: u16, peer: u16, interval_s: f64| {
        format!(
            "[gossip]\nlisten = [\"127.0.0.1:{own}\"]\ninterval_s = {interval_s:?}\n\n\
             [[gossip.peers]]\nhost = \"127.0.0.1\"\nport = {peer}\n"
        )
    };
    let http = [free_port("127.0.0.1")?, free_port("127.0.0.1")?];
    let b = talaria(program, &stores[1], http[1], &settings(recon[1], recon[0], 86_400.0))?;
    let a = talaria(program, &stores[0], http[0], &settings(recon[0], recon[1], 1.0))?;
    let servers = [a, b];
    let cpu = |servers: &[Server]| servers.iter().map(Server::cpu_all_s).sum::<f64>();
    let (before, start) = (cpu(&servers), Instant::now());
    wait_for_all(&servers, &apart, start)?;
    // Its trees follow the store.
    let wanted = float(bench.options.certs) + float(apart.iter().map(|c| c.len() as u64).sum());
    for server in &servers {
        while server.metric("digests_sks")? < wanted {
            if start.elapsed() > PATIENCE {
                return Err(server.silent(&"not all digests are in its tree"));
            }
            thread::sleep(Duration::from_millis(10));
        }
    }
    let cpu_s = cpu(&servers) - before;
    let mut figures = Vec::new();
    for server in &servers {
        // The line is written when all is done.
        let line = loop {
            let said = server.said();
            let line = said.lines().find(|line| line.contains("\"message\":\"exchange\""));
            if let Some(line) = line {
                break line.to_owned();
            }
            if start.elapsed() > PATIENCE {
                return Err(server.silent(&"no line on an exchange in its log"));
            }
            thread::sleep(Duration::from_millis(10));
        };
        figures.push((field(&line, "seconds"), field(&line, "requests")));
    }
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a count")]
    let requests = figures[0].1.map(|requests| requests as u64);
    Ok(Met {
        who: "talaria, talaria",
        certs: bench.options.certs,
        differences: apart.iter().map(|certs| certs.len() as u64).sum(),
        seconds: figures.iter().filter_map(|(seconds, _)| *seconds).fold(0.0, f64::max),
        cpu_s,
        requests,
    })
}

/// A number in a line of a log in JSON.
fn field(line: &str, name: &str) -> Option<f64> {
    let (_, rest) = line.split_once(&format!("\"{name}\":"))?;
    let end = rest.find([',', '}']).unwrap_or(rest.len());
    rest[..end].trim().parse().ok()
}

fn skses(bench: &Bench<'_>) -> Result<Met, BenchError> {
    let apart = apart(bench);
    let all = bench.dump.files(bench.options.certs);
    let each = bench.options.certs / (all.len() as u64).max(1);
    let files = usize::try_from(SKS_CERTS / each.max(1)).unwrap_or(1).clamp(1, all.len());
    let make =
        |name: &str, address: &str| Sks::new(&bench.options.sks, &bench.folder.join(name), address);
    // It never talks to its own address.
    let both = [make("ga", "127.0.0.1")?, make("gb", "127.0.0.2")?];
    both[0].befriend(&[&both[1]])?;
    both[1].befriend(&[&both[0]])?;
    for (at, (sks, certs)) in both.iter().zip(&apart).enumerate() {
        let own = bench.folder.join(format!("apart-{at}.pgp"));
        ring(&own, certs)?;
        let mut files: Vec<&Path> = all[..files].to_vec();
        files.push(&own);
        sks.prepare(&files)?;
    }
    let start = Instant::now();
    let servers = [both[0].start(true)?, both[1].start(true)?];
    wait_for_all(&servers, &apart, start)?;
    Ok(Met {
        who: "SKS, SKS",
        certs: each * files as u64,
        differences: apart.iter().map(|certs| certs.len() as u64).sum(),
        seconds: start.elapsed().as_secs_f64(),
        cpu_s: servers.iter().map(Server::cpu_all_s).sum(),
        requests: None,
    })
}

/// Waits until each of two servers has what the other had.
fn wait_for_all(
    servers: &[Server; 2],
    apart: &[Vec<Cert>],
    start: Instant,
) -> Result<(), BenchError> {
    for (server, wanted) in servers.iter().zip(apart.iter().rev()) {
        let mut client = Client::new(server.address);
        for cert in wanted {
            while !server.finds(&mut client, cert)? {
                if start.elapsed() > PATIENCE {
                    return Err(server.silent(&format!("{} did not come", cert.fingerprint())));
                }
                thread::sleep(Duration::from_millis(20));
            }
        }
    }
    Ok(())
}

/// The cost of an exchange.
struct Talk {
    requests: u64,
    messages: u64,
    bytes: u64,
    seconds: f64,
}

/// An exchange of two trees in memory, which share `count` digests; each has `half` more.
fn exchange(count: u64, half: u64) -> Talk {
    let tree = |more: std::ops::Range<u64>| PrefixTree::build((0..count).chain(more).map(digest));
    let trees = [tree(count..count + half), tree(count + half..count + 2 * half)];
    let start = Instant::now();
    let mut outboxes = [Outbox::new(), Outbox::new()];
    let mut decoders = [Decoder::new(), Decoder::new()];
    let mut exchanges = [(ExchangeRole::Acceptor, 0), (ExchangeRole::Initiator, 1)]
        .map(|(role, at)| Some(Exchange::start(role, Settings::default(), 1, &mut outboxes[at])));
    let (mut messages, mut bytes) = (0, 0);
    let done = |exchange: &Option<Exchange>| matches!(exchange, Some(Exchange::Done(_)));
    while !exchanges.iter().all(done) {
        for at in [0, 1] {
            let due = outboxes[at].take_due();
            bytes += due.len() as u64;
            let other = 1 - at;
            decoders[other].feed(&due);
            while !done(&exchanges[other])
                && let Some(message) = decoders[other].next_message().expect("our own message")
            {
                messages += 1;
                let exchange = exchanges[other].take().expect("put back below");
                let next = exchange.step(message, &trees[other], &mut outboxes[other]);
                exchanges[other] = Some(next.expect("both are ours"));
            }
        }
    }
    let outcome = exchanges[0].take().and_then(Exchange::into_outcome).expect("it is done");
    assert_eq!(outcome.wanted.len() as u64, half, "the difference is found");
    Talk { requests: outcome.requests, messages, bytes, seconds: start.elapsed().as_secs_f64() }
}
