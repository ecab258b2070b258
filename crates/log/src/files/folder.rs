//! The folder of a log: opening, appending with one sync for all that wait, and reading records again.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use rustix::fs::{FallocateFlags, fallocate};

use super::announce::Announcer;
use super::read::FrameEntries;
use super::segment::{
    FRAME_HEADER_OCTETS, FRAME_OCTETS_MAX, HEADER_OCTETS, SEGMENT_OCTETS, Tail, frame, header, scan,
};
use super::{LogError, instance};
use crate::graph::Location;
use crate::log::Log;
use crate::name::EntryId;
use crate::octets::{Fields, Malformed, write_part};
use crate::record::{RECORD_OCTETS_MAX, Signed, places, read_record, to_records};
use crate::refusal::Refusal;

/// A log in a folder. One process has it open at a time; its threads share it.
pub struct LogFolder {
    folder: PathBuf,
    id: EntryId,
    instance: [u8; 16],
    memory: Mutex<Memory>,
    /// The frame that was read last, for entries that are read in a row.
    pub(super) last_frame: Mutex<Option<FrameEntries>>,
    pub(super) disk: Mutex<Disk>,
    pub(super) announcer: Announcer,
    recovered: Recovered,
    _lock: File,
}

/// The log in memory, and the entries in it that are not on disk yet.
struct Memory {
    log: Log,
    pending: Vec<Signed>,
    /// The number of appends so far.
    appended: u64,
    failed: bool,
}

/// The end of the log on disk.
pub(super) struct Disk {
    pub(super) file: File,
    path: PathBuf,
    pub(super) segment: u64,
    pub(super) offset: u64,
    frame: u64,
    /// The number of appends that are on disk.
    done: u64,
    syncs: u64,
}

/// The octets that opening found behind the last whole group.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Recovered {
    /// Nothing.
    Clean,
    /// Octets of a group that a crash has cut off. They were never acknowledged, and are overwritten.
    Torn,
}

pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

