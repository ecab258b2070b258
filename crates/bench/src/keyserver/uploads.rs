//! Uploads: one certificate per request, each answer looked at, each certificate looked up
//! afterwards.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use talaria_cert::{Cert, enarmor};

use super::bench::{Bench, Results};
use super::client::Client;
use super::dump;
use super::figures::{float, middle};
use super::server::{Server, free_port, talaria};
use crate::error::BenchError;
use crate::table::Table;

/// Connections that upload at the same time.
const CONNECTIONS: usize = 8;

/// Certificates that are made ready at a time.
const POOL_CERTS: u64 = 10_000;

/// Uploads for a server: certificates that no server has yet, generated on demand.
pub(super) struct Adder<'a> {
    bench: &'a Bench<'a>,
    next: u64,
    ready: Vec<(Cert, Vec<u8>)>,
}

/// A certificate as a form of HKP.
fn form(cert: &Cert) -> Vec<u8> {
    let mut form = b"keytext=".to_vec();
    for byte in enarmor(cert.as_bytes()).bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' => form.push(byte),
            b' ' => form.push(b'+'),
            _ => form.extend_from_slice(format!("%{byte:02X}").as_bytes()),
        }
    }
    form
}

impl<'a> Adder<'a> {
    /// Certificates from number `from` on of those that are in no dump.
    pub(super) fn new(bench: &'a Bench<'a>, from: u64) -> Self {
        Self { bench, next: from, ready: Vec::new() }
    }

    /// Makes sure of so many certificates.
    pub(super) fn prepare(&mut self, count: usize) {
        while self.ready.len() < count {
            let missing = (count - self.ready.len()) as u64;
            let count = missing.clamp(1, POOL_CERTS);
            let certs = self.bench.dump.others(self.next, count);
            self.next += count;
            self.ready.extend(certs.into_iter().map(|cert| {
                let form = form(&cert);
                (cert, form)
            }));
        }
    }

    /// Adds certificates at a rate while `work` is done; returns how many were taken in a second.
    pub(super) fn during<T>(
        &mut self,
        server: &Server,
        per_s: f64,
        work: impl FnOnce() -> T,
    ) -> Result<(T, f64), BenchError> {
        let seconds = self.bench.options.load.as_secs_f64().max(1.0) + 2.0;
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "some thousand"
        )]
        self.prepare((seconds * per_s) as usize);
        let stop = AtomicBool::new(false);
        let start = Instant::now();
        let (result, sent) = thread::scope(|scope| {
            let sender = scope.spawn(|| send(server, &self.ready, CONNECTIONS, Some(per_s), &stop));
            let result = work();
            stop.store(true, Ordering::Relaxed);
            (result, sender.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
        });
        let taken = sent?.taken;
        let elapsed = start.elapsed().as_secs_f64();
        self.ready.drain(..taken);
        Ok((result, float(taken as u64) / elapsed))
    }

    /// Adds so many certificates as fast as the server takes them. Returns them with the seconds.
    fn all(
        &mut self,
        server: &Server,
        count: usize,
        connections: usize,
    ) -> Result<(Vec<Cert>, Sent), BenchError> {
        self.prepare(count);
        let sent = send(server, &self.ready[..count], connections, None, &AtomicBool::new(false))?;
        let certs = self.ready.drain(..count).map(|(cert, _)| cert).collect();
        Ok((certs, sent))
    }
}

/// The certificates sent and accepted.
struct Sent {
    /// The first so many.
    taken: usize,
    wall_s: f64,
    /// Seconds for each of them.
    each_s: Vec<f64>,
}

