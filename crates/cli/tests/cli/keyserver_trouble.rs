//! A keyserver in trouble: its log cannot be written, its disk is full, its store is locked or
//! gone.

use std::fs::{self, File};
use std::io::{PipeReader, Read as _};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rusqlite::Connection;
use talaria::cert::Cert;
use talaria::store::{Access, Store};
use talaria_needs::free_port;

use crate::program::{Disk, Program, Serving, corpus};

/// The longest time from SIGTERM to the end of the process.
const END: Duration = Duration::from_secs(5);

/// Requests with a long path. Their lines in the log are more than a pipe and the server's queue
/// hold.
const FLOOD: usize = 400;
const PATH_CHARS: usize = 8000;

/// Starts a server that logs all requests.
fn start(program: &Program, log: Stdio) -> Serving {
    Serving::start_with_log(program, "[log]\nrequests = true\n", log)
}

/// A pipe that takes one page.
fn pipe() -> (PipeReader, Stdio) {
    let (reader, writer) = std::io::pipe().unwrap();
    rustix::pipe::fcntl_setpipe_size(&writer, 4096).unwrap();
    (reader, writer.into())
}

/// Fills the log.
fn flood(serving: &Serving) {
    let path = format!("/{}", "a".repeat(PATH_CHARS));
    thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                for _ in 0..FLOOD / 8 {
                    let (status, _) = serving.get(&path);
                    assert!(matches!(status, 404 | 429), "{status}");
                }
            });
        }
    });
}

/// The server does all that it is for.
fn assert_works(serving: &Serving, certs: &[Cert]) {
    for cert in certs {
        let (status, said) = serving.add(cert);
        assert_eq!(status, 200, "{said}");
        assert!(serving.finds(cert));
    }
    assert_eq!(serving.get("/ready").0, 200);
}

fn assert_ends(serving: &mut Serving, status: i32) {
    let begun = Instant::now();
    let ended = serving.wait();
    assert_eq!(ended.code(), Some(status), "{ended}");
    assert!(begun.elapsed() < END, "it took {:?}", begun.elapsed());
}

fn assert_stored(path: &Path, certs: &[Cert]) {
    let store = Store::open(path, Access::Read).unwrap();
    for cert in certs {
        let is_there = store.get(cert.fingerprint()).unwrap().is_some();
        assert!(is_there, "{} is lost", cert.fingerprint());
    }
}

#[test]
fn an_unwritable_log_does_not_stop_the_server() {
    let certs = corpus(6);
    for (at, log) in ["/dev/full", "gone"].into_iter().enumerate() {
        let program = Program::new();
        let stderr = match log {
            "gone" => pipe().1,
            device => File::options().write(true).open(device).unwrap().into(),
        };
        let mut serving = start(&program, stderr);
        assert_works(&serving, &certs[3 * at..][..3]);
        flood(&serving);
        assert_works(&serving, &certs[3 * at..][..3]);
        assert!(serving.metric("log_lines_lost_total") >= FLOOD as u64, "{log}");
        serving.signal("TERM");
        assert_ends(&mut serving, 0);
        assert_stored(program.store(), &certs[3 * at..][..3]);
    }
}

/// Nobody reads the log: only lines are lost.
#[test]
fn a_stalled_log_reader_does_not_stop_the_server() {
    let certs = corpus(3);
    let program = Program::new();
    let (reader, log) = pipe();
    let mut serving = start(&program, log);
    flood(&serving);
    assert_works(&serving, &certs);
    assert!(serving.metric("log_lines_lost_total") > 0);
    serving.signal("TERM");
    assert_ends(&mut serving, 0);
    assert_stored(program.store(), &certs);
    drop(reader);
}

#[test]
fn a_log_reader_that_resumes_sees_the_number_of_lost_lines() {
    let program = Program::new();
    let (mut reader, log) = pipe();
    let mut serving = start(&program, log);
    flood(&serving);
    let lost = serving.metric("log_lines_lost_total");
    assert!(lost > 0);
    let reading = thread::spawn(move || {
        let mut text = String::new();
        reader.read_to_string(&mut text).unwrap();
        text
    });
    serving.signal("TERM");
    assert_ends(&mut serving, 0);
    let text = reading.join().unwrap();
    let reports: Vec<&str> =
        text.lines().filter(|line| line.contains("log lines were lost")).collect();
    assert_eq!(reports.len(), 1, "{reports:?}");
    // The request for the metric may have been lost, too.
    let said = |lost: u64| reports[0].contains(&format!("lost={lost}"));
    assert!(said(lost) || said(lost + 1), "{lost}: {reports:?}");
    let requests = text.lines().filter(|line| line.contains("path=\"/aaa")).count() as u64;
    assert!(requests + lost >= FLOOD as u64 && requests < FLOOD as u64);
    assert!(text.contains("shutting down"), "the last lines are written");
}

/// The final error goes to the same pipe, which nobody reads.
#[test]
fn a_server_without_a_store_ends_even_if_nobody_reads_its_log() {
    let program = Program::new();
    let (reader, log) = pipe();
    let mut serving = start(&program, log);
    flood(&serving);
    fs::remove_file(program.store()).unwrap();
    assert_ends(&mut serving, 5);
    drop(reader);
}

