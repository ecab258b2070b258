//! Redactions: user IDs that a store removes and no longer accepts.

use crate::cert::Cert;
use crate::hex::Lower;
use crate::packet::PacketRef;
use crate::tag::Tag;
use crate::user_id;

/// The user IDs of a certificate that are removed and no longer accepted.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Redaction {
    /// All user IDs and attributes.
    All,
    /// The user ID or attribute whose body has this SHA-256 digest.
    One([u8; 32]),
}

impl Redaction {
    /// The redaction of one user ID, given as the body of its packet.
    #[must_use]
    pub fn of(user_id: &[u8]) -> Self {
        Self::One(user_id::digest(user_id))
    }

    /// The digest of the one user ID, as hexadecimal digits. `None` for all user IDs.
    #[must_use]
    pub fn digest_text(&self) -> Option<String> {
        match self {
            Self::All => None,
            Self::One(digest) => Some(Lower(digest).to_string()),
        }
    }

    /// The form in the store: nothing for all user IDs.
    #[must_use]
    pub fn stored(&self) -> &[u8] {
        match self {
            Self::All => &[],
            Self::One(digest) => digest,
        }
    }

    /// Reads the form in the store. `None` if it is damaged.
    #[must_use]
    pub fn from_stored(stored: &[u8]) -> Option<Self> {
        match stored {
            [] => Some(Self::All),
            digest => Some(Self::One(digest.try_into().ok()?)),
        }
    }
}

/// The redacted user IDs of one certificate.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Redacted(Vec<Redaction>);

impl Redacted {
    /// The redactions of one certificate.
    #[must_use]
    pub fn new(redactions: Vec<Redaction>) -> Self {
        Self(redactions)
    }

    /// Whether nothing is redacted.
    #[must_use]
    pub fn is_none(&self) -> bool {
        self.0.is_empty()
    }

    /// The certificate without its redacted user IDs.
    #[must_use]
    pub fn apply(&self, cert: &Cert) -> Cert {
        cert.retain(|_, packet| !self.names(packet))
    }

    /// Whether a packet is redacted.
    fn names(&self, packet: PacketRef<'_>) -> bool {
        if self.is_none() || !matches!(packet.tag, Tag::USER_ID | Tag::USER_ATTRIBUTE) {
            return false;
        }
        let name = Redaction::of(packet.body);
        self.0.iter().any(|gone| *gone == Redaction::All || *gone == name)
    }

    /// Whether a certificate has a redacted packet.
    #[must_use]
    pub fn touches(&self, cert: &Cert) -> bool {
        !self.is_none() && cert.packets().any(|packet| self.names(packet))
    }
}
