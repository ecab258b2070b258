//! Texts of others on standard output and standard error: names, values and answers that try to
//! write on the terminal. They stay readable and have no effect.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::process::Output;
use std::thread;
use std::time::Duration;

use serde_json::Value;
use talaria::cert::user_id::hidden_characters;

use crate::program::Program;

/// What a text of others may try: to clear the screen, to set its title, to paint a result as
/// talaria does, to overwrite the line, to begin another one, to turn the direction of text, and to
/// hide letters.
const HOSTILE: [&str; 4] = [
    "a\u{1b}[2J\u{1b}[1;1HNo problem found.",
    "b\u{1b}]0;title\u{7}\u{9b}31m\u{1b}[32mGood signature\u{1b}[0m\u{7f}",
    "c\rtalaria: \u{8}\u{85}\u{2028}valid\n✓ valid\u{b}",
    "d\u{202e}gpj.exe\u{2066}\u{200f}\u{61c}\u{e0041}\u{200b}\u{feff}Ω",
];

/// The sequences of talaria's own colours, and of those in usage errors.
const OWN: [&str; 10] = [
    "\u{1b}[4m",
    "\u{1b}[31m",
    "\u{1b}[33m",
    "\u{1b}[0m",
    "\u{1b}[1m",
    "\u{1b}[2m",
    "\u{1b}[1;31m",
    "\u{1b}[32m",
    "\u{1b}[35m",
    "\u{1b}[36m",
];

/// Looks at the raw bytes of both streams.
fn assert_harmless(what: &str, output: &Output) {
    for stream in [&output.stdout, &output.stderr] {
        let text = std::str::from_utf8(stream).expect(what);
        for line in text.split('\n') {
            let found = hidden_characters(line).find(|(_, is_hidden)| *is_hidden);
            assert_eq!(found, None, "{what}: {text:?}");
        }
    }
}

/// Runs a command in words, in JSON, and with colours; returns the output in words.
fn harmless(program: &Program, hostile: &str, args: &[&str]) -> Output {
    let what = format!("{args:?} with {hostile:?}");
    let run = |before: &[&str]| {
        let mut command = program.command(before);
        command.args(args).current_dir(program.path("")).env("TALARIA_LOG", program.path("log"));
        command.env("TALARIA_BACKUP_STATE", program.path("state")).output().unwrap()
    };
    let plain = run(&[]);
    assert_harmless(&what, &plain);
    assert_harmless(&what, &run(&["--json"]));
    let mut colored = run(&["--color", "always"]);
    for stream in [&mut colored.stdout, &mut colored.stderr] {
        let mut text = String::from_utf8(std::mem::take(stream)).unwrap();
        assert!(!text.contains("\u{1b}[32mGood signature\u{1b}"), "{what}: {text:?}");
        for own in OWN {
            text = text.replace(own, "");
        }
        *stream = text.into_bytes();
    }
    assert_harmless(&what, &colored);
    plain
}

fn both(output: &Output) -> String {
    [&output.stdout[..], &output.stderr].map(String::from_utf8_lossy).concat()
}

/// A server that gives every request the same answer, until the test ends.
pub(crate) fn server(status: &str, body: Vec<u8>) -> SocketAddr {
    let status = status.to_owned();
    server_with(move |_| (status.clone(), body.clone()))
}

/// A server that answers the text of each request with a status and a body, until the test ends.
pub(crate) fn server_with(
    answer: impl Fn(&str) -> (String, Vec<u8>) + Send + 'static,
) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let _ = stream.set_read_timeout(Some(Duration::from_secs(10)));
            let mut request = [0; 1 << 14];
            let length = stream.read(&mut request).unwrap_or(0);
            let (status, body) = answer(&String::from_utf8_lossy(&request[..length]));
            let head = format!(
                "HTTP/1.1 {status}\r\nContent-Type: application/xml\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
                body.len()
            );
            let _ = stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(&body));
        }
    });
    address
}

/// An OpenPGP packet with a body of up to 65,535 bytes.
fn packet(tag: u8, body: &[u8]) -> Vec<u8> {
    let length = u16::try_from(body.len()).unwrap().to_be_bytes();
    [&[0x81 | tag << 2][..], &length, body].concat()
}

#[test]
fn names_of_files_have_no_effect_on_a_terminal() {
    for hostile in HOSTILE {
        let program = Program::new();
        for args in [
            &["import"][..],
            &["inspect"],
            &["verify"],
            &["decrypt"],
            &["key", "import"],
            &["build"],
        ] {
            let args = [args, &[hostile]].concat();
            // It does not exist.
            let shown = both(&harmless(&program, hostile, &args));
            assert!(shown.contains(&hostile[..1]), "{shown}");
            fs::write(program.path(hostile), "no certificate\n").unwrap();
            harmless(&program, hostile, &args);
            fs::remove_file(program.path(hostile)).unwrap();
        }
        // It is not an argument of talaria at all, or no value of one.
        for args in
            [&[hostile][..], &["list", "--limit", hostile], &["list", &format!("--{hostile}")]]
        {
            harmless(&program, hostile, args);
        }
        harmless(&program, hostile, &["list", hostile]);
    }
}