/// Sends certificates over several connections, one per request, each the next one that is due.
fn send(
    server: &Server,
    certs: &[(Cert, Vec<u8>)],
    connections: usize,
    per_s: Option<f64>,
    stop: &AtomicBool,
) -> Result<Sent, BenchError> {
    let next = AtomicUsize::new(0);
    let each = Mutex::new(Vec::with_capacity(certs.len()));
    let start = Instant::now();
    let failed = thread::scope(|scope| {
        let workers: Vec<_> = (0..connections)
            .map(|_| {
                scope.spawn(|| -> Result<(), BenchError> {
                    let mut client = Client::new(server.address);
                    let mut mine = Vec::new();
                    while !stop.load(Ordering::Relaxed) {
                        let at = next.fetch_add(1, Ordering::Relaxed);
                        let Some((cert, form)) = certs.get(at) else { break };
                        if let Some(per_s) = per_s {
                            let due = Duration::from_secs_f64(float(at as u64) / per_s);
                            thread::sleep(due.saturating_sub(start.elapsed()));
                        }
                        let begun = Instant::now();
                        let reply = client.post("/pks/add", form);
                        let reply = reply.map_err(|error| server.silent(&error))?;
                        let added = reply.status == 200
                            && reply.text().contains("added successfully")
                            && !reply.text().contains("0 key(s)");
                        if !added {
                            let request = format!("/pks/add of {}", cert.fingerprint());
                            return Err(server.wrong(&request, &reply));
                        }
                        mine.push(begun.elapsed().as_secs_f64());
                    }
                    let mut each = each.lock();
                    each.append(&mut mine);
                    Ok(())
                })
            })
            .collect();
        let ends = workers
            .into_iter()
            .map(|worker| worker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
        ends.collect::<Result<Vec<()>, _>>().err()
    });
    if let Some(error) = failed {
        return Err(error);
    }
    let each_s = each.into_inner();
    Ok(Sent { taken: each_s.len(), wall_s: start.elapsed().as_secs_f64(), each_s })
}

/// Figures of one way to upload.
#[derive(Clone, Default)]
struct Figures {
    per_s: Vec<f64>,
    cpu_ms: Vec<f64>,
    p50_ms: Vec<f64>,
    p99_ms: Vec<f64>,
    commits: Vec<f64>,
    certs: usize,
}

/// Measures durable uploads, in turn.
pub(super) fn run(bench: &Bench<'_>) -> Result<Results, BenchError> {
    let certs = bench.options.certs;
    let store = bench.folder.join("uploads.db");
    dump::build_for_serving(&bench.options.program, &store, &bench.dump.files(certs)).measure()?;
    let mut servers = vec![talaria(&bench.options.program, &store, free_port("127.0.0.1")?, "")?];
    let sks = bench.sks("u")?;
    if let Some(sks) = &sks {
        sks.prepare(&bench.dump.files(certs))?;
        servers.push(sks.start(false)?);
    }
    let many = bench.options.uploads.max(1);
    let ways = [
        (0, CONNECTIONS, many),
        (0, 1, many / 4 + 1),
        (1, CONNECTIONS, many / 10 + 1),
        (1, 1, many / 10 + 1),
    ];
    let mut figures = vec![Figures::default(); ways.len()];
    let mut adders: Vec<Adder> = servers.iter().map(|_| Adder::new(bench, 0)).collect();
    for _ in 0..bench.runs() {
        for ((at, connections, count), figures) in ways.iter().zip(&mut figures) {
            let Some(server) = servers.get(*at) else { continue };
            let commits = |server: &Server| match at {
                0 => server.metric("commits"),
                _ => Ok(0.0),
            };
            adders[*at].prepare(*count);
            let (commits_before, cpu_before) = (commits(server)?, server.cpu_all_s());
            let (certs, sent) = adders[*at].all(server, *count, *connections)?;
            let cpu_s = server.cpu_all_s() - cpu_before;
            let commits = commits(server)? - commits_before;
            let mut each = sent.each_s;
            each.sort_by(f64::total_cmp);
            let count = float(sent.taken as u64);
            figures.per_s.push(count / sent.wall_s);
            figures.cpu_ms.push(1e3 * cpu_s / count);
            figures.p50_ms.push(1e3 * each[each.len() / 2]);
            figures.p99_ms.push(1e3 * each[each.len() * 99 / 100]);
            figures.commits.push(commits / count);
            figures.certs = sent.taken;
            // Acknowledged certificates must be in the store.
            let mut client = Client::new(server.address);
            for cert in &certs {
                if !server.finds(&mut client, cert)? {
                    return Err(server
                        .silent(&format!("{} was added and is not found", cert.fingerprint())));
                }
            }
        }
    }
    let mut table = Table::new(
        "Uploads, one certificate per request",
        &[
            "server",
            "connections",
            "certificates",
            "added per s",
            "CPU ms per add",
            "p50 ms",
            "p99 ms",
            "commits per add",
        ],
    );
    table.note(
        "POST /pks/add with one certificate each; every answer is looked at, and every certificate \
         that was acknowledged is looked up afterwards. Medians of runs that alternate.",
    );
    table.note(
        "talaria: self-signatures are computed, connections are kept; what is acknowledged is on the \
         disk. What comes in while a commit waits for the disk goes into the next one; a commit is \
         one sync of the log, and some more for each 64 MiB of it that are moved into the store. The \
         store has pages of 8 KiB and no index of keygrips.",
    );
    if servers.len() > 1 {
        table.note(
            "SKS: computes nothing, a connection for each request, one thread; a transaction of \
             Berkeley DB for each certificate.",
        );
    }
    for ((at, connections, _), figures) in ways.iter().zip(figures) {
        let Some(server) = servers.get(*at) else { continue };
        let per_s = middle(figures.per_s);
        table.push(vec![
            server.name.into(),
            (*connections as u64).into(),
            (figures.certs as u64).into(),
            per_s.into(),
            middle(figures.cpu_ms).into(),
            middle(figures.p50_ms).into(),
            middle(figures.p99_ms).into(),
            (*at == 0).then(|| middle(figures.commits)).into(),
        ]);
    }
    Ok(Results { name: "keyserver-uploads", table })
}
