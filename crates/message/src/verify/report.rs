//! What is reported on a signature.

use talaria_cert::KeyId;

/// The key that a signature names.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub struct Issuer {
    /// Its key ID.
    pub key_id: KeyId,
    /// Its fingerprint, if the signature has it.
    pub fingerprint: Option<talaria_cert::Fingerprint>,
}

/// What came out of checking one signature.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Outcome {
    /// It is good and counts.
    Good,
    /// The key did not make it over this document.
    Bad,
    /// There is no certificate with the key.
    NoKey,
    /// The key made it, but it does not count.
    NotCounted(NotCounted),
    /// It cannot be checked: an algorithm, a version or a form that is not known.
    Unchecked(String),
}

impl Outcome {
    /// The name that programs know it by.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::Good => "good",
            Self::Bad => "bad",
            Self::NoKey => "no_key",
            Self::NotCounted(_) => "not_counted",
            Self::Unchecked(_) => "unchecked",
        }
    }

    /// Why it does not count or cannot be checked.
    #[must_use]
    pub fn why(&self) -> Option<String> {
        match self {
            Self::Good | Self::Bad | Self::NoKey => None,
            Self::NotCounted(why) => Some(why.to_string()),
            Self::Unchecked(why) => Some(why.clone()),
        }
    }
}

/// Why a signature that a key made does not count.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum NotCounted {
    /// Its digest can be forged.
    #[error("the digest {0} is weak")]
    WeakDigest(&'static str),
    /// Its own time is over.
    #[error("the signature has expired")]
    Expired,
    /// It was made later than now.
    #[error("the signature is from the future")]
    Future,
    /// The key was revoked when it was made, or is compromised.
    #[error("the key is revoked")]
    Revoked,
    /// The key had expired when it was made.
    #[error("the key had expired")]
    KeyExpired,
    /// The key belongs to no certificate, or is not for signing, or too weak.
    #[error("{0}")]
    Unbound(String),
    /// The signature is not one on a document.
    #[error("{0}")]
    Misused(&'static str),
    /// It insists on a part that is not understood, or on a reader who is somebody else.
    #[error("{0}")]
    Critical(talaria_cert::Incomprehensible),
}

/// Who made a signature.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Signer {
    /// The certificate, in upper-case hexadecimal.
    pub certificate: String,
    /// The key of it.
    pub key: String,
    /// The primary user ID at the time of the signature.
    pub user_id: Option<String>,
}

/// One signature, checked.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct SignatureReport {
    /// What came out.
    pub outcome: Outcome,
    /// Who made it, if the key is at hand.
    pub signer: Option<Signer>,
    /// The key that it names.
    pub issuer: Option<Issuer>,
    /// Seconds since 1970.
    pub created: u32,
    /// Seconds since 1970, 0 for never.
    pub expires: u32,
    /// Type (RFC 9580, section 5.2.1).
    pub kind: u8,
    /// 3, 4, 5 or 6.
    pub version: u8,
    /// Public-key algorithm (RFC 9580, section 9.1).
    pub algorithm: u8,
    /// Digest (RFC 9580, section 9.5).
    pub hash: u8,
    /// The user ID that its maker says to act as.
    pub signer_user_id: Option<Vec<u8>>,
    /// What was signed, if the signature is one of the key.
    pub digest: Vec<u8>,
    /// What has become of the key since: it has expired, or was revoked.
    pub since: Option<NotCounted>,
}

impl SignatureReport {
    /// Whether it is good and counts.
    #[must_use]
    pub fn is_good(&self) -> bool {
        self.outcome == Outcome::Good
    }

    /// The report on what cannot be read as a signature.
    #[must_use]
    pub fn unreadable(why: &str) -> Self {
        Self {
            outcome: Outcome::Unchecked(why.to_owned()),
            signer: None,
            issuer: None,
            created: 0,
            expires: 0,
            kind: 0,
            version: 0,
            algorithm: 0,
            hash: 0,
            signer_user_id: None,
            digest: Vec::new(),
            since: None,
        }
    }
}
