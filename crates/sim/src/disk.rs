//! The files that a power cut or a kill leaves behind.
//!
//! The rules are in the documentation of the crate.

use std::collections::{BTreeMap, BTreeSet};

use crate::numbers::Numbers;
use crate::record::{Event, FileId, folder_of, is_unnamed};

/// The unit in which a disk writes.
const SECTOR_BYTES: usize = 512;

/// The files of a folder and the folders in it, by name.
pub(crate) type Files = BTreeMap<String, Vec<u8>>;

/// The effect of a crash on writes and names that were not synced.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Fate {
    /// Everything is kept: only the process is gone.
    Kill,
    /// Everything is lost.
    Lost,
    /// Each is kept in so many of 100 cases; of writes that are kept, one in four is torn.
    Mixed(usize),
}

impl Fate {
    /// The fates, with mixed ones in half of the cases.
    pub(crate) fn draw(numbers: &mut Numbers) -> Self {
        match numbers.below(8) {
            0 | 1 => Self::Kill,
            2 | 3 => Self::Lost,
            4 => Self::Mixed(10),
            5 | 6 => Self::Mixed(50),
            _ => Self::Mixed(90),
        }
    }

    pub(crate) fn keeps(self, numbers: &mut Numbers) -> bool {
        match self {
            Self::Kill => true,
            Self::Lost => false,
            Self::Mixed(percent) => numbers.percent(percent),
        }
    }

    pub(crate) fn tears(self, numbers: &mut Numbers) -> bool {
        matches!(self, Self::Mixed(_)) && numbers.percent(25)
    }
}

/// A file on the disk.
#[derive(Debug, Default)]
struct File<'a> {
    content: Vec<u8>,
    /// Writes since the last sync.
    pending: Vec<&'a Event>,
}

impl<'a> File<'a> {
    fn apply(&mut self, event: &Event) {
        match event {
            Event::Write { offset, bytes, .. } => self.put(*offset, bytes),
            Event::Resize { length, .. } => {
                self.content.resize(usize::try_from(*length).expect("a small file"), 0);
            }
            _ => unreachable!("neither a write nor a truncation"),
        }
    }

    fn put(&mut self, offset: u64, bytes: &[u8]) {
        let start = usize::try_from(offset).expect("a small file");
        let end = start + bytes.len();
        if self.content.len() < end {
            self.content.resize(end, 0);
        }
        self.content[start..end].copy_from_slice(bytes);
    }

    /// Decides on a write that is not durable.
    fn decide(&mut self, event: &'a Event, fate: Fate, numbers: &mut Numbers) {
        if !fate.keeps(numbers) {
            return;
        }
        match event {
            Event::Write { offset, bytes, .. } if fate.tears(numbers) => {
                // Sectors are those of the disk and not of the write.
                let offset = usize::try_from(*offset).expect("a small file");
                let mut at = 0;
                while at < bytes.len() {
                    let end = bytes.len().min(at + SECTOR_BYTES - (offset + at) % SECTOR_BYTES);
                    if numbers.percent(50) {
                        self.put((offset + at) as u64, &bytes[at..end]);
                    }
                    at = end;
                }
            }
            event => self.apply(event),
        }
    }

    /// A sync: everything since the last one is durable.
    fn sync(&mut self) {
        for event in std::mem::take(&mut self.pending) {
            self.apply(event);
        }
    }
}

/// A step on names that is not durable.
#[derive(Clone, Debug)]
enum NameStep {
    Create(String, FileId),
    CreateFolder(String),
    Remove(String),
    Rename(String, String),
}

impl NameStep {
    fn names(&self) -> impl Iterator<Item = &String> {
        let (one, other) = match self {
            Self::Create(name, _) | Self::CreateFolder(name) | Self::Remove(name) => (name, None),
            Self::Rename(from, to) => (from, Some(to)),
        };
        std::iter::once(one).chain(other)
    }
}

/// The names of files and folders.
#[derive(Debug, Default)]
struct Names {
    durable: BTreeMap<String, FileId>,
    /// Folders that were made, and whether their names are durable.
    folders: BTreeMap<String, bool>,
    pending: Vec<NameStep>,
}

