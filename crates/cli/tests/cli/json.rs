//! The JSON output of every command against `docs/json.md`.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::examples::examples;
use crate::program::{Program, Serving, corpus, prepared};

const PAGE: &str = include_str!("../../../../docs/json.md");

/// Commands without JSON of their own, and those that do not end or need another node: their tests
/// are with the other backups and logs.
const TEXT: [&str; 6] = ["serve", "bench", "backup mount", "log serve", "log sync", "log watch"];

/// Command lines for every command, in an order in which they work. KEYSERVER and GOSSIP are
/// addresses of a server.
const LINES: &str = "\
    stats
    list
    list --limit 1
    list --with-trust bob@example.net
    show --with-sigs alice@example.org
    import friend.asc
    import home/.gnupg
    import --keyserver KEYSERVER bob@example.net
    import letter.txt || true
    export -o ring.pgp
    export
    dump new-dump
    changes
    changes --since $(talaria changes | tail -1 | sed 's/^token *//; s/:[0-9]*$/:0/')
    verify letter.txt.sig letter.txt
    verify from-bob.sig friend.asc || true
    decrypt from-bob.pgp -o out.txt
    decrypt symmetric.pgp --passphrase-file passphrase.txt
    encrypt -r bob@example.net letter.txt -o out.pgp
    sign letter.txt -o out.sig
    sign --cleartext letter.txt -o out.asc
    pack letter.txt
    unpack packed.pgp -o unpacked.txt
    inspect letter.txt.pgp
    inspect letter.txt.sig
    inspect out.asc
    inspect friend.asc
    key generate --no-passphrase 'Carol <carol@example.org>'
    key list
    key add-subkey carol@example.org --encrypt
    key add-user-id carol@example.org 'Carol <carol@example.net>'
    key expire carol@example.org 30d
    key check carol@example.org || true
    key renew carol@example.org
    key passphrase carol@example.org --new-passphrase-file passphrase.txt
    key revoke carol@example.org --passphrase-file passphrase.txt -o revocation.asc
    key revoke --yes carol@example.org --passphrase-file passphrase.txt
    key import secret.asc
    key export alice@example.org -o secret.pgp
    key delete --yes carol@example.org
    certify -u alice@example.org bob@example.net
    trust set bob@example.net full
    trust show bob@example.net
    trust path bob@example.net
    trust check
    trust rules
    trust import-ownertrust otrust.txt
    trust export-ownertrust -o owners.txt
    import mallory.pgp
    verify mallory.sig letter.txt --trust-model tofu
    verify from-bob.sig letter.txt --trust-model tofu || true
    tofu info bob@example.net || true
    tofu conflicts
    tofu policy 'Mallory <bob@example.net>' bad
    tofu import home/.gnupg/tofu.db
    tofu export new-tofu.db
    check
    compact
    index
    --store new.db build keyring.gpg many.pgp
    --store new.db tune
    peer add sks.example.org
    peer list
    peer again sks.example.org
    peer remove sks.example.org
    peer probe GOSSIP
    peer sync GOSSIP
    admin block FINGERPRINT
    admin list
    admin unblock FINGERPRINT
    import friend.asc
    admin redact --all FINGERPRINT
    admin list
    admin unredact FINGERPRINT
    admin delete FINGERPRINT
    admin log
    import friend.asc
    admin reindex
    admin backup saved.db
    --store again.db admin restore saved.db
    admin set-aside --output aside.bin
    admin set-aside --delete
    delete --yes FINGERPRINT
    completions bash --install
    man --dir pages
    backup init --repo copies -u alice@example.org
    backup create --repo copies letter.txt
    backup create --repo copies letter.txt friend.asc
    backup list --repo copies
    backup ls --repo copies
    backup find --repo copies letter.txt
    backup diff --repo copies latest~1 latest
    backup restore --repo copies latest --target restored
    backup check --repo copies --read-data
    backup drill --repo copies
    backup init --repo elsewhere -u alice@example.org
    backup copy --repo elsewhere --from copies -u alice@example.org
    backup attest --repo copies
    backup repair --repo copies --read-data
    backup stats --repo copies
    backup protect --repo copies latest
    import friend.asc
    certify -u alice@example.org FINGERPRINT
    backup client add --repo copies bob@example.net
    backup client remove --repo copies bob@example.net
    backup key add --repo copies bob@example.net
    backup signer add --repo copies bob@example.net --role forget
    backup signer remove --repo copies bob@example.net
    backup key remove --repo copies bob@example.net
    backup key list --repo copies
    backup forget --repo copies --keep-last 1
    backup prune --repo copies
    log init --log fleet -u alice@example.org --rule 'tags*=set' --rule 'strict*=strict'
    log put --log fleet server-1 color red -u alice@example.org
    log put --log fleet server-1 tags a -u alice@example.org
    log get --log fleet server-1
    log list --log fleet
    log grant --log fleet bob@example.net -u alice@example.org
    log list --log fleet --grants
    log encrypt --log fleet server-1 'pin*' --to alice@example.org -u alice@example.org
    log put --log fleet server-1 pin 1234 -u alice@example.org
    log list --log fleet --readers
    log put --log fleet server-1 note secret --deletable -u alice@example.org
    log delete --log fleet server-1 note -u alice@example.org
    log compact --log fleet
    log history --log fleet server-1
    log verify --log fleet
    log export --log fleet -o fleet.tlg
    log export --log fleet --pgp proof
    log import --log node fleet.tlg
    log import --log fleet fleet.tlg
    log stats --log fleet
    log node key --log fleet
    log node publish --log fleet -u alice@example.org
    log node list --log fleet
    log node end --log fleet $(talaria log --log fleet node key) -u alice@example.org
    log approve --log fleet $(talaria --json log --log fleet list --grants | tail -1 | sed 's/.*\"grant\":\"//; s/\".*//') -u alice@example.org
    log choose --log fleet $(talaria --json log --log fleet history server-1 | tail -1 | sed 's/.*\"entry\":\"//; s/\".*//') -u alice@example.org
    log revoke --log fleet bob@example.net -u alice@example.org
    log witness init witness witness.example.net
    log init --log dated --checkpointer checkpointer.key --witness witness/key.pub -u alice@example.org
    log witness trust witness checkpointer.key.pub
    log checkpoint --log dated --key checkpointer.key --request request.txt -u alice@example.org
    log witness cosign witness request.txt -o cosigned.txt
    log cosign --log dated cosigned.txt -u alice@example.org
    log list --log dated --checkpoints
    log put --log dated server-1 color red -u alice@example.org
    log snapshot make --log dated -u alice@example.org
    log list --log dated --snapshots
    log snapshot export --log dated -o dated.snapshot
    log snapshot check dated.snapshot --expect $(talaria --json log --log dated stats | sed 's/.*\"log\":\"//; s/\".*//')
    log snapshot read dated.snapshot --expect $(talaria --json log --log dated stats | sed 's/.*\"log\":\"//; s/\".*//')
    log stats --log dated
    log verify --log dated
    log export --log dated --pgp dated-proof