pub(super) fn io(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> LogError + use<> {
    let path = path.to_owned();
    move |source| LogError::Io { action, path, source }
}

/// Brings the names in a folder to disk.
pub(super) fn sync_folder(folder: &Path) -> Result<(), LogError> {
    File::open(folder).and_then(|folder| folder.sync_all()).map_err(io("write", folder))
}

pub(super) fn segment_path(folder: &Path, number: u64) -> PathBuf {
    folder.join("segments").join(format!("{number:08}"))
}

impl LogFolder {
    /// Makes a log that begins with a genesis entry, in a folder that is empty or does not exist.
    ///
    /// # Errors
    ///
    /// [`LogError::Occupied`], [`LogError::Genesis`] or [`LogError::Io`].
    pub fn create(folder: &Path, genesis: &Signed) -> Result<Self, LogError> {
        Log::begin(genesis)?;
        fs::create_dir_all(folder).map_err(io("make", folder))?;
        let mut entries = fs::read_dir(folder).map_err(io("read", folder))?;
        if entries.next().is_some() {
            return Err(LogError::Occupied { path: folder.to_owned() });
        }
        let segments = folder.join("segments");
        fs::create_dir(&segments).map_err(io("make", &segments))?;
        let mut disk = Disk::begin(folder, 0, 0, genesis.id)?;
        disk.write(folder, genesis.id, std::slice::from_ref(genesis))?;
        sync_folder(folder)?;
        drop(disk);
        Self::open(folder)
    }

    /// Opens a log.
    ///
    /// Signatures are not checked again: they were before the entries were written.
    ///
    /// # Errors
    ///
    /// [`LogError::InUse`] if another process has the log open; [`LogError::NotALog`], [`LogError::Damaged`],
    /// [`LogError::Stored`] or [`LogError::Io`].
    pub fn open(folder: &Path) -> Result<Self, LogError> {
        Self::open_with(folder, || Err(LogError::InUse { path: folder.to_owned() }))
    }

    /// Opens a log as soon as no other process has it open. Calls `waits` once before it waits.
    ///
    /// # Errors
    ///
    /// As [`Self::open`], without [`LogError::InUse`].
    pub fn open_when_free(folder: &Path, waits: impl FnOnce()) -> Result<Self, LogError> {
        Self::open_with(folder, || {
            waits();
            Ok(())
        })
    }

    fn open_with(
        folder: &Path,
        in_use: impl FnOnce() -> Result<(), LogError>,
    ) -> Result<Self, LogError> {
        let not_a_log = || LogError::NotALog { path: folder.to_owned() };
        if !segment_path(folder, 0).is_file() {
            return Err(not_a_log());
        }
        let lock_path = folder.join("lock");
        let lock = OpenOptions::new().create(true).truncate(false).write(true).open(&lock_path);
        let lock = lock.map_err(io("open", &lock_path))?;
        if !is_locked_soon(&lock).map_err(io("lock", &lock_path))? {
            in_use()?;
            lock.lock().map_err(io("lock", &lock_path))?;
        }
        super::compact::clear(folder)?;
        let mut log: Option<Log> = None;
        let (end, recovered) = each_record(folder, |path, signed, location| {
            match &mut log {
                None => log = Some(Log::begin_own(signed.entry.clone(), signed.octets.len())?),
                Some(log) => log.restore(&signed).map_err(|refusal| LogError::Stored {
                    path: path.to_owned(),
                    id: signed.id,
                    refusal: Box::new(refusal),
                })?,
            }
            if let Some(log) = &mut log {
                log.stored(&signed.id, location);
            }
            Ok(())
        })?;
        let mut log = log.ok_or_else(not_a_log)?;
        log.settle();
        let path = segment_path(folder, end.segment);
        let file = OpenOptions::new().read(true).write(true).open(&path);
        let file = file.map_err(io("open", &path))?;
        let End { segment, offset, frame, .. } = end;
        let disk = Disk { file, path, segment, offset, frame, done: 0, syncs: 0 };
        if recovered == Recovered::Torn {
            disk.overwrite_rest()?;
        }
        Ok(Self {
            folder: folder.to_owned(),
            id: log.id(),
            instance: instance::instance(folder)?,
            memory: Mutex::new(Memory { log, pending: Vec::new(), appended: 0, failed: false }),
            last_frame: Mutex::new(None),
            disk: Mutex::new(disk),
            announcer: Announcer::default(),
            recovered,
            _lock: lock,
        })
    }

    /// The identity of the log.
    #[must_use]
    pub fn id(&self) -> EntryId {
        self.id
    }

    /// The device instance of this folder.
    #[must_use]
    pub fn instance(&self) -> [u8; 16] {
        self.instance
    }

    /// The octets that opening found behind the last whole group.
    #[must_use]
    pub fn recovered(&self) -> Recovered {
        self.recovered
    }

    /// The folder.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.folder
    }

    /// The number of syncs since the log was opened.
    #[must_use]
    pub fn syncs(&self) -> u64 {
        lock(&self.disk).syncs
    }

    /// The length of the log on disk in octets, without the preallocated rest.
    #[must_use]
    pub fn octets(&self) -> u64 {
        let disk = lock(&self.disk);
        disk.segment * SEGMENT_OCTETS as u64 + disk.offset
    }

    /// Reads the log. It may have entries that other threads have not brought to disk yet.
    ///
    /// # Errors
    ///
    /// [`LogError::Io`] if a part of the log cannot be read from disk.
    pub fn read<T>(&self, read: impl FnOnce(&Log) -> T) -> Result<T, LogError> {
        Ok(read(&lock(&self.memory).log))
    }

    /// Changes what the log in memory does for its users, and none of its entries.
    pub(super) fn configure(&self, change: impl FnOnce(&mut Log)) {
        change(&mut lock(&self.memory).log);
    }

    /// Refuses all later writes: the log on disk may be another one than that in memory.
    pub(super) fn fail(&self) {
        lock(&self.memory).failed = true;
    }

    /// Changes the log in memory with `change`, which gives the entries that it has admitted, and brings them to disk.
    ///
    /// All threads that wait share one sync.
    ///
    /// # Errors
    ///
    /// The error of `change`, after which the log in memory must be as it was; [`LogError::Io`], after which the log must
    /// be opened again; [`LogError::Failed`] if an earlier call has failed in this way.
    pub fn append<T, E: From<LogError>>(
        &self,
        change: impl FnOnce(&mut Log) -> Result<(Vec<Signed>, T), E>,
    ) -> Result<T, E> {
        let (ticket, result) = {
            let mut memory = lock(&self.memory);
            if memory.failed {
                return Err(LogError::Failed.into());
            }
            let before = memory.log.len();
            match change(&mut memory.log) {
                Ok((entries, result)) => {
                    memory.pending.extend(entries);
                    memory.appended += 1;
                    let events = memory.log.take_turns();
                    self.announcer.add(memory.appended, events);
                    (memory.appended, result)
                }
                Err(error) => {
                    // Entries that are admitted but not signed never leave.
                    memory.failed = memory.log.len() != before;
                    return Err(error);
                }
            }
        };
        let done = self.write_upto(ticket)?;
        self.announcer.deliver(done);
        Ok(result)
    }

    /// Brings the entries of an append to disk, and those of all appends that wait. Returns the last append on disk.
    fn write_upto(&self, ticket: u64) -> Result<u64, LogError> {
        let mut disk = lock(&self.disk);
        // The thread that had the disk before may have written for this one.
        if disk.done >= ticket {
            return Ok(disk.done);
        }
        let (pending, upto) = {
            let mut memory = lock(&self.memory);
            if memory.failed {
                return Err(LogError::Failed);
            }
            (std::mem::take(&mut memory.pending), memory.appended)
        };
        match disk.write(&self.folder, self.id, &pending) {
            Ok(locations) => {
                let mut memory = lock(&self.memory);
                for (signed, location) in pending.iter().zip(locations) {
                    memory.log.stored(&signed.id, location);
                }
            }
            Err(error) => {
                lock(&self.memory).failed = true;
                return Err(error);
            }
        }
        disk.done = upto;
        Ok(upto)
    }

    /// Removes a deleted value beside an entry that may leave this node.
    pub(super) fn withhold(&self, signed: &mut Signed) -> Result<(), LogError> {
        // Few entries have one.
        if signed.opening.is_some() { self.read(|log| log.withhold(signed)) } else { Ok(()) }
    }

    /// Reads the entries on disk again, with what proves them and the deletable values that are not deleted, in their order.
    ///
    /// # Errors
    ///
    /// The errors of [`Self::open`], and those of `see`.
    pub fn each(
        &self,
        mut see: impl FnMut(Signed) -> Result<(), LogError>,
    ) -> Result<(), LogError> {
        let _disk = lock(&self.disk);
        each_record(&self.folder, |_, mut signed, _| {
            self.withhold(&mut signed)?;
            see(signed)
        })
        .map(|_| ())
    }
}

