//! Status lines of `--status-fd` (GnuPG's `doc/DETAILS`), for programs. Each starts with
//! `[GNUPG:] `.

use std::cell::{Cell, RefCell};
use std::fs::File;
use std::io::Write as _;

/// How a field of foreign bytes is written.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Field {
    /// One word: spaces are escaped, too.
    Word,
    /// One word, with a new line of the same keyword after this many bytes.
    Wrapped(usize),
    /// Text with spaces, to the end of the line.
    Text,
}

/// The status lines of a program; none unless it was asked for them.
#[derive(Default)]
pub(crate) struct Status {
    output: RefCell<Option<File>>,
    /// The program ends when a line cannot be written.
    ends_on_error: Cell<bool>,
    has_failed: Cell<bool>,
}

impl Status {
    /// Directs the lines to an open file.
    pub(crate) fn to_file(&self, file: File) {
        *self.output.borrow_mut() = Some(file);
    }

    /// Stops the lines.
    pub(crate) fn stop(&self) {
        *self.output.borrow_mut() = None;
    }

    /// Whether somebody wants the lines.
    pub(crate) fn is_wanted(&self) -> bool {
        self.output.borrow().is_some()
    }

    /// Ends the program when a line cannot be written.
    pub(crate) fn end_on_error(&self) {
        self.ends_on_error.set(true);
    }

    /// Writes why the program fails, with GnuPG's number of the error. Only the first time counts.
    pub(crate) fn failure(&self, place: &str, number: u32) {
        if !self.has_failed.replace(true) {
            self.line(&format!("FAILURE {place} {number}"));
        }
    }

    /// Writes a line.
    pub(crate) fn line(&self, text: &str) {
        self.write(format!("[GNUPG:] {text}\n").as_bytes());
    }

    /// Writes a line, or lines, with foreign bytes in the last field. `before` are the fields
    /// before it, empty or with a space at the end.
    pub(crate) fn bytes(&self, keyword: &str, before: &str, bytes: &[u8], field: Field) {
        let mut out = Vec::new();
        let start = |out: &mut Vec<u8>, before: &str| {
            out.extend(format!("[GNUPG:] {keyword} {before}").bytes());
        };
        start(&mut out, before);
        // GnuPG counts the fields before, and not the keyword.
        let mut count = before.len();
        let mut is_full = false;
        for &byte in bytes {
            let is_escaped = match field {
                Field::Text => byte < b' ',
                Field::Word | Field::Wrapped(_) => byte <= b' ',
            } || matches!(byte, b'%' | 127);
            let is_over = |count| matches!(field, Field::Wrapped(width) if count > width);
            // An escaped byte may still follow a full line.
            if is_full || is_over(count + 1) && !is_escaped {
                out.push(b'\n');
                start(&mut out, "");
                count = 0;
            }
            count += 1;
            is_full = is_over(count);
            if is_escaped {
                out.extend(format!("%{byte:02X}").bytes());
            } else {
                out.push(byte);
            }
        }
        out.push(b'\n');
        self.write(&out);
    }

    fn write(&self, line: &[u8]) {
        if let Some(output) = &mut *self.output.borrow_mut() {
            // Errors are ignored, as in GnuPG, unless the caller asked otherwise. Nobody knows then
            // whether a signature is good.
            if output.write_all(line).is_err() && self.ends_on_error.get() {
                std::process::exit(2);
            }
        }
    }
}
