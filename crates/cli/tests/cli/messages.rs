//! Messages between talaria and other programs: gpg, and rnp and sq if they are
//! installed. The tests run the real programs in their own folders.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use crate::program::make_gnupg_home;

/// A folder with a GnuPG home, a key in it, and a store with that key's certificate.
struct Site {
    folder: tempfile::TempDir,
}

const PASSPHRASE: &str = "correct horse battery staple";

impl Site {
    fn new() -> Self {
        let folder = tempfile::Builder::new().prefix("m").tempdir().unwrap();
        let site = Self { folder };
        make_gnupg_home(&site.at("gpg"));
        fs::write(site.at("pw"), format!("{PASSPHRASE}\n")).unwrap();
        site
    }

    /// Gives the user a key, in gpg, in a file and in the store.
    fn with_key(self, algorithm: &str) -> Self {
        done(self.gpg().args(["--passphrase", "", "--quick-gen-key", "a@example.org", algorithm]));
        let fingerprint = self.fingerprint();
        let subkey = if algorithm == "rsa2048" { "rsa2048" } else { "cv25519" };
        let add = ["--passphrase", "", "--quick-add-key", &fingerprint, subkey, "encr"];
        done(self.gpg().args(add));
        done(self.gpg().arg("-o").arg(self.at("secret")).args(["--export-secret-keys"]));
        done(self.gpg().arg("-o").arg(self.at("public")).args(["--export"]));
        done(self.talaria().arg("import").arg(self.at("public")));
        self
    }

    fn fingerprint(&self) -> String {
        let listed = done(self.gpg().args(["--with-colons", "--list-keys"]));
        let listed = String::from_utf8(listed.stdout).unwrap();
        let line = listed.lines().find(|line| line.starts_with("fpr:")).unwrap();
        line.split(':').nth(9).unwrap().to_owned()
    }

    fn at(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn gpg(&self) -> Command {
        let mut command = Command::new("gpg");
        command.arg("--homedir").arg(self.at("gpg")).args([
            "--batch",
            "--yes",
            "--quiet",
            "--no-tty",
            "--pinentry-mode",
            "loopback",
            "--trust-model",
            "always",
        ]);
        command
    }

    fn talaria(&self) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_talaria"));
        command.env("TALARIA_STORE", self.at("store.db")).env("HOME", self.folder.path());
        command.env_remove("XDG_DATA_HOME").stdin(Stdio::null());
        command
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        let _ = Command::new("gpgconf")
            .arg("--homedir")
            .arg(self.at("gpg"))
            .args(["--kill", "all"])
            .status();
    }
}

/// Runs a command that must succeed.
fn done(command: &mut Command) -> Output {
    let output = command.output().unwrap();
    assert!(
        output.status.success(),
        "{command:?}: {}\n{}",
        output.status,
        String::from_utf8_lossy(&output.stderr)
    );
    output
}

/// Runs a command that must fail with a status, and returns its standard error.
fn fails(command: &mut Command, status: i32) -> String {
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(status), "{command:?}: {said}");
    said
}

fn is_there(program: &str) -> bool {
    talaria_needs::peer(program).is_some()
}

fn bytes(len: usize) -> Vec<u8> {
    (0..len).map(|at| u8::try_from(at * 131 % 251).unwrap()).collect()
}

/// Sizes around the ends of chunks of 256 KiB, minus the header of the literal packet.
fn sizes() -> Vec<usize> {
    let chunk = 256 << 10;
    vec![0, 1, 500, 100_000, chunk - 12, chunk - 11, chunk - 10, chunk, 2 * chunk - 11, 700_001]
}