/// The places of the entries of the record at `at` of a segment, in the frame at `frame`.
pub(super) fn locations(
    segment: u64,
    frame: usize,
    at: usize,
    record: &[u8],
) -> Result<Vec<Location>, Malformed> {
    // A segment has 16 MiB, and a log fewer than 2^32 of them.
    let short = |number: usize| u32::try_from(number).map_err(|_| Malformed::Field("place"));
    let segment = u32::try_from(segment).map_err(|_| Malformed::Field("number of a segment"))?;
    let (frame, at) = (short(frame)?, at);
    let place = |entry: Range<usize>| {
        let (octets, entry) = (short(entry.len())?, short(at + entry.start)?);
        Ok(Location { segment, frame, record: short(at)?, entry, octets })
    };
    places(record)?.into_iter().map(place).collect()
}

/// Locks a file if no other process has it locked. A process that is being started holds the files of its parent until it
/// runs its program, so a lock that was just given up can seem taken for a moment.
fn is_locked_soon(file: &File) -> io::Result<bool> {
    for pause_ms in [1, 4, 16, 64, 0] {
        match file.try_lock() {
            Ok(()) => return Ok(true),
            Err(TryLockError::WouldBlock) => thread::sleep(Duration::from_millis(pause_ms)),
            Err(TryLockError::Error(error)) => return Err(error),
        }
    }
    Ok(false)
}

