//! Power cuts and faults while talaria writes its own files: outputs, keys, dumps.
//!
//! A scenario is a few operations, each of which is acknowledged. The power is cut between each two steps of the recording. What
//! is left must be what the acknowledged operations made, and perhaps what the running one makes.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::fs::{self, DirBuilder, Permissions};
use std::io::Write as _;
use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _};
use std::path::Path;
use std::sync::atomic::AtomicBool;

use md5::{Digest as _, Md5};
use talaria::keys::{GenerateOptions, KeyStore, Protection};
use talaria::message::openpgp::Packet;
use talaria::message::openpgp::serialize::MarshalInto as _;
use talaria::{DumpOptions, Extent, Monitor, Signatures, Stores, dump};
use talaria_cert::Verification;
use talaria_disk::{NewFile, Readers, TEMPORARY};
use talaria_store::{Access, Depth};
use talaria_trust::Level;
use tempfile::TempDir;

use crate::disk::{Fate, Files, image};
use crate::model::{Content, MAIN};
use crate::numbers::Numbers;
use crate::operation::cert;
use crate::record::{Event, Fault, FaultPlan, Watched, files_in};
use crate::run::{NOW, Report, Syncs, brief, temporary_folder};
use crate::vfs;

/// What is written.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Own {
    /// Output files: a new one, and others that replace it.
    Output,
    /// New keys, with their certificates and revocation certificates.
    Key,
    /// A dump, an increment of it, and a dump that replaces both.
    Dump,
}

impl Own {
    fn scenario(self) -> Done<Box<dyn Scenario>> {
        Ok(match self {
            Self::Output => Box::new(Output),
            Self::Key => Box::new(Key::default()),
            Self::Dump => Box::new(Dump { folder: tempfile::tempdir().map_err(text)? }),
        })
    }
}

type Done<T = ()> = Result<T, String>;

fn text(error: impl fmt::Debug) -> String {
    format!("{error:?}")
}

/// Operations that write files of talaria.
trait Scenario {
    /// The number of operations.
    fn operations(&self) -> usize;

    /// Does an operation in the folder `root`.
    fn operate(&mut self, root: &Path, number: usize) -> Done;

    /// Completes or takes back what was interrupted, as the next command does.
    fn recover(&self, root: &Path) -> Done {
        let _ = root;
        Ok(())
    }

    /// Checks that the folder holds what the first `done` operations made. If the next one is running, its result may be there.
    fn look(&self, root: &Path, done: usize, is_running: bool) -> Done;

    /// Works with what is there, as the next command does.
    fn go_on(&self, root: &Path) -> Done;
}

/// Runs a scenario, and looks at what is left after each cut, with a few losses each.
///
/// # Errors
///
/// If something acknowledged is lost, or something unfinished has its final name.
pub fn cut_own(own: Own, seed: u64, syncs: Syncs) -> Result<Report, String> {
    vfs::install();
    let mut scenario = own.scenario()?;
    let (_folder, root) = temporary_folder()?;
    let watched = Watched::record(&root, &Files::new());
    let mut report = Report::default();
    let mut ends = vec![0];
    for number in 0..scenario.operations() {
        scenario.operate(&root, number)?;
        watched.0.list().map_err(text)?;
        ends.push(watched.0.position());
        report.acknowledged += 1;
    }
    let events = watched.0.events();
    drop(watched);
    let mut numbers = Numbers::new(seed);
    let mut seen = BTreeSet::new();
    for cut in 0..=events.len() {
        report.syncs += u64::from(events.get(cut).is_some_and(Event::is_sync));
        let done = ends.iter().rposition(|end| *end <= cut).expect("the first end is 0");
        let is_running = cut > ends[done];
        for fate in [Fate::Kill, Fate::Lost, Fate::Mixed(10), Fate::Mixed(50), Fate::Mixed(90)] {
            let obeyed = syncs == Syncs::Obeyed;
            let files = image(&Files::new(), &events[..cut], fate, obeyed, &mut numbers);
            if !seen.insert((done, is_running, files.clone())) {
                continue;
            }
            report.cuts += 1;
            let again = numbers.percent(25);
            let all = |what| {
                let names: Vec<_> = files.keys().collect();
                format!(
                    "{own:?}, cut after {cut} of {} steps, {done} operations were done, fate {fate:?}: {what}\n\
                     Files: {names:?}\nBefore: {}\nAfter: {}",
                    events.len(),
                    brief(&events[..cut]),
                    brief(&events[cut..events.len().min(cut + 5)]),
                )
            };
            let recovery =
                examine(scenario.as_ref(), &files, done, is_running, again).map_err(all)?;
            if again {
                let cut = numbers.below(recovery.len() + 1);
                let fate = Fate::draw(&mut numbers);
                let files = image(&files, &recovery[..cut], fate, obeyed, &mut numbers);
                report.second_cuts += 1;
                examine(scenario.as_ref(), &files, done, is_running, false)
                    .map_err(|what| all(format!("after a second cut: {what}")))?;
            }
        }
    }
    Ok(report)
}

