//! Backups to services that a network leads to: real servers of S3, SFTP and WebDAV, and a line
//! that fails.

mod line;
mod servers;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::atomic::{AtomicUsize, Ordering};

use talaria::backup::{Backend, BackupError};
use talaria_backup_remote::{Remote, RepositoryUrl};

use self::line::{Fault, Line};
use self::servers::{S3, Sftp, WebDav};
use crate::backup::{contents, folder};
use crate::foreign_text::server_with;
use crate::program::Program;

/// A program with Alice's key, and a repository behind a URL.
struct Away {
    program: Program,
    url: String,
    env: Vec<(&'static str, String)>,
}

impl Away {
    fn new(url: String, env: Vec<(&'static str, String)>) -> Self {
        let program = Program::new();
        program.ok(&["key", "generate", "--no-passphrase", "Alice <alice@example.org>"]);
        Self { program, url, env }
    }

    fn command(&self, args: &[&str]) -> Command {
        self.set_up(self.program.command(&["backup", "--repo", &self.url]), args)
    }

    /// A command that may take so many seconds of CPU, after which the system ends the process.
    fn limited(&self, seconds: u32, args: &[&str]) -> Command {
        let limit = format!("ulimit -t {seconds}; exec \"$0\" \"$@\"");
        let backup = ["backup", "--repo", &self.url];
        self.set_up(self.program.command_under("bash", &["-c", &limit], &backup), args)
    }

    fn set_up(&self, mut command: Command, args: &[&str]) -> Command {
        command.args(args).current_dir(self.program.path(""));
        command.env("TALARIA_BACKUP_STATE", self.program.path("state"));
        command.envs(self.env.iter().map(|(name, value)| (name, value)));
        command
    }

    fn exits(&self, args: &[&str], status: i32) -> String {
        let output = self.command(args).output().unwrap();
        assert_eq!(output.status.code(), Some(status), "{args:?}: {output:?}");
        said(&output)
    }

    fn ok(&self, args: &[&str]) -> String {
        self.exits(args, 0)
    }

    /// Restores a snapshot to a new folder and compares it with a folder.
    fn compare(&self, snapshot: &str, original: &Path) {
        let target = self.program.path("restored");
        let _ = fs::remove_dir_all(&target);
        let path = original.to_str().unwrap();
        self.ok(&["restore", snapshot, "--target", "restored", "--path", path]);
        assert_eq!(contents(&target), contents(original), "{snapshot}");
    }

    /// The usual operations on a repository.
    fn live(&self) -> PathBuf {
        let root = folder(&self.program, "files", 40);
        let said = self.exits(&["list"], 1);
        assert!(said.contains("is not a backup repository"), "{said}");
        self.ok(&["init"]);
        assert!(self.exits(&["init"], 1).contains("already"));
        self.ok(&["create", "files"]);
        fs::write(root.join("deep/file 9"), "changed").unwrap();
        self.ok(&["create", "files"]);
        self.compare("latest", &root);
        let said = self.ok(&["check", "--read-data"]);
        assert!(said.contains("No problem found."), "{said}");
        assert_eq!(self.ok(&["list", "--json"]).lines().count(), 2);
        root
    }
}

fn said(output: &Output) -> String {
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    text(&output.stdout) + &text(&output.stderr)
}

fn remote(url: &str, env: &[(&'static str, String)]) -> Remote {
    let variable =
        |name: &str| env.iter().find(|(known, _)| *known == name).map(|(_, value)| value.clone());
    Remote::new(&RepositoryUrl::parse(url, &variable).unwrap()).unwrap()
}

/// A storage can answer anything. A list costs little, whatever it is, and one that is too large is
/// refused at once.
#[test]
fn hostile_lists_cost_little() {
    let owner = Program::new();
    owner.ok(&["key", "generate", "--no-passphrase", "Alice <alice@example.org>"]);
    let repository = owner.path("repo");
    owner.ok(&["backup", "--repo", repository.to_str().unwrap(), "init"]);
    let mark = fs::read(repository.join("talaria-backup")).unwrap();
    let attributes: String = (0..40_000).map(|number| format!(" a{number}=\"\"")).collect();
    let namespaces: String = (0..40_000).map(|n| format!(" xmlns:a{n}=\"\"")).collect();
    let nested = "<a>".repeat(100_000);
    let large = format!("<multistatus>{}", " ".repeat(65 << 20));
    for (body, why) in [
        (format!("<multistatus{attributes}></multistatus>"), "configurations are missing"),
        (
            format!("<multistatus><response{namespaces}></response></multistatus>"),
            "more than 128 namespace bindings",
        ),
        (format!("<multistatus>{nested}"), "start tag not closed"),
        (large, "the answer has more than 67108864 bytes"),
    ] {
        // It answers reads as it should, and lies in lists.
        let (mark, body) = (mark.clone(), body.into_bytes());
        let address = server_with(move |request| {
            let status =
                if request.starts_with("PROPFIND") { "207 Multi-Status" } else { "200 OK" };
            let lists = !request.starts_with("GET") || request.contains("list-type");
            (status.to_owned(), if lists { body.clone() } else { mark.clone() })
        });
        for url in
            [format!("webdav://{address}/x"), format!("s3://bucket/x?endpoint=http://{address}")]
        {
            let away = Away::new(url, S3::env());
            let output = away.limited(3, &["list"]).output().unwrap();
            let said = said(&output);
            assert!(output.status.code().is_some_and(|status| status > 0), "{output:?}");
            assert!(said.len() < 1000 && said.contains(why), "{said}");
        }
    }
}

fn is_missing<T>(result: &Result<T, BackupError>) -> bool {
    matches!(result, Err(BackupError::Missing { .. }))
}

/// The operations that every back end supports.
fn contract(place: &Remote, objects: usize) {
    assert!(place.list("packs").unwrap().is_empty());
    assert!(is_missing(&place.get("packs/ab/abcd", 9)));
    assert!(is_missing(&place.get_range("packs/ab/abcd", 0, 9)));
    place.put("packs/ab/abcd", &[b"one", b"two"]).unwrap();
    let again = place.put("packs/ab/abcd", &[b"other"]);
    assert!(matches!(again, Err(BackupError::Exists { .. })), "{again:?}");
    place.sync().unwrap();
    assert_eq!(place.get("packs/ab/abcd", 6).unwrap(), b"onetwo");
    let large = place.get("packs/ab/abcd", 5);
    assert!(matches!(large, Err(BackupError::Damaged { .. })), "{large:?}");
    assert_eq!(place.get_range("packs/ab/abcd", 2, 2).unwrap(), b"et");
    assert_eq!(place.get_range("packs/ab/abcd", 5, 9).unwrap(), b"o");
    assert_eq!(place.get_range("packs/ab/abcd", 6, 9).unwrap(), b"");
    // Neighbouring ranges, with gaps, to the end and beyond it.
    let large: Vec<u8> = (0..9_000_000_u32).map(|n| n.wrapping_mul(n).to_le_bytes()[1]).collect();
    place.put("packs/cd/large", &[&large]).unwrap();
    for at in (0..9_000_000).step_by(70_000) {
        let read = place.get_range("packs/cd/large", at as u64, 69_000).unwrap();
        assert!(read == large[at..(at + 69_000).min(large.len())], "{at}");
    }
    // Many objects at the same time, and a name that several want.
    let (next, won) = (AtomicUsize::new(0), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        for thread in 0..8 {
            let (next, won) = (&next, &won);
            scope.spawn(move || {
                if place.creates_atomically() {
                    match place.put("config/00000001", &[format!("{thread}").as_bytes()]) {
                        Ok(()) => won.fetch_add(1, Ordering::Relaxed),
                        Err(BackupError::Exists { .. }) => 0,
                        Err(error) => panic!("{error}"),
                    };
                }
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    if number >= objects {
                        break;
                    }
                    let name = format!("packs/{:02x}/{number:06}", number % 16);
                    place.put(&name, &[&vec![7; number]]).unwrap();
                }
            });
        }
    });
    assert!(!place.creates_atomically() || won.into_inner() == 1);
    let mut listed = place.list("packs").unwrap();
    listed.retain(|object| object.name.len() == "packs/00/000000".len());
    listed.sort_by(|a, b| (a.bytes, &a.name).cmp(&(b.bytes, &b.name)));
    assert_eq!(listed.len(), objects);
    for (number, object) in listed.iter().enumerate() {
        assert_eq!(object.name, format!("packs/{:02x}/{number:06}", number % 16));
        assert_eq!(object.bytes, number as u64);
    }
    assert_eq!(place.get("packs/00/000000", 0).unwrap(), b"");
    place.delete("packs/cd/large").unwrap();
    place.delete("packs/cd/large").unwrap();
    assert!(is_missing(&place.get("packs/cd/large", 10_000_000)));
    assert!(is_missing(&place.get_range("packs/cd/large", 70_000, 9)));
}

#[test]
fn s3_keeps_objects_as_a_folder_does() {
    let Some(s3) = S3::start() else { return };
    s3.bucket("contract", false);
    // More than one page of a list.
    contract(&remote(&s3.url("contract/some/where"), &S3::env()), 1100);
    // A prefix of a name is another folder.
    assert!(remote(&s3.url("contract/some"), &S3::env()).list("packs").unwrap().is_empty());
}

#[test]
fn webdav_keeps_objects_as_a_folder_does() {
    let Some(dav) = WebDav::start() else { return };
    contract(&remote(&dav.url("some/where"), &WebDav::env()), 100);
    // Nothing unfinished is left.
    let left = Command::new("find").arg(dav.root()).args(["-name", ".tmp-*"]).output().unwrap();
    assert!(left.status.success() && left.stdout.is_empty(), "{left:?}");
}

#[test]
fn backups_live_on_s3() {
    let Some(s3) = S3::start() else { return };
    s3.bucket("alice", false);
    let away = Away::new(s3.url("alice/backup"), S3::env());
    let root = away.live();
    // The place is the same, however patient the user is.
    let patient = Away { url: format!("{}&timeout=9", away.url), ..away };
    patient.compare("latest", &root);
    // A bucket that is not there, and one that is no repository.
    let said = Away { url: s3.url("nobody/x"), ..patient }.exits(&["list"], 5);
    assert!(said.contains("s3://nobody/x") && said.contains("NoSuchBucket"), "{said}");
}

#[test]
fn requests_go_only_to_services_with_a_trusted_certificate() {
    let Some(s3) = S3::start_with_tls() else { return };
    s3.bucket("bob", false);
    let stranger = Away::new(s3.url("bob/backup"), S3::env());
    let said = stranger.exits(&["list"], 5);
    assert!(
        said.contains("certificate of the service") && said.contains("SSL_CERT_FILE"),
        "{said}"
    );
    let certificate = s3.certificate().to_str().unwrap().to_owned();
    let trusting = [S3::env(), vec![("SSL_CERT_FILE", certificate)]].concat();
    Away::new(s3.url("bob/backup"), trusting).live();
}

#[test]
fn backups_live_on_webdav() {
    let Some(dav) = WebDav::start() else { return };
    let away = Away::new(dav.url("backup"), WebDav::env());
    let root = away.live();
    let wrong =
        vec![("TALARIA_WEBDAV_USER", "alice".into()), ("TALARIA_WEBDAV_PASSWORD", "no".into())];
    let away = Away { env: wrong, ..away };
    let said = away.exits(&["create", "files"], 5);
    assert!(said.contains("permission denied") || said.contains("401"), "{said}");
    let away = Away { env: WebDav::env(), ..away };
    away.compare("latest", &root);
}

#[test]
fn backups_live_on_sftp() {
    let Some(sftp) = Sftp::start() else { return };
    let away = Away::new(sftp.url("backup"), sftp.env());
    let root = away.live();
    let left = Command::new("find").arg(sftp.root()).args(["-name", ".tmp-*"]).output().unwrap();
    assert!(left.status.success() && left.stdout.is_empty(), "{left:?}");
    // A server with another host key is refused.
    sftp.forget_host();
    let said = away.exits(&["create", "files"], 5);
    assert!(said.to_lowercase().contains("ssh"), "{said}");
    sftp.know_host();
    away.compare("latest", &root);
}

/// The connection breaks, stalls, or loses answers: the error says so, nothing is lost, and the
/// next run continues.
#[test]
fn a_failing_connection_loses_nothing() {
    let Some(s3) = S3::start() else { return };
    s3.bucket("line", false);
    let line = Line::to(s3.address());
    let url = format!("s3://line/backup?endpoint=http://{}&timeout=2&attempts=2", line.address());
    let away = Away::new(url, S3::env());
    let root = folder(&away.program, "files", 60);
    away.ok(&["init"]);
    away.ok(&["create", "files"]);
    let mut snapshots = 1;
    for (fault, why) in [
        (Fault::Refuse, "error sending request"),
        (Fault::Stall, "no answer within"),
        (Fault::CutUpload(200_000), "s3://line/backup"),
    ] {
        let name = format!("new {snapshots}");
        fs::write(root.join(&name), name.repeat(400_000)).unwrap();
        let noise: Vec<u8> =
            (0..900_000_u32).flat_map(|n| (n ^ snapshots).wrapping_pow(3).to_le_bytes()).collect();
        fs::write(root.join(format!("noise {snapshots}")), noise).unwrap();
        line.set(fault);
        let said = away.exits(&["create", "files"], 5);
        assert!(said.contains(why), "{fault:?}: {said}");
        line.set(Fault::None);
        away.ok(&["create", "files"]);
        snapshots += 1;
        away.compare("latest", &root);
    }
    // Answers that are lost: the program asks again, and finds its own object.
    let patient = Away { url: away.url.replace("attempts=2", "attempts=9"), ..away };
    line.set(Fault::LoseAnswers(4));
    fs::write(root.join("last"), "last".repeat(100_000)).unwrap();
    patient.ok(&["create", "files"]);
    assert!(line.faults() > 3, "{}", line.faults());
    line.set(Fault::None);
    snapshots += 1;
    patient.compare("latest", &root);
    let said = patient.ok(&["check", "--read-data"]);
    assert!(said.contains("No problem found."), "{said}");
    let listed = patient.ok(&["list", "--json"]);
    assert_eq!(listed.lines().count(), usize::try_from(snapshots).unwrap(), "{listed}");
}

/// The blocks of docs/backup.md in this language.
fn documented(language: &str) -> Vec<String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/backup.md");
    let text = fs::read_to_string(path).unwrap();
    let begin = format!("```{language}\n");
    let blocks = text.split(&begin).skip(1);
    blocks.map(|block| block.split("```").next().unwrap().to_owned()).collect()
}

/// The policy of docs/backup.md: who has the keys of the client can add to the repository, and
/// delete nothing.
#[test]
fn a_bucket_policy_makes_a_repository_append_only() {
    let Some(s3) = S3::start() else { return };
    s3.bucket("policy", false);
    let policy = documented("json").remove(0);
    assert!(policy.contains("DeleteObject"), "{policy}");
    s3.policy("policy", &policy.replace("BUCKET", "policy").replace("CLIENT", "client"));
    let away = Away::new(s3.url("policy/backup"), S3::env());
    let root = away.live();
    let place = remote(&away.url, &S3::env());
    let objects = place.list("packs").unwrap();
    for object in &objects {
        let Err(BackupError::Storage { source, .. }) = place.delete(&object.name) else {
            panic!("{} was deleted", object.name)
        };
        assert_eq!(source.kind(), std::io::ErrorKind::PermissionDenied);
    }
    assert_eq!(place.list("packs").unwrap().len(), objects.len());
    away.compare("latest", &root);
}

/// Object lock: a thief can hide objects, and the owner brings them back.
#[test]
fn locked_objects_can_be_restored_after_a_thief_deleted_them() {
    let Some(s3) = S3::start() else { return };
    s3.bucket("locked", true);
    let away = Away::new(s3.url("locked/backup"), S3::env());
    let root = away.live();
    let place = remote(&away.url, &S3::env());
    for folder in ["packs", "indexes", "snapshots", "config", "certs", "keys"] {
        for object in place.list(folder).unwrap() {
            place.delete(&object.name).unwrap();
        }
    }
    let said = away.exits(&["list"], 4);
    assert!(said.contains("missing"), "{said}");
    let refused = s3.delete_versions("locked");
    assert!(refused > 10, "object lock keeps every version: {refused}");
    s3.remove_delete_markers("locked");
    away.compare("latest", &root);
    away.ok(&["check", "--read-data"]);
}

/// Objects that root makes immutable, by the command of docs/backup.md.
#[test]
fn a_folder_becomes_append_only() {
    let program = Program::new();
    program.ok(&["key", "generate", "--no-passphrase", "Alice <alice@example.org>"]);
    let backup = |args: &[&str]| {
        let mut command = program.command(&["backup", "--repo", "repository"]);
        command.args(args).current_dir(program.path(""));
        command.env("TALARIA_BACKUP_STATE", program.path("state")).output().unwrap()
    };
    let root = folder(&program, "files", 5);
    assert!(backup(&["init"]).status.success());
    assert!(backup(&["create", "files"]).status.success());
    let repository = program.path("repository");
    let script = documented("sh");
    let script = script.iter().find(|block| block.contains("chattr")).expect("it is documented");
    let shell = |script: &str| {
        let script = script.replace("/srv/backup", repository.to_str().unwrap());
        Command::new("sh").args(["-ec", &script]).output().unwrap()
    };
    let undo = || shell("chattr -R -i /srv/backup");
    let made = shell(script);
    if !made.status.success() {
        let _ = undo();
        eprintln!("{made:?}");
        talaria_needs::left_out("immutable files");
        return;
    }
    let outcome = std::panic::catch_unwind(|| {
        for name in ["talaria-backup", "config/00000001"] {
            assert!(fs::remove_file(repository.join(name)).is_err(), "{name} can be deleted");
            assert!(fs::write(repository.join(name), "").is_err(), "{name} can be changed");
        }
        fs::write(root.join("new"), "new").unwrap();
        let created = backup(&["create", "files"]);
        assert!(created.status.success(), "{created:?}");
        let checked = backup(&["check", "--read-data"]);
        assert!(checked.status.success(), "{checked:?}");
    });
    assert!(undo().status.success());
    outcome.unwrap();
}
