//! `./demo`, `./test` and `scripts/setup` with a toolchain that cannot build talaria.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// The programs that the scripts use until they look for the toolchain.
const PROGRAMS: [&str; 11] =
    ["bash", "cat", "cut", "dirname", "env", "grep", "id", "nproc", "sed", "sleep", "sort"];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// A folder for PATH with those programs, and with others that write what they were asked to
/// `asked.txt`.
struct Machine(tempfile::TempDir);

impl Machine {
    fn new() -> Self {
        let machine = Self(tempfile::tempdir().unwrap());
        for name in PROGRAMS {
            let found = std::env::split_paths(&std::env::var_os("PATH").unwrap())
                .map(|folder| folder.join(name))
                .find(|path| path.exists());
            symlink(found.unwrap(), machine.0.path().join(name)).unwrap();
        }
        for name in ["apt-get", "dpkg-query", "sudo"] {
            machine.program(name, "exit 1");
        }
        machine
    }

    fn program(&self, name: &str, script: &str) {
        let path = self.0.path().join(name);
        let asked = self.0.path().join("asked.txt");
        let text = format!("#!/bin/sh\necho {name} \"$@\" >>{}\n{script}\n", asked.display());
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    }

    fn run(&self, script: &str, args: &[&str]) -> Output {
        let mut command = Command::new(root().join(script));
        command.args(args).env_clear().env("PATH", self.0.path()).env("HOME", self.0.path());
        command.current_dir(self.0.path()).output().unwrap()
    }

    /// What the programs were asked.
    fn asked(&self) -> String {
        fs::read_to_string(self.0.path().join("asked.txt")).unwrap_or_default()
    }
}

#[test]
fn an_old_or_missing_toolchain_is_named_before_anything_is_installed() {
    let manifest = fs::read_to_string(root().join("Cargo.toml")).unwrap();
    let version = manifest.split("\nrust-version = \"").nth(1).unwrap().split('"').next().unwrap();
    let needs = format!("talaria is built with Rust {version} or newer");
    // Those of Debian 12.
    let cargo = "echo 'cargo 1.65.0'";
    let rustc = "echo 'rustc 1.63.0'";
    let new = "echo \"tool 9.1.0 (012345678 2030-01-01)\"";
    for (cargo, rustc, named) in [
        (None, None, "cargo here is missing"),
        (Some(cargo), Some(rustc), "cargo here is 1.65.0"),
        (Some(new), Some(rustc), "rustc here is 1.63.0"),
        (Some(new), None, "rustc here is missing"),
        (Some("exit 1"), Some(rustc), "cargo here is missing"),
    ] {
        let machine = Machine::new();
        for (name, script) in [("cargo", cargo), ("rustc", rustc)] {
            if let Some(script) = script {
                machine.program(name, script);
            }
        }
        for (script, args) in
            [("demo", &["--no-serve"][..]), ("test", &[]), ("scripts/setup", &["build"])]
        {
            let output = machine.run(script, args);
            let said = String::from_utf8(output.stderr).unwrap();
            assert_eq!(output.status.code(), Some(1), "{script}: {said}");
            assert!(said.contains(&needs) && said.contains(named), "{script}: {said}");
            assert!(said.contains("https://rustup.rs"), "{script}: {said}");
        }
        let asked = machine.asked();
        assert!(asked.lines().all(|line| line.ends_with(" --version")), "{asked}");
    }
    // Packages come next.
    let machine = Machine::new();
    machine.program("cargo", new);
    machine.program("rustc", &format!("echo 'rustc {version}.0'"));
    let output = machine.run("scripts/setup", &["build"]);
    assert!(!output.status.success());
    assert!(machine.asked().contains("apt-get update"), "{}", machine.asked());
}
