//! Passphrases of secret keys at rest.

use std::fmt;

use openpgp::crypto::{Password, S2K};
use openpgp::packet::key::{KeyRole, PrimaryRole, SecretKeyMaterial, SecretParts, SubordinateRole};
use openpgp::packet::{Key, Packet};
use openpgp::types::{AEADAlgorithm, SymmetricAlgorithm};
use sequoia_openpgp as openpgp;

use crate::keys::AskForKey;
use crate::make::error::{MakeError, Result};
use crate::make::primary::opened;

/// The protection of secret keys at rest.
#[derive(Clone)]
pub enum Protection {
    /// Encryption with a passphrase.
    Passphrase(Password),
    /// No encryption: only the permissions of the file.
    Unprotected,
}

/// Leaves the passphrase out.
impl fmt::Debug for Protection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Passphrase(_) => "Passphrase(..)",
            Self::Unprotected => "Unprotected",
        })
    }
}

/// A secret key with its role. AEAD protection authenticates the role.
#[derive(Clone)]
pub enum SecretKey {
    /// The secret of the primary key.
    Primary(Key<SecretParts, PrimaryRole>),
    /// The secret of a subkey.
    Subkey(Key<SecretParts, SubordinateRole>),
}

impl SecretKey {
    /// The fingerprint of the key.
    #[must_use]
    pub fn fingerprint(&self) -> openpgp::Fingerprint {
        match self {
            Self::Primary(key) => key.fingerprint(),
            Self::Subkey(key) => key.fingerprint(),
        }
    }

    fn secret(&self) -> &SecretKeyMaterial {
        match self {
            Self::Primary(key) => key.secret(),
            Self::Subkey(key) => key.secret(),
        }
    }
}

/// Whether GnuPG left a note here that the secret is elsewhere, for example on a card.
#[must_use]
pub fn is_stub(key: &SecretKey) -> bool {
    match key.secret() {
        SecretKeyMaterial::Encrypted(encrypted) => {
            matches!(encrypted.s2k(), S2K::Private { .. } | S2K::Unknown { .. })
        }
        SecretKeyMaterial::Unencrypted(_) => false,
    }
}

/// `cert` with `change` applied to each of its secrets. Secrets for which `change` returns nothing
/// are removed.
///
/// # Errors
///
/// The errors of `change`, and [`MakeError::Failed`].
pub fn with_secrets(
    cert: openpgp::Cert,
    change: &mut dyn FnMut(SecretKey) -> Result<Option<SecretKey>>,
) -> Result<openpgp::Cert> {
    let mut packets = Vec::new();
    for packet in cert.into_tsk().into_packets() {
        packets.push(match packet {
            Packet::SecretKey(key) => {
                let public = key.clone().take_secret().0;
                match change(SecretKey::Primary(key))? {
                    Some(SecretKey::Primary(key)) => Packet::SecretKey(key),
                    _ => Packet::PublicKey(public),
                }
            }
            Packet::SecretSubkey(key) => {
                let public = key.clone().take_secret().0;
                match change(SecretKey::Subkey(key))? {
                    Some(SecretKey::Subkey(key)) => Packet::SecretSubkey(key),
                    _ => Packet::PublicSubkey(public),
                }
            }
            packet => packet,
        });
    }
    openpgp::Cert::from_packets(packets.into_iter()).map_err(MakeError::failed)
}

/// `cert` with its unprotected secrets locked. Secrets that have a passphrase keep it.
///
/// # Errors
///
/// [`MakeError::Failed`].
pub fn protected(cert: openpgp::Cert, protection: &Protection) -> Result<openpgp::Cert> {
    with_secrets(cert, &mut |key| protect(key, protection).map(Some))
}

/// `cert` with all its secrets unlocked, in memory. `ask` is called for their passphrases.
///
/// # Errors
///
/// [`MakeError::Locked`] if no passphrase fits.
pub fn unlocked(cert: openpgp::Cert, ask: &mut AskForKey<'_>) -> Result<openpgp::Cert> {
    with_secrets(cert, &mut |key| {
        if is_stub(&key) {
            return Ok(Some(key));
        }
        // Unlocking needs the role of the key.
        Ok(Some(match key {
            SecretKey::Primary(key) => {
                let pair = opened(key.role_as_unspecified().clone(), ask)?.0;
                SecretKey::Primary(Key::from(pair).role_into_primary())
            }
            SecretKey::Subkey(key) => {
                let pair = opened(key.role_as_unspecified().clone(), ask)?.0;
                SecretKey::Subkey(Key::from(pair).role_into_subordinate())
            }
        }))
    })
}

/// Encrypts a secret that is not encrypted.
pub(super) fn protect(key: SecretKey, protection: &Protection) -> Result<SecretKey> {
    let Protection::Passphrase(password) = protection else { return Ok(key) };
    if key.secret().is_encrypted() {
        return Ok(key);
    }
    let locked = match key {
        SecretKey::Primary(key) => lock(key, password).map(SecretKey::Primary),
        SecretKey::Subkey(key) => lock(key, password).map(SecretKey::Subkey),
    };
    locked.map_err(MakeError::failed)
}

/// Encrypts a secret in a form that readers of the key's version support: GnuPG has neither Argon2
/// nor AEAD here.
pub(super) fn lock<R: KeyRole>(
    key: Key<SecretParts, R>,
    password: &Password,
) -> openpgp::Result<Key<SecretParts, R>> {
    let version = key.version();
    let (key, mut secret) = key.take_secret();
    if version < 6 {
        let cipher = SymmetricAlgorithm::AES256;
        secret.encrypt_in_place_with(&key, S2K::default(), cipher, None, password)?;
    } else {
        // The second choice of RFC 9106: 64 MiB and about 0.1 seconds.
        let mut salt = [0; 16];
        openpgp::crypto::random(&mut salt)?;
        let s2k = S2K::Argon2 { salt, t: 3, p: 4, m: 16 };
        let (cipher, aead) = (SymmetricAlgorithm::AES256, AEADAlgorithm::OCB);
        secret.encrypt_in_place_with(&key, s2k, cipher, Some(aead), password)?;
    }
    Ok(key.add_secret(secret).0)
}