/// Looks at files that a cut left. Returns the steps of the recovery, if they are recorded.
fn examine(
    scenario: &dyn Scenario,
    files: &Files,
    done: usize,
    is_running: bool,
    record: bool,
) -> Done<Vec<Event>> {
    let (_folder, root) = temporary_folder()?;
    for (name, content) in files {
        let path = root.join(name);
        let folder = path.parent().unwrap_or(&root);
        DirBuilder::new().recursive(true).mode(0o700).create(folder).map_err(text)?;
        fs::write(&path, content).map_err(text)?;
        fs::set_permissions(&path, Permissions::from_mode(0o600)).map_err(text)?;
    }
    let watched = if record { Watched::record(&root, files) } else { Watched::quietly(&root) };
    scenario.recover(&root)?;
    watched.0.list().map_err(text)?;
    let events = watched.0.events();
    scenario.look(&root, done, is_running)?;
    scenario.go_on(&root).map_err(|what| format!("going on: {what}"))?;
    Ok(events)
}

/// Runs a scenario in which a step fails, or from which on the disk is full, for each step in turn. The operation that fails has
/// its effect or none, and can be tried again.
///
/// # Errors
///
/// As [`cut_own`], and if the operation cannot be tried again.
pub fn fail_own(own: Own, fault: Fault) -> Result<Report, String> {
    vfs::install();
    let mut report = Report::default();
    for number in 0..own.scenario()?.operations() {
        for step in 0.. {
            let mut scenario = own.scenario()?;
            let (_folder, root) = temporary_folder()?;
            let watched = Watched::record(&root, &Files::new());
            for earlier in 0..number {
                scenario.operate(&root, earlier)?;
            }
            let count = if fault == Fault::Full { u64::MAX } else { 1 };
            watched.0.plan(Some(FaultPlan { fault, only_syncs: false, after: step, count }));
            let result = scenario.operate(&root, number);
            let faults = watched.0.plan(None);
            report.faults += faults;
            let failed = |what| format!("{own:?} {number}, {fault:?} at step {step}: {what}");
            if faults == 0 {
                result.map_err(failed)?;
                report.acknowledged += 1;
                break;
            }
            scenario.recover(&root).map_err(failed)?;
            let done = number + usize::from(result.is_ok());
            scenario.look(&root, done, result.is_err()).map_err(failed)?;
            if result.is_err() {
                report.failed += 1;
                scenario.operate(&root, number).map_err(failed)?;
                scenario.look(&root, number + 1, true).map_err(failed)?;
            }
        }
    }
    Ok(report)
}

/// Names and contents of the files in a folder, those of stores left out.
fn files_of(root: &Path) -> Done<Files> {
    let files = files_in(root).map_err(text)?;
    let files = files.into_iter().filter(|(name, _)| !name.contains(MAIN));
    files.map(|(name, path)| Ok((name, fs::read(path).map_err(text)?))).collect()
}

/// A file that is written, and replaced.
struct Output;

impl Output {
    const NAME: &str = "out";

    fn content(number: usize) -> Vec<u8> {
        let mut numbers = Numbers::new(number as u64);
        (0..3000 - number * 700).map(|_| numbers.draw().to_le_bytes()[0]).collect()
    }
}

