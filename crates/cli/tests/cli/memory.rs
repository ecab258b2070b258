//! The memory of short work: whoever runs talaria for each message or file pays for it each time.

use std::process::Command;

use crate::program::Program;

const KEYRING: &str = "/usr/share/keyrings/debian-keyring.gpg";

/// The program of the tests maps 8 MiB more of itself than that of a release, which has optimised code: with equal allocators, a look-up
/// took 28.5 and 20.7 MB, and `--version` 23.9 and 15.5 MB.
const MORE_CODE_KIB: u64 = 8 << 10;

/// Runs a command and prints the most memory that it had, in KiB. The command is the child of a small process, because the kernel counts
/// the memory of the parent as that of a new process.
const RUN: &str = "import os, resource, sys
child = os.fork()
if child == 0:
    os.execv(sys.argv[1], sys.argv[1:])
os.waitpid(child, 0)
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss, file=sys.stderr)";

/// The most memory that a command has, in KiB, and its output.
fn peak_kib(talaria: &Command) -> (u64, String) {
    let mut python = Command::new("python3");
    python.args(["-I", "-S", "-c", RUN]).arg(talaria.get_program()).args(talaria.get_args());
    for (name, value) in talaria.get_envs() {
        python.env(name, value.unwrap_or_default());
    }
    let output = python.output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    let peak = said.lines().last().and_then(|line| line.parse().ok()).expect(&said);
    (peak, String::from_utf8(output.stdout).unwrap())
}

#[test]
fn short_work_takes_little_memory() {
    let program = Program::new();
    let look_up = |query| program.command(&["list", query]);
    let import = || program.command(&["import", "--quiet", KEYRING]);
    let mut version = Command::new(env!("CARGO_BIN_EXE_talaria"));
    version.arg("--version");
    for (command, release_mib) in [
        (version, 12),
        (import(), 130),
        (import(), 130),
        (look_up("noodles@debian.org"), 21),
        (look_up("nobody@example.org"), 21),
    ] {
        let (peak, _) = peak_kib(&command);
        assert!(peak <= (release_mib << 10) + MORE_CODE_KIB, "{command:?}: {peak} KiB");
    }
    let (_, said) = peak_kib(&look_up("noodles@debian.org"));
    assert!(said.contains("noodles@debian.org"), "{said}");
}

#[test]
fn the_version_is_that_of_the_manifest() {
    for option in ["--version", "-V"] {
        let output = Command::new(env!("CARGO_BIN_EXE_talaria")).arg(option).output().unwrap();
        let wanted = concat!("talaria ", env!("CARGO_PKG_VERSION"), "\n");
        assert_eq!(String::from_utf8(output.stdout).unwrap(), wanted);
    }
}
