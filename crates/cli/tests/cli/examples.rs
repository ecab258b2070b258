//! A shell runs the examples in the help of every command unchanged, each in a fresh copy of a
//! folder with the files and keys that they use.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use crate::program::{Home, Program, Serving, corpus, prepared};

/// The placeholder fingerprint in the examples.
const ANY: &str = "0123456789ABCDEF0123456789ABCDEF01234567";

/// The placeholder identity of an entry in the examples.
const ENTRY: &str = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

/// The placeholder key of a node in the examples, and the address of the node.
const NODE_KEY: &str = "fedcba9876543210fedcba9876543210fedcba9876543210fedcba9876543210";
const NODE: &str = "node-2.example.net:7711";

/// The key of Bob's node, and the identity of the log.
fn node(home: &Home) -> (String, String) {
    let key = home.sh("cd bob && talaria log --log fleet node key");
    let stats = home.sh("talaria --json log --log fleet stats");
    let id = stats.split("\"log\":\"").nth(1).unwrap();
    (key.trim().to_owned(), id[..64].to_owned())
}

/// Serves Bob's copy of the log until the process is killed.
fn serve_log(home: &Home) -> (std::process::Child, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_talaria"));
    let command = command.args(["log", "--log", "fleet", "serve", "--listen", "127.0.0.1:0"]);
    let command = command.current_dir(home.0.join("bob")).env("TALARIA_CONFIG", "");
    let mut child = command.stderr(std::process::Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
    let address = lines.find_map(|line| {
        Some(line.unwrap().strip_prefix("Listening at ")?.trim_end_matches('.').to_owned())
    });
    // Somebody must read what it says.
    thread::spawn(move || lines.for_each(drop));
    (child, address.unwrap())
}

/// Makes the log that the examples use, what Bob wrote to it on another node, and the identity of
/// his grant.
fn log(home: &Home) -> String {
    for witness in ["witness", "witness-2"] {
        home.sh(&format!("talaria -q log witness init {witness} {witness}.example.net"));
    }
    home.sh("talaria -q log --log fleet init --rule 'tags*=set' --checkpointer checkpoint.key \
             --witness witness/key.pub --witness witness-2/key.pub");
    home.sh("talaria -q log --log fleet put server-1 color red");
    home.sh("talaria -q log --log fleet put server-1 owner Bob --deletable");
    home.sh("talaria -q log --log fleet grant bob@example.net");
    home.sh("cp -a ../b bob && mkdir -p bob/fleet copy");
    home.sh("talaria -q log --log fleet node publish --name node-1");
    for folder in ["bob/fleet", "copy"] {
        home.sh(&format!(
            "talaria -q log --log fleet node publish $(talaria log --log {folder} node key)"
        ));
    }
    home.sh("talaria -q log --log fleet export -o from-alice.tlg");
    home.sh("cd bob && HOME=$PWD/home && talaria -q log --log fleet import ../from-alice.tlg && \
             talaria -q log --log fleet put server-1 size large -u bob@example.net && \
             talaria -q log --log fleet export -o ../from-bob.tlg");
    home.sh("echo '{\"object\": \"server-2\", \"field\": \"tags\", \"value\": \"new\"}' > updates.jsonl");
    home.sh("talaria -q log --log fleet checkpoint --key checkpoint.key --request request.txt");
    for witness in ["witness", "witness-2"] {
        home.sh(&format!("talaria -q log witness trust {witness} checkpoint.key.pub"));
    }
    home.sh("talaria -q log witness cosign witness-2 request.txt -o cosigned.txt");
    home.sh("talaria -q log --log fleet snapshot make");
    home.sh("talaria -q log --log fleet snapshot export -o fleet.snapshot");
    home.sh("talaria --json log --log fleet stats | sed 's/.*\"log\":\"//; s/\".*//' > fleet.id");
    let grants = home.sh("talaria --json log --log fleet list --grants");
    let found = grants.lines().find_map(|line| line.split("\"grant\":\"").nth(1));
    found.unwrap()[..64].to_owned()
}

/// The commands and their examples, from the help.
pub(crate) fn examples() -> Vec<(String, Vec<String>)> {
    let help = |words: &[String]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_talaria"));
        let output = command.args(words).arg("--help").env("TALARIA_CONFIG", "").output().unwrap();
        assert!(output.status.success(), "{words:?}: {output:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    // Words at the start of a line, below the heading of commands or of a group of them.
    let parts = |text: &str| -> Vec<String> {
        let lines = text.lines().filter_map(|line| line.strip_prefix("  "));
        let words = lines.filter(|line| line.starts_with(|c: char| c.is_ascii_lowercase()));
        let words = words.filter_map(|line| line.split_once("  "));
        words.map(|(word, _)| word.trim().to_owned()).filter(|word| !word.contains(' ')).collect()
    };
    let mut all = Vec::new();
    let mut open: Vec<Vec<String>> = vec![Vec::new()];
    while let Some(words) = open.pop() {
        let text = help(&words);
        let (text, examples) = text.split_once("\nExamples:\n").unwrap_or((&text, ""));
        let is_group = text.contains("\nCommands:\n") || words.is_empty();
        if is_group && words != ["bench"] {
            let below = parts(text).into_iter().filter(|part| part != "help");
            open.extend(below.map(|part| [&words[..], &[part]].concat()));
        }
        let examples = examples.replace(" \\\n", " ");
        let lines = examples.lines().filter_map(|line| line.trim_start().strip_prefix("$ "));
        let join = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ");
        all.push((words.join(" "), lines.map(join).collect()));
    }
    all
}

/// Whether this user can mount by FUSE here.
pub(crate) fn can_mount() -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let able = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    let able = u64::from_str_radix(able.unwrap().trim(), 16).unwrap();
    let has_helper = ["fusermount3", "fusermount"].iter().any(|name| {
        Command::new(name).arg("--version").output().is_ok_and(|output| output.status.success())
    });
    // CAP_SYS_ADMIN is number 21.
    (able >> 21 & 1 == 1 || has_helper)
        && fs::File::options().read(true).write(true).open("/dev/fuse").is_ok()
}

/// What the examples need beside the folder in which they run.
struct Ground {
    root: tempfile::TempDir,
    /// Folders to copy: with files and keys, the same with a backup repository, and the same with a
    /// log.
    alice: Home,
    with_backups: Home,
    with_log: Home,
    /// The identity of Bob's grant in the log, the key of his node, and the identity of the log.
    grant: String,
    node: String,
    log: String,
    bob: String,
    many: Program,
    server: Serving,
    /// The store of the server.
    _store: Program,
}

/// Makes a repository with two snapshots of the folder.
fn back_up(home: &Home) {
    let backup = "talaria -q backup --repo backups";
    home.sh(&format!("{backup} init && {backup} create letter.txt && {backup} create ."));
}

impl Ground {
    fn new() -> Self {
        let root = tempfile::tempdir().unwrap();
        let alice = prepared(root.path());
        let bob = fs::read_to_string(alice.0.join("fingerprints.txt")).unwrap().trim().to_owned();
        assert_eq!(bob.len(), 40);
        let many = Program::new();
        many.ring("many.pgp", &corpus(60));
        let store = Program::new();
        store.ok(&["import", &alice.0.join("keyring.gpg").display().to_string()]);
        // The server gossips only with its configured peers.
        store.ok(&["peer", "add", "127.0.0.1:11370"]);
        let server = Serving::start(&store, &["--gossip", "127.0.0.1:0"]);
        let with_backups = copied(&alice, &root.path().join("with-backups"));
        back_up(&with_backups);
        let with_log = copied(&alice, &root.path().join("with-log"));
        let grant = log(&with_log);
        let (node, log) = node(&with_log);
        for home in [&alice, &with_backups, &with_log] {
            let _ = home.try_sh("gpgconf --kill all");
        }
        Self {
            root,
            alice,
            with_backups,
            with_log,
            grant,
            node,
            log,
            bob,
            many,
            server,
            _store: store,
        }
    }

    /// Runs an example in a folder of its own. Returns what is wrong with it.
    fn run(&self, name: &str, line: &str) -> Option<String> {
        let is_of_log = line.contains("talaria log ");
        let is_copy = line.contains(" copy --from ");
        let needs_backups =
            line.contains("talaria backup ") && (is_copy || !line.contains(" init"));
        // The snapshots have the folder by its path.
        let names_folder = line.contains("$PWD") || line.split(' ').any(|word| word == ".");
        let template = match () {
            () if is_of_log => &self.with_log,
            () if needs_backups && !names_folder => &self.with_backups,
            () => &self.alice,
        };
        let home = copied(template, &self.root.path().join(name));
        if needs_backups && names_folder {
            back_up(&home);
        }
        // Servers on the internet are replaced by servers on this machine.
        let mut run = line
            .replace(ANY, &self.bob)
            .replace("hkps://keys.openpgp.org", &self.server.keyserver())
            .replace("127.0.0.1:11370", &self.server.gossip.unwrap().to_string())
            .replace("/mnt/backup", "backups");
        // The folder has a file of each name; the example writes it, so it is not there yet.
        let output = line.split(" -o ").nth(1).and_then(|rest| rest.split(' ').next());
        let words = |name: &str| line.split(' ').filter(|word| *word == name).count();
        if let Some(output) = output.filter(|output| words(output) == 1) {
            let _ = fs::remove_file(home.0.join(output));
        }
        let mut wanted = 0;
        if line.starts_with("talaria serve") && !line.contains("--show-config") {
            // The server runs until it gets a signal, on a free port.
            let listen = if line.contains("--listen") { "" } else { " --listen 127.0.0.1:11371" };
            run = format!("timeout --signal TERM 2 {run}{listen}").replace(":11371", ":0");
            wanted = 124;
        }
        if line == "talaria key generate \"Carol <carol@example.org>\"" {
            // There is no terminal for the question.
            run.push_str(" --passphrase-file passphrase.txt");
        }
        if line.contains(" admin restore ") {
            home.sh("talaria -q admin backup backup.db");
        }
        if line.starts_with("talaria tune") {
            home.sh(&format!("talaria -q import {}", self.many.path("many.pgp").display()));
        }
        let mut serving = None;
        if is_of_log {
            run = run.replace(NODE_KEY, &self.node);
            let entry = if line.contains("--expect") { &self.log } else { &self.grant };
            run = run.replace(ENTRY, entry);
            if line.contains(" node publish --name") {
                let own = home.sh("talaria log --log fleet node key");
                home.sh(&format!("talaria -q log --log fleet node end {own}"));
            }
            if line.contains(NODE) {
                let (child, address) = serve_log(&home);
                run = run.replace(NODE, &address).replace("0.0.0.0:7711", "127.0.0.1:0");
                serving = Some(child);
            }
            if line.contains(" serve ") || line.contains(" watch") {
                run = format!("timeout --foreground --preserve-status --signal TERM 2 {run}");
            }
        }
        if is_copy && !line.contains(" init") {
            home.sh("talaria -q backup --repo backups2 init");
        }
        for (undone, done) in [("unblock", "block"), ("unredact", "redact --all")] {
            if line.contains(&format!("admin {undone}")) {
                home.sh(&format!("talaria admin {done} {}", self.bob));
            }
        }
        if line.contains(" mount ") {
            if !can_mount() {
                talaria_needs::left_out("the right to mount");
                return None;
            }
            // It ends well when it is asked to.
            run = format!("mkdir snapshots; timeout --preserve-status --signal TERM 2 {run}");
        }
        let output = home.try_sh(&run);
        let said = String::from_utf8_lossy(&output.stderr);
        let is_right =
            output.status.code() == Some(wanted) && (wanted == 0 || said.contains("Serving "));
        let fault = (!is_right).then(|| format!("{run}: {}\n{said}", output.status));
        if let Some(mut serving) = serving {
            serving.kill().unwrap();
            serving.wait().unwrap();
        }
        let _ = home.try_sh("gpgconf --kill all");
        let _ = fs::remove_dir_all(&home.0);
        fault
    }
}

/// A copy of a folder in the same place, so that its neighbours are the same.
fn copied(from: &Home, to: &Path) -> Home {
    let copied = Command::new("cp").arg("-a").arg(&from.0).arg(to).status().unwrap();
    assert!(copied.success());
    Home(to.to_owned())
}

#[test]
fn every_example_of_the_help_works() {
    let ground = Ground::new();
    let mut all = Vec::new();
    for (command, lines) in examples().into_iter().filter(|(command, _)| !command.is_empty()) {
        assert!(lines.len() >= 2, "{command}: {lines:?}");
        all.extend(lines);
    }
    let count = all.len();
    assert!(count > 120, "{count}");
    let (next, failed) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    // Servers among them run until they are stopped, so two wait beside each other.
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    let Some(line) = all.get(number) else { break };
                    let fault = ground.run(&number.to_string(), line);
                    failed.lock().unwrap().extend(fault);
                }
            });
        }
    });
    let failed = failed.into_inner().unwrap();
    assert!(failed.is_empty(), "{} of {count}:\n{}", failed.len(), failed.join("\n"));
}

#[test]
fn the_first_examples_do_what_their_text_says() {
    let root = tempfile::tempdir().unwrap();
    let alice = prepared(root.path());
    // The results of the three examples that people will try first.
    alice.sh("talaria encrypt -r bob@example.net letter.txt -o for-bob.pgp");
    fs::copy(alice.0.join("for-bob.pgp"), root.path().join("b/for-bob.pgp")).unwrap();
    let read = Home(root.path().join("b")).sh("talaria decrypt for-bob.pgp");
    assert_eq!(read, "Meet me at noon.\n");
    assert!(alice.try_sh("talaria verify letter.txt.sig letter.txt").status.success());
    alice.sh("echo changed >> letter.txt");
    let output = alice.try_sh("talaria verify letter.txt.sig letter.txt");
    assert_eq!(output.status.code(), Some(1), "{output:?}");
}
