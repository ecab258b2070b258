//! Messages: large files, many small objects, many signatures, with gpg, rnp, sq and age beside
//! talaria.
//!
//! The reports on obnam's encrypted backup (2016) and on libdinemic (2018), repeated. Files are in
//! a folder in memory, so that no disk is measured. Everybody reads and writes a file,
//! authenticates what is encrypted, and stretches a passphrase once (age: wraps a key for a
//! recipient, since its passphrases are made to take a second; sq, too, since it asks for them on a
//! terminal only). Nobody syncs in that folder; talaria renames its output when it is complete.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, SystemTime};

use talaria_message::openpgp::Cert;
use talaria_message::openpgp::cert::{CertBuilder, CipherSuite};
use talaria_message::openpgp::crypto::Password;
use talaria_message::openpgp::serialize::MarshalInto as _;
use talaria_message::{
    EncryptOptions, Issuer, Opener, Recipients, Rules, Sealer, SigningKey, Verifier, lookup_in,
    signing_key,
};

use crate::error::BenchError;
use crate::measure::{Cost, ProgramRun, in_process, median, version};
use crate::results;
use crate::table::{Cell, Table};

/// Options of the measurement.
#[derive(Clone, Debug)]
pub struct MessagesOptions {
    /// Bytes of the large file.
    pub bytes: u64,
    /// Runs that alternate between all programs.
    pub runs: usize,
    /// Small objects.
    pub objects: usize,
    /// Signatures.
    pub signatures: usize,
    /// The talaria program.
    pub program: PathBuf,
    /// The versions of gpg to compare with; the first one for small objects and signatures, too.
    pub gpg: Vec<PathBuf>,
    /// A folder in memory.
    pub scratch: PathBuf,
    /// The folder for CSV files.
    pub results: Option<PathBuf>,
}

impl Default for MessagesOptions {
    fn default() -> Self {
        let memory = PathBuf::from("/dev/shm");
        Self {
            bytes: 1 << 30,
            runs: 7,
            objects: 20_000,
            signatures: 20_000,
            program: "talaria".into(),
            gpg: vec!["gpg".into()],
            scratch: if memory.is_dir() { memory } else { std::env::temp_dir() },
            results: None,
        }
    }
}

/// Measures and prints.
///
/// # Errors
///
/// When a program that is there fails, or a file cannot be written.
pub fn run(options: &MessagesOptions, out: &mut dyn Write) -> Result<Vec<Table>, BenchError> {
    let folder = tempfile::Builder::new()
        .prefix("m")
        .tempdir_in(&options.scratch)
        .map_err(BenchError::io("make a folder in", &options.scratch))?;
    let mut tables = Vec::new();
    for (name, table) in [
        ("messages-bulk", bulk(options, folder.path())?),
        ("messages-small", small(options, folder.path())?),
        ("messages-signatures", signatures(options, folder.path())?),
    ] {
        table.print(out).map_err(BenchError::Output)?;
        results::save(options.results.as_deref(), name, &table)?;
        tables.push(table);
    }
    Ok(tables)
}

/// gpg with its defaults: it compresses.
const DEFAULTS: &str = "defaults";

/// A gpg with a home of its own.
struct Gpg {
    program: PathBuf,
    home: PathBuf,
    /// Its name and version.
    name: String,
}

impl Gpg {
    /// The installed programs of `options`.
    fn all(options: &MessagesOptions, folder: &Path) -> Result<Vec<Self>, BenchError> {
        let mut found = Vec::new();
        for (number, program) in options.gpg.iter().enumerate() {
            let Some(name) = version(program) else { continue };
            let home = folder.join(format!("gnupg-{number}"));
            fs::create_dir_all(&home).map_err(BenchError::io("make", &home))?;
            private(&home)?;
            found.push(Self { program: program.clone(), home, name });
        }
        Ok(found)
    }

    fn run(&self) -> ProgramRun {
        let run = ProgramRun::new(&self.program).arg("--homedir").arg(&self.home);
        run.args(["--batch", "--yes", "--quiet", "--pinentry-mode", "loopback"])
    }

    /// Whether this gpg encrypts with OCB (packet type 20).
    fn has_ocb(&self) -> bool {
        !["gpg 1.", "gpg 2.0.", "gpg 2.1.", "gpg 2.2."].iter().any(|old| self.name.starts_with(old))
    }
}

