//! Backup by the program: repositories, snapshots, restores, and runs that are killed.

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::{FileExt as _, MetadataExt as _, symlink};
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use crate::examples::can_mount;
use crate::json::assert_documented;
use crate::program::Program;

/// A program with Alice's key, which remembers repositories in a folder of its own.
struct Backups(Program);

impl Backups {
    fn new() -> Self {
        let program = Program::new();
        let key = ["key", "generate", "--no-passphrase", "Alice <alice@example.org>"];
        program.ok(&key);
        Self(program)
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = self.0.command(&["backup"]);
        command.args(args).current_dir(self.0.path("")).env("TALARIA_REPO", "repository");
        command.env("TALARIA_BACKUP_STATE", self.0.path("state"));
        command
    }

    fn exits(&self, args: &[&str], status: i32) -> (String, String) {
        let output = self.command(args).output().unwrap();
        assert_eq!(output.status.code(), Some(status), "{args:?}: {output:?}");
        let text = |bytes| String::from_utf8(bytes).unwrap();
        (text(output.stdout), text(output.stderr))
    }

    fn ok(&self, args: &[&str]) -> (String, String) {
        self.exits(args, 0)
    }

    /// Restores a snapshot to a new folder and compares it with a folder.
    fn compare(&self, snapshot: &str, original: &Path) {
        let target = self.0.path("restored");
        let _ = fs::remove_dir_all(&target);
        let path = original.to_str().unwrap();
        self.ok(&["restore", snapshot, "--target", "restored", "--path", path]);
        assert_eq!(contents(&target), contents(original), "{snapshot}");
    }
}

/// All paths in a folder, with kind, mode, time and content.
pub(crate) fn contents(folder: &Path) -> BTreeMap<String, (u32, i64, i64, Vec<u8>)> {
    let mut all = BTreeMap::new();
    let mut open = vec![folder.to_owned()];
    while let Some(path) = open.pop() {
        for entry in fs::read_dir(&path).unwrap() {
            let path = entry.unwrap().path();
            let meta = fs::symlink_metadata(&path).unwrap();
            let content = if meta.is_symlink() {
                fs::read_link(&path).unwrap().into_os_string().into_encoded_bytes()
            } else if meta.is_dir() {
                open.push(path.clone());
                Vec::new()
            } else {
                fs::read(&path).unwrap()
            };
            let name = path.strip_prefix(folder).unwrap().to_str().unwrap().to_owned();
            all.insert(name, (meta.mode(), meta.mtime(), meta.mtime_nsec(), content));
        }
    }
    all
}

/// A folder with `count` files of different lengths.
pub(crate) fn folder(program: &Program, name: &str, count: usize) -> std::path::PathBuf {
    let root = program.path(name);
    fs::create_dir_all(root.join("deep/er")).unwrap();
    for number in 0..count {
        let mut state = number as u64 + 1;
        let bytes = (0..number * number * 37 % 300_000).map(|_| {
            // Such content does not compress.
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state.to_le_bytes()[3]
        });
        let content: Vec<u8> = bytes.collect();
        fs::write(root.join(format!("deep/file {number}")), content).unwrap();
    }
    symlink("../outside", root.join("deep/er/link")).unwrap();
    root.canonicalize().unwrap()
}

#[test]
fn a_snapshot_restores_what_was_backed_up() {
    let backups = Backups::new();
    let root = folder(&backups.0, "files", 60);
    backups.ok(&["init"]);
    let (_, said) = backups.ok(&["create", "files"]);
    assert!(said.contains("Snapshot "), "{said}");
    backups.compare("latest", &root);
    fs::write(root.join("deep/file 7"), "changed").unwrap();
    fs::remove_file(root.join("deep/file 8")).unwrap();
    fs::write(root.join("new"), "new").unwrap();
    backups.ok(&["create", "files", "--tag", "second"]);
    backups.compare("latest", &root);
    let (changes, _) = backups.ok(&["diff", "latest~1"]);
    let names = |mark: &str| -> Vec<&str> {
        let lines = changes.lines().filter_map(|line| line.strip_prefix(mark));
        lines.map(|path| path.rsplit("files/").next().unwrap()).collect()
    };
    assert_eq!((names("+ "), names("- ")), (vec!["new"], vec!["deep/file 8"]), "{changes}");
    assert_eq!(names("M "), ["deep/file 7"], "{changes}");
    // The file that was removed is in the first snapshot.
    let path = root.join("deep/file 8");
    let one = ["restore", "latest~1", "--target", "one", "--path", path.to_str().unwrap()];
    backups.ok(&one);
    assert!(backups.0.path("one/file 8").exists());
    let (listed, _) = backups.ok(&["list", "--json"]);
    assert_eq!(listed.lines().count(), 2);
    let (tagged, _) = backups.ok(&["list", "--tag", "second"]);
    assert_eq!(tagged.lines().count(), 1, "{tagged}");
    let (listed, _) = backups.ok(&["ls", "latest", root.join("deep/er").to_str().unwrap()]);
    assert!(listed.lines().count() == 2 && listed.contains("link -> ../outside"), "{listed}");
    let (_, said) = backups.ok(&["check", "--read-data"]);
    assert!(said.contains("No problem found."), "{said}");
    // Files that are there stay as they are.
    fs::write(backups.0.path("one/file 8"), "mine").unwrap();
    let (_, said) = backups.exits(&one, 5);
    assert!(said.contains("was left as it is"), "{said}");
    assert_eq!(fs::read(backups.0.path("one/file 8")).unwrap(), b"mine");
}

