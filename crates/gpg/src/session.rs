//! What all parts of a program share: its outputs, its options, the time.

use std::cell::{Cell, RefCell};
use std::ffi::OsString;

use crate::algorithm::{WEAK_FOR_DOCUMENTS, WEAK_FOR_KEYS, digest_name};
use crate::log::Log;
use crate::status::Status;

/// What all parts of a program share.
pub(crate) struct Session {
    /// The texts for people.
    pub(crate) log: Log,
    /// The lines for programs.
    pub(crate) status: Status,
    /// How often `--verbose` was given.
    pub(crate) verbose: u8,
    /// Notes are left out.
    pub(crate) quiet: bool,
    /// A key may be newer than its signature, or than now.
    pub(crate) ignores_time_conflict: bool,
    /// Names such as `-&9` stand for descriptors.
    pub(crate) specials: bool,
    /// The output for the content of signed messages.
    pub(crate) output: Option<OsString>,
    /// The digests that the user rejects, by number.
    pub(crate) weak: Vec<u8>,
    /// The present time in seconds since 1970.
    pub(crate) now: u32,
    /// The number of packets with content so far.
    pub(crate) literals: Cell<usize>,
    rejected: RefCell<Vec<u8>>,
}

impl Session {
    /// A session without options.
    pub(crate) fn new(log: Log, now: u32) -> Self {
        Self {
            log,
            status: Status::default(),
            verbose: 0,
            quiet: false,
            ignores_time_conflict: false,
            specials: false,
            output: None,
            weak: Vec::new(),
            now,
            literals: Cell::new(0),
            rejected: RefCell::default(),
        }
    }

    /// Whether signatures on documents with this digest are refused.
    pub(crate) fn is_weak_for_documents(&self, digest: u8) -> bool {
        WEAK_FOR_DOCUMENTS.contains(&digest) || self.weak.contains(&digest)
    }

    /// Whether self-signatures with this digest are refused.
    pub(crate) fn is_weak_for_keys(&self, digest: u8) -> bool {
        WEAK_FOR_KEYS.contains(&digest) || self.weak.contains(&digest)
    }

    /// Says once that a digest is refused.
    pub(crate) fn note_rejected(&self, digest: u8) {
        let mut rejected = self.rejected.borrow_mut();
        if !self.quiet && !rejected.contains(&digest) {
            rejected.push(digest);
            let name = digest_name(digest);
            self.log.info(format!("Note: signatures using the {name} algorithm are rejected"));
        }
    }

    /// Writes a text if `--verbose` was given.
    pub(crate) fn chat(&self, text: impl FnOnce() -> String) {
        if self.verbose > 0 {
            self.log.info(text());
        }
    }
}
