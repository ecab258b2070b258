//! Long data are streamed and not held in memory.
#![cfg(target_os = "linux")]

use std::io::{self, Read, Write as _};
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::common::{Desk, SOP};

const DATA_BYTES: u64 = 192 << 20;
/// The memory limit of every subcommand, with a wide margin, whatever the size of the data.
const MEMORY_KIB_MAX: u64 = 64 << 10;

/// Runs a subcommand with standard input from a file, or with long data, into a file, and returns
/// the peak memory in KiB.
fn run(desk: &Desk, line: &str, input: Option<&str>, output: &str) -> u64 {
    let output = std::fs::File::create(desk.path().join(output)).unwrap();
    let stdin = match input {
        Some(name) => Stdio::from(std::fs::File::open(desk.path().join(name)).unwrap()),
        None => Stdio::piped(),
    };
    let mut child = Command::new(SOP)
        .args(line.split_whitespace())
        .current_dir(desk.path())
        .stdin(stdin)
        .stdout(output)
        .spawn()
        .unwrap();
    let writer = child.stdin.take().map(|mut stdin| {
        std::thread::spawn(move || {
            let mut data = io::repeat(b'x').take(DATA_BYTES);
            io::copy(&mut data, &mut stdin).unwrap();
            stdin.flush().unwrap();
        })
    });
    let mut most = 0;
    let status = loop {
        let facts = std::fs::read_to_string(format!("/proc/{}/status", child.id()));
        let peak = facts.ok().and_then(|facts| {
            let line = facts.lines().find_map(|line| line.strip_prefix("VmHWM:"))?.to_owned();
            line.trim().strip_suffix(" kB")?.parse().ok()
        });
        most = most.max(peak.unwrap_or(0));
        if let Some(status) = child.try_wait().unwrap() {
            break status;
        }
        std::thread::sleep(Duration::from_millis(2));
    };
    assert!(status.success(), "{line}");
    if let Some(writer) = writer {
        writer.join().unwrap();
    }
    most
}

#[test]
fn memory_does_not_grow_with_the_data() {
    let desk = Desk::new();
    desk.party("a", "rfc9580");
    let check = |line: &str, input: Option<&str>, output: &str| {
        let most = run(&desk, line, input, output);
        assert!((1..MEMORY_KIB_MAX).contains(&most), "{line}: {most} KiB");
    };
    for profile in ["rfc9580", "rfc4880"] {
        let line = format!("encrypt --profile {profile} --sign-with a.key a.cert");
        check(&line, None, "sealed");
        let verify = format!("--verify-with a.cert --verifications-out {profile}");
        check(&format!("decrypt {verify} a.key"), Some("sealed"), "opened");
        assert_eq!(std::fs::metadata(desk.path().join("opened")).unwrap().len(), DATA_BYTES);
        assert_eq!(String::from_utf8(desk.get(profile)).unwrap().lines().count(), 1);
    }
    check("sign a.key", None, "sig");
    check("verify sig a.cert", Some("opened"), "verified");
    check("inline-sign a.key", None, "signed");
    check("inline-verify a.cert", Some("signed"), "shown");
    check("inline-detach --signatures-out sigs", Some("signed"), "detached");
    check("dearmor", Some("signed"), "binary");
    check("armor", Some("binary"), "armored");
    let length = |name: &str| std::fs::metadata(desk.path().join(name)).unwrap().len();
    assert_eq!((length("shown"), length("detached")), (DATA_BYTES, DATA_BYTES));
    assert_eq!(length("armored"), length("signed"));
}
