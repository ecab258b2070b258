//! New subkeys.

use std::time::Duration;

use openpgp::Packet;
use openpgp::crypto::{Password, Signer};
use openpgp::packet::Key;
use openpgp::packet::key::{Key4, Key6, KeyParts, SecretParts, SubordinateRole};
use openpgp::packet::signature::SignatureBuilder;
use openpgp::types::{Curve, HashAlgorithm, KeyFlags, SignatureType};
use sequoia_openpgp as openpgp;
use talaria_cert::Rules;

use crate::keys::AskForKey;
use crate::make::date::at;
use crate::make::error::{MakeError, Result};
use crate::make::generate::KeyAlgorithm;
use crate::make::primary::{primary, valid};
use crate::make::protect::lock;

/// Options for a new subkey. Programs set the fields of [`Self::default`].
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct SubkeyOptions {
    /// The purpose of the subkey.
    pub uses: SubkeyUse,
    /// The algorithm of the subkey.
    pub algorithm: KeyAlgorithm,
    /// The validity in seconds; `None` for that of the primary key.
    pub validity_seconds: Option<u32>,
}

/// The purposes of a subkey. An encryption subkey has no other purpose, which is the safest choice.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum SubkeyUse {
    /// Encryption of messages and files.
    #[default]
    Encrypt,
    /// Signing.
    Sign,
    /// Authentication, for example with SSH.
    Authenticate,
    /// Signing and authentication.
    SignAndAuthenticate,
}

impl SubkeyUse {
    fn flags(self) -> KeyFlags {
        let none = KeyFlags::empty();
        match self {
            Self::Encrypt => none.set_transport_encryption().set_storage_encryption(),
            Self::Sign => none.set_signing(),
            Self::Authenticate => none.set_authentication(),
            Self::SignAndAuthenticate => none.set_signing().set_authentication(),
        }
    }
}

/// Generates a subkey of `cert` at `now`, in seconds since 1970. Returns the subkey with its
/// secret, which is locked with the passphrase of the primary key, and the signatures that bind the
/// subkey to the certificate.
///
/// # Errors
///
/// [`MakeError::Revoked`] or [`MakeError::Invalid`]; [`MakeError::NoSecret`];
/// [`MakeError::Locked`]; [`MakeError::Failed`].
pub fn add_subkey(
    cert: &openpgp::Cert,
    options: &SubkeyOptions,
    ask: &mut AskForKey<'_>,
    rules: Rules,
    now: u32,
) -> Result<Vec<Packet>> {
    valid(cert, rules, now)?;
    let (mut signer, password) = primary(cert, ask)?;
    build(cert, options, &mut signer, password.as_ref(), now).map_err(MakeError::failed)
}

pub(super) fn build(
    cert: &openpgp::Cert,
    options: &SubkeyOptions,
    signer: &mut dyn Signer,
    password: Option<&Password>,
    now: u32,
) -> openpgp::Result<Vec<Packet>> {
    let validity = options.validity_seconds.map(|seconds| Duration::from_secs(seconds.into()));
    let mut template = SignatureBuilder::new(SignatureType::SubkeyBinding)
        .set_hash_algo(HashAlgorithm::SHA512)
        .set_signature_creation_time(at(now))?
        .set_key_flags(options.uses.flags())?
        .set_key_validity_period(validity)?;
    let mut key = secret(cert.primary_key().key().version(), options)?;
    key.set_creation_time(at(now))?;
    if options.uses != SubkeyUse::Encrypt {
        let mut subkey = key.clone().into_keypair()?;
        template = agreed(cert, &key, &mut subkey, template, now)?;
    }
    let binding = key.bind(signer, cert, template)?;
    if let Some(password) = password {
        key = lock(key, password)?;
    }
    Ok(vec![key.into(), binding.into()])
}

/// `template` with a cross-signature by the subkey, which confirms that the subkey belongs to
/// `cert`. Without it, anybody could add the subkey to his own certificate and claim its
/// signatures.
pub(super) fn agreed<P: KeyParts>(
    cert: &openpgp::Cert,
    subkey: &Key<P, SubordinateRole>,
    signer: &mut dyn Signer,
    template: SignatureBuilder,
    now: u32,
) -> openpgp::Result<SignatureBuilder> {
    let agreement = SignatureBuilder::new(SignatureType::PrimaryKeyBinding)
        .set_hash_algo(HashAlgorithm::SHA512)
        .set_signature_creation_time(at(now))?
        .sign_primary_key_binding(signer, cert.primary_key().key(), subkey)?;
    template.set_embedded_signature(agreement)
}

/// A new secret for a subkey of a key with this version.
fn secret(
    version: u8,
    options: &SubkeyOptions,
) -> openpgp::Result<Key<SecretParts, SubordinateRole>> {
    let encrypts = options.uses == SubkeyUse::Encrypt;
    let bits = match options.algorithm {
        KeyAlgorithm::Curve25519 => None,
        KeyAlgorithm::Rsa3072 => Some(3072),
        KeyAlgorithm::Rsa4096 => Some(4096),
    };
    Ok(match (version, bits) {
        (6, None) if encrypts => Key6::generate_x25519()?.into(),
        (6, None) => Key6::generate_ed25519()?.into(),
        (6, Some(bits)) => Key6::generate_rsa(bits)?.into(),
        (_, None) if encrypts => Key4::generate_ecc(false, Curve::Cv25519)?.into(),
        (_, None) => Key4::generate_ecc(true, Curve::Ed25519)?.into(),
        (_, Some(bits)) => Key4::generate_rsa(bits)?.into(),
    })
}
