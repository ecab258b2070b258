//! Snapshots of user-visible texts, so that reviews show each change of wording.
//!
//! `UPDATE_SNAPSHOTS=1 cargo test -p talaria-cli snapshot` writes them again.

use std::fs;
use std::path::Path;
use std::process::Command;

/// Compares `text` with the file of this name.
pub(crate) fn assert_snapshot(name: &str, text: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/snapshots").join(name);
    if std::env::var_os("UPDATE_SNAPSHOTS").is_some() {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
        return;
    }
    let expected = fs::read_to_string(&path).unwrap_or_default();
    let lines = expected.lines().zip(text.lines()).enumerate();
    let differing = lines.clone().find(|(_, (old, new))| old != new);
    let (line, (old, new)) = differing
        .unwrap_or_else(|| (lines.count(), ("the end of the one", "the end of the other")));
    assert!(
        expected == text,
        "{} differs in line {}:\n  was: {old}\n  is:  {new}\nIf that is intended: UPDATE_SNAPSHOTS=1 cargo test -p talaria-cli snapshot",
        path.display(),
        line + 1
    );
}

fn output(args: &[&str]) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_talaria"));
    for name in
        ["TALARIA_STORE", "TALARIA_KEYS", "TALARIA_POLICY", "TALARIA_TRUST_MODEL", "COLUMNS"]
    {
        command.env_remove(name);
    }
    let output = command.args(args).env("TALARIA_CONFIG", "").output().unwrap();
    assert!(output.status.success(), "{args:?}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

/// All commands as typed, `talaria` first.
fn commands() -> Vec<String> {
    let mut all = Vec::new();
    let mut open = vec![String::new()];
    while let Some(words) = open.pop() {
        let help = output(&words.split_whitespace().chain(["--help"]).collect::<Vec<_>>());
        let options = help.find("Global options:").unwrap();
        let is_group = words.is_empty() || help.contains("\nCommands:\n");
        let names = help[..options].lines().filter_map(|line| line.strip_prefix("  "));
        let names = names.filter(|line| line.starts_with(|c: char| c.is_ascii_lowercase()));
        let names = names.filter_map(|line| line.split_once(' ')).map(|(name, _)| name);
        if is_group {
            let mut parts: Vec<String> = names
                .filter(|name| *name != "help")
                .map(|name| format!("{words} {name}").trim().to_owned())
                .collect();
            parts.sort();
            open.extend(parts.into_iter().rev());
        }
        all.push(words);
    }
    all
}

#[test]
fn snapshot_of_the_help() {
    let mut text = String::new();
    let mut short = String::new();
    for words in commands() {
        let args: Vec<&str> = words.split_whitespace().collect();
        text.push_str(&format!(
            "==== talaria {words}\n{}\n",
            output(&[&args[..], &["--help"]].concat())
        ));
        short.push_str(&format!(
            "==== talaria {words}\n{}\n",
            output(&[&args[..], &["-h"]].concat())
        ));
    }
    // Options of all commands are in the snapshot once.
    let globals = text.find("Global options:\n").unwrap();
    let (first, rest) = text.split_at(globals + 1);
    let shared = |text: &str| {
        let mut out = String::new();
        let mut skip = false;
        for line in text.lines() {
            skip |= line == "Global options:";
            skip &= !(line.starts_with("Examples:") || line.starts_with("===="));
            if !skip {
                out.push_str(line.trim_end());
                out.push('\n');
            }
        }
        out
    };
    let end = rest.find("\n====").unwrap();
    let text = format!("{first}{}{}", &rest[..end], shared(&rest[end..]));
    assert_snapshot("help.txt", &text);
    assert_snapshot("help-short.txt", &shared(&short));
}

#[test]
fn snapshot_of_the_manual() {
    for page in ["", "verify", "key generate", "trust"] {
        let args: Vec<&str> = page.split_whitespace().collect();
        let text = output(&[&["man"], &args[..]].concat());
        for section in
            ["NAME", "SYNOPSIS", "DESCRIPTION", "EXIT STATUS", "FILES", "ENVIRONMENT", "SEE ALSO"]
        {
            let heading = [format!(".SH {section}\n"), format!(".SH \"{section}\"\n")];
            assert!(heading.iter().any(|heading| text.contains(heading)), "{page}: {section}");
        }
        let name = [&["talaria"], &args[..]].concat().join("-");
        assert_snapshot(&format!("{name}.1"), &text);
    }
}
