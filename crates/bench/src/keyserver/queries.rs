//! Lookups under load: what wrk gets out of a server, and what the server pays for it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use talaria_cert::Cert;

use super::bench::{Bench, Results};
use super::client::Client;
use super::dump;
use super::figures::middle;
use super::server::{Server, free_port, lookup_path, talaria};
use super::trees::digest;
use super::uploads::Adder;
use crate::error::BenchError;
use crate::lookups::Lookup;
use crate::measure::ProgramRun;
use crate::table::{Cell, Table};

/// Certificates that are asked for, in turn.
const WANTED: u64 = 20_000;

/// Connections that ask at the same time: a few, and enough that the server rarely waits for a
/// request.
const FEW: u64 = 8;
const MANY: u64 = 64;

/// Certificates that are added in a second while others ask.
const ADDED_PER_S: f64 = 500.0;

/// The loads of each form: connections, and certificates that are added in a second.
const LOADS: [(u64, f64); 3] = [(FEW, 0.0), (FEW, ADDED_PER_S), (MANY, 0.0)];

/// The requested object.
const FORMS: [&str; 5] = ["fingerprint", "key ID", "e-mail address", "two words", "miss"];

/// Columns of the table.
const COLUMNS: [&str; 12] = [
    "server",
    "certificates",
    "lookup",
    "connections",
    "added per s",
    "requests/s",
    "server cores",
    "requests per CPU second",
    "p50 ms",
    "p99 ms",
    "other answers",
    "bytes per answer",
];

/// One load.
#[derive(Clone, Copy, Debug, Default)]
struct Load {
    connections: u64,
    added_per_s: f64,
    requests_per_s: f64,
    cores: f64,
    per_cpu_s: f64,
    p50_ms: f64,
    p99_ms: f64,
    /// Answers that are not as expected, and connections that broke, of each answer.
    others: f64,
    bytes: f64,
}

/// The median of each figure.
fn middle_load(loads: &[Load]) -> Load {
    let of = |figure: fn(&Load) -> f64| middle(loads.iter().map(figure).collect());
    Load {
        connections: loads.first().map_or(0, |load| load.connections),
        added_per_s: of(|load| load.added_per_s),
        requests_per_s: of(|load| load.requests_per_s),
        cores: of(|load| load.cores),
        per_cpu_s: of(|load| load.per_cpu_s),
        p50_ms: of(|load| load.p50_ms),
        p99_ms: of(|load| load.p99_ms),
        others: of(|load| load.others),
        bytes: of(|load| load.bytes),
    }
}

/// A list of requests of one form.
struct Questions {
    form: &'static str,
    list: PathBuf,
    paths: Vec<String>,
    status: u16,
}