#[test]
fn uploads_work_again_when_a_full_disk_has_room() {
    let program = Program::new();
    let Some(disk) = Disk::mount(program.path("disk"), 40 << 20) else { return };
    let program = program.with_store(disk.at.join("certs.db"));
    let certs = corpus(40);
    let mut serving = Serving::start(&program, &[]);
    assert_works(&serving, &certs[..10]);
    let mut acknowledged: Vec<Cert> = certs[..10].to_vec();
    for round in certs[10..].chunks(10) {
        disk.fill(0);
        let mut is_full = false;
        for cert in round {
            match serving.add(cert) {
                (200, _) => acknowledged.push(cert.clone()),
                (status, said) => {
                    assert_eq!(status, 507, "{said}");
                    is_full = true;
                }
            }
        }
        assert!(is_full);
        assert!(serving.finds(&certs[0]));
        assert_eq!(serving.get("/ready").0, 200);
        disk.free();
        assert_works(&serving, round);
        acknowledged.extend_from_slice(round);
    }
    serving.signal("TERM");
    assert_ends(&mut serving, 0);
    assert!(serving.log().contains("no space left on the disk of"));
    assert_stored(program.store(), &acknowledged);
    program.assert_clean();
}

/// The same with a limit on the size of files, which needs no privileges.
#[test]
fn a_limit_on_the_size_of_files_refuses_uploads_and_kills_nothing() {
    let program = Program::new();
    let certs = corpus(400);
    let limited = format!("ulimit -f 1024; exec '{}' \"$@\"", env!("CARGO_BIN_EXE_talaria"));
    let log = File::create(program.path("log")).unwrap();
    let free = SocketAddr::from(([127, 0, 0, 1], free_port()));
    let mut command = Command::new("bash");
    command.args(["-c", &limited, "talaria", "--store"]).arg(program.store());
    command.args(["serve", "--listen", &free.to_string()]).env("TALARIA_CONFIG", "");
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
    let mut serving = Serving::of_child(command.spawn().unwrap(), free);
    let mut acknowledged = Vec::new();
    let refused = certs.iter().find_map(|cert| match serving.add(cert) {
        (200, _) => {
            acknowledged.push(cert.clone());
            None
        }
        refused => Some(refused),
    });
    let (status, said) = refused.expect("the limit is reached");
    assert_eq!(status, 507, "{said}");
    assert!(!acknowledged.is_empty() && serving.finds(&acknowledged[0]));
    assert_eq!(serving.get("/ready").0, 200);
    serving.signal("TERM");
    assert_ends(&mut serving, 0);
    // Lines of the log may follow the answer. At the end of the process, all are written.
    let log = fs::read_to_string(program.path("log")).unwrap();
    assert!(log.contains("file too large"), "{log}");
    assert_stored(program.store(), &acknowledged);
    program.assert_clean();
}

/// Another program holds the write lock of the store: look-ups work, and SIGTERM does, too.
#[test]
fn a_locked_store_delays_uploads_but_not_the_shutdown() {
    let program = Program::new();
    let certs = corpus(4);
    let mut serving = Serving::start(&program, &[]);
    assert_works(&serving, &certs[..1]);
    let foreign = Connection::open(program.store()).unwrap();
    foreign.execute_batch("BEGIN IMMEDIATE").unwrap();
    thread::scope(|scope| {
        let uploads: Vec<_> =
            certs[1..3].iter().map(|cert| scope.spawn(|| serving.add(cert))).collect();
        thread::sleep(Duration::from_secs(1));
        assert!(serving.finds(&certs[0]));
        assert_eq!(serving.get("/ready").0, 200);
        assert!(uploads.iter().all(|upload| !upload.is_finished()), "they wait");
        serving.signal("TERM");
        let begun = Instant::now();
        for upload in uploads {
            let (status, said) = upload.join().unwrap();
            assert_eq!(status, 503, "{said}");
        }
        assert!(begun.elapsed() < END, "{:?}", begun.elapsed());
    });
    assert_ends(&mut serving, 0);
    foreign.execute_batch("ROLLBACK").unwrap();
    let store = Store::open(program.store(), Access::Read).unwrap();
    assert_eq!(store.count().unwrap(), 1, "nothing was stored that was not acknowledged");
}

/// Without the shutdown, an upload waits for another program, and then it is stored.
#[test]
fn an_upload_waits_for_another_writer() {
    let program = Program::new();
    let certs = corpus(1);
    let serving = Serving::start(&program, &[]);
    let foreign = Connection::open(program.store()).unwrap();
    foreign.execute_batch("BEGIN IMMEDIATE").unwrap();
    thread::scope(|scope| {
        let upload = scope.spawn(|| serving.add(&certs[0]));
        thread::sleep(Duration::from_secs(2));
        assert!(!upload.is_finished());
        foreign.execute_batch("ROLLBACK").unwrap();
        assert_eq!(upload.join().unwrap().0, 200);
    });
    assert!(serving.finds(&certs[0]));
}

/// Nobody uploads anything, and the server notices anyway.
#[test]
fn a_server_whose_store_is_gone_is_not_ready_and_ends() {
    let moved = |path: &Path| path.with_file_name("moved.db");
    type Damage<'a> = &'a dyn Fn(&Path);
    let damages: [(&str, Damage); 4] = [
        ("moved", &|path| fs::rename(path, moved(path)).unwrap()),
        ("deleted", &|path| fs::remove_file(path).unwrap()),
        ("replaced", &|path| {
            fs::rename(path, moved(path)).unwrap();
            fs::copy(moved(path), path).unwrap();
        }),
        ("without its log", &|path| {
            fs::remove_file(PathBuf::from(format!("{}-wal", path.display()))).unwrap();
        }),
    ];
    for (name, damage) in damages {
        let program = Program::new();
        let mut serving = Serving::start(&program, &[]);
        assert_works(&serving, &corpus(1));
        damage(program.store());
        let (status, said) = serving.get("/ready");
        assert_eq!(status, 503, "{name}: {said}");
        assert_ends(&mut serving, 5);
        let log = serving.log();
        let named =
            format!("{} or its log was moved, replaced or deleted", program.store().display());
        assert!(
            log.lines().any(|line| line.starts_with("talaria: ") && line.contains(&named)),
            "{log}"
        );
    }
}
