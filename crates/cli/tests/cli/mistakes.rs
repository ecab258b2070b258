//! Mistakes that people make: each has an exit status for its cause, and a text with the object and
//! a remedy.

use std::fs;
use std::process::Output;

use crate::json::assert_documented;
use crate::program::{Home, prepared};
use crate::snapshots::assert_snapshot;

/// A mistake and its expected answer.
struct Mistake {
    /// The command line.
    line: &'static str,
    status: i32,
    /// The object of the mistake, which the text must name.
    object: &'static str,
    /// The remedy in the text.
    remedy: &'static str,
}

const fn mistake(
    line: &'static str,
    status: i32,
    object: &'static str,
    remedy: &'static str,
) -> Mistake {
    Mistake { line, status, object, remedy }
}

/// As in the manual: 1 not found or not accepted, 2 usage, 3 bad input, 4 store or key folder, 5
/// files and network.
const MISTAKES: &[Mistake] = &[
    // Commands and options, gpg's among them.
    mistake("talaria lst", 2, "'lst'", "a similar subcommand exists: 'list'"),
    mistake("talaria version", 2, "'version'", "talaria --version"),
    mistake("talaria -k", 2, "'-k'", "talaria list"),
    mistake("talaria --list-keys", 2, "'--list-keys'", "talaria list"),
    mistake("talaria --gen-key", 2, "'--gen-key'", "talaria key generate"),
    mistake("talaria list -K", 2, "'-K'", "talaria key list"),
    mistake("talaria --import friend.asc", 2, "'--import'", "talaria import FILE"),
    mistake(
        "talaria encrypt -e -r bob@example.net letter.txt",
        2,
        "'-e'",
        "talaria encrypt -r CERT FILE",
    ),
    mistake("talaria encrypt --sign -r bob@example.net letter.txt", 2, "'--sign'", "talaria sign"),
    mistake(
        "talaria decrypt --passphrase hunter2 symmetric.pgp",
        2,
        "'--passphrase'",
        "--passphrase-file",
    ),
    mistake("talaria encrypt letter.txt -a", 2, "recipient", "--to CERT"),
    mistake("talaria serve --listen localhost", 2, "'localhost'", "127.0.0.1:11371"),
    mistake(
        "talaria key generate 'Carol <carol@example.org>' --expires tomorrow",
        2,
        "'tomorrow'",
        "2030-12-31",
    ),
    mistake("talaria man nothing", 2, "`nothing`", "talaria help"),
    mistake("talaria frobnicate", 2, "'frobnicate'", "talaria help"),
    mistake("talaria decrypt -j letter.txt.pgp", 2, "'-j'", "talaria decrypt --help"),
    mistake("talaria show", 2, "<CERT>", "talaria show bob@example.net"),
    mistake("talaria list --limit ten", 2, "'ten'", "whole number"),
    // Wrong order, wrong kind of file.
    mistake(
        "talaria verify letter.txt letter.txt.sig",
        3,
        "letter.txt",
        "talaria verify SIGNATURE letter.txt",
    ),
    mistake("talaria verify letter.txt", 3, "letter.txt", "talaria verify SIGNATURE letter.txt"),
    mistake("talaria verify from-bob.sig", 3, "from-bob.sig", "talaria verify from-bob.sig FILE"),
    mistake("talaria verify friend.asc letter.txt", 3, "friend.asc", "talaria import friend.asc"),
    mistake("talaria decrypt letter.txt", 3, "letter.txt", "talaria encrypt"),
    mistake("talaria decrypt friend.asc", 3, "friend.asc", "talaria import friend.asc"),
    mistake("talaria decrypt packed.pgp", 3, "packed.pgp", "talaria unpack packed.pgp"),
    mistake("talaria unpack letter.txt.pgp", 3, "letter.txt.pgp", "talaria decrypt letter.txt.pgp"),
    mistake("talaria key import friend.asc", 3, "friend.asc", "talaria import friend.asc"),
    // Names.
    mistake(
        "talaria list nobody@example.net",
        1,
        "nobody@example.net",
        "talaria import --keyserver",
    ),
    mistake(
        "talaria encrypt -a -r nobody@example.net letter.txt",
        1,
        "nobody@example.net",
        "talaria import",
    ),
    mistake("talaria encrypt -a -r bob letter.txt", 1, "bob is neither", "whole address"),
    mistake("talaria show example", 1, "example is ambiguous", "fingerprint"),
    mistake("talaria key export alice@example.net", 1, "alice@example.net", "talaria key list"),
    mistake(
        "talaria sign -a -u bob@example.net letter.txt",
        1,
        "bob@example.net",
        "talaria key list",
    ),
    mistake("talaria sign -a --keys empty letter.txt", 1, "secret key", "talaria key generate"),
    mistake("talaria --keys two sign -a letter.txt", 1, "2 keys", "-u FINGERPRINT"),
    mistake(
        "talaria --faked-time 4000000000 encrypt -a -r bob@example.net letter.txt",
        1,
        "Bob <bob@example.net>: expired on",
        "talaria import --keyserver",
    ),
    mistake(
        "talaria --store revoked.db encrypt -a -r bob@example.net letter.txt",
        1,
        "Bob <bob@example.net>: is revoked",
        "new certificate",
    ),
    // Passphrases and keys.
    mistake(
        "talaria decrypt for-bob.pgp",
        1,
        "for-bob.pgp: none of your keys",
        "talaria key import",
    ),
    mistake(
        "talaria decrypt --passphrase-file wrong.txt symmetric.pgp",
        1,
        "symmetric.pgp",
        "passphrase is wrong",
    ),
    mistake(
        "talaria decrypt --passphrase-file nowhere.txt symmetric.pgp",
        5,
        "nowhere.txt",
        "Check the spelling",
    ),
    mistake("talaria decrypt --passphrase-env NOPE symmetric.pgp", 2, "NOPE", "--passphrase-env"),
    mistake(
        "talaria sign -a --key-file secret.asc -u dave@example.org letter.txt",
        1,
        "protected by a passphrase",
        "--passphrase-file",
    ),
    mistake(
        "talaria sign -a --key-file secret.asc -u dave@example.org --passphrase-file wrong.txt letter.txt",
        1,
        "the passphrase is wrong",
        "--passphrase-file",
    ),
    mistake("talaria key generate ''", 2, "a user ID is", "Alice <alice@example.org>"),
    mistake(
        "talaria key generate --no-passphrase 'Alice <alice@example.org>'",
        2,
        "Alice <alice@example.org>",
        "--yes",
    ),
    mistake(
        "talaria key generate 'Carol <carol@example.org>'",
        2,
        "passphrase",
        "--passphrase-file",
    ),
    mistake("talaria key delete alice@example.org", 2, "Alice <alice@example.org>", "--yes"),
    mistake("talaria key revoke alice@example.org", 2, "Alice <alice@example.org>", "--yes"),
    mistake("chmod 755 two; talaria --keys two key list", 4, "two", "chmod go= two"),
    // Missing and unreadable files, folders, full disks.
    mistake(
        "talaria encrypt -a -r bob@example.net missing.txt",
        5,
        "missing.txt",
        "Check the spelling",
    ),
    mistake("talaria import missing.asc", 5, "missing.asc", "Check the spelling"),
    mistake("talaria verify missing.sig letter.txt", 5, "missing.sig", "Check the spelling"),
    mistake("talaria sign -a dump", 5, "dump", "Name a file in it"),
    mistake(
        "chmod 0 letter.txt; $UNPRIVILEGED talaria sign -a letter.txt",
        5,
        "letter.txt",
        "ls -ld letter.txt",
    ),
    mistake("talaria sign letter.txt -o dump", 5, "dump", "Name a file in it"),
    mistake(
        "talaria sign letter.txt -o nowhere/letter.sig",
        5,
        "nowhere/letter.sig",
        "mkdir -p nowhere",
    ),
    mistake(
        "talaria encrypt -r bob@example.net letter.txt -o letter.txt",
        2,
        "letter.txt",
        "another file",
    ),
    mistake(
        "talaria encrypt -r bob@example.net letter.txt -o packed.pgp",
        5,
        "packed.pgp exists already",
        "--overwrite",
    ),
    mistake(
        "talaria encrypt -r bob@example.net letter.txt -o /dev/full",
        5,
        "No space left",
        "Free some space",
    ),
    mistake(
        "talaria import --keyserver hkp://127.0.0.1:1 bob@example.net",
        5,
        "127.0.0.1:1",
        "Check the address",
    ),
    // Damaged content and other kinds of content.
    mistake(
        "head -c 150 letter.txt.pgp > cut.pgp; talaria decrypt cut.pgp",
        3,
        "cut.pgp",
        "ask the sender",
    ),
    mistake("talaria decrypt changed.pgp -o out.txt", 3, "changed.pgp", "ask the sender"),
    mistake("talaria import letter.txt", 3, "letter.txt", "talaria reads keyrings"),
    mistake("talaria import large.zst", 3, "large.zst", "zstd -dc --long=31 large.zst"),
    mistake(
        "talaria --store new.db build large.zst",
        3,
        "large.zst: its zstd compression needs 256 MiB",
        "zstd -dc --long=31 large.zst",
    ),
    mistake("talaria import empty.txt", 3, "empty.txt", "talaria reads keyrings"),
    mistake("talaria import dump", 3, "dump", "Name the files in it"),
    mistake(
        "talaria --store new.db build letter.txt",
        3,
        "letter.txt: no certificates found",
        "keyserver dumps",
    ),
    mistake(
        "talaria --store new.db build letter.txt.gz",
        3,
        "letter.txt.gz: no certificates found",
        "keyserver dumps",
    ),
    // Places of stores and keys.
    mistake(
        "talaria --store keyring.db build keyring.gpg; talaria --store keyring.db build keyring.gpg",
        5,
        "keyring.db",
        "talaria import",
    ),
    mistake(
        "talaria --store home/.gnupg list",
        4,
        "GnuPG home directory",
        "talaria import home/.gnupg",
    ),
    mistake("talaria --store dump list", 4, "dump is a folder", "--store dump/certs.db"),
    mistake("talaria --store missing.db list", 4, "missing.db", "talaria import FILE"),
    mistake("talaria --store keyring.gpg import friend.asc", 2, "keyring.gpg", "--store"),
    mistake("env -u HOME talaria list", 2, "HOME", "--store FILE"),
    mistake("env -u HOME XDG_DATA_HOME=home talaria list", 2, "HOME", "--store FILE"),
    mistake(
        "env -u HOME talaria key generate --no-passphrase 'Carol <carol@example.org>'",
        2,
        "HOME",
        "--keys FOLDER",
    ),
    // More than one argument too many, and names of other programs' commands.
    mistake(
        "talaria encrypt letter.txt bob@example.net",
        2,
        "'bob@example.net'",
        "talaria encrypt --to bob@example.net FILE",
    ),
    mistake(
        "talaria encrypt -r bob@example.net letter.txt letter.pgp",
        2,
        "'letter.pgp'",
        "the output with --output",
    ),
    mistake("talaria remove bob@example.net", 2, "'remove'", "talaria delete CERT"),
    mistake("talaria renew alice@example.org", 2, "'renew'", "talaria key renew KEY"),
    mistake("talaria --check-trustdb", 2, "'--check-trustdb'", "talaria trust check"),
    mistake("talaria --send-keys alice@example.org", 2, "'--send-keys'", "talaria export"),
    mistake(
        "talaria key generate --no-passphrase 'Eve <eve@example.org'",
        2,
        "'Eve <eve@example.org'",
        "Alice <alice@example.org>",
    ),
    mistake(
        "talaria certify -u alice@old.example alice@old.example",
        2,
        "alice@old.example is your own key",
        "--with",
    ),
    mistake(
        "talaria verify --signer bob@example.net letter.txt.sig letter.txt",
        1,
        "no good signature",
        "Bob <bob@example.net>",
    ),
    mistake("talaria peer remove nohost.example", 1, "nohost.example", "talaria peer list"),
    mistake("talaria peer probe 127.0.0.1:1", 5, "127.0.0.1:1", "Check the host"),
    mistake("talaria tofu import letter.txt", 3, "letter.txt", "tofu.db"),
    mistake("talaria tofu import missing.db", 5, "missing.db", "Check the spelling"),
    mistake(
        "talaria trust import-ownertrust letter.txt",
        3,
        "letter.txt",
        "gpg --export-ownertrust",
    ),
    mistake("talaria export --to-gnupg letter.txt", 5, "letter.txt", "Choose another name"),
    mistake("talaria import picture.png", 3, "picture.png", "talaria reads keyrings"),
    // Backup.
    mistake("talaria backup list", 2, "repository", "--repo FOLDER"),
    mistake("talaria backup --repo dump list", 1, "dump", "talaria backup --repo dump init"),
    mistake("talaria backup --repo letter.txt list", 5, "letter.txt", "name a folder"),
    mistake(
        "talaria backup --repo backup init",
        1,
        "backup: a backup repository exists",
        "--repo with another place",
    ),
    mistake("talaria backup --repo s3://bucket list", 2, "s3://bucket", "?region=NAME"),
    mistake("talaria backup --repo ftp://host/x list", 2, "ftp://host/x", "sftp://"),
    mistake(
        "talaria backup --repo webdav://127.0.0.1:1/x list",
        5,
        "webdav://127.0.0.1:1/x",
        "Check the address",
    ),
    mistake("talaria backup snapshots --repo backup", 2, "'snapshots'", "talaria backup list"),
    mistake("talaria backup -r backup list", 2, "'-r'", "--repo REPO"),
    mistake("talaria --keys empty backup --repo backup list", 1, "reader", "talaria key import"),
    mistake("talaria --keys empty backup --repo new init", 1, "secret key", "talaria key generate"),
    mistake("talaria backup --repo backup create misspelt", 5, "misspelt", "Check the spelling"),
    mistake(
        "talaria backup --repo backup restore lastest --target out",
        1,
        "lastest",
        "talaria backup list",
    ),
    mistake(
        "talaria backup --repo backup restore latest~7 --target out",
        1,
        "latest~7",
        "talaria backup list",
    ),
    mistake(
        "talaria backup --repo backup restore latest letter.txt --target out",
        2,
        "'letter.txt'",
        "SNAPSHOT:letter.txt",
    ),
    mistake(
        "talaria backup --repo backup restore latest:/nothing --target out",
        1,
        "nothing",
        "talaria backup ls",
    ),
    mistake(
        "talaria backup --repo backup restore latest --target letter.txt",
        5,
        "letter.txt",
        "Choose another name",
    ),
    mistake("talaria backup --repo backup forget", 2, "snapshots", "--keep-daily"),
    // The signed log.
    mistake("talaria log list", 2, "folder of the log", "--log DIR"),
    mistake("talaria log --log dump list", 1, "dump", "talaria log --log dump init"),
    mistake("talaria log --log fleet init", 1, "fleet is not empty", "does not exist"),
    mistake("talaria log --log fleet get server-9", 1, "server-9", "talaria log list"),
    mistake("talaria log --log fleet get server-1 shape", 1, "shape", "talaria log get OBJECT"),
    mistake("talaria log --log fleet put server-1 color", 2, "value", "OBJECT FIELD VALUE"),
    mistake("talaria log --log fleet delete server-1 color", 1, "color", "put --deletable"),
    mistake("talaria log --log fleet put server-1 visits many", 2, "many", "integer"),
    mistake("talaria log --log fleet encrypt server-1 pin", 2, "--to CERT", "--stop"),
    mistake(
        "talaria log --log fleet encrypt server-1 visits --to bob@example.net -u alice@example.org",
        2,
        "visits is a counter",
        "leave the counter out",
    ),
    mistake(
        "talaria log --log fleet put server-1 secret text -u alice@example.org",
        1,
        "secret is encrypted",
        "talaria log encrypt OBJECT FIELDS --to CERT",
    ),
    mistake(
        "talaria --keys other log --log fleet get server-1 hidden --raw",
        1,
        "hidden is encrypted",
        "the key of its only reader",
    ),
    mistake("talaria log --log fleet put --from letter.txt", 3, "letter.txt, line 1", "\"object\""),
    mistake(
        "talaria --keys empty log --log fleet put a b c",
        1,
        "secret key",
        "talaria key generate",
    ),
    mistake(
        "talaria --keys other log --log fleet put a b c",
        1,
        "no owner",
        "talaria log grant CERT",
    ),
    mistake("talaria log --log new sync 127.0.0.1:1", 2, "new has no log", "--expect LOG"),
    mistake("talaria log --log fleet sync 127.0.0.1:1", 5, "127.0.0.1:1", "refused"),
    mistake("talaria log --log fleet serve", 2, "--listen", "--listen"),
    mistake("talaria log --log fleet serve --listen nowhere", 5, "nowhere", "HOST:PORT"),
    mistake("talaria log --log fleet node publish 12", 2, "64 hexadecimal digits", "--help"),
    mistake("talaria log --log dump watch", 1, "dump", "talaria log --log dump init"),
    mistake("talaria log --log fleet snapshot export -o out", 1, "no snapshot", "snapshot make"),
    mistake("talaria log snapshot make", 2, "folder of the log", "--log DIR"),
    mistake(
        "talaria log snapshot check letter.txt --expect \
         0000000000000000000000000000000000000000000000000000000000000000",
        3,
        "letter.txt",
        "talaria log snapshot export",
    ),
    mistake("talaria log snapshot read letter.txt", 2, "--expect", "--help"),
    mistake("talaria log --log fleet import letter.txt", 3, "letter.txt", "talaria log export"),
    mistake("talaria log --log fleet import missing.tlg", 5, "missing.tlg", "Check the spelling"),
    mistake(
        "talaria log --log fleet revoke bob@example.net",
        1,
        "bob@example.net",
        "list --grants",
    ),
    mistake(
        "talaria log --log fleet grant nobody@example.net",
        1,
        "nobody@example.net",
        "talaria import",
    ),
    mistake(
        "talaria --store revoked.db log --log fleet grant bob@example.net",
        1,
        "revoked",
        "Compare the fingerprint with its owner",
    ),
    mistake("TALARIA_CONFIG=typo.toml talaria list", 3, "unknown setting stor", "known: store"),
];