/// `None` without wrk.
pub(super) fn run(bench: &Bench<'_>) -> Result<Option<Results>, BenchError> {
    // It answers 1 to the question for its version.
    if Command::new(&bench.options.wrk).arg("-v").output().is_err() {
        return Ok(None);
    }
    let certs = bench.options.certs;
    let questions = questions(bench, certs)?;
    let mut table = Table::new("Lookups under load", &COLUMNS);
    describe(&mut table, bench);

    let store = bench.folder.join("lookups.db");
    dump::build_for_serving(&bench.options.program, &store, &bench.dump.files(certs)).measure()?;
    let ours = talaria(&bench.options.program, &store, free_port("127.0.0.1")?, "")?;
    let mut servers = vec![ours];
    let mut memory =
        vec![("talaria serve", certs, servers[0].ready_s, servers[0].resident_bytes()[0])];
    let sks = bench.sks("l")?;
    if let Some(sks) = &sks {
        sks.prepare(&bench.dump.files(certs))?;
        servers.push(sks.start(true)?);
    }
    for server in &servers {
        questions.iter().try_for_each(|questions| check(server, questions))?;
    }
    // By form, load and server.
    let mut loads = vec![vec![[Vec::new(), Vec::new()]; LOADS.len()]; FORMS.len()];
    let mut adders: Vec<Adder> = servers.iter().map(|_| Adder::new(bench, 0)).collect();
    for _ in 0..bench.runs() {
        for (form, questions) in questions.iter().enumerate() {
            for (at, (server, adder)) in servers.iter().zip(&mut adders).enumerate() {
                for (load, (connections, adds_per_s)) in LOADS.into_iter().enumerate() {
                    let ask = || ask(bench, server, questions, connections);
                    let asked = if adds_per_s == 0.0 {
                        ask()?
                    } else {
                        let (asked, added) = adder.during(server, adds_per_s, ask)?;
                        Load { added_per_s: added, ..asked? }
                    };
                    loads[form][load][at].push(asked);
                }
            }
        }
    }
    let mut rows = Vec::new();
    for (server, form, load) in (0..servers.len())
        .flat_map(|server| (0..FORMS.len()).map(move |form| (server, form)))
        .flat_map(|(server, form)| (0..LOADS.len()).map(move |load| (server, form, load)))
    {
        let load = middle_load(&loads[form][load][server]);
        rows.push((servers[server].name, certs, FORMS[form], load));
    }
    memory.push(("talaria serve, after all this", certs, 0.0, servers[0].resident_bytes()[0]));
    let anonymous = servers[0].anonymous_bytes();
    if let Some(server) = servers.get(1) {
        let bytes = server.resident_bytes();
        memory.push(("sks db, after all this", certs, server.ready_s, bytes[0]));
        memory.push(("sks recon", certs, 0.0, bytes[1]));
    }
    drop(servers);
    remove(&store)?;

    // The largest store, which is talaria's alone.
    if let Some(&most) = bench.options.growth.iter().max().filter(|&&most| most > certs) {
        let questions = self::questions(bench, most)?;
        dump::build_for_serving(&bench.options.program, &store, &bench.dump.files(most))
            .measure()?;
        let server = talaria(&bench.options.program, &store, free_port("127.0.0.1")?, "")?;
        memory.push(("talaria serve", most, server.ready_s, server.resident_bytes()[0]));
        for questions in &questions {
            check(&server, questions)?;
            for connections in [FEW, MANY] {
                let ask = |_| ask(bench, &server, questions, connections);
                let loads: Result<Vec<Load>, _> = (0..bench.runs()).map(ask).collect();
                rows.push((server.name, most, questions.form, middle_load(&loads?)));
            }
        }
        let bytes = server.resident_bytes()[0];
        memory.push(("talaria serve, after all this", most, 0.0, bytes));
        drop(server);
        remove(&store)?;
    }
    for (server, certs, form, load) in &rows {
        table.push(row(server, *certs, form, load));
    }
    for (who, certs, ready_s, bytes) in memory {
        let ready = if ready_s > 0.0 {
            format!(", {} s until the first answer", Cell::from(ready_s))
        } else {
            String::new()
        };
        table.note(format!(
            "{who}, {} certificates: {} MB resident{ready}.",
            Cell::from(certs),
            Cell::from(bytes / 1e6)
        ));
    }
    table.note(format!("Of talaria's, {} MB are in no file.", Cell::from(anonymous / 1e6)));
    Ok(Some(Results { name: "keyserver-lookups", table }))
}

fn describe(table: &mut Table, bench: &Bench<'_>) {
    table.note(format!(
        "wrk, one thread, {} s for each load, on the same machine as the \
         server; medians of runs that alternate. Requests per CPU second are of the server's own \
         processes, user and system time: what a core of it alone could answer. {} certificates \
         from all parts of the dump are asked for in turn. HKP: op=get, for two words op=index, \
         options=mr.",
        bench.options.load.as_secs_f64(),
        Cell::from(WANTED.min(bench.options.certs)),
    ));
    table.note(format!(
        "talaria keeps connections (HTTP/1.1); its store has pages of 8 KiB and no index of \
         keygrips. SKS answers with HTTP/1.0 and closes the connection \
         after each answer, so that each of its requests is a connection of its own; sks recon runs \
         beside sks db. Loads with additions: {ADDED_PER_S} certificates per second, one per \
         request, are offered over 8 more connections; what was taken is in the table, and the \
         server's CPU time is that of both. Other answers are those with another status than is \
         due, and broken connections: SKS refuses searches that find more than 500.",
    ));
}

fn row(server: &str, certs: u64, form: &str, load: &Load) -> Vec<Cell> {
    vec![
        server.into(),
        certs.into(),
        form.into(),
        load.connections.into(),
        load.added_per_s.into(),
        load.requests_per_s.into(),
        load.cores.into(),
        load.per_cpu_s.into(),
        load.p50_ms.into(),
        load.p99_ms.into(),
        load.others.into(),
        load.bytes.into(),
    ]
}

fn remove(store: &Path) -> Result<(), BenchError> {
    for end in ["db", "db-wal", "db-shm"] {
        let path = store.with_extension(end);
        if path.exists() {
            fs::remove_file(&path).map_err(BenchError::io("remove", &path))?;
        }
    }
    Ok(())
}

/// Lists of requests of all forms, for the dump of `count`.
fn questions(bench: &Bench<'_>, count: u64) -> Result<Vec<Questions>, BenchError> {
    let wanted = bench.dump.lookups(count, WANTED)?;
    FORMS
        .into_iter()
        .map(|form| {
            let paths = wanted.iter().enumerate();
            let paths: Vec<String> =
                paths.map(|(at, (cert, lookups))| path(form, at as u64, cert, lookups)).collect();
            let list = bench.folder.join(format!("{}.txt", form.replace(' ', "-")));
            fs::write(&list, paths.join("\n") + "\n").map_err(BenchError::io("write", &list))?;
            let status = if form == "miss" { 404 } else { 200 };
            Ok(Questions { form, list, paths, status })
        })
        .collect()
}

