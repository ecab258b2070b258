//! A run: the paths of a walk become the tree of a snapshot.

use std::io;

use super::cache::{Cache, CacheWriter, Cached, FileChange};
use super::input::PathInput;
use super::walk::{Stamp, Walk, Walked};
use crate::create::{Created, Creation, Listener, Remark};
use crate::entry::{Entry, Node};
use crate::error::Result;
use crate::sink::Sink;

/// Hears of the paths of a run.
pub(crate) trait Report {
    /// An entry is in the snapshot. A further hard link counts as new.
    fn stored(&mut self, entry: &Entry, change: FileChange);
    /// A path could not be read. It is missing in the snapshot.
    fn unread(&mut self, path: &[u8], error: &io::Error);
    /// A path is a socket. Snapshots have none.
    fn socket(&mut self, path: &[u8]);
    /// A path is in the snapshot, with this remark.
    fn remark(&mut self, path: &[u8], remark: &Remark);
    /// The cache cannot be written. The next run reads all files again.
    fn no_cache(&mut self, error: &io::Error);
}

/// Writes the entries that the walk finds. The content of files that `cache` knows as unchanged is
/// not read. Returns the cache for the next run, to be finished after the snapshot was written.
///
/// # Errors
///
/// [`Cancelled`](crate::BackupError::Cancelled); errors of the storage. Paths that cannot be read
/// are reported.
pub(crate) fn create_tree(
    walk: Walk,
    cache: &mut Cache,
    next_cache: Option<CacheWriter>,
    sink: Sink,
    report: &mut dyn Report,
) -> Result<(Created, Option<CacheWriter>)> {
    let mut creation = Creation::new(sink);
    let mut listener = Noting { cache: next_cache, report };
    for walked in walk {
        creation.go_on()?;
        let mut item = match walked {
            Walked::Item(item) => item,
            Walked::Unread { path, source } => {
                creation.unread(&path, source, &mut listener);
                continue;
            }
            Walked::Vanished { .. } => {
                creation.vanished();
                continue;
            }
            Walked::Socket { path } => {
                listener.report.socket(&path);
                continue;
            }
        };
        let stamp = item.stamp;
        if matches!(item.entry.node, Node::HardLink { .. }) {
            creation.push(item.entry, (stamp, FileChange::New), &mut listener)?;
            continue;
        }
        // Without an answer the file is read again, and the error comes from there.
        let cached = cache.find(&mut item, |id| creation.has(id).unwrap_or(false));
        let tag = (stamp, cache.change());
        match cached {
            Cached::All(parts) => {
                let mut entry = item.entry;
                if let Node::File { content, .. } = &mut entry.node {
                    *content = parts;
                }
                creation.push(entry, tag, &mut listener)?;
            }
            known => {
                let input = PathInput::new(item, known == Cached::Attributes);
                creation.read(input, tag, &mut listener)?;
            }
        }
    }
    let created = creation.finish(&mut listener)?;
    Ok((created, listener.cache))
}

/// Writes the next cache and reports.
struct Noting<'a> {
    cache: Option<CacheWriter>,
    report: &'a mut dyn Report,
}

impl Listener<(Stamp, FileChange)> for Noting<'_> {
    fn stored(
        &mut self,
        entry: &Entry,
        (stamp, change): (Stamp, FileChange),
        remark: Option<Remark>,
    ) {
        self.report.stored(entry, change);
        if let Some(remark) = &remark {
            self.report.remark(&entry.path, remark);
        }
        // An entry without its attributes is not known as a whole.
        let is_whole = !matches!(remark, Some(Remark::NoAttributes(_)));
        let parts = if let Node::File { content, .. } = &entry.node { &content[..] } else { &[] };
        if is_whole
            && let Some(cache) = &mut self.cache
            && let Err(error) = cache.push(&stamp, entry, parts)
        {
            self.report.no_cache(&error);
            self.cache = None;
        }
    }

    fn unread(&mut self, path: &[u8], error: io::Error) {
        self.report.unread(path, &error);
    }
}
