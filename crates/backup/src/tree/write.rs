//! Writing of trees.

use super::line::{check_entry, check_line, push_child, push_entry};
use super::order::Order;
use super::rules::LEVEL_MAX;
use crate::chunks::WriteChunks;
use crate::entry::{Entry, Node};
use crate::error::{BackupError, Result};
use crate::id::{Identifiers, Kind};
use crate::snapshot::Root;
use crate::text::{Place, escaped};

/// A chunk is not cut before it has this many bytes.
const CUT_BYTES_MIN: usize = 16 << 10;
/// A chunk is cut before it has more bytes, whatever the hash says.
const CUT_BYTES_MAX: usize = 1 << 20;
/// One entry in 2^8 ends a chunk.
const LEAF_BITS: u32 = 8;
/// One reference in 2^6 ends a chunk.
const BRANCH_BITS: u32 = 6;
/// A chunk of references is not cut before it has this many: with fewer, long paths could lead to
/// too many levels.
const BRANCH_CHILDREN_MIN: usize = 16;

/// Cuts entries into chunks. The cuts depend on a keyed hash of paths, so a change changes few
/// chunks.
pub struct TreeWriter {
    identifiers: Identifiers,
    order: Order,
    line: String,
    levels: Vec<Level>,
}

/// The chunk of a level that is not complete.
#[derive(Default)]
struct Level {
    text: String,
    lines: usize,
    first: Vec<u8>,
}

impl TreeWriter {
    /// A tree without entries.
    #[must_use]
    pub fn new(identifiers: Identifiers) -> Self {
        let levels = vec![Level::default()];
        Self { identifiers, order: Order::default(), line: String::new(), levels }
    }

    /// Appends an entry.
    ///
    /// # Errors
    ///
    /// [`Refused`](BackupError::Refused) if the entry breaks a rule of the format: it is not after
    /// the last entry for example. Errors of `chunks`.
    pub fn push(&mut self, entry: &Entry, chunks: &mut dyn WriteChunks) -> Result<()> {
        self.line.clear();
        let refused = |rule| {
            let path = escaped(&entry.path, Place::Last);
            BackupError::Refused(format!("{path} cannot be an entry of the tree: {rule}"))
        };
        check_entry(entry).map_err(refused)?;
        push_entry(&mut self.line, entry);
        check_line(&self.line).map_err(refused)?;
        self.order.push(&entry.path, matches!(entry.node, Node::Directory(_))).map_err(refused)?;
        self.append(0, &entry.path, chunks)
    }

    /// Writes the rest.
    ///
    /// # Errors
    ///
    /// Errors of `chunks`.
    pub fn finish(mut self, chunks: &mut dyn WriteChunks) -> Result<Root> {
        let mut level = 0;
        while level + 1 < self.levels.len() {
            self.flush(level, chunks)?;
            level += 1;
        }
        let id = chunks.write(Kind::Tree, self.levels[level].text.as_bytes())?;
        Ok(Root { level: u8::try_from(level).expect("at most LEVEL_MAX"), id })
    }

    /// Appends `self.line`, whose path is `path`, to a level, and cuts before it if the hash of the
    /// path says so.
    fn append(&mut self, level: usize, path: &[u8], chunks: &mut dyn WriteChunks) -> Result<()> {
        let line = std::mem::take(&mut self.line);
        if self.cuts(level, path, line.len()) {
            self.flush(level, chunks)?;
        }
        let open = &mut self.levels[level];
        if open.lines == 0 {
            open.first = path.to_vec();
        }
        open.text.push_str(&line);
        open.lines += 1;
        self.line = line;
        Ok(())
    }

    /// Whether a chunk ends before `path`.
    fn cuts(&self, level: usize, path: &[u8], bytes: usize) -> bool {
        let open = &self.levels[level];
        if open.lines == 0 || level > 0 && open.lines < BRANCH_CHILDREN_MIN {
            return false;
        }
        if open.text.len() + bytes > CUT_BYTES_MAX {
            return true;
        }
        open.text.len() >= CUT_BYTES_MIN && {
            let above = u32::try_from(level).expect("at most LEVEL_MAX");
            let (shift, bits) = match above {
                0 => (0, LEAF_BITS),
                _ => (LEAF_BITS + (above - 1) * BRANCH_BITS, BRANCH_BITS),
            };
            (self.identifiers.cut(path) >> shift).trailing_zeros() >= bits
        }
    }

    /// Writes the open chunk of a level and appends its reference to the level above.
    fn flush(&mut self, level: usize, chunks: &mut dyn WriteChunks) -> Result<()> {
        let id = chunks.write(Kind::Tree, self.levels[level].text.as_bytes())?;
        let open = &mut self.levels[level];
        open.text.clear();
        open.lines = 0;
        let first = std::mem::take(&mut open.first);
        if level + 1 == self.levels.len() {
            if level == usize::from(LEVEL_MAX) {
                return Err(BackupError::Refused("the tree has too many entries".into()));
            }
            self.levels.push(Level::default());
        }
        let line = std::mem::take(&mut self.line);
        push_child(&mut self.line, &id, &first);
        self.append(level + 1, &first, chunks)?;
        self.line = line;
        Ok(())
    }
}