/// Alice's folder with the files of the table.
fn with_mistakes(root: &std::path::Path) -> Home {
    let home = prepared(root);
    let bob = Home(root.join("b"));
    home.sh("echo wrong > wrong.txt && : > empty.txt && gzip -k letter.txt");
    home.sh("echo 'stor = \"a.db\"' > typo.toml");
    // A window of 256 MiB for five bytes.
    home.sh(r"printf '\050\265\057\375\000\220\051\000\000hello' > large.zst");
    home.sh("talaria -q log --log fleet init --rule visits=counter -u alice@example.org");
    home.sh("talaria -q log --log fleet put server-1 color red -u alice@example.org");
    home.sh("talaria -q log --log fleet node publish -u alice@example.org");
    home.sh("talaria -q log --log fleet encrypt server-1 secret --to bob@example.net -u alice@example.org");
    home.sh("talaria -q log --log fleet encrypt server-1 hidden --to alice@example.org -u alice@example.org");
    home.sh("talaria -q log --log fleet put server-1 hidden text -u alice@example.org");
    home.sh("mkdir -m 700 empty && cp -a home/.local/share/talaria/keys two && chmod 700 two");
    home.sh("talaria -q --keys two key generate --yes --no-passphrase 'Alice <alice@example.org>'");
    home.sh("talaria -q encrypt -r bob@example.net letter.txt -o for-bob.pgp");
    home.sh("printf '\\x89PNG\\r\\n\\x1a\\n\\0\\0\\0\\rIHDR' > picture.png");
    home.sh("talaria -q backup --repo backup init -u alice@example.org");
    home.sh("talaria -q backup --repo backup create letter.txt");
    home.sh("talaria -q --keys other --store other.db key generate --no-passphrase 'Eve <eve@example.com>'");
    bob.sh("talaria -q key revoke --yes bob@example.net && talaria -q --store ../a/revoked.db import ../a/friend.asc");
    bob.sh("talaria -q export bob@example.net -o revoked.pgp && talaria -q --store ../a/revoked.db import revoked.pgp");
    let mut bytes = fs::read(home.0.join("letter.txt.pgp")).unwrap();
    let last = bytes.len() - 10;
    bytes[last] ^= 1;
    fs::write(home.0.join("changed.pgp"), bytes).unwrap();
    home
}