/// One way to do something with the large file.
struct Way {
    name: String,
    run: ProgramRun,
    output: Option<PathBuf>,
    costs: Vec<Cost>,
}

fn is_there(program: &str) -> bool {
    Command::new(program).arg("--version").output().is_ok_and(|output| output.status.success())
}

fn write(path: &Path, bytes: &[u8]) -> Result<(), BenchError> {
    fs::write(path, bytes).map_err(BenchError::io("write", path))
}

fn bulk(options: &MessagesOptions, folder: &Path) -> Result<Table, BenchError> {
    let files = Bulk {
        options,
        folder,
        input: folder.join("input"),
        passphrase: folder.join("passphrase"),
    };
    write(&files.passphrase, b"correct horse battery staple\n")?;
    let mut noise = vec![0; usize::try_from(options.bytes).unwrap_or(usize::MAX)];
    for piece in noise.chunks_mut(1 << 20) {
        openssl::rand::rand_bytes(piece)
            .map_err(|_| BenchError::io("fill", &files.input)(std::io::ErrorKind::Other.into()))?;
    }
    write(&files.input, &noise)?;
    drop(noise);
    let mut ways = files.ours();
    ways.extend(files.of_gpg()?);
    ways.extend(files.of_others()?);
    for _ in 0..options.runs.max(1) {
        for way in &mut ways {
            // gpg's defaults take half a minute; once is enough.
            if way.name.ends_with(DEFAULTS) && !way.costs.is_empty() {
                continue;
            }
            way.costs.push(way.run.measure()?);
            if let Some(output) = &way.output {
                let _ = fs::remove_file(output);
            }
        }
    }
    Ok(bulk_table(options, ways))
}

/// The files of the measurement of one large file.
struct Bulk<'a> {
    options: &'a MessagesOptions,
    folder: &'a Path,
    input: PathBuf,
    passphrase: PathBuf,
}

