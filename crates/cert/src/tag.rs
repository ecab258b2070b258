//! The types of packets.

/// The type of a packet (RFC 9580, section 5).
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Tag(pub u8);

impl Tag {
    /// A signature.
    pub const SIGNATURE: Self = Self(2);
    /// A primary key with its secret part.
    pub const SECRET_KEY: Self = Self(5);
    /// A primary key.
    pub const PUBLIC_KEY: Self = Self(6);
    /// A subkey with its secret part.
    pub const SECRET_SUBKEY: Self = Self(7);
    /// The obsolete marker packet, to be ignored.
    pub const MARKER: Self = Self(10);
    /// A note for the owner of a keyring, never part of a certificate.
    pub const TRUST: Self = Self(12);
    /// A user ID.
    pub const USER_ID: Self = Self(13);
    /// A subkey.
    pub const PUBLIC_SUBKEY: Self = Self(14);
    /// A user attribute, mostly a photograph.
    pub const USER_ATTRIBUTE: Self = Self(17);
    /// Random bytes, to be ignored.
    pub const PADDING: Self = Self(21);

    /// Whether a packet of this type starts a certificate.
    #[must_use]
    pub fn is_primary(self) -> bool {
        matches!(self, Self::PUBLIC_KEY | Self::SECRET_KEY)
    }

    /// Whether a packet of this type belongs to no certificate, wherever it is. Such packets are
    /// dropped on reading.
    #[must_use]
    pub fn is_ignored(self) -> bool {
        matches!(self, Self::MARKER | Self::TRUST | Self::PADDING)
    }
}