/// Runs a line on a copy of the folder, since some lines change it.
fn run(home: &Home, line: &str) -> Output {
    let copy = home.0.with_file_name("run");
    let _ = fs::remove_dir_all(&copy);
    let copied = std::process::Command::new("cp").arg("-a").arg(&home.0).arg(&copy).status();
    assert!(copied.unwrap().success());
    // The superuser may read everything, unless the test drops that privilege.
    let unprivileged = "setpriv --bounding-set=-dac_override,-dac_read_search";
    let line = line.replace("$UNPRIVILEGED", unprivileged);
    Home(copy).try_sh(&line)
}

#[test]
fn every_mistake_gets_its_object_a_remedy_and_an_exit_status() {
    let root = tempfile::tempdir().unwrap();
    let home = with_mistakes(root.path());
    let mut failed = Vec::new();
    let mut snapshot = String::new();
    for Mistake { line, status, object, remedy } in MISTAKES {
        let output = run(&home, line);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        if output.status.code() != Some(*status) || !said.contains(object) || !said.contains(remedy)
        {
            failed.push(format!(
                "{line}: {}, not {status}; {object}; {remedy}\n{said}",
                output.status
            ));
        }
        snapshot.push_str(&format!("$ {line}\n{}[{status}]\n\n", steady(&said)));
        // The same mistake with --json is a JSON object with the same status.
        let json = run(&home, &line.replacen("talaria ", "talaria --json ", 9));
        let said = String::from_utf8_lossy(&json.stderr).into_owned();
        let results = String::from_utf8_lossy(&json.stdout).into_owned();
        let error = said.lines().rev().find(|line| line.starts_with("{\"error\":"));
        let error = error.map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
        let tells = match &error {
            Some(json) => {
                json["error"]["exit_status"] == *status && json["error"]["message"].is_string()
            }
            // Reports per file have the error in the report.
            None if line.starts_with("talaria import") => {
                results.contains("\"error\":\"") || results.contains("\"reason\":\"")
            }
            None => line.starts_with("talaria verify") && results.contains("\"accepted\":false"),
        };
        if json.status.code() != Some(*status) || !tells {
            failed.push(format!("{line} --json: {}, not {status}\n{said}{results}", json.status));
        }
    }
    assert!(failed.is_empty(), "{} of {}:\n{}", failed.len(), MISTAKES.len(), failed.join("\n"));
    assert!(MISTAKES.len() >= 40);
    assert_snapshot("errors.txt", &snapshot);
}