impl Bulk<'_> {
    fn at(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    fn way(&self, name: &str, run: ProgramRun, output: Option<&str>) -> Way {
        let output = output.map(|output| self.at(output));
        Way { name: name.into(), run, output, costs: Vec::new() }
    }

    /// What talaria does, and cat beside it.
    fn ours(&self) -> Vec<Way> {
        let Self { options, input, passphrase, .. } = self;
        let talaria = |command: &str| {
            ProgramRun::new(&options.program).arg(command).arg("--passphrase-file").arg(passphrase)
        };
        let shell = |text: String| ProgramRun::new("sh").arg("-c").arg(text);
        let shown = |path: &Path| path.display().to_string();
        let encrypt = |profile: &[&str], output: &str| {
            talaria("encrypt")
                .args(["--symmetric", "--overwrite"])
                .args(profile)
                .arg("-o")
                .arg(self.at(output))
                .arg(input)
        };
        let decrypt = |from: &str| {
            let run = talaria("decrypt").args(["--quiet", "--overwrite", "-o"]);
            run.arg(self.at("plain")).arg(self.at(from))
        };
        let cat = shell(format!("cat {} > {}", shown(input), shown(&self.at("cat"))));
        let gcm = talaria("encrypt").args(["--symmetric", "--profile", "rfc9580"]).arg(input);
        let piped = shell(format!(
            "cat {} | {} encrypt --symmetric --profile rfc9580 --passphrase-file {} | cat",
            shown(input),
            shown(&options.program),
            shown(passphrase),
        ));
        let two = shell(format!("cat {} | cat", shown(input)));
        let three = shell(format!("cat {} | cat | cat", shown(input)));
        vec![
            self.way("cat", cat, Some("cat")),
            self.way("talaria, AES-256-GCM", encrypt(&["--profile", "rfc9580"], "gcm"), None),
            self.way(
                "talaria, OCB",
                encrypt(&["--profile", "rfc9580", "--aead", "ocb"], "ocb"),
                None,
            ),
            self.way("talaria, packet 20", encrypt(&["--profile", "librepgp"], "koch"), None),
            self.way("talaria, CFB", encrypt(&["--profile", "rfc4880"], "cfb"), None),
            self.way("talaria, decrypt GCM", decrypt("gcm"), Some("plain")),
            self.way("talaria, decrypt OCB", decrypt("ocb"), Some("plain")),
            self.way("talaria, decrypt CFB", decrypt("cfb"), Some("plain")),
            self.way("talaria, GCM to a sink", gcm, None),
            self.way(
                "talaria, GCM from file to a sink, decrypt",
                talaria("decrypt").arg(self.at("gcm")),
                None,
            ),
            self.way("cat | cat to a sink", two, None),
            self.way("cat | talaria, GCM to a sink", piped, None),
            self.way("cat | cat | cat to a sink", three, None),
        ]
    }

    fn of_gpg(&self) -> Result<Vec<Way>, BenchError> {
        let mut ways = Vec::new();
        for (number, gpg) in Gpg::all(self.options, self.folder)?.into_iter().enumerate() {
            let into = |name: &str| {
                let run = gpg.run().arg("--passphrase-file").arg(&self.passphrase);
                run.arg("-o").arg(self.at(name))
            };
            let [plain, cfb, ocb, zip] =
                ["plain", "cfb", "ocb", "zip"].map(|what| format!("gpg-{number}-{what}"));
            let encrypt =
                |name: &str, how: &[&str]| into(name).args(how).arg("-c").arg(&self.input);
            let decrypt = |name: &str| into(&plain).arg("-d").arg(self.at(name));
            let mut add = |what: &str, run: ProgramRun, output: Option<&str>| {
                ways.push(self.way(&format!("{}, {what}", gpg.name), run, output));
            };
            add("CFB, no compression", encrypt(&cfb, &["-z", "0"]), None);
            add("decrypt CFB", decrypt(&cfb), Some(&plain));
            if gpg.has_ocb() {
                add("OCB, no compression", encrypt(&ocb, &["-z", "0", "--force-ocb"]), None);
                add("decrypt OCB", decrypt(&ocb), Some(&plain));
            }
            add(DEFAULTS, encrypt(&zip, &[]), Some(&zip));
        }
        Ok(ways)
    }

    /// What rnp, age and sq do, where they are installed.
    fn of_others(&self) -> Result<Vec<Way>, BenchError> {
        let mut ways = Vec::new();
        if is_there("rnp") {
            let rnp_home = self.at("rnp-home");
            fs::create_dir_all(&rnp_home).map_err(BenchError::io("make", &rnp_home))?;
            private(&rnp_home)?;
            let rnp = ProgramRun::new("rnp").arg("--homedir").arg(&rnp_home).args([
                "--overwrite",
                "-c",
                "-z",
                "0",
                "--aead=OCB",
                "--cipher",
                "AES256",
                "--password",
                "correct horse battery staple",
            ]);
            let run = rnp.arg("--output").arg(self.at("rnp")).arg(&self.input);
            ways.push(self.way("rnp, packet 20", run, Some("rnp")));
        }
        if is_there("age") {
            let identity = self.at("age.key");
            let made = Command::new("age-keygen").arg("-o").arg(&identity).output();
            let recipient = fs::read_to_string(&identity).unwrap_or_default();
            let recipient = recipient.lines().find_map(|line| line.strip_prefix("# public key: "));
            if let (Ok(_), Some(recipient)) = (made, recipient) {
                let age = ProgramRun::new("age").args(["-r", recipient, "-o"]).arg(self.at("age"));
                ways.push(self.way("age", age.arg(&self.input), Some("age")));
            }
        }
        if let Some(sq) = version(Path::new("sq")) {
            let cert = self.at("sq.cert");
            let bytes = certificate()?
                .to_vec()
                .map_err(|error| BenchError::io("write", &cert)(std::io::Error::other(error)))?;
            write(&cert, &bytes)?;
            let run = ProgramRun::new("sq").args(["encrypt", "--binary", "--compression", "none"]);
            let run = run.arg("--recipient-cert").arg(&cert).arg("-o").arg(self.at("sq"));
            ways.push(self.way(&format!("{sq}, CFB"), run.arg(&self.input), Some("sq")));
        }
        Ok(ways)
    }
}

fn bulk_table(options: &MessagesOptions, ways: Vec<Way>) -> Table {
    let mut table = Table::new(
        "One large file (obnam, 2016)",
        &["", "wall s median", "wall s least", "CPU s median", "MB/s at best", "peak MB"],
    );
    let megabytes = number(options.bytes) / 1e6;
    table.note(format!(
        "{megabytes:.0} MB that do not compress, from and to files in memory unless a sink (/dev/null) is \
         said; runs alternate. talaria stretches the passphrase with Argon2id (3 passes over 64 MiB) for GCM and \
         OCB; for packet 20 and CFB, as gpg, with SHA2-256 over 65,011,712 bytes (rnp: what its defaults \
         take)."
    ));
    for way in ways {
        let middle = median(&way.costs);
        let least = way.costs.iter().map(|cost| cost.wall_s).fold(f64::INFINITY, f64::min);
        table.push(vec![
            way.name.into(),
            middle.wall_s.into(),
            least.into(),
            middle.cpu_s().into(),
            (megabytes / least).into(),
            (number(middle.peak_bytes) / 1e6).into(),
        ]);
    }
    table
}

