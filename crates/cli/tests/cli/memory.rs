//! The memory of short work: whoever runs talaria for each message or file pays for it each time.

use std::process::Command;

use crate::program::Program;

const KEYRING: &str = "/usr/share/keyrings/debian-keyring.gpg";

/// Runs a command and prints the most memory that it had, in KiB. The command is the child of a
/// small process, because the kernel counts the memory of the parent as that of a new process.
const RUN: &str = "import os, resource, sys
child = os.fork()
if child == 0:
    os.execv(sys.argv[1], sys.argv[1:])
os.waitpid(child, 0)
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss, file=sys.stderr)";

/// What measures a command that comes behind it.
const MEASURED: [&str; 4] = ["-I", "-S", "-c", RUN];

/// The most memory that a measured command has, in KiB, and its output.
fn peak_kib(measured: &mut Command) -> (u64, String) {
    let output = measured.output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    let peak = said.lines().last().and_then(|line| line.parse().ok()).expect(&said);
    (peak, String::from_utf8(output.stdout).unwrap())
}

/// The bounds are those of the program of the tests, which maps some 6 MB more of itself than that
/// of a release, and depend on how large the pieces are in which the file system has it in memory:
/// a look-up takes 22 to 26 MiB.
#[test]
fn short_work_takes_little_memory() {
    let program = Program::new();
    let look_up = |query| program.command_under("python3", &MEASURED, &["list", query]);
    let import = || program.command_under("python3", &MEASURED, &["import", "--quiet", KEYRING]);
    let mut version = Command::new("python3");
    version.args(MEASURED).args([env!("CARGO_BIN_EXE_talaria"), "--version"]);
    for (mut command, mib) in [
        (version, 15),
        (import(), 122),
        (import(), 122),
        (look_up("noodles@earth.li"), 28),
        (look_up("nobody@example.org"), 28),
    ] {
        // How much of the program the kernel maps differs from run to run.
        let peak = [(); 3].map(|()| peak_kib(&mut command).0).into_iter().min().unwrap();
        assert!(peak <= mib << 10, "{command:?}: {peak} KiB");
    }
    let (_, said) = peak_kib(&mut look_up("noodles@earth.li"));
    assert!(said.contains("noodles@earth.li"), "{said}");
}

#[test]
fn the_version_is_that_of_the_manifest() {
    for option in ["--version", "-V"] {
        let output = Command::new(env!("CARGO_BIN_EXE_talaria")).arg(option).output().unwrap();
        let wanted = concat!("talaria ", env!("CARGO_PKG_VERSION"), "\n");
        assert_eq!(String::from_utf8(output.stdout).unwrap(), wanted);
    }
}
