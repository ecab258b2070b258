//! The commands of an operator about certificates, which `talaria admin` and a server carry out alike.

use talaria_cert::{Fingerprint, Timestamp};
use talaria_store::{Redaction, Return, Store, StoreError};

/// A command about one certificate, which need not be in the store.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Command {
    /// The certificate is deleted. It may come back.
    Delete,
    /// The certificate is deleted and kept out.
    Block,
    /// The certificate may come back.
    Unblock,
    /// User IDs are removed and kept out.
    Redact(Vec<Redaction>),
    /// User IDs may come back.
    Unredact,
}

/// What a [`Command`] has done.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Outcome {
    /// The certificate was here, and is deleted.
    Deleted,
    /// There was no certificate to delete.
    NotHere,
    /// The certificate was here, is deleted, and is kept out.
    DeletedAndBlocked,
    /// The certificate was not here, and is kept out.
    Blocked,
    /// The certificate was kept out, and may come back.
    Unblocked,
    /// The certificate was not kept out.
    NotBlocked,
    /// The user IDs are removed from the certificate here, and kept out.
    Redacted,
    /// The certificate is not here. The user IDs will be kept out when it comes.
    RedactedBefore,
    /// User IDs were kept out, and may come back.
    Unredacted,
    /// No user ID was kept out.
    NotRedacted,
}

/// Something that a store keeps out.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum KeptOut {
    /// A certificate, and since when, if the log of changes still has it.
    Blocked {
        /// The certificate.
        fingerprint: Fingerprint,
        /// The time of the command.
        since: Option<Timestamp>,
    },
    /// User IDs of a certificate.
    Redacted {
        /// The certificate.
        fingerprint: Fingerprint,
        /// The user IDs.
        redaction: Redaction,
    },
}

impl Command {
    /// Carries out the command in one transaction.
    ///
    /// # Errors
    ///
    /// [`StoreError::ReadOnly`] or any error of a write.
    pub fn carry_out(
        &self,
        store: &mut Store,
        fingerprint: Fingerprint,
        now: Timestamp,
    ) -> Result<Outcome, StoreError> {
        store.atomically(|store| {
            let is_here = store.row(fingerprint)?.is_some();
            let choose = |which, yes, no| if which { yes } else { no };
            Ok(match self {
                Self::Delete => {
                    if is_here {
                        store.delete(&[fingerprint], Return::Allowed, now)?;
                    }
                    choose(is_here, Outcome::Deleted, Outcome::NotHere)
                }
                Self::Block => {
                    store.delete(&[fingerprint], Return::Blocked, now)?;
                    choose(is_here, Outcome::DeletedAndBlocked, Outcome::Blocked)
                }
                Self::Unblock => {
                    let was_blocked = store.operator_mut().unblock(&[fingerprint])? > 0;
                    choose(was_blocked, Outcome::Unblocked, Outcome::NotBlocked)
                }
                Self::Redact(redactions) => {
                    store.operator_mut().redact(fingerprint, redactions, now)?;
                    choose(is_here, Outcome::Redacted, Outcome::RedactedBefore)
                }
                Self::Unredact => {
                    let was_redacted = store.operator_mut().unredact(fingerprint)? > 0;
                    choose(was_redacted, Outcome::Unredacted, Outcome::NotRedacted)
                }
            })
        })
    }
}

impl Outcome {
    /// The outcome in words, such as `deleted and blocked`.
    #[must_use]
    pub fn words(self) -> &'static str {
        match self {
            Self::Deleted => "deleted",
            Self::NotHere => "not here",
            Self::DeletedAndBlocked => "deleted and blocked",
            Self::Blocked => "blocked",
            Self::Unblocked => "unblocked",
            Self::NotBlocked => "not blocked",
            Self::Redacted => "redacted",
            Self::RedactedBefore => "redacted before it is there",
            Self::Unredacted => "unredacted",
            Self::NotRedacted => "not redacted",
        }
    }

    /// Whether there was anything to do.
    #[must_use]
    pub fn did_something(self) -> bool {
        !matches!(self, Self::NotHere | Self::NotBlocked | Self::NotRedacted)
    }
}

/// All blocked certificates, and all redactions.
///
/// # Errors
///
/// [`StoreError::Damaged`] or [`StoreError::Engine`].
pub fn kept_out(store: &Store) -> Result<Vec<KeptOut>, StoreError> {
    let mut all = Vec::new();
    for tombstone in store.log().all_tombstones()? {
        if tombstone.returning == Return::Blocked {
            let since = store.log().time_of(tombstone.change)?;
            all.push(KeptOut::Blocked { fingerprint: tombstone.fingerprint, since });
        }
    }
    for (fingerprint, redaction) in store.operator().redactions()? {
        all.push(KeptOut::Redacted { fingerprint, redaction });
    }
    Ok(all)
}
