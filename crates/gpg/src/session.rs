//! What all parts of a program share: its outputs, its options, the time.

use std::cell::{Cell, RefCell};
use std::ffi::OsString;

use talaria_cert::Fingerprint;

use crate::algorithm::{WEAK_FOR_DOCUMENTS, WEAK_FOR_KEYS, digest_name};
use crate::code::Exit;
use crate::gpg::manner::Manner;
use crate::keyid::KeyidFormat;
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
    /// How key IDs are written in texts.
    pub(crate) keyid_format: KeyidFormat,
    /// What gpg does besides; `None` for gpgv.
    pub(crate) gpg: Option<Manner>,
    /// The number of packets with content so far.
    pub(crate) literals: Cell<usize>,
    /// There was a bad signature.
    is_bad: Cell<bool>,
    /// The primary keys that were looked up for a subkey: gpg does that once for each.
    pub(crate) looked_up: RefCell<Vec<Fingerprint>>,
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
            keyid_format: KeyidFormat::None,
            gpg: None,
            literals: Cell::new(0),
            is_bad: Cell::new(false),
            looked_up: RefCell::default(),
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

    /// A key ID for people.
    pub(crate) fn key_id(&self, id: u64) -> String {
        self.keyid_format.write(id)
    }

    /// Notes a bad signature.
    ///
    /// # Errors
    ///
    /// [`Exit`] if the program ends there.
    pub(crate) fn note_bad(&self) -> Result<(), Exit> {
        self.is_bad.set(true);
        if self.gpg.as_ref().is_some_and(|manner| !manner.is_batch) { Ok(()) } else { Err(Exit(1)) }
    }

    /// Whether there was a bad signature.
    pub(crate) fn has_bad(&self) -> bool {
        self.is_bad.get()
    }
}
