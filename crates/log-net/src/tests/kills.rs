//! `kill -9` of nodes under load: no acknowledged entry is lost, and all nodes become the same.

use std::collections::BTreeSet;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use parking_lot::Mutex;
use talaria_log::{EntryId, LogFolder};

use super::site::{Person, Site, wait_until_same};
use crate::{Event, NodeSecret, ServeOptions, Stop, serve};

const CHILD: &str = "TALARIA_NODE_CHILD";

/// Not a test of its own: a node in a process. Its arguments are in the environment: the folder of
/// the site, its number, its address, and those of its peers. If it is to write, it prints the
/// identity of each entry that is acknowledged.
#[test]
fn child_that_serves_until_it_is_killed() {
    let Ok(arguments) = std::env::var(CHILD) else { return };
    let arguments: Vec<&str> = arguments.split(' ').collect();
    let [folder, number, writes, listen, ref peers @ ..] = arguments[..] else { panic!() };
    let path = Path::new(folder).join(number);
    let secret = NodeSecret::of_folder(&path).unwrap();
    let log = Arc::new(LogFolder::open_when_free(&path, || {}).unwrap());
    if writes == "writes" {
        let mut owner = Person::read(&Path::new(folder).join("owner.pgp"));
        let log = Arc::clone(&log);
        std::thread::spawn(move || {
            for number in 0.. {
                // Some commits are of many entries.
                let count = if number % 5 == 0 { 20 } else { 1 };
                let texts: Vec<String> = (0..count).map(|n| format!("{number} {n}")).collect();
                let ids = owner.put(&log, &texts);
                let mut out = std::io::stdout().lock();
                writeln!(out, "acknowledged {}", ids[ids.len() - 1]).unwrap();
                out.flush().unwrap();
                drop(out);
                std::thread::sleep(Duration::from_millis(3));
            }
        });
    }
    // A NATS server is named by its URL.
    let (nats, peers): (Vec<String>, Vec<String>) =
        peers.iter().map(|&peer| peer.to_owned()).partition(|peer| peer.contains("://"));
    let options =
        ServeOptions { listen: Some(listen.to_owned()), peers, nats: nats.into_iter().next() };
    serve(log, &secret, &options, &Stop::default(), |event| {
        if let Event::Listening(address) = event {
            println!("listening {address}");
        }
    })
    .unwrap();
}

/// A node in a process of its own.
pub(crate) struct Process {
    pub(crate) child: Child,
    pub(crate) address: String,
    reader: Option<JoinHandle<()>>,
}

impl Process {
    /// Starts the node `number` of a site. The identities that it acknowledges are added to
    /// `acknowledged`.
    pub(crate) fn start(
        folder: &Path,
        number: usize,
        listen: &str,
        peers: &[String],
        acknowledged: Option<&Arc<Mutex<BTreeSet<EntryId>>>>,
    ) -> Self {
        let writes = if acknowledged.is_some() { "writes" } else { "reads" };
        let folder = folder.to_str().unwrap();
        let mut arguments = format!("{folder} {number} {writes} {listen}");
        peers.iter().for_each(|peer| arguments = format!("{arguments} {peer}"));
        let name = "tests::kills::child_that_serves_until_it_is_killed";
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", name, "--nocapture"])
            .env(CHILD, arguments)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let keep = acknowledged.cloned();
        let take = move |line: &str| {
            if let (Some((_, id)), Some(keep)) = (line.split_once("acknowledged "), &keep)
                && let Ok(id) = id.parse()
            {
                keep.lock().insert(id);
            }
        };
        let address = loop {
            let line = lines.next().expect("the node has ended").unwrap();
            match line.split_once("listening ") {
                Some((_, address)) => break address.to_owned(),
                None => take(&line),
            }
        };
        let reader = std::thread::spawn(move || {
            lines.map_while(Result::ok).for_each(|line| take(&line));
        });
        Self { child, address, reader: Some(reader) }
    }

    /// The most memory that the process has had, in bytes.
    pub(crate) fn peak(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let line = status.lines().find(|line| line.starts_with("VmHWM")).unwrap();
        line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() * 1024
    }

    /// Kills the process, and returns when all that it has printed is taken.
    pub(crate) fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
        if let Some(reader) = self.reader.take() {
            reader.join().unwrap();
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn no_acknowledged_entry_is_lost_by_kill_9_of_three_nodes_under_load() {
    let kills: usize = talaria_needs::short_or_full(40, 1000);
    let site = Site::new(3);
    site.copy_to(1);
    site.copy_to(2);
    let addresses: Vec<String> =
        (0..3).map(|_| format!("127.0.0.1:{}", talaria_needs::free_port())).collect();
    let acknowledged = Arc::new(Mutex::new(BTreeSet::new()));
    let start = |number: usize| {
        let mut peers = addresses.clone();
        let own = peers.remove(number);
        Process::start(site.folder.path(), number, &own, &peers, Some(&acknowledged))
    };
    let mut nodes: Vec<Process> = (0..3).map(start).collect();
    for round in 0..kills {
        std::thread::sleep(Duration::from_micros(20_000 + (round as u64 * 7919) % 150_000));
        let number = round * 7 % 3;
        nodes[number].kill();
        nodes[number] = start(number);
    }
    nodes.iter_mut().for_each(Process::kill);
    let acknowledged = acknowledged.lock();
    assert!(acknowledged.len() > kills);
    // What each has acknowledged is on its disk; together they have all of it.
    let first = site.serve(0, &[]);
    let others = [1, 2].map(|number| site.serve(number, std::slice::from_ref(&first.address)));
    wait_until_same(&[&first.log, &others[0].log, &others[1].log]);
    first
        .log
        .read(|log| {
            let lost = acknowledged.iter().filter(|id| log.entry(id).is_none()).count();
            assert_eq!(lost, 0, "of {}", acknowledged.len());
            assert!(log.forks().is_empty());
        })
        .unwrap();
    assert_eq!(first.log.verify().unwrap().failed, []);
    for node in others {
        node.end();
    }
    first.end();
}
