//! Texts for people: on the standard error, another descriptor or in a file.

use std::cell::{Cell, RefCell};
use std::ffi::OsStr;
use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};

use crate::time;

/// The texts of a program.
pub(crate) struct Log {
    /// The name of the program, in front of each text.
    program: &'static str,
    /// The place of the texts if it is not the standard error.
    file: RefCell<Option<File>>,
    /// Each text has the time and the process in front of it.
    stamped: Cell<bool>,
    errors: Cell<bool>,
}

impl Log {
    /// Texts of a program with this name.
    pub(crate) fn new(program: &'static str) -> Self {
        let (stamped, errors) = (Cell::new(false), Cell::new(false));
        Self { program, file: RefCell::new(None), stamped, errors }
    }

    /// Directs the texts to an open file.
    pub(crate) fn to_file(&self, file: File) {
        *self.file.borrow_mut() = Some(file);
    }

    /// Appends the texts to the file with this name, with the time in front of each.
    ///
    /// # Errors
    ///
    /// The errors of opening it.
    pub(crate) fn append_to(&self, name: &OsStr) -> io::Result<()> {
        self.to_file(OpenOptions::new().append(true).create(true).open(name)?);
        self.stamped.set(true);
        Ok(())
    }

    /// Writes a text. Errors of writing are ignored, as in GnuPG.
    pub(crate) fn info(&self, text: impl AsRef<str>) {
        let (program, text) = (self.program, text.as_ref());
        let line = if self.stamped.get() {
            format!("{} {program}[{}] {text}\n", time::stamp(), std::process::id())
        } else {
            format!("{program}: {text}\n")
        };
        let _ = match &mut *self.file.borrow_mut() {
            Some(file) => file.write_all(line.as_bytes()),
            None => io::stderr().write_all(line.as_bytes()),
        };
    }

    /// Writes a text about an error. The exit status is then not 0.
    pub(crate) fn error(&self, text: impl AsRef<str>) {
        self.count_error();
        self.info(text);
    }

    /// Counts an error without a text.
    pub(crate) fn count_error(&self) {
        self.errors.set(true);
    }

    /// Whether there was an error.
    pub(crate) fn has_errors(&self) -> bool {
        self.errors.get()
    }
}
