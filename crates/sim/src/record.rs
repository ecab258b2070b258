//! Recording what happens to the files of a folder and the folders in it, and faults.
//!
//! Names are paths from the folder on. A file without a name has a name that starts with `#`.

use std::collections::{BTreeMap, HashMap};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock};

use parking_lot::{Mutex, MutexGuard, RwLock};
use talaria_disk::FileStep;

/// A file, whatever its name. Numbers are not used again.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(crate) struct FileId(pub(crate) usize);

/// A step on a file or a name.
#[derive(Clone, Debug)]
pub(crate) enum Event {
    /// A new file appeared, with this content.
    Create { name: String, file: FileId, content: Vec<u8> },
    /// Bytes were written.
    Write { file: FileId, offset: u64, bytes: Vec<u8> },
    /// A file was cut or extended with zeros.
    Resize { file: FileId, length: u64 },
    /// A file was synced.
    Sync { file: FileId },
    /// A sync failed.
    SyncFailed { file: FileId },
    /// A folder was made.
    CreateFolder { name: String },
    /// A name was removed.
    Remove { name: String },
    /// A file got another name.
    Rename { from: String, to: String },
    /// The names in a folder were synced. The outermost one has an empty name.
    SyncFolder { folder: String },
}

impl Event {
    /// Whether the event is a sync, or an attempt.
    pub(crate) fn is_sync(&self) -> bool {
        matches!(self, Self::Sync { .. } | Self::SyncFailed { .. } | Self::SyncFolder { .. })
    }
}

/// An operation on files that can fail.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Step {
    Open,
    Write { file: FileId, end: u64 },
    Resize { file: FileId, length: u64 },
    Sync,
    Remove,
    Rename,
}

/// The kind of a failure.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Fault {
    /// The disk reports an error, once.
    Broken,
    /// The disk has no room from now on. A write is done in part.
    Full,
}

/// The steps that fail: a run of steps, one after the other.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct FaultPlan {
    /// The kind of failure. A full disk refuses only steps that need room.
    pub(crate) fault: Fault,
    /// Only syncs fail.
    pub(crate) only_syncs: bool,
    /// The steps before the first one that fails.
    pub(crate) after: u64,
    /// The number of steps that fail.
    pub(crate) count: u64,
}

#[derive(Debug, Default)]
struct Recording {
    events: Vec<Event>,
    /// The file of each name.
    names: BTreeMap<String, FileId>,
    /// Length of each file.
    lengths: Vec<u64>,
    plan: Option<FaultPlan>,
    failed: u64,
}

impl Recording {
    fn file(&mut self, length: u64) -> FileId {
        self.lengths.push(length);
        FileId(self.lengths.len() - 1)
    }

    fn create(&mut self, name: &str, content: Vec<u8>) -> FileId {
        let file = self.file(content.len() as u64);
        self.names.insert(name.to_owned(), file);
        self.events.push(Event::Create { name: name.to_owned(), file, content });
        file
    }

    fn synced(&mut self, folder: &str) {
        self.events.push(Event::SyncFolder { folder: folder.to_owned() });
    }

    fn remove(&mut self, name: &str) {
        if self.names.remove(name).is_some() {
            self.events.push(Event::Remove { name: name.to_owned() });
        }
    }
}

/// Records the steps on files of one folder, and of the folders in it.
#[derive(Debug)]
pub(crate) struct Recorder {
    folder: PathBuf,
    /// Nothing is recorded, and nothing fails. Syncs are left out.
    is_quiet: bool,
    recording: Mutex<Recording>,
}

/// The recorders of folders.
static FOLDERS: LazyLock<RwLock<HashMap<PathBuf, Arc<Recorder>>>> = LazyLock::new(RwLock::default);

/// The recorder of a file, and the name of the file.
pub(crate) fn recorder_of(path: &Path) -> Option<(Arc<Recorder>, String)> {
    recorder_of_folder(path).filter(|(_, name)| !name.is_empty())
}

/// The recorder of a folder or file, and its name. The name is empty for the folder that the
/// recorder was made for.
fn recorder_of_folder(path: &Path) -> Option<(Arc<Recorder>, String)> {
    let folders = FOLDERS.read();
    let recorder = path.ancestors().find_map(|folder| folders.get(folder))?;
    let name = path.strip_prefix(&recorder.folder).ok()?.to_str()?;
    Some((Arc::clone(recorder), name.to_owned()))
}

/// The folder of a name.
pub(crate) fn folder_of(name: &str) -> &str {
    name.rsplit_once('/').map_or("", |(folder, _)| folder)
}

/// Whether this is the name of a file without a name.
pub(crate) fn is_unnamed(name: &str) -> bool {
    name.rsplit('/').next().is_some_and(|last| last.starts_with('#'))
}