#[test]
fn a_dry_run_shows_what_would_be_stored_and_stores_nothing() {
    let backups = Backups::new();
    folder(&backups.0, "files", 20);
    backups.ok(&["init"]);
    let before = contents(&backups.0.path("repository"));
    let (said, _) = backups.ok(&["create", "files", "--dry-run", "--json"]);
    let json: serde_json::Value = serde_json::from_str(&said).unwrap();
    assert_documented("backup create", &json);
    assert_eq!((&json["dry_run"], &json["files_new"]), (&true.into(), &20.into()), "{json}");
    let (_, said) = backups.ok(&["create", "files", "-n"]);
    assert!(said.contains("20 files new") && said.contains("Nothing was written."), "{said}");
    assert_eq!(contents(&backups.0.path("repository")), before);
    let (_, said) = backups.exits(&["restore", "latest", "--target", "x"], 1);
    assert!(said.contains("no snapshot"), "{said}");
    backups.ok(&["create", "files"]);
    let (_, said) = backups.exits(&["create", "files", "missing", "-n"], 5);
    assert!(said.contains("0 files new") && said.contains("1 path could not be read"), "{said}");
}

#[test]
fn standard_input_is_backed_up_as_a_file() {
    let backups = Backups::new();
    backups.ok(&["init"]);
    let run = |args: &[&str], input: &[u8]| {
        let mut command = backups.command(args);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        std::io::Write::write_all(&mut child.stdin.take().unwrap(), input).unwrap();
        child.wait_with_output().unwrap()
    };
    let dump = b"INSERT INTO t VALUES (1);\n".repeat(10_000);
    let output = run(&["create", "--stdin", "dumps/db.sql", "--tag", "db", "--json"], &dump);
    assert!(output.status.success(), "{output:?}");
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&json["entries"], &json["bytes"]), (&2.into(), &dump.len().into()));
    backups.ok(&["restore", "latest", "--target", "restored"]);
    assert!(fs::read(backups.0.path("restored/dumps/db.sql")).unwrap() == dump);
    // Both at once have no meaning.
    for args in [&["create", "--stdin", "x", "files"][..], &["create", "--stdin", "x", "-n"]] {
        assert_eq!(run(args, b"").status.code(), Some(2), "{args:?}");
    }
    let output = run(&["create", "--stdin", "../x"], b"x");
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains("../x cannot be the name of a file"), "{said}");
    // An interrupt ends the program before the pipe, too. Half of its output is no backup.
    let mut command = backups.command(&["create", "--stdin", "db.sql"]);
    command.stdin(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut input = child.stdin.take().unwrap();
    std::io::Write::write_all(&mut input, &dump).unwrap();
    thread::sleep(Duration::from_millis(500));
    let pid = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    drop(input);
    let output = child.wait_with_output().unwrap();
    assert!(!output.status.success(), "{output:?}");
    let (listed, _) = backups.ok(&["list", "--json"]);
    assert_eq!(listed.lines().count(), 1, "{listed}");
}

#[test]
fn a_restore_maps_folders_and_compares_what_it_wrote() {
    let backups = Backups::new();
    let root = folder(&backups.0, "files", 30);
    backups.ok(&["init"]);
    backups.ok(&["create", "files"]);
    let deep = root.join("deep");
    let map = format!("{}=new/place", deep.display());
    let restore = ["restore", "latest", "--target", "mapped", "--map", &map, "--verify"];
    let (said, _) = backups.ok(&[&restore[..], &["--json"]].concat());
    let json: serde_json::Value = serde_json::from_str(&said).unwrap();
    assert_documented("backup restore", &json);
    assert_eq!((&json["verified"], &json["different"]), (&30.into(), &0.into()), "{json}");
    assert_eq!(contents(&backups.0.path("mapped/new/place")), contents(&deep));
    // The same by the short form, and somebody has changed a file that stays.
    let short = format!("latest:{}", deep.display());
    backups.ok(&["restore", &short, "--target", "short"]);
    assert_eq!(contents(&backups.0.path("short")), contents(&deep));
    fs::write(backups.0.path("short/file 9"), "changed").unwrap();
    let (_, said) = backups.exits(&["restore", &short, "--target", "short", "--verify"], 5);
    assert!(said.contains("file 9: size") && said.contains("1 path different"), "{said}");
    let (_, said) = backups.ok(&[
        "restore",
        &short,
        "--target",
        "short",
        "--verify",
        "--overwrite",
        "if-changed",
    ]);
    assert!(said.contains("0 paths different"), "{said}");
    backups.exits(&["restore", &short, "--target", "x", "--map", &map], 2);
    backups.exits(&["restore", "latest", "--target", "x", "--map", "no mapping"], 2);
    let (_, said) = backups.exits(&["restore", "latest", "--target", "x", "--map", "/none=x"], 1);
    assert!(said.contains("/none is not in the snapshot"), "{said}");
}

