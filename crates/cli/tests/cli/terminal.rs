//! Output on a terminal and in a pipe, its colours, and the progress of long work.

use std::fs;
use std::process::{Command, Stdio};

use crate::keys::User;
use crate::program::{Program, corpus};

/// Runs a shell command on a terminal with `columns` columns, where `$T` is the program with its
/// store. Returns the output to the terminal, or `None` if there is no program to make a terminal.
fn on_terminal(program: &Program, columns: usize, command: &str) -> Option<String> {
    if Command::new("script").arg("--version").output().is_err() {
        talaria_needs::left_out("script");
        return None;
    }
    let mut script = Command::new("script");
    script.args(["-qefc", &format!("stty cols {columns} rows 24; {command}"), "/dev/null"]);
    script.current_dir(program.path("")).stdin(Stdio::null());
    script.env("T", env!("CARGO_BIN_EXE_talaria")).env("TALARIA_STORE", program.store());
    script.env("TALARIA_KEYS", program.path("keys")).env("TALARIA_CONFIG", "").env("TERM", "xterm");
    for name in ["NO_COLOR", "CLICOLOR", "CLICOLOR_FORCE", "CI", "PAGER", "TALARIA_PAGER"] {
        script.env_remove(name);
    }
    let output = script.output().unwrap();
    assert!(output.status.success(), "{command}: {output:?}");
    Some(String::from_utf8(output.stdout).unwrap())
}

/// Text without colour escape sequences.
fn plain(text: &str) -> String {
    let mut parts = text.split("\x1b[");
    let mut out = parts.next().unwrap().to_owned();
    for part in parts {
        let end = part.find(|c: char| c.is_ascii_alphabetic()).unwrap();
        out.push_str(&part[end + 1..]);
    }
    out
}

fn filled(count: u64) -> Program {
    let program = Program::new();
    let ring = program.ring("ring.pgp", &corpus(count));
    program.ok(&["import", ring.to_str().unwrap()]);
    program
}

/// A program with an encrypted message of one line without a line end.
fn with_message() -> Program {
    let program = Program::new();
    fs::write(program.path("pw"), "correct horse\n").unwrap();
    fs::write(program.path("plain"), "The code is 4711").unwrap();
    let at = |name| program.path(name).to_str().unwrap().to_owned();
    let pw = at("pw");
    let file = ["--passphrase-file", &pw, "-o", &at("sealed"), &at("plain")];
    program.ok(&[&["encrypt", "--symmetric"][..], &file].concat());
    program
}

/// Gives the program its input in two parts, with a pause long enough for progress.
const SLOWLY: &str =
    "(head -c 30 sealed; sleep 1.6; tail -c +31 sealed) | $T decrypt --passphrase-file pw";

#[test]
fn a_message_on_a_terminal_is_shown_completely() {
    let program = with_message();
    for command in ["$T decrypt --passphrase-file pw sealed", SLOWLY] {
        let Some(shown) = on_terminal(&program, 80, command) else { return };
        // There is no progress line, and no code that erases one.
        assert_eq!(shown, "The code is 4711", "{command}");
    }
}

#[test]
fn progress_fits_the_terminal_and_leaves_nothing_behind() {
    let program = with_message();
    for columns in [20, 80, 200] {
        let Some(shown) = on_terminal(&program, columns, &format!("{SLOWLY} -o out")) else {
            return;
        };
        assert!(shown.contains("Reading"), "{columns}: {shown:?}");
        assert!(shown.ends_with("\r\x1b[K"), "{columns}: {shown:?}");
        let lines: Vec<&str> = shown.split('\r').collect();
        for line in &lines {
            assert!(plain(line).chars().count() < columns, "{columns}: {line:?}");
        }
        assert!(!shown.contains('\n'), "{columns}: {shown:?}");
        fs::remove_file(program.path("out")).unwrap();
    }
    // Short work shows no progress.
    let command = "$T decrypt --passphrase-file pw -o out sealed";
    assert_eq!(on_terminal(&program, 80, command).as_deref(), Some(""));
}