#[test]
fn gpg_decrypts_passphrase_messages_of_talaria() {
    let site = Site::new();
    for profile in ["rfc4880", "librepgp"] {
        for size in sizes() {
            let plain = bytes(size);
            fs::write(site.at("in"), &plain).unwrap();
            let encrypt = || {
                let mut command = site.talaria();
                command.args(["encrypt", "--symmetric", "--profile", profile]);
                command.arg("--passphrase-file").arg(site.at("pw"));
                command
            };
            done(encrypt().args(["--overwrite", "-o"]).arg(site.at("sealed")).arg(site.at("in")));
            // The same through a pipe, where the length is unknown.
            let piped = done(encrypt().stdin(fs::File::open(site.at("in")).unwrap()));
            fs::write(site.at("piped"), piped.stdout).unwrap();
            for sealed in ["sealed", "piped"] {
                let opened =
                    done(site.gpg().args(["--passphrase", PASSPHRASE, "-d"]).arg(site.at(sealed)));
                assert!(opened.stdout == plain, "{profile} {size} {sealed}");
            }
        }
    }
}

#[test]
fn talaria_decrypts_passphrase_messages_of_gpg() {
    let site = Site::new();
    for (size, options) in [
        (0, &["-z", "0"][..]),
        (1, &[]),
        (100_000, &["--compress-algo", "zip"]),
        (100_000, &["--compress-algo", "zlib"]),
        (100_000, &["--compress-algo", "bzip2"]),
        (9_000_000, &["-z", "0"]),
        (100_000, &["--cipher-algo", "AES", "--armor"]),
        (100_000, &["--cipher-algo", "3DES"]),
        (100_000, &["--cipher-algo", "CAMELLIA256", "--s2k-mode", "0"]),
    ] {
        let plain = bytes(size);
        fs::write(site.at("in"), &plain).unwrap();
        let mut gpg = site.gpg();
        gpg.args(["--passphrase", PASSPHRASE, "-o"]);
        done(gpg.arg(site.at("sealed")).args(options).arg("-c").arg(site.at("in")));
        let mut decrypt = site.talaria();
        decrypt.arg("decrypt").arg("--passphrase-file").arg(site.at("pw"));
        let opened = done(decrypt.arg(site.at("sealed")));
        assert!(opened.stdout == plain, "{size} {options:?}");
    }
}

#[test]
fn gpg_and_talaria_decrypt_each_others_messages() {
    for algorithm in ["ed25519", "rsa2048"] {
        let site = Site::new().with_key(algorithm);
        let plain = bytes(300_000);
        fs::write(site.at("in"), &plain).unwrap();
        // To gpg, signed.
        let mut encrypt = site.talaria();
        encrypt.args(["encrypt", "--to", "a@example.org", "--sign-with", "a@example.org"]);
        encrypt.arg("--key-file").arg(site.at("secret")).arg("-o").arg(site.at("sealed"));
        done(encrypt.arg(site.at("in")));
        let mut gpg = site.gpg();
        let opened = done(gpg.args(["--status-fd", "2", "-d"]).arg(site.at("sealed")));
        assert!(opened.stdout == plain);
        let status = String::from_utf8_lossy(&opened.stderr).into_owned();
        assert!(status.contains("GOODSIG") && status.contains("DECRYPTION_OKAY"), "{status}");
        // gpg's keys list SHA2-512 first and SHA2-256, which costs half as much, among the others.
        let packets = done(site.gpg().arg("--list-packets").arg(site.at("sealed")));
        let packets = String::from_utf8_lossy(&packets.stdout).into_owned();
        assert!(packets.contains("sigclass 0x00, digest 8,"), "{packets}");
        // From gpg, signed.
        let mut gpg = site.gpg();
        gpg.args(["-r", "a@example.org", "-s", "-e", "-o"]).arg(site.at("sealed"));
        done(gpg.arg(site.at("in")));
        let mut decrypt = site.talaria();
        decrypt.args(["decrypt", "--status-fd", "2", "--key-file"]).arg(site.at("secret"));
        let opened = done(decrypt.arg(site.at("sealed")));
        assert!(opened.stdout == plain);
        let status = String::from_utf8_lossy(&opened.stderr).into_owned();
        for line in
            ["GOODSIG", "VALIDSIG", "DECRYPTION_OKAY", "DECRYPTION_INFO 2 9 0", "PLAINTEXT 62"]
        {
            assert!(status.contains(line), "{line} in {status}");
        }
        assert!(status.contains(&site.fingerprint()), "{status}");
    }
}

