//! Running a sequence of operations, and opening the files that each cut leaves.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::Duration;

use rusqlite::Connection;
use talaria_cert::{Cert, Limits, Verification, Work};
use talaria_store::{
    Access, Binding, BuildOptions, Builder, Depth, Event as Observed, IngestOutcome, Layout,
    Observation, Position, Preparation, Redaction, Store, StoreError,
};
use talaria_trust::tofu::Policy;
use tempfile::TempDir;

use crate::disk::{Fate, Files, image};
use crate::model::{
    Content, MAIN, State, World, address_of, built, digest_of, name_of, user_id_of,
};
use crate::numbers::Numbers;
use crate::operation::{Bytes, CERTS, CONNECTIONS, Copy, Operation, cert, copy_of};
use crate::record::{Event, Fault, FaultPlan, FileId, Watched};
use crate::vfs;

/// A time at which the certificates are valid.
pub(crate) const NOW: u32 = 1_740_000_000;

/// Maximum number of operations in a sequence.
const OPERATIONS_MAX: usize = 16;

/// Operations of a seed.
const OPERATIONS: usize = 10;

/// The connection that imports as a server does, which syncs its commits afterwards.
const SERVER: usize = 1;

/// Bytes for one operation are at most so many.
const BYTES: usize = 16;

/// The operations and faults of a simulation.
#[derive(Clone, Debug)]
pub struct Script {
    operations: Vec<Operation>,
    /// Faults by the number of the operation.
    faults: BTreeMap<usize, FaultPlan>,
    /// The random numbers that decide which writes a crash loses.
    numbers: Numbers,
    has_cuts: bool,
}

/// Panics within a transaction.
fn panic_within(store: &mut Store) -> Result<(), StoreError> {
    let work = || {
        store.atomically(|store| -> Result<(), StoreError> {
            store.web_mut().set_ownertrust(&[(cert(0).fingerprint(), 6)], NOW.into())?;
            // A panic, without its message on standard error.
            resume_unwind(Box::new("simulated"))
        })
    };
    catch_unwind(AssertUnwindSafe(work)).unwrap_or(Ok(()))
}

/// Imports certificates: prepared first, committed without a sync, and then synced.
fn as_a_server(store: &mut Store, certs: Vec<Cert>) -> Result<Vec<IngestOutcome>, StoreError> {
    let preparation = Preparation {
        limits: Limits::default(),
        verification: Verification::Full,
        now: NOW.into(),
        work: Work::UNBOUNDED,
    };
    let mut intake = store.prepare(certs, &preparation)?;
    store.write_ahead(std::slice::from_mut(&mut intake), usize::MAX, NOW.into())?;
    store.log_to_sync().sync()?;
    Ok(intake.into_ingested().into_iter().map(|ingested| ingested.outcome).collect())
}

impl Script {
    /// The script of a seed. Every second one has faults.
    #[must_use]
    pub fn of_seed(seed: u64) -> Self {
        let mut numbers = Numbers::new(seed);
        let bytes: Vec<u8> =
            (0..OPERATIONS * BYTES).map(|_| numbers.draw().to_le_bytes()[0]).collect();
        let mut bytes = Bytes(&bytes);
        let operations = (0..OPERATIONS).map(|number| bytes.operation(number)).collect();
        Self::with(operations, seed % 2 == 1, numbers)
    }

    /// The script of any bytes: eight for faults and losses, and the operations.
    #[must_use]
    pub fn of_bytes(bytes: &[u8]) -> Self {
        let (seed, rest) = bytes.split_at(bytes.len().min(8));
        let mut eight = [0; 8];
        eight[..seed.len()].copy_from_slice(seed);
        let seed = u64::from_le_bytes(eight);
        let mut rest = Bytes(rest);
        let mut operations = Vec::new();
        while operations.len() < OPERATIONS_MAX && !rest.is_empty() {
            operations.push(rest.operation(operations.len()));
        }
        Self::with(operations, seed % 2 == 1, Numbers::new(seed))
    }

