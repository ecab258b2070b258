//! `talaria-services`, which `talaria` starts in its place.

use std::fs;
use std::os::unix::fs::{chown, lchown, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

const FRONT: &str = env!("CARGO_BIN_EXE_talaria");
const SERVICES: &str = env!("CARGO_BIN_EXE_talaria-services");

/// An installation in a folder of its own. Its programs are further names of those that were built.
struct Installed(tempfile::TempDir);

impl Installed {
    fn new(files: &[(&str, &str)]) -> Self {
        let folder = tempfile::tempdir_in(Path::new(FRONT).parent().unwrap()).unwrap();
        for (name, program) in files {
            let path = folder.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::hard_link(program, path).unwrap();
        }
        Self(folder)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }
}

fn run(program: &Path, args: &[&str]) -> Output {
    let mut command = Command::new(program);
    command.args(args).env("TALARIA_CONFIG", "").env_remove("TALARIA_BUILD").output().unwrap()
}

fn said(output: &Output) -> &str {
    std::str::from_utf8(&output.stderr).unwrap()
}

const SHOW: [&str; 2] = ["serve", "--show-config"];

#[test]
fn the_services_are_found_where_packages_and_cargo_put_them() {
    for place in ["usr/libexec/talaria/talaria-services", "usr/bin/talaria-services"] {
        let installed = Installed::new(&[("usr/bin/talaria", FRONT), (place, SERVICES)]);
        let front = installed.path("usr/bin/talaria");
        let output = run(&front, &SHOW);
        assert!(output.status.success(), "{place}: {output:?}");
        assert!(output.stdout.starts_with(b"[server]"), "{place}: {output:?}");
        // Another name of the program leads to the same place.
        symlink(&front, installed.path("alias")).unwrap();
        let output = run(&installed.path("alias"), &SHOW);
        assert!(output.status.success(), "{place}: {output:?}");
    }
}

#[test]
fn talaria_alone_does_what_needs_no_services() {
    let other = "elsewhere/talaria-services";
    let installed = Installed::new(&[("bin/talaria", FRONT), (other, SERVICES)]);
    let front = installed.path("bin/talaria");
    let store = installed.path("certs.db");
    let args = ["--store", store.to_str().unwrap(), "stats"];
    let output = run(&front, &["help", "serve"]);
    assert!(output.status.success(), "{output:?}");
    let mut command = Command::new(&front);
    // A program on the search path is not taken.
    command.args(SHOW).env("PATH", installed.path("elsewhere")).env("TALARIA_CONFIG", "");
    let output = command.output().unwrap();
    assert_eq!(output.status.code(), Some(5), "{output:?}");
    for place in ["libexec/talaria/talaria-services", "bin/./talaria-services"] {
        assert!(said(&output).contains(place), "{output:?}");
    }
    let output = run(&front, &["backup", "--repo", "s3://bucket", "list"]);
    assert_eq!(output.status.code(), Some(5), "{output:?}");
    assert!(said(&output).contains("is not installed"), "{output:?}");
    let output = run(&front, &["bench", "report", "."]);
    assert_eq!(output.status.code(), Some(5), "{output:?}");
    assert!(said(&output).contains("bin/./talaria-bench"), "{output:?}");
    let output = run(&front, &args);
    assert_eq!(output.status.code(), Some(4), "{output:?}");
}

#[test]
fn the_services_of_another_build_and_alone_are_refused() {
    for build in [None, Some("0123456789abcdef")] {
        let mut command = Command::new(SERVICES);
        command.args(SHOW).env("TALARIA_CONFIG", "").env_remove("TALARIA_BUILD");
        command.envs(build.map(|build| ("TALARIA_BUILD", build)));
        let output = command.output().unwrap();
        assert_eq!(output.status.code(), Some(5), "{output:?}");
        let why = if build.is_some() { "different builds" } else { "a part of talaria" };
        assert!(said(&output).contains(why), "{output:?}");
        assert!(output.stdout.is_empty(), "{output:?}");
    }
}

/// A user who is not root cannot give a file away. For one, a program of root is accepted.
#[test]
fn services_of_another_user_are_not_started() {
    const OTHER: u32 = 12_345;
    let place = "bin/talaria-services";
    for is_link in [false, true] {
        let installed = Installed::new(&[("bin/talaria", FRONT)]);
        let path = installed.path(place);
        let given = if is_link {
            // It leads to a program of root, until its owner has it lead elsewhere.
            symlink("/bin/true", &path).unwrap();
            lchown(&path, Some(OTHER), None)
        } else {
            fs::copy("/bin/true", &path).unwrap();
            chown(&path, Some(OTHER), None)
        };
        let output = run(&installed.path("bin/talaria"), &SHOW);
        if given.is_err() {
            assert!(output.status.success() && output.stdout.is_empty(), "{output:?}");
            continue;
        }
        assert_eq!(output.status.code(), Some(5), "{output:?}");
        assert!(said(&output).contains("belongs to another user"), "{output:?}");
    }
}

/// A stranger makes the folder beside that of `talaria`, such as `/tmp/libexec`, and puts a link to
/// the services of root there. He could have it lead elsewhere before they start.
#[test]
fn services_in_a_folder_of_another_user_are_not_started() {
    const OTHER: u32 = 12_345;
    let installed = Installed::new(&[("bin/talaria", FRONT), ("root/talaria-services", SERVICES)]);
    let libexec = installed.path("libexec");
    fs::create_dir(&libexec).unwrap();
    symlink(installed.path("root"), libexec.join("talaria")).unwrap();
    let front = installed.path("bin/talaria");
    assert_ne!(run(&front, &SHOW).status.code(), Some(5));
    if lchown(&libexec, Some(OTHER), None).is_err() {
        talaria_needs::left_out("the right to give files away");
        return;
    }
    let output = run(&front, &SHOW);
    assert_eq!(output.status.code(), Some(5), "{output:?}");
    assert!(said(&output).contains("belongs to another user"), "{output:?}");
}
