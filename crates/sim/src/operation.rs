//! Operations on a store, chosen by bytes.

use std::sync::LazyLock;

use talaria_cert::{Cert, Tag};
use talaria_corpus::{CorpusProfile, Generate, certs};
use talaria_store::{Return, TextIndex};
use talaria_trust::tofu::Policy;

/// Number of certificates that operations use.
pub(crate) const CERTS: usize = 10;

/// Number of connections to the store.
pub(crate) const CONNECTIONS: usize = 3;

/// The certificates that operations use, and one more.
static ALL: LazyLock<Vec<Cert>> = LazyLock::new(|| {
    certs(&Generate {
        seed: 14,
        first: 0,
        count: CERTS as u64 + 1,
        profile: CorpusProfile::small(),
    })
});

/// A certificate that operations use. Number [`CERTS`] is used by none of them.
pub(crate) fn cert(number: usize) -> &'static Cert {
    &ALL[number]
}

/// A copy of a certificate.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Copy {
    /// With all signatures.
    Whole,
    /// Without the signatures that are packets with even numbers.
    Odd,
    /// Without the signatures that are packets with odd numbers.
    Even,
}

/// The copy of a certificate.
pub(crate) fn copy_of(number: usize, copy: Copy) -> Cert {
    let keeps = |at: usize| match copy {
        Copy::Whole => true,
        Copy::Odd => at % 2 == 1,
        Copy::Even => at.is_multiple_of(2),
    };
    cert(number).retain(|at, packet| packet.tag != Tag::SIGNATURE || keeps(at))
}

/// An operation. `by` is the connection that it uses, and certificates are named by their numbers.
#[derive(Clone, Debug, Eq, PartialEq)]
#[expect(missing_docs, reason = "the fields are described above")]
#[non_exhaustive]
pub enum Operation {
    /// Imports copies of different certificates in one batch.
    Import { by: usize, copies: Vec<(usize, Copy)> },
    /// Deletes certificates, and may block them.
    Delete { by: usize, certs: Vec<usize>, returning: Return },
    /// Allows a certificate to come back.
    Unblock { by: usize, cert: usize },
    /// Redacts a user ID, or all.
    Redact { by: usize, cert: usize, user_id: Option<usize> },
    /// Ends all redactions of a certificate.
    Unredact { by: usize, cert: usize },
    /// Sets the owner trust of a certificate.
    SetTrust { by: usize, cert: usize, value: u8 },
    /// Records a verified signature, or an encryption if there is none.
    Observe { by: usize, cert: usize, signature: Option<u8> },
    /// Records a decision on a binding of an address.
    Decide { by: usize, cert: usize, policy: Policy },
    /// Adds a full-text index.
    AddIndex { by: usize, index: TextIndex },
    /// Removes a full-text index.
    DropIndex { by: usize, index: TextIndex },
    /// Compacts the store.
    Compact { by: usize },
    /// Compacts the store with another page size, as the only user.
    Repage { by: usize, page_bytes: u32 },
    /// Merges segments of the word index.
    Tidy { by: usize },
    /// Makes a change, in the middle of which the program panics. Seeds do not draw it.
    Panic { by: usize },
    /// Closes a connection.
    Close { by: usize },
    /// Builds a store with a new name. Certificates may occur twice.
    Build { number: usize, copies: Vec<(usize, Copy)> },
    /// Copies the store to a new name.
    Backup { by: usize, number: usize },
    /// Restores the store from the backup of an earlier operation, as the only user.
    Restore { backup: usize, number: usize },
    /// Makes the store one of format 4 or 9 and opens it, which upgrades it.
    Upgrade { by: usize, from: u8 },
}

/// Bytes that decide. After the last one, all are 0.
#[derive(Debug)]
pub(crate) struct Bytes<'a>(pub(crate) &'a [u8]);

impl Bytes<'_> {
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn below(&mut self, end: usize) -> usize {
        let Some((first, rest)) = self.0.split_first() else { return 0 };
        self.0 = rest;
        usize::from(*first) % end
    }

    fn copy(&mut self) -> (usize, Copy) {
        let copy = [Copy::Whole, Copy::Odd, Copy::Even][self.below(3)];
        (self.below(CERTS), copy)
    }

    /// The operation with this number in its sequence.
    pub(crate) fn operation(&mut self, number: usize) -> Operation {
        let kind = self.below(64);
        let by = self.below(CONNECTIONS);
        match kind {
            0..=17 => {
                let mut copies: Vec<(usize, Copy)> = Vec::new();
                for _ in 0..=self.below(5) {
                    let next = self.copy();
                    if copies.iter().all(|(cert, _)| *cert != next.0) {
                        copies.push(next);
                    }
                }
                Operation::Import { by, copies }
            }
            18..=22 => {
                let mut certs: Vec<usize> =
                    (0..=self.below(3)).map(|_| self.below(CERTS)).collect();
                certs.sort_unstable();
                certs.dedup();
                let returning = [Return::Allowed, Return::Blocked][self.below(2)];
                Operation::Delete { by, certs, returning }
            }
            23 | 24 => Operation::Unblock { by, cert: self.below(CERTS) },
            25..=27 => {
                let user_id = self.below(4).checked_sub(1);
                Operation::Redact { by, cert: self.below(CERTS), user_id }
            }
            28 => Operation::Unredact { by, cert: self.below(CERTS) },
            29..=32 => {
                let value = [0, 3, 4, 5, 6, 6][self.below(6)];
                Operation::SetTrust { by, cert: self.below(CERTS), value }
            }
            33..=36 => {
                let signature = [None, Some(1), Some(2)][self.below(3)];
                Operation::Observe { by, cert: self.below(CERTS), signature }
            }
            37..=39 => {
                let policies = [Policy::Auto, Policy::Good, Policy::Bad, Policy::Ask];
                let policy = policies[self.below(policies.len())];
                Operation::Decide { by, cert: self.below(CERTS), policy }
            }
            40..=42 => Operation::AddIndex { by, index: TextIndex::ALL[self.below(2)] },
            43 | 44 => Operation::DropIndex { by, index: TextIndex::ALL[self.below(2)] },
            45 | 46 => Operation::Compact { by },
            47 | 48 => Operation::Repage { by, page_bytes: [4096, 8192, 16384][self.below(3)] },
            49 => Operation::Tidy { by },
            50..=52 => Operation::Close { by },
            53..=55 => {
                let copies = (0..=self.below(6)).map(|_| self.copy()).collect();
                Operation::Build { number, copies }
            }
            56 | 57 => Operation::Backup { by, number },
            58..=60 => Operation::Restore { backup: self.below(number.max(1)), number },
            _ => Operation::Upgrade { by, from: [4, 9][self.below(2)] },
        }
    }
}