/// gpg wants its folder to be the user's only.
pub(crate) fn private(folder: &Path) -> Result<(), BenchError> {
    use std::os::unix::fs::PermissionsExt as _;
    let mode = fs::Permissions::from_mode(0o700);
    fs::set_permissions(folder, mode).map_err(BenchError::io("change", folder))
}

#[expect(clippy::cast_precision_loss, reason = "counts are small")]
fn number(count: u64) -> f64 {
    count as f64
}

/// A row of `count` operations that cost `cost`.
fn row(name: &str, count: usize, cost: Cost) -> Vec<Cell> {
    let count = number(count as u64);
    vec![
        name.into(),
        (1e6 * cost.wall_s / count).into(),
        (1e6 * cost.cpu_s() / count).into(),
        (count / cost.cpu_s()).into(),
    ]
}

const COLUMNS: [&str; 4] = ["", "wall us each", "CPU us each", "per CPU s"];

/// Runs of gpg, which cost ten thousand times more.
const GPG_RUNS: usize = 20;

fn small(options: &MessagesOptions, folder: &Path) -> Result<Table, BenchError> {
    let object = vec![0x5a; 4096];
    let failed = |error: talaria_message::MessageError| {
        BenchError::io("use", Path::new("a message"))(std::io::Error::other(error))
    };
    let password = || Password::from("correct horse battery staple");
    let mut recipients = Recipients::default();
    recipients.add_password(password());
    let mut table = Table::new("Objects of 4 KiB under a passphrase (obnam, 2016)", &COLUMNS);
    table.note(
        "talaria: in this process, one thread; a Sealer stretches (Argon2id, 3 passes over 64 MiB) and wraps \
         once, an Opener when it opens the first. Each object is a complete message with a salt of its own. \
         gpg: one process for each object, SHA2-256 over 65,011,712 bytes.",
    );
    let (sealer, made) = in_process(|| Sealer::new(&recipients, EncryptOptions::default()));
    let sealer = sealer.map_err(failed)?;
    table.push(row("talaria, making a Sealer", 1, made));
    let mut sealed = Vec::with_capacity(options.objects);
    let (done, cost) = in_process(|| {
        for _ in 0..options.objects {
            sealed.push(sealer.seal(&object)?);
        }
        Ok(())
    });
    done.map_err(failed)?;
    table.push(row("talaria, seal", options.objects, cost));
    let verifier = Verifier::new(Box::new(|_: &Issuer| Vec::new()), Rules::default(), crate::now());
    let mut opener = Opener::new(Vec::new(), vec![password()]);
    let mut sealed = sealed.iter();
    let (first, cost) = in_process(|| sealed.next().map(|first| opener.open(first, &verifier)));
    first.transpose().map_err(failed)?;
    table.push(row("talaria, opening the first", 1, cost));
    let rest = sealed.len();
    let (done, cost) = in_process(|| {
        for message in sealed {
            let (plain, _) = opener.open(message, &verifier)?;
            assert_eq!(plain, object, "an object came back changed");
        }
        Ok(())
    });
    done.map_err(failed)?;
    table.push(row("talaria, opening each of the others", rest.max(1), cost));
    if let Some(gpg) = Gpg::all(options, folder)?.first() {
        let at = |name: &str| folder.join(name);
        write(&at("object"), &object)?;
        let run = gpg.run().arg("--passphrase-file").arg(at("passphrase"));
        let run = run.arg("-o").arg(at("object.gpg")).args(["-z", "0", "-c"]).arg(at("object"));
        table.push(row(&format!("{}, one process each", gpg.name), 1, run.median(GPG_RUNS)?));
    }
    Ok(table)
}