impl Scenario for Output {
    fn operations(&self) -> usize {
        3
    }

    fn operate(&mut self, root: &Path, number: usize) -> Done {
        let path = root.join(Self::NAME);
        let write = || {
            let mut file = match number {
                // A complete file can have its name although the sync of the folder failed.
                0 if !path.exists() => NewFile::beginning(&path)?,
                _ => NewFile::replacing(&path)?,
            };
            Self::content(number).chunks(600).try_for_each(|part| file.write_all(part))?;
            file.keep(if number == 1 { Readers::Owner } else { Readers::Usual })
        };
        write().map_err(|error: std::io::Error| text(error))
    }

    fn look(&self, root: &Path, done: usize, is_running: bool) -> Done {
        let mut files = files_of(root)?;
        let out = files.remove(Self::NAME);
        let before = done.checked_sub(1).map(Self::content);
        let running = is_running.then(|| Self::content(done));
        if out != before && (running.is_none() || out != running) {
            let length = out.map(|out| out.len());
            return Err(format!("the output is none that was written completely: {length:?}"));
        }
        // A complete file has a temporary name for one renaming.
        let is_possible = |(name, content): (&String, &Vec<u8>)| {
            name.starts_with(TEMPORARY) && Some(content) == running.as_ref()
        };
        if files.iter().all(is_possible) {
            return Ok(());
        }
        Err(format!("other files are there: {:?}", files.keys()))
    }

    fn go_on(&self, root: &Path) -> Done {
        Self.operate(root, 1)
    }
}

/// Keys that are generated.
#[derive(Default)]
struct Key {
    /// Fingerprint, key file and revocation certificate of the keys that were acknowledged.
    made: Vec<(String, Vec<u8>, Vec<u8>)>,
}

/// The reason why a key could not be generated.
struct Why(String);

impl From<talaria::Error> for Why {
    fn from(error: talaria::Error) -> Self {
        Self(text(error))
    }
}

impl Key {
    /// Opens the key store and the store, as each command does.
    fn open(root: &Path) -> Result<(KeyStore, Stores), talaria::Error> {
        let keys = KeyStore::open(&root.join("keys"))?;
        let stores = Stores::open(&[root.join(MAIN)], Access::Create, NOW)?;
        keys.settle(&stores)?;
        Ok((keys, stores))
    }

    fn file_of(fingerprint: &str) -> String {
        format!("keys/{fingerprint}.pgp")
    }

    fn revocation_of(fingerprint: &str) -> String {
        format!("keys/revocations/{fingerprint}.asc")
    }

    /// Generates a key and returns its fingerprint.
    fn generate(root: &Path, name: &str) -> Result<String, Why> {
        let (keys, mut stores) = Self::open(root)?;
        let user_ids = vec![format!("{name}@example.org")];
        let mut options = GenerateOptions::default();
        options.user_ids = user_ids;
        let new = keys.generate(&options, &Protection::Unprotected, &mut stores, NOW)?;
        let revocation = Packet::from(new.generated().revocation.clone());
        let written = || {
            let mut file = NewFile::beginning(new.revocation_path())?;
            file.write_all(&revocation.to_vec().map_err(std::io::Error::other)?)?;
            Ok(file)
        };
        let file = written().map_err(|error: std::io::Error| Why(text(error)))?;
        let made = new.publish(&mut stores, NOW, || {
            file.keep(Readers::Owner).map_err(|error| Why(text(error)))
        })?;
        Ok(made.cert.fingerprint().to_hex())
    }
}

impl Scenario for Key {
    fn operations(&self) -> usize {
        2
    }

    fn operate(&mut self, root: &Path, number: usize) -> Done {
        let fingerprint = Self::generate(root, &format!("key{number}")).map_err(|why| why.0)?;
        let read = |name: String| fs::read(root.join(name)).map_err(text);
        let key = read(Self::file_of(&fingerprint))?;
        let revocation = read(Self::revocation_of(&fingerprint))?;
        self.made.push((fingerprint, key, revocation));
        Ok(())
    }

