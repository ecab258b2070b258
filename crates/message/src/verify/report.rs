//! Reports on signatures.

use talaria_cert::KeyId;

/// The issuer: the key that a signature names.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub struct Issuer {
    /// The key ID.
    pub key_id: KeyId,
    /// The fingerprint of the key, if the signature has it.
    pub fingerprint: Option<talaria_cert::Fingerprint>,
}

/// The outcome of verifying one signature.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Outcome {
    /// The signature is good and counts.
    Good,
    /// The key did not make the signature over this document.
    Bad,
    /// No certificate with the key was found.
    NoKey,
    /// The key made the signature, and the user has called its certificate bad.
    Distrusted,
    /// The key made the signature, but it does not count.
    NotCounted(NotCounted),
    /// The signature cannot be checked: unknown algorithm, version or form.
    Unchecked(String),
}

impl Outcome {
    /// The machine-readable name of the outcome.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::Good => "good",
            Self::Bad => "bad",
            Self::NoKey => "no_key",
            Self::Distrusted => "distrusted",
            Self::NotCounted(_) => "not_counted",
            Self::Unchecked(_) => "unchecked",
        }
    }

    /// The reason why the signature does not count or cannot be checked.
    #[must_use]
    pub fn why(&self) -> Option<String> {
        match self {
            Self::Good | Self::Bad | Self::NoKey => None,
            Self::Distrusted => Some("you called the certificate bad".to_owned()),
            Self::NotCounted(why) => Some(why.to_string()),
            Self::Unchecked(why) => Some(why.clone()),
        }
    }
}

/// The reason why a signature that the key made does not count.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum NotCounted {
    /// The digest of the signature can be forged.
    #[error("the digest algorithm {0} is weak")]
    WeakDigest(&'static str),
    /// The signature has expired.
    #[error("the signature has expired")]
    Expired,
    /// The signature is dated in the future.
    #[error("the signature has a creation date in the future")]
    Future,
    /// The key was revoked at the time of the signature, or is compromised.
    #[error("the key is revoked")]
    Revoked,
    /// The key had expired at the time of the signature.
    #[error("the key had already expired")]
    KeyExpired,
    /// The key belongs to no certificate, may not sign, or is too weak.
    #[error("{0}")]
    Unbound(String),
    /// The certificate has only self-signatures that are newer than the signature. The oldest of
    /// them, made at this time, decided.
    #[error("the certificate has no self-signature of before {}", talaria_cert::day(*.0))]
    BoundLater(u32),
    /// The signature is not a document signature.
    #[error("{0}")]
    Misused(&'static str),
    /// The signature has an unknown critical part, or is meant for another recipient.
    #[error("{0}")]
    Critical(talaria_cert::Incomprehensible),
}

/// The signer of a signature.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Signer {
    /// The fingerprint of the certificate, in upper-case hexadecimal.
    pub certificate: String,
    /// The fingerprint of the key in the certificate.
    pub key: String,
    /// The primary user ID at the time of the signature.
    pub user_id: Option<String>,
}

/// The report on one signature.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct SignatureReport {
    /// The outcome of the verification.
    pub outcome: Outcome,
    /// The signer, if the key is available.
    pub signer: Option<Signer>,
    /// The key that the signature names.
    pub issuer: Option<Issuer>,
    /// The creation time in seconds since 1970.
    pub created: u32,
    /// The expiry time in seconds since 1970, 0 for never.
    pub expires: u32,
    /// The signature type (RFC 9580, section 5.2.1).
    pub kind: u8,
    /// The version of the signature: 3, 4, 5 or 6.
    pub version: u8,
    /// The number of the public-key algorithm (RFC 9580, section 9.1).
    pub algorithm: u8,
    /// The number of the digest (RFC 9580, section 9.5).
    pub hash: u8,
    /// The signer's user ID that the signature gives.
    pub signer_user_id: Option<Vec<u8>>,
    /// The signed digest, if the key made the signature.
    pub digest: Vec<u8>,
    /// What the user should know of a good signature: since then the key has expired or was
    /// revoked, or its self-signatures are newer than the signature.
    pub since: Option<NotCounted>,
}

impl SignatureReport {
    /// Whether the signature is good and counts.
    #[must_use]
    pub fn is_good(&self) -> bool {
        self.outcome == Outcome::Good
    }

    /// The report on data that cannot be parsed as a signature.
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
