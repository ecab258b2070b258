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
    /// No text is written.
    is_silent: Cell<bool>,
    /// The next text has an empty line in front of it.
    has_gap: Cell<bool>,
    errors: Cell<bool>,
}

impl Log {
    /// Texts of a program with this name.
    pub(crate) fn new(program: &'static str) -> Self {
        let [stamped, is_silent, has_gap, errors] = [false; 4].map(Cell::new);
        Self { program, file: RefCell::new(None), stamped, is_silent, has_gap, errors }
    }

    /// Texts that nobody gets.
    pub(crate) fn silent() -> Self {
        let this = Self::new("");
        this.is_silent.set(true);
        this
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
        if self.has_gap.take() {
            self.write("\n");
        }
        let line = if self.stamped.get() {
            format!("{} {program}[{}] {text}\n", time::stamp(), std::process::id())
        } else {
            format!("{program}: {text}\n")
        };
        self.write(&line);
    }

    /// Writes a line without the name of the program.
    pub(crate) fn plain(&self, text: impl AsRef<str>) {
        self.write(&format!("{}\n", text.as_ref()));
    }

    fn write(&self, line: &str) {
        if self.is_silent.get() {
            return;
        }
        let _ = match &mut *self.file.borrow_mut() {
            Some(file) => file.write_all(line.as_bytes()),
            None => io::stderr().write_all(line.as_bytes()),
        };
    }

    /// Writes a text behind which gpg leaves an empty line if another one follows.
    pub(crate) fn info_with_gap(&self, text: impl AsRef<str>) {
        self.info(text);
        self.has_gap.set(true);
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
