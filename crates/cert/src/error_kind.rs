//! What an error means for a caller who does not know its type.

/// The kind of an error, the same in all crates.
///
/// A command, a binding or a server that answers by kind needs one table from kinds to its own
/// statuses or exceptions. So this enum is exhaustive: a new kind is a decision in each table.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum ErrorKind {
    /// Nothing has the name that the caller gave.
    NotFound,
    /// Several objects have the name, or none has exactly this name.
    Ambiguous,
    /// Nothing confirms that a certificate belongs to the address.
    Unconfirmed,
    /// The rules do not allow the change.
    Refused,
    /// A signature is bad, or a required one is missing.
    NotAccepted,
    /// A certificate or key cannot be used for this, or its passphrase is wrong.
    UnusableKey,
    /// No key and no passphrase opens a message.
    NoSecret,
    /// A repository, log or witness exists already where one would be made. (A file that exists
    /// where an output goes is [`Self::Io`].)
    Exists,
    /// The arguments make no sense, or contradict each other.
    Usage,
    /// The input has the wrong format.
    Malformed,
    /// An integrity check of the input fails or is missing.
    Tampered,
    /// The input uses an algorithm or a form that is not supported.
    Unsupported,
    /// A part of the input exceeds its limit.
    TooLarge,
    /// The input, or a peer, is well-formed and another one than expected.
    Unexpected,
    /// A key, or the file of one, is not fit for the operation.
    UnfitKey,
    /// There is no store.
    NoStore,
    /// A store, log or key folder is damaged, locked, exposed or of another format.
    Store,
    /// A log or a file does not show what its signers have signed.
    Unproven,
    /// A secret key, or the program or card that holds it, does not do its work.
    KeyHolder,
    /// A store or log can neither be read nor written for now: its file, disk or folder fails.
    StoreIo,
    /// The system fails: a file, a connection, memory, random numbers.
    Io,
    /// The caller or a signal stopped the work.
    Interrupted,
    /// A defect of talaria.
    Bug,
}

impl ErrorKind {
    /// All kinds, for tests of tables.
    pub const ALL: [Self; 23] = [
        Self::NotFound,
        Self::Ambiguous,
        Self::Unconfirmed,
        Self::Refused,
        Self::NotAccepted,
        Self::UnusableKey,
        Self::NoSecret,
        Self::Exists,
        Self::Usage,
        Self::Malformed,
        Self::Tampered,
        Self::Unsupported,
        Self::TooLarge,
        Self::Unexpected,
        Self::UnfitKey,
        Self::NoStore,
        Self::Store,
        Self::Unproven,
        Self::KeyHolder,
        Self::StoreIo,
        Self::Io,
        Self::Interrupted,
        Self::Bug,
    ];
}