    /// A script in which one step of one operation fails, if it has that many steps. The power is
    /// not cut.
    #[must_use]
    pub fn failing(operations: Vec<Operation>, number: usize, fault: Fault, step: u64) -> Self {
        let count = match fault {
            Fault::Broken => 1,
            Fault::Full => u64::MAX,
        };
        let plan = FaultPlan { fault, only_syncs: false, after: step, count };
        let numbers = Numbers::new(step);
        Self { operations, faults: BTreeMap::from([(number, plan)]), numbers, has_cuts: false }
    }

    /// The script of these operations, without faults. The seed decides what power cuts lose.
    #[must_use]
    pub fn of_operations(operations: Vec<Operation>, seed: u64) -> Self {
        Self { operations, faults: BTreeMap::new(), numbers: Numbers::new(seed), has_cuts: true }
    }

    /// The same script, with power cuts.
    #[must_use]
    pub fn with_cuts(self) -> Self {
        Self { has_cuts: true, ..self }
    }

    fn with(operations: Vec<Operation>, has_faults: bool, mut numbers: Numbers) -> Self {
        let mut faults = BTreeMap::new();
        for number in 0..operations.len() {
            if has_faults && numbers.percent(40) {
                let broken = numbers.percent(70);
                let plan = FaultPlan {
                    fault: if broken { Fault::Broken } else { Fault::Full },
                    only_syncs: numbers.percent(30),
                    after: {
                        let end = 1 << numbers.below(8);
                        numbers.below(end) as u64
                    },
                    count: if broken { 1 + numbers.below(3) as u64 } else { u64::MAX },
                };
                faults.insert(number, plan);
            }
        }
        Self { operations, faults, numbers, has_cuts: true }
    }
}

impl fmt::Display for Script {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, operation) in self.operations.iter().enumerate() {
            write!(f, "{number:4}: {operation:?}")?;
            if let Some(plan) = self.faults.get(&number) {
                write!(f, ", with {plan:?}")?;
            }
            writeln!(f)?;
        }
        Ok(())
    }
}

/// Whether the disk obeys syncs.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Syncs {
    /// A sync makes everything before it durable.
    Obeyed,
    /// Syncs are ignored. A store cannot keep its promises then, and a simulation must notice it.
    Ignored,
}

/// The counts of a simulation.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
#[non_exhaustive]
pub struct Report {
    /// Operations that were acknowledged.
    pub acknowledged: u64,
    /// Operations that failed because of a fault.
    pub failed: u64,
    /// Steps that were made to fail.
    pub faults: u64,
    /// Syncs of files and folders.
    pub syncs: u64,
    /// Cuts after which the files were opened.
    pub cuts: u64,
    /// Cuts during such an opening, after which the files were opened again.
    pub second_cuts: u64,
}

impl std::ops::AddAssign for Report {
    fn add_assign(&mut self, other: Self) {
        self.acknowledged += other.acknowledged;
        self.failed += other.failed;
        self.faults += other.faults;
        self.syncs += other.syncs;
        self.cuts += other.cuts;
        self.second_cuts += other.second_cuts;
    }
}

/// A promise that was not kept.
#[derive(Debug)]
pub struct Failure {
    script: Script,
    what: String,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.script, self.what)
    }
}

impl std::error::Error for Failure {}

/// Runs a script, and opens the files that are left after each cut.
///
/// # Errors
///
/// [`Failure`] if an acknowledged operation is lost, an operation is there in part, a check finds
/// damage, or the store cannot be used.
pub fn run(script: &Script, syncs: Syncs) -> Result<Report, Failure> {
    vfs::install();
    let failure = |what| Failure { script: script.clone(), what };
    let mut simulation = Simulation::new(syncs, script.numbers.clone()).map_err(failure)?;
    for (number, operation) in script.operations.iter().enumerate() {
        let plan = script.faults.get(&number).copied();
        simulation
            .operate(operation, plan)
            .map_err(|what| failure(format!("Operation {number}: {what}")))?;
    }
    if script.has_cuts {
        simulation.cut_everywhere().map_err(failure)?;
    }
    Ok(simulation.report)
}

/// A time from which on the disk may hold only certain worlds.
struct Phase {
    /// The first cut for which this holds, as a number of events.
    from: usize,
    possible: Rc<Vec<World>>,
    /// The build that runs.
    building: Option<Operation>,
}