fn path(form: &str, at: u64, cert: &Cert, lookups: &[Lookup]) -> String {
    let text = |form: &str| {
        let lookup = lookups.iter().find(|lookup| lookup.form == form);
        &*lookup.expect("a lookup of each form").text
    };
    let get = "/pks/lookup?op=get&options=mr&search=";
    match form {
        "key ID" => format!("{get}0x{}", text("key ID")),
        "e-mail address" => {
            format!("{get}{}", text("<address>").trim_matches(['<', '>']).replace('@', "%40"))
        }
        "two words" => {
            let words = text("+words").trim_start_matches('+').replace(' ', "+");
            format!("/pks/lookup?op=index&options=mr&search={words}")
        }
        "miss" => {
            let digits: String = digest(at).0.iter().map(|byte| format!("{byte:02X}")).collect();
            format!("{get}0x{digits}01234567")
        }
        _ => lookup_path(cert),
    }
}

/// Checks some answers, because fast answers must also be right.
fn check(server: &Server, questions: &Questions) -> Result<(), BenchError> {
    let mut client = Client::new(server.address);
    for path in questions.paths.iter().take(20) {
        let reply = client.get(path).map_err(|error| server.silent(&error))?;
        // SKS refuses what finds too much.
        let refused = server.name == "SKS" && reply.status == 500;
        let due =
            if questions.form == "two words" { "info:1:" } else { "-----BEGIN PGP PUBLIC KEY" };
        let good = reply.status == questions.status
            && (questions.status == 404 || reply.text().contains(due));
        if !(good || refused) {
            return Err(server.wrong(path, &reply));
        }
    }
    Ok(())
}

/// Has wrk ask a server for a while.
fn ask(
    bench: &Bench<'_>,
    server: &Server,
    questions: &Questions,
    connections: u64,
) -> Result<Load, BenchError> {
    let (script, report) = (bench.folder.join("wrk.lua"), bench.folder.join("wrk.out"));
    let text = format!(
        "local requests = {{}}\n\
         local n = 0\n\
         init = function(args)\n\
         \x20 for path in io.lines(\"{list}\") do\n\
         \x20   requests[#requests + 1] = wrk.format(\"GET\", path)\n\
         \x20 end\n\
         end\n\
         request = function()\n\
         \x20 n = n % #requests + 1\n\
         \x20 return requests[n]\n\
         end\n\
         done = function(summary, latency, requests)\n\
         \x20 local out = io.open(\"{report}\", \"w\")\n\
         \x20 local errors = summary.errors\n\
         \x20 out:write(string.format(\"%d %d %d %d %d %d %d\\n\", summary.requests,\n\
         \x20   summary.duration, summary.bytes, errors.status,\n\
         \x20   errors.connect + errors.read + errors.write + errors.timeout,\n\
         \x20   latency:percentile(50), latency:percentile(99)))\n\
         \x20 out:close()\n\
         end\n",
        list = questions.list.display(),
        report = report.display(),
    );
    fs::write(&script, text).map_err(BenchError::io("write", &script))?;
    let before = server.cpu_all_s();
    let load = bench.options.load;
    // wrk takes whole seconds.
    let seconds = load.as_secs().max(1).to_string();
    ProgramRun::new(&bench.options.wrk)
        .args(["-t", "1", "-c", &connections.to_string(), "-d", &seconds, "-s"])
        .arg(&script)
        .arg(format!("http://{}/", server.address))
        .measure()?;
    let cpu_s = server.cpu_all_s() - before;
    let text = fs::read_to_string(&report).map_err(BenchError::io("read", &report))?;
    let figures: Vec<f64> = text.split_whitespace().filter_map(|word| word.parse().ok()).collect();
    let [requests, us, bytes, not_found, broken, p50_us, p99_us] = figures[..] else {
        return Err(server.silent(&"wrk has nothing to report"));
    };
    let seconds = us / 1e6;
    let wrong = if questions.status == 404 { requests - not_found } else { not_found };
    Ok(Load {
        connections,
        added_per_s: 0.0,
        requests_per_s: requests / seconds,
        cores: cpu_s / seconds,
        per_cpu_s: requests / cpu_s.max(0.01),
        p50_ms: p50_us / 1e3,
        p99_ms: p99_us / 1e3,
        others: (wrong + broken) / requests.max(1.0),
        bytes: bytes / requests.max(1.0),
    })
}