#[test]
fn gpg_and_talaria_verify_each_others_signatures() {
    for algorithm in ["ed25519", "rsa2048"] {
        let site = Site::new().with_key(algorithm);
        let text = "one line\n- with a dash \t\r\nFrom somebody\n\nand the last";
        fs::write(site.at("in"), text).unwrap();
        let sign = |options: &[&str]| {
            let mut command = site.talaria();
            command.args(["sign", "--with", "a@example.org"]).args(options);
            command.arg("--key-file").arg(site.at("secret"));
            command.args(["--overwrite", "-o"]).arg(site.at("out"));
            done(command.arg(site.at("in")));
        };
        for options in [&["--armor"][..], &[], &["--text"], &["--hash", "sha512"]] {
            sign(options);
            done(site.gpg().arg("--verify").arg(site.at("out")).arg(site.at("in")));
        }
        for options in [
            &["--inline"][..],
            &["--inline", "--compress", "zlib"],
            &["--inline", "--text"],
            &["--cleartext"],
        ] {
            sign(options);
            done(site.gpg().arg("--verify").arg(site.at("out")));
        }
        let verify = |signature: Option<&Path>, file: &Path| {
            let mut command = site.talaria();
            command.args(["verify", "--status-fd", "1"]);
            if let Some(signature) = signature {
                command.arg("--signature").arg(signature);
            }
            command.arg(file);
            command
        };
        let signed = |options: &[&str]| {
            let mut gpg = site.gpg();
            done(gpg.arg("-o").arg(site.at("out")).args(options).arg(site.at("in")));
        };
        for options in [&["-b"][..], &["-b", "--armor"], &["-b", "--textmode"]] {
            signed(options);
            let good = done(&mut verify(Some(&site.at("out")), &site.at("in")));
            assert!(String::from_utf8_lossy(&good.stdout).contains("[GNUPG:] GOODSIG"));
        }
        fs::write(site.at("other"), "something else").unwrap();
        let bad = verify(Some(&site.at("out")), &site.at("other")).output().unwrap();
        assert_eq!(bad.status.code(), Some(1));
        assert!(String::from_utf8_lossy(&bad.stdout).contains("[GNUPG:] BADSIG"));
        for options in [&["-s"][..], &["-s", "-z", "0"], &["-s", "--textmode"], &["--clearsign"]] {
            signed(options);
            done(&mut verify(None, &site.at("out")));
        }
        // Text is written with the line ends of this system, as by gpg.
        signed(&["-s", "--textmode"]);
        done(
            site.talaria()
                .args(["verify", "--overwrite", "-o"])
                .arg(site.at("shown"))
                .arg(site.at("out")),
        );
        assert_eq!(fs::read_to_string(site.at("shown")).unwrap(), text.replace("\r\n", "\n"));
        // An unknown key.
        let mut stranger = verify(None, &site.at("out"));
        done(
            site.talaria()
                .args(["import", "--quiet"])
                .arg(site.at("public"))
                .env("TALARIA_STORE", site.at("other.db")),
        );
        done(
            site.talaria()
                .args(["delete", "a@example.org"])
                .env("TALARIA_STORE", site.at("other.db")),
        );
        let unknown = stranger.env("TALARIA_STORE", site.at("other.db")).output().unwrap();
        assert_eq!(unknown.status.code(), Some(1));
        let status = String::from_utf8_lossy(&unknown.stdout).into_owned();
        assert!(status.contains("NO_PUBKEY") && status.contains("ERRSIG"), "{status}");
    }
}

