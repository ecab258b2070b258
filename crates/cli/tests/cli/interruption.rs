//! Interrupted work on messages leaves no partial files and keeps existing ones.

use std::fs::{self, File};
use std::io::{Read as _, Write as _};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use crate::program::Program;
use rustix::process::{Pid, Signal, kill_process};

/// The expected message, without any part of a progress display.
const SAID: &str = "talaria: interrupted\n  No file was written. The content on standard output is not \
                    complete.\n";
/// The size of a document in bytes: more than all buffers together.
const DOCUMENT_BYTES: usize = 20 << 20;
/// The time limit for a command to reach the expected point.
const LONGEST: Duration = Duration::from_secs(60);

/// A program with a key, a passphrase, a document, and encrypted and signed forms of the document.
fn site() -> Program {
    let program = Program::new();
    fs::create_dir(program.path("out")).unwrap();
    fs::write(program.path("pw"), "correct horse\n").unwrap();
    let mut document: Vec<u8> = (0..=250).cycle().take(DOCUMENT_BYTES).collect();
    fs::write(program.path("document"), &document).unwrap();
    document.truncate(1 << 20);
    fs::write(program.path("part"), &document).unwrap();
    program.ok(&["key", "generate", "alice@example.org", "--no-passphrase"]);
    let at = |name| program.path(name).to_str().unwrap().to_owned();
    for (profile, name) in [("rfc9580", "aead"), ("rfc4880", "cfb"), ("librepgp", "ocb")] {
        let file = ["--passphrase-file", &at("pw"), "-o", &at(name), &at("document")];
        let encrypt = ["encrypt", "--symmetric", "--profile", profile];
        program.ok(&[&encrypt[..], &file].concat());
    }
    program.ok(&["sign", "--inline", "-o", &at("signed"), &at("document")]);
    program
}

/// The commands with their inputs.
const COMMANDS: [(&[&str], &str); 8] = [
    (&["encrypt", "--symmetric", "--passphrase-file", "pw"], "document"),
    (&["encrypt", "--to", "alice@example.org", "--sign-with", "alice", "--armor"], "document"),
    (&["sign", "--inline"], "document"),
    (&["pack"], "document"),
    (&["decrypt", "--passphrase-file", "pw"], "aead"),
    (&["decrypt", "--passphrase-file", "pw"], "cfb"),
    (&["decrypt", "--passphrase-file", "pw"], "ocb"),
    (&["verify"], "signed"),
];

/// Starts a command that reads a pipe and writes `out/file`.
fn start(program: &Program, args: &[&str]) -> Child {
    let mut command = program.command(args);
    command.current_dir(program.path("")).args(["--overwrite", "--output", "out/file"]);
    command.stdin(Stdio::piped()).spawn().unwrap()
}

/// The length of the unfinished file in the folder `out`, which has no name: the child has it open.
fn written(child: &Child, out: &Path) -> u64 {
    let open = fs::read_dir(format!("/proc/{}/fd", child.id())).unwrap();
    let paths = open.filter_map(|entry| entry.ok().map(|entry| entry.path()));
    let unfinished = paths.filter(|path| {
        path.read_link().is_ok_and(|file| file.starts_with(out) && !file.ends_with("file"))
    });
    unfinished.filter_map(|path| path.metadata().ok()).map(|meta| meta.len()).sum()
}

/// Feeds a child the first half of a file, and waits until it has written some output. Returns the
/// rest.
fn half_way(child: &mut Child, input: &Path, out: &Path) -> Vec<u8> {
    let mut rest = fs::read(input).unwrap();
    let later = rest.split_off(rest.len() / 2);
    child.stdin.as_mut().unwrap().write_all(&rest).unwrap();
    let begun = Instant::now();
    let out = out.canonicalize().unwrap();
    while written(child, &out) == 0 {
        assert!(begun.elapsed() < LONGEST, "nothing is written");
        thread::sleep(Duration::from_millis(5));
    }
    later
}