#[test]
fn drills_are_recorded_and_their_age_and_metrics_are_listed() {
    let backups = Backups::new();
    folder(&backups.0, "files", 20);
    backups.ok(&["init"]);
    backups.exits(&["drill"], 1);
    backups.ok(&["create", "files", "--host", "al\"pha"]);
    let (_, said) = backups.ok(&["list"]);
    assert!(said.contains("Last restore drill: al\"pha never"), "{said}");
    let metrics = backups.0.path("backup.prom");
    let stale = ["list", "--max-drill-age", "35d", "--metrics", "backup.prom"];
    let (_, said) = backups.exits(&stale, 1);
    assert!(said.contains("al\"pha never; to do one: talaria backup drill"), "{said}");
    let text = fs::read_to_string(&metrics).unwrap();
    assert!(!text.contains("last_drill"), "{text}");
    backups.ok(&["drill", "--sample", "10%", "--no-record"]);
    backups.exits(&stale, 1);
    let (said, _) = backups.ok(&["drill", "--json", "--host", "beta"]);
    let json: serde_json::Value = serde_json::from_str(&said).unwrap();
    assert_eq!(
        (&json["files"], &json["failed"], &json["recorded"]),
        (&20.into(), &0.into(), &true.into())
    );
    let (_, said) = backups.ok(&["list", "--max-drill-age", "1h", "--metrics", "backup.prom"]);
    assert!(said.contains("Last restore drill: al\"pha "), "{said}");
    let (listed, _) = backups.ok(&["list", "--json"]);
    let listed: serde_json::Value = serde_json::from_str(&listed).unwrap();
    assert!(listed["drilled"].is_u64() && listed["original"].is_null(), "{listed}");
    // Everybody can read the file. Each line is a comment or a value with labels.
    let text = fs::read_to_string(&metrics).unwrap();
    assert_eq!(fs::metadata(&metrics).unwrap().mode() & 0o777, 0o644);
    let value = |name: &str| -> u64 {
        let start = format!("talaria_backup_{name}{{repository=\"");
        let line = text.lines().find(|line| line.starts_with(&start));
        let line = line.unwrap_or_else(|| panic!("{name} is missing: {text}"));
        line.rsplit(' ').next().unwrap().parse().unwrap()
    };
    assert_eq!((value("snapshots"), value("future_snapshots"), value("irregularities")), (1, 0, 0));
    assert_eq!(Some(value("newest_snapshot_timestamp_seconds")), listed["time"].as_u64());
    assert_eq!(Some(value("last_drill_timestamp_seconds")), listed["drilled"].as_u64());
    assert_eq!(Some(value("newest_snapshot_bytes")), listed["bytes"].as_u64());
    assert_eq!((value("last_drill_failed_paths"), value("newest_snapshot_unread_paths")), (0, 0));
    let packs = contents(&backups.0.path("repository/packs"));
    let lengths = packs.values().map(|(_, _, _, content)| content.len() as u64);
    assert_eq!(value("pack_bytes"), lengths.sum::<u64>());
    assert!(value("packs") >= 1 && value("listed_timestamp_seconds") > 1_700_000_000);
    assert!(text.contains(",host=\"al\\\"pha\"}"), "{text}");
    let is_line = |line: &str| line.starts_with("# ") || line.contains("} ");
    assert!(text.lines().all(is_line), "{text}");
    // A drill that fails is told, and counts as none.
    for (path, _) in packs.iter().filter(|(_, (_, _, _, content))| !content.is_empty()) {
        let path = backups.0.path("repository/packs").join(path);
        let bytes = fs::read(&path).unwrap();
        fs::write(
            &path,
            [&bytes[..bytes.len() / 2], &[0; 64], &bytes[bytes.len() / 2 + 64..]].concat(),
        )
        .unwrap();
    }
    let (_, said) = backups.exits(&["drill", "--host", "beta"], 5);
    assert!(said.contains("Not restorable"), "{said}");
    let (_, said) = backups.exits(&["list", "--max-drill-age", "1h"], 1);
    assert!(said.contains("(failed)"), "{said}");
}

#[test]
fn snapshots_are_copied_to_another_repository_once() {
    let backups = Backups::new();
    let root = folder(&backups.0, "files", 40);
    backups.ok(&["init"]);
    backups.ok(&["create", "files", "--tag", "first"]);
    fs::write(root.join("new"), "new").unwrap();
    backups.ok(&["create", "files"]);
    let there = |args: &[&str]| backups.ok(&[&["--repo", "other"][..], args].concat());
    let lines = |text: &str| -> Vec<serde_json::Value> {
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    };
    // The other repository has another owner and profile.
    backups.0.ok(&["key", "generate", "--no-passphrase", "Bob <bob@example.org>"]);
    there(&["init", "-u", "bob@example.org", "--profile", "librepgp"]);
    let copy = ["copy", "--from", "repository", "-u", "bob@example.org"];
    let (_, said) = there(&[&copy[..], &["latest~1"]].concat());
    assert!(said.contains("1 snapshot copied"), "{said}");
    let (said, _) = there(&[&copy[..], &["--json"]].concat());
    let said = lines(&said);
    said.iter().for_each(|json| assert_documented("backup copy", json));
    let was_there: Vec<_> = said.iter().map(|json| json["was_there"] == true).collect();
    assert_eq!(was_there, [true, false]);
    let (_, said) = there(&copy);
    assert!(said.contains("0 snapshots copied"), "{said}");
    let (copies, originals) =
        (lines(&there(&["list", "--json"]).0), lines(&backups.ok(&["list", "--json"]).0));
    assert_eq!((copies.len(), originals.len()), (2, 2));
    for (copy, original) in copies.iter().zip(&originals) {
        assert_documented("backup list", copy);
        assert_eq!(copy["original"]["id"], original["id"]);
        assert_eq!(copy["original"]["time"], original["time"]);
        for field in ["entries", "bytes", "host", "paths", "tags"] {
            assert_eq!(copy[field], original[field], "{field}");
        }
    }
    let (listed, _) = there(&["list"]);
    assert_eq!(listed.matches("copy of ").count(), 2, "{listed}");
    for (name, has_new) in [("latest", true), ("latest~1", false)] {
        let _ = fs::remove_dir_all(backups.0.path("restored"));
        let path = root.to_str().unwrap();
        there(&["restore", name, "--target", "restored", "--path", path]);
        let restored = contents(&backups.0.path("restored"));
        assert_eq!(restored.contains_key("new"), has_new);
        assert!(!has_new || restored == contents(&root));
    }
    let (_, said) = there(&["check", "--read-data"]);
    assert!(said.contains("No problem found."), "{said}");
    let (_, said) = backups.exits(&["copy", "--from", "repository"], 1);
    assert!(said.contains("itself"), "{said}");
}