/// Fields are dropped in their order: connections are closed before the folder goes.
struct Simulation {
    connections: [Option<Store>; CONNECTIONS],
    watched: Watched,
    path: PathBuf,
    _folder: TempDir,
    /// The content that the connections see.
    live: World,
    /// The contents that the disk may hold.
    possible: Rc<Vec<World>>,
    phases: Vec<Phase>,
    syncs: Syncs,
    numbers: Numbers,
    report: Report,
}

pub(crate) fn temporary_folder() -> Result<(TempDir, PathBuf), String> {
    let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
    // SQLite resolves links.
    let path = folder.path().canonicalize().map_err(|error| error.to_string())?;
    Ok((folder, path))
}

fn layout() -> Layout {
    let mut layout = Layout::default();
    layout.page_bytes = 4096;
    layout
}

impl Simulation {
    fn new(syncs: Syncs, numbers: Numbers) -> Result<Self, String> {
        let (folder, path) = temporary_folder()?;
        let watched = Watched::record(&path, &Files::new());
        let possible = Rc::new(vec![World::default()]);
        Ok(Self {
            connections: [const { None }; CONNECTIONS],
            watched,
            path,
            _folder: folder,
            live: World::default(),
            phases: vec![Phase { from: 0, possible: Rc::clone(&possible), building: None }],
            possible,
            syncs,
            numbers,
            report: Report::default(),
        })
    }

    fn enter_phase(&mut self, from: usize, possible: Vec<World>, building: Option<Operation>) {
        let mut distinct: Vec<World> = Vec::new();
        for world in possible {
            if !distinct.contains(&world) {
                distinct.push(world);
            }
        }
        let possible = Rc::new(distinct);
        self.possible = Rc::clone(&possible);
        self.phases.push(Phase { from, possible, building });
    }

    /// Does an operation, compares the result with the model, and notes the contents that the disk
    /// may hold during it and afterwards.
    fn operate(&mut self, operation: &Operation, plan: Option<FaultPlan>) -> Result<(), String> {
        let recorder = self.watched.0.clone();
        let before = self.possible.to_vec();
        let start = recorder.position();
        recorder.plan(plan);
        let result = self.perform(operation);
        let faults = recorder.plan(None);
        let steps = self.live.after(operation);
        recorder.list().map_err(|error| error.to_string())?;
        self.report.faults += faults;
        let all = |worlds: &[World]| -> Vec<World> {
            let reached = |step: &World| {
                before.iter().map(|world| world.with(&self.live, step)).collect::<Vec<_>>()
            };
            before.iter().cloned().chain(worlds.iter().flat_map(reached)).collect()
        };
        let during = all(&steps);
        let done = steps.last().expect("an operation has an end").clone();
        let building = matches!(operation, Operation::Build { .. }).then(|| operation.clone());
        match result {
            Ok(Some(difference)) => Err(difference),
            Ok(None) => {
                self.report.acknowledged += 1;
                let after = before.iter().map(|world| world.with(&self.live, &done)).collect();
                let end = recorder.position();
                if end > start {
                    self.enter_phase(start + 1, during, building);
                }
                self.enter_phase(end, after, None);
                self.live = done;
                self.compare_live()
            }
            Err(error) if faults > 0 => {
                self.report.failed += 1;
                let mut candidates = vec![self.live.clone()];
                candidates.extend(steps);
                if self.is_closed() {
                    candidates.extend(during.iter().cloned());
                }
                // The fault is over, so the store can be used again.
                let found = self
                    .look(&candidates)
                    .map_err(|again| format!("{error:?}; and after the fault: {again}"))?;
                let end = recorder.position();
                self.enter_phase(start + 1, during.clone(), building);
                self.enter_phase(end, during, None);
                self.live = found;
                Ok(())
            }
            Err(error) => Err(format!("{error:?} without a fault")),
        }
    }