#[test]
fn rnp_and_talaria_read_each_others_messages() {
    if !is_there("rnp") {
        return;
    }
    let site = Site::new();
    let rnp = || {
        let mut command = Command::new("rnp");
        command.arg("--homedir").arg(site.at("gpg")).args([
            "--overwrite",
            "--password",
            PASSPHRASE,
        ]);
        command
    };
    for size in sizes() {
        let plain = bytes(size);
        fs::write(site.at("in"), &plain).unwrap();
        for profile in ["rfc4880", "librepgp"] {
            // rnp 0.16 misses the MDC or the last tag if the literal packet ends at a multiple of
            // its buffer of 32 KiB; gpg reads the same message.
            if (size + 12) % 32_768 == 0 {
                continue;
            }
            let mut encrypt = site.talaria();
            encrypt.args(["encrypt", "--symmetric", "--profile", profile, "--passphrase-file"]);
            encrypt.arg(site.at("pw")).args(["--overwrite", "-o"]).arg(site.at("sealed"));
            done(encrypt.arg(site.at("in")));
            done(rnp().arg("-d").arg("--output").arg(site.at("out")).arg(site.at("sealed")));
            assert!(fs::read(site.at("out")).unwrap() == plain, "{profile} {size}");
        }
        for options in
            [&["--aead=OCB"][..], &["--aead=EAX"], &[], &["--aead=OCB", "--aead-chunk-bits=0"]]
        {
            done(
                rnp()
                    .args(["-c", "-z", "0"])
                    .args(options)
                    .arg("--output")
                    .arg(site.at("sealed"))
                    .arg(site.at("in")),
            );
            let mut decrypt = site.talaria();
            decrypt.arg("decrypt").arg("--passphrase-file").arg(site.at("pw"));
            let opened = done(decrypt.arg(site.at("sealed")));
            assert!(opened.stdout == plain, "{options:?} {size}");
        }
    }
}

#[test]
fn sq_and_talaria_read_each_others_messages() {
    if !is_there("sq") {
        return;
    }
    let site = Site::new().with_key("ed25519");
    let plain = bytes(300_000);
    fs::write(site.at("in"), &plain).unwrap();
    let mut encrypt = site.talaria();
    encrypt.args(["encrypt", "--to", "a@example.org", "-o"]).arg(site.at("sealed"));
    done(encrypt.arg(site.at("in")));
    let mut sq = Command::new("sq");
    sq.arg("decrypt").arg("--recipient-key").arg(site.at("secret")).arg(site.at("sealed"));
    let opened = sq.output().unwrap();
    assert!(opened.status.success() && opened.stdout == plain, "{opened:?}");
    let mut sq = Command::new("sq");
    sq.arg("encrypt").arg("--recipient-cert").arg(site.at("public"));
    done(sq.arg("-o").arg(site.at("by-sq")).arg(site.at("in")));
    let mut decrypt = site.talaria();
    decrypt.arg("decrypt").arg("--key-file").arg(site.at("secret"));
    assert!(done(decrypt.arg(site.at("by-sq"))).stdout == plain);
}