#[test]
fn a_new_repository_names_installed_programs_that_cannot_read_it() {
    let backups = Backups::new();
    let programs = backups.0.path("programs");
    fs::create_dir(&programs).unwrap();
    for (name, version) in
        [("gpg", "gpg (GnuPG) 2.2.40"), ("sq", "sq 1.1.0"), ("rnp", "rnp 0.17.1")]
    {
        let path = programs.join(name);
        fs::write(&path, format!("#!/bin/sh\necho '{version}'\n")).unwrap();
        fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    }
    let init = |profile: &str, json: &[&str]| {
        let repository = format!("{profile}-{}", json.len());
        let args = [&["--repo", &repository, "init", "--profile", profile][..], json].concat();
        let mut command = backups.command(&args);
        command.env("PATH", format!("{}:/usr/bin:/bin", programs.display()));
        let output = command.output().unwrap();
        assert!(output.status.success(), "{output:?}");
        String::from_utf8([output.stdout, output.stderr].concat()).unwrap()
    };
    assert!(init("rfc9580", &[]).contains("cannot read this format: gpg 2.2.40, rnp 0.17.1. To"));
    assert!(init("librepgp", &[]).contains("cannot read this format: sq 1.1.0. To"));
    assert!(!init("rfc4880", &[]).contains("cannot read"));
    let json: serde_json::Value = serde_json::from_str(&init("librepgp", &["--json"])).unwrap();
    assert_documented("backup init", &json);
    assert_eq!(json["cannot_read"], serde_json::json!(["sq 1.1.0"]));
}

#[test]
fn the_parts_of_a_check_are_the_whole() {
    let backups = Backups::new();
    folder(&backups.0, "files", 60);
    backups.ok(&["init"]);
    for number in 0..6 {
        fs::write(backups.0.path("files/new"), format!("{number}").repeat(3000)).unwrap();
        backups.ok(&["create", "files"]);
    }
    let check = |subset: &str, status: i32| -> serde_json::Value {
        let (said, _) = backups.exits(&["check", "--subset", subset, "--json"], status);
        serde_json::from_str(&said).unwrap()
    };
    let read = |part: &str| check(part, 0)["packs_read"].as_u64().unwrap();
    let all = read("1/1");
    assert!(all >= 6, "{all}");
    assert_eq!((1..=4).map(|part| read(&format!("{part}/4"))).sum::<u64>(), all);
    // A damaged pack is found by its part alone.
    let packs = contents(&backups.0.path("repository/packs"));
    // The content of files, which other parts do not read, is in the middle of the longest.
    let pack = packs.iter().max_by_key(|(_, (_, _, _, content))| content.len()).unwrap().0;
    let path = backups.0.path("repository/packs").join(pack);
    let mut bytes = fs::read(&path).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(&path, bytes).unwrap();
    let found = (1..=4).filter(|part| {
        let output =
            backups.command(&["check", "--subset", &format!("{part}/4")]).output().unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        match output.status.code() {
            Some(0) => assert!(said.contains("No problem found in this part."), "{said}"),
            code => assert_eq!(code, Some(4), "{said}"),
        }
        output.status.code() == Some(4)
    });
    assert_eq!(found.count(), 1);
    for wrong in ["0/4", "5/4", "1", "a/b", "1/0"] {
        backups.exits(&["check", "--subset", wrong], 2);
    }
}

#[test]
fn mistakes_with_repositories_are_named() {
    let backups = Backups::new();
    folder(&backups.0, "files", 3);
    let (_, said) = backups.exits(&["list"], 1);
    assert!(
        said.contains("repository is not a backup repository") && said.contains("init"),
        "{said}"
    );
    backups.ok(&["init"]);
    let (_, said) = backups.exits(&["init"], 1);
    assert!(said.contains("already"), "{said}");
    let (_, said) = backups.exits(&["restore", "latest", "--target", "x"], 1);
    assert!(said.contains("no snapshot"), "{said}");
    // A path that is not there is named, and the rest is backed up.
    let (_, said) = backups.exits(&["create", "files", "missing"], 5);
    assert!(said.contains("missing is left out") && said.contains("Snapshot "), "{said}");
    let (_, said) = backups.exits(&["restore", "abcd", "--target", "x"], 1);
    assert!(said.contains("no snapshot abcd"), "{said}");
    // Somebody else has no access.
    let other = Backups::new();
    let repository = backups.0.path("repository").display().to_string();
    let (_, said) = other.exits(&["--repo", &repository, "list"], 1);
    assert!(said.contains("none of your secret keys belongs to a reader"), "{said}");
    // A new format is refused, and nothing is changed.
    let mark = backups.0.path("repository/talaria-backup");
    let text = fs::read_to_string(&mark).unwrap();
    fs::write(&mark, text.replace("repository 1", "repository 2")).unwrap();
    let (_, said) = backups.exits(&["create", "files"], 4);
    assert!(said.contains("newer format"), "{said}");
}

/// A user who knows the newest snapshot from elsewhere notices an old state even at the first use.
#[test]
fn expect_head_refuses_an_older_state() {
    let backups = Backups::new();
    folder(&backups.0, "files", 3);
    backups.ok(&["init"]);
    backups.ok(&["create", "files"]);
    let copied = Command::new("cp")
        .args(["-a", "repository", "old"])
        .current_dir(backups.0.path(""))
        .status();
    assert!(copied.unwrap().success());
    let (said, _) = backups.ok(&["create", "files", "--json"]);
    let said: serde_json::Value = serde_json::from_str(&said).unwrap();
    let head = said["id"].as_str().unwrap();
    let expects = |repository: &str, status: i32| {
        let elsewhere = ["--state", "other-state", "--expect-head", head];
        for command in [&["list"][..], &["check"], &["restore", "latest", "--target", "restored"]] {
            let _ = fs::remove_dir_all(backups.0.path("restored"));
            let args = [&["--repo", repository], command, &elsewhere].concat();
            let (_, said) = backups.exits(&args, status);
            assert_eq!(said.contains("put back an old state"), status != 0, "{said}");
            assert!(status == 0 || !backups.0.path("restored").exists());
        }
    };
    expects("repository", 0);
    expects("old", 4);
}