/// Interrupts a child, waits for it, and returns its standard error.
fn interrupt(mut child: Child, signal: Signal) -> String {
    // Its input stays open, so the signal ends it.
    let input = child.stdin.take();
    kill_process(Pid::from_child(&child), signal).unwrap();
    let begun = Instant::now();
    let status = loop {
        if let Some(status) = child.try_wait().unwrap() {
            break status;
        }
        assert!(begun.elapsed() < LONGEST, "it goes on");
        thread::sleep(Duration::from_millis(5));
    };
    drop(input);
    assert_eq!(status.code(), Some(130));
    let mut said = String::new();
    child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
    said
}

/// Whether the tests ignore hangups, for example under nohup; their child processes then ignore
/// them, too.
fn ignores_hangup() -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:")).unwrap().trim();
    u64::from_str_radix(ignored, 16).unwrap() & 1 == 1
}

fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap();
    entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

#[test]
fn an_interrupt_while_waiting_for_a_pipe_leaves_no_files() {
    let program = site();
    let out = program.path("out");
    let signals = [Signal::INT, Signal::TERM, Signal::HUP];
    let signals = if ignores_hangup() { &signals[..2] } else { &signals[..] };
    for ((args, input), &signal) in COMMANDS.into_iter().zip(signals.iter().cycle()) {
        let mut child = start(&program, args);
        half_way(&mut child, &program.path(input), &out);
        assert_eq!(interrupt(child, signal), SAID, "{args:?}");
        assert_eq!(names(&out), [""; 0], "{args:?}");
    }
}

#[test]
fn an_interrupt_during_work_leaves_no_files() {
    let program = site();
    let out = program.path("out");
    let part = fs::read(program.path("part")).unwrap();
    for args in [COMMANDS[0].0, COMMANDS[1].0, COMMANDS[2].0, COMMANDS[3].0] {
        let mut child = start(&program, args);
        half_way(&mut child, &program.path("document"), &out);
        let mut pipe = child.stdin.take().unwrap();
        thread::scope(|scope| {
            // Until the reader is gone.
            scope.spawn(|| while pipe.write_all(&part).is_ok() {});
            thread::sleep(Duration::from_millis(50));
            assert_eq!(interrupt(child, Signal::INT), SAID, "{args:?}");
        });
        assert_eq!(names(&out), [""; 0], "{args:?}");
    }
}

#[test]
fn a_command_under_nohup_survives_hangup() {
    let program = site();
    let talaria = env!("CARGO_BIN_EXE_talaria");
    let mut command = Command::new("nohup");
    command.args([talaria, "pack", "--output", "out/file"]).current_dir(program.path(""));
    let mut child = command.stdin(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let rest = half_way(&mut child, &program.path("document"), &program.path("out"));
    kill_process(Pid::from_child(&child), Signal::HUP).unwrap();
    child.stdin.take().unwrap().write_all(&rest).unwrap();
    assert!(child.wait().unwrap().success());
    assert_eq!(names(&program.path("out")), ["file"]);
}

#[test]
fn secrets_are_locked_in_memory_and_core_dumps_are_off() {
    let program = site();
    let mut raise = Command::new("sh");
    raise.args(["-c", "ulimit -l unlimited"]).stderr(Stdio::null());
    let may_lock = raise.status().unwrap().success();
    for (args, has_secrets) in [
        (COMMANDS[0].0, true),
        (&["sign", "--inline"][..], true),
        (&["decrypt", "--passphrase-file", "pw"], true),
        (&["pack"], false),
    ] {
        let input = if args[0] == "decrypt" { "aead" } else { "document" };
        let mut child = start(&program, args);
        half_way(&mut child, &program.path(input), &program.path("out"));
        let process = Path::new("/proc").join(child.id().to_string());
        let status = fs::read_to_string(process.join("status")).unwrap();
        let locked = status.lines().find_map(|line| line.strip_prefix("VmLck:")).unwrap();
        let kib: u64 = locked.trim().trim_end_matches(" kB").parse().unwrap();
        assert_eq!(kib > 0, has_secrets && may_lock, "{args:?}: {kib} KiB");
        if has_secrets {
            let limits = fs::read_to_string(process.join("limits")).unwrap();
            let core = limits.lines().find(|line| line.starts_with("Max core file size")).unwrap();
            assert_eq!(core.split_whitespace().nth(4), Some("0"), "{core}");
        }
        interrupt(child, Signal::TERM);
    }
}

#[test]
fn output_replaces_a_file_only_when_complete() {
    let program = site();
    let (out, file) = (program.path("out"), program.path("out/file"));
    for (args, input) in COMMANDS {
        fs::write(&file, "what was there").unwrap();
        let mut child = start(&program, args);
        half_way(&mut child, &program.path(input), &out);
        assert_eq!(fs::read_to_string(&file).unwrap(), "what was there");
        interrupt(child, Signal::INT);
        assert_eq!(names(&out), ["file"], "{args:?}");
        assert_eq!(fs::read_to_string(&file).unwrap(), "what was there");

        let mut child = start(&program, args);
        let rest = half_way(&mut child, &program.path(input), &out);
        assert_eq!(fs::read_to_string(&file).unwrap(), "what was there");
        child.stdin.take().unwrap().write_all(&rest).unwrap();
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success(), "{args:?}: {output:?}");
        assert!(!output.stderr.contains(&b'\x1b'), "{args:?}: {output:?}");
        assert_eq!(names(&out), ["file"], "{args:?}");
        if matches!(args[0], "decrypt" | "verify") {
            assert!(fs::read(&file).unwrap() == fs::read(program.path("document")).unwrap());
        } else {
            assert!(fs::metadata(&file).unwrap().len() > DOCUMENT_BYTES as u64, "{args:?}");
        }
    }
}