#[test]
fn failures_name_the_cause_and_leave_no_output() {
    let site = Site::new();
    let plain = bytes(600_000);
    fs::write(site.at("in"), &plain).unwrap();
    fs::write(site.at("wrong"), "not it\n").unwrap();
    for profile in ["rfc9580", "librepgp", "rfc4880"] {
        let mut encrypt = site.talaria();
        encrypt.args(["encrypt", "--symmetric", "--profile", profile, "--passphrase-file"]);
        encrypt.arg(site.at("pw")).args(["--overwrite", "-o"]).arg(site.at("sealed"));
        done(encrypt.arg(site.at("in")));
        let sealed = fs::read(site.at("sealed")).unwrap();
        let decrypt = |password: &str, from: &str| {
            let mut command = site.talaria();
            command.arg("decrypt").arg("--passphrase-file").arg(site.at(password));
            command.arg("-o").arg(site.at("plain")).arg(site.at(from));
            command
        };
        let left = || fs::read_dir(site.folder.path()).unwrap().count();
        let before = left();
        let said = fails(&mut decrypt("wrong", "sealed"), 1);
        assert!(said.contains("passphrase"), "{said}");
        let mut changed = sealed.clone();
        let middle = changed.len() / 2;
        changed[middle] ^= 1;
        fs::write(site.at("sealed"), &changed).unwrap();
        let said = fails(&mut decrypt("pw", "sealed"), 3);
        assert!(said.contains("was modified"), "{said}");
        fs::write(site.at("sealed"), &sealed[..sealed.len() - 100]).unwrap();
        fails(&mut decrypt("pw", "sealed"), 3);
        fs::write(site.at("sealed"), b"no message at all").unwrap();
        fails(&mut decrypt("pw", "sealed"), 3);
        assert_eq!(left(), before, "something is left behind");
        assert!(!site.at("plain").exists());
    }
    let said = fails(site.talaria().arg("encrypt").arg(site.at("in")), 2);
    assert!(said.contains("--to"), "{said}");
    fails(site.talaria().args(["decrypt"]).arg(site.at("missing")), 5);
}