/// A text without the parts that differ between runs: keys, dates and sizes.
fn steady(text: &str) -> String {
    let mut out = String::new();
    // The progress of a build and its duration.
    let is_progress = |line: &&str| {
        let (_, end) = line.rsplit_once([' ', ',']).unwrap_or_default();
        end.len() == 4 && end.as_bytes()[1] == b':'
    };
    let lines: Vec<&str> = text.split_inclusive('\n').collect();
    let text: String = lines.into_iter().filter(|line| !is_progress(&line.trim_end())).collect();
    for word in text.split_inclusive(|c: char| !c.is_ascii_alphanumeric() && c != '-') {
        let end = word.trim_end_matches(|c: char| !c.is_ascii_alphanumeric() && c != '-');
        let hex = end.len() >= 16 && end.bytes().all(|byte| byte.is_ascii_hexdigit());
        let date = end.len() == 10 && end.split('-').count() == 3 && end.starts_with("20");
        let replaced = if hex {
            "FINGERPRINT"
        } else if date {
            "DATE"
        } else {
            end
        };
        out.push_str(replaced);
        out.push_str(&word[end.len()..]);
    }
    out
}

#[test]
fn a_closed_pipe_is_no_error_for_listings() {
    let root = tempfile::tempdir().unwrap();
    let home = prepared(root.path());
    let output = home.try_sh("talaria list | head -c 0; exit ${PIPESTATUS[0]}");
    assert!(output.status.success(), "{output:?}");
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
}