    /// The content of the folder after an operation failed. It must be one of `candidates`.
    fn look(&mut self, candidates: &[World]) -> Result<World, String> {
        let mut found = BTreeMap::new();
        let names: BTreeSet<&String> = candidates.iter().flat_map(|world| world.0.keys()).collect();
        for name in names {
            let path = self.path.join(name);
            if !path.exists() {
                continue;
            }
            let content = if name == MAIN {
                let by = self.connections.iter().position(Option::is_some).unwrap_or(0);
                let store = self.connection(by).map_err(|error| format!("{error:?}"))?;
                Content::of(store)
            } else {
                Store::open(&path, Access::Write).and_then(|store| Content::of(&store))
            };
            found.insert(name.clone(), content.map_err(|error| format!("{name}: {error:?}"))?);
        }
        choose(candidates, &found)
    }

    /// Compares what each connection sees with the model.
    fn compare_live(&self) -> Result<(), String> {
        for store in self.connections.iter().flatten() {
            let content = Content::of(store).map_err(|error| format!("{error:?}"))?;
            let Some(main) = self.live.0.get(MAIN) else {
                return Err("a connection to a store that should not be there".to_owned());
            };
            let differences = main.content.differences(&content);
            if !differences.is_empty() {
                return Err(format!("the store differs from the model: {differences:?}"));
            }
        }
        Ok(())
    }

    fn connection(&mut self, by: usize) -> Result<&mut Store, StoreError> {
        if self.connections[by].is_none() {
            let store = Store::open_with(&self.path.join(MAIN), Access::Create, &layout())?;
            if self.is_closed() {
                self.settle(&Content::of(&store)?);
            }
            self.connections[by] = Some(store);
        }
        Ok(self.connections[by].as_mut().expect("opened before"))
    }

    fn is_closed(&self) -> bool {
        self.connections.iter().all(Option::is_none)
    }

    /// Takes the content that the first connection sees for the true one. An operation whose sync
    /// failed is undone for the connections of that time, but can be complete in the log, which the
    /// first new connection reads.
    fn settle(&mut self, found: &Content) {
        let there = self.possible.iter().filter_map(|world| world.0.get(MAIN));
        let mut found = there.filter(|state| state.content == *found);
        if let (Some(live), Some(found)) = (self.live.0.get_mut(MAIN), found.next()) {
            *live = found.clone();
        }
    }

    fn close_all(&mut self) {
        self.connections.iter_mut().for_each(|connection| *connection = None);
    }

    /// Does an operation. Returns how its outcome differs from the model, if it does.
    fn perform(&mut self, operation: &Operation) -> Result<Option<String>, StoreError> {
        let main = self.path.join(MAIN);
        let name = |number: &usize| cert(*number).fingerprint();
        match operation {
            Operation::Import { by, copies } => return self.import(*by, copies),
            Operation::Delete { by, certs, returning } => {
                let names: Vec<_> = certs.iter().map(name).collect();
                self.connection(*by)?.delete(&names, *returning, NOW.into())?;
            }
            Operation::Unblock { by, cert } => {
                self.connection(*by)?.operator_mut().unblock(&[name(cert)])?;
            }
            Operation::Redact { by, cert, user_id } => {
                let user_id = user_id.and_then(|at| user_id_of(*cert, at));
                let redaction = user_id.map_or(Redaction::All, Redaction::of);
                self.connection(*by)?.operator_mut().redact(
                    name(cert),
                    &[redaction],
                    NOW.into(),
                )?;
            }
            Operation::Unredact { by, cert } => {
                self.connection(*by)?.operator_mut().unredact(name(cert))?;
            }
            Operation::SetTrust { by, cert, value } => {
                self.connection(*by)?
                    .web_mut()
                    .set_ownertrust(&[(name(cert), *value)], NOW.into())?;
            }
            Operation::Observe { by, cert, signature } => {
                let event = match signature {
                    Some(number) => Observed::Verified {
                        digest: digest_of(*number),
                        origin: "unknown".to_owned(),
                        signed: 1,
                        time: i64::from(NOW),
                    },
                    None => Observed::Encrypted(i64::from(NOW)),
                };
                let observation = Observation { binding: binding(*cert, Policy::Auto), event };
                self.connection(*by)?.tofu_mut().observe(&[observation])?;
            }
            Operation::Decide { by, cert, policy } => {
                self.connection(*by)?.tofu_mut().set_bindings(&[binding(*cert, *policy)])?;
            }
            Operation::AddIndex { by, index } => {
                self.connection(*by)?.operator_mut().add_index(*index)?;
            }
            Operation::DropIndex { by, index } => {
                self.connection(*by)?.operator_mut().drop_index(*index)?;
            }
            Operation::Compact { by } => {
                self.connection(*by)?.compact(None, Duration::ZERO)?;
            }
            Operation::Repage { by, page_bytes } => {
                self.close_all();
                self.connection(*by)?.compact(Some(*page_bytes), Duration::ZERO)?;
            }
            Operation::Tidy { by } => {
                self.connection(*by)?.operator_mut().tidy()?;
            }
            Operation::Panic { by } => panic_within(self.connection(*by)?)?,
            Operation::Close { by } => self.connections[*by] = None,
            Operation::Build { number, copies } => {
                build(&self.path.join(name_of("built", *number)), copies)?;
            }
            Operation::Backup { by, number } => {
                let target = self.path.join(name_of("copy", *number));
                self.connection(*by)?.backup(&target, |_, _| {})?;
            }
            Operation::Restore { backup, number } => {
                let backup = self.path.join(name_of("copy", *backup));
                if backup.exists() {
                    self.close_all();
                    let aside = self.path.join(name_of("aside", *number));
                    Store::open(&backup, Access::Read)?.restore(&main, &aside, |_, _| {})?;
                }
            }
            Operation::Upgrade { by, from } => {
                if main.exists() {
                    self.close_all();
                    downgrade(&main, *from)?;
                    self.connection(*by)?;
                }
            }
        }
        Ok(None)
    }

