//! Files that commands write: an existing file is replaced only with `--overwrite`, and a device
//! never.

use std::fs;
use std::os::unix::fs::{FileTypeExt as _, PermissionsExt as _};
use std::path::Path;

use rusqlite::Connection;

use crate::program::{Home, prepared};

/// Command lines that write the file `out`, and whether the file is private.
const OUTPUTS: [(&str, bool); 21] = [
    ("talaria encrypt -r bob@example.net letter.txt -o out", false),
    ("talaria encrypt -a -r bob@example.net letter.txt --output out", false),
    ("talaria decrypt letter.txt.pgp -o out", false),
    ("talaria sign letter.txt -o out", false),
    ("talaria sign --cleartext letter.txt -o out", false),
    ("talaria verify from-bob-signed.pgp -o out", false),
    ("talaria pack letter.txt -o out", false),
    ("talaria unpack packed.pgp -o out", false),
    ("talaria export -o out", false),
    ("talaria export -a bob@example.net -o out", false),
    ("talaria key export alice@example.org -o out", true),
    ("talaria key revoke alice@example.org -o out", true),
    ("talaria trust export-ownertrust -o out", false),
    ("talaria stats --svg out", false),
    ("talaria stats --html out", false),
    ("talaria bench generate 1 -o out", false),
    ("talaria tofu export out", true),
    ("talaria log --log log export -o out", false),
    ("talaria log --log log snapshot export -o out", false),
    ("talaria log witness cosign witness request.txt -o out", false),
    ("talaria --store home/damaged.db admin set-aside -o out", false),
];

/// A home with everything that [`OUTPUTS`] read.
fn with_inputs(root: &Path) -> Home {
    let home = prepared(root);
    home.sh("talaria -q sign --inline letter.txt -o from-bob-signed.pgp");
    home.sh("talaria -q log witness init witness witness.example.net");
    home.sh("talaria -q log --log log init --checkpointer c.key --witness witness/key.pub");
    home.sh("talaria -q log --log log put server-1 color red");
    home.sh("talaria -q log --log log snapshot make");
    home.sh("talaria -q log witness trust witness c.key.pub");
    home.sh("talaria -q log --log log checkpoint --key c.key --request first.txt");
    home.sh("talaria -q log witness cosign witness first.txt > cosigned.txt");
    // A checkpoint that the witness has cosigned can be cosigned again.
    home.sh("talaria -q log --log log checkpoint --old 4 --request request.txt");
    home.sh("cp certs.db home/damaged.db");
    let damaged = Connection::open(home.0.join("home/damaged.db")).unwrap();
    let changed =
        "UPDATE blob SET bytes = CAST(substr(bytes, 1, length(bytes) - 1) || x'00' AS BLOB)";
    damaged.execute(changed, ()).unwrap();
    drop(damaged);
    home.sh("talaria -q --store home/damaged.db check --salvage > /dev/null");
    home
}

/// A command that gets an output must be added to [`OUTPUTS`].
#[test]
fn every_option_for_an_output_is_tried() {
    const OPTIONS: [&str; 3] = ["--output <FILE>", "--svg <FILE>", "--html <FILE>"];
    let help = include_str!("../snapshots/help.txt");
    let mut tried = 0;
    for page in help.split("==== ").skip(1) {
        let (command, page) = page.split_once('\n').unwrap();
        for option in OPTIONS.iter().filter(|option| page.contains(*option)) {
            let (option, _) = option.split_once(' ').unwrap();
            let is_tried = |line: &str| {
                let line = line.replace("--store home/damaged.db ", "").replace("--log log ", "");
                let line = line.replace("-o ", "--output ");
                line.starts_with(&format!("{command} ")) && line.contains(&format!(" {option} out"))
            };
            assert!(OUTPUTS.iter().any(|(line, _)| is_tried(line)), "{command} {option}");
            tried += 1;
        }
    }
    assert!(tried > 14, "only {tried} options: the help is read wrongly");
}

#[test]
fn every_output_replaces_a_file_only_if_told_to() {
    let root = tempfile::tempdir().unwrap();
    let home = with_inputs(root.path());
    let out = home.0.join("out");
    let mode = || out.metadata().unwrap().permissions().mode() & 0o777;
    for (line, private) in OUTPUTS {
        let listing = home.sh("ls -A");
        home.sh(&format!("umask 022; {line}"));
        let written = fs::read(&out).unwrap();
        assert!(written.len() > 10, "{line}");
        assert_eq!(mode(), if private { 0o600 } else { 0o644 }, "{line}");

        fs::write(&out, "precious").unwrap();
        let refused = home.try_sh(line);
        let said = String::from_utf8_lossy(&refused.stderr);
        assert_eq!(refused.status.code(), Some(5), "{line}: {said}");
        assert!(
            said.contains("out exists already") && said.contains("--overwrite"),
            "{line}: {said}"
        );
        assert_eq!(fs::read(&out).unwrap(), b"precious", "{line}");

        fs::set_permissions(&out, fs::Permissions::from_mode(0o604)).unwrap();
        home.sh(&format!("{line} --overwrite"));
        assert_ne!(fs::read(&out).unwrap(), b"precious", "{line}");
        // Never wider than before, nor than usual.
        assert_eq!(mode(), if private { 0o600 } else { 0o604 }, "{line}");
        fs::remove_file(&out).unwrap();
        assert_eq!(home.sh("ls -A"), listing, "{line} leaves files");
    }
}