#[test]
fn a_command_that_reads_the_terminal_says_so() {
    let program = Program::new();
    let Some(shown) = on_terminal(&program, 80, "$T pack -o out") else { return };
    assert!(shown.contains("Reading from the terminal"), "{shown:?}");
    let piped = on_terminal(&program, 80, "echo | $T pack --overwrite -o out").unwrap();
    assert_eq!(piped, "");
}

#[test]
fn the_passphrase_prompt_names_the_owner_of_the_key() {
    let user = User::new();
    user.generate("dana", "--passphrase-file pw");
    let command = "timeout --foreground 2 $T sign plain -o s || true";
    let Some(shown) = on_terminal(&user.program, 80, command) else { return };
    assert!(shown.starts_with("Passphrase of dana@example.org, key "), "{shown:?}");
}

#[test]
fn build_logs_its_steps() {
    let program = Program::new();
    let ring = program.ring("ring.pgp", &corpus(3));
    let output = program.run(&["build", ring.to_str().unwrap()]);
    assert!(output.status.success(), "{output:?}");
    let said = String::from_utf8(output.stderr).unwrap();
    let steps: Vec<&str> = said.lines().collect();
    for step in [
        "talaria: Step 1 of 5: reading",
        "talaria: Step 4 of 5: filling indexes",
        "talaria: Step 5 of 5: syncing",
    ] {
        assert!(steps.iter().any(|line| line.starts_with(step)), "{said}");
    }
    assert!(!said.contains('\r') && !said.contains('\x1b'), "{said:?}");
    for option in ["--quiet", "--json"] {
        let program = Program::new();
        let output = program.run(&["build", option, ring.to_str().unwrap()]);
        assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
    }
}

#[test]
fn a_listing_on_a_terminal_has_a_line_for_each_certificate() {
    let program = filled(30);
    let Some(shown) = on_terminal(&program, 80, "$T list") else { return };
    assert!(shown.contains("\x1b["), "{shown:?}");
    let text = plain(&shown);
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.len(), 32, "{text}");
    assert!(lines.iter().all(|line| line.chars().count() <= 80), "{text}");
    assert!(lines[0].starts_with("  KEY ID            CAN  UNTIL "), "{text}");
    assert!(lines[31].starts_with("30 certificates: "), "{text}");
    let ids = program.contents();
    for fingerprint in ids.keys() {
        assert!(text.contains(&fingerprint.key_id().to_string()), "{text}");
    }
    // The counts match the marks.
    assert!(!text.contains('✓'), "nobody has confirmed these: {text}");
    for mark in ["○", "-", "✗"] {
        let count = lines[1..31].iter().filter(|line| line.starts_with(mark)).count();
        let said = format!("{mark} {count} ");
        assert!(count == 0 || lines[31].contains(&said), "{said}: {text}");
    }
    // A wide terminal has the algorithm, and --long equals the output to a pipe.
    let wide = plain(&on_terminal(&program, 200, "$T list").unwrap());
    assert!(wide.contains("ALGORITHM") && !text.contains("ALGORITHM"), "{wide}");
    let long = plain(&on_terminal(&program, 80, "$T list --long").unwrap()).replace("\r\n", "\n");
    let piped = program.ok(&["list"]);
    assert_eq!(long.strip_prefix(&piped).unwrap().lines().count(), 1, "the counts");
    assert_eq!(program.ok(&["list", "--format", "long"]), piped);
    assert_eq!(program.ok(&["list", "--format", "short"]).lines().count(), 30);
    assert_eq!(program.ok(&["list", "--format", "json"]), program.ok(&["list", "--json"]));
}

