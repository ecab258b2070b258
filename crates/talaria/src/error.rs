//! Errors of the operations.

use std::io;
use std::path::{Path, PathBuf};

use talaria_cert::ErrorKind;
use talaria_gnupg::GnupgError;
use talaria_log::{LogError, WitnessError};
use talaria_log_net::{KeyError, NetError};
use talaria_message::make::MakeError;
use talaria_message::{KeyFault, MessageError};
use talaria_store::{QueryError, StoreError};

use crate::backup::error::ClientError;
use crate::belief::Doubt;
use crate::compressed::WindowTooLarge;
use talaria_agent::AgentError;

/// The reason why an operation failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The store reported an error.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A file of GnuPG could not be read or written.
    #[error(transparent)]
    Gnupg(#[from] GnupgError),
    /// The content of a GnuPG file is invalid.
    #[error("{name}: {source}")]
    Foreign {
        /// The file.
        name: String,
        /// The fault in the content.
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
    /// A compressed input needs more memory than talaria allows.
    #[error("{name}: {source}")]
    Window {
        /// The input.
        name: String,
        /// The size of the window.
        source: WindowTooLarge,
    },
    /// The format of the input is unknown.
    #[error("{name}: {what}")]
    Unrecognised {
        /// The input.
        name: String,
        /// A guess at the format.
        what: &'static str,
    },
    /// The input is no file with OpenPGP keys.
    #[error("{name}: not a file with OpenPGP keys")]
    NotKeys {
        /// The input.
        name: String,
    },
    /// The path of a store is a folder.
    #[error("the store {} is {what}, not a file", path.display())]
    StoreFolder {
        /// The folder.
        path: PathBuf,
        /// The kind of the folder.
        what: StoreFolderKind,
    },
    /// The inputs for a new store have no certificate.
    #[error("{}: no certificates found{}", names.join(", "), reason.as_ref().map(|why| format!(" ({why})")).unwrap_or_default())]
    NoCertificates {
        /// The inputs.
        names: Vec<String>,
        /// The reason why the first item in the inputs was rejected, if there was an item.
        reason: Option<String>,
    },
    /// No certificate in the stores matches the query.
    #[error("no certificate found for {query}")]
    NotFound {
        /// The query.
        query: String,
    },
    /// A backup repository could not be used, or is not as it should be.
    #[error(transparent)]
    Backup(#[from] ClientError),
    /// A log could not do what was asked.
    #[error(transparent)]
    Log(#[from] LogError),
    /// Nodes of a log do not exchange entries.
    #[error(transparent)]
    Net(#[from] NetError),
    /// A node of a log has no key.
    #[error(transparent)]
    NodeKey(#[from] KeyError),
    /// The key of a checkpointer cannot be read.
    #[error(transparent)]
    Witness(#[from] WitnessError),
    /// One of several updates of a log could not be written, and so none was.
    #[error("update {}: {source}", number + 1)]
    LogUpdate {
        /// The number of the update, from 0.
        number: usize,
        /// The reason.
        source: Box<LogError>,
    },
    /// A key has a version that signs no entries of a log.
    #[error("keys of versions 4 and 6 sign entries; {name} has another version")]
    LogKeyVersion {
        /// The fingerprint of the certificate.
        name: String,
    },
    /// A log needs the agreement of no owner, or of more owners than it has.
    #[error("the threshold is from 1 to the number of owners, which is {owners}")]
    LogThreshold {
        /// The number of owners.
        owners: usize,
    },
    /// A certificate has no signing key with an algorithm that a log allows.
    #[error("{name} has no signing key with an algorithm that this log allows")]
    LogAlgorithm {
        /// The fingerprint of the certificate.
        name: String,
    },
    /// A log has no author with this name.
    #[error("{query} is no author of this log")]
    NoAuthor {
        /// The name.
        query: String,
    },
    /// A panic was caught.
    #[error("internal error (panic) in talaria")]
    Bug,
    /// A server gave an error or an invalid answer.
    #[error("{url}: {source}")]
    Http {
        /// The requested URL.
        url: String,
        /// The error.
        source: Box<ureq::Error>,
    },
    /// A server has nothing of this name.
    #[error("{url}: the server has no such certificate or file (HTTP status 404)")]
    Absent {
        /// The requested URL.
        url: String,
    },
    /// A text is no e-mail address, so it has no Web Key Directory URL.
    #[error("{address} is not an e-mail address")]
    Address {
        /// The text.
        address: String,
    },
    /// The store to write to is a keyring file, which talaria does not change.
    #[error("{} is a keyring file, which talaria does not change", path.display())]
    Keyring {
        /// The path of the first store.
        path: PathBuf,
    },
    /// A token belongs to another store.
    #[error("the token belongs to another store than {}", path.display())]
    Token {
        /// The path of the store in use.
        path: PathBuf,
    },
    /// A position in a listing belongs to other stores or to another search.
    #[error("the token belongs to a listing of another store or with other arguments")]
    Bookmark,
    /// A dump cannot be written to a folder.
    #[error("{}: {what}", folder.display())]
    Dump {
        /// The folder.
        folder: PathBuf,
        /// The problem with the folder.
        what: &'static str,
    },
    /// A message could not be made or read.
    #[error(transparent)]
    Message(#[from] MessageError),
    /// Several certificates match the query.
    #[error("{query} is ambiguous: {} certificates match", candidates.len())]
    Ambiguous {
        /// The query.
        query: String,
        /// The matching certificates: fingerprints and names.
        candidates: Vec<String>,
    },
    /// Certificates have the address or user ID, and nothing confirms that one of them belongs to
    /// it.
    #[error("no certificate is confirmed to belong to {query}")]
    Unconfirmed {
        /// The address or user ID.
        query: String,
        /// The fingerprint of a certificate that the user may confirm.
        open: Option<String>,
        /// The certificates that have it: fingerprints and names.
        candidates: Vec<String>,
    },
    /// Nothing confirms that the certificate of a recipient belongs to its name, and the caller
    /// wants only recipients that are confirmed.
    #[error("cannot confirm that {name} belongs to {query} ({doubt})")]
    Doubtful {
        /// The fingerprint of the certificate.
        name: String,
        /// The name of the recipient.
        query: String,
        /// The reason for the doubt.
        doubt: Doubt,
    },
    /// The user has decided against a certificate.
    #[error("{name}: you called this certificate bad")]
    Distrusted {
        /// The fingerprint and a user ID of the certificate.
        name: String,
    },
    /// A name matches certificates only in part, where an exact match is required.
    #[error("{query} is neither a fingerprint nor the whole address or text of a valid user ID")]
    Inexact {
        /// The name.
        query: String,
        /// The certificates that match in part: fingerprints and names.
        candidates: Vec<String>,
    },
    /// A certificate has no valid user ID that matches.
    #[error("{name} has no valid user ID{}", user_id.as_ref().map(|id| format!(" {id}")).unwrap_or_default())]
    NoUserId {
        /// The fingerprint of the certificate.
        name: String,
        /// The user ID; `None` if any valid user ID would do.
        user_id: Option<String>,
    },
    /// A text names no user ID of a certificate exactly, or more than one.
    #[error("{query} is not the whole text of a user ID, nor the address in one alone")]
    InexactUserId {
        /// The text.
        query: String,
        /// The user IDs that have this text in them.
        candidates: Vec<String>,
    },
    /// A key has no subkey that matches the query.
    #[error("{name} has no subkey {query}")]
    NoSubkey {
        /// The fingerprint of the key.
        name: String,
        /// The query.
        query: String,
    },
    /// No secret key matches the query.
    #[error("no secret key found for {query}")]
    NoKey {
        /// The query.
        query: String,
    },
    /// The secret key is missing from a certificate.
    #[error("{name}: the secret key is missing")]
    NoSecret {
        /// The fingerprint of the certificate.
        name: String,
    },
    /// The caller named no key, and no key can sign.
    #[error("you have no secret key that can sign")]
    NoSigner,
    /// The caller named no key, and no key can certify.
    #[error("you have no secret key that can certify")]
    NoCertifier,
    /// The caller named no key, and several keys can do what was asked.
    #[error("you have {} keys that can {can}: choose one", candidates.len())]
    WhichSigner {
        /// The use of the key: `sign` or `certify`.
        can: &'static str,
        /// The keys: fingerprints and names.
        candidates: Vec<String>,
    },
    /// Other users can read a file or folder with secrets.
    #[error("{} can be read by others (mode {mode:04o})", path.display())]
    Exposed {
        /// The file or folder.
        path: PathBuf,
        /// The permissions of the file or folder.
        mode: u32,
    },
    /// A file of the key store has no key, or another key than its name says.
    #[error("{} is damaged", path.display())]
    KeyFile {
        /// The file.
        path: PathBuf,
        /// The fault in the file.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// An operation on a key failed.
    #[error("cannot {action} the key {name}")]
    KeyRefused {
        /// The operation that failed.
        action: &'static str,
        /// The fingerprint or a user ID of the key.
        name: String,
        /// The reason.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// gpg-agent reported an error.
    #[error(transparent)]
    Agent(#[from] AgentError),
    /// The caller asked to stop. Work that was reported as done stays done.
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

impl Error {
    /// The kind.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Store(error) => error.kind(),
            Self::Gnupg(error) => error.kind(),
            Self::Backup(error) => error.kind(),
            Self::Log(error) => error.kind(),
            Self::LogUpdate { source, .. } => source.kind(),
            Self::Net(error) => error.kind(),
            Self::NodeKey(error) => error.kind(),
            Self::Witness(error) => error.kind(),
            Self::Message(error) => error.kind(),
            Self::Agent(error) => error.kind(),
            Self::NotFound { .. }
            | Self::Absent { .. }
            | Self::NoUserId { .. }
            | Self::NoSubkey { .. }
            | Self::NoKey { .. }
            | Self::NoSecret { .. }
            | Self::NoSigner
            | Self::NoCertifier
            | Self::NoAuthor { .. }
            | Self::LogAlgorithm { .. }
            | Self::Doubtful { .. } => ErrorKind::NotFound,
            Self::Ambiguous { .. }
            | Self::Inexact { .. }
            | Self::InexactUserId { .. }
            | Self::WhichSigner { .. } => ErrorKind::Ambiguous,
            Self::Unconfirmed { .. } => ErrorKind::Unconfirmed,
            Self::Distrusted { .. } => ErrorKind::UnusableKey,
            Self::Query(_)
            | Self::LogKeyVersion { .. }
            | Self::LogThreshold { .. }
            | Self::Address { .. }
            | Self::Keyring { .. }
            | Self::Token { .. }
            | Self::Bookmark => ErrorKind::Usage,
            Self::Foreign { .. }
            | Self::Unrecognised { .. }
            | Self::NotKeys { .. }
            | Self::NoCertificates { .. }
            | Self::Dump { .. } => ErrorKind::Malformed,
            Self::Window { .. } => ErrorKind::TooLarge,
            Self::KeyRefused { .. } => ErrorKind::UnfitKey,
            Self::StoreFolder { .. } | Self::Exposed { .. } | Self::KeyFile { .. } => {
                ErrorKind::Store
            }
            Self::Io { .. } | Self::Http { .. } => ErrorKind::Io,
            Self::Interrupted => ErrorKind::Interrupted,
            Self::Bug => ErrorKind::Bug,
        }
    }

    /// The error of reading the input `name`.
    pub(crate) fn reading(name: &impl ToString, source: io::Error) -> Self {
        let name = name.to_string();
        match source.get_ref().and_then(|cause| cause.downcast_ref()) {
            Some(window) => Self::Window { name, source: *window },
            None => Self::Io { action: "read", name, source },
        }
    }
}

impl std::fmt::Display for StoreFolderKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::GnupgHome => "a GnuPG home directory",
            Self::Other => "a folder",
        })
    }
}

/// An error with its causes in one line, without causes that repeat the text before.
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

/// The error for a failed operation on a file or folder.
pub(crate) fn failed(action: &'static str, path: &Path, source: io::Error) -> Error {
    Error::Io { action, name: path.display().to_string(), source }
}

/// The error for a failed operation on the key `name`.
pub(crate) fn of_make(action: &'static str, name: &str, error: MakeError) -> Error {
    let unfit = |name, why| Error::Message(MessageError::Key { name, why });
    match error {
        MakeError::NoSecret { name } => Error::NoSecret { name },
        MakeError::Locked(error) => error.into(),
        MakeError::Revoked { name } => unfit(name, KeyFault::Revoked),
        MakeError::Unusable { name, why } => unfit(name, why.into()),
        MakeError::Failed(source) => {
            Error::KeyRefused { action, name: name.to_owned(), source: source.into() }
        }
        error => Error::KeyRefused { action, name: name.to_owned(), source: error.into() },
    }
}
