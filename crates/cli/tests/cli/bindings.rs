//! talaria from Python, C++ and the shell: the module's own tests, and the examples of
//! `docs/replacing-gpg.md`, beside the gpg processes that they replace.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, SystemTime};

use crate::program::Program;
use talaria::message::openpgp::cert::CertBuilder;
use talaria::message::openpgp::serialize::SerializeInto as _;

const PASSPHRASE: &str = "correct horse";

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

fn example(name: &str) -> PathBuf {
    root().join("examples").join(name)
}

/// A user with a key, a store, a keyring of gpg and a passphrase.
struct User {
    program: Program,
    /// The path is short because gpg has its sockets there.
    home: tempfile::TempDir,
    fingerprint: String,
}

impl User {
    fn new() -> Self {
        let program = Program::new();
        let made = SystemTime::now() - Duration::from_secs(3600);
        let (cert, _) = CertBuilder::general_purpose(Some("Alice <alice@example.org>"))
            .set_creation_time(made)
            .generate()
            .unwrap();
        fs::write(program.path("alice.key"), cert.as_tsk().to_vec().unwrap()).unwrap();
        fs::write(program.path("alice.cert"), cert.to_vec().unwrap()).unwrap();
        fs::write(program.path("passphrase"), format!("{PASSPHRASE}\n")).unwrap();
        program.ok(&["import", program.path("alice.cert").to_str().unwrap()]);
        let private = fs::Permissions::from_mode(0o700);
        let home = tempfile::Builder::new()
            .prefix("talaria")
            .permissions(private)
            .tempdir_in("/tmp")
            .unwrap();
        Self { program, home, fingerprint: cert.fingerprint().to_hex() }
    }

    /// The same with the key in gpg's keyring.
    fn with_gpg(self) -> Self {
        ok(self
            .command("gpg")
            .args(["--batch", "--quiet", "--import"])
            .arg(self.path("alice.key")));
        self
    }

    fn path(&self, name: &str) -> PathBuf {
        self.program.path(name)
    }

    /// A program with the environment of the user.
    fn command(&self, program: impl AsRef<std::ffi::OsStr>) -> Command {
        let mut command = Command::new(program);
        let talaria = Path::new(env!("CARGO_BIN_EXE_talaria")).parent().unwrap().to_owned();
        let path = std::env::var_os("PATH").unwrap_or_default();
        let path = std::env::join_paths([talaria].into_iter().chain(std::env::split_paths(&path)));
        command
            .current_dir(self.path(""))
            .env("PATH", path.unwrap())
            .env("GNUPGHOME", self.home.path())
            .env("TALARIA_KEY", self.path("alice.key"))
            .env("TALARIA_CERT", self.path("alice.cert"))
            .env("TALARIA_STORE", self.program.store());
        command
    }
}

/// Builds the libraries for C and Python, and returns their folder, that of the program under test.
/// The whole workspace is built, because a part of it would get other features, and almost all
/// dependencies be compiled once more.
fn libraries() -> PathBuf {
    let cargo = std::env::var_os("CARGO").unwrap_or("cargo".into());
    let mut build = Command::new(cargo);
    // Cargo describes the package of a test in the test's environment. The build script of `ring`
    // reads the same names for its own package: it would run again, and all crates that depend on
    // `ring` would be compiled again, while other tests start the programs.
    for (name, _) in std::env::vars_os() {
        let text = name.to_string_lossy();
        let is_of_package = ["CARGO_PKG_", "CARGO_MANIFEST_"].map(|start| text.starts_with(start));
        if is_of_package.contains(&true) || text == "OUT_DIR" {
            build.env_remove(&name);
        }
    }
    ok(build.current_dir(root()).args([
        "build",
        "--quiet",
        "--locked",
        "--workspace",
        "--all-targets",
    ]));
    Path::new(env!("CARGO_BIN_EXE_talaria")).parent().unwrap().to_owned()
}

/// Runs a command that must succeed, and returns its output.
fn ok(command: &mut Command) -> String {
    let output = command.output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    let stdout = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{command:?}: {stdout}\n{stderr}");
    stdout.into_owned()
}

impl Drop for User {
    fn drop(&mut self) {
        let _ = self.command("gpgconf").args(["--kill", "all"]).status();
    }
}

