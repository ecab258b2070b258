//! Designated revokers, beside the real gpg.

use std::fs;
use std::io::Write as _;
use std::process::{Command, Output, Stdio};

use crate::program::Program;

/// A GnuPG home in which Alice named Rita and Sam as her revokers, and Rita revoked Alice's key.
struct Home {
    path: String,
    alice: String,
    rita: String,
}

/// The files with Alice's certificate after and before Rita's revocation, and with Rita's
/// certificate.
struct Files {
    revoked: String,
    before: String,
    rita: String,
}

impl Home {
    fn new(program: &Program) -> Option<Self> {
        if Command::new("gpg").arg("--version").output().is_err() {
            talaria_needs::left_out("gpg");
            return None;
        }
        let path = program.path("gnupg");
        fs::create_dir(&path).unwrap();
        let private = std::os::unix::fs::PermissionsExt::from_mode(0o700);
        fs::set_permissions(&path, private).unwrap();
        let path = path.to_str().unwrap().to_owned();
        let mut home = Self { path, alice: String::new(), rita: String::new() };
        for name in ["alice", "rita", "sam"] {
            let user_id = format!("{name} <{name}@example.org>");
            home.ok(&["--quick-gen-key", &user_id, "ed25519", "default", "never"]);
        }
        (home.alice, home.rita) = (home.fingerprint("alice"), home.fingerprint("rita"));
        home.ok(&["--quick-add-key", &home.alice, "cv25519", "encr", "never"]);
        Some(home)
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new("gpg");
        command.args([
            "--homedir",
            &self.path,
            "--no-tty",
            "--quiet",
            "--pinentry-mode",
            "loopback",
        ]);
        command.args(["--passphrase", "", "--no-auto-check-trustdb"]).args(args);
        command.env("LC_ALL", "C").stdin(Stdio::null());
        command
    }

    fn run(&self, args: &[&str]) -> Output {
        self.command(&[&["--batch"], args].concat()).output().unwrap()
    }

