//! The errors of GnuPG by their numbers (its `gpg-error.h`), which stand in status lines, and their
//! texts.

/// An error with a number of GnuPG.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum Code {
    /// Anything without a number of its own.
    General,
    /// The public-key algorithm is unknown.
    PublicAlgorithm,
    /// The digest algorithm is unknown or rejected.
    Digest,
    /// The key is not bound to its certificate.
    BadKey,
    /// No keyring has the key.
    NoKey,
    /// The agent does not have the secret key.
    NoSecret,
    /// A key may not be used, for whatever reason.
    UnusableKey,
    /// Nobody was named.
    NoUserId,
    /// The type of the signature is not one for documents.
    SignatureClass,
    /// A key is newer than its signature, or than now.
    TimeConflict,
    /// There is nothing where something was expected.
    NoData,
    /// The data is damaged.
    BadData,
    /// The owner does not mean the key for signing.
    WrongUsage,
    /// Another command is meant for this kind of signature.
    NotProcessed,
    /// A part of the message is not allowed there.
    Unexpected,
    /// The compression algorithm is unknown.
    Compression,
    /// The input was empty.
    Empty,
    /// An error of the system, by its text.
    System(String),
}

impl Code {
    /// The number of the error, in status lines.
    pub(crate) fn number(&self) -> u32 {
        match self {
            Self::General | Self::Empty | Self::System(_) => 1,
            Self::PublicAlgorithm => 4,
            Self::Digest => 5,
            Self::BadKey => 6,
            Self::NoKey => 9,
            Self::NoUserId => 16,
            Self::NoSecret => 17,
            Self::SignatureClass => 32,
            Self::TimeConflict => 39,
            Self::UnusableKey => 53,
            Self::NoData => 58,
            Self::Compression => 61,
            Self::BadData => 89,
            Self::WrongUsage => 125,
            Self::NotProcessed => 128,
            Self::Unexpected => 170,
        }
    }

    /// The number with that of the program, in status lines about the end.
    pub(crate) fn whole_number(&self) -> u32 {
        const GPG: u32 = 2 << 24;
        match self {
            // GnuPG's mark of an end, which is no number.
            Self::Empty => u32::MAX,
            Self::System(text) if text == "No such file or directory" => GPG | 0x8051,
            Self::System(text) if text == "Permission denied" => GPG | 0x8001,
            // GnuPG does not say of these errors whose they are.
            Self::Unexpected => 38,
            Self::BadData | Self::Compression => self.number(),
            code => GPG | code.number(),
        }
    }

    /// The text of the error.
    pub(crate) fn text(&self) -> &str {
        match self {
            Self::General => "General error",
            Self::PublicAlgorithm => "Invalid public key algorithm",
            Self::Digest => "Invalid digest algorithm",
            Self::BadKey => "Bad public key",
            Self::NoKey => "No public key",
            Self::NoUserId => "No user ID",
            Self::NoSecret => "No secret key",
            Self::UnusableKey => "Unusable public key",
            Self::SignatureClass => "Invalid signature class",
            Self::TimeConflict => "Time conflict",
            Self::NoData => "No data",
            Self::BadData => "Bad data",
            Self::WrongUsage => "Wrong key usage",
            Self::NotProcessed => "Not processed",
            Self::Unexpected => "Unexpected error",
            Self::Compression => "Invalid compression algorithm",
            Self::Empty => "Unknown system error",
            Self::System(text) => text,
        }
    }

    /// The error of the system without the number that Rust adds.
    pub(crate) fn system(error: &std::io::Error) -> Self {
        let text = error.to_string();
        let end = text.find(" (os error").unwrap_or(text.len());
        Self::System(text[..end].to_owned())
    }
}

/// The end of the program before its end, with this exit status.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Exit(pub(crate) u8);

/// The innermost cause of an error.
pub(crate) fn cause(error: &(dyn std::error::Error + 'static)) -> String {
    let mut cause = error;
    while let Some(next) = cause.source() {
        cause = next;
    }
    let text = cause.to_string();
    text[..text.find(" (os error").unwrap_or(text.len())].to_owned()
}
