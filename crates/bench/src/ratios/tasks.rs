//! The tasks that talaria and a peer do in turns, each in a tenth of a minute, and the commands
//! whose memory is looked at.

use std::fs;
use std::path::{Path, PathBuf};

use super::options::{RatiosOptions, is_in_memory};
use crate::backup::many_files;
use crate::error::BenchError;
use crate::keyserver::sks::{self, Sks};
use crate::log::Pair;
use crate::measure::{Cost, ProgramRun, version};
use crate::{keydb, lookups};
use talaria_corpus::{Generate, generate_files};

/// Bytes of the messages.
const MESSAGE: usize = 64 << 20;

/// Certificates that are imported: gpg takes a minute for those of Debian.
const IMPORTED: usize = 60;

/// Files that are backed up.
const FILES: usize = 4000;

/// Certificates of the dump from which keyservers are built.
const DUMP: u64 = 5000;

/// Certificates of the long listing.
const LISTED: u64 = 1000;

/// Updates of the log.
const UPDATES: usize = 1000;

/// Work that costs something, and whose result was looked at.
pub(super) type Work<'a> = Box<dyn FnMut() -> Result<Cost, BenchError> + 'a>;

/// A task of talaria, and the same task of a peer.
pub(super) struct Task<'a> {
    pub(super) name: &'static str,
    pub(super) beside: Beside<'a>,
}

pub(super) enum Beside<'a> {
    Peer {
        name: String,
        ours: Work<'a>,
        theirs: Work<'a>,
    },
    /// What is not there.
    Missing(&'static str),
}

/// A command of talaria whose memory is looked at.
pub(super) struct Memory<'a> {
    pub(super) name: &'static str,
    pub(super) run: Work<'a>,
}

/// What the tasks begin with: keys, keyrings, messages, stores.
pub(super) struct Place {
    program: PathBuf,
    folder: PathBuf,
    keyring: PathBuf,
    /// The first certificates of the keyring.
    ring: PathBuf,
    /// The fingerprint of a certificate in the middle of the keyring.
    fingerprint: String,
    input: PathBuf,
    dump: Vec<PathBuf>,
    gpg: Option<String>,
    age: Option<(String, String)>,
}

/// The user ID of the key that gpg makes.
const ALICE: &str = "alice@example.org";

impl Place {
    fn at(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// talaria with nothing of the user's.
    fn talaria(&self) -> ProgramRun {
        ProgramRun::new(&self.program)
            .env("HOME", &self.folder)
            .env("XDG_DATA_HOME", self.at("data"))
            .env("TALARIA_CONFIG", "")
            .arg("--quiet")
    }

    /// talaria with a store of this name.
    fn with_store(&self, store: &str) -> ProgramRun {
        self.talaria().arg("--store").arg(self.at(store))
    }

    /// gpg with a home of this name, without an agent being started for nothing.
    fn gpg(&self, home: &str) -> ProgramRun {
        ProgramRun::new("gpg")
            .args(["--batch", "--yes", "--quiet", "--no-auto-check-trustdb", "--homedir"])
            .arg(self.at(home))
            .args(["--trust-model", "always", "--pinentry-mode", "loopback", "--passphrase", ""])
    }

    fn beside_gpg<'a>(&self, name: &'static str, ours: Work<'a>, theirs: Work<'a>) -> Task<'a> {
        let beside = match &self.gpg {
            Some(gpg) => Beside::Peer { name: gpg.clone(), ours, theirs },
            None => Beside::Missing("gpg"),
        };
        Task { name, beside }
    }

    /// Work whose output in the file `output` must be the message, and goes.
    fn gives_back<'a>(&'a self, run: ProgramRun, output: &'static str) -> Work<'a> {
        let mut is_known = false;
        Box::new(move || {
            let cost = run.measure()?;
            let path = self.at(output);
            if !is_known {
                let read = |path: &Path| fs::read(path).map_err(BenchError::io("read", path));
                if read(&path)? != read(&self.input)? {
                    return Err(BenchError::Restored { program: run.command() });
                }
                is_known = true;
            }
            remove(&path)?;
            Ok(cost)
        })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut end = std::process::Command::new("gpgconf");
        let _ = end.arg("--homedir").arg(self.at("g")).args(["--kill", "all"]).output();
    }
}

