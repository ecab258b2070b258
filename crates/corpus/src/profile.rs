//! The mixture of certificates that is generated: algorithms, user IDs, certifications, expiry.

/// The profile of a set of certificates. Shares are per thousand certificates.
#[derive(Clone, Debug, PartialEq)]
pub struct CorpusProfile {
    /// RSA keys of 2048 bits; all others have Ed25519 and Curve25519 keys as GnuPG writes them.
    pub rsa_per_mille: u32,
    /// Keys of algorithms 27 and 25 (RFC 9580) in place of 22 and 18. GnuPG 2.2 does not know them.
    pub native_per_mille: u32,
    /// More than one user ID; a third of these have three.
    pub user_ids_per_mille: u32,
    /// A second subkey, for signing, with its own signature back to the primary key.
    pub signing_subkey_per_mille: u32,
    /// Certifications by others: the median of a log-normal distribution, 0 for none at all.
    pub certifications_median: f64,
    /// The spread of that distribution (sigma of its logarithm).
    pub certifications_sigma: f64,
    /// RSA keys certify others as well, and not only Ed25519 keys, which sign 40 times as fast.
    pub rsa_certifies: bool,
    /// Keys with an expiry in 2038.
    pub expiring_per_mille: u32,
    /// Keys that have expired.
    pub expired_per_mille: u32,
    /// Certificates with a revocation of the key, of a user ID or of a subkey.
    pub revoked_per_mille: u32,
}

impl Default for CorpusProfile {
    fn default() -> Self {
        Self::small()
    }
}

impl CorpusProfile {
    /// About 1 KB: mostly one user ID, a few certifications, one RSA key in twenty.
    #[must_use]
    pub fn small() -> Self {
        Self {
            rsa_per_mille: 50,
            native_per_mille: 0,
            user_ids_per_mille: 200,
            signing_subkey_per_mille: 150,
            certifications_median: 1.9,
            certifications_sigma: 1.0,
            rsa_certifies: false,
            expiring_per_mille: 150,
            expired_per_mille: 80,
            revoked_per_mille: 40,
        }
    }

    /// About 27 KB with a long tail, as in the keyring of a distribution: mostly RSA, most of it
    /// certifications by others. Some 20 ms of computation for each.
    #[must_use]
    pub fn ring() -> Self {
        Self {
            rsa_per_mille: 700,
            user_ids_per_mille: 700,
            signing_subkey_per_mille: 300,
            certifications_median: 40.0,
            certifications_sigma: 1.2,
            rsa_certifies: true,
            ..Self::small()
        }
    }

    /// Ed25519 with one user ID and one subkey, nothing else: about 430 bytes.
    #[must_use]
    pub fn ed25519() -> Self {
        Self {
            rsa_per_mille: 0,
            native_per_mille: 0,
            user_ids_per_mille: 0,
            signing_subkey_per_mille: 0,
            certifications_median: 0.0,
            certifications_sigma: 0.0,
            rsa_certifies: false,
            expiring_per_mille: 0,
            expired_per_mille: 0,
            revoked_per_mille: 0,
        }
    }

    /// The profile of this name: `small`, `ring` or `ed25519`.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Some(match name {
            "small" => Self::small(),
            "ring" => Self::ring(),
            "ed25519" => Self::ed25519(),
            _ => return None,
        })
    }

    /// Whether certificate `index` has RSA keys.
    #[must_use]
    pub fn is_rsa(&self, index: u64) -> bool {
        self.rsa(index).0
    }

    /// Whether certificate `index` has RSA keys, and the number of earlier ones with RSA keys.
    pub(crate) fn rsa(&self, index: u64) -> (bool, u64) {
        let share = u64::from(self.rsa_per_mille.min(1000));
        let before = index * share / 1000;
        ((index + 1) * share / 1000 > before, before)
    }
}