/// A remedy is a command that can be pasted, whatever the name is.
#[test]
fn a_command_with_such_a_name_can_be_pasted() {
    for hostile in HOSTILE {
        let program = Program::new();
        program.ok(&["key", "generate", "--no-passphrase", "Alice <alice@example.org>"]);
        let exported = program.run(&["key", "export", "alice@example.org"]).stdout;
        let name = format!("{hostile}'\\");
        fs::write(program.path(&name), exported).unwrap();
        let output = harmless(&program, hostile, &["import", &name]);
        let shown = both(&output);
        let (_, word) = shown.split_once("key import ").expect(&shown);
        let word = word.lines().next().unwrap();
        let printed = std::process::Command::new("bash")
            .args(["-c", &format!("printf %s {word}")])
            .output()
            .unwrap();
        assert_eq!(printed.stdout, name.as_bytes(), "{word}");
    }
}

#[test]
fn user_ids_have_no_effect_on_a_terminal() {
    for hostile in HOSTILE {
        let program = Program::new();
        program.ok(&["key", "generate", "--no-passphrase", "Alice <alice@example.org>"]);
        let exported = program.run(&["export", "alice@example.org"]).stdout;
        let user_id = format!("{hostile} <mallory@example.org>");
        let certificate = [exported, packet(13, user_id.as_bytes())].concat();
        fs::write(program.path("certificate"), certificate).unwrap();
        program.ok(&["import", program.path("certificate").to_str().unwrap()]);
        for args in [
            &["list", "--format", "long"][..],
            &["list", "--format", "short"],
            &["list", "--with-sigs"],
            &["list", "--with-trust"],
            &["show", "alice@example.org"],
            &["inspect", "certificate"],
            &["key", "list"],
            &["trust", "path", "alice@example.org"],
            &["delete", "--dry-run", "alice@example.org"],
        ] {
            harmless(&program, hostile, args);
        }
        // Programs get it as it is.
        let listed = program.ok(&["list", "--json"]);
        let json: Value = serde_json::from_str(listed.lines().next().unwrap()).unwrap();
        let names = json["user_ids"].as_array().unwrap();
        assert!(names.iter().any(|name| name["text"] == user_id.as_str()), "{listed}");
    }
}

#[test]
fn names_in_messages_have_no_effect_on_a_terminal() {
    for hostile in HOSTILE {
        let program = Program::new();
        let name = hostile.as_bytes();
        let length = [u8::try_from(name.len()).unwrap()];
        let literal = packet(11, &[&b"b"[..], &length, name, &[0; 4], b"content\n"].concat());
        fs::write(program.path("packed"), literal).unwrap();
        for args in [&["inspect", "packed"][..], &["unpack", "packed"], &["verify", "packed"]] {
            harmless(&program, hostile, args);
        }
    }
}

#[test]
fn names_in_backups_have_no_effect_on_a_terminal() {
    for hostile in HOSTILE {
        let program = Program::new();
        program.ok(&["key", "generate", "--no-passphrase", "Alice <alice@example.org>"]);
        fs::create_dir(program.path("files")).unwrap();
        fs::write(program.path("files").join(hostile), "content").unwrap();
        std::os::unix::fs::symlink(hostile, program.path("files/link")).unwrap();
        std::os::unix::net::UnixListener::bind(program.path("files").join(format!("s{hostile}")))
            .unwrap();
        harmless(&program, hostile, &["backup", "--repo", "repo", "init"]);
        harmless(&program, hostile, &["backup", "--repo", "repo", "create", "files", "--tag", "t"]);
        fs::write(program.path("files").join(hostile), "changed").unwrap();
        harmless(&program, hostile, &["backup", "--repo", "repo", "create", "files"]);
        fs::create_dir(program.path("there")).unwrap();
        for args in [
            &["list"][..],
            &["ls", "latest"],
            &["find", "*"],
            &["diff", "latest~1", "latest"],
            &["restore", "latest", "--target", "there"],
            &["restore", "latest", "--target", "there"],
            &["restore", &format!("latest:{hostile}"), "--target", "there"],
            &["drill", "latest"],
        ] {
            harmless(&program, hostile, &[&["backup", "--repo", "repo"][..], args].concat());
        }
    }
}