#[test]
fn the_python_examples_run() {
    let user = User::new().with_gpg();
    let python = if std::env::var_os("TALARIA_WHEEL").is_some() {
        ok(&mut Command::new(root().join("scripts/wheel")));
        root().join("target/python/venv/bin/python")
    } else {
        // The files of the wheel, without the packaging, which `./test --full` takes.
        let module = user.path("talaria");
        fs::create_dir(&module).unwrap();
        let library = libraries().join("libtalaria_python.so");
        fs::copy(library, module.join("__init__.abi3.so")).unwrap();
        let stub = root().join("crates/python/talaria.pyi");
        fs::copy(stub, module.join("__init__.pyi")).unwrap();
        "python3".into()
    };
    let python = || {
        let mut command = user.command(&python);
        command.env("PYTHONPATH", user.path(""));
        command
    };
    ok(python().arg(root().join("crates/python/tests/test_talaria.py")));

    let run = |name: &str, args: &[&str]| ok(python().arg(example(name)).args(args));
    assert_eq!(run("python/records_gpg.py", &["passphrase"]), "3 records kept\n");
    assert!(run("python/records_talaria.py", &["passphrase"]).ends_with("3 records kept\n"));
    let signed = "3 updates signed and checked\n";
    assert_eq!(run("python/signatures_gpg.py", &[&user.fingerprint]), signed);
    assert_eq!(run("python/signatures_talaria.py", &["alice.key", "alice.cert"]), signed);

    let made = SystemTime::now() - Duration::from_secs(3600);
    let machine = CertBuilder::general_purpose(Some("web-1")).set_creation_time(made).generate();
    let machine = machine.unwrap().0;
    fs::write(user.path("machine.key"), machine.as_tsk().to_vec().unwrap()).unwrap();
    fs::write(user.path("machine.cert"), machine.to_vec().unwrap()).unwrap();
    fs::create_dir(user.path("fleet")).unwrap();
    let said = run("log/fleet.py", &["fleet", "alice.key", "machine.key", "machine.cert"]);
    let wanted = "must run: 1.8 ['europe', 'public']
due: ['web-1: None -> 1.8']
refused: the log does not allow it: the grant does not allow this
due: ['web-1: 1.8 -> 1.9']
admin    create   web-1
admin    set     version 1.8
admin    add     tags public
admin    add     tags europe
machine  set     report-version 1.8
admin    set     version 1.9
8 signed entries on each node
";
    // Two changes that were made in one millisecond have the order of their authors.
    let sorted = |text: &str| {
        let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
        lines.sort_unstable();
        lines
    };
    assert_eq!(sorted(&said), sorted(wanted));
}

#[test]
fn the_c_examples_run() {
    let user = User::new().with_gpg();
    let built = libraries();

    let compile = |name: &str, out: &str| {
        let mut command = user.command("c++");
        command.args(["-std=c++17", "-Wall", "-Wextra", "-Werror", "-o", out]).arg(example(name));
        command.arg("-I").arg(root().join("crates/capi/include"));
        ok(command.arg("-L").arg(&built).arg("-ltalaria"));
    };
    let run = |name: &str, args: &[&str]| {
        ok(user.command(user.path(name)).env("LD_LIBRARY_PATH", &built).args(args))
    };
    let signed = "3 updates signed and checked\n";
    compile("c/signatures_gpg.cpp", "signatures_gpg");
    assert_eq!(run("signatures_gpg", &[&user.fingerprint, "."]), signed);
    compile("c/signatures_talaria.cpp", "signatures_talaria");
    assert_eq!(run("signatures_talaria", &["alice.key", "alice.cert"]), signed);
    compile("c/records_talaria.cpp", "records_talaria");
    assert!(run("records_talaria", &[PASSPHRASE]).ends_with("3 records kept\n"));
    compile("../crates/capi/tests/library.cpp", "library");
    run("library", &["alice.key", "alice.cert"]);
    // The header is valid C as well.
    fs::write(user.path("header.c"), "#include <talaria.h>\n").unwrap();
    let mut command = user.command("cc");
    command.args(["-std=c99", "-pedantic", "-Wall", "-Werror", "-fsyntax-only", "header.c"]);
    ok(command.arg("-I").arg(root().join("crates/capi/include")));
}

#[test]
fn the_command_examples_run() {
    let user = User::new().with_gpg();
    let done = "encrypted, decrypted, signed and verified\n";
    let run = |name: &str, args: &[&str]| ok(user.command(example(name)).args(args));
    assert_eq!(run("shell/gpg.sh", &[&user.fingerprint, "passphrase"]), done);
    let args = [&*user.fingerprint, "passphrase", "alice.key"];
    assert_eq!(run("shell/talaria.sh", &args), done);
}

/// In the page, the line `<!-- NAME -->` is followed by that file as a code block.
/// After a change: `TALARIA_WRITE=1 cargo test -p talaria-cli bindings::page`.
#[test]
fn the_page_quotes_the_examples_exactly() {
    let path = root().join("docs/replacing-gpg.md");
    let page = fs::read_to_string(&path).unwrap();
    let mut made = String::new();
    let mut lines = page.lines();
    let mut shown = 0;
    while let Some(line) = lines.next() {
        made += &format!("{line}\n");
        let name = line.strip_prefix("<!-- examples/").and_then(|line| line.strip_suffix(" -->"));
        let Some(name) = name else { continue };
        let fence = lines.next().expect("a block of code");
        lines.by_ref().find(|line| *line == "```").expect("its end");
        made += &format!("{fence}\n{}```\n", fs::read_to_string(example(name)).unwrap());
        shown += 1;
    }
    if std::env::var_os("TALARIA_WRITE").is_some() {
        fs::write(&path, &made).unwrap();
    } else {
        assert!(page == made, "docs/replacing-gpg.md is not up to date");
    }
    let folders = ["python", "c", "shell"].map(example);
    let there: usize = folders.iter().map(|folder| fs::read_dir(folder).unwrap().count()).sum();
    assert_eq!(shown, there);
}
