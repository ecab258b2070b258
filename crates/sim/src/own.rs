//! Power cuts and faults while talaria writes its own files: outputs, keys, dumps, backups, logs.
//!
//! A scenario is a few operations, each of which is acknowledged. The power is cut between any two
//! steps of the recording. What is left must be what the acknowledged operations made, and perhaps
//! what the running one makes.

mod backup;
mod dump;
mod key;
mod output;
mod scenario;
mod signed_log;

use std::collections::BTreeSet;
use std::fs::{self, DirBuilder, File, Permissions};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::io::Write as _;
use std::ops::Range;
use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _};
use std::path::Path;

use crate::disk::{Fate, Files, image};
use crate::numbers::Numbers;
use crate::record::{Event, Fault, FaultPlan, Watched};
use crate::run::{Report, Syncs, brief, temporary_folder};
use crate::vfs;
use backup::Backup;
use dump::Dump;
use key::Key;
use output::Output;
use scenario::{Done, Scenario, text};
use signed_log::SignedLog;

/// The files that are written.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Own {
    /// Output files: a new one, and others that replace it.
    Output,
    /// New keys, with their certificates and revocation certificates.
    Key,
    /// A dump, an increment of it, and a dump that replaces both.
    Dump,
    /// A backup repository: snapshots, and a prune of the first ones.
    Backup,
    /// A signed log: groups of entries, checkpoints, indexes, and a compaction.
    Log,
}

impl Own {
    fn scenario(self) -> Done<Box<dyn Scenario>> {
        Ok(match self {
            Self::Output => Box::new(Output),
            Self::Key => Box::new(Key::default()),
            Self::Dump => Box::new(Dump::new()?),
            Self::Backup => Box::new(Backup::new()?),
            Self::Log => Box::new(SignedLog::default()),
        })
    }
}

/// The steps of a scenario that was run to its end.
struct Recorded {
    own: Own,
    scenario: Box<dyn Scenario>,
    events: Vec<Event>,
    /// The number of steps before the first operation, and after each one.
    ends: Vec<usize>,
}

impl Recorded {
    fn new(own: Own) -> Done<Self> {
        vfs::install();
        let mut scenario = own.scenario()?;
        let (_folder, root) = temporary_folder()?;
        let watched = Watched::record(&root, &Files::new());
        let mut ends = vec![0];
        for number in 0..scenario.operations() {
            let failed = |what| format!("{own:?} {number}: {what}");
            scenario.operate(&root, number).map_err(failed)?;
            watched.0.list().map_err(text)?;
            ends.push(watched.0.position());
        }
        let events = watched.0.events();
        Ok(Self { own, scenario, events, ends })
    }

    /// The number of operations that were acknowledged before a cut, and whether the next one had
    /// begun.
    fn progress(&self, cut: usize) -> (usize, bool) {
        let done = self.ends.iter().rposition(|end| *end <= cut).expect("the first end is 0");
        (done, cut > self.ends[done])
    }

    /// Looks at the files that a cut left; in one of four cases after another cut during the
    /// recovery, too.
    fn examine(
        &self,
        cut: usize,
        fate: Fate,
        files: &Files,
        syncs: Syncs,
        numbers: &mut Numbers,
        report: &mut Report,
    ) -> Done {
        let (done, is_running) = self.progress(cut);
        let all = |what| {
            let names: Vec<_> = files.keys().collect();
            format!(
                "{:?}, cut after {cut} of {} steps, {done} operations were done, fate {fate:?}: {what}\n\
                 Files: {names:?}\nBefore: {}\nAfter: {}",
                self.own,
                self.events.len(),
                brief(&self.events[..cut]),
                brief(&self.events[cut..self.events.len().min(cut + 5)]),
            )
        };
        report.cuts += 1;
        let again = numbers.percent(25);
        let scenario = self.scenario.as_ref();
        let recovery = examine(scenario, files, done, is_running, again).map_err(all)?;
        if again {
            let cut = numbers.below(recovery.len() + 1);
            let fate = Fate::draw(numbers);
            let files = image(files, &recovery[..cut], fate, syncs == Syncs::Obeyed, numbers);
            report.second_cuts += 1;
            examine(scenario, &files, done, is_running, false)
                .map_err(|what| all(format!("after a second cut, {fate:?}: {what}")))?;
        }
        Ok(())
    }
}