/// A folder with a recorder, until this value is dropped.
#[derive(Debug)]
pub(crate) struct Watched(pub(crate) Arc<Recorder>);

impl Watched {
    /// Records everything in `folder`, which holds the files `present`. Their numbers are in the
    /// order of their names.
    pub(crate) fn record(folder: &Path, present: &BTreeMap<String, Vec<u8>>) -> Self {
        Self::watch(folder, false, present)
    }

    /// Leaves out syncs in `folder`.
    pub(crate) fn quietly(folder: &Path) -> Self {
        Self::watch(folder, true, &BTreeMap::new())
    }

    fn watch(folder: &Path, is_quiet: bool, present: &BTreeMap<String, Vec<u8>>) -> Self {
        let mut recording = Recording::default();
        for (name, content) in present {
            let file = recording.file(content.len() as u64);
            recording.names.insert(name.clone(), file);
        }
        let recorder =
            Recorder { folder: folder.to_owned(), is_quiet, recording: Mutex::new(recording) };
        let recorder = Arc::new(recorder);
        let mut folders = FOLDERS.write();
        folders.insert(folder.to_owned(), Arc::clone(&recorder));
        Self(recorder)
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        FOLDERS.write().remove(&self.0.folder);
    }
}

impl Recorder {
    fn recording(&self) -> MutexGuard<'_, Recording> {
        self.recording.lock()
    }

    /// Lets steps fail from now on, or no longer. Returns how many steps have failed since the last
    /// call.
    pub(crate) fn plan(&self, plan: Option<FaultPlan>) -> u64 {
        let mut recording = self.recording();
        recording.plan = plan;
        std::mem::take(&mut recording.failed)
    }

    /// Whether this step fails.
    pub(crate) fn fault(&self, step: Step) -> Option<Fault> {
        let mut recording = self.recording();
        let plan = recording.plan?;
        let length = |file: FileId| recording.lengths[file.0];
        let can_fail = match (plan.fault, step) {
            (Fault::Broken, Step::Sync) => true,
            (Fault::Broken, _) => !plan.only_syncs,
            (Fault::Full, Step::Write { file, end }) => end > length(file),
            (Fault::Full, Step::Resize { file, length: to }) => to > length(file),
            (Fault::Full, Step::Open | Step::Sync | Step::Remove | Step::Rename) => false,
        };
        let left = recording.plan.as_mut().filter(|_| can_fail)?;
        if left.after > 0 {
            left.after -= 1;
            return None;
        }
        if left.count == 0 {
            return None;
        }
        left.count -= 1;
        recording.failed += 1;
        Some(plan.fault)
    }

    /// Number of events so far.
    pub(crate) fn position(&self) -> usize {
        self.recording().events.len()
    }

    /// The events so far.
    pub(crate) fn events(&self) -> Vec<Event> {
        self.recording().events.clone()
    }

    /// The file that was opened by this name.
    pub(crate) fn opened(&self, name: &str) -> FileId {
        let mut recording = self.recording();
        if let Some(&file) = recording.names.get(name) {
            return file;
        }
        if self.is_quiet {
            return recording.create(name, Vec::new());
        }
        // A file that was made without SQLite is still empty, or was written by nobody that is
        // recorded.
        let content = std::fs::read(self.folder.join(name)).unwrap_or_default();
        recording.create(name, content)
    }

    fn push(&self, event: Event) {
        if !self.is_quiet {
            self.recording().events.push(event);
        }
    }

    pub(crate) fn written(&self, file: FileId, offset: u64, bytes: &[u8]) {
        let mut recording = self.recording();
        let end = offset + bytes.len() as u64;
        let length = &mut recording.lengths[file.0];
        *length = end.max(*length);
        if !self.is_quiet {
            recording.events.push(Event::Write { file, offset, bytes: bytes.to_vec() });
        }
    }

    /// Notes the length of a file, if it is another one.
    pub(crate) fn resized(&self, file: FileId, length: u64) {
        let before = std::mem::replace(&mut self.recording().lengths[file.0], length);
        if before != length {
            self.push(Event::Resize { file, length });
        }
    }

    pub(crate) fn synced(&self, file: FileId) {
        self.push(Event::Sync { file });
    }

    pub(crate) fn sync_failed(&self, file: FileId) {
        self.push(Event::SyncFailed { file });
    }

    pub(crate) fn folder_synced(&self, folder: &str) {
        if !self.is_quiet {
            self.recording().synced(folder);
        }
    }

    /// An empty file was made by this name, or the file of this name was emptied.
    fn created(&self, name: &str) {
        let mut recording = self.recording();
        let known = recording.names.get(name).copied().filter(|_| !is_unnamed(name));
        let Some(file) = known else {
            recording.create(name, Vec::new());
            return;
        };
        drop(recording);
        self.resized(file, 0);
    }

    pub(crate) fn removed(&self, name: &str) {
        self.recording().remove(name);
    }

    fn renamed(&self, from: &str, to: &str) {
        let mut recording = self.recording();
        if let Some(file) = recording.names.remove(from) {
            recording.names.insert(to.to_owned(), file);
            recording.events.push(Event::Rename { from: from.to_owned(), to: to.to_owned() });
        }
    }

    /// Records names that have come or gone without having been seen.
    pub(crate) fn list(&self) -> io::Result<()> {
        let there = files_in(&self.folder)?;
        let mut recording = self.recording();
        let gone = recording.names.keys();
        let gone = gone.filter(|name| !there.contains_key(*name) && !is_unnamed(name));
        for name in gone.cloned().collect::<Vec<_>>() {
            recording.remove(&name);
        }
        for (name, path) in there {
            if !recording.names.contains_key(&name) {
                recording.create(&name, std::fs::read(path)?);
            }
        }
        Ok(())
    }
}

