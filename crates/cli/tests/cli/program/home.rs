//! A user's home with the program in the path, for command lines as people type them.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use super::make_gnupg_home;

/// A folder, and the program with its files in the usual places of that folder.
pub(crate) struct Home(pub(crate) PathBuf);

impl Home {
    pub(crate) fn command(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        let home = self.0.join("home");
        let folder = Path::new(env!("CARGO_BIN_EXE_talaria")).parent().unwrap();
        let path = format!("{}:{}", folder.display(), std::env::var("PATH").unwrap());
        for name in [
            "TALARIA_STORE",
            "TALARIA_KEYS",
            "TALARIA_POLICY",
            "TALARIA_CONFIG",
            "XDG_DATA_HOME",
            "XDG_CONFIG_HOME",
        ] {
            command.env_remove(name);
        }
        command.env("HOME", &home).env("GNUPGHOME", home.join(".gnupg")).env("PATH", path);
        command.env("SHELL", "/bin/bash").current_dir(&self.0).stdin(Stdio::null());
        command
    }

    /// Runs a line, which must succeed.
    pub(crate) fn sh(&self, line: &str) -> String {
        let output = self.try_sh(line);
        assert!(output.status.success(), "{line}: {output:?}");
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    pub(crate) fn try_sh(&self, line: &str) -> Output {
        self.command("bash").args(["-o", "pipefail", "-c", line]).output().unwrap()
    }
}

/// The folders of Alice, with the files that the examples in the help speak of, and of Bob beside
/// it.
pub(crate) fn prepared(root: &Path) -> Home {
    let home = |name: &str| {
        let folder = root.join(name);
        make_gnupg_home(&folder.join("home/.gnupg"));
        Home(folder)
    };
    let (alice, bob) = (home("a"), home("b"));
    bob.sh("talaria -q key generate --no-passphrase 'Bob <bob@example.net>'");
    bob.sh("talaria -q export bob@example.net -o ../a/friend.asc -a");
    bob.sh("talaria -q key generate 'Dave <dave@example.org>' --no-passphrase --expires never");
    bob.sh("talaria -q key export dave@example.org | gpg -q --batch --import");
    bob.sh("cp -a home/.gnupg ../a/home/ && gpgconf --kill all");
    alice.sh("echo 'Meet me at noon.' > letter.txt && echo secret-4711 > passphrase.txt");
    bob.sh("talaria -q key passphrase dave@example.org --new-passphrase-file ../a/passphrase.txt");
    bob.sh("talaria -q key export -a dave@example.org -o ../a/secret.asc");
    alice.sh("talaria -q key generate --no-passphrase 'Alice <alice@example.org>'");
    alice.sh("talaria -q key add-user-id alice@example.org 'Alice <alice@old.example>'");
    alice.sh("talaria -q import friend.asc && talaria -q export -o keyring.gpg");
    alice.sh("talaria -q certify --local bob@example.net");
    bob.sh("talaria -q import ../a/keyring.gpg");
    bob.sh("talaria -q sign -u bob@example.net ../a/letter.txt -o ../a/from-bob.sig");
    bob.sh("talaria -q encrypt -r alice@example.org -u bob@example.net ../a/letter.txt -o ../a/from-bob.pgp");
    alice.sh("talaria -q sign letter.txt -o letter.txt.sig");
    alice.sh("talaria -q encrypt -r alice@example.org letter.txt -o letter.txt.pgp");
    alice.sh("talaria -q encrypt -c --passphrase-file passphrase.txt letter.txt -o symmetric.pgp");
    alice.sh("talaria -q --store certs.db import keyring.gpg");
    alice.sh("talaria -q pack letter.txt -o packed.pgp");
    alice.sh("talaria -q dump dump && gzip -k dump/sks-dump-0000.pgp");
    alice.sh("talaria -q tofu export home/.gnupg/tofu.db");
    alice.sh(
        "talaria -q export --to-gnupg home/.gnupg && talaria trust export-ownertrust > otrust.txt",
    );
    alice.sh("talaria -q peer add sks.example.org && talaria -q peer add keys.example.org:11372");
    alice.sh("talaria --json list bob@example.net | grep -o '\"fingerprint\":\"[0-9A-F]*' | head -1 | cut -d'\"' -f4 > fingerprints.txt");
    alice
}
