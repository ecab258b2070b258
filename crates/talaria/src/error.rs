//! What can go wrong with an operation.

use std::io;
use std::path::PathBuf;

use talaria_gnupg::GnupgError;
use talaria_message::MessageError;
use talaria_store::{QueryError, StoreError};

use crate::agent::AgentError;

/// Why an operation could not be done.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The store refused.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A file of GnuPG could not be read or written.
    #[error(transparent)]
    Gnupg(#[from] GnupgError),
    /// What is in a file of GnuPG is not what it should be.
    #[error("{name}: {source}")]
    Foreign {
        /// The file.
        name: String,
        /// The fault.
        source: GnupgError,
    },
    /// A search is malformed.
    #[error(transparent)]
    Query(#[from] QueryError),
    /// An operation on a file failed.
    #[error("cannot {action} {name}")]
    Io {
        /// The operation that failed.
        action: &'static str,
        /// The file.
        name: String,
        /// The error of the operating system.
        source: io::Error,
    },
    /// The input is nothing that talaria knows.
    #[error("{name}: {what}")]
    Unrecognised {
        /// The input.
        name: String,
        /// What it looks like.
        what: &'static str,
    },
    /// A folder was named as the store.
    #[error("the store {} is {what}, not a file", path.display())]
    StoreFolder {
        /// The folder.
        path: PathBuf,
        /// What it is.
        what: StoreFolderKind,
    },
    /// Inputs to build a store from have no certificate.
    #[error("{}: no certificates found{}", names.join(", "), reason.as_ref().map(|why| format!(" ({why})")).unwrap_or_default())]
    NoCertificates {
        /// The inputs.
        names: Vec<String>,
        /// Why the first thing in them was not taken, if there was one.
        reason: Option<String>,
    },
    /// Nothing in the stores is called that.
    #[error("no certificate found for {query}")]
    NotFound {
        /// What was looked for.
        query: String,
    },
    /// A panic, which was stopped.
    #[error("internal error (panic) in talaria")]
    Bug,
    /// A server did not answer as it should.
    #[error("{url}: {source}")]
    Http {
        /// What was asked for.
        url: String,
        /// The error.
        source: Box<ureq::Error>,
    },
    /// An address has no web key directory form.
    #[error("{address} is not an e-mail address")]
    Address {
        /// What was given.
        address: String,
    },
    /// All stores were opened for reading.
    #[error("{} is a keyring file, which talaria does not change", path.display())]
    Keyring {
        /// The first of them.
        path: PathBuf,
    },
    /// A token comes from another store.
    #[error("the token belongs to another store than {}", path.display())]
    Token {
        /// The store.
        path: PathBuf,
    },
    /// A place in a listing is one of other stores or of another search.
    #[error("the token comes from a listing of another store, or with other arguments")]
    Bookmark,
    /// A folder cannot be dumped to.
    #[error("{}: {what}", folder.display())]
    Dump {
        /// The folder.
        folder: PathBuf,
        /// The fault.
        what: &'static str,
    },
    /// A message could not be made or read.
    #[error(transparent)]
    Message(MessageError),
    /// More than one certificate is called that.
    #[error("{query} is ambiguous: {} certificates match", candidates.len())]
    Ambiguous {
        /// What was looked for.
        query: String,
        /// Fingerprints and names.
        candidates: Vec<String>,
    },
    /// A name is only a part of what it has to be.
    #[error("{query} is not a fingerprint, and not the whole address or text of a valid user ID")]
    Inexact {
        /// What was given.
        query: String,
        /// Fingerprints and names that it may have meant.
        candidates: Vec<String>,
    },
    /// A certificate has no such user ID that is valid.
    #[error("{name} has no valid user ID{}", user_id.as_ref().map(|id| format!(" {id}")).unwrap_or_default())]
    NoUserId {
        /// The fingerprint of the certificate.
        name: String,
        /// The user ID, any without.
        user_id: Option<String>,
    },
    /// A key has no such subkey.
    #[error("{name} has no subkey {query}")]
    NoSubkey {
        /// The fingerprint of the key.
        name: String,
        /// What was looked for.
        query: String,
    },
    /// No secret key is called that.
    #[error("no secret key found for {query}")]
    NoKey {
        /// What was looked for.
        query: String,
    },
    /// A certificate comes without the secret that is needed.
    #[error("{name}: the secret key is missing")]
    NoSecret {
        /// Its fingerprint.
        name: String,
    },
    /// Others may read what is secret.
    #[error("{} can be read by others (mode {mode:04o})", path.display())]
    Exposed {
        /// The file or folder.
        path: PathBuf,
        /// Its permissions.
        mode: u32,
    },
    /// A file of the key store has no key, or not the one that it is named for.
    #[error("{} is damaged", path.display())]
    KeyFile {
        /// The file.
        path: PathBuf,
        /// The fault.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// What was to be done with a key cannot be done.
    #[error("cannot {action} the key {name}")]
    KeyRefused {
        /// The operation that failed.
        action: &'static str,
        /// Its fingerprint, or a user ID.
        name: String,
        /// Why not.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// GnuPG's agent did not do what was asked.
    #[error(transparent)]
    Agent(#[from] AgentError),
    /// The caller asked to stop. What was reported as done is done.
    #[error("interrupted")]
    Interrupted,
}

/// A folder where the file of a store was expected.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum StoreFolderKind {
    /// A home directory of GnuPG.
    GnupgHome,
    /// Any other folder.
    Other,
}

impl std::fmt::Display for StoreFolderKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::GnupgHome => "a GnuPG home directory",
            Self::Other => "a folder",
        })
    }
}

/// An error with its causes, in one line; what a cause only repeats is left out.
#[must_use]
pub fn describe(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let more = error.to_string();
        if !text.ends_with(&more) {
            text.push_str(": ");
            text.push_str(&more);
        }
        cause = error.source();
    }
    text
}
