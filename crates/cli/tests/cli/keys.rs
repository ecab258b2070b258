//! The key store, and keys in GnuPG's agent, with the real programs.

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use crate::program::{Program, corpus, make_gnupg_home, prepared};

/// The passphrase of most keys here.
const PASSPHRASE: &str = "correct horse";
/// The creation time of most keys here, in seconds since 1970.
pub(crate) const THEN: u32 = 1_750_000_000;
pub(crate) const DAY: u32 = 86400;

/// The program with its own key store and GnuPG home.
pub(crate) struct User {
    pub(crate) program: Program,
}

impl User {
    pub(crate) fn new() -> Self {
        let user = Self { program: Program::new() };
        make_gnupg_home(&user.gnupg());
        user.write("pw", PASSPHRASE.as_bytes());
        user.write("other-pw", b"battery staple\n");
        user.write("plain", b"attack at dawn\n");
        user
    }

    pub(crate) fn keys(&self) -> PathBuf {
        self.program.path("keys")
    }

    pub(crate) fn gnupg(&self) -> PathBuf {
        self.program.path("g")
    }

    pub(crate) fn path(&self, name: &str) -> String {
        self.program.path(name).to_str().unwrap().to_owned()
    }

    pub(crate) fn write(&self, name: &str, content: &[u8]) -> String {
        fs::write(self.program.path(name), content).unwrap();
        self.path(name)
    }

    /// Runs talaria in the folder of the user, with these arguments.
    pub(crate) fn run(&self, words: &str) -> Output {
        self.run_with(&words.split(' ').collect::<Vec<_>>(), b"")
    }

    pub(crate) fn run_with(&self, args: &[&str], input: &[u8]) -> Output {
        let mut command = self.program.command(args);
        command.current_dir(self.program.path(""));
        command.env("GNUPGHOME", self.gnupg()).env_remove("GPG_TTY").stdin(Stdio::piped());
        let mut child = command.spawn().unwrap();
        // Not all commands read their input.
        let _ = child.stdin.take().unwrap().write_all(input);
        child.wait_with_output().unwrap()
    }

    /// Runs a command that must succeed, and returns its output.
    pub(crate) fn ok(&self, words: &str) -> String {
        let output = self.run(words);
        assert!(output.status.success(), "{words}: {output:?}");
        String::from_utf8(output.stdout).unwrap()
    }

    /// The same at the given time.
    pub(crate) fn ok_at(&self, time: u32, words: &str) -> String {
        self.ok(&format!("--faked-time {time} {words}"))
    }

    /// Runs a command that must fail with this exit status, and returns its standard error.
    pub(crate) fn fails(&self, words: &str, status: i32) -> String {
        let output = self.run(words);
        assert_eq!(output.status.code(), Some(status), "{words}: {output:?}");
        String::from_utf8(output.stderr).unwrap()
    }

    pub(crate) fn fails_at(&self, time: u32, words: &str, status: i32) -> String {
        self.fails(&format!("--faked-time {time} {words}"), status)
    }

    /// Makes a key for NAME@example.org and returns its fingerprint.
    pub(crate) fn generate(&self, name: &str, options: &str) -> String {
        let text = self.ok_at(THEN, &format!("key generate {name}@example.org --json {options}"));
        let json: serde_json::Value = serde_json::from_str(&text).unwrap();
        json["fingerprint"].as_str().unwrap().to_owned()
    }

    pub(crate) fn file_of(&self, fingerprint: &str) -> PathBuf {
        self.keys().join(format!("{fingerprint}.pgp"))
    }

    /// Runs gpg on the home of the user.
    pub(crate) fn gpg(&self, words: &str) -> Output {
        let mut command = Command::new("gpg");
        command.args(["--batch", "--pinentry-mode", "loopback", "--passphrase", PASSPHRASE]);
        command.args(words.split(' ')).current_dir(self.program.path(""));
        command.env("GNUPGHOME", self.gnupg()).stdin(Stdio::null()).output().unwrap()
    }

    pub(crate) fn gpg_ok(&self, words: &str) -> Vec<u8> {
        let output = self.gpg(words);
        assert!(output.status.success(), "{words}: {output:?}");
        output.stdout
    }
}

impl Drop for User {
    /// Stops the agent that was started in the home of the user, if any.
    fn drop(&mut self) {
        let mut command = Command::new("gpgconf");
        command.args(["--kill", "all"]).env("GNUPGHOME", self.gnupg());
        let _ = command.stderr(Stdio::null()).status();
    }
}