/// Runs it once.
fn once<'a>(run: ProgramRun) -> Work<'a> {
    Box::new(move || run.measure())
}

/// Runs it so many times: short work is lost in the noise.
fn times<'a>(count: usize, run: ProgramRun) -> Work<'a> {
    Box::new(move || {
        let mut sum = Cost::default();
        for _ in 0..count {
            let cost = run.measure()?;
            sum.add(cost);
        }
        Ok(sum)
    })
}

/// Runs it so many times, and gives what one run costs on average: beside a peer that takes a
/// hundred times as long, one run is lost in the noise.
fn mean_of<'a>(count: usize, run: ProgramRun) -> Work<'a> {
    let mut all = times(count, run);
    Box::new(move || {
        let mut cost = all()?;
        #[expect(clippy::cast_precision_loss, reason = "a few runs")]
        let count = count as f64;
        for seconds in [&mut cost.wall_s, &mut cost.user_s, &mut cost.system_s] {
            *seconds /= count;
        }
        Ok(cost)
    })
}

/// Runs it where nothing of these names is.
fn anew<'a>(paths: Vec<PathBuf>, run: ProgramRun) -> Work<'a> {
    Box::new(move || {
        paths.iter().try_for_each(|path| remove(path))?;
        run.measure()
    })
}

/// Removes a file, or a folder with its contents, if it is there.
fn remove(path: &Path) -> Result<(), BenchError> {
    let result = if path.is_dir() { fs::remove_dir_all(path) } else { fs::remove_file(path) };
    match result {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(BenchError::io("remove", path)(error))
        }
        _ => Ok(()),
    }
}

/// A shell that has `run` between two pipes.
fn in_pipes(input: &Path, run: &ProgramRun) -> ProgramRun {
    run.in_shell(&format!("cat {} | ", input.display()), " | cat")
}

/// Makes keys, keyrings, messages and stores.
pub(super) fn prepare(options: &RatiosOptions, folder: &Path) -> Result<Place, BenchError> {
    let certs = lookups::read(&options.keyring, None)?;
    let ring = keydb::ring(&folder.join("ring.pgp"), &certs[..certs.len().min(IMPORTED)])?;
    let middle = certs.get(certs.len() / 2);
    let middle = middle.ok_or_else(|| BenchError::Empty { path: options.keyring.clone() })?;
    let prefix = folder.join("dump");
    let dump = generate_files(&Generate { count: DUMP, ..Generate::default() }, &prefix, 1)
        .map_err(BenchError::io("write", &prefix))?;
    let place = Place {
        program: options.program.clone(),
        folder: folder.to_owned(),
        keyring: options.keyring.clone(),
        ring,
        fingerprint: middle.fingerprint().to_string(),
        input: folder.join("input"),
        dump,
        gpg: version(Path::new("gpg")),
        age: version(Path::new("age"))
            .map(|number| format!("age {number}"))
            .zip(age_recipient(&folder.join("age.key"))),
    };
    let mut noise = vec![0; MESSAGE];
    for piece in noise.chunks_mut(1 << 20) {
        openssl::rand::rand_bytes(piece).map_err(|_| BenchError::Prepare {
            what: "a message".into(),
            why: "no random numbers".into(),
        })?;
    }
    fs::write(&place.input, &noise).map_err(BenchError::io("write", &place.input))?;
    place.with_store("debian.db").arg("import").arg(&place.keyring).measure()?;
    let prefix = folder.join("listed");
    let listed = generate_files(&Generate { count: LISTED, ..Generate::default() }, &prefix, 1)
        .map_err(BenchError::io("write", &prefix))?;
    place.with_store("many.db").arg("build").args(&listed).measure()?;
    let generate = place.with_store("own.db").args(["key", "generate", "--no-passphrase"]);
    generate.args(["--profile", "rfc9580", "Bob <bob@example.org>"]).measure()?;
    let sign = place.with_store("own.db").args(["sign", "--with", "bob@example.org", "--output"]);
    sign.arg(place.at("bob.sig")).arg(&place.input).measure()?;
    if place.gpg.is_some() {
        keys_of_gpg(&place)?;
    }
    Ok(place)
}

