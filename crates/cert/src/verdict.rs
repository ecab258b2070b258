//! What is known of a signature.

/// The verdict on one signature packet.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
#[repr(u8)]
pub enum Verdict {
    /// The primary key may have made it; not verified yet.
    Unchecked = 0,
    /// Made by the primary key over this component, whatever issuer the packet names.
    Good = 1,
    /// All its packets name the primary key as the issuer, but the key did not make it.
    Bad = 2,
    /// Uses an algorithm, version or curve that is not supported here.
    Unsupported = 3,
    /// Uses a broken digest algorithm (MD5), or signs a collision of SHA-1.
    Weak = 4,
    /// Its fields do not fit into the packet.
    Malformed = 5,
    /// A packet names another key as its issuer, or none, and the primary key did not make it.
    Foreign = 6,
    /// Its type does not belong on this component.
    Misplaced = 7,
    /// Made by another key over this component, as was verified with the certificate of that key
    /// ([`crate::Cert::within`], [`crate::Cert::certified`]). Signatures that nobody had to rank or
    /// to serve stay [`Self::Foreign`]. The other key may have left the store since.
    Certified = 8,
    /// All its packets name other keys as its issuer, in bytes that anybody can change, so the
    /// primary key was not tried. It is tried as soon as a packet names it, and before a limit
    /// drops a signature ([`crate::Cert::within`]).
    Other = 9,
    /// [`Self::Certified`], by a key of which the owner of this certificate has certified a user
    /// ID. It is found out for serving ([`crate::Cert::certified`]), and not stored.
    Mutual = 10,
}

impl Verdict {
    /// The stored verdict with a number, as given by casting [`Self`] to `u8`.
    #[must_use]
    pub fn from_number(number: u8) -> Option<Self> {
        const ALL: [Verdict; 10] = [
            Verdict::Unchecked,
            Verdict::Good,
            Verdict::Bad,
            Verdict::Unsupported,
            Verdict::Weak,
            Verdict::Malformed,
            Verdict::Foreign,
            Verdict::Misplaced,
            Verdict::Certified,
            Verdict::Other,
        ];
        ALL.get(usize::from(number)).copied()
    }

    /// Whether the signature is one of another key, as far as is known.
    #[must_use]
    pub fn is_by_others(self) -> bool {
        matches!(self, Self::Foreign | Self::Certified | Self::Mutual | Self::Other)
    }

    /// Whether another key has made the signature, as was verified.
    #[must_use]
    pub fn is_certified(self) -> bool {
        matches!(self, Self::Certified | Self::Mutual)
    }
}

/// Whether self-signatures are verified now.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Verification {
    /// Verify all self-signatures.
    #[default]
    Full,
    /// Verify none: they stay [`Verdict::Unchecked`].
    Deferred,
}