/// The end of the last whole frame.
struct End {
    segment: u64,
    offset: u64,
    frame: u64,
    log: Option<EntryId>,
}

/// Calls a function with each entry on disk.
fn each_record(
    folder: &Path,
    mut see: impl FnMut(&Path, Signed, Location) -> Result<(), LogError>,
) -> Result<(End, Recovered), LogError> {
    let mut end = End { segment: 0, offset: 0, frame: 0, log: None };
    let mut recovered = Recovered::Clean;
    for number in 0.. {
        let path = segment_path(folder, number);
        let octets = match fs::read(&path) {
            Ok(octets) => octets,
            Err(error) if error.kind() == io::ErrorKind::NotFound && number > 0 => break,
            Err(error) => return Err(io("read", &path)(error)),
        };
        let damaged =
            |offset: usize| LogError::Damaged { path: path.clone(), offset: offset as u64 };
        // Only the last segment has a tail, and begins after all before it were whole.
        if recovered == Recovered::Torn {
            let path = segment_path(folder, number - 1);
            return Err(LogError::Damaged { path, offset: end.offset });
        }
        // A crash may come before the header of a new segment is on disk. Then there is nothing else.
        if number > 0 && octets.iter().all(|&octet| octet == 0) {
            fs::remove_file(&path).map_err(io("remove", &path))?;
            break;
        }
        let scan = scan(&octets, end.frame).map_err(|_| damaged(0))?;
        if scan.segment != number || end.log.is_some_and(|log| log != scan.log) {
            return Err(damaged(0));
        }
        match scan.tail {
            Tail::Clean => {}
            Tail::Torn => recovered = Recovered::Torn,
            Tail::Damaged => return Err(damaged(scan.end)),
        }
        for frame in &scan.frames {
            let mut fields = Fields(&octets[frame.payload.clone()]);
            while !fields.0.is_empty() {
                // The checksum is right, so this was written by another program or version.
                let wrong = |_| damaged(frame.payload.start);
                let record = fields.part(4, RECORD_OCTETS_MAX, "record").map_err(wrong)?;
                let at = frame.payload.end - fields.0.len() - record.len();
                let start = frame.payload.start - FRAME_HEADER_OCTETS;
                let locations = locations(number, start, at, record).map_err(wrong)?;
                let entries = read_record(record).map_err(wrong)?;
                for (signed, location) in entries.into_iter().zip(locations) {
                    if signed.log() != scan.log {
                        let refusal = Box::new(Refusal::OtherLog);
                        return Err(LogError::Stored {
                            path: path.clone(),
                            id: signed.id,
                            refusal,
                        });
                    }
                    see(&path, signed, location)?;
                }
            }
        }
        end = End {
            segment: number,
            offset: scan.end as u64,
            frame: end.frame + scan.frames.len() as u64,
            log: Some(scan.log),
        };
    }
    Ok((end, recovered))
}