/// The key that gpg makes, and talaria takes; the keyrings in both; and a message of each kind.
fn keys_of_gpg(place: &Place) -> Result<(), BenchError> {
    for home in ["g", "d", "m"] {
        let path = place.at(home);
        fs::create_dir_all(&path).map_err(BenchError::io("make", &path))?;
        crate::messages::private(&path)?;
    }
    for (store, home) in [("debian.db", "d"), ("many.db", "m")] {
        place.with_store(store).args(["export", "--to-gnupg"]).arg(place.at(home)).measure()?;
    }
    let generate = place.gpg("g").args(["--quick-generate-key", ALICE, "default", "default"]);
    generate.arg("never").measure()?;
    let secret = place.at("alice.pgp");
    let export = place.gpg("g").arg("--output").arg(&secret).arg("--export-secret-keys");
    export.measure()?;
    let import = place.with_store("own.db").args(["key", "import", "--no-passphrase"]);
    import.arg(&secret).measure()?;
    let sealed = place.gpg("g").args(["-z", "0", "--output"]).arg(place.at("sealed"));
    sealed.args(["--sign", "--encrypt", "--recipient", ALICE]).arg(&place.input).measure()?;
    let signature = place.gpg("g").arg("--output").arg(place.at("input.sig"));
    signature.arg("--detach-sign").arg(&place.input).measure().map(drop)
}

/// Makes a key of age and gives the recipient.
fn age_recipient(identity: &Path) -> Option<String> {
    let mut make = std::process::Command::new("age-keygen");
    make.arg("-o").arg(identity).output().ok()?;
    let text = fs::read_to_string(identity).ok()?;
    let key = text.lines().find_map(|line| line.strip_prefix("# public key: "))?;
    Some(key.trim().to_owned())
}

/// All tasks.
pub(super) fn all(place: &Place) -> Result<Vec<Task<'_>>, BenchError> {
    let mut tasks = certificates(place);
    tasks.extend(messages(place));
    tasks.push(backup(place)?);
    tasks.push(keyserver(place)?);
    tasks.push(log(place)?);
    Ok(tasks)
}

fn certificates(place: &Place) -> Vec<Task<'_>> {
    let list = |home: &str| place.gpg(home).args(["--no-autostart", "--with-colons"]);
    let find = place.with_store("debian.db").args(["list", "--with-colons", &place.fingerprint]);
    let home = place.at("i");
    let import = place.gpg("i").args(["--no-autostart", "--import"]).arg(&place.ring).accept(2);
    vec![
        place.beside_gpg(
            "start",
            times(10, place.talaria().arg("--version")),
            times(10, place.gpg("d").arg("--version")),
        ),
        place.beside_gpg(
            "find one certificate of Debian's keyring",
            times(10, find),
            times(10, list("d").args(["--list-keys", &place.fingerprint])),
        ),
        place.beside_gpg(
            "list Debian's keyring",
            mean_of(10, place.with_store("debian.db").args(["list", "--with-colons"])),
            once(list("d").arg("--list-keys")),
        ),
        place.beside_gpg(
            "list 1,000 certificates",
            mean_of(10, place.with_store("many.db").args(["list", "--with-colons"])),
            once(list("m").arg("--list-keys")),
        ),
        place.beside_gpg(
            "import 60 certificates",
            anew(
                ["i.db", "i.db-wal", "i.db-shm"].map(|name| place.at(name)).into(),
                place.with_store("i.db").arg("import").arg(&place.ring),
            ),
            Box::new(move || {
                remove(&home)?;
                fs::create_dir_all(&home).map_err(BenchError::io("make", &home))?;
                crate::messages::private(&home)?;
                import.measure()
            }),
        ),
    ]
}