pub(crate) fn has_gpg() -> bool {
    talaria_needs::found(talaria_needs::peer("gpg"), "gpg").is_some()
}

/// The parts of new keys: files of keys, certificates in the store, their trust, and revocation
/// certificates. Other files are an error.
fn parts(user: &User) -> [usize; 4] {
    let listed = user.run("--json key list");
    assert!(listed.status.success(), "{listed:?}");
    let listed = String::from_utf8(listed.stdout).unwrap().lines().count();
    let names = |folder: &Path| -> Vec<String> {
        let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
        let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        names.filter(|name| name != "revocations").collect()
    };
    let files = names(&user.keys());
    let all_are = |names: &[String], extension: &str| {
        names.iter().all(|name| Path::new(name).extension().is_some_and(|end| end == extension))
    };
    assert!(all_are(&files, "pgp"), "{files:?}");
    assert_eq!(files.len(), listed);
    let revocations = names(&user.keys().join("revocations"));
    assert!(all_are(&revocations, "asc"), "{revocations:?}");
    let lines = |words: &str| String::from_utf8(user.run(words).stdout).unwrap();
    let certs = lines("--json list a@example.org").lines().count();
    let trust = lines("trust export-ownertrust");
    let trust = trust.lines().filter(|line| line.ends_with(":6:")).count();
    [listed, certs, trust, revocations.len()]
}

