//! The kinds of OpenPGP data.

use std::fmt;

/// The kind of data in an input.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum MessageKind {
    /// An encrypted message.
    Encrypted,
    /// A signed message that is not encrypted.
    Signed,
    /// A text with a cleartext signature.
    SignedText,
    /// Signatures without their data.
    DetachedSignature,
    /// A message that is neither encrypted nor signed.
    Packed,
    /// One or more certificates.
    Certificate,
    /// One or more secret keys.
    SecretKey,
    /// Data in ASCII armor, or text under the head of a cleartext signature, that cannot be read.
    Damaged,
    /// Other data, or none.
    Other,
}

impl fmt::Display for MessageKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Encrypted => "an encrypted message",
            Self::Signed => "a signed message",
            Self::SignedText => "a text with a cleartext signature",
            Self::DetachedSignature => "a detached signature",
            Self::Packed => "a packed message (neither encrypted nor signed)",
            Self::Certificate => "a certificate",
            Self::SecretKey => "a secret key",
            Self::Damaged => "damaged OpenPGP data",
            Self::Other => "no OpenPGP message",
        })
    }
}
