//! The folder of a log: opening, appending with one sync for all that wait, and reading records
//! again.

use std::ffi::OsString;
use std::fs::{self, File, TryLockError};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};
use std::{fmt, io};

use parking_lot::{Condvar, Mutex, MutexGuard};
use talaria_disk::{
    FolderLock, create_folder, folder_of, make_folder, sync_folder, try_sync_folder,
};

use super::announce::Announcer;
use super::bodies::{Bodies, FrameEntries};
use super::disk::Disk;
use super::error::LogError;
use super::file::{
    NODE_KEY, SEGMENTS, io, is_locked_soon, lock_file, new_segment_path, remove_new_segment,
    segment_path,
};
use super::index_file::{self, Age, End};
use super::instance;
use super::load::{Recovered, each_record, extend, load};
use crate::log::memory::Log;
use crate::log::outcome::Offered;
use crate::name::EntryId;
use crate::record::Signed;
use crate::segment::SEGMENT_BYTES;

/// A log in a folder. One process has it open at a time; its threads share it.
pub struct LogFolder {
    folder: PathBuf,
    id: EntryId,
    instance: [u8; 16],
    memory: Mutex<Memory>,
    /// The frame that was read last, for entries that are read in a row.
    pub(super) last_frame: Mutex<Option<FrameEntries>>,
    pub(super) bodies: Arc<Bodies>,
    pub(super) disk: Mutex<Disk>,
    /// Entries came to disk.
    grown: Condvar,
    pub(super) announcer: Announcer,
    recovered: Recovered,
    lock: File,
}

impl fmt::Debug for LogFolder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LogFolder")
            .field("folder", &self.folder)
            .field("id", &self.id)
            .finish_non_exhaustive()
    }
}

/// The log in memory, and the entries in it that are not on disk yet.
struct Memory {
    log: Log,
    pending: Vec<Signed>,
    /// The number of appends so far.
    appended: u64,
    /// The number of entries that are on disk.
    durable: u64,
    index: Age,
    failed: bool,
}

/// The names in a folder.
fn names_in(folder: &Path) -> Result<Vec<OsString>, LogError> {
    let entries = fs::read_dir(folder).map_err(io("read", folder))?;
    let names = entries.map(|entry| entry.map(|entry| entry.file_name()));
    names.collect::<io::Result<_>>().map_err(io("read", folder))
}

/// Whether the segments of a folder are what a creation has left that was cut off: they have no
/// first one.
fn is_cut_off(folder: &Path) -> Result<bool, LogError> {
    let new = new_segment_path(folder);
    Ok(names_in(&folder.join(SEGMENTS))?.iter().all(|name| new.ends_with(name)))
}