fn messages(place: &Place) -> Vec<Task<'_>> {
    let own = || place.with_store("own.db");
    let file = |run: ProgramRun, output: &str, input: &Path| {
        run.arg("--output").arg(place.at(output)).arg(input)
    };
    let encrypt = || own().args(["encrypt", "--trust-model", "always", "--to", ALICE]);
    let encrypt_gpg = || place.gpg("g").args(["-z", "0", "--recipient", ALICE, "--encrypt"]);
    let decrypt = || own().arg("decrypt");
    let decrypt_gpg = || place.gpg("g").arg("--decrypt");
    let sealed = place.at("sealed");
    let mut tasks = vec![
        place.beside_gpg(
            "encrypt to a key of gpg, file to file",
            once(file(encrypt().arg("--overwrite"), "ours.pgp", &place.input)),
            once(
                place
                    .gpg("g")
                    .args(["-z", "0", "--output"])
                    .arg(place.at("theirs.pgp"))
                    .args(["--recipient", ALICE, "--encrypt"])
                    .arg(&place.input),
            ),
        ),
        place.beside_gpg(
            "encrypt to a key of gpg, pipe to pipe",
            once(in_pipes(&place.input, &encrypt())),
            once(in_pipes(&place.input, &encrypt_gpg())),
        ),
        place.beside_gpg(
            "sign and encrypt, pipe to pipe",
            once(in_pipes(&place.input, &encrypt().args(["--sign-with", ALICE]))),
            once(in_pipes(
                &place.input,
                &place.gpg("g").args(["-z", "0", "--sign", "--recipient", ALICE, "--encrypt"]),
            )),
        ),
        place.beside_gpg(
            "decrypt and verify, file to file",
            place.gives_back(file(decrypt(), "ours", &sealed), "ours"),
            place.gives_back(
                place
                    .gpg("g")
                    .arg("--output")
                    .arg(place.at("theirs"))
                    .arg("--decrypt")
                    .arg(&sealed),
                "theirs",
            ),
        ),
        place.beside_gpg(
            "decrypt and verify, pipe to pipe",
            once(in_pipes(&sealed, &decrypt())),
            once(in_pipes(&sealed, &decrypt_gpg())),
        ),
        place.beside_gpg(
            "sign a file, detached",
            once(file(
                own().args(["sign", "--overwrite", "--with", ALICE]),
                "ours.sig",
                &place.input,
            )),
            once(
                place
                    .gpg("g")
                    .arg("--output")
                    .arg(place.at("theirs.sig"))
                    .arg("--detach-sign")
                    .arg(&place.input),
            ),
        ),
        place.beside_gpg(
            "verify a file, detached",
            once(own().arg("verify").arg(place.at("input.sig")).arg(&place.input)),
            once(place.gpg("g").arg("--verify").arg(place.at("input.sig")).arg(&place.input)),
        ),
    ];
    let own_key = own().args(["encrypt", "--trust-model", "always", "--to", "bob@example.org"]);
    tasks.push(Task {
        name: "encrypt to an own key, pipe to pipe",
        beside: match &place.age {
            Some((age, recipient)) => Beside::Peer {
                name: age.clone(),
                ours: once(in_pipes(&place.input, &own_key)),
                theirs: once(in_pipes(
                    &place.input,
                    &ProgramRun::new("age").args(["-r", recipient]),
                )),
            },
            None => Beside::Missing("age"),
        },
    });
    tasks
}

/// The first run, into a new repository on the same disk.
fn backup(place: &Place) -> Result<Task<'_>, BenchError> {
    let name = "back up 4,000 small files";
    if !is_in_memory(&place.folder) {
        return Ok(Task { name, beside: Beside::Missing("a file system in memory") });
    }
    let source = place.at("files");
    many_files(&source, FILES).map_err(BenchError::io("write", &source))?;
    let generate = with_backup_key(place).args(["key", "generate", "--no-passphrase"]);
    generate.arg("Backup <backup@example.org>").measure()?;
    let Some(rsync) = version(Path::new("rsync")) else {
        return Ok(Task { name, beside: Beside::Missing("rsync") });
    };
    let copy = place.at("copy");
    let ours = Box::new(|| {
        let repository = new_repository(place)?;
        back_up(place, &repository).measure()
    });
    let theirs = ProgramRun::new("rsync").arg("-a").arg(source.join("")).arg(&copy);
    Ok(Task { name, beside: Beside::Peer { name: rsync, ours, theirs: anew(vec![copy], theirs) } })
}