#[test]
fn colour_follows_the_options_and_the_environment() {
    let program = filled(2);
    let is_coloured =
        |command: &str| on_terminal(&program, 80, command).map(|s| s.contains('\x1b'));
    let Some(by_default) = is_coloured("$T list") else { return };
    assert!(by_default);
    assert_eq!(is_coloured("NO_COLOR=1 $T list"), Some(false));
    assert_eq!(is_coloured("TERM=dumb $T list"), Some(false));
    assert_eq!(is_coloured("$T --color never list"), Some(false));
    assert_eq!(is_coloured("NO_COLOR=1 $T list --color always"), Some(true));
    assert!(!program.ok(&["list"]).contains('\x1b'));
    assert!(program.ok(&["list", "--color", "always"]).contains('\x1b'));
    // Output for programs never has colours.
    for format in ["json", "colons"] {
        let listed = program.ok(&["list", "--color", "always", "--format", format]);
        assert!(!listed.contains('\x1b'), "{listed:?}");
    }
}

#[test]
fn listings_use_the_pager_if_one_is_set() {
    let program = filled(3);
    let pager = "PAGER='sed s/^/paged:/'";
    let Some(shown) = on_terminal(&program, 80, &format!("{pager} $T list")) else { return };
    let paged = |text: &str| text.lines().filter(|line| line.starts_with("paged:")).count();
    assert_eq!(paged(&shown), 5, "{shown:?}");
    for command in
        ["TALARIA_PAGER= $T list", "$T list --no-pager", "$T list --json", "$T list | cat"]
    {
        let shown = on_terminal(&program, 80, &format!("export {pager}; {command}")).unwrap();
        assert_eq!(paged(&shown), 0, "{command}: {shown:?}");
    }
    // Leaving the pager early is no error.
    on_terminal(&program, 80, "PAGER='head -n 1' $T list --long").unwrap();
}

/// The fingerprints of a listing in parts of `limit`, each by its own process.
fn in_parts(program: &Program, limit: u64, args: &[&str]) -> Vec<String> {
    let mut all = Vec::new();
    let mut token: Option<String> = None;
    loop {
        let limit = limit.to_string();
        let mut args = [&["list", "--json", "--limit", &limit], args].concat();
        if let Some(token) = &token {
            // The token has the order.
            args.retain(|arg| !arg.starts_with("--order"));
            args.extend(["--after", token]);
        }
        let mut next = None;
        for line in program.ok(&args).lines() {
            let json: serde_json::Value = serde_json::from_str(line).unwrap();
            match json["next"].as_str() {
                Some(token) => next = Some(token.to_owned()),
                None => all.push(json["fingerprint"].as_str().unwrap().to_owned()),
            }
        }
        token = match next {
            None => return all,
            next => next,
        };
    }
}

#[test]
fn a_listing_resumes_after_its_token() {
    let program = filled(10);
    let whole = |args: &[&str]| in_parts(&program, 100, args);
    let some = whole(&[])[3].clone();
    let searches: [&[&str]; 6] = [
        &[],
        &["--order=key"],
        &["--order=changed"],
        &["*example"],
        // Several searches with overlapping results.
        &[&some, "*a", "*example"],
        &["@example"],
    ];
    for args in searches {
        let expected = whole(args);
        assert!(!expected.is_empty(), "{args:?}");
        for limit in [1, 3, 10] {
            assert_eq!(in_parts(&program, limit, args), expected, "{args:?} by {limit}");
        }
    }
    // The token is printed beside the listing.
    let output = program.run(&["list", "--limit", "2"]);
    let said = String::from_utf8(output.stderr).unwrap();
    let token = said.split_whitespace().find(|word| word.contains("/i:")).unwrap();
    assert_eq!(program.ok(&["list", "--after", token, "--format", "short"]).lines().count(), 8);
    // A token belongs to one store.
    let other = filled(3);
    let refused = other.fails(&["list", "--after", token], 2);
    assert!(refused.contains("a listing of another store"), "{refused}");
    program.fails(&["list", "--after", "17"], 2);
    // A keyring beside the store: a listing in parts has each certificate once.
    let ring = program.ring("more.pgp", &corpus(12));
    let both = ["--store", ring.to_str().unwrap()];
    let expected = whole(&both);
    assert_eq!(expected.len(), 12);
    assert_eq!(in_parts(&program, 5, &both), expected);
}

