//! `kill -9` at any moment, compactions included: no acknowledged entry is lost.

use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::time::Duration;

use talaria_log::{EntryId, Log, LogFolder, Signed};
use talaria_message::read_cert;

use crate::deletion::{delete_values, is_on_disk, put_deletable};
use crate::people::{NOW_MS, Person, begin, genesis_of, set};

const FOLDER: &str = "TALARIA_LOG_CHILD";
/// A value that the child stores and deletes.
const SECRET: &str = "deleted-while-killed";
/// The writers of the child, each with a chain of its own.
const THREADS: u8 = 3;

fn key(folder: &Path) -> talaria_message::openpgp::Cert {
    read_cert(&fs::read(folder.join("key.pgp")).unwrap()).unwrap()
}

/// Not a test of its own: the process that is killed. It prints the identity of each entry that is
/// acknowledged.
#[test]
fn child_that_writes_until_it_is_killed() {
    let Some(folder) = std::env::var_os(FOLDER) else { return };
    let folder = Path::new(&folder);
    let log = LogFolder::open(&folder.join("log")).unwrap();
    let cert = key(folder);
    let out = Mutex::new(std::io::stdout());
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let (log, out, cert) = (&log, &out, &cert);
            scope.spawn(move || {
                let mut person = Person::of(cert, 0);
                person.chain.instance = log.instance();
                person.chain.instance[0] ^= thread;
                for number in 0.. {
                    if thread == 0 && number % 4 == 3 {
                        put_deletable(log, &mut person, "field", SECRET);
                        delete_values(log, &mut person, "field").unwrap();
                        log.compact(|_| ()).unwrap();
                    }
                    let id = log.append(|log| {
                        // Some appends are of many entries.
                        let count = if number % 5 == 0 { 20 } else { 1 };
                        let made: Vec<Signed> = (0..count)
                            .map(|n| {
                                let text = format!("{thread}.{number}.{n}");
                                person.make_at(log, set(&text), NOW_MS).unwrap()
                            })
                            .collect();
                        let id = made[made.len() - 1].id;
                        Ok::<_, talaria_log::LogError>((made, id))
                    });
                    // An index must hold what is on disk, also while others write.
                    if number % 7 == 0 {
                        log.write_index().unwrap();
                    }
                    let mut out = out.lock().unwrap();
                    writeln!(out, "acknowledged {}", id.unwrap()).unwrap();
                    out.flush().unwrap();
                }
            });
        }
    });
}

#[test]
fn no_acknowledged_entry_is_lost_by_kill_9() {
    let kills: u32 = talaria_needs::short_or_full(30, 1000);
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("key.pgp"), Person::secret(0)).unwrap();
    let mut alice = Person::of(&key(folder.path()), 9);
    let genesis = genesis_of(&[&alice], 1);
    let genesis = begin(&mut alice, genesis);
    let path = folder.path().join("log");
    drop(LogFolder::create(&path, &genesis).unwrap());
    let mut acknowledged: BTreeSet<EntryId> = BTreeSet::new();
    for round in 0..kills {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "kills::child_that_writes_until_it_is_killed", "--nocapture"])
            .env(FOLDER, folder.path())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap());
        let mut text = String::new();
        // At least one entry, then another moment in each round.
        while !text.contains("acknowledged") {
            assert!(lines.read_line(&mut text).unwrap() > 0, "the child ended: {text}");
        }
        std::thread::sleep(Duration::from_micros(u64::from(round) * 1733 % 40_000));
        child.kill().unwrap();
        child.wait().unwrap();
        lines.read_to_string(&mut text).unwrap();
        let before = acknowledged.len();
        let whole = text.lines().filter_map(|line| line.split_once("acknowledged "));
        acknowledged.extend(whole.filter_map(|(_, id)| id.parse::<EntryId>().ok()));
        assert!(acknowledged.len() > before);
        let log = LogFolder::open(&path).unwrap();
        log.read(|log| {
            let lost = acknowledged.iter().filter(|id| log.entry(id).is_none()).count();
            assert_eq!(lost, 0, "of {} in round {round}", acknowledged.len());
            assert!(log.forks().is_empty());
        })
        .unwrap();
    }
    let log = LogFolder::open(&path).unwrap();
    log.compact(|_| ()).unwrap();
    // A value may have come to disk and its deletion not.
    let has_value = log.read(|log| {
        let thing = log.find_object("thing").unwrap();
        log.state().field(thing, "field").is_some()
    });
    assert_eq!(is_on_disk(&path, SECRET), has_value.unwrap());
    let verified = log.verify().unwrap();
    assert_eq!(verified.failed, []);
    assert_eq!(verified.state_hash, log.read(Log::state_hash).unwrap());
}
