//! Restore drills: a snapshot is read as a restore reads it, and a signed record says so.

use std::fmt::Write as _;
use std::num::NonZero;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use crossbeam_channel::bounded;
use talaria_message::SigningKey;
use talaria_message::openpgp::Fingerprint;

use crate::chunks::ReadChunks;
use crate::config::fingerprint;
use crate::entry::{Entry, Extent, Node};
use crate::error::{BackupError, Result};
use crate::forgotten::SnapshotName;
use crate::id::{Kind, RepositoryId};
use crate::progress::BackupProgress;
use crate::repository::{Keys, Repository, random};
use crate::signed::Header;
use crate::text::{Lines, Place, escaped, unescaped};
use crate::tree::{ContentParts, Finder, Tree};

/// The folder of records.
const DRILLS: &str = "drills";
const DOMAIN: &str = "talaria backup drill";
/// Files that a thread takes at once.
const BATCH: usize = 32;

/// A record of a drill.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Drill {
    /// The reader who did it, and signed.
    pub reader: Fingerprint,
    /// The time when it ended, in seconds since 1970.
    pub time: u32,
    /// The machine.
    pub host: Vec<u8>,
    /// The snapshot.
    pub snapshot: SnapshotName,
    /// The share of files that were read, in per cent.
    pub sample: u8,
    /// The counts of what was read.
    pub read: Rehearsed,
}

/// The counts of a drill.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Rehearsed {
    /// Entries of the tree: all of them, whatever the sample.
    pub entries: u64,
    /// Files whose whole content was read.
    pub files: u64,
    /// Bytes of these files.
    pub bytes: u64,
    /// Files and parts of the tree that could not be read.
    pub failed: u64,
}

impl Drill {
    fn text(&self, repository: RepositoryId, header: Header) -> String {
        let Self { reader, host, snapshot, sample, read, .. } = self;
        let mut out = header.text(DOMAIN, repository);
        let _ = writeln!(out, "reader {}", reader.to_hex());
        let _ = writeln!(out, "host {}", escaped(host, Place::Last));
        let _ = writeln!(out, "snapshot {}", snapshot.fields());
        for (keyword, number) in [
            ("sample", u64::from(*sample)),
            ("entries", read.entries),
            ("files", read.files),
            ("bytes", read.bytes),
            ("failed", read.failed),
        ] {
            let _ = writeln!(out, "{keyword} {number}");
        }
        out
    }
}

/// The drill in the record with this text.
///
/// # Errors
///
/// [`Damaged`](BackupError::Damaged) with the reason; [`Newer`](BackupError::Newer).
pub fn parse_drill(name: &str, text: &[u8], repository: RepositoryId) -> Result<Drill> {
    fn number(lines: &mut Lines<'_>, keyword: &str) -> Result<u64> {
        let text = lines.one(keyword)?;
        text.parse().map_err(|_| lines.damaged(&format!("\"{keyword}\" has no number")))
    }
    let id = repository.to_string();
    let mut lines = Lines::open(name, text, DOMAIN, Some(&id))?;
    let header = Header::read(&mut lines)?;
    let reader = fingerprint(lines.one("reader")?);
    let reader = reader.ok_or_else(|| lines.damaged("its reader is no fingerprint"))?;
    let host = unescaped(lines.one("host")?, Place::Last);
    let host = host.ok_or_else(|| lines.damaged("its host has a wrong escape"))?;
    let snapshot = SnapshotName::parse(lines.one("snapshot")?);
    let snapshot = snapshot.ok_or_else(|| lines.damaged("its snapshot cannot be read"))?;
    let sample = u8::try_from(number(&mut lines, "sample")?).ok();
    let sample = sample.filter(|sample| (1..=100).contains(sample));
    let sample = sample.ok_or_else(|| lines.damaged("its sample is no share"))?;
    let read = Rehearsed {
        entries: number(&mut lines, "entries")?,
        files: number(&mut lines, "files")?,
        bytes: number(&mut lines, "bytes")?,
        failed: number(&mut lines, "failed")?,
    };
    lines.end()?;
    let drill = Drill { reader, time: header.time, host, snapshot, sample, read };
    if drill.text(repository, header).as_bytes() != text {
        return Err(BackupError::damaged(name, "its lines are not in the form of the format"));
    }
    Ok(drill)
}

