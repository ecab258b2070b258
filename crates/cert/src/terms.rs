//! The search terms of a certificate, from which a store builds its indexes.

use crate::address::Addressee;
use crate::cert::Cert;
use crate::fingerprint::{Fingerprint, KeyId};
use crate::hash::sha256;
use crate::holding::Holding;
use crate::summary::Summary;
use crate::user_id;
use crate::verdict::Verdict;

/// A name in the form that an index stores: 32 bits of a digest, 63 of a fingerprint, 62 of a key
/// ID. A handle selects candidates and proves nothing.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Handle(pub u64);

impl Handle {
    /// The handle for an exact search of user IDs: by e-mail address, or by the whole text of a
    /// user ID without one. Bytes that are not UTF-8 are replaced, as in [`user_id::text`].
    #[must_use]
    pub fn of_addressee(addressee: &Addressee) -> Self {
        Self::first_bytes(&sha256(&[user_id::text(addressee.as_bytes()).as_bytes()]))
    }

    /// The handle of a byte string, given in parts.
    #[must_use]
    pub fn of_bytes(parts: &[&[u8]]) -> Self {
        Self::first_bytes(&sha256(parts))
    }

    /// The handle of a key ID in a certificate that holds the key in this way. An index has the
    /// firmest [`Holding`] first.
    #[must_use]
    pub fn of_key(id: KeyId, holding: Holding) -> Self {
        Self(id.rotated() & !3 | holding as u64)
    }

    /// How the certificate holds the key of a handle by [`Self::of_key`].
    #[must_use]
    pub fn holding(self) -> Holding {
        match self.0 & 3 {
            0 => Holding::Primary,
            1 => Holding::SignedBack,
            2 => Holding::Bound,
            _ => Holding::Unbound,
        }
    }

    /// The leading bits of a fingerprint. Handles sort in the order of the fingerprints.
    #[must_use]
    pub fn of_fingerprint(fingerprint: Fingerprint) -> Self {
        let bytes = fingerprint.as_bytes().iter().take(8);
        Self(bytes.fold(0, |handle, &b| handle << 8 | u64::from(b)) >> 1)
    }

    /// The first four bytes of a longer name: cheap to store, and nearly unique among millions of
    /// names.
    #[must_use]
    pub fn first_bytes(bytes: &[u8]) -> Self {
        Self(bytes.iter().take(4).fold(0, |handle, &b| handle << 8 | u64::from(b)))
    }
}

/// The search terms of one certificate. Each list is in ascending order without duplicates.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Terms {
    /// The fingerprint of the primary key.
    pub fingerprint: Vec<Handle>,
    /// Key IDs of the primary key and the subkeys ([`Handle::of_key`]).
    pub keys: Vec<Handle>,
    /// First bytes of the keygrips.
    pub keygrips: Vec<Handle>,
    /// Identities in user IDs: the e-mail address, or the whole text of a user ID without one.
    pub addresses: Vec<Handle>,
    /// The designated revokers that the certificate names, whether the naming signatures are good
    /// or not.
    pub revokers: Vec<Handle>,
    /// All user IDs, [folded](user_id::folded), one per line, for full-text search. Empty if there
    /// is none.
    pub text: String,
}

impl Terms {
    /// The terms of `cert`, with the verdicts on all its signatures, whose summary is `summary`.
    #[must_use]
    pub fn of(cert: &Cert, verdicts: &[Verdict], summary: &Summary) -> Self {
        let mut terms = Self {
            fingerprint: vec![Handle::of_fingerprint(cert.fingerprint())],
            keys: keys(cert, verdicts),
            keygrips: keygrips(cert),
            addresses: summary
                .texts()
                .map(|text| Handle::of_addressee(&Addressee::of_user_id(text)))
                .collect(),
            revokers: cert.named_revokers().into_iter().map(Handle::of_fingerprint).collect(),
            text: text(summary),
        };
        let Self { addresses, revokers, .. } = &mut terms;
        for list in [addresses, revokers] {
            list.sort_unstable();
            list.dedup();
        }
        terms
    }
}

/// The key IDs of a certificate, for [`Terms::keys`].
#[must_use]
pub fn keys(cert: &Cert, verdicts: &[Verdict]) -> Vec<Handle> {
    let holdings = cert.holdings(verdicts).into_iter();
    let mut keys: Vec<Handle> = holdings.map(|(id, holding)| Handle::of_key(id, holding)).collect();
    keys.sort_unstable();
    keys
}

/// The key IDs of a certificate of which nothing but its summary can be read.
#[must_use]
pub fn keys_of_damaged(summary: &Summary) -> Vec<Handle> {
    let primary = summary.fingerprint();
    let subkeys = summary.subkeys.iter().map(|key| key.fingerprint);
    let mut keys: Vec<Handle> = subkeys
        .filter(|subkey| subkey.key_id() != primary.key_id())
        .map(|subkey| Handle::of_key(subkey.key_id(), Holding::Unbound))
        .chain([Handle::of_key(primary.key_id(), Holding::of_primary_key(primary))])
        .collect();
    keys.sort_unstable();
    keys.dedup();
    keys
}

/// The first bytes of the keygrips of a certificate, for [`Terms::keygrips`].
#[must_use]
pub fn keygrips(cert: &Cert) -> Vec<Handle> {
    let grips = cert.keys().filter_map(|key| key.keygrip());
    let mut keygrips: Vec<Handle> = grips.map(|grip| Handle::first_bytes(&grip.0)).collect();
    keygrips.sort_unstable();
    keygrips.dedup();
    keygrips
}

/// The folded text of a certificate for the full-text indexes.
#[must_use]
pub fn text(summary: &Summary) -> String {
    let lines: Vec<_> = summary.texts().map(|text| user_id::folded(&user_id::text(text))).collect();
    lines.join("\n")
}