#[test]
fn show_groups_signatures_under_their_user_id_or_key() {
    let program = filled(20);
    for fingerprint in program.contents().keys() {
        let fingerprint = fingerprint.to_string();
        let shown = program.ok(&["show", &fingerprint]);
        let all = program.ok(&["show", "--with-sigs", &fingerprint]);
        let json: serde_json::Value =
            serde_json::from_str(&program.ok(&["show", "--json", &fingerprint])).unwrap();
        let signatures = json["certifications"].as_array().unwrap();
        let by_others = signatures.iter().filter(|one| one["verdict"] == "foreign").count();
        let folded: usize = shown
            .lines()
            .filter_map(|line| line.split_once(" third-party signature"))
            .map(|(count, _)| count.trim().parse::<usize>().unwrap())
            .sum();
        assert_eq!(folded, by_others, "{shown}");
        let lines = |text: &str| text.lines().count();
        let folds = shown.lines().filter(|line| line.contains(" third-party signature")).count();
        assert_eq!(lines(&all), lines(&shown) - folds + by_others, "{all}");
        // A self-signature follows every user ID.
        let (mut user_ids, mut bound) = (0, 0);
        let listed: Vec<&str> = shown.lines().collect();
        for pair in listed.windows(2).filter(|pair| pair[0].starts_with("uid")) {
            user_ids += 1;
            bound +=
                usize::from(pair[1].contains("self-signature") || pair[1].contains("revocation"));
        }
        assert_eq!(user_ids, json["user_ids"].as_array().unwrap().len());
        assert!(bound > 0, "{shown}");
    }
}

#[test]
fn inspect_names_recipients_and_algorithms() {
    let user = User::new();
    let alice = user.generate("alice", "--no-passphrase");
    user.ok("encrypt --to alice@example.org --trust-model always -o sealed plain");
    let said = user.ok("inspect sealed");
    assert!(said.starts_with("This is an encrypted message.\n"), "{said}");
    assert!(said.contains("recipient: alice@example.org (cv25519 subkey "), "{said}");
    user.ok("sign --with alice -o sig plain");
    let said = user.ok("inspect sig");
    assert!(said.contains("This is a detached signature."), "{said}");
    assert!(said.contains("signature by: alice@example.org (ed25519 subkey "), "{said}");
    assert!(said.contains("not checked"), "{said}");
    user.ok("encrypt --symmetric --passphrase-file pw -o locked plain");
    assert!(user.ok("inspect locked").contains("passphrase: whoever knows it can decrypt"));
    // Without the certificate the key is named by its ID.
    let other = User::new();
    other.write("sealed", &fs::read(user.path("sealed")).unwrap());
    let said = other.ok("inspect sealed");
    assert!(said.contains("ECDH key, whose certificate is not in the store"), "{said}");
    let packets = user.ok("inspect --packets sealed");
    assert!(packets.starts_with("public-key encrypted session key (type 1), "), "{packets}");
    assert!(!alice.is_empty());
}

#[test]
fn key_list_and_import_mention_the_keys_of_gpg_agent() {
    let user = User::new();
    let none = user.run("key list");
    assert!(none.status.success() && none.stdout.is_empty(), "{none:?}");
    let said = String::from_utf8(none.stderr).unwrap();
    assert!(said.contains("talaria key generate"), "{said}");
    user.gpg_ok("--quick-gen-key zoe@example.org ed25519 sign,cert never");
    let left = user.run("key list");
    assert!(String::from_utf8(left.stderr).unwrap().contains("gpg-agent has 1 more secret key"));
    // An import says that it left the secret key out, and how to import it.
    let imported = user.run(&format!("import {}", user.path("g")));
    let said = String::from_utf8(imported.stderr).unwrap();
    assert!(said.contains("there is 1 secret key in it, left with gpg-agent"), "{said}");
    assert!(said.contains("--gpg-agent") && said.contains("talaria key import -"), "{said}");
    let listed = user.ok("key list");
    assert!(listed.contains("In gpg-agent") && listed.contains("zoe@example.org"), "{listed}");
    let json: serde_json::Value = serde_json::from_str(&user.ok("key list --json zoe")).unwrap();
    assert_eq!(json["agent"], true);
    assert_eq!(json["secrets"][0], json["fingerprint"]);
    user.fails("key list nobody", 1);
    // The imported secret key is in the key store, and listed once.
    user.write("secret", &user.gpg_ok("--export-secret-keys zoe"));
    user.ok("key import secret");
    let listed = user.ok("key list");
    assert!(!listed.contains("In gpg-agent") && listed.matches("zoe@example.org").count() == 1);
}