/// Reads a snapshot as a restore does, and writes nothing: the whole tree, and the whole content of
/// `sample` per cent of its files, which are chosen anew each time. Every chunk is decrypted,
/// decompressed and compared with its identifier.
///
/// `tell` gets the paths that could not be read; the path is empty for a part of the tree. It is
/// called by several threads. `threads` is 0 for one per core.
///
/// # Errors
///
/// [`Damaged`](BackupError::Damaged) if the tree breaks a rule of the format;
/// [`Cancelled`](BackupError::Cancelled).
pub fn rehearse(
    tree: &Tree<'_>,
    sample: u8,
    threads: usize,
    progress: &BackupProgress,
    tell: &(dyn Fn(&[u8], BackupError) + Sync),
) -> Result<Rehearsed> {
    let mut seed = [0; 32];
    random(&mut seed[..16])?;
    let is_chosen = |path: &[u8]| {
        let hash = blake3::keyed_hash(&seed, path);
        let (start, _) = hash.as_bytes().split_first_chunk().expect("a hash has 32 bytes");
        u64::from_le_bytes(*start) % 100 < u64::from(sample)
    };
    let threads = match threads {
        0 => thread::available_parallelism().map_or(1, NonZero::get),
        threads => threads,
    };
    let (files, bytes, failed) = (AtomicU64::new(0), AtomicU64::new(0), AtomicU64::new(0));
    let fail = |path: &[u8], error: BackupError| {
        failed.fetch_add(1, Ordering::Relaxed);
        tell(path, error);
    };
    let read =
        |path: &[u8], content: &[Extent]| match read_content(tree.chunks(), content, progress) {
            Ok(read) => {
                files.fetch_add(1, Ordering::Relaxed);
                bytes.fetch_add(read, Ordering::Relaxed);
            }
            Err(BackupError::Cancelled) => {}
            Err(error) => fail(path, error),
        };
    let mut entries = 0;
    thread::scope(|scope| {
        let (jobs, queue) = bounded::<Vec<(Vec<u8>, Vec<Extent>)>>(2 * threads);
        for _ in 0..threads {
            let (read, queue) = (&read, queue.clone());
            scope.spawn(move || {
                for (path, content) in queue.iter().flatten() {
                    read(&path, &content);
                }
            });
        }
        drop(queue);
        let mut finder = Finder::new(*tree);
        let mut batch = Vec::new();
        let mut all = tree.entries();
        while let Some(entry) = all.next() {
            progress.go_on()?;
            let Entry { path, node } = match entry {
                Ok(entry) => entry,
                Err(error) if all.is_refused() => return Err(error),
                Err(error) => {
                    fail(&[], error);
                    continue;
                }
            };
            entries += 1;
            BackupProgress::add(&progress.entries, 1);
            match node {
                Node::File { content, .. } if is_chosen(&path) => batch.push((path, content)),
                Node::HardLink { first } if !matches!(finder.get(&first), Ok(Some(_))) => {
                    let why = "it is not in the tree";
                    fail(&path, BackupError::damaged("its first link", why));
                }
                _ => {}
            }
            if batch.len() == BATCH {
                jobs.send(std::mem::take(&mut batch)).expect("the threads wait for more");
            }
        }
        jobs.send(batch).expect("the threads wait for more");
        Ok(())
    })?;
    progress.go_on()?;
    Ok(Rehearsed {
        entries,
        files: files.into_inner(),
        bytes: bytes.into_inner(),
        failed: failed.into_inner(),
    })
}