#[test]
fn sizes_of_a_repository_are_those_of_its_files_and_objects() {
    let backups = Backups::new();
    let root = folder(&backups.0, "files", 60);
    backups.ok(&["init"]);
    backups.ok(&["create", "files"]);
    backups.ok(&["create", "files"]);
    let (said, _) = backups.ok(&["stats", "--json"]);
    let stats: serde_json::Value = serde_json::from_str(&said).unwrap();
    let files: usize = contents(&root)
        .values()
        .map(|(mode, .., content)| if mode & 0o170_000 == 0o100_000 { content.len() } else { 0 })
        .sum();
    assert_eq!(stats["files_bytes"], 2 * files);
    assert_eq!((&stats["snapshots"], &stats["unindexed"]), (&2.into(), &0.into()));
    let plain = usize::try_from(stats["plain_bytes"].as_u64().unwrap()).unwrap();
    // The files at least once, but for the tiny ones, which are in trees. The second run reads
    // files again that had just changed, and what is small then has other neighbours in its chunk.
    assert!((files - 30_000..2 * files + 30_000).contains(&plain), "{files} {stats}");
    let packs = contents(&backups.0.path("repository/packs"));
    let bytes: usize = packs.values().map(|(_, _, _, content)| content.len()).sum();
    let in_folders = packs.values().filter(|(mode, ..)| mode & 0o170_000 == 0o040_000).count();
    assert_eq!(stats["pack_bytes"], bytes);
    assert_eq!(stats["packs"], packs.len() - in_folders);
    let (said, _) = backups.ok(&["stats"]);
    assert!(said.contains("Files to storage"), "{said}");
}

#[test]
fn a_newest_snapshot_that_is_too_old_fails_the_listing() {
    let backups = Backups::new();
    folder(&backups.0, "files", 3);
    backups.ok(&["init"]);
    let (_, said) = backups.exits(&["list", "--max-age", "26h"], 1);
    assert!(said.contains("no snapshot of anybody from the last 26 h"), "{said}");
    backups.ok(&["create", "files", "--host", "alpha"]);
    let (_, said) = backups.ok(&["list", "--max-age", "26h"]);
    assert!(said.contains("Newest snapshot: alpha "), "{said}");
    thread::sleep(Duration::from_millis(1100));
    let (_, said) = backups.exits(&["list", "--max-age", "0h"], 1);
    assert!(said.contains("no snapshot of alpha from the last 0 s"), "{said}");
}

#[test]
fn a_machine_notices_the_deletion_of_a_snapshot_it_has_seen() {
    let backups = Backups::new();
    folder(&backups.0, "files", 3);
    backups.ok(&["init"]);
    backups.ok(&["create", "files"]);
    backups.ok(&["create", "files"]);
    let (listed, _) = backups.ok(&["list", "--json"]);
    let newest: serde_json::Value = serde_json::from_str(listed.lines().last().unwrap()).unwrap();
    let name = format!("repository/snapshots/{}", newest["id"].as_str().unwrap());
    fs::remove_file(backups.0.path(&name)).unwrap();
    let (_, said) = backups.exits(&["list"], 4);
    assert!(said.contains("is missing"), "{said}");
    let (problems, _) = backups.exits(&["check"], 4);
    assert!(problems.contains("is missing"), "{problems}");
}

#[test]
fn a_replaced_repository_is_refused_until_the_owner_is_named() {
    let backups = Backups::new();
    folder(&backups.0, "files", 3);
    backups.ok(&["init"]);
    backups.ok(&["create", "files"]);
    // Mallory puts a repository of her own in its place, which Alice can read.
    let mallory = Backups::new();
    let cert = backups.0.path("alice.pgp").display().to_string();
    backups.0.ok(&["export", "alice@example.org", "--output", &cert]);
    mallory.0.ok(&["import", &cert]);
    let listed: serde_json::Value =
        serde_json::from_str(backups.0.ok(&["key", "list", "--json"]).lines().next().unwrap())
            .unwrap();
    let name = listed["fingerprint"].as_str().unwrap().to_owned();
    let key = ["key", "generate", "--no-passphrase", "Mallory <mallory@example.org>"];
    mallory.0.ok(&key);
    mallory.ok(&["init", "-u", "mallory@example.org", "--to", &name]);
    let (ours, hers) = (backups.0.path("repository"), mallory.0.path("repository"));
    fs::rename(&ours, backups.0.path("stolen")).unwrap();
    let copied = Command::new("cp").arg("-a").arg(&hers).arg(&ours).status().unwrap();
    assert!(copied.success());
    let refused = |args: &[&str], why: &str| {
        let (_, said) = backups.exits(args, 1);
        assert!(said.contains(why), "{said}");
    };
    refused(&["create", "files"], "somebody may have replaced it");
    refused(&["create", "files", "--owner", &name], "belongs to");
    // An attempt with the owner's name does not make the new one the known one.
    refused(&["create", "files"], "somebody may have replaced it");
    fs::remove_dir_all(&ours).unwrap();
    fs::rename(backups.0.path("stolen"), &ours).unwrap();
    backups.ok(&["create", "files"]);
}

#[test]
fn rules_forget_snapshots_and_protected_ones_stay() {
    let backups = Backups::new();
    folder(&backups.0, "files", 3);
    backups.ok(&["init"]);
    for _ in 0..5 {
        backups.ok(&["create", "files"]);
    }
    let ids = || -> Vec<String> {
        let (listed, _) = backups.ok(&["list", "--json"]);
        let id = |line| serde_json::from_str::<serde_json::Value>(line).unwrap()["id"].clone();
        listed.lines().map(|line| id(line).as_str().unwrap().to_owned()).collect()
    };
    let all = ids();
    backups.exits(&["forget"], 2);
    backups.exits(&["forget", "--keep-last", "2", "latest"], 2);
    backups.ok(&["protect", &all[0]]);
    let (shown, said) = backups.ok(&["forget", "--keep-last", "3", "--dry-run"]);
    assert!(
        shown.contains("protected") && said.contains("Would forget 1 snapshot."),
        "{shown}{said}"
    );
    assert_eq!(ids(), all);
    let (_, said) = backups.exits(&["forget", "--keep-last", "1"], 1);
    assert!(said.contains("more than half") && said.contains("--yes"), "{said}");
    let (_, said) = backups.exits(&["forget", &all[0]], 1);
    assert!(said.contains("is protected"), "{said}");
    backups.ok(&["forget", "--keep-last", "3"]);
    assert_eq!(ids(), [&all[..1], &all[2..]].concat());
    backups.ok(&["protect", &all[0], "--remove"]);
    let (json, _) = backups.ok(&["forget", &all[0], &all[2], &all[3], "--yes", "--json"]);
    assert_eq!(json.matches("\"forgotten\":[").count(), 1, "{json}");
    assert_eq!(ids(), all[4..]);
    // The next one has the next number, on a machine that has seen nothing, too.
    backups.ok(&["forget", &all[4], "--yes"]);
    fs::remove_dir_all(backups.0.path("state")).unwrap();
    backups.ok(&["create", "files"]);
    let (listed, said) = backups.ok(&["list", "--json"]);
    assert!(listed.contains("\"number\":6"), "{listed}{said}");
    backups.ok(&["check"]);
}

