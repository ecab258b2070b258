//! The reasons why an entry is not admissible.

use crate::bytes::Malformed;
use crate::checkpoint::BadCheckpoint;
use crate::genesis::MergeRule;
use crate::name::KeyName;
use crate::signature::BadSignature;

/// The reason why an entry is not admissible. Except for [`Self::Signature`], [`Self::Batch`] and
/// [`Self::Opening`], which concern what came with the entry, an entry that is refused is refused
/// for good, on every node.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Refusal {
    /// The entry has no encoding that the format allows.
    #[error("the format does not allow it: {0}")]
    Malformed(#[from] Malformed),
    /// The entry belongs to another log.
    #[error("the entry belongs to another log")]
    OtherLog,
    /// The signature does not hold.
    #[error("the signature does not count: {0}")]
    Signature(#[from] BadSignature),
    /// The statement of a batch is not about the entry.
    #[error("the statement of the batch is not about this entry")]
    Batch,
    /// The value beside the entry is not the one that the entry commits to.
    #[error("the value beside it is not the one that its author has signed")]
    Opening,
    /// An entry in its past is refused.
    #[error("an entry before it is refused")]
    Past,
    /// The author is no owner, and the entry names no grant.
    #[error("{0} is no owner of the log, and the entry names no grant")]
    Stranger(KeyName),
    /// The author's certificate, as genesis or the grant has it, has no such key.
    #[error("{key} may not sign for {author}")]
    Key {
        /// The author.
        author: KeyName,
        /// The key that the entry names.
        key: KeyName,
    },
    /// The log does not allow the algorithm of the key.
    #[error("the log does not allow keys with algorithm {0}")]
    Algorithm(u8),
    /// The entry names a grant that is not in its past, or no grant.
    #[error("the grant is not known to the entry")]
    UnknownGrant,
    /// The grant was given to somebody else.
    #[error("the grant is for another author")]
    OtherGrant,
    /// The grant had no effect yet: it was ended, or not enough owners had agreed.
    #[error("the grant is not in force")]
    GrantNotInForce,
    /// The grant does not cover the operation, the object, the field or the time.
    #[error("the grant does not allow this")]
    NotGranted,
    /// Only owners may do this, without a grant.
    #[error("only an owner may do this")]
    NotOwner,
    /// A revocation in the past of the entry ends its author, key or grant.
    #[error("the key or the grant was revoked before")]
    Revoked,
    /// The previous entry is in another chain, or has another place in it.
    #[error("the entry is not at its place in the chain")]
    Sequence,
    /// The entry stands where genesis is.
    #[error("the place of genesis is taken")]
    GenesisPlace,
    /// The clock is not behind those of the entries before it.
    #[error("the clock does not grow")]
    Clock,
    /// A link leads to the entry's own chain.
    #[error("a link leads to the entry's own chain")]
    Link,
    /// The operation does not fit the merge rule of the field.
    #[error("the merge rule of the field is {}", .0.name())]
    Rule(MergeRule),
    /// The object does not have this name and this creator.
    #[error("the object does not belong to this name and author")]
    Object,
    /// An entry that is named is not in the past, or is not of the right kind.
    #[error("{0} is not known to the entry, or is of another kind")]
    Reference(&'static str),
    /// The value is larger than the log allows.
    #[error("the value has {bytes} bytes, more than {limit}")]
    TooLarge {
        /// The length of the value.
        bytes: u64,
        /// The limit in genesis.
        limit: u64,
    },
    /// The checkpoint, or the cosignature, does not hold.
    #[error("the checkpoint does not hold: {0}")]
    Checkpoint(#[from] BadCheckpoint),
    /// The chain, or the number of chains, is beyond the limits for an author.
    #[error("the author has reached the limit of {0}")]
    Limit(&'static str),
}

impl Refusal {
    /// Whether the entry itself is refused, and not only what came with it.
    #[must_use]
    pub fn is_final(&self) -> bool {
        !matches!(self, Self::Signature(_) | Self::Batch | Self::Opening)
    }

    /// The kind of the refusal, one word.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Malformed(_) => "malformed",
            Self::OtherLog => "other-log",
            Self::Signature(_) => "signature",
            Self::Batch => "batch",
            Self::Opening => "opening",
            Self::Past => "past",
            Self::Stranger(_) => "stranger",
            Self::Key { .. } => "key",
            Self::Algorithm(_) => "algorithm",
            Self::UnknownGrant => "unknown-grant",
            Self::OtherGrant => "other-grant",
            Self::GrantNotInForce => "grant-not-in-force",
            Self::NotGranted => "not-granted",
            Self::NotOwner => "not-owner",
            Self::Revoked => "revoked",
            Self::Sequence => "sequence",
            Self::GenesisPlace => "genesis-place",
            Self::Clock => "clock",
            Self::Link => "link",
            Self::Rule(_) => "rule",
            Self::Object => "object",
            Self::Reference(_) => "reference",
            Self::TooLarge { .. } => "too-large",
            Self::Checkpoint(_) => "checkpoint",
            Self::Limit(_) => "limit",
        }
    }
}