/// Reads a content; its length.
fn read_content(
    chunks: &dyn ReadChunks,
    content: &[Extent],
    progress: &BackupProgress,
) -> Result<u64> {
    let mut bytes = 0;
    for part in ContentParts::new(chunks, content.to_vec()) {
        progress.go_on()?;
        let part = part?;
        let length = part.length();
        if let Extent::Data { id, offset, .. } = part {
            let chunk = chunks.read_shared(Kind::Data, &id)?;
            if offset.checked_add(length).is_none_or(|end| end > chunk.len() as u64) {
                let why = "it is shorter than a reference to it says";
                return Err(BackupError::damaged(format!("data {id}"), why));
            }
        }
        bytes += length;
        BackupProgress::add(&progress.bytes, length);
    }
    Ok(bytes)
}

impl Repository {
    /// Writes the record of a drill, signed by its reader. It is durable when this returns.
    ///
    /// # Errors
    ///
    /// [`BackupError::Refused`] if the drill's reader is none; errors of the key and of the
    /// storage.
    pub fn record_drill(&self, keys: &Keys, drill: &Drill, signer: &mut SigningKey) -> Result<()> {
        if !self.may_drill(&drill.reader) {
            return Err(BackupError::Refused(format!(
                "{} is not a reader of this repository: its drill would not count",
                drill.reader.to_hex()
            )));
        }
        let text = drill.text(self.id(), Header::new(drill.time)?);
        self.write_signed(keys, DRILLS, &text, Some(signer), drill.time)?;
        Ok(())
    }

    /// The drills whose readers signed for them, oldest first, and the records that cannot be read.
    ///
    /// # Errors
    ///
    /// Errors of the storage.
    pub fn drills(&self, keys: &Keys, now: u32) -> Result<(Vec<Drill>, Vec<BackupError>)> {
        let mut drills = Vec::new();
        let unreadable = self.read_signed(keys, DRILLS, now, &mut |signed| {
            let drill = parse_drill(&signed.name, signed.text(), self.id())?;
            let is_own = |signer: &Fingerprint| *signer == drill.reader && self.may_drill(signer);
            if signed.signer(is_own).is_some() {
                drills.push(drill);
            }
            Ok(())
        })?;
        drills.sort_by_key(|drill| drill.time);
        Ok((drills, unreadable))
    }

    /// Only a reader can have read files.
    fn may_drill(&self, name: &Fingerprint) -> bool {
        self.config().readers.contains(name) || self.config().owner == *name
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::id::Id;

    const REPOSITORY: RepositoryId = RepositoryId([2; 16]);
    const HEADER: Header = Header { nonce: [5; 16], time: 1_795_381_506 };

    proptest! {
        #[test]
        fn a_record_comes_back_and_has_one_text(
            reader: [u8; 20], host: Vec<u8>, number: u64, id: [u8; 32], sample in 1..=100_u8,
            counts: [u64; 4], at in any::<proptest::sample::Index>(), byte: u8,
        ) {
            let [entries, files, bytes, failed] = counts;
            let drill = Drill {
                reader: Fingerprint::from_bytes(4, &reader).unwrap(),
                time: HEADER.time,
                host,
                snapshot: SnapshotName { client: None, number, id: Id(id) },
                sample,
                read: Rehearsed { entries, files, bytes, failed },
            };
            let text = drill.text(REPOSITORY, HEADER);
            prop_assert_eq!(&parse_drill("d", text.as_bytes(), REPOSITORY).unwrap(), &drill);
            prop_assert!(parse_drill("d", text.as_bytes(), RepositoryId([3; 16])).is_err());
            let zero = text.replace(&format!("sample {sample}\n"), "sample 0\n");
            prop_assert!(parse_drill("d", zero.as_bytes(), REPOSITORY).is_err());
            let mut changed = text.clone().into_bytes();
            let at = at.index(changed.len());
            changed[at] = byte;
            // Only the nonce is not given back.
            if changed != text.as_bytes() && let Ok(read) = parse_drill("d", &changed, REPOSITORY) {
                let nonce = text.find("nonce").unwrap();
                prop_assert!(read != drill || (nonce..nonce + 40).contains(&at));
            }
        }
    }
}