    fn recover(&self, root: &Path) -> Done {
        Self::open(root).map(drop).map_err(text)
    }

    fn look(&self, root: &Path, done: usize, is_running: bool) -> Done {
        let (keys, stores) = Self::open(root).map_err(text)?;
        if keys.is_unsettled().map_err(text)? {
            return Err("a key is neither there nor gone".to_owned());
        }
        let listed = keys.list().map_err(text)?;
        let found: BTreeSet<String> =
            listed.iter().map(|cert| cert.fingerprint().to_hex()).collect();
        let mut files = files_of(root)?;
        // The store may have left a file with a temporary name.
        files.retain(|name, _| name.starts_with("keys/"));
        for fingerprint in &found {
            let (Some(key), Some(revocation)) = (
                files.remove(&Self::file_of(fingerprint)),
                files.remove(&Self::revocation_of(fingerprint)),
            ) else {
                return Err(format!("{fingerprint} has no revocation certificate"));
            };
            if revocation.is_empty() {
                return Err(format!("the revocation certificate of {fingerprint} is empty"));
            }
            let made = self.made.iter().find(|made| made.0 == *fingerprint);
            if made.is_some_and(|made| made.1 != key || made.2 != revocation) {
                return Err(format!("{fingerprint} is not the key that was made"));
            }
        }
        if !files.is_empty() {
            return Err(format!("other files are there: {:?}", files.keys()));
        }
        if let Some((lost, ..)) = self.made[..done].iter().find(|made| !found.contains(&made.0)) {
            return Err(format!("{lost} is lost"));
        }
        if found.len() > done + usize::from(is_running) {
            return Err(format!("there are {} keys", found.len()));
        }
        let store = &stores.iter().next().expect("one store").store;
        let report = store.check(Depth::Structure, |_| {}).map_err(text)?;
        if !report.is_clean() {
            return Err(format!("a check found {:?}", report.findings));
        }
        let content = Content::of(store).map_err(text)?;
        let certs: BTreeSet<String> = content.certs.keys().map(ToString::to_string).collect();
        let trusted = store.web().ownertrusts().map_err(text)?.into_iter();
        let trusted = trusted.filter(|(_, value)| *value == Level::Ultimate as u8);
        let trusted: BTreeSet<String> = trusted.map(|(name, _)| name.to_string()).collect();
        if certs == found && trusted == found {
            return Ok(());
        }
        Err(format!("keys {found:?}, certificates {certs:?}, trusted {trusted:?}"))
    }

    fn go_on(&self, root: &Path) -> Done {
        Self::generate(root, "another").map(drop).map_err(|why| why.0)
    }
}

/// Dumps of a store that grows. The store is in another folder, which loses nothing.
struct Dump {
    folder: TempDir,
}

impl Dump {
    /// The certificates in the store at each operation, which are also its changes.
    const COUNTS: [usize; 3] = [4, 7, 9];
    const FOLDER: &str = "dump/";
    const STATE: &str = "talaria-dump.txt";
    const METADATA: &str = "metadata-sks-dump.txt";

    fn stores(&self, access: Access) -> Done<Stores> {
        Stores::open(&[self.folder.path().join(MAIN)], access, NOW).map_err(text)
    }

    fn extent(number: usize) -> Extent {
        if number == 1 { Extent::Increment } else { Extent::Whole }
    }

    fn dump(&self, root: &Path, extent: Extent, per_file: usize) -> Done {
        let mut options = DumpOptions::new(root.join(Self::FOLDER), NOW);
        options.extent = extent;
        options.per_file = per_file;
        options.signatures = Signatures::All;
        let stop = AtomicBool::new(false);
        let monitor = &mut Monitor { report: &mut |_| {}, stop: &stop };
        dump(&self.stores(Access::Read)?, &options, monitor).map(drop).map_err(text)
    }

    /// The files of the dump, by name.
    fn files(root: &Path) -> Done<Files> {
        let files = files_of(root)?.into_iter();
        let name = |name: String| name.strip_prefix(Self::FOLDER).map(str::to_owned);
        let named = files.map(|(path, content)| {
            name(path.clone()).map(|name| (name, content)).ok_or(format!("{path} is there"))
        });
        named.collect()
    }