";

/// The row of a command or an object in the document: the text behind its first cell.
fn row(name: &str) -> Option<&'static str> {
    let name = format!("`{name}`");
    PAGE.lines().find_map(|line| {
        let (first, rest) = line.strip_prefix("| ")?.split_once(" | ")?;
        first.contains(&name).then_some(rest)
    })
}

/// The words of a command in a line: `key list` of `talaria --json key list alice`.
fn command(line: &str) -> &str {
    let words = line.trim_start_matches("talaria ").trim_start_matches("--json ");
    // Options before the command have a value.
    let words = if words.starts_with("--") { words.splitn(3, ' ').nth(2).unwrap() } else { words };
    let ends: Vec<usize> =
        words.match_indices(' ').map(|(at, _)| at).chain([words.len()]).take(3).collect();
    let both = ends.iter().rev().map(|end| &words[..*end]).find(|name| row(name).is_some());
    match both {
        Some("key revoke") if words.contains(" -o ") => "key revoke --output",
        Some(name) => name,
        None => panic!("docs/json.md does not have {line}"),
    }
}

/// The fields of an object that are not in the document.
fn undocumented(name: &str, json: &Value) -> Vec<String> {
    let mut described = row(name).unwrap().to_owned();
    for other in ["list", "key list", "verify", "backup ls", "log history"] {
        if described.contains(&format!("as `{other}`")) {
            described.push_str(row(other).unwrap());
        }
    }
    if described.contains("server.toml") {
        return Vec::new();
    }
    let mut missing = Vec::new();
    for (field, value) in json.as_object().unwrap() {
        if !described.contains(&format!("`{field}`")) {
            missing.push(format!("{name}: {field}"));
        }
        // Objects in objects have a row for their field. Counts by value and packets have fields of
        // any name.
        let inner = match value {
            Value::Array(values) => values.iter().find(|value| value.is_object()),
            Value::Object(_) if !field.starts_with("by_") && field != "fields" => Some(value),
            _ => None,
        };
        if let Some(inner) = inner {
            let rows: Vec<&str> = PAGE
                .lines()
                .filter(|line| {
                    let cell = line.strip_prefix("| ").and_then(|line| line.split(" | ").next());
                    cell.is_some_and(|cell| cell.contains(&format!("`{field}`")))
                })
                .collect();
            let verify = row("verify").unwrap();
            let text = format!("{} {verify}", rows.join(" "));
            for (part, _) in inner.as_object().unwrap() {
                if rows.is_empty() || !text.contains(&format!("`{part}`")) {
                    missing.push(format!("{name}: {field}.{part}"));
                }
            }
        }
    }
    missing
}