    fn import(
        &mut self,
        by: usize,
        copies: &[(usize, Copy)],
    ) -> Result<Option<String>, StoreError> {
        let certs = copies.iter().map(|&(number, copy)| copy_of(number, copy)).collect();
        self.connection(by)?;
        let mut model = self.live.0.get(MAIN).cloned().unwrap_or_else(State::new);
        let store = self.connection(by)?;
        let outcomes = if by == SERVER {
            as_a_server(store, certs)?
        } else {
            store.ingest(certs, Verification::Full, NOW.into())?
        };
        let expected: Vec<_> =
            copies.iter().map(|&(number, copy)| model.import(number, copy)).collect();
        let differs = outcomes != expected;
        Ok(differs.then(|| format!("expected {expected:?}, the import says {outcomes:?}")))
    }

    /// Cuts the power, or kills the process, at each sync, at the end of each operation, and at
    /// some times between.
    fn cut_everywhere(&mut self) -> Result<(), String> {
        self.close_all();
        let events = self.watched.0.events();
        let mut cuts: BTreeSet<usize> = self.phases.iter().map(|phase| phase.from).collect();
        for (at, event) in events.iter().enumerate() {
            if event.is_sync() {
                self.report.syncs += 1;
                cuts.insert(at);
            }
        }
        for _ in 0..cuts.len() / 4 {
            cuts.insert(self.numbers.below(events.len() + 1));
        }
        cuts.retain(|cut| *cut <= events.len());
        for cut in cuts {
            let fate = Fate::draw(&mut self.numbers);
            let seed = self.numbers.draw();
            self.cut(&events[..cut], fate, seed).map_err(|what| {
                format!(
                    "Cut after {cut} of {} events, fate {fate:?}: {what}\nBefore: {}\nAfter: {}\n",
                    events.len(),
                    brief(&events[..cut]),
                    brief(&events[cut..events.len().min(cut + 10)]),
                )
            })?;
        }
        Ok(())
    }

    /// Opens the files that a cut after `events` leaves.
    fn cut(&mut self, events: &[Event], fate: Fate, seed: u64) -> Result<(), String> {
        let mut numbers = Numbers::new(seed);
        let phase = self.phases.iter().rfind(|phase| phase.from <= events.len());
        let phase = phase.expect("the first phase begins with no event");
        let obeyed = self.syncs == Syncs::Obeyed;
        let files = image(&Files::new(), events, fate, obeyed, &mut numbers);
        self.report.cuts += 1;
        // The opening is cut, too.
        let again = numbers.percent(25);
        let (world, opening) = open(&files, &phase.possible, phase.building.as_ref(), again)?;
        if again {
            let cut = numbers.below(opening.len() + 1);
            let fate = Fate::draw(&mut numbers);
            let files = image(&files, &opening[..cut], fate, obeyed, &mut numbers);
            self.report.second_cuts += 1;
            let possible = [world];
            open(&files, &possible, None, false)
                .map_err(|what| format!("after a second cut, fate {fate:?}: {what}"))?;
        }
        Ok(())
    }
}