    /// The position where the dump ends: the changes that it has.
    fn position(files: &Files) -> Done<Option<usize>> {
        let Some(state) = files.get(Self::STATE) else { return Ok(None) };
        let state = String::from_utf8_lossy(state);
        let number = state.trim().rsplit(':').next().and_then(|number| number.parse().ok());
        number.map(Some).ok_or(format!("the position is {state:?}"))
    }
}

impl Scenario for Dump {
    fn operations(&self) -> usize {
        Self::COUNTS.len()
    }

    fn operate(&mut self, root: &Path, number: usize) -> Done {
        let certs = (0..Self::COUNTS[number]).map(|number| cert(number).clone()).collect();
        let mut stores = self.stores(Access::Create)?;
        let store = stores.writable().map_err(text)?;
        store.ingest(certs, Verification::Full, NOW.into()).map_err(text)?;
        drop(stores);
        self.dump(root, Self::extent(number), [2, 2, 4][number])
    }

    fn look(&self, root: &Path, done: usize, is_running: bool) -> Done {
        let files = Self::files(root)?;
        let position = Self::position(&files)?;
        let before = done.checked_sub(1).map(|done| Self::COUNTS[done]);
        // After a fault, the same operation may be done a second time.
        let running = Self::COUNTS.get(done).filter(|_| is_running);
        let may_be_replaced = running.is_some_and(|running| {
            position == Some(*running) || position.is_none() && Self::extent(done) == Extent::Whole
        });
        if position != before && !may_be_replaced {
            return Err(format!("the dump ends at {position:?} instead of {before:?}"));
        }
        let mut found = BTreeSet::new();
        let is_keyring = |(name, _): &(&String, &Vec<u8>)| {
            Path::new(name.as_str()).extension().is_some_and(|end| end == "pgp")
        };
        for (name, content) in files.iter().filter(is_keyring) {
            let mut rest = &content[..];
            while !rest.is_empty() {
                let known = (0..Self::COUNTS[2]).find(|&at| rest.starts_with(cert(at).as_bytes()));
                let known = known.ok_or_else(|| format!("{name} is incomplete"))?;
                rest = &rest[cert(known).as_bytes().len()..];
                found.insert(known);
            }
        }
        let Some(position) = position else { return Ok(()) };
        if let Some(lost) = (0..position).find(|at| !found.contains(at)) {
            return Err(format!("the dump ends at {position}, but has no certificate {lost}"));
        }
        let metadata = files.get(Self::METADATA).ok_or("no metadata")?;
        let metadata = String::from_utf8_lossy(metadata);
        let listed: BTreeMap<&str, &str> = metadata
            .lines()
            .filter_map(|line| line.split_once("  "))
            .map(|(a, b)| (b, a))
            .collect();
        for (name, digest) in &listed {
            let content = files.get(*name).ok_or_else(|| format!("{name} is missing"))?;
            let actual: String =
                Md5::digest(content).iter().map(|octet| format!("{octet:02x}")).collect();
            if actual != **digest {
                return Err(format!("{name} has another digest than the metadata say"));
            }
        }
        let mut expected: BTreeSet<&str> = listed.into_keys().collect();
        expected.extend([Self::STATE, Self::METADATA]);
        if !is_running && !expected.iter().copied().eq(files.keys().map(String::as_str)) {
            return Err(format!("the files are {:?} instead of {expected:?}", files.keys()));
        }
        Ok(())
    }

    fn go_on(&self, root: &Path) -> Done {
        let is_there = Self::position(&Self::files(root)?)?.is_some();
        self.dump(root, if is_there { Extent::Increment } else { Extent::Whole }, 2)?;
        let position = Self::position(&Self::files(root)?)?;
        if position != Some(Self::COUNTS[2]) {
            return Err(format!("the dump ends at {position:?}"));
        }
        // Files of an increment that was cut off can be left.
        self.look(root, Self::COUNTS.len() - 1, true)
    }
}
