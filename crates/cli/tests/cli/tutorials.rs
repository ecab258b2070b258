//! A shell runs the commands of the tutorials in their order, as a reader types them. Blocks behind
//! `<!-- not run: WHY -->` are not run, because of a network for example; the program parses the
//! commands in them.

use std::fs;
use std::path::Path;

use crate::program::{Home, Program, Serving, corpus, make_gnupg_home};

/// A tutorial, and the set-up that the reader has.
struct Tutorial {
    name: &'static str,
    /// Run before it.
    before: &'static str,
    /// Texts and their replacements. Where a person answers a question on a terminal, options
    /// answer it.
    replaced: &'static [(&'static str, &'static str)],
    /// Run behind it: its result is the promised one.
    after: &'static str,
}

const TUTORIALS: [Tutorial; 5] = [
    Tutorial {
        name: "people",
        before: "",
        replaced: &[
            (r#""Alice <alice@example.org>""#, r#""Alice <alice@example.org>" --no-passphrase"#),
            ("--symmetric", "--symmetric --passphrase-file passphrase.txt"),
        ],
        after: "cmp copy.txt letter.txt && cmp read.txt letter.txt",
    },
    Tutorial {
        name: "keyrings",
        before: "",
        replaced: &[
            ("/usr/share/keyrings/debian-maintainers.gpg", "ring.pgp"),
            ("/usr/share/keyrings/debian-nonupload.gpg", "ring.pgp"),
            ("hkps://keys.openpgp.org", "$KEYSERVER"),
            ("talaria delete FINGERPRINT", "talaria delete --yes $(fingerprint 1)"),
            ("talaria delete --block FINGERPRINT", "talaria delete --yes --block $(fingerprint 1)"),
        ],
        after: "test $(talaria --store keyring.gpg list --with-colons | grep -c ^pub) = 38",
    },
    Tutorial {
        name: "operators",
        before: "mkdir -p lib dump backup && cp ring.pgp dump/sks-dump-0000.pgp",
        replaced: &[
            ("/usr/share/keyrings/debian-keyring.gpg", "ring.pgp"),
            (
                "talaria --store keys.db serve",
                "timeout --preserve-status --signal TERM 2 talaria --store keys.db serve --listen 127.0.0.1:0",
            ),
            ("/var/lib/talaria/certs.db", "lib/certs.db"),
            ("/srv/dump", "dump\nexport TALARIA_STORE=$PWD/lib/certs.db"),
            ("redact FINGERPRINT", "redact $(fingerprint 1)"),
            ("unblock FINGERPRINT", "unblock $(cat blocked)"),
            ("block FINGERPRINT", "block --yes $(fingerprint 1 | tee blocked)"),
            ("/backup/", "backup/"),
            ("/srv/our-dump", "our-dump"),
        ],
        after: "test -s our-dump/sks-dump-0000.pgp && test -s backup/certs-*.db",
    },
    Tutorial {
        name: "backup",
        before: "",
        replaced: &[
            (r#""Alice <alice@example.org>""#, r#""Alice <alice@example.org>" --no-passphrase"#),
            ("/mnt/backup ", "$PWD/repository "),
            (
                "talaria key generate --no-passphrase",
                "OWNER=$HOME HOME=$PWD/server\ntalaria key generate --no-passphrase",
            ),
            ("talaria import web.pgp", "HOME=$OWNER\ntalaria import web.pgp"),
            (
                "talaria key import",
                "HOME=$PWD/new-machine\ntalaria key import --no-passphrase",
            ),
        ],
        after: "grep noon letters-before/bob.txt && grep -r dawn restored",
    },
    Tutorial {
        name: "programmers",
        before:
            "talaria -q key generate --passphrase-file passphrase.txt 'Carol <carol@example.org>'
                 ADDRESS=carol@example.org FINGERPRINT=$(fingerprint 1)
                 echo 1.0 >release.tar.gz
                 talaria -q sign --armor --passphrase-file passphrase.txt -o release.tar.gz.asc release.tar.gz
                 talaria -q encrypt --to carol@example.org --output data.pgp release.tar.gz
                 talaria -q export --output robot.asc",
        replaced: &[("/run/secrets/key", "passphrase.txt")],
        after: "cmp data.bin release.tar.gz",
    },
];

/// A block of code in a text.
struct Block {
    lines: Vec<String>,
    is_run: bool,
}

/// The indented blocks of a text, without the comments at the end of lines.
fn blocks(text: &str) -> Vec<Block> {
    let mut blocks: Vec<Block> = Vec::new();
    let (mut is_inside, mut is_run, mut is_fenced) = (false, true, false);
    for line in text.lines() {
        // Programs in other languages.
        is_fenced ^= line.starts_with("```");
        if is_fenced {
            continue;
        }
        if let Some(code) = line.strip_prefix("    ") {
            if !is_inside {
                blocks.push(Block { lines: Vec::new(), is_run });
            }
            (is_inside, is_run) = (true, true);
            blocks.last_mut().unwrap().lines.push(code.to_owned());
        } else if !line.is_empty() {
            is_inside = false;
            is_run &= !line.starts_with("<!-- not run: ");
        }
    }
    blocks
}

#[test]
fn every_command_of_the_tutorials_works() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/tutorials");
    let mut names: Vec<String> = fs::read_dir(&folder)
        .unwrap()
        .map(|entry| entry.unwrap().path().file_stem().unwrap().to_str().unwrap().to_owned())
        .collect();
    names.sort();
    let mut known = TUTORIALS.map(|tutorial| tutorial.name);
    known.sort_unstable();
    assert_eq!(names, known);
    let server = Program::new();
    let ring = server.ring("ring.pgp", &corpus(40));
    server.ok(&["import", ring.to_str().unwrap()]);
    let server = Serving::start(&server, &[]);
    for tutorial in TUTORIALS {
        let text = fs::read_to_string(folder.join(tutorial.name).with_extension("md")).unwrap();
        let root = tempfile::tempdir().unwrap();
        let home = Home(root.path().to_owned());
        make_gnupg_home(&root.path().join("home/.gnupg"));
        fs::copy(&ring, root.path().join("ring.pgp")).unwrap();
        fs::write(root.path().join("passphrase.txt"), "secret-4711\n").unwrap();
        let mut script = format!(
            "set -e\nKEYSERVER={}\nfingerprint() {{ talaria list --with-colons | awk -F: '$1 == \"fpr\" {{ print $10 }}' | sed -n \"$1p\"; }}\n{}\n",
            server.keyserver(),
            tutorial.before
        );
        let mut run = String::new();
        for block in blocks(&text) {
            if block.is_run {
                run.push_str(&block.lines.join("\n"));
                run.push('\n');
            } else {
                for line in block.lines.iter().filter(|line| line.starts_with("talaria ")) {
                    // The options before it are parsed.
                    let line = line.split(" # ").next().unwrap();
                    home.sh(&format!("{line} --help"));
                }
            }
        }
        for (from, to) in tutorial.replaced {
            assert!(run.contains(from), "{}: {from}", tutorial.name);
            run = run.replace(from, to);
        }
        script.push_str(&run);
        script.push_str(tutorial.after);
        let output = home.command("bash").args(["-x", "-o", "pipefail", "-c", &script]).output();
        let output = output.unwrap();
        let _ = home.try_sh("gpgconf --kill all");
        assert!(output.status.success(), "{}: {output:#?}", tutorial.name);
    }
}