#[test]
fn build_reads_compressed_files_and_an_empty_build_leaves_no_store() {
    let root = tempfile::tempdir().unwrap();
    let home = prepared(root.path());
    assert_eq!(home.try_sh("talaria --store new.db build letter.txt").status.code(), Some(3));
    let left = home.sh("ls -A | grep new.db || true");
    assert_eq!(left, "");
    for (program, end) in [("gzip", "gz"), ("zstd -q", "zst"), ("xz", "xz"), ("bzip2", "bz2")] {
        home.sh(&format!(
            "{program} -k keyring.gpg && talaria export -a -o ring.asc --overwrite && {program} -f ring.asc"
        ));
        for file in [format!("keyring.gpg.{end}"), format!("ring.asc.{end}")] {
            let built = home.sh(&format!("talaria --store {end}{file}.db build {file}"));
            assert!(built.contains("2 certificates"), "{file}: {built}");
            let imported = home.sh(&format!("talaria --store {end}{file}-i.db import {file}"));
            assert!(imported.contains("2 new"), "{file}: {imported}");
            let piped = home.sh(&format!("talaria --store {end}{file}-p.db build - < {file}"));
            assert!(piped.contains("2 certificates"), "{file}: {piped}");
        }
    }
}

#[test]
fn key_generate_names_the_key_file_and_a_working_revocation() {
    let root = tempfile::tempdir().unwrap();
    let home = prepared(root.path());
    let output = home.try_sh("talaria key generate --no-passphrase 'Carol <carol@example.org>'");
    let said = String::from_utf8_lossy(&output.stderr);
    let path = |label: &str| {
        let line = said.lines().find_map(|line| line.strip_prefix(label));
        line.unwrap_or_else(|| panic!("{label}: {said}")).trim().to_owned()
    };
    assert!(fs::metadata(path("Secret key:")).unwrap().is_file());
    assert!(said.contains("talaria export"), "{said}");
    let revocation = path("Revocation certificate:");
    let mode =
        std::os::unix::fs::PermissionsExt::mode(&fs::metadata(&revocation).unwrap().permissions());
    assert_eq!(mode & 0o777, 0o600);
    home.sh("talaria encrypt -a -r carol@example.org letter.txt");
    home.sh(&format!("talaria import '{revocation}'"));
    let refused = home.try_sh("talaria encrypt -a -r carol@example.org letter.txt");
    assert!(String::from_utf8_lossy(&refused.stderr).contains("is revoked"), "{refused:?}");
}

