//! Status lines about how much of a file was read.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::descriptor;
use crate::session::Session;

/// The largest total of a line; beyond it the unit is a larger one.
const TOTAL_MAX: u64 = 1 << 20;

const UNITS: [char; 9] = ['B', 'K', 'M', 'G', 'T', 'P', 'E', 'Z', 'Y'];

/// How much of a file was read.
pub(crate) struct Progress {
    name: String,
    total: u64,
    read: u64,
    /// What a [`Counted`] has read.
    count: Arc<AtomicU64>,
    is_wanted: bool,
}

impl Progress {
    /// The start of a file. `None` is the standard input without a name.
    pub(crate) fn begin(session: &Session, name: Option<&OsStr>, file: &File) -> Self {
        let is_wanted = session.gpg.as_ref().is_some_and(|manner| manner.has_progress);
        let is_named = name.is_some_and(|name| !descriptor::is_pipe(name, session.specials));
        let total = file.metadata().ok().filter(|_| is_wanted && is_named).map_or(0, |m| m.len());
        let name = name.map_or_else(|| "stdin".to_owned(), |name| name.to_string_lossy().into());
        let this = Self { name, total, read: 0, count: Arc::default(), is_wanted };
        this.tell(session);
        this
    }

    /// The file, of which what is read counts, also by another thread.
    pub(crate) fn counted(&self, file: File) -> Counted {
        Counted { file, count: Arc::clone(&self.count) }
    }

    /// Counts bytes that were read.
    pub(crate) fn add(&mut self, bytes: usize) {
        self.read += bytes as u64;
    }

    /// The end of the file.
    pub(crate) fn end(&mut self, session: &Session) {
        self.read += self.count.swap(0, Ordering::Relaxed);
        if self.read > 0 {
            self.tell(session);
        }
        self.is_wanted = false;
    }

    fn tell(&self, session: &Session) {
        if !self.is_wanted {
            return;
        }
        let (mut read, mut total, mut unit) = (self.read, self.total, 0);
        if total > 0 {
            read = read.min(total);
        }
        let scaled = if total > 0 { total } else { read };
        let mut scale = scaled;
        while scale > TOTAL_MAX {
            (scale, read, total) = (scale / 1024, read / 1024, total / 1024);
            unit += 1;
        }
        let suffix = if unit > 0 { "iB" } else { "" };
        let (name, unit) = (&self.name, UNITS[unit.min(UNITS.len() - 1)]);
        session.status.line(&format!("PROGRESS {name} ? {read} {total} {unit}{suffix}"));
    }
}

/// A file of which a [`Progress`] counts what is read.
pub(crate) struct Counted {
    file: File,
    count: Arc<AtomicU64>,
}

impl Read for Counted {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let read = self.file.read(out)?;
        self.count.fetch_add(read as u64, Ordering::Relaxed);
        Ok(read)
    }
}

/// A file whose reading is told.
pub(crate) struct Told<'a, R> {
    pub(crate) session: &'a Session,
    pub(crate) progress: Progress,
    pub(crate) reader: R,
}

impl<R: Read> Read for Told<'_, R> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let read = self.reader.read(out)?;
        if read == 0 && !out.is_empty() {
            self.progress.end(self.session);
        }
        self.progress.add(read);
        Ok(read)
    }
}
