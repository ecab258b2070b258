//! A stream, such as standard input, as the only file of a snapshot.

use std::io::{self, Read};
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use super::cache::FileChange;
use super::tree::Report;
use crate::create::{Created, Creation, Listener, Reading, Remark};
use crate::entry::{Entry, Meta, Node, Time};
use crate::error::{BackupError, Result};
use crate::reading::{ChunkInput, Piece};
use crate::sink::Sink;
use crate::text::{Place, escaped};
use crate::tree::{check_path, parents};

/// Only the owner may read a file whose content came from a stream, until its snapshot is restored
/// and says more.
const FILE_MODE: u16 = 0o600;
const FOLDER_MODE: u16 = 0o755;

/// The content of one file that has a name in the snapshot, and none in the file system.
pub struct Stream {
    name: Vec<u8>,
    content: Box<dyn Read + Send>,
}

impl Stream {
    /// A file `name`, which may have folders, as in `dumps/db.sql`. A leading slash does not count.
    ///
    /// # Errors
    ///
    /// [`BackupError::Refused`] if it is no path for a snapshot.
    pub fn new(name: &[u8], content: Box<dyn Read + Send>) -> Result<Self> {
        let name = name.strip_prefix(b"/").unwrap_or(name);
        check_path(name).map_err(|rule| {
            let name = escaped(name, Place::Last);
            BackupError::Refused(format!("{name} cannot be the name of a file: {rule}"))
        })?;
        Ok(Self { name: name.to_vec(), content })
    }

    /// The absolute path in the snapshot.
    pub(super) fn path(&self) -> Vec<u8> {
        [b"/", self.name.as_slice()].concat()
    }
}

/// Writes the tree of a snapshot with this file and its folders.
pub(super) fn create_stream(
    stream: Stream,
    sink: Sink,
    report: &mut dyn Report,
) -> Result<Created> {
    let elapsed = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let mtime = Time {
        seconds: i64::try_from(elapsed.as_secs()).unwrap_or(0),
        nanoseconds: elapsed.subsec_nanos(),
    };
    let meta = |mode| Meta {
        mode,
        uid: rustix::process::geteuid().as_raw(),
        gid: rustix::process::getegid().as_raw(),
        mtime,
        attributes: Vec::new(),
    };
    let Stream { name, content } = stream;
    let progress = Arc::clone(&sink.store().progress);
    let mut creation = Creation::new(sink);
    let mut heard = Heard { report, failed: None };
    for folder in parents(&name) {
        let node = Node::Directory(meta(FOLDER_MODE));
        creation.push(Entry { path: folder.to_vec(), node }, (), &mut heard)?;
    }
    let node = Node::File { meta: meta(FILE_MODE), size: 0, content: Vec::new() };
    let input = StreamInput { entry: Entry { path: name, node }, content };
    creation.read(input, (), &mut heard)?;
    let created = creation.finish(&mut heard)?;
    match heard.failed {
        None => Ok(created),
        Some(source) => {
            progress.go_on().and(Err(BackupError::File { path: "the input".into(), source }))
        }
    }
}

struct StreamInput {
    entry: Entry,
    content: Box<dyn Read + Send>,
}

impl ChunkInput for StreamInput {
    /// Nobody knows how long it is.
    fn bytes(&self) -> u64 {
        u64::MAX
    }

    fn open(&mut self) -> io::Result<()> {
        Ok(())
    }

    fn read(&mut self, buffer: &mut [u8]) -> io::Result<Piece> {
        loop {
            match self.content.read(buffer) {
                Ok(0) => return Ok(Piece::End),
                Ok(n) => return Ok(Piece::Data(n)),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }

    fn close(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Reading for StreamInput {
    fn into_entry(self) -> (Entry, Option<Remark>) {
        (self.entry, None)
    }

    fn path(&self) -> &[u8] {
        &self.entry.path
    }

    fn may_vanish(&self) -> bool {
        false
    }
}

struct Heard<'a> {
    report: &'a mut dyn Report,
    failed: Option<io::Error>,
}

impl Listener<()> for Heard<'_> {
    fn stored(&mut self, entry: &Entry, (): (), _: Option<Remark>) {
        self.report.stored(entry, FileChange::New);
    }

    fn unread(&mut self, _: &[u8], error: io::Error) {
        self.failed = Some(error);
    }
}