#[test]
fn commands_that_change_something_report_it_in_json() {
    let root = tempfile::tempdir().unwrap();
    let home = prepared(root.path());
    let json = |line: &str| -> serde_json::Value {
        let said = home.sh(line);
        let last = said.lines().last().unwrap_or_else(|| panic!("{line}: nothing said"));
        let json: serde_json::Value =
            serde_json::from_str(last).unwrap_or_else(|error| panic!("{line}: {error}: {said}"));
        assert_documented(line, &json);
        json
    };
    let encrypted =
        json("talaria --json encrypt -r bob@example.net -u alice@example.org letter.txt -o e.pgp");
    assert_eq!(encrypted["recipients"].as_array().unwrap().len(), 1);
    assert_eq!(encrypted["signed_by"].as_array().unwrap().len(), 1);
    assert_eq!(encrypted["output"], "e.pgp");
    assert_eq!(json("talaria --json sign letter.txt -o s.sig")["form"], "detached");
    assert_eq!(json("talaria --json pack letter.txt -o p.pgp")["output"], "p.pgp");
    assert_eq!(json("talaria --json unpack p.pgp -o u.txt")["signatures"], 0);
    assert_eq!(json("talaria --json decrypt letter.txt.pgp -o d.txt")["accepted"], true);
    assert_eq!(json("talaria --json trust set bob@example.net full")["ownertrust"], "full");
    assert_eq!(json("talaria --json tofu policy bob@example.net good")["policy"], "good");
    assert_eq!(json("talaria --json peer add sks.example.net")["port"], 11370);
    assert_eq!(json("talaria --json peer remove sks.example.net")["host"], "sks.example.net");
    assert_eq!(json("talaria --json key export alice@example.org -o k.pgp")["output"], "k.pgp");
    assert_eq!(json("talaria --json key revoke alice@example.org -o r.asc")["output"], "r.asc");
    let path = json("talaria --json key generate --no-passphrase 'C <c@example.org>'");
    assert!(path["revocation"].as_str().unwrap().contains("/revocations/"));
    assert_eq!(json("talaria --json key delete --yes c@example.org")["action"], "delete");
    assert_eq!(json("talaria --json serve --show-config")["http"]["listen"][0], "127.0.0.1:11371");
    // Content on standard output is not mixed with reports.
    let output = home.try_sh("talaria --json decrypt letter.txt.pgp");
    assert_eq!(output.stdout, b"Meet me at noon.\n");
    assert!(output.stderr.starts_with(b"{"));
}