impl Disk {
    /// Begins a segment.
    fn begin(folder: &Path, segment: u64, frame: u64, log: EntryId) -> Result<Self, LogError> {
        let path = segment_path(folder, segment);
        let file = OpenOptions::new().read(true).write(true).create_new(true).open(&path);
        let file = file.map_err(io("make", &path))?;
        // Blocks that are there already need no change of metadata with each sync.
        if fallocate(&file, FallocateFlags::empty(), 0, SEGMENT_OCTETS as u64).is_err() {
            file.set_len(SEGMENT_OCTETS as u64).map_err(io("make", &path))?;
        }
        file.write_all_at(&header(segment, log), 0).map_err(io("write", &path))?;
        file.sync_all().map_err(io("write", &path))?;
        sync_folder(&folder.join("segments"))?;
        let offset = HEADER_OCTETS as u64;
        Ok(Self { file, path, segment, offset, frame, done: 0, syncs: 0 })
    }

    /// Writes entries as one group, with one sync. Entries that do not fit into the segment go to the next one, in a group of
    /// their own. Gives the place of each entry.
    fn write(
        &mut self,
        folder: &Path,
        log: EntryId,
        entries: &[Signed],
    ) -> Result<Vec<Location>, LogError> {
        let mut places = Vec::with_capacity(entries.len());
        if entries.is_empty() {
            return Ok(places);
        }
        // Only a bug could write a record that has no places.
        let unplaced = |source| LogError::Unwritable { source };
        let mut records = Vec::new();
        to_records(entries, &mut records);
        let mut payloads: Vec<Vec<u8>> = Vec::new();
        for record in &records {
            match payloads.last_mut() {
                Some(last) if last.len() + 4 + record.len() <= FRAME_OCTETS_MAX / 4 => {
                    write_part(last, 4, record);
                }
                _ => {
                    let mut payload = Vec::with_capacity(record.len() + 4);
                    write_part(&mut payload, 4, record);
                    payloads.push(payload);
                }
            }
        }
        let (mut group, mut at) = (self.frame, self.offset);
        let mut octets = Vec::new();
        for payload in payloads {
            let length = (FRAME_HEADER_OCTETS + payload.len()) as u64;
            if at + octets.len() as u64 + length > SEGMENT_OCTETS as u64 {
                self.put(at, &octets)?;
                let (done, syncs, frame) = (self.done, self.syncs, self.frame);
                *self = Self { done, syncs, ..Self::begin(folder, self.segment + 1, frame, log)? };
                (group, at) = (self.frame, self.offset);
                octets.clear();
            }
            let start = usize::try_from(at).unwrap_or(usize::MAX).saturating_add(octets.len());
            let mut fields = Fields(&payload);
            while !fields.0.is_empty() {
                let record = fields.part(4, RECORD_OCTETS_MAX, "record").map_err(unplaced)?;
                let behind = payload.len() - fields.0.len() - record.len();
                let at = start + FRAME_HEADER_OCTETS + behind;
                places.extend(locations(self.segment, start, at, record).map_err(unplaced)?);
            }
            octets.extend(frame(log, self.segment, self.frame, group, &payload));
            self.frame += 1;
        }
        self.put(at, &octets)?;
        Ok(places)
    }

    fn put(&mut self, at: u64, octets: &[u8]) -> Result<(), LogError> {
        if octets.is_empty() {
            return Ok(());
        }
        self.file.write_all_at(octets, at).map_err(io("write", &self.path))?;
        self.file.sync_data().map_err(io("write", &self.path))?;
        self.offset = at + octets.len() as u64;
        self.syncs += 1;
        Ok(())
    }

    /// Overwrites the octets that a crash has left behind the last whole group.
    fn overwrite_rest(&self) -> Result<(), LogError> {
        let zeros = vec![0; 1 << 16];
        let mut at = self.offset;
        while at < SEGMENT_OCTETS as u64 {
            let length = (SEGMENT_OCTETS as u64 - at).min(zeros.len() as u64);
            let zeros = &zeros[..usize::try_from(length).unwrap_or(zeros.len())];
            self.file.write_all_at(zeros, at).map_err(io("write", &self.path))?;
            at += length;
        }
        self.file.sync_data().map_err(io("write", &self.path))
    }
}