#[test]
fn values_of_a_log_have_no_effect_on_a_terminal() {
    for hostile in HOSTILE {
        let program = Program::new();
        program.ok(&["key", "generate", "--no-passphrase", "Alice <alice@example.org>"]);
        harmless(&program, hostile, &["log", "init"]);
        program
            .command(&["log", "put", "server-1", "color", hostile])
            .env("TALARIA_LOG", program.path("log"))
            .output()
            .unwrap();
        for args in [
            &["log", "get", "server-1"][..],
            &["log", "get", "server-1", "color"],
            &["log", "history", "server-1"],
            &["log", "list"],
            &["log", "put", hostile, "color", "red"],
            &["log", "get", hostile],
            &["log", "verify"],
        ] {
            harmless(&program, hostile, args);
        }
        let got = program
            .command(&["--json", "log", "get", "server-1"])
            .env("TALARIA_LOG", program.path("log"))
            .output()
            .unwrap();
        let text = String::from_utf8(got.stdout).unwrap();
        let json: Value = serde_json::from_str(text.trim()).unwrap();
        assert!(json.to_string().contains(&Value::from(hostile).to_string()), "{text}");
    }
}

#[test]
fn answers_of_a_storage_are_short_and_have_no_effect_on_a_terminal() {
    for hostile in HOSTILE {
        let program = Program::new();
        let long = hostile.repeat(3_000_000 / hostile.len());
        for (status, body) in [
            ("403 Forbidden", long.clone()),
            ("500 Internal Server Error", long.clone()),
            ("200 OK", format!("<multistatus><response>{long}")),
            (
                "403 Forbidden",
                format!("<Error><Code>{hostile}</Code><Message>{long}</Message></Error>"),
            ),
        ] {
            let address = server(status, body.into_bytes());
            for url in [
                format!("webdav://{address}/?attempts=1"),
                format!("s3://bucket/?endpoint=http://{address}&attempts=1"),
            ] {
                let mut command = program.command(&["backup", "--repo", &url, "list"]);
                command.env("TALARIA_BACKUP_STATE", program.path("state"));
                command.env("AWS_ACCESS_KEY_ID", "a").env("AWS_SECRET_ACCESS_KEY", "b");
                let output = command.output().unwrap();
                let what = format!("{url}: {status} with {hostile:?}");
                assert!(!output.status.success(), "{what}");
                assert_harmless(&what, &output);
                let shown = both(&output);
                // 300 characters of the service, of which each can be an escape.
                assert!(shown.chars().count() < 3500, "{what}: {shown}");
            }
        }
    }
}

#[test]
fn answers_of_a_keyserver_have_no_effect_on_a_terminal() {
    for hostile in HOSTILE {
        let program = Program::new();
        for (status, body) in [
            (format!("500 {}", hostile.replace(['\r', '\n'], "")), hostile.to_owned()),
            ("404 Not Found".to_owned(), hostile.to_owned()),
            ("200 OK".to_owned(), hostile.repeat(1000)),
            (
                "200 OK".to_owned(),
                format!("-----BEGIN PGP {hostile}-----\nComment: {hostile}\n\n{hostile}\n"),
            ),
        ] {
            let address = server(&status, body.into_bytes());
            let url = format!("hkp://{address}");
            let output =
                harmless(&program, hostile, &["import", "--keyserver", &url, "bob@example.net"]);
            assert!(!output.status.success());
            assert!(both(&output).len() < 3000, "{}", both(&output));
        }
    }
}

/// What is written elsewhere is not made harmless.
#[test]
fn few_files_write_to_standard_output_and_error() {
    const WRITERS: [&str; 5] =
        ["terminal.rs", "stderr.rs", "progress.rs", "confirm.rs", "output.rs"];
    const WAYS: [&str; 6] =
        ["print!(", "println!(", "stdout().lock", "stderr().lock", "stdout(),", "stderr(),"];
    let mut folders = vec![Path::new(env!("CARGO_MANIFEST_DIR")).join("src")];
    let mut others = 0;
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if !WRITERS.iter().any(|name| path.ends_with(format!("src/{name}"))) {
                let text = fs::read_to_string(&path).unwrap();
                let ours = ["Paint::stdout()", "Paint::stderr()", "cx.stdout()", "report_stdout()"];
                let text = ours.iter().fold(text, |text, way| text.replace(way, ""));
                let found = WAYS.iter().find(|way| text.contains(**way));
                assert_eq!(found, None, "{}", path.display());
                others += 1;
            }
        }
    }
    assert!(others > 100, "{others}");
}

/// A name that is not UTF-8.
#[test]
fn bytes_that_are_no_text_are_replaced() {
    let program = Program::new();
    let name = std::ffi::OsStr::from_bytes(b"a\xff\x1b[2J");
    let output = program.command(&["decrypt"]).arg(name).output().unwrap();
    assert_harmless("decrypt", &output);
    assert!(both(&output).contains(r"a�\u{1b}[2J"), "{}", both(&output));
}