#[test]
fn commands_that_write_no_file_can_be_interrupted() {
    let program = site();
    for (args, input) in [(&["inspect"][..], "aead"), (&["verify"], "signed"), (&["sign"], "part")]
    {
        // Before the first input, and in the middle.
        for bytes in [0, 100_000] {
            let mut command = program.command(args);
            let mut child = command.stdin(Stdio::piped()).spawn().unwrap();
            let mut start = vec![0; bytes];
            File::open(program.path(input)).unwrap().read_exact(&mut start).unwrap();
            child.stdin.as_mut().unwrap().write_all(&start).unwrap();
            thread::sleep(Duration::from_millis(300));
            assert_eq!(interrupt(child, Signal::INT), SAID, "{args:?}");
        }
    }
}

/// Runs a command on its own terminal, and types `keys` at its prompt. Returns the output and the
/// exit status.
fn on_terminal(program: &Program, args: &str, keys: &[u8]) -> (String, Option<i32>) {
    let talaria = env!("CARGO_BIN_EXE_talaria");
    let mut command = Command::new("script");
    command.args(["-qefc", &format!("{talaria} {args}"), "/dev/null"]);
    command.current_dir(program.path("")).env("GNUPGHOME", program.path("none"));
    command.env("TALARIA_KEYS", program.path("keys")).env("TALARIA_STORE", program.store());
    command.env("NO_COLOR", "1");
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let (mut shown, mut stdout) = (Vec::new(), child.stdout.take().unwrap());
    let mut byte = [0];
    while !shown.ends_with(b": ") && stdout.read(&mut byte).unwrap() == 1 {
        shown.push(byte[0]);
    }
    // Long enough for progress to appear over the prompt.
    thread::sleep(Duration::from_millis(600));
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(keys).unwrap();
    stdout.read_to_end(&mut shown).unwrap();
    (String::from_utf8(shown).unwrap(), child.wait().unwrap().code())
}

#[test]
fn the_passphrase_prompt_stays_visible_and_can_be_interrupted() {
    if Command::new("script").arg("--version").output().is_err() {
        talaria_needs::left_out("script");
        return;
    }
    let program = site();
    let question = "Passphrase of the message: \r\n";
    let (shown, status) = on_terminal(&program, "decrypt -o out/file aead", b"correct horse\n");
    assert!(shown.starts_with(question), "{shown:?}");
    assert_eq!((status, names(&program.path("out"))), (Some(0), vec!["file".to_owned()]));
    fs::remove_file(program.path("out/file")).unwrap();
    let (shown, status) = on_terminal(&program, "decrypt -o out/file aead", b"\x03");
    assert!(shown.starts_with(question), "{shown:?}");
    assert!(shown.contains("talaria: interrupted"), "{shown:?}");
    assert_eq!((status, names(&program.path("out"))), (Some(130), Vec::new()));
}