    fn ok(&self, args: &[&str]) -> String {
        let output = self.run(args);
        assert!(output.status.success(), "{args:?}: {output:?}");
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// Runs gpg with these answers to its questions.
    fn answer(&self, args: &[&str], answers: &str) {
        let mut child = self
            .command(&[&["--command-fd", "0"], args].concat())
            .stdin(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        child.stdin.take().unwrap().write_all(answers.as_bytes()).unwrap();
        assert!(child.wait().unwrap().success(), "{args:?}");
    }

    fn fingerprint(&self, name: &str) -> String {
        let listing = self.ok(&["--with-colons", "-k", name]);
        let line = listing.lines().find(|line| line.starts_with("fpr:")).unwrap();
        line.split(':').nth(9).unwrap().to_owned()
    }

    fn export(&self, program: &Program, name: &str, cert: &str) -> String {
        let file = program.path(name).to_str().unwrap().to_owned();
        self.ok(&[
            "--output",
            &file,
            "--export-options",
            "export-sensitive-revkeys",
            "--export",
            cert,
        ]);
        file
    }

    /// Names the revokers, and revokes as Rita.
    fn revoke(&self, program: &Program) -> Files {
        for name in ["rita", "sam"] {
            let answers = format!("addrevoker\n{name}@example.org\ny\nsave\n");
            self.answer(&["--edit-key", &self.alice], &answers);
        }
        let sam = self.fingerprint("sam");
        self.ok(&["--yes", "--delete-secret-keys", &sam]);
        let before = self.export(program, "before.pgp", &self.alice);
        let file = program.path("designated.asc").to_str().unwrap().to_owned();
        self.answer(&["-o", &file, "--desig-revoke", &self.alice], "y\n0\n\ny\n");
        self.ok(&["--import", &file]);
        let revoked = self.export(program, "revoked.pgp", &self.alice);
        Files { revoked, before, rita: self.export(program, "rita.pgp", &self.rita) }
    }

    fn stop(&self) {
        let _ = Command::new("gpgconf").args(["--homedir", &self.path, "--kill", "all"]).status();
    }
}

/// The validity letters in a listing, with their key or user ID.
fn letters(listing: &str) -> Vec<(String, String)> {
    let field = |line: &str, at: usize| line.split(':').nth(at).unwrap_or_default().to_owned();
    let of = |line: &&str| ["pub:", "sub:", "uid:"].iter().any(|kind| line.starts_with(kind));
    let mut letters: Vec<_> = listing
        .lines()
        .filter(of)
        .map(|line| (format!("{}{}{}", &line[..3], field(line, 4), field(line, 9)), field(line, 1)))
        .collect();
    letters.sort();
    letters
}

#[test]
fn a_designated_revoker_revokes_a_key_as_in_gpg() {
    let program = Program::new();
    let Some(home) = Home::new(&program) else { return };
    let document = program.path("document").to_str().unwrap().to_owned();
    fs::write(&document, "pay bob 10 euro\n").unwrap();
    home.ok(&["--output", &format!("{document}.sig"), "-u", &home.alice, "-b", &document]);
    let Files { revoked, before, rita } = home.revoke(&program);
    let Home { alice, .. } = &home;
    let listed = |program: &Program| program.ok(&["list", "--with-colons", alice]);
    let refuses = |program: &Program| {
        program.fails(&["encrypt", "--to", alice, "-o", "/dev/null", &document], 1)
    };
    let verify = |program: &Program| {
        let signature = format!("{document}.sig");
        program.run(&["verify", "--signature", &signature, &document]).status.code()
    };

    // Rita's certificate is missing, so the revocation cannot be verified. gpg also lists and uses
    // the key.
    program.ok(&["import", &revoked]);
    assert!(letters(&listed(&program)).iter().all(|(_, letter)| letter == "-"));
    let shown = program.ok(&["show", alice]);
    assert_eq!(shown.matches("whose key is unknown").count(), 2, "{shown}");
    let json = program.ok(&["list", "--json", alice]);
    assert_eq!(json.matches(r#""state":"unknown""#).count(), 2, "{json}");
    assert_eq!(verify(&program), Some(0));
    program.ok(&["encrypt", "--to", alice, "-o", "/dev/null", &document]);
    program.assert_clean();

    // Rita's certificate arrives.
    let token = program.ok(&["changes"]);
    let token = token.trim().strip_prefix("token ").unwrap();
    program.ok(&["import", &rita]);
    let theirs = home.ok(&["--with-colons", "-k", alice]);
    assert!(letters(&theirs).iter().all(|(_, letter)| letter == "r"), "{theirs}");
    assert_eq!(letters(&listed(&program)), letters(&theirs));
    let shown = program.ok(&["show", alice]);
    assert!(shown.contains(&format!("revoked by {}", home.rita)), "{shown}");
    assert!(refuses(&program).contains("revoked"));
    let output =
        home.run(&["--trust-model", "always", "-r", alice, "-o", "/dev/null", "-e", &document]);
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    // The key does not sign or certify either, even if the key file has an old copy.
    let secret = program.path("alice.sec").to_str().unwrap().to_owned();
    home.ok(&["--output", &secret, "--export-secret-keys", alice]);
    program.ok(&["key", "import", "--no-passphrase", &secret]);
    let sign = ["sign", "--with", alice, "-o", "/dev/null", &document];
    let certify = ["certify", &home.rita, "--with", alice, "--yes"];
    for command in [&sign[..], &certify] {
        assert!(program.fails(command, 1).contains("revoked"), "{command:?}");
    }
    // The revocation has no reason, so it also invalidates earlier signatures.
    assert_eq!(verify(&program), Some(1));
    let output = home.run(&["--status-fd", "1", "--verify", &format!("{document}.sig"), &document]);
    assert!(String::from_utf8_lossy(&output.stdout).contains("REVKEYSIG"), "{output:?}");
    // The change log has the revocation.
    let log = program.ok(&["changes", "--since", token]);
    assert!(log.contains(alice.as_str()) && log.contains(&home.rita), "{log}");
    program.assert_clean();
    program.ok(&["check", "--rebuild"]);
    assert_eq!(letters(&listed(&program)), letters(&theirs));
    program.assert_clean();

    // Deleting Rita's certificate also removes the effect of the revocation.
    program.ok(&["delete", &home.rita]);
    assert!(letters(&listed(&program)).iter().all(|(_, letter)| letter == "-"));
    program.assert_clean();

    // In the other order, in one import, and in a build.
    let (later, together, built) = (Program::new(), Program::new(), Program::new());
    later.ok(&["import", &rita, &before]);
    assert!(letters(&listed(&later)).iter().all(|(_, letter)| letter == "-"));
    assert!(later.ok(&["show", alice]).contains("may be revoked by"));
    later.ok(&["import", &revoked]);
    together.ok(&["import", &revoked, &rita]);
    built.ok(&["build", &revoked, &rita]);
    for program in [&later, &together, &built] {
        assert_eq!(letters(&listed(program)), letters(&theirs));
        assert!(refuses(program).contains("revoked"));
        program.assert_clean();
    }
    home.stop();
}