#[test]
fn inspect_lists_the_parts_of_a_message() {
    let site = Site::new().with_key("ed25519");
    fs::write(site.at("in"), bytes(1000)).unwrap();
    let encrypt = |options: &[&str]| {
        let mut command = site.talaria();
        command.arg("encrypt").args(options).arg("--passphrase-file").arg(site.at("pw"));
        done(command.args(["--overwrite", "-o"]).arg(site.at("sealed")).arg(site.at("in")));
        let shown = done(site.talaria().args(["inspect", "--json"]).arg(site.at("sealed")));
        String::from_utf8(shown.stdout).unwrap()
    };
    let shown = encrypt(&["--symmetric", "--profile", "rfc9580"]);
    assert!(shown.contains(r#""aead":"GCM""#) && shown.contains(r#""version":6"#), "{shown}");
    let shown = encrypt(&["--to", "a@example.org", "--armor"]);
    assert!(shown.contains("recipient") && shown.contains(r#""type":18"#), "{shown}");
    fails(site.talaria().arg("inspect").arg(site.at("pw")), 3);
    done(site.gpg().arg("-o").arg(site.at("signed")).arg("--clearsign").arg(site.at("pw")));
    let shown = done(site.talaria().arg("inspect").arg(site.at("signed")));
    let shown = String::from_utf8(shown.stdout).unwrap();
    assert!(shown.contains("signed text") && shown.contains(&site.fingerprint()[24..]), "{shown}");
}

#[test]
fn gpg_unpacks_packed_messages() {
    let site = Site::new();
    let plain = bytes(100_000);
    fs::write(site.at("in"), &plain).unwrap();
    let packed = done(site.talaria().args(["pack", "--compress", "zlib", "9"]).arg(site.at("in")));
    fs::write(site.at("packed"), packed.stdout).unwrap();
    assert!(done(site.gpg().arg("-d").arg(site.at("packed"))).stdout == plain);
    // From standard input, armored.
    let mut child = site
        .talaria()
        .args(["pack", "--armor"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(&plain).unwrap();
    let packed = child.wait_with_output().unwrap();
    fs::write(site.at("packed"), packed.stdout).unwrap();
    assert!(done(site.gpg().arg("-d").arg(site.at("packed"))).stdout == plain);
}

#[test]
fn unpack_reads_packed_messages() {
    let site = Site::new().with_key("ed25519");
    let plain = bytes(100_000);
    fs::write(site.at("in"), &plain).unwrap();
    let unpack = |name: &str| {
        let output = done(site.talaria().arg("unpack").arg(site.at(name)));
        assert!(output.stdout == plain, "{name}");
        String::from_utf8(output.stderr).unwrap()
    };
    let mut pack = site.talaria();
    pack.args(["pack", "--armor", "--compress", "bzip2"]).arg("-o").arg(site.at("ours"));
    done(pack.arg(site.at("in")));
    done(site.gpg().arg("-o").arg(site.at("theirs")).arg("--store").arg(site.at("in")));
    done(site.gpg().arg("-o").arg(site.at("signed")).arg("--sign").arg(site.at("in")));
    assert_eq!(unpack("ours"), "");
    assert_eq!(unpack("theirs"), "");
    assert_eq!(unpack("signed"), "The message has a signature that was not checked.\n");
    let cut = fs::read(site.at("theirs")).unwrap();
    fs::write(site.at("cut"), &cut[..cut.len() / 2]).unwrap();
    let mut unpack = site.talaria();
    fails(unpack.arg("unpack").arg("-o").arg(site.at("out")).arg(site.at("cut")), 3);
    assert!(!site.at("out").exists());
}

#[test]
fn errors_name_the_kind_of_a_wrong_message() {
    let site = Site::new().with_key("ed25519");
    fs::write(site.at("in"), "text").unwrap();
    let run = |args: &[&str], name: &str| {
        done(
            site.gpg()
                .args(["--trust-model", "always"])
                .args(args)
                .arg("-o")
                .arg(site.at(name))
                .args(if args == ["--export"] || args == ["--export-secret-keys"] {
                    None
                } else {
                    Some(site.at("in"))
                }),
        );
    };
    run(&["--encrypt", "-r", "a@example.org"], "sealed");
    run(&["--compress-algo", "none", "--sign"], "signed");
    run(&["--store"], "packed");
    run(&["--detach-sign"], "signature");
    run(&["--export"], "certificate");
    run(&["--export-secret-keys"], "key");
    for (command, name, hint) in [
        ("verify", "sealed", "talaria decrypt "),
        ("unpack", "sealed", "talaria decrypt "),
        ("unpack", "certificate", "talaria import "),
        ("decrypt", "packed", "talaria unpack "),
        ("decrypt", "signature", "talaria verify "),
        ("verify", "signature", "talaria verify "),
        ("decrypt", "certificate", "talaria import "),
        ("verify", "certificate", "talaria import "),
        ("verify", "packed", "talaria unpack "),
        ("verify", "key", "talaria key import "),
    ] {
        let said = fails(site.talaria().arg(command).arg(site.at(name)), 3);
        assert!(said.contains(hint), "{command} {name}: {said}");
    }
    for (profile, mode) in [("rfc4880", "gcm"), ("rfc4880", "ocb"), ("librepgp", "gcm")] {
        let mut encrypt = site.talaria();
        encrypt.args(["encrypt", "--symmetric", "--profile", profile, "--aead", mode]);
        let said = fails(encrypt.arg("--passphrase-file").arg(site.at("pw")).arg(site.at("in")), 2);
        assert!(said.contains("--aead"), "{said}");
    }
}

#[test]
fn output_to_a_device_does_not_replace_it() {
    use std::os::unix::fs::FileTypeExt as _;
    let site = Site::new();
    fs::write(site.at("in"), "text").unwrap();
    done(Command::new("mkfifo").arg(site.at("pipe")));
    let mut reader =
        Command::new("cat").arg(site.at("pipe")).stdout(Stdio::piped()).spawn().unwrap();
    done(site.talaria().args(["pack", "-o"]).arg(site.at("pipe")).arg(site.at("in")));
    let mut packed = Vec::new();
    std::io::Read::read_to_end(&mut reader.stdout.take().unwrap(), &mut packed).unwrap();
    reader.wait().unwrap();
    assert!(packed.ends_with(b"text"), "{packed:?}");
    assert!(fs::metadata(site.at("pipe")).unwrap().file_type().is_fifo());
    let missing = site.at("missing/out");
    let said = fails(site.talaria().args(["pack", "-o"]).arg(&missing).arg(site.at("in")), 5);
    let wanted = format!("talaria: cannot write {}: No such file or directory", missing.display());
    assert!(said.starts_with(&wanted) && said.contains("mkdir -p"), "{said}");
}
