//! The content of files: lists of parts, in the entry or in chunks of their own.

use super::line::{check_part, parse_part, push_part};
use super::rules::LIST_DEPTH_MAX;
use crate::chunks::{ReadChunks, WriteChunks};
use crate::entry::Extent;
use crate::error::{BackupError, Result};
use crate::id::{Id, Kind};

/// An entry holds this many parts itself; the rest is in lists.
const PARTS_MAX: usize = 64;
/// A list is not cut before it has this many parts.
const CUT_PARTS_MIN: usize = 64;
/// A list is cut before it has more parts, whatever the identifiers say.
const CUT_PARTS_MAX: usize = 2048;

/// Cuts the parts of a long file into lists. The cuts depend on the identifiers of the parts, so a
/// change in a file changes few lists.
#[derive(Default)]
pub struct ContentWriter {
    levels: Vec<List>,
}

/// The list of a level that is not complete.
#[derive(Default)]
struct List {
    parts: Vec<Extent>,
    length: u64,
}

impl ContentWriter {
    /// A file without content.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Appends a part, which is not a list.
    ///
    /// # Errors
    ///
    /// [`Refused`](BackupError::Refused) if the part breaks a rule of the format. Errors of
    /// `chunks`.
    pub fn push(&mut self, part: Extent, chunks: &mut dyn WriteChunks) -> Result<()> {
        check_part(&part).map_err(|rule| BackupError::Refused(rule.into()))?;
        self.append(0, part, chunks)
    }

    /// The content for the entry: the parts themselves if they are few, else lists.
    ///
    /// # Errors
    ///
    /// Errors of `chunks`.
    pub fn finish(mut self, chunks: &mut dyn WriteChunks) -> Result<Vec<Extent>> {
        let mut level = 0;
        while level < self.levels.len() {
            if level + 1 == self.levels.len() && self.levels[level].parts.len() <= PARTS_MAX {
                return Ok(std::mem::take(&mut self.levels[level].parts));
            }
            self.flush(level, chunks)?;
            level += 1;
        }
        Ok(Vec::new())
    }

    fn append(&mut self, level: usize, part: Extent, chunks: &mut dyn WriteChunks) -> Result<()> {
        if level == self.levels.len() {
            if level > LIST_DEPTH_MAX {
                return Err(BackupError::Refused("a file has too many parts".into()));
            }
            self.levels.push(List::default());
        }
        let open = &mut self.levels[level];
        let ends = match &part {
            Extent::Data { id, .. } | Extent::List { id, .. } => id.0[0] == 0,
            Extent::Inline(_) | Extent::Hole(_) => false,
        };
        let too_long = || BackupError::Refused("a file has more than 64 bits of bytes".into());
        open.length = open.length.checked_add(part.length()).ok_or_else(too_long)?;
        open.parts.push(part);
        if ends && open.parts.len() >= CUT_PARTS_MIN || open.parts.len() == CUT_PARTS_MAX {
            self.flush(level, chunks)?;
        }
        Ok(())
    }

    /// Writes the open list of a level and appends its reference to the level above.
    fn flush(&mut self, level: usize, chunks: &mut dyn WriteChunks) -> Result<()> {
        let List { parts, length } = std::mem::take(&mut self.levels[level]);
        if parts.is_empty() {
            return Ok(());
        }
        let mut text = String::new();
        for part in &parts {
            push_part(&mut text, part);
            text.push('\n');
        }
        let id = chunks.write(Kind::List, text.as_bytes())?;
        self.append(level + 1, Extent::List { id, length }, chunks)
    }
}

/// The parts of a file in order, with all lists resolved. Memory: the text of at most four lists.
///
/// After an error, there is nothing more.
pub struct ContentParts<'a> {
    chunks: &'a dyn ReadChunks,
    content: std::vec::IntoIter<Extent>,
    lists: Vec<OpenList>,
}

struct OpenList {
    id: Id,
    text: String,
    at: usize,
    /// The bytes that the rest of the list has to stand for.
    rest: u64,
}

impl<'a> ContentParts<'a> {
    /// The parts that the content of an entry stands for.
    #[must_use]
    pub fn new(chunks: &'a dyn ReadChunks, content: Vec<Extent>) -> Self {
        Self { chunks, content: content.into_iter(), lists: Vec::new() }
    }

    fn open(&mut self, id: Id, length: u64) -> Result<()> {
        if self.lists.len() == LIST_DEPTH_MAX {
            return Err(damaged(id, "lists are nested more than 4 levels"));
        }
        self.lists.push(OpenList::new(id, self.chunks.read(Kind::List, &id)?, length)?);
        Ok(())
    }

    fn step(&mut self) -> Result<Option<Extent>> {
        loop {
            let part = match self.lists.last_mut() {
                None => self.content.next(),
                Some(list) => list.next()?,
            };
            match part {
                Some(Extent::List { id, length }) => self.open(id, length)?,
                Some(part) => return Ok(Some(part)),
                None if self.lists.pop().is_none() => return Ok(None),
                None => {}
            }
        }
    }
}

/// The parts of a list, of which each can be a list again.
pub(crate) fn parse_list(id: Id, plain: &[u8], length: u64) -> Result<Vec<Extent>> {
    let mut list = OpenList::new(id, plain.to_vec(), length)?;
    std::iter::from_fn(|| list.next().transpose()).collect()
}

impl OpenList {
    fn new(id: Id, plain: Vec<u8>, length: u64) -> Result<Self> {
        let text = String::from_utf8(plain).map_err(|_| damaged(id, "it is not UTF-8 text"))?;
        if !text.ends_with('\n') {
            return Err(damaged(id, "its last line has no end"));
        }
        Ok(Self { id, text, at: 0, rest: length })
    }

    fn next(&mut self) -> Result<Option<Extent>> {
        let Some((line, _)) = self.text[self.at..].split_once('\n') else {
            return match self.rest {
                0 => Ok(None),
                _ => Err(damaged(self.id, "it stands for fewer bytes than its reference says")),
            };
        };
        let part = parse_part(line).map_err(|rule| damaged(self.id, rule))?;
        self.at += line.len() + 1;
        let more = "it stands for more bytes than its reference says";
        self.rest = self.rest.checked_sub(part.length()).ok_or_else(|| damaged(self.id, more))?;
        Ok(Some(part))
    }
}

fn damaged(id: Id, why: &str) -> BackupError {
    BackupError::damaged(format!("list {id}"), why)
}

impl Iterator for ContentParts<'_> {
    type Item = Result<Extent>;

    fn next(&mut self) -> Option<Self::Item> {
        let next = self.step();
        if next.is_err() {
            self.lists.clear();
            self.content = Vec::new().into_iter();
        }
        next.transpose()
    }
}
