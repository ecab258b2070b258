//! New keys.

use std::time::Duration;

use openpgp::cert::{CertBuilder, CipherSuite};
use openpgp::packet::Signature;
use openpgp::types::{Features, KeyFlags};
use sequoia_openpgp as openpgp;

use crate::make::date::at;
use crate::make::error::{MakeError, Result};
use crate::make::protect::{Protection, protected};

/// Options for a new key. Programs set the fields of [`Self::default`].
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct GenerateOptions {
    /// User IDs, the primary one first.
    pub user_ids: Vec<String>,
    /// The specification that the key follows.
    pub profile: KeyProfile,
    /// The algorithms of primary key and subkeys.
    pub algorithm: KeyAlgorithm,
    /// The purposes of the subkeys.
    pub uses: KeyUses,
    /// The validity in seconds; `None` for no expiry.
    pub validity_seconds: Option<u32>,
}

/// The specifications that a key can follow.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum KeyProfile {
    /// Version 4, which every implementation reads. The key asks for messages that GnuPG reads,
    /// too.
    #[default]
    Rfc4880,
    /// Version 6, which GnuPG does not read.
    Rfc9580,
}

/// The algorithms of keys.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum KeyAlgorithm {
    /// Ed25519 and X25519.
    #[default]
    Curve25519,
    /// RSA with 3072 bits.
    Rsa3072,
    /// RSA with 4096 bits.
    Rsa4096,
}

impl KeyAlgorithm {
    pub(super) fn suite(self) -> CipherSuite {
        match self {
            Self::Curve25519 => CipherSuite::Cv25519,
            Self::Rsa3072 => CipherSuite::RSA3k,
            Self::Rsa4096 => CipherSuite::RSA4k,
        }
    }
}

/// The purposes of the subkeys of a new key.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum KeyUses {
    /// One subkey signs, one subkey encrypts.
    #[default]
    SignAndEncrypt,
    /// One subkey signs.
    Sign,
}

/// A new key.
#[derive(Clone)]
pub struct Generated {
    /// The key, locked as it will be stored.
    pub cert: openpgp::Cert,
    /// A revocation certificate, in case the key is lost. Anybody who has it can revoke the key.
    pub revocation: Signature,
}

/// Generates a key at `now`, in seconds since 1970: a primary key that certifies, and a subkey for
/// each purpose. The announced features follow the profile, because the holder of a key for older
/// programs may well use one of them.
///
/// # Errors
///
/// [`MakeError::Failed`] if the key cannot be generated.
pub fn generate(options: &GenerateOptions, protection: &Protection, now: u32) -> Result<Generated> {
    let (cert, revocation) = build(options, now).map_err(MakeError::failed)?;
    Ok(Generated { cert: protected(cert, protection)?, revocation })
}

fn build(options: &GenerateOptions, now: u32) -> openpgp::Result<(openpgp::Cert, Signature)> {
    let (profile, features) = match options.profile {
        KeyProfile::Rfc4880 => (openpgp::Profile::RFC4880, Features::empty().set_seipdv1()),
        KeyProfile::Rfc9580 => (openpgp::Profile::RFC9580, Features::sequoia()),
    };
    let mut builder = CertBuilder::new()
        .set_profile(profile)?
        .set_features(features)?
        .set_cipher_suite(options.algorithm.suite())
        .set_creation_time(at(now))
        .set_validity_period(options.validity_seconds.map(|s| Duration::from_secs(s.into())))
        .set_primary_key_flags(KeyFlags::empty().set_certification())
        .add_signing_subkey();
    if options.uses == KeyUses::SignAndEncrypt {
        let encryption = KeyFlags::empty().set_transport_encryption().set_storage_encryption();
        builder = builder.add_subkey(encryption, None, None);
    }
    for user_id in &options.user_ids {
        builder = builder.add_userid(user_id.as_str());
    }
    builder.generate()
}