impl Names {
    /// A step becomes durable.
    fn apply(&mut self, step: NameStep) {
        match step {
            NameStep::Create(name, file) => {
                self.durable.insert(name, file);
            }
            NameStep::CreateFolder(name) => {
                self.folders.insert(name, true);
            }
            NameStep::Remove(name) => {
                self.durable.remove(&name);
            }
            NameStep::Rename(from, to) => {
                if let Some(file) = self.durable.remove(&from) {
                    self.durable.insert(to, file);
                }
            }
        }
    }

    /// Whether a name is durable, and those of all folders that lead to it.
    fn is_reachable(&self, name: &str) -> bool {
        let folder = folder_of(name);
        folder.is_empty()
            || self.folders.get(folder).is_none_or(|is_durable| *is_durable)
                && self.is_reachable(folder)
    }

    /// Applies the pending steps that `keeps` wants and those on which they depend: earlier ones on
    /// the same names.
    fn settle(&mut self, keeps: impl Fn(&NameStep) -> bool) {
        let mut wanted: BTreeSet<String> = BTreeSet::new();
        let mut kept = vec![false; self.pending.len()];
        for (step, kept) in self.pending.iter().zip(&mut kept).rev() {
            *kept = keeps(step) || step.names().any(|name| wanted.contains(name));
            if *kept {
                wanted.extend(step.names().cloned());
            }
        }
        let all = std::mem::take(&mut self.pending);
        for (step, kept) in all.into_iter().zip(kept) {
            if kept {
                self.apply(step);
            } else {
                self.pending.push(step);
            }
        }
    }

    /// Decides on the steps that are not durable. A step is lost if an earlier one on the same name
    /// is.
    fn decide(&mut self, fate: Fate, numbers: &mut Numbers) {
        let mut lost: BTreeSet<String> = BTreeSet::new();
        for step in std::mem::take(&mut self.pending) {
            let is_possible = !step.names().any(|name| lost.contains(name));
            if is_possible && fate.keeps(numbers) {
                self.apply(step);
            } else {
                lost.extend(step.names().cloned());
            }
        }
    }
}

/// The files after the events, of which those that were not synced meet `fate`. `before` was there
/// before the first event. With `syncs_count` false, the disk ignores all syncs, as some do.
pub(crate) fn image(
    before: &Files,
    events: &[Event],
    fate: Fate,
    syncs_count: bool,
    numbers: &mut Numbers,
) -> Files {
    let mut files: BTreeMap<FileId, File<'_>> = BTreeMap::new();
    let mut names = Names::default();
    for (at, (name, content)) in before.iter().enumerate() {
        files.insert(FileId(at), File { content: content.clone(), pending: Vec::new() });
        names.durable.insert(name.clone(), FileId(at));
    }
    for event in events {
        match event {
            Event::Create { name, file, content } => {
                files.insert(*file, File { content: content.clone(), pending: Vec::new() });
                names.pending.push(NameStep::Create(name.clone(), *file));
            }
            Event::Write { file, .. } | Event::Resize { file, .. } => {
                files.entry(*file).or_default().pending.push(event);
            }
            Event::Sync { file } if syncs_count => {
                files.entry(*file).or_default().sync();
                names.settle(|step| matches!(step, NameStep::Create(_, new) if new == file));
            }
            Event::Remove { name } => names.pending.push(NameStep::Remove(name.clone())),
            Event::Rename { from, to } => {
                names.pending.push(NameStep::Rename(from.clone(), to.clone()));
            }
            Event::CreateFolder { name } => {
                names.folders.insert(name.clone(), false);
                names.pending.push(NameStep::CreateFolder(name.clone()));
            }
            Event::SyncFolder { folder } if syncs_count => {
                names.settle(|step| step.names().any(|name| folder_of(name) == folder));
            }
            Event::Sync { .. } | Event::SyncFailed { .. } | Event::SyncFolder { .. } => {}
        }
    }
    names.decide(fate, numbers);
    for file in files.values_mut() {
        for event in std::mem::take(&mut file.pending) {
            file.decide(event, fate, numbers);
        }
    }
    let mut content = |file: &FileId| files.remove(file).map(|file| file.content);
    names
        .durable
        .iter()
        .filter(|(name, _)| !is_unnamed(name) && names.is_reachable(name))
        .map(|(name, file)| (name.clone(), content(file).unwrap_or_default()))
        .collect()
}
