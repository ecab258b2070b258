//! `kill -9` at random moments: reported changes are complete, no change is partial, and the next
//! command finds an intact store.
//!
//! `TALARIA_SEED` is the random seed; tests print theirs.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Stdio;
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use crate::program::{Contents, Program, corpus, half, joined};
use rustix::process::{Pid, Signal, kill_process};
use talaria::cert::Cert;

/// The number of kills of one test: a share of the total in percent.
pub(crate) fn kills(share: u32) -> u32 {
    (talaria_needs::short_or_full(80, 1000) * share).div_ceil(100)
}

/// Random moments for kills.
pub(crate) struct Moments(u64);

impl Moments {
    pub(crate) fn new() -> Self {
        let clock = || {
            let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap();
            u64::from(now.subsec_nanos()) << 20 | now.as_secs() & 0xf_ffff
        };
        let seed = std::env::var("TALARIA_SEED").ok().and_then(|text| text.parse().ok());
        let seed = seed.unwrap_or_else(clock).max(1);
        println!("TALARIA_SEED={seed}");
        Self(seed)
    }

    /// A random number from 0 up to 1.
    pub(crate) fn next(&mut self) -> f64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        f64::from((self.0 >> 32) as u32) / f64::from(u32::MAX)
    }
}

/// The outcome of a command that the test tried to kill.
struct Victim {
    /// The command was killed before it ended.
    killed: bool,
    /// Its output until then.
    reported: String,
}

/// Starts a command and kills it at a random moment within its usual duration or shortly after.
fn kill(program: &Program, args: &[&str], usual: Duration, moments: &mut Moments) -> Victim {
    let mut child = program.command(args).spawn().unwrap();
    thread::sleep(usual.mul_f64(1.1 * moments.next()));
    child.kill().unwrap();
    let output = child.wait_with_output().unwrap();
    let killed = output.status.code().is_none();
    assert!(killed || output.status.success(), "{args:?}: {output:?}");
    Victim { killed, reported: String::from_utf8(output.stdout).unwrap() }
}

/// The duration of a command that is not killed.
fn time(program: &Program, args: &[&str]) -> Duration {
    let started = Instant::now();
    program.ok(args);
    started.elapsed()
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// Kills commands until `wanted` were killed. `next` returns the command and the content of the
/// store after it, and may change the store first. After a kill, the store must have its earlier
/// content or the new one. If the command reported its result, the store must have the new content.
fn storm(
    wanted: u32,
    program: &Program,
    mut next: impl FnMut(&Program) -> (Vec<String>, Contents),
) {
    let mut moments = Moments::new();
    let (mut killed, mut undone, mut unreported) = (0, 0, 0);
    let mut usual = Duration::from_millis(50);
    while killed < wanted {
        let (args, after) = next(program);
        let args: Vec<&str> = args.iter().map(String::as_str).collect();
        let before = program.contents();
        let started = Instant::now();
        let victim = kill(program, &args, usual, &mut moments);
        // Adapts to the current speed of the machine.
        usual = if victim.killed { usual.mul_f64(1.02) } else { (usual + started.elapsed()) / 2 };
        program.assert_clean();
        let found = program.contents();
        if victim.killed && victim.reported.is_empty() && found == before {
            undone += u32::from(after != before);
        } else {
            assert!(found == after, "neither as before nor as after: {args:?}");
            unreported += u32::from(victim.killed && victim.reported.is_empty());
        }
        killed += u32::from(victim.killed);
    }
    println!("{killed} killed: {undone} with nothing done, {unreported} done and not yet reported");
}

#[test]
fn a_killed_import_is_atomic_and_keeps_earlier_imports() {
    let program = Program::new();
    let all = corpus(120);
    program.ok(&["import", text(&program.ring("first.pgp", &all[..1]))]);
    // New certificates first, then the other half of their signatures.
    let mut batches: Vec<(String, Vec<Cert>)> = Vec::new();
    for odd in 0..2 {
        for (number, part) in all.chunks(6).enumerate() {
            let certs = half(part, odd);
            let path = program.ring(&format!("ring-{number}-{odd}.pgp"), &certs);
            batches.push((text(&path).to_owned(), certs));
        }
    }
    let mut at = 0;
    storm(kills(30), &program, |program| {
        let mut contents = program.contents();
        if joined(contents.clone(), &batches[at].1) == contents {
            at += 1;
        }
        if at == batches.len() {
            at = 0;
            let names: Vec<String> = contents.keys().skip(1).map(ToString::to_string).collect();
            let names = names.iter().map(String::as_str);
            program.ok(&["delete"].into_iter().chain(names).collect::<Vec<_>>());
            contents = program.contents();
        }
        let (path, certs) = &batches[at];
        (vec!["import".into(), path.clone()], joined(contents, certs))
    });
}

#[test]
fn a_killed_first_import_can_be_repeated() {
    let all = corpus(20);
    let mut moments = Moments::new();
    let (mut killed, mut empty, mut usual) = (0, 0, None);
    while killed < kills(10) {
        let program = Program::new();
        let ring = program.ring("ring.pgp", &all);
        let args = ["import", text(&ring)];
        let usual = *usual.get_or_insert_with(|| time(&Program::new(), &args));
        let victim = kill(&program, &args, usual, &mut moments);
        killed += u32::from(victim.killed);
        let expected = joined(Contents::new(), &all);
        let left = std::fs::read_dir(program.path("")).unwrap();
        let left = left.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        for name in left {
            let is_known = name == "ring.pgp" || name.starts_with("certs.db");
            assert!(is_known, "{name} is left of a killed import");
        }
        if victim.killed && victim.reported.is_empty() {
            // If there is a store, it has no certificates or all of them.
            let output = program.run(&["check"]);
            empty += u32::from(!output.status.success());
            let said = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success() || said.contains("no store at"), "{said}");
            program.ok(&args);
        }
        program.assert_clean();
        assert!(program.contents() == expected);
    }
    println!("{killed} killed, {empty} of them before there was a store");
}

