//! Making keys.

use std::time::{Duration, SystemTime};

use openpgp::cert::{CertBuilder, CipherSuite};
use openpgp::packet::Signature;
use openpgp::types::{Features, KeyFlags};
use talaria_message::openpgp;

use super::{KeyStore, Protection, protect, with_secrets};
use crate::Error;

/// What kind of key to make.
#[derive(Clone, Debug, Default)]
pub struct GenerateOptions {
    /// User IDs, the primary one first.
    pub user_ids: Vec<String>,
    /// Who is to read it.
    pub profile: KeyProfile,
    /// The algorithms of primary key and subkeys.
    pub algorithm: KeyAlgorithm,
    /// For how many seconds it is valid, for ever without.
    pub validity_seconds: Option<u32>,
}

/// Specifications that keys can follow.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum KeyProfile {
    /// Version 4, which everybody reads; it asks for messages that GnuPG reads, too.
    #[default]
    Rfc4880,
    /// Version 6, which GnuPG does not read.
    Rfc9580,
}

/// Algorithms of keys.
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

/// A key that was made.
#[derive(Clone, Debug)]
pub struct Generated {
    /// The key, locked as it is in the store.
    pub cert: openpgp::Cert,
    /// A revocation, for the day on which the key is lost. Whoever has it can end the key.
    pub revocation: Signature,
}

impl KeyStore {
    /// Makes a key at `now`, in seconds since 1970: a primary key that certifies, a subkey that signs and one
    /// that encrypts.
    ///
    /// # Errors
    ///
    /// [`Error::KeyRefused`] if there is no such key; what writing can meet.
    pub fn generate(
        &self,
        options: &GenerateOptions,
        protection: &Protection,
        now: u32,
    ) -> Result<Generated, Error> {
        let made = build(options, now);
        let (cert, revocation) = made.map_err(|source| Error::KeyRefused {
            action: "make",
            name: options.user_ids.first().cloned().unwrap_or_default(),
            source: source.into(),
        })?;
        let cert = with_secrets(cert, &mut |key| protect(key, protection).map(Some))?;
        let _lock = self.lock()?;
        self.write(&cert)?;
        Ok(Generated { cert, revocation })
    }
}

fn build(options: &GenerateOptions, now: u32) -> openpgp::Result<(openpgp::Cert, Signature)> {
    let (profile, features) = match options.profile {
        KeyProfile::Rfc4880 => (openpgp::Profile::RFC4880, Features::empty().set_seipdv1()),
        KeyProfile::Rfc9580 => (openpgp::Profile::RFC9580, Features::sequoia()),
    };
    let suite = match options.algorithm {
        KeyAlgorithm::Curve25519 => CipherSuite::Cv25519,
        KeyAlgorithm::Rsa3072 => CipherSuite::RSA3k,
        KeyAlgorithm::Rsa4096 => CipherSuite::RSA4k,
    };
    let encryption = KeyFlags::empty().set_transport_encryption().set_storage_encryption();
    let mut builder = CertBuilder::new()
        .set_profile(profile)?
        .set_features(features)?
        .set_cipher_suite(suite)
        .set_creation_time(SystemTime::UNIX_EPOCH + Duration::from_secs(now.into()))
        .set_validity_period(options.validity_seconds.map(|s| Duration::from_secs(s.into())))
        .set_primary_key_flags(KeyFlags::empty().set_certification())
        .add_signing_subkey()
        .add_subkey(encryption, None, None);
    for user_id in &options.user_ids {
        builder = builder.add_userid(user_id.as_str());
    }
    builder.generate()
}