/// Runs a scenario, and looks at the files that each cut leaves, with a few losses each.
///
/// # Errors
///
/// If something acknowledged is lost, or something unfinished has its final name.
pub fn cut_own(own: Own, seed: u64, syncs: Syncs) -> Result<Report, String> {
    let recorded = Recorded::new(own)?;
    let events = &recorded.events;
    let mut report = Report { acknowledged: recorded.ends.len() as u64 - 1, ..Report::default() };
    let mut numbers = Numbers::new(seed);
    let mut seen = BTreeSet::new();
    for cut in 0..=events.len() {
        report.syncs += u64::from(events.get(cut).is_some_and(Event::is_sync));
        for fate in [Fate::Kill, Fate::Lost, Fate::Mixed(10), Fate::Mixed(50), Fate::Mixed(90)] {
            let obeyed = syncs == Syncs::Obeyed;
            let files = image(&Files::new(), &events[..cut], fate, obeyed, &mut numbers);
            if !seen.insert((recorded.progress(cut), files.clone())) {
                continue;
            }
            recorded.examine(cut, fate, &files, syncs, &mut numbers, &mut report)?;
        }
    }
    Ok(report)
}

/// Runs a scenario once, and looks at the files that a cut leaves for each seed. The seed picks the
/// cut and what it loses. Equal files are looked at once.
///
/// # Errors
///
/// As [`cut_own`].
pub fn sample_own(own: Own, seeds: Range<u64>, syncs: Syncs) -> Result<Report, String> {
    let recorded = Recorded::new(own)?;
    let events = &recorded.events;
    let mut report = Report { acknowledged: recorded.ends.len() as u64 - 1, ..Report::default() };
    report.syncs = events.iter().filter(|event| event.is_sync()).count() as u64;
    let mut seen = BTreeSet::new();
    for seed in seeds {
        let mut numbers = Numbers::new(seed);
        let cut = numbers.below(events.len() + 1);
        let fate = Fate::draw(&mut numbers);
        let obeyed = syncs == Syncs::Obeyed;
        let files = image(&Files::new(), &events[..cut], fate, obeyed, &mut numbers);
        if !seen.insert((recorded.progress(cut), hash_of(&files))) {
            continue;
        }
        recorded
            .examine(cut, fate, &files, syncs, &mut numbers, &mut report)
            .map_err(|what| format!("seed {seed}: {what}"))?;
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
        write(&path, content).map_err(text)?;
        fs::set_permissions(&path, Permissions::from_mode(0o600)).map_err(text)?;
    }
    scenario.arrive(&root)?;
    let watched = if record { Watched::record(&root, files) } else { Watched::quietly(&root) };
    scenario.recover(&root)?;
    watched.0.list().map_err(text)?;
    let events = watched.0.events();
    scenario.look(&root, done, is_running)?;
    scenario.go_on(&root).map_err(|what| format!("going on: {what}"))?;
    Ok(events)
}

/// The hash of names and contents.
fn hash_of(files: &Files) -> u64 {
    let mut hasher = DefaultHasher::new();
    for (name, content) in files {
        (name, content.len(), without_zeros(content)).hash(&mut hasher);
    }
    hasher.finish()
}

/// Writes a file. The zeros at its end take no room.
fn write(path: &Path, content: &[u8]) -> std::io::Result<()> {
    let mut file = File::create(path)?;
    file.write_all(without_zeros(content))?;
    file.set_len(content.len() as u64)
}

/// Bytes without the blocks of zeros at the end: a segment of a log has megabytes of them.
fn without_zeros(content: &[u8]) -> &[u8] {
    const ZEROS: [u8; 4096] = [0; 4096];
    let blocks = content.chunks(ZEROS.len()).rev();
    let used = blocks.skip_while(|block| **block == ZEROS[..block.len()]).count();
    &content[..content.len().min(used * ZEROS.len())]
}

/// Runs a scenario in which a step fails, or from which on the disk is full: each step in turn, or
/// one of `stride`. The operation that fails has its effect or none, and can be tried again.
///
/// # Errors
///
/// As [`cut_own`], and if the operation cannot be tried again.
pub fn fail_own(own: Own, fault: Fault, stride: u64) -> Result<Report, String> {
    vfs::install();
    let mut report = Report::default();
    for number in 0..own.scenario()?.operations() {
        // Other steps of each operation.
        for step in (number as u64 % stride..).step_by(usize::try_from(stride).unwrap_or(1)) {
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