/// A certificate with its secret keys, an hour old.
fn certificate() -> Result<Cert, BenchError> {
    let made = SystemTime::UNIX_EPOCH + Duration::from_secs(u64::from(crate::now()) - 3600);
    let (cert, _) = CertBuilder::general_purpose(Some("<bench@example.org>"))
        .set_cipher_suite(CipherSuite::Cv25519)
        .set_creation_time(made)
        .generate()
        .map_err(|error| {
            BenchError::io("make", Path::new("a key"))(std::io::Error::other(error))
        })?;
    Ok(cert)
}

fn signatures(options: &MessagesOptions, folder: &Path) -> Result<Table, BenchError> {
    let now = crate::now();
    let failed = |error: talaria_message::MessageError| {
        BenchError::io("use", Path::new("a signature"))(std::io::Error::other(error))
    };
    let cert = certificate()?;
    let mut key: SigningKey =
        signing_key(&cert, Rules::default(), now, &mut |_, _| None).map_err(failed)?;
    let documents: Vec<Vec<u8>> =
        (0..options.signatures).map(|at| format!("{at:0100}").into_bytes()).collect();
    let mut table =
        Table::new("Detached Ed25519 signatures of 100 bytes (libdinemic, 2018)", &COLUMNS);
    table.note(
        "talaria: in this process; one thread, but for sign_many and verify_many, which use all cores. Every signature \
         is another one, verified once: nothing comes from a cache but the certificate. gpg: one process \
         for each, its agent not counted.",
    );
    let mut signed = Vec::with_capacity(documents.len());
    let (done, cost) = in_process(|| {
        for document in &documents {
            signed.push(key.sign(document, now)?);
        }
        Ok(())
    });
    done.map_err(failed)?;
    table.push(row("talaria, sign", documents.len(), cost));
    let (many, cost) = in_process(|| key.sign_many(&documents, now));
    let many = many.map_err(failed)?;
    assert_eq!(many, signed, "signatures with Ed25519 are the same each time");
    table.push(row("talaria, sign_many", documents.len(), cost));
    let lookup = |cert: &talaria_message::openpgp::Cert| {
        Verifier::new(lookup_in([cert.clone()]), Rules::default(), now)
    };
    let verifier = lookup(&cert);
    let (good, cost) = in_process(|| {
        let pairs = signed.iter().zip(&documents);
        pairs.filter(|(signature, document)| verifier.one(signature, document).is_good()).count()
    });
    assert_eq!(good, documents.len(), "a good signature was not found good");
    table.push(row("talaria, verify", documents.len(), cost));
    let verifier = lookup(&cert);
    let pairs: Vec<(&[u8], &[u8])> =
        signed.iter().zip(&documents).map(|(s, d)| (s.as_slice(), d.as_slice())).collect();
    let (reports, cost) = in_process(|| verifier.many(&pairs));
    assert!(reports.iter().all(talaria_message::SignatureReport::is_good));
    table.push(row("talaria, verify_many", documents.len(), cost));
    // A batch in which one is bad costs a second pass over it.
    let mut spoiled = pairs.clone();
    for place in (0..spoiled.len()).step_by(2000) {
        spoiled[place].1 = b"another document";
    }
    let verifier = lookup(&cert);
    let (reports, cost) = in_process(|| verifier.many(&spoiled));
    let bad = reports.iter().filter(|report| !report.is_good()).count();
    assert_eq!(bad, spoiled.len().div_ceil(2000), "exactly the spoiled ones are bad");
    table.push(row("talaria, verify_many, one of 2,000 bad", documents.len(), cost));
    if let Some(gpg) = Gpg::all(options, folder)?.first() {
        let at = |name: &str| folder.join(name);
        let base = || gpg.run().args(["--trust-model", "always", "--passphrase", ""]);
        base().args(["--quick-gen-key", "bench2@example.org", "ed25519"]).measure()?;
        write(&at("document"), &documents[0])?;
        let sign = base().arg("-o").arg(at("document.sig")).arg("-b").arg(at("document"));
        table.push(row(&format!("{} sign, one process each", gpg.name), 1, sign.median(GPG_RUNS)?));
        let verify = base().arg("--verify").arg(at("document.sig")).arg(at("document"));
        table.push(row(
            &format!("{} verify, one process each", gpg.name),
            1,
            verify.median(GPG_RUNS)?,
        ));
        let _ = Command::new("gpgconf")
            .arg("--homedir")
            .arg(&gpg.home)
            .args(["--kill", "all"])
            .status();
    }
    Ok(table)
}