/// The last events without their bytes. Writes to one file that follow each other are one.
pub(crate) fn brief(events: &[Event]) -> String {
    const SHOWN: usize = 60;
    let mut all: Vec<String> = Vec::new();
    let mut written: Option<(FileId, usize)> = None;
    for event in events {
        let text = match event {
            Event::Write { file, .. } => {
                let count = match written {
                    Some((before, count)) if before == *file => {
                        all.pop();
                        count + 1
                    }
                    _ => 1,
                };
                written = Some((*file, count));
                all.push(format!("write {} {count} times", file.0));
                continue;
            }
            Event::Create { name, file, .. } => format!("create {name} as {}", file.0),
            Event::Resize { file, length } => format!("resize {} to {length}", file.0),
            Event::Sync { file } => format!("sync {}", file.0),
            Event::SyncFailed { file } => format!("fail to sync {}", file.0),
            Event::Remove { name } => format!("remove {name}"),
            Event::Rename { from, to } => format!("rename {from} to {to}"),
            Event::CreateFolder { name } => format!("make the folder {name}"),
            Event::SyncFolder { folder } if folder.is_empty() => "sync the folder".to_owned(),
            Event::SyncFolder { folder } => format!("sync the folder {folder}"),
        };
        written = None;
        all.push(text);
    }
    all[all.len().saturating_sub(SHOWN)..].join("; ")
}

/// The world that was found.
fn choose(candidates: &[World], found: &BTreeMap<String, Content>) -> Result<World, String> {
    if let Some(world) = candidates.iter().find(|world| world.is(found)) {
        return Ok(world.clone());
    }
    let differences: Vec<String> = candidates
        .iter()
        .map(|world| format!("  {}", world.differences(found).join("\n  ")))
        .collect();
    Err(format!("found none of the possible states:\n{}", differences.join("\n or\n")))
}

/// Opens all stores in an image, checks them, and returns their contents, which must be one of
/// `possible`. Then the store is written to. With `record`, returns the events on the files until
/// then.
fn open(
    files: &Files,
    possible: &[World],
    building: Option<&Operation>,
    record: bool,
) -> Result<(World, Vec<Event>), String> {
    let (_folder, path) = temporary_folder()?;
    for (name, content) in files {
        fs::write(path.join(name), content).map_err(|error| error.to_string())?;
    }
    let watched = if record { Watched::record(&path, files) } else { Watched::quietly(&path) };
    let names: BTreeSet<&String> = possible.iter().flat_map(|world| world.0.keys()).collect();
    let mut found = BTreeMap::new();
    for name in names {
        let path = path.join(name);
        if path.exists() {
            let content = inspect(&path).map_err(|error| format!("{name}: {error}"))?;
            found.insert(name.clone(), content);
        }
    }
    let world = choose(possible, &found)?;
    watched.0.list().map_err(|error| error.to_string())?;
    let events = watched.0.events();
    if let Some(Operation::Build { number, copies }) = building {
        let name = name_of("built", *number);
        if !world.0.contains_key(&name) {
            // The build goes on, or starts again.
            let target = path.join(name);
            build(&target, copies).map_err(|error| format!("building again: {error:?}"))?;
            let differences = built(copies).content.differences(&inspect(&target)?);
            if !differences.is_empty() {
                return Err(format!("built again: {differences:?}"));
            }
        }
    }
    if world.0.contains_key(MAIN) {
        let write = || {
            let mut store = Store::open(&path.join(MAIN), Access::Write)?;
            let before = store.log().last()?;
            store.ingest(vec![cert(CERTS).clone()], Verification::Full, NOW.into())?;
            Ok(store.log().last()?.since(before))
        };
        let changes = write().map_err(|error: StoreError| format!("writing: {error:?}"))?;
        if changes != 1 {
            return Err(format!("writing: {changes} changes for one new certificate"));
        }
    }
    Ok((world, events))
}