/// The recorded files in a folder and the folders in it, by name.
pub(crate) fn files_in(folder: &Path) -> io::Result<BTreeMap<String, PathBuf>> {
    let mut files = BTreeMap::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(next) = folders.pop() {
        for entry in std::fs::read_dir(next)? {
            let entry = entry?;
            let path = entry.path();
            if entry.file_type()?.is_dir() {
                folders.push(path);
                continue;
            }
            let name = path.strip_prefix(folder).ok().and_then(Path::to_str);
            if let Some(name) = name.filter(|name| is_recorded(name)) {
                files.insert(name.to_owned(), path.clone());
            }
        }
    }
    Ok(files)
}

/// Whether steps on a file of this name are recorded. The index of a log is made again after a
/// crash.
fn is_recorded(name: &str) -> bool {
    !name.ends_with("-shm")
}

/// Records a step that talaria takes without SQLite.
pub(crate) fn witness(
    step: FileStep<'_>,
    action: &mut dyn FnMut() -> io::Result<()>,
) -> io::Result<()> {
    let (FileStep::Create(path)
    | FileStep::CreateFolder(path)
    | FileStep::Write { path, .. }
    | FileStep::Resize { path, .. }
    | FileStep::Sync(path)
    | FileStep::Rename { from: path, .. }
    | FileStep::Remove(path)
    | FileStep::SyncFolder(path)) = step;
    let Some((recorder, name)) = recorder_of_folder(path).filter(|(_, name)| is_recorded(name))
    else {
        return action();
    };
    let fails = |step: Step| match recorder.fault(step) {
        None => Ok(()),
        Some(Fault::Full) => Err(io::ErrorKind::StorageFull.into()),
        Some(Fault::Broken) => Err(io::Error::other("simulated")),
    };
    // A step on a file that is not there cannot be simulated to fail.
    let is_there = path.exists() || is_unnamed(&name);
    match step {
        FileStep::Create(_) => {
            fails(Step::Open)?;
            action()?;
            recorder.created(&name);
        }
        FileStep::CreateFolder(_) => {
            fails(Step::Open)?;
            action()?;
            recorder.push(Event::CreateFolder { name });
        }
        FileStep::Write { offset, parts, .. } => {
            let file = recorder.opened(&name);
            let bytes: Vec<u8> = parts.iter().flat_map(|part| part.iter().copied()).collect();
            fails(Step::Write { file, end: offset + bytes.len() as u64 })?;
            action()?;
            recorder.written(file, offset, &bytes);
        }
        FileStep::Resize { length, .. } => {
            let file = recorder.opened(&name);
            fails(Step::Write { file, end: length })?;
            action()?;
            recorder.resized(file, length);
        }
        FileStep::Sync(_) => {
            let file = recorder.opened(&name);
            if is_there && let Err(error) = fails(Step::Sync) {
                recorder.sync_failed(file);
                return Err(error);
            }
            recorder.synced(file);
        }
        FileStep::Rename { to, .. } => {
            if is_there {
                fails(Step::Rename)?;
            }
            action()?;
            if let Some((_, to)) = recorder_of(to) {
                recorder.renamed(&name, &to);
            }
        }
        FileStep::Remove(_) => {
            if is_there {
                fails(Step::Remove)?;
            }
            action()?;
            recorder.removed(&name);
        }
        FileStep::SyncFolder(_) => {
            fails(Step::Sync)?;
            recorder.folder_synced(&name);
        }
    }
    Ok(())
}