/// Asserts that the document has all fields of a report of this command line.
pub(crate) fn assert_documented(line: &str, json: &Value) {
    assert_eq!(undocumented(command(line), json), [""; 0], "docs/json.md lacks fields: {line}");
}

#[test]
fn every_json_output_is_documented() {
    let root = tempfile::tempdir().unwrap();
    let home = prepared(root.path());
    let server = Program::new();
    server.ok(&["import", &home.0.join("keyring.gpg").display().to_string()]);
    server.ok(&["peer", "add", "127.0.0.1:11370"]);
    let server = Serving::start(&server, &["--gossip", "127.0.0.1:0"]);
    let many = Program::new();
    std::fs::copy(many.ring("many.pgp", &corpus(60)), home.0.join("many.pgp")).unwrap();
    let mallory = "talaria -q --keys other --store other.db";
    home.sh(&format!("{mallory} key generate --no-passphrase 'Mallory <bob@example.net>'"));
    home.sh(&format!(
        "{mallory} export -o mallory.pgp && {mallory} sign letter.txt -o mallory.sig"
    ));
    let fingerprint = home.sh("cat fingerprints.txt").trim().to_owned();
    let (mut silent, mut missing, mut failed) = (Vec::new(), Vec::new(), Vec::new());
    let mut seen = BTreeSet::new();
    for line in LINES.lines().map(str::trim) {
        let name = command(line);
        seen.insert(name.trim_end_matches(" --output").to_owned());
        let run = line
            .replace("KEYSERVER", &server.keyserver())
            .replace("GOSSIP", &server.gossip.unwrap().to_string())
            .replace("FINGERPRINT", &fingerprint);
        let output = home.try_sh(&format!("talaria --json {run}"));
        let said =
            [output.stdout, output.stderr].map(|said| String::from_utf8_lossy(&said).into_owned());
        if !output.status.success() {
            failed.push(format!("{run}: {said:?}"));
        }
        let mut count = 0;
        for object in said.iter().flat_map(|said| said.lines()) {
            let Ok(json) = serde_json::from_str::<Value>(object) else { continue };
            if json.get("error").is_some_and(Value::is_object) {
                continue;
            }
            count += 1;
            missing.extend(undocumented(name, &json));
            if name == "inspect" {
                assert!(json["bytes"].is_u64(), "{json}");
                for field in ["version", "algorithm", "created", "date", "chunk_bytes"] {
                    let value = json["fields"].get(field);
                    assert!(value.is_none_or(Value::is_u64), "{field}: {json}");
                }
            }
        }
        if count == 0 {
            silent.push(line);
        }
    }
    assert_eq!(failed, [""; 0]);
    missing.sort();
    missing.dedup();
    assert_eq!(missing, [""; 0], "docs/json.md does not have these fields");
    assert_eq!(silent, [""; 0], "these print no JSON");
    // Every command that there is was run.
    let all = examples().into_iter().map(|(command, _)| command);
    let groups = [
        "",
        "key",
        "trust",
        "tofu",
        "peer",
        "admin",
        "backup",
        "backup key",
        "backup client",
        "backup signer",
        "log",
        "log node",
        "log snapshot",
        "log witness",
    ];
    let left: Vec<String> = all
        .filter(|name| {
            !seen.contains(name) && !groups.contains(&&**name) && !TEXT.contains(&&**name)
        })
        .collect();
    assert_eq!(left, [""; 0], "add these commands to this test");
}