#[test]
fn every_output_is_on_the_disk_before_it_has_its_name() {
    const TRACED: &str = "strace -ff -y -o trace -e \
        trace=fsync,fdatasync,link,linkat,rename,renameat,renameat2 talaria";
    let root = tempfile::tempdir().unwrap();
    let home = with_inputs(root.path());
    if !home.try_sh("strace -o /dev/null true").status.success() {
        talaria_needs::left_out("strace that may trace");
        return;
    }
    let folder = home.0.canonicalize().unwrap();
    let folder = folder.to_str().unwrap();
    for (line, _) in OUTPUTS {
        for (before, more) in [(None, ""), (Some("old"), " --overwrite")] {
            if let Some(before) = before {
                fs::write(home.0.join("out"), before).unwrap();
            }
            home.sh(&format!("{}{more}", line.replacen("talaria", TRACED, 1)));
            // A file for each thread, so that no call is cut in two.
            let traces: Vec<String> = fs::read_dir(&home.0)
                .unwrap()
                .map(|entry| entry.unwrap().path())
                .filter(|path| path.to_string_lossy().contains("/trace."))
                .map(|path| {
                    let trace = fs::read_to_string(&path).unwrap();
                    fs::remove_file(path).unwrap();
                    trace
                })
                .collect();
            let trace = traces.concat();
            let calls: Vec<&str> = trace.lines().filter(|call| call.ends_with("= 0")).collect();
            let names = |call: &&str| {
                (call.contains("link") || call.contains("rename"))
                    && (call.contains("\"out\"") || call.contains("/out\""))
            };
            let Some(named) = calls.iter().position(names) else {
                panic!("{line}{more} gives no name: {trace}");
            };
            let syncs = |call: &&str, of: &str| call.contains("sync(") && call.contains(of);
            // Before it has a name, the file is in the folder with a number or a temporary name.
            let written = calls[..named]
                .iter()
                .any(|call| syncs(call, &format!("<{folder}/")) && !call.contains(".db"));
            assert!(written, "{line}{more} gives an unsynced file its name: {trace}");
            let kept = calls[named..].iter().any(|call| syncs(call, &format!("<{folder}>")));
            assert!(kept, "{line}{more} does not sync the folder: {trace}");
        }
        fs::remove_file(home.0.join("out")).unwrap();
    }
}

#[test]
fn a_device_stays_a_device() {
    let root = tempfile::tempdir().unwrap();
    let home = with_inputs(root.path());
    // TOFU databases and revocations are files by nature, and go to no stream.
    for (line, _) in OUTPUTS.iter().filter(|(line, _)| !line.contains("tofu export")) {
        for more in ["", " --overwrite"] {
            home.sh(&format!("{}{more}", line.replace(" out", " /dev/null")));
        }
    }
    let kind = fs::metadata("/dev/null").unwrap().file_type();
    assert!(kind.is_char_device());
    // A named pipe is written to.
    home.sh(
        "mkfifo pipe; cat pipe > got & talaria -q export -o pipe && wait && cmp got keyring.gpg",
    );
    assert!(home.0.join("pipe").metadata().unwrap().file_type().is_fifo());
    assert_eq!(home.sh("talaria -q export -o -").len(), home.sh("talaria -q export").len());
}

#[test]
fn revocation_and_generated_files_replace_nothing_either() {
    let root = tempfile::tempdir().unwrap();
    let home = prepared(root.path());
    let line =
        "talaria key generate --no-passphrase 'Carol <carol@example.org>' --revocation letter.txt";
    let refused = home.try_sh(line);
    assert_eq!(refused.status.code(), Some(5), "{refused:?}");
    assert_eq!(fs::read(home.0.join("letter.txt")).unwrap(), b"Meet me at noon.\n");
    // Nothing was generated.
    assert_eq!(home.try_sh("talaria key list carol@example.org").status.code(), Some(1));
    home.sh(&format!("{line} --overwrite"));
    home.sh("talaria bench generate 4 --files 2 -o new");
    assert_eq!(home.try_sh("talaria bench generate 4 --files 2 -o new").status.code(), Some(5));
    home.sh("talaria bench generate 4 --files 2 -o new --overwrite");
}

#[test]
fn a_killed_command_leaves_no_file() {
    let root = tempfile::tempdir().unwrap();
    let home = prepared(root.path());
    let listing = home.sh("ls -A");
    // It waits for more input with the output open when it is killed.
    home.sh(
        "mkfifo home/feed; talaria pack -o out < home/feed & exec 3> home/feed; cat letter.txt >&3; \
         until ls -l /proc/$!/fd | grep -q \"$PWD/[^h]\"; do sleep 0.01; done; kill -9 $!; wait $! || true",
    );
    assert_eq!(home.sh("ls -A"), listing);
}

#[test]
fn missing_inputs_are_noticed_before_anything_else() {
    let root = tempfile::tempdir().unwrap();
    let home = prepared(root.path());
    for line in [
        "talaria encrypt -r bob@example.net missing.txt -o out",
        "talaria encrypt -r nobody@example.net missing.txt -o out",
        "talaria encrypt -c missing.txt -o out",
        "talaria sign -u nobody@example.net missing.txt -o out",
    ] {
        let said = String::from_utf8(home.try_sh(line).stderr).unwrap();
        assert!(said.starts_with("talaria: cannot read missing.txt"), "{line}: {said}");
        assert!(!said.contains("Warning"), "{line}: {said}");
    }
}