impl LogFolder {
    /// Makes a log that begins with a genesis entry, in a folder that does not exist, or has at
    /// most the key of the node and what is left of a creation that was cut off.
    ///
    /// # Errors
    ///
    /// [`LogError::Occupied`]; [`LogError::InUse`] if another process makes a log there;
    /// [`LogError::Genesis`] or [`LogError::Io`].
    pub fn create(folder: &Path, genesis: &Signed) -> Result<Self, LogError> {
        Log::begin(genesis)?;
        make_folder(folder, 0o777).map_err(io("make", folder))?;
        let made = FolderLock::try_take(folder).map_err(io("lock", folder))?;
        let Some(_made) = made else {
            return Err(LogError::InUse { path: folder.to_owned() });
        };
        for name in names_in(folder)? {
            if name != NODE_KEY && (name != SEGMENTS || !is_cut_off(folder)?) {
                return Err(LogError::Occupied { path: folder.to_owned() });
            }
        }
        let segments = folder.join(SEGMENTS);
        match create_folder(&segments, 0o777) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                remove_new_segment(folder)?;
            }
            created => created.map_err(io("make", &segments))?,
        }
        Disk::begin_log(folder, genesis)?;
        sync_folder(folder).map_err(io("write", folder))?;
        // A creation that was cut off can have made the folder.
        let above = folder_of(folder);
        try_sync_folder(above).map_err(io("write", above))?;
        Self::open(folder)
    }

    /// Whether there is a log in a folder.
    pub(super) fn is_there(folder: &Path) -> bool {
        segment_path(folder, 0).is_file()
    }

    /// Opens a log.
    ///
    /// Signatures are not checked again: they were before the entries were written.
    ///
    /// # Errors
    ///
    /// [`LogError::InUse`] if another process has the log open; [`LogError::NotALog`],
    /// [`LogError::Damaged`], [`LogError::Stored`] or [`LogError::Io`].
    pub fn open(folder: &Path) -> Result<Self, LogError> {
        Self::open_with(folder, |lock, path| {
            if is_locked_soon(lock).map_err(io("lock", path))? {
                return Ok(());
            }
            Err(LogError::InUse { path: folder.to_owned() })
        })
    }

    /// Opens a log as soon as no other process has it open. Calls `waits` once before it waits.
    ///
    /// # Errors
    ///
    /// As [`Self::open`], without [`LogError::InUse`].
    pub fn open_when_free(folder: &Path, waits: impl FnOnce()) -> Result<Self, LogError> {
        Self::open_with(folder, |lock, path| {
            waits();
            // A process that keeps the log open lends it to whoever has the turn.
            let (turn_path, turn) = lock_file(folder, "turn")?;
            turn.lock().map_err(io("lock", &turn_path))?;
            lock.lock().map_err(io("lock", path))
        })
    }

    fn open_with(
        folder: &Path,
        in_use: impl FnOnce(&File, &Path) -> Result<(), LogError>,
    ) -> Result<Self, LogError> {
        let not_a_log = || LogError::NotALog { path: folder.to_owned() };
        if !Self::is_there(folder) {
            return Err(not_a_log());
        }
        let (lock_path, lock) = lock_file(folder, "lock")?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => in_use(&lock, &lock_path)?,
            Err(TryLockError::Error(error)) => return Err(io("lock", &lock_path)(error)),
        }
        remove_new_segment(folder)?;
        let bodies = Arc::new(Bodies::new(folder));
        let found = index_file::load(folder);
        let indexed = found.as_ref().map_or(0, |(log, _)| log.len());
        let (log, end, recovered) = load(folder, found, &bodies)?.ok_or_else(not_a_log)?;
        let durable = log.len() as u64;
        let disk = Disk::open(folder, end, recovered)?;
        Ok(Self {
            folder: folder.to_owned(),
            id: log.id(),
            instance: instance::instance(folder)?,
            memory: Mutex::new(Memory {
                log,
                pending: Vec::new(),
                appended: 0,
                durable,
                index: Age::of(indexed, Instant::now()),
                failed: false,
            }),
            last_frame: Mutex::new(None),
            bodies,
            disk: Mutex::new(disk),
            grown: Condvar::new(),
            announcer: Announcer::default(),
            recovered,
            lock,
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

    /// The bytes that opening found behind the last whole group.
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
        self.disk.lock().syncs
    }

    /// The length of the log on disk in bytes, without the preallocated rest.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        let disk = self.disk.lock();
        disk.end.segment * SEGMENT_BYTES as u64 + disk.end.offset
    }

    /// Reads the log. It may have entries that other threads have not brought to disk yet.
    ///
    /// # Errors
    ///
    /// [`LogError::Io`] if a part of the log cannot be read from disk.
    pub fn read<T>(&self, read: impl FnOnce(&Log) -> T) -> Result<T, LogError> {
        let memory = self.memory.lock();
        let value = read(&memory.log);
        self.bodies.take_failure().map_or(Ok(value), Err)
    }

    /// Changes what the log in memory does for its users, and none of its entries.
    pub(super) fn configure<T>(&self, change: impl FnOnce(&mut Log) -> T) -> T {
        change(&mut self.memory.lock().log)
    }

    /// Removes the index. Another one is written in time.
    pub(super) fn remove_index(&self) -> Result<(), LogError> {
        self.memory.lock().index = Age::of(0, Instant::now());
        index_file::remove(&self.folder).map_err(io("remove the index of", &self.folder))
    }

    /// Refuses all later writes: the log on disk may be another one than that in memory.
    pub(super) fn fail(&self) {
        self.memory.lock().failed = true;
    }

    /// Changes the log in memory with `change`, which gives the entries that it has admitted, and
    /// brings them to disk.
    ///
    /// All threads that wait share one sync.
    ///
    /// # Errors
    ///
    /// The error of `change`, after which the log in memory must be as it was; [`LogError::Io`],
    /// after which the log must be opened again; [`LogError::Failed`] if an earlier call has failed
    /// in this way.
    pub fn append<T, E: From<LogError>>(
        &self,
        change: impl FnOnce(&mut Log) -> Result<(Vec<Signed>, T), E>,
    ) -> Result<T, E> {
        let (ticket, result) = {
            let mut memory = self.memory.lock();
            if memory.failed {
                return Err(LogError::Failed.into());
            }
            let before = memory.log.len();
            let changed = change(&mut memory.log);
            let events = memory.log.take_turns();
            if let Some(failure) = self.bodies.take_failure() {
                memory.failed = true;
                return Err(failure.into());
            }
            match changed {
                Ok((entries, result)) => {
                    memory.pending.extend(entries);
                    memory.appended += 1;
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

    /// Offers entries from elsewhere to the log, and brings those that are admitted to disk, and
    /// deletable values that came to entries without them. Returns what happened, with the number
    /// of the admitted ones.
    ///
    /// # Errors
    ///
    /// Those of [`Self::append`].
    pub(super) fn offer(
        &self,
        entries: Vec<Signed>,
        now_ms: u64,
    ) -> Result<(Offered, u64), LogError> {
        let (mut offered, added) = self.append(|log| {
            let mut offered = log.offer(entries, now_ms);
            let added = std::mem::take(&mut offered.added);
            let count = added.len() as u64;
            Ok::<_, LogError>((added, (offered, count)))
        })?;
        let mut again = Vec::new();
        // They are on disk now, with what proves them: that of a peer was not checked again.
        for (id, opening) in std::mem::take(&mut offered.revealed) {
            let signed = self.signed(&id)?.ok_or(LogError::Failed)?;
            offered.revealed.push((id, opening.clone()));
            again.push(Signed { opening: Some(opening), ..signed });
        }
        if !again.is_empty() {
            self.append(|log| {
                again.iter_mut().for_each(|signed| log.withhold(signed));
                again.retain(|signed| signed.opening.is_some());
                Ok::<_, LogError>((again, ()))
            })?;
        }
        Ok((offered, added))
    }

    /// Brings the entries of an append to disk, and those of all appends that wait. Returns the
    /// last append on disk.
    fn write_upto(&self, ticket: u64) -> Result<u64, LogError> {
        let mut disk = self.disk.lock();
        // The thread that had the disk before may have written for this one.
        if disk.done >= ticket {
            return Ok(disk.done);
        }
        let memory = self.memory.lock();
        let is_due = memory.index.is_due(memory.log.len());
        let mut memory = self.write_pending(&mut disk, memory, is_due)?;
        if is_due {
            // Without an index, opening takes longer: no reason to fail what is on disk already.
            let _ = self.save_index(&mut memory, &disk);
        }
        Ok(disk.done)
    }

    /// Brings the entries of all appends that wait to disk. Other threads add more meanwhile,
    /// unless the log in memory is to stay that on disk.
    fn write_pending<'a>(
        &'a self,
        disk: &mut Disk,
        mut memory: MutexGuard<'a, Memory>,
        stays: bool,
    ) -> Result<MutexGuard<'a, Memory>, LogError> {
        if memory.failed {
            return Err(LogError::Failed);
        }
        let (pending, upto) = (std::mem::take(&mut memory.pending), memory.appended);
        let kept = stays.then_some(memory);
        let written = disk.write(&self.folder, self.id, &pending);
        let mut memory = kept.unwrap_or_else(|| self.memory.lock());
        let locations = written.inspect_err(|_| memory.failed = true)?;
        let mut new = 0;
        for (signed, location) in pending.iter().zip(locations) {
            let at = memory.durable + new;
            let before = memory.log.stored_at(at, &signed.id, location);
            // Others are written again with a value that came later.
            new += u64::from(before.is_none());
        }
        memory.durable += new;
        self.grown.notify_all();
        disk.done = upto;
        Ok(memory)
    }

    /// The number of entries on disk: the first ones of the log.
    #[must_use]
    pub fn durable(&self) -> u64 {
        self.memory.lock().durable
    }

    /// Waits until there are more than `known` entries on disk, at most for `most`, and returns
    /// their number.
    pub fn wait_beyond(&self, known: u64, most: Duration) -> u64 {
        let mut memory = self.memory.lock();
        self.grown.wait_while_for(&mut memory, |memory| memory.durable <= known, most);
        memory.durable
    }

    /// Lets the processes have the log that wait for it ([`Self::open_when_free`]). Returns when
    /// they have ended, with their entries, and whether there was one. Other threads wait
    /// meanwhile.
    ///
    /// # Errors
    ///
    /// [`LogError::Failed`] if an earlier write has failed. If the log cannot be read on behind its
    /// end, the errors of [`Self::open`]; then it must be opened again.
    pub fn lend(&self) -> Result<bool, LogError> {
        let (turn_path, turn) = lock_file(&self.folder, "turn")?;
        match turn.try_lock() {
            Ok(()) => return Ok(false),
            Err(TryLockError::WouldBlock) => {}
            Err(TryLockError::Error(error)) => return Err(io("lock", &turn_path)(error)),
        }
        let mut disk = self.disk.lock();
        let mut memory = self.write_pending(&mut disk, self.memory.lock(), true)?;
        // Until the log is read on, that in memory is not the one on disk.
        memory.failed = true;
        let lock_path = self.folder.join("lock");
        self.lock.unlock().map_err(io("unlock", &lock_path))?;
        // Who has the turn gives it on as soon as it has the log.
        turn.lock().map_err(io("lock", &turn_path))?;
        self.lock.lock().map_err(io("lock", &lock_path))?;
        drop(turn);
        let from = if disk.end.is_there(&self.folder, self.id) {
            disk.end.clone()
        } else {
            // A compaction has written segments anew, with all entries at other places.
            *self.last_frame.lock() = None;
            self.bodies.forget();
            End::start()
        };
        let (end, recovered) = extend(&self.folder, from, &mut memory.log)?;
        self.bodies.take_failure().map_or(Ok(()), Err)?;
        // Some of what waits may have come this way. Peers send the rest again.
        memory.log.forget_waiting();
        memory.durable = memory.log.len() as u64;
        let (done, syncs) = (memory.appended + 1, disk.syncs);
        *disk = Disk { done, syncs, ..Disk::open(&self.folder, end, recovered)? };
        memory.failed = false;
        memory.appended = done;
        let events = memory.log.take_turns();
        self.announcer.add(done, events);
        drop((disk, memory));
        self.grown.notify_all();
        self.announcer.deliver(done);
        Ok(true)
    }

    /// Writes an index now, so that opening the log reads nothing else. The log writes one by
    /// itself when it has grown by 8,192 entries and a sixty-fourth: while entries are added unless
    /// the last one was written a short time ago, and when it is closed.
    ///
    /// # Errors
    ///
    /// [`LogError::Io`]; [`LogError::Failed`] if an earlier write has failed.
    pub fn write_index(&self) -> Result<(), LogError> {
        let mut disk = self.disk.lock();
        let mut memory = self.write_pending(&mut disk, self.memory.lock(), true)?;
        self.save_index(&mut memory, &disk).map_err(io("write the index of", &self.folder))
    }

    /// Writes an index. The log in memory is that on disk.
    fn save_index(&self, memory: &mut Memory, disk: &Disk) -> io::Result<()> {
        let started = Instant::now();
        let saved = if disk.end.is_behind_frame() {
            index_file::save(&self.folder, &memory.log, &disk.end)
        } else {
            Ok(())
        };
        memory.index = Age::of(memory.log.len(), started);
        saved
    }

    /// Removes a deleted value beside an entry that may leave this node.
    pub(super) fn withhold(&self, signed: &mut Signed) -> Result<(), LogError> {
        // Few entries have one.
        if signed.opening.is_some() { self.read(|log| log.withhold(signed)) } else { Ok(()) }
    }

    /// Reads the entries on disk again, with what proves them and the deletable values that are not
    /// deleted, in their order.
    ///
    /// # Errors
    ///
    /// The errors of [`Self::open`], and those of `see`. [`LogError::Damaged`] also if the last
    /// group is not whole any more: opening a log takes this for what a crash has left, but not
    /// this log, which has the group.
    pub fn each(
        &self,
        mut see: impl FnMut(Signed) -> Result<(), LogError>,
    ) -> Result<(), LogError> {
        let disk = self.disk.lock();
        // The number of entries so far, which are on disk in the order of their numbers.
        let mut next = 0;
        let (end, _) = each_record(&self.folder, End::start(), |_, mut signed, here| {
            let place = self.read(|log| {
                let number = log.number(&signed.id)?;
                Some((number, log.location(number)))
            })?;
            if let Some((number, location)) = place {
                if number < next {
                    // It stands here again with its value.
                    return Ok(());
                }
                next = number + 1;
                if location.is_some_and(|last| last != here) {
                    signed = self.signed(&signed.id)?.unwrap_or(signed);
                }
            }
            self.withhold(&mut signed)?;
            see(signed)
        })?;
        if end.frame < disk.end.frame {
            let path = segment_path(&self.folder, end.segment);
            return Err(LogError::Damaged { path, offset: end.offset });
        }
        Ok(())
    }
}

impl Drop for LogFolder {
    fn drop(&mut self) {
        let (disk, mut memory) = (self.disk.lock(), self.memory.lock());
        let is_on_disk = !memory.failed && disk.done == memory.appended;
        if is_on_disk && memory.index.is_old(memory.log.len()) {
            let _ = self.save_index(&mut memory, &disk);
        }
    }
}