/// The steps on files that `key generate` takes are killed or fail, one at a time.
#[test]
fn a_key_is_generated_wholly_or_not_at_all() {
    if !Command::new("strace").args(["-o", "/dev/null", "true"]).status().is_ok_and(|s| s.success())
    {
        talaria_needs::left_out("strace that may trace");
        return;
    }
    let stride = talaria_needs::short_or_full(5, 1);
    let (mut nothing, mut all) = (0, 0);
    for fault in ["signal=KILL", "error=ENOSPC", "error=EIO"] {
        for step in (1..).step_by(stride) {
            let user = User::new();
            // The store is there before.
            user.program.ring("other.pgp", &corpus(1));
            user.ok("import other.pgp");
            let calls = "fsync,fdatasync,link,linkat,rename,renameat,renameat2,pwrite64,ftruncate";
            let inject = format!("inject={calls}:{fault}:when={step}");
            let trace = user.path("trace");
            let before = ["-f", "-o", &trace, "-e", &inject];
            let args = ["key", "generate", "--no-passphrase", "a@example.org"];
            let made = user.program.command_under("strace", &before, &args).output().unwrap();
            let trace = fs::read_to_string(trace).unwrap();
            let found = parts(&user);
            assert!(
                found == [0; 4] || found == [1; 4],
                "{fault} {step}: {found:?}\n{made:?}\n{trace}"
            );
            if made.status.success() {
                assert_eq!(found, [1; 4], "{fault} {step}: {made:?}");
                if !trace.contains("INJECTED") && !trace.contains("killed") {
                    break;
                }
            }
            *(if found == [0; 4] { &mut nothing } else { &mut all }) += 1;
        }
    }
    println!("{nothing} times nothing, {all} times all");
    assert!(nothing > 20 / stride && all > 3 / stride);
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

#[test]
fn a_new_key_decrypts_with_its_passphrase() {
    for profile in ["rfc4880", "rfc9580"] {
        let user = User::new();
        let options = format!("--passphrase-file pw --profile {profile}");
        let fingerprint = user.generate("alice", &options);
        assert_eq!(fingerprint.len(), if profile == "rfc4880" { 40 } else { 64 });
        user.ok_at(THEN, "encrypt plain --to alice@example.org -o message --overwrite");
        let plain = user.ok_at(THEN, "decrypt message --passphrase-file pw");
        assert_eq!(plain, "attack at dawn\n");
        let err = user.fails_at(THEN, "decrypt message --passphrase-file other-pw", 1);
        assert!(err.contains("the passphrase is wrong"), "{err}");
        let listed = user.ok_at(THEN, "key list --json alice");
        let json: serde_json::Value = serde_json::from_str(&listed).unwrap();
        assert_eq!(json["protected"], true);
        assert_eq!(json["secrets"].as_array().unwrap().len(), 3);
        assert_eq!(json["expires"], THEN + 3 * 365 * DAY);
        assert_eq!(json["path"], user.file_of(&fingerprint).to_str().unwrap());
        let certs = user.ok_at(THEN, "list --json");
        assert!(certs.contains(&fingerprint), "{certs}");
    }
}

#[test]
fn key_files_are_private_and_no_temporary_files_remain() {
    let user = User::new();
    let fingerprint = user.generate("alice", "--passphrase-file pw");
    assert_eq!(mode(&user.keys()), 0o700);
    assert_eq!(mode(&user.file_of(&fingerprint)), 0o600);
    let names: Vec<_> = fs::read_dir(user.keys()).unwrap().map(|e| e.unwrap().path()).collect();
    let revocations = user.keys().join("revocations");
    assert_eq!(mode(&revocations), 0o700);
    assert_eq!(mode(&revocations.join(format!("{fingerprint}.asc"))), 0o600);
    let names: Vec<_> = names.into_iter().filter(|name| *name != revocations).collect();
    assert_eq!(names, [user.file_of(&fingerprint)]);
    user.ok_at(THEN, "key export alice -o exported --overwrite");
    assert_eq!(mode(Path::new(&user.path("exported"))), 0o600);

    let readable = |path: &Path, mode| {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    };
    readable(&user.file_of(&fingerprint), 0o640);
    let err = user.fails("sign plain -o signature --overwrite", 4);
    assert!(err.contains(&format!("{fingerprint}.pgp can be read by others (mode 0640)")), "{err}");
    readable(&user.file_of(&fingerprint), 0o600);
    readable(&user.keys(), 0o755);
    let err = user.fails("key list", 4);
    assert!(err.contains("keys can be read by others (mode 0755)"), "{err}");
    readable(&user.keys(), 0o700);
    user.ok("key list");
    // A truncated key file, and a key file with the name of another key.
    let bytes = fs::read(user.file_of(&fingerprint)).unwrap();
    fs::write(user.file_of(&fingerprint), &bytes[..30]).unwrap();
    assert!(user.fails("key list", 4).contains("is damaged"));
    let other = user.file_of(&"A".repeat(40));
    fs::rename(user.file_of(&fingerprint), &other).unwrap();
    fs::write(&other, &bytes).unwrap();
    assert!(user.fails("key list", 4).contains("is damaged: it has the key"));
}

#[test]
fn a_key_without_a_passphrase_needs_the_option() {
    let user = User::new();
    user.write("empty", b"\n");
    let err = user.fails("key generate alice --passphrase-file empty", 2);
    assert!(err.contains("--no-passphrase"), "{err}");
    if fs::File::open("/dev/tty").is_err() {
        let err = user.fails("key generate alice", 2);
        assert!(err.contains("a passphrase is needed"), "{err}");
    }
    assert!(!user.keys().exists());
    user.generate("alice", "--no-passphrase");
    assert!(user.ok("key list").contains("NOT PROTECTED"));
    user.ok_at(THEN, "sign plain -o signature --overwrite");
}

#[test]
fn sign_uses_the_only_key_and_asks_which_of_several() {
    let user = User::new();
    assert!(user.fails("sign plain -o s --overwrite", 1).contains("no secret key that can sign"));
    let alice = user.generate("alice", "--passphrase-file pw");
    user.ok_at(THEN, "sign plain --passphrase-file pw -o s --overwrite");
    user.ok_at(THEN, "verify plain --signature s");
    user.generate("bob", "--passphrase-file pw --profile rfc9580");
    let err = user.fails_at(THEN, "sign plain --passphrase-file pw -o s --overwrite", 1);
    assert!(
        err.contains("2 keys that can sign")
            && err.contains(&alice)
            && err.contains("-u FINGERPRINT"),
        "{err}"
    );
    for name in ["alice", "bob", "alice@example.org", &alice, &alice[24..]] {
        user.ok_at(
            THEN,
            &format!("sign plain --with {name} --passphrase-file pw -o s --overwrite"),
        );
        user.ok_at(THEN, "verify plain --signature s");
    }
    let err = user.fails_at(
        THEN,
        "sign plain --with example.org --passphrase-file pw -o s --overwrite",
        1,
    );
    assert!(err.contains("ambiguous"), "{err}");
    let err =
        user.fails_at(THEN, "sign plain --with carol --passphrase-file pw -o s --overwrite", 1);
    assert!(err.contains("no secret key found"), "{err}");
    let err = user.fails_at(
        THEN,
        "sign plain --with alice --passphrase-file other-pw -o s --overwrite",
        1,
    );
    assert!(err.contains("the passphrase is wrong"), "{err}");
}

#[test]
fn after_a_change_only_the_new_passphrase_opens_the_keys() {
    for profile in ["rfc4880", "rfc9580"] {
        let user = User::new();
        user.generate("alice", &format!("--passphrase-file pw --profile {profile}"));
        user.ok_at(THEN, "encrypt plain --to alice@example.org -o message --overwrite");
        let change = "key passphrase alice --new-passphrase-file other-pw --passphrase-file";
        assert!(user.fails(&format!("{change} other-pw"), 1).contains("the passphrase is wrong"));
        user.ok(&format!("{change} pw"));
        user.fails_at(THEN, "decrypt message --passphrase-file pw", 1);
        user.fails_at(THEN, "sign plain --passphrase-file pw -o s --overwrite", 1);
        user.fails_at(THEN + DAY, "key expire alice never --passphrase-file pw", 1);
        user.ok_at(THEN, "decrypt message --passphrase-file other-pw");
        user.ok_at(THEN, "sign plain --passphrase-file other-pw -o s --overwrite");
        user.ok_at(THEN + DAY, "key expire alice never --passphrase-file other-pw");
        user.ok("key passphrase alice --passphrase-file other-pw --no-passphrase");
        user.ok_at(THEN, "decrypt message");
        user.ok("key passphrase alice --new-passphrase-file pw");
        user.fails_at(THEN, "decrypt message --passphrase-file other-pw", 1);
        user.ok_at(THEN, "decrypt message --passphrase-file pw");
    }
}

#[test]
fn passphrases_come_from_descriptors_and_the_environment() {
    let user = User::new();
    let words = |text: &'static str| text.split(' ').collect::<Vec<_>>();
    let generate = words("key generate alice --passphrase-fd 0");
    let output = user.run_with(&generate, b"from a pipe\nand more");
    assert!(output.status.success(), "{output:?}");
    let sign =
        user.run_with(&words("sign plain -o s --overwrite --passphrase-fd 0"), b"from a pipe");
    assert!(sign.status.success(), "{sign:?}");
    let mut command =
        user.program.command(&words("sign plain -o s --overwrite --passphrase-env SECRET"));
    command.current_dir(user.program.path(""));
    command.env("GNUPGHOME", user.gnupg()).env("SECRET", "from a pipe");
    assert!(command.status().unwrap().success());
}

#[test]
fn encrypt_refuses_an_expired_key_until_its_expiry_is_extended() {
    for profile in ["rfc4880", "rfc9580"] {
        let user = User::new();
        user.generate("alice", &format!("--passphrase-file pw --profile {profile} --expires 10d"));
        let encrypt = "encrypt plain --to alice@example.org -o message --overwrite";
        let sign = "sign plain --passphrase-file pw -o s --overwrite";
        user.ok_at(THEN + 9 * DAY, encrypt);
        user.fails_at(THEN + 11 * DAY, encrypt, 1);
        user.fails_at(THEN + 11 * DAY, sign, 1);
        // An expired key can be extended, too.
        user.ok_at(THEN + 12 * DAY, "key expire alice 10d --passphrase-file pw");
        user.ok_at(THEN + 13 * DAY, encrypt);
        user.ok_at(THEN + 13 * DAY, sign);
        user.ok_at(THEN + 13 * DAY, "verify plain --signature s");
        user.fails_at(THEN + 23 * DAY, encrypt, 1);
        user.ok_at(THEN + 24 * DAY, "key expire alice never --passphrase-file pw");
        user.ok_at(THEN + 9999 * DAY, encrypt);
        user.ok_at(THEN + 25 * DAY, "key expire alice now --passphrase-file pw");
        user.fails_at(THEN + 26 * DAY, encrypt, 1);
        user.ok_at(THEN + 26 * DAY, "decrypt message --passphrase-file pw");
        assert!(user.ok_at(THEN + 26 * DAY, "key list").contains("[expired"));
        // Of two changes within one second, the last one counts.
        user.ok_at(THEN + 27 * DAY, "key expire alice never --passphrase-file pw");
        user.ok_at(THEN + 27 * DAY, "key expire alice 30d --passphrase-file pw");
        user.ok_at(THEN + 28 * DAY, encrypt);
        user.fails_at(THEN + 58 * DAY, encrypt, 1);
    }
    let user = User::new();
    let err = user.fails("key generate alice --no-passphrase --expires 2001-01-01", 2);
    assert!(err.contains("must be after its creation date"), "{err}");
    user.generate("alice", "--no-passphrase");
    let err = user.fails_at(THEN, "key expire alice 2001-01-01", 3);
    assert!(err.contains("cannot change the key"), "{err}");
}

#[test]
fn a_revoked_key_is_unused_but_decrypts_old_messages() {
    for profile in ["rfc4880", "rfc9580"] {
        let user = User::new();
        let options = format!("--passphrase-file pw --profile {profile}");
        let fingerprint = user.generate("alice", &options);
        let encrypt = "encrypt plain --to alice@example.org -o message --overwrite";
        let sign = "sign plain --with alice --passphrase-file pw -o s --overwrite";
        user.ok_at(THEN, encrypt);
        let later = THEN + DAY;
        user.fails_at(later, "key revoke --yes alice --passphrase-file other-pw", 1);
        // A revocation written to a file changes nothing.
        user.ok_at(
            later,
            "key revoke --yes alice --passphrase-file pw --reason retired -o revocation --overwrite",
        );
        user.ok_at(later, encrypt);
        user.ok_at(
            later,
            "key revoke --yes alice --passphrase-file pw --reason superseded --message new",
        );
        let err = user.fails_at(later, encrypt, 1);
        assert!(err.contains("revoked"), "{err}");
        let err = user.fails_at(later, sign, 1);
        assert!(err.contains("revoked"), "{err}");
        user.ok_at(later, "decrypt message --passphrase-file pw");
        let listed = user.ok_at(later, &format!("key list {fingerprint} --json"));
        assert!(listed.contains(r#""validity":"revoked""#), "{listed}");
    }
}

#[test]
fn importing_an_old_revocation_revokes_the_key() {
    let user = User::new();
    user.generate("alice", "--passphrase-file pw --revocation revocation");
    assert_eq!(mode(Path::new(&user.path("revocation"))), 0o600);
    user.ok_at(THEN + DAY, "encrypt plain --to alice@example.org -o message --overwrite");
    let report = user.ok_at(THEN + DAY, "import revocation");
    assert!(report.contains("1 updated"), "{report}");
    user.fails_at(THEN + DAY, "encrypt plain --to alice@example.org -o message --overwrite", 1);
    // The key store does not have the revocation, but signing also reads the certificate store.
    let err = user.fails_at(
        THEN + DAY,
        "sign plain --with alice --passphrase-file pw -o s --overwrite",
        1,
    );
    assert!(err.contains("revoked"), "{err}");
}

#[test]
fn a_user_id_can_be_revoked_alone() {
    let user = User::new();
    let fingerprint = user.generate("alice", "bob@example.org --no-passphrase");
    let later = THEN + DAY;
    user.fails_at(later, "key revoke --yes alice --user-id carol", 1);
    // A part of a user ID is not enough for a step that cannot be undone.
    for part in ["example", "bob", "bob@example", "@example.org"] {
        let err = user.fails_at(later, &format!("key revoke --yes alice --user-id {part}"), 1);
        assert!(err.contains("is not the whole text of a user ID"), "{err}");
        assert!(err.contains("bob@example.org"), "{err}");
    }
    // The question shows the whole user ID, and that there is no way back.
    let words = "key revoke alice --user-id bob@example.org --reason retired";
    let err = user.fails_at(later, words, 2);
    let shown = format!("This revokes the user ID \"bob@example.org\" of {fingerprint}.");
    assert!(err.contains(&shown) && err.contains("A revocation cannot be undone."), "{err}");
    let words = words.replace("revoke", "revoke --yes");
    let output = user.run(&format!("--faked-time {later} {words}"));
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains("Revoked the user ID \"bob@example.org\" of"), "{said}");
    let listed = user.ok_at(later, "key list --json");
    let json: serde_json::Value = serde_json::from_str(&listed).unwrap();
    let ids = json["user_ids"].as_array().unwrap();
    let validity = |name: &str| {
        let id = ids.iter().find(|id| id["text"].as_str().unwrap().starts_with(name)).unwrap();
        id["validity"].as_str().unwrap().to_owned()
    };
    assert_eq!((validity("alice"), validity("bob")), ("valid".to_owned(), "revoked".to_owned()));
    user.ok_at(later, "encrypt plain --to alice@example.org -o message --overwrite");
    // The user ID stays revoked when the expiry date of the key changes.
    user.ok_at(later + DAY, "key expire alice 10d");
    assert_eq!(user.ok_at(later + DAY, "list").matches("[ revoked ]").count(), 1);
}

#[test]
fn concurrent_changes_of_a_key_are_all_kept() {
    let user = User::new();
    let names: Vec<String> = (0..8).map(|at| format!("name{at}@example.org")).collect();
    user.generate("alice", &format!("--no-passphrase {}", names.join(" ")));
    std::thread::scope(|scope| {
        for name in &names {
            let words = format!("key revoke --yes alice --user-id {name}");
            let user = &user;
            scope.spawn(move || user.ok_at(THEN + DAY, &words));
        }
    });
    for words in ["key list", "list"] {
        let listed = user.ok_at(THEN + DAY, words);
        assert_eq!(listed.matches("[ revoked ]").count(), names.len(), "{listed}");
    }
    user.program.assert_clean();
}

/// Changing a key keeps the parts of its certificate that only the store has.
#[test]
fn a_change_includes_user_ids_that_only_the_store_has() {
    if !has_gpg() {
        return;
    }
    let user = User::new();
    user.gpg_ok("--quick-gen-key zoe@example.org ed25519 sign,cert 1y");
    let own = User::new();
    own.write("key", &user.gpg_ok("--export-secret-keys zoe"));
    own.ok("key import key");
    user.gpg_ok("--quick-add-uid zoe zoe@example.net");
    own.write("cert", &user.gpg_ok("--export zoe"));
    own.ok("import cert");
    own.ok("key expire zoe 2035-01-01 --passphrase-file pw");
    own.ok("key revoke --yes zoe --user-id zoe@example.net --passphrase-file pw");
    for words in ["key list", "list"] {
        let listed = own.ok(words);
        assert!(listed.contains("[ revoked ] zoe@example.net"), "{listed}");
        assert!(listed.contains("[expires: 2035-01-01]"), "{listed}");
    }
}

#[test]
fn deleting_a_key_keeps_its_certificate() {
    let user = User::new();
    let fingerprint = user.generate("alice", "--no-passphrase");
    user.ok_at(THEN, "encrypt plain --to alice@example.org -o message --overwrite");
    assert!(user.fails("key delete alice", 2).contains("--yes"));
    assert!(user.file_of(&fingerprint).exists());
    user.ok("key delete alice --yes");
    assert!(!user.file_of(&fingerprint).exists());
    user.fails_at(THEN, "decrypt message", 1);
    user.fails("key delete alice --yes", 1);
    user.ok_at(THEN, "encrypt plain --to alice@example.org -o message --overwrite");
}

#[test]
fn key_export_and_import_lose_no_secrets() {
    let (user, other) = (User::new(), User::new());
    let fingerprint = user.generate("alice", "--passphrase-file pw");
    let armored = user.ok(&format!("key export {fingerprint} --armor"));
    assert!(armored.starts_with("-----BEGIN PGP PRIVATE KEY BLOCK-----"), "{armored}");
    other.write("key.asc", armored.as_bytes());
    assert_eq!(other.ok("key import key.asc"), format!("new: {fingerprint} alice@example.org\n"));
    assert!(other.ok("key import key.asc").starts_with("unchanged: "));
    let files = |user: &User| fs::read(user.file_of(&fingerprint)).unwrap();
    assert_eq!(files(&other), files(&user));
    // An existing key keeps its passphrase, whatever is imported.
    other.ok("key passphrase alice --passphrase-file pw --new-passphrase-file other-pw");
    let ours = files(&other);
    assert!(other.ok("key import key.asc").starts_with("unchanged: "));
    assert_eq!(files(&other), ours);
    // A key without a passphrase gets one.
    user.ok("key passphrase alice --passphrase-file pw --no-passphrase");
    let bare = user.run(&format!("key export {fingerprint}")).stdout;
    let third = User::new();
    third.write("key", &bare);
    if fs::File::open("/dev/tty").is_err() {
        third.fails("key import key", 2);
    }
    assert!(third.ok("--json key import key --passphrase-file pw").contains(r#""outcome":"new""#));
    third.fails_at(THEN, "sign plain --passphrase-file other-pw -o s --overwrite", 1);
    third.ok_at(THEN, "sign plain --passphrase-file pw -o s --overwrite");
    assert!(!third.ok("key list").contains("NOT PROTECTED"));
    // A certificate is not a secret key.
    third.ok("export -o cert --overwrite");
    assert!(third.fails("key import cert", 3).contains("no secret key in it"));
    third.fails("key export bob", 1);
}

#[test]
fn import_reads_secret_keys_of_gpg() {
    if !has_gpg() {
        return;
    }
    let user = User::new();
    user.gpg_ok("--quick-gen-key zoe@example.org rsa2048 sign,cert 1y");
    let listed = user.gpg_ok("--with-colons --list-keys zoe");
    let listed = String::from_utf8(listed).unwrap();
    let fingerprint = listed.lines().find_map(|line| line.strip_prefix("fpr:::::::::")).unwrap();
    let fingerprint = fingerprint.trim_end_matches(':');
    for subkey in
        ["rsa2048 encr", "cv25519 encr", "ed25519 sign", "nistp256/ecdsa sign", "nistp384 encr"]
    {
        user.gpg_ok(&format!("--quick-add-key {fingerprint} {subkey} 1y"));
    }
    let exported = user.gpg_ok("--armor --export-secret-keys zoe");
    let own = User::new();
    own.write("zoe.asc", &exported);
    own.ok("key import zoe.asc");
    own.ok("encrypt plain --to zoe@example.org -o message --overwrite");
    assert_eq!(own.ok("decrypt message --passphrase-file pw"), "attack at dawn\n");
    own.ok("sign plain --passphrase-file pw -o s --overwrite");
    own.ok("verify plain --signature s");
    // Its subkeys have their own expiry dates, which change as well, and gpg agrees.
    own.ok("key expire zoe 2035-01-01 --passphrase-file pw");
    let listed = own.ok("key list zoe");
    assert_eq!(listed.matches("[expires: 2035-01-01]").count(), 6, "{listed}");
    own.ok("export -o zoe.pgp --overwrite");
    user.gpg_ok(&format!("--import {}", own.path("zoe.pgp")));
    let theirs = String::from_utf8(user.gpg_ok("--list-keys zoe")).unwrap();
    assert_eq!(theirs.matches("[expires: 2035-01-01]").count(), 6, "{theirs}");
    user.gpg_ok(&format!("--verify {} plain", own.path("s")));
}

#[test]
fn gpg_imports_secret_keys_of_talaria() {
    if !has_gpg() {
        return;
    }
    let user = User::new();
    for (name, algorithm) in [("alice", "curve25519"), ("bob", "rsa3072")] {
        user.generate(name, &format!("--passphrase-file pw --algorithm {algorithm}"));
        user.ok(&format!("key export {name} -o exported --overwrite"));
        user.gpg_ok("--import exported");
        user.ok_at(THEN, &format!("encrypt plain --to {name}@example.org -o message --overwrite"));
        assert_eq!(user.gpg_ok("--decrypt message"), b"attack at dawn\n");
        user.gpg_ok(&format!("--yes -u {name} -o s --detach-sign plain"));
        user.ok("verify plain --signature s");
    }
}

/// gpg exports a stub if the secret of the primary key is kept offline.
#[test]
fn a_key_without_its_primary_secret_is_exported_and_imported() {
    if !has_gpg() {
        return;
    }
    let user = User::new();
    user.generate("alice", "--passphrase-file pw");
    user.ok("key export alice -o exported --overwrite");
    user.gpg_ok("--import exported");
    let subkeys = user.gpg_ok("--export-secret-subkeys alice");
    let own = User::new();
    own.write("subkeys", &subkeys);
    own.ok("key import subkeys");
    assert!(own.ok("key list").contains("secret parts: "));
    own.ok_at(THEN, "sign plain --passphrase-file pw -o s --overwrite");
    own.ok_at(THEN, "verify plain --signature s");
    let err = own.fails_at(THEN + DAY, "key expire alice never --passphrase-file pw", 1);
    assert!(err.contains("the secret key is missing"), "{err}");
    own.ok("key passphrase alice --passphrase-file pw --new-passphrase-file other-pw");
    let third = User::new();
    own.ok(&format!("key export alice -o {} --overwrite", third.path("exported")));
    third.write("pw", b"battery staple");
    third.gpg_ok("--import exported");
    let listed = String::from_utf8(third.gpg_ok("--list-secret-keys alice")).unwrap();
    assert!(listed.contains("sec#") && listed.contains("ssb "), "{listed}");
    // The primary secret comes back.
    own.ok(&format!("key import {}", user.path("exported")));
    own.ok_at(THEN + DAY, "key expire alice never --passphrase-file pw");
}

#[test]
fn keys_in_the_agent_sign_and_decrypt() {
    if !has_gpg() {
        return;
    }
    let user = User::new();
    for (name, primary, subkeys) in [
        ("zoe", "ed25519", "cv25519"),
        ("yan", "rsa2048", "rsa2048"),
        ("xia", "nistp256", "nistp384"),
    ] {
        user.gpg_ok(&format!("--quick-gen-key {name}@example.org {primary} sign,cert"));
        let listed = user.gpg_ok(&format!("--with-colons --list-keys {name}"));
        let listed = String::from_utf8(listed).unwrap();
        let fingerprint =
            listed.lines().find_map(|line| line.strip_prefix("fpr:::::::::")).unwrap();
        let fingerprint = fingerprint.trim_end_matches(':');
        user.gpg_ok(&format!("--quick-add-key {fingerprint} {subkeys} encr"));
        // A secret in the agent is unusable without its certificate in the store.
        let sign =
            format!("sign plain --gpg-agent --with {name} -o s --overwrite --passphrase-file");
        // The first import creates the store.
        if name != "zoe" {
            let err = user.fails(&format!("{sign} pw"), 1);
            assert!(err.contains("no secret key found"), "{err}");
        }
        fs::write(user.path("cert"), user.gpg_ok(&format!("--export {name}"))).unwrap();
        user.ok("import cert");
        user.ok(&format!("{sign} pw"));
        user.ok("verify plain --signature s");
        user.gpg_ok("--verify s plain");
        user.ok(&format!("encrypt plain --to {name}@example.org -o message --overwrite"));
        let decrypt = "decrypt message --gpg-agent --passphrase-file";
        assert_eq!(user.ok(&format!("{decrypt} pw")), "attack at dawn\n");
        // The agent caches passphrases; after a restart it needs the right one.
        let forget = || {
            let mut command = Command::new("gpg-connect-agent");
            command.args(["reloadagent", "/bye"]).env("GNUPGHOME", user.gnupg());
            assert!(command.output().unwrap().status.success());
        };
        forget();
        let err = user.fails(&format!("{sign} other-pw"), 1);
        assert!(err.contains("gpg-agent refuses: Bad passphrase"), "{err}");
        user.fails(&format!("{decrypt} other-pw"), 1);
        assert_eq!(
            user.ok(&format!("{decrypt} other-pw --passphrase-file pw")),
            "attack at dawn\n"
        );
        forget();
        user.ok(&format!("{sign} other-pw --passphrase-file pw"));
    }
    // The keys stay in the agent.
    assert!(user.ok("key list").starts_with("In gpg-agent"));
    assert!(!user.keys().exists());
    // An agent that is not running is started only with the option.
    let mut command = Command::new("gpgconf");
    command.args(["--kill", "gpg-agent"]).env("GNUPGHOME", user.gnupg());
    assert!(command.status().unwrap().success());
    user.fails("sign plain --with zoe -o s --overwrite --passphrase-file pw", 1);
    user.fails("decrypt message --passphrase-file pw", 1);
    user.ok("decrypt message --passphrase-file pw --gpg-agent");
    user.ok("sign plain --with zoe -o s --overwrite --passphrase-file pw --gpg-agent");
}

#[test]
fn a_listing_of_keys_asks_gnupg_only_where_there_is_one() {
    let root = tempfile::tempdir().unwrap();
    let home = prepared(root.path());
    // A gpgconf that counts how often it is asked.
    home.sh("mkdir bin && printf '#!/bin/sh\\necho asked >> \"$COUNT\"\\nexec %s \"$@\"\\n' \"$(command -v gpgconf || echo false)\" > bin/gpgconf");
    home.sh("chmod +x bin/gpgconf");
    let asked = |line: &str| {
        home.sh(&format!(": > count; COUNT=$PWD/count PATH=$PWD/bin:$PATH {line}"));
        fs::read_to_string(home.0.join("count")).unwrap().lines().count()
    };
    assert_eq!(asked("GNUPGHOME=$PWD/none talaria key list"), 0);
    assert_eq!(asked("talaria key list alice@example.org"), 1);
    home.sh("gpgconf --kill all || true");
}