#[test]
fn completion_offers_names_from_the_store_and_the_keys() {
    let root = tempfile::tempdir().unwrap();
    let home = prepared(root.path());
    let complete = |words: &str, index: usize| {
        home.sh(&format!("COMPLETE=bash _CLAP_COMPLETE_INDEX={index} talaria -- {words}"))
    };
    assert_eq!(complete("talaria encrypt -r bo", 3), "bob@example.net");
    assert!(complete("talaria show ''", 2).contains("alice@example.org"));
    assert_eq!(
        complete("talaria key export al", 3).lines().collect::<Vec<_>>(),
        ["alice@example.org", "alice@old.example"]
    );
    assert!(complete("talaria --store keyring.gpg list b", 4).contains("bob@example.net"));
    let said = home.sh("talaria --json completions --install");
    assert!(said.contains("bash-completion/completions/talaria"), "{said}");
    let script = home.0.join("home/.local/share/bash-completion/completions/talaria");
    home.sh(&format!("bash -n '{}'", script.display()));
    assert!(fs::read_to_string(script).unwrap().contains("COMPLETE"));
}

#[test]
fn generated_files_replace_only_their_earlier_versions() {
    let root = tempfile::tempdir().unwrap();
    let home = prepared(root.path());
    let script = home.0.join("home/.local/share/bash-completion/completions/talaria");
    let page = home.0.join("pages/talaria-verify.1");
    for (line, file) in
        [("talaria completions bash --install", script), ("talaria man --dir pages", page)]
    {
        home.sh(line);
        let generated = fs::read_to_string(&file).unwrap();
        // An earlier version of the same file.
        fs::write(&file, format!("{generated}\n")).unwrap();
        home.sh(line);
        assert_eq!(fs::read_to_string(&file).unwrap(), generated, "{line}");
        fs::write(&file, "mine").unwrap();
        let output = home.try_sh(line);
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.code() == Some(5) && said.contains("--overwrite"), "{line}: {said}");
        assert_eq!(fs::read_to_string(&file).unwrap(), "mine", "{line}");
        home.sh(&format!("{line} --overwrite"));
        assert_eq!(fs::read_to_string(&file).unwrap(), generated, "{line}");
    }
}

#[test]
fn keys_are_listed_when_gnupg_has_no_home() {
    let root = tempfile::tempdir().unwrap();
    let home = prepared(root.path());
    let output = home.try_sh("GNUPGHOME=$PWD/none talaria key list --gpg-agent");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && said.contains("GnuPG has no home directory"), "{said}");
    assert!(String::from_utf8_lossy(&output.stdout).contains("alice@example.org"));
    let output = home.try_sh(
        "GNUPGHOME=$PWD/none talaria sign --gpg-agent -u bob@example.net letter.txt -o letter.sig",
    );
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.code() == Some(4) && said.contains("GNUPGHOME"), "{said}");
}