/// Opens a store and checks it.
fn inspect(path: &Path) -> Result<Content, String> {
    let run = || {
        let store = Store::open(path, Access::Write)?;
        Ok((store.check(Depth::Structure, |_| {})?, Content::of(&store)?))
    };
    let (report, content) = run().map_err(|error: StoreError| format!("{error:?}"))?;
    if report.is_clean() {
        Ok(content)
    } else {
        Err(format!("a check found {:?}", report.findings))
    }
}

fn binding(number: usize, policy: Policy) -> Binding {
    let (email, user_id) = address_of(number);
    Binding {
        fingerprint: cert(number).fingerprint(),
        email,
        user_id: user_id.to_vec(),
        time: i64::from(NOW),
        policy,
        effective: None,
        conflict: None,
    }
}

/// Builds a store of copies of certificates, in two batches, or goes on with it.
fn build(target: &Path, copies: &[(usize, Copy)]) -> Result<(), StoreError> {
    let mut options = BuildOptions::new(NOW.into());
    options.layout = layout();
    options.memory_bytes = 4096;
    let mut builder = Builder::start(target, "copies", options.clone())?;
    let certs: Vec<_> = copies.iter().map(|&(number, copy)| copy_of(number, copy)).collect();
    let middle = certs.len().div_ceil(2);
    for (batch, end) in [(&certs[..middle], middle), (&certs[middle..], certs.len())] {
        let reached = Position { input: 0, offset: end as u64 };
        if builder.position().offset < reached.offset {
            let raw: Vec<&[u8]> = batch.iter().map(talaria_cert::Cert::as_bytes).collect();
            let drafts = Builder::prepare(&options, &raw);
            let drafts: Vec<_> =
                drafts.into_iter().map(|draft| draft.expect("a valid certificate")).collect();
            builder.append(&drafts, reached)?;
        }
    }
    builder.finish(|_| {})?;
    Ok(())
}

/// Makes the store one of format 4 or 9, as an older version wrote it.
fn downgrade(path: &Path, format: u8) -> Result<(), StoreError> {
    let run = || -> rusqlite::Result<()> {
        let mut connection = Connection::open(path)?;
        let transaction =
            connection.transaction_with_behavior(rusqlite::TransactionBehavior::Immediate)?;
        write_former_sums(&transaction)?;
        transaction.execute_batch(
            "ALTER TABLE blob DROP COLUMN change; ALTER TABLE cert DROP COLUMN former;
             ALTER TABLE cert DROP COLUMN sum; ALTER TABLE meta DROP COLUMN sum;",
        )?;
        if format == 4 {
            transaction.execute_batch(
                "ALTER TABLE blob DROP COLUMN sum; ALTER TABLE blob DROP COLUMN digest;
                 DROP TABLE checksum; DROP TABLE set_aside; DROP INDEX published_email;",
            )?;
        }
        transaction.pragma_update(None, "user_version", format)?;
        transaction.commit()
    };
    run().map_err(|error| StoreError::Engine { path: path.to_owned(), source: error.into() })
}

/// Writes the checksums of certificates without the numbers of changes.
fn write_former_sums(connection: &Connection) -> rusqlite::Result<()> {
    let mut select =
        connection.prepare("SELECT id, digest, verdicts FROM blob WHERE change IS NOT NULL")?;
    let mut rows = select.query([])?;
    while let Some(row) = rows.next()? {
        let (id, digest, verdicts): (i64, Vec<u8>, Vec<u8>) =
            (row.get(0)?, row.get(1)?, row.get(2)?);
        let sum = talaria_cert::sha256(&[&id.to_be_bytes(), &digest, &verdicts]);
        let sum = i32::from_be_bytes(*sum.first_chunk().expect("32 bytes"));
        connection.execute("UPDATE blob SET sum = ?2 WHERE id = ?1", (id, sum))?;
    }
    Ok(())
}