/// talaria with a key of its own for backups.
fn with_backup_key(place: &Place) -> ProgramRun {
    place.talaria().env("XDG_DATA_HOME", place.at("backup"))
}

fn new_repository(place: &Place) -> Result<PathBuf, BenchError> {
    let repository = place.at("repository");
    remove(&repository)?;
    with_backup_key(place).args(["backup", "--repo"]).arg(&repository).arg("init").measure()?;
    Ok(repository)
}

fn back_up(place: &Place, repository: &Path) -> ProgramRun {
    let backup = with_backup_key(place).args(["backup", "--repo"]).arg(repository);
    backup.arg("create").arg(place.at("files"))
}

fn keyserver(place: &Place) -> Result<Task<'_>, BenchError> {
    let name = "build a keyserver's database of 5,000 certificates";
    let program = Path::new("sks");
    if !sks::is_there(program) {
        return Ok(Task { name, beside: Beside::Missing("sks") });
    }
    let peer = Sks::new(program, &place.at("sks"), "127.0.0.1")?;
    let ours = place.with_store("built.db").args([
        "build",
        "--no-verify",
        "--no-keygrips",
        "--no-trigrams",
    ]);
    let ours = anew(
        ["built.db", "built.db-wal", "built.db-shm"].map(|name| place.at(name)).into(),
        ours.args(&place.dump),
    );
    let theirs: Work<'_> = Box::new(move || {
        let files: Vec<&Path> = place.dump.iter().map(PathBuf::as_path).collect();
        peer.measure_build(&files, 16)
    });
    Ok(Task { name, beside: Beside::Peer { name: "sks".into(), ours, theirs } })
}

/// Within this process, so that the work is what is compared, and not the start.
fn log(place: &Place) -> Result<Task<'_>, BenchError> {
    let name = "1,000 signed updates at two nodes";
    let Some(pair) = Pair::new(&place.folder, UPDATES)? else {
        return Ok(Task { name, beside: Beside::Missing("libsodium with a C compiler") });
    };
    let pair = std::rc::Rc::new(std::cell::RefCell::new(pair));
    let other = pair.clone();
    Ok(Task {
        name,
        beside: Beside::Peer {
            name: "libsodium".into(),
            ours: Box::new(move || pair.borrow_mut().talaria()),
            theirs: Box::new(move || other.borrow_mut().libsodium()),
        },
    })
}

/// All commands whose memory is looked at.
pub(super) fn commands(place: &Place) -> Vec<Memory<'_>> {
    let find = place.with_store("debian.db").args(["list", &place.fingerprint]);
    let import = place.with_store("m.db").arg("import").arg(&place.keyring);
    let stores = ["m.db", "m.db-wal", "m.db-shm"].map(|name| place.at(name));
    let own = || place.with_store("own.db");
    let encrypt = own().args(["encrypt", "--trust-model", "always", "--to", "bob@example.org"]);
    vec![
        Memory { name: "--version", run: once(place.talaria().arg("--version")) },
        Memory { name: "list, one certificate", run: once(find) },
        Memory { name: "import, Debian's keyring", run: anew(stores.into(), import) },
        Memory { name: "encrypt, 64 MiB", run: once(encrypt.arg(&place.input)) },
        Memory {
            name: "verify, 64 MiB",
            run: once(own().arg("verify").arg(place.at("bob.sig")).arg(&place.input)),
        },
        Memory {
            name: "backup create, 4,000 files",
            run: Box::new(|| {
                let repository = new_repository(place)?;
                back_up(place, &repository).measure()
            }),
        },
    ]
}