#[test]
fn files_are_found_in_all_snapshots_with_their_versions() {
    let backups = Backups::new();
    let root = folder(&backups.0, "files", 30);
    backups.ok(&["init"]);
    backups.ok(&["create", "files"]);
    backups.ok(&["create", "files"]);
    fs::write(root.join("deep/file 7"), "changed").unwrap();
    backups.ok(&["create", "files"]);
    let (found, _) = backups.ok(&["find", "file 7", "--json"]);
    let found: Vec<serde_json::Value> =
        found.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let counts: Vec<_> = found.iter().map(|found| found["snapshots"].as_u64().unwrap()).collect();
    assert_eq!(counts, [2, 1], "{found:?}");
    assert_eq!(found[1]["size"], 7);
    let (found, _) = backups.ok(&["find", "file 7", "--snapshot", "latest"]);
    assert_eq!(found.lines().count(), 1);
    // A folder stands for what is in it.
    let (found, _) = backups.ok(&["find", "deep", "--snapshot", "latest"]);
    assert_eq!(found.lines().count(), 1, "{found}");
    let (_, said) = backups.exits(&["find", "nothing*"], 1);
    assert!(said.contains("no path in 3 snapshots matches"), "{said}");
}

/// Where this user can mount, which a container often does not allow.
#[test]
fn a_mounted_snapshot_equals_a_restore_and_is_read_only() {
    if !can_mount() {
        return;
    }
    let backups = Backups::new();
    let root = folder(&backups.0, "files", 300);
    backups.ok(&["init"]);
    backups.ok(&["create", "files"]);
    fs::write(root.join("new"), "second").unwrap();
    backups.ok(&["create", "files"]);
    let inside = root.strip_prefix("/").unwrap();
    let target = backups.0.path("mounted");
    fs::create_dir(&target).unwrap();
    let mounted = |args: &[&str], work: &dyn Fn()| {
        let mut args = args.to_vec();
        args.extend(["--target", "mounted"]);
        let mut run = backups.command(&args).stderr(Stdio::piped()).spawn().unwrap();
        let mut said = BufReader::new(run.stderr.take().unwrap());
        let mut line = String::new();
        said.read_line(&mut line).unwrap();
        assert!(line.starts_with("Mounted "), "{line}");
        work();
        let id = rustix::process::Pid::from_child(&run);
        rustix::process::kill_process(id, rustix::process::Signal::TERM).unwrap();
        assert!(run.wait().unwrap().success());
        assert_eq!(fs::read_dir(&target).unwrap().count(), 0, "it is unmounted");
    };
    mounted(&["mount", "latest"], &|| {
        let root = target.join(inside);
        assert_eq!(contents(&root), contents(&backups.0.path("files")));
        let mounts = fs::read_to_string("/proc/mounts").unwrap();
        let own = mounts.lines().find(|line| line.contains(target.to_str().unwrap())).unwrap();
        for option in ["ro,", "nosuid", "nodev"] {
            assert!(own.contains(option), "{own}");
        }
        let refused = fs::write(root.join("new"), "other").unwrap_err();
        assert_eq!(refused.kind(), std::io::ErrorKind::ReadOnlyFilesystem);
    });
    mounted(&["mount"], &|| {
        let mut names: Vec<_> =
            fs::read_dir(&target).unwrap().map(|entry| entry.unwrap().path()).collect();
        names.sort();
        assert_eq!(names.len(), 2);
        let has_new = |path: &Path| path.join(inside).join("new").exists();
        assert_eq!(names.iter().filter(|path| has_new(path)).count(), 1);
        // A range in the middle of a file.
        let file = "deep/file 90";
        let (whole, part) = (fs::read(root.join(file)).unwrap(), &mut [0; 5000]);
        let opened = fs::File::open(names[0].join(inside).join(file)).unwrap();
        opened.read_exact_at(part, 20_000).unwrap();
        assert_eq!(part, &whole[20_000..25_000]);
    });
    let mut run = backups.command(&["mount", "--target", "mounted", "--json"]);
    let mut run = run.stdout(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(run.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert_documented("backup mount", &serde_json::from_str(&line).unwrap());
    rustix::process::kill_process(
        rustix::process::Pid::from_child(&run),
        rustix::process::Signal::TERM,
    )
    .unwrap();
    assert!(run.wait().unwrap().success());
    fs::write(target.join("there"), "").unwrap();
    let (_, said) = backups.exits(&["mount", "--target", "mounted"], 2);
    assert!(said.contains("mounted is not empty"), "{said}");
}

#[test]
fn a_killed_run_harms_nothing_and_the_next_one_continues() {
    let backups = Backups::new();
    let root = folder(&backups.0, "files", 250);
    backups.ok(&["init"]);
    let mut finished = Vec::new();
    for turn in 0..talaria_needs::short_or_full(60, 1000) {
        // Each run has something new to store.
        fs::write(root.join("turn"), turn.to_string().repeat(100_000)).unwrap();
        let mut run = backups.command(&["create", "files"]).spawn().unwrap();
        thread::sleep(Duration::from_millis(turn * 7 % 90));
        run.kill().unwrap();
        let ended = run.wait().unwrap();
        let (listed, _) = backups.ok(&["list", "--json"]);
        let count = listed.lines().count();
        // A run that has said that it is done is there.
        assert!(!ended.success() || count == finished.len() + 1, "{ended} {count}");
        if count > finished.len() {
            finished.push(turn);
            backups.compare("latest", &root);
        }
        assert_eq!(count, finished.len(), "a finished snapshot is there for good");
    }
    let (_, said) = backups.ok(&["check", "--read-data"]);
    assert!(said.contains("No problem found."), "{said}");
    backups.ok(&["create", "files"]);
    backups.compare("latest", &root);
    // Some of the older ones.
    for (place, turn) in finished.iter().enumerate().step_by(1 + finished.len() / 20) {
        let name = format!("latest~{}", finished.len() - place);
        let _ = fs::remove_dir_all(backups.0.path("old"));
        let path = root.join("turn");
        backups.ok(&["restore", &name, "--target", "old", "--path", path.to_str().unwrap()]);
        let old = fs::read_to_string(backups.0.path("old/turn")).unwrap();
        assert_eq!(old, turn.to_string().repeat(100_000));
    }
}

#[test]
fn a_killed_restore_completes_when_it_is_run_again() {
    let backups = Backups::new();
    let root = folder(&backups.0, "files", 150);
    fs::write(root.join("large"), vec![7; 50 << 20]).unwrap();
    for number in 0..40 {
        symlink(format!("target {number}"), root.join(format!("link {number}"))).unwrap();
        fs::hard_link(root.join("deep/file 90"), root.join(format!("name {number}"))).unwrap();
    }
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o550);
    fs::set_permissions(root.join("deep/er"), mode).unwrap();
    backups.ok(&["init"]);
    backups.ok(&["create", "files"]);
    let path = root.to_str().unwrap();
    let again = ["restore", "latest", "--target", "restored", "--path", path];
    for turn in 0..talaria_needs::short_or_full(30, 600) {
        let mut run = backups.command(&again).stderr(Stdio::null()).spawn().unwrap();
        thread::sleep(Duration::from_millis(10 + turn * 7 % 80));
        run.kill().unwrap();
        run.wait().unwrap();
        if turn % 3 == 2 {
            backups.ok(&again);
            assert_eq!(contents(&backups.0.path("restored")), contents(&root), "{turn}");
            fs::remove_dir_all(backups.0.path("restored")).unwrap();
        }
    }
    let (_, said) = backups.exits(&["restore", "latest", "--target", "-"], 2);
    assert!(said.contains("a folder with the name - is ./-"), "{said}");
    // Something else in the place of a file is no success.
    backups.ok(&again);
    fs::write(backups.0.path("restored/large"), "mine").unwrap();
    let (_, said) = backups.exits(&again, 5);
    assert!(said.contains("Different: ") && said.contains("large was there"), "{said}");
    assert_eq!(fs::read(backups.0.path("restored/large")).unwrap(), b"mine");
}

#[test]
fn a_clock_before_the_repository_warns_and_only_writing_is_refused() {
    let backups = Backups::new();
    let root = folder(&backups.0, "files", 20);
    backups.ok(&["init"]);
    backups.ok(&["create", "files"]);
    let faked = |args: &[&str], status: i32| {
        let output = backups.0.command(&["--faked-time", "1104537600", "backup"]);
        let mut output = output;
        output.args(args).current_dir(backups.0.path("")).env("TALARIA_REPO", "repository");
        let output = output.env("TALARIA_BACKUP_STATE", backups.0.path("state")).output().unwrap();
        assert_eq!(output.status.code(), Some(status), "{args:?}: {output:?}");
        String::from_utf8(output.stderr).unwrap()
    };
    let path = root.to_str().unwrap();
    for args in [
        &["list"][..],
        &["check", "--read-data"],
        &["ls", "latest"],
        &["drill"],
        &["restore", "latest", "--target", "restored", "--path", path],
    ] {
        let said = faked(args, 0);
        assert!(said.contains("clock of this machine says 2005-01-01"), "{args:?}: {said}");
    }
    assert_eq!(contents(&backups.0.path("restored")), contents(&root));
    for args in [
        &["create", "files"][..],
        &["forget", "latest", "--yes"],
        &["prune"],
        &["protect", "latest"],
    ] {
        let said = faked(args, 1);
        assert!(said.contains("set the clock"), "{args:?}: {said}");
    }
    let (listed, _) = backups.ok(&["list", "--json"]);
    assert_eq!(listed.lines().count(), 1);
}

#[test]
fn a_killed_prune_or_change_of_keys_harms_nothing_and_the_next_one_continues() {
    let backups = Backups::new();
    let root = folder(&backups.0, "files", 60);
    let bob = ["key", "generate", "--no-passphrase", "Bob <bob@example.net>"];
    backups.0.ok(&bob);
    let by = ["-u", "alice@example.org"];
    backups.ok(&[&["init", "--to", "alice@example.org"], &by[..]].concat());
    let create = || {
        backups.ok(&[&["create", "files"], &by[..]].concat());
    };
    create();
    let mut finished = 0;
    for turn in 0..talaria_needs::short_or_full(24_u64, 1000) {
        if turn % 3 == 0 {
            // Something to forget and to copy.
            fs::write(root.join("deep/file 7"), turn.to_string().repeat(30_000)).unwrap();
            fs::write(root.join("deep/file 8"), turn.to_string().repeat(20_000)).unwrap();
            create();
            backups.ok(&[&["forget", "--keep-last", "1", "--yes"], &by[..]].concat());
        }
        let args = match turn % 4 {
            0 | 2 => vec!["prune", "--max-unused", "0", "--stale-after", "1"],
            1 => vec!["prune", "--max-unused", "0", "--stale-after", "1", "--rekey"],
            _ => vec!["key", ["add", "remove"][usize::from(turn % 8 == 7)], "bob@example.net"],
        };
        let mut run = backups.command(&[&args[..], &by[..]].concat()).spawn().unwrap();
        thread::sleep(Duration::from_millis(turn * 7 % 90));
        run.kill().unwrap();
        finished += u32::from(run.wait().unwrap().success());
        backups.compare("latest", &root);
        if turn % 10 == 9 {
            backups.ok(&["check", "--read-data"]);
        }
    }
    backups.ok(&[&["prune", "--max-unused", "0", "--stale-after", "1"], &by[..]].concat());
    let (_, said) = backups.ok(&["check", "--read-data"]);
    assert!(said.contains("No problem found."), "{said} {finished}");
    backups.compare("latest", &root);
    for folder in ["plans", "commits", "leases"] {
        let left = fs::read_dir(backups.0.path("repository").join(folder)).unwrap();
        let left = left.filter(|entry| {
            let name = entry.as_ref().unwrap().file_name();
            !name.to_string_lossy().starts_with(".tmp-")
        });
        assert_eq!(left.count(), 0, "{folder}");
    }
}

#[test]
fn backups_of_different_folders_read_no_unchanged_file_again() {
    let backups = Backups::new();
    for name in ["one", "two"] {
        folder(&backups.0, name, 40);
    }
    backups.ok(&["init"]);
    // Until the times of the files are past, a change could go unnoticed.
    thread::sleep(Duration::from_millis(2500));
    let read = |folders: &[&str]| -> u64 {
        let (made, _) = backups.ok(&[&["create", "--json"], folders].concat());
        let made: serde_json::Value = serde_json::from_str(&made).unwrap();
        made["read_bytes"].as_u64().unwrap()
    };
    let first = read(&["one"]);
    assert!(first > 100_000);
    assert_eq!(read(&["two"]), first);
    assert_eq!((read(&["one"]), read(&["two"]), read(&["one"])), (0, 0, 0));
    // Another set of paths begins with what the newest one knows.
    assert_eq!(read(&["one", "two"]), first);
    assert_eq!(read(&["two", "one"]), 0);
}

#[test]
fn a_missing_snapshot_is_named_and_forgetting_it_ends_that() {
    let backups = Backups::new();
    let root = folder(&backups.0, "files", 5);
    backups.ok(&["init"]);
    let mut ids = Vec::new();
    for turn in 0..3 {
        fs::write(root.join("turn"), turn.to_string()).unwrap();
        let (made, _) = backups.ok(&["create", "files", "--json"]);
        let made: serde_json::Value = serde_json::from_str(&made).unwrap();
        ids.push(made["id"].as_str().unwrap().to_owned());
    }
    let object = |id: &str| backups.0.path("repository/snapshots").join(id);
    let aside = backups.0.path("aside");
    for id in &ids[1..] {
        fs::rename(object(id), &aside).unwrap();
        let (_, said) = backups.exits(&["list"], 4);
        assert!(said.contains(&format!("({id})")) && said.contains("is missing"), "{said}");
        let (_, said) = backups.exits(&["prune"], 4);
        let told = if *id == ids[2] { "--despite-missing" } else { "What its client wrote stays" };
        assert!(said.contains(id.as_str()) && said.contains(told), "{said}");
        fs::rename(&aside, object(id)).unwrap();
        backups.ok(&["prune"]);
    }
    fs::remove_file(object(&ids[2])).unwrap();
    backups.ok(&["forget", &ids[2]]);
    let (_, said) = backups.ok(&["list"]);
    assert!(!said.contains("missing"), "{said}");
    backups.ok(&["prune"]);
}

#[test]
fn a_prune_says_what_it_deletes() {
    let backups = Backups::new();
    let root = folder(&backups.0, "files", 20);
    backups.ok(&["init"]);
    backups.ok(&["create", "files"]);
    fs::remove_dir_all(root.join("deep")).unwrap();
    fs::write(root.join("new"), "new").unwrap();
    backups.ok(&["create", "files"]);
    backups.ok(&["forget", "latest~1"]);
    let (_, said) = backups.ok(&["prune", "--dry-run"]);
    assert!(said.contains("Would delete 1 of 2 packs"), "{said}");
    let (json, _) = backups.ok(&["prune", "--json"]);
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!((&json["deleted_packs"], &json["snapshots"]), (&1.into(), &1.into()), "{json}");
    backups.compare("latest", &root);
    backups.ok(&["check", "--read-data"]);
}

#[test]
fn a_full_disk_is_named_and_the_next_run_continues() {
    let backups = Backups::new();
    let root = folder(&backups.0, "files", 120);
    let small = backups.0.path("small");
    fs::create_dir(&small).unwrap();
    let mount = ["-t", "tmpfs", "-o", "size=1m", "tmpfs", small.to_str().unwrap()];
    if !Command::new("mount").args(mount).status().is_ok_and(|status| status.success()) {
        talaria_needs::left_out("the right to mount");
        return;
    }
    let unmount = || Command::new("umount").arg(&small).status().unwrap();
    let outcome = std::panic::catch_unwind(|| {
        let repo = ["--repo", "small/repository"];
        backups.ok(&[&repo[..], &["init"]].concat());
        let (_, said) = backups.exits(&[&repo[..], &["create", "files"]].concat(), 5);
        assert!(said.contains("No space left"), "{said}");
        let (listed, _) = backups.ok(&[&repo[..], &["list"]].concat());
        assert_eq!(listed, "");
        let remount = ["-o", "remount,size=64m", small.to_str().unwrap()];
        assert!(Command::new("mount").args(remount).status().unwrap().success());
        backups.ok(&[&repo[..], &["create", "files"]].concat());
        let path = root.to_str().unwrap();
        let restore = ["restore", "latest", "--target", "restored", "--path", path];
        backups.ok(&[&repo[..], &restore].concat());
        assert_eq!(contents(&backups.0.path("restored")), contents(&root));
        backups.ok(&[&repo[..], &["check", "--read-data"]].concat());
    });
    assert!(unmount().success());
    outcome.unwrap();
}