#[test]
fn colour_of_help_and_usage_errors_is_chosen_as_well() {
    let program = Program::new();
    for line in ["--help", "help encrypt", "list --help", "lst", "list --bogus", "encrypt -x"] {
        let both = |color: &str| {
            let args = [color].into_iter().chain(line.split(' ')).collect::<Vec<_>>();
            let output = program.run(&args);
            [output.stdout, output.stderr].concat()
        };
        assert!(both("--color=always").contains(&b'\x1b'), "{line}");
        assert!(!both("--color=auto").contains(&b'\x1b'), "{line}: a pipe has no colour");
        let shown = |more: &str| on_terminal(&program, 80, &format!("$T {more} {line} || true"));
        let Some(colored) = shown("") else { return };
        assert!(colored.contains('\x1b'), "{line}");
        assert!(!shown("--color never").unwrap().contains('\x1b'), "{line}");
    }
}

/// The widest line of a text, in columns.
fn widest(text: &str) -> usize {
    plain(text).lines().map(|line| line.trim_end_matches('\r').chars().count()).max().unwrap_or(0)
}

#[test]
fn long_names_are_folded_to_the_terminal() {
    let user = User::new();
    let name = "Wolfeschlegelsteinhausenbergerdorff the younger of the house of long names <long@example.org>";
    user.program.ok(&["key", "generate", name, "--no-passphrase"]);
    let listed = user.program.ok(&["list", "--long"]);
    assert!(listed.contains(name), "{listed}");
    let key = listed.lines().nth(1).unwrap().trim();
    for command in [
        "$T list --long",
        "$T list --with-sigs",
        "$T show long@example.org",
        "$T show --with-sigs long@example.org",
        "$T delete --dry-run long@example.org",
        "$T trust path long@example.org",
        "$T trust show long@example.org",
        "$T key list",
        "$T tofu info long@example.org",
        "$T encrypt --profile nothing-of-this-name-however-long-the-name-of-the-profile-may-become x || true",
    ] {
        let Some(shown) = on_terminal(&user.program, 80, command) else { return };
        assert!(shown.contains('\n') && widest(&shown) <= 80, "{command}: {shown}");
        if !command.contains("--profile") {
            let words = plain(&shown).split_whitespace().collect::<Vec<_>>().join(" ");
            assert!(words.contains(name) && words.contains(key), "{command}: {words}");
        }
        // Wide terminals and pipes have whole lines.
        let wide = on_terminal(&user.program, 200, command).unwrap();
        assert!(wide.lines().count() < shown.lines().count(), "{command}: {wide}");
    }
}

#[test]
fn help_fits_the_terminal() {
    let program = Program::new();
    let names = "encrypt decrypt sign verify inspect pack unpack import export list show delete stats key certify trust \
                 tofu backup build check compact index tune changes serve peer admin dump completions man bench";
    let command = format!("$T -h; for name in {names}; do $T $name -h; done");
    let Some(shown) = on_terminal(&program, 80, &command) else { return };
    let text = plain(&shown);
    let wide: Vec<&str> = text.lines().filter(|line| widest(line) > 80).collect();
    assert!(wide.is_empty() && text.contains("Usage: talaria bench"), "{wide:#?}");
}

#[test]
fn errors_of_each_file_of_an_import_have_the_colour_of_errors() {
    let program = Program::new();
    fs::write(program.path("letter"), "no certificate").unwrap();
    let Some(shown) = on_terminal(&program, 80, "$T import letter none.pgp || true") else {
        return;
    };
    let prefix = shown.matches("\x1b[1;31mtalaria\x1b[0m: ").count();
    assert_eq!(prefix, 2, "{shown:?}");
}