#[test]
fn a_killed_delete_is_atomic() {
    let program = Program::new();
    let all = corpus(150);
    let ring = program.ring("ring.pgp", &all);
    program.ok(&["import", text(&ring)]);
    storm(kills(20), &program, |program| {
        if program.contents().len() < 20 {
            program.ok(&["import", text(&ring)]);
        }
        let contents = program.contents();
        let mut after = contents.clone();
        let mut args = vec!["delete".to_owned()];
        for fingerprint in contents.keys().take(7) {
            after.remove(fingerprint);
            args.push(fingerprint.to_string());
        }
        (args, after)
    });
}

#[test]
fn a_killed_compact_changes_nothing() {
    let program = Program::new();
    let all = corpus(150);
    let ring = program.ring("ring.pgp", &all);
    program.ok(&["import", text(&ring)]);
    let mut round = 0;
    storm(kills(20), &program, |program| {
        let contents = program.contents();
        // There is always free space to return.
        round += 1;
        let some = contents.keys().nth(round % contents.len()).unwrap().to_string();
        program.ok(&["delete", &some]);
        program.ok(&["import", text(&ring)]);
        (vec!["compact".into()], contents)
    });
}

/// The store is rewritten only if another page size is better, so most of these kills and signals
/// hit a measurement, which copies certificates. The rewriting itself is simulated with power cuts
/// at every step.
#[test]
fn a_killed_or_interrupted_tune_changes_nothing_and_leaves_no_copies() {
    let program = Program::new();
    let ring = program.ring("ring.pgp", &corpus(150));
    program.ok(&["import", text(&ring)]);
    let contents = program.contents();
    let files = || {
        let entries = std::fs::read_dir(program.path("")).unwrap();
        let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        names
            .filter(|name| name != "certs.db-wal" && name != "certs.db-shm")
            .collect::<BTreeSet<_>>()
    };
    let before = files();
    let args = ["tune", "--for", "bulk", "--sample", "120", "--apply"];
    let usual = time(&program, &args);
    assert_eq!(files(), before);
    let mut moments = Moments::new();
    for round in 0..kills(1) {
        for signal in [Signal::INT, Signal::TERM, Signal::HUP] {
            let mut command = program.command(&args);
            let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
            thread::sleep(usual.mul_f64(moments.next()));
            kill_process(Pid::from_child(&child), signal).unwrap();
            let output = child.wait_with_output().unwrap();
            // A signal can come before its handler is there.
            assert!(matches!(output.status.code(), Some(0 | 130) | None), "{output:?}");
            if output.status.code().is_some() {
                assert_eq!(files(), before, "{round} {signal:?}");
            }
        }
        kill(&program, &args, usual, &mut moments);
        program.ok(&["list"]);
        program.assert_clean();
        assert!(program.contents() == contents);
        // The next run removes what the killed one left.
        program.ok(&args);
        assert_eq!(files(), before, "{round}");
    }
    let journal = rusqlite::Connection::open(program.store()).unwrap();
    let mode: String = journal.pragma_query_value(None, "journal_mode", |row| row.get(0)).unwrap();
    assert_eq!(mode, "wal");
}

#[test]
fn a_killed_build_can_be_repeated_and_is_complete() {
    let mut moments = Moments::new();
    let all = corpus(240);
    let (mut killed, mut builds, mut resumed) = (0, 0, 0);
    let wanted = kills(20);
    let mut usual = None;
    while killed < wanted {
        let program = Program::new();
        let dumps = program.path("dumps");
        std::fs::create_dir(&dumps).unwrap();
        for (number, part) in all.chunks(30).enumerate() {
            // Some certificates come twice, with different signatures.
            let certs = [half(part, 0), half(&part[..10], 1)].concat();
            program.ring(&format!("dumps/dump-{number}.pgp"), &certs);
        }
        let expected = all.chunks(30).fold(Contents::new(), |contents, part| {
            joined(joined(contents, &half(part, 0)), &half(&part[..10], 1))
        });
        let args = ["build", "--memory", "1", text(&dumps)];
        let usual = *usual.get_or_insert_with(|| {
            let time = time(&program, &args);
            std::fs::remove_file(program.store()).unwrap();
            time
        });
        // Each attempt gets further than the one before, and none leaves a partial store.
        for _ in 0..20 {
            let victim = kill(&program, &args, usual, &mut moments);
            killed += u32::from(victim.killed);
            resumed += u32::from(program.path("certs.db.building").exists());
            if program.store().exists() {
                break;
            }
            assert!(victim.killed && victim.reported.is_empty());
        }
        if !program.store().exists() {
            program.ok(&args);
        }
        assert!(program.contents() == expected, "the store is not complete");
        program.assert_clean();
        assert!(!program.path("certs.db.building").exists());
        builds += 1;
    }
    println!("{killed} killed in {builds} builds, {resumed} times something was left of one");
}
