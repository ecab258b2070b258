//! Secret keys of certificates, prepared for signing and decrypting.

use std::sync::Arc;

use aws_lc_rs::digest::SHA1_FOR_LEGACY_USE_ONLY;
use parking_lot::Mutex;
use sequoia_openpgp as openpgp;
use sequoia_openpgp::crypto::{Decryptor, KeyPair, Password, SessionKey, mpi};
use sequoia_openpgp::packet::Key;
use sequoia_openpgp::packet::key::{PublicParts, SecretKeyMaterial, SecretParts, UnspecifiedRole};
use talaria_cert::{Purpose, Rules};
use zeroize::Zeroizing;

use crate::algorithm::Cipher;
use crate::certs::sound;
use crate::cfb;
use crate::encrypt::{DIGESTS, listed};
use crate::error::{KeyFault, MessageError, Result};
use crate::guard::guarded;
use crate::judged::{refused, usable};
use crate::secrets::DecryptionKey;
use crate::sign::SigningKey;
use crate::unsupported::unsupported;

/// A function that gives passphrases for a key, one per call, and `None` to stop. Its arguments are
/// the number of passphrases already given and the key.
pub type AskForKey<'a> =
    dyn FnMut(usize, &Key<PublicParts, UnspecifiedRole>) -> Option<Password> + Send + 'a;

/// The newest signing key of `cert` that is valid at `now`, in seconds since 1970, unlocked.
///
/// # Errors
///
/// [`MessageError::Key`] if there is no such key, or if no passphrase fits.
pub fn signing_key(
    cert: &openpgp::Cert,
    rules: Rules,
    now: u32,
    ask: &mut AskForKey<'_>,
) -> Result<SigningKey> {
    let found = usable(cert, Purpose::Sign, rules, &mut |_| None, now)?;
    let key = signing_keys(&found.keys).next().ok_or_else(|| {
        refused(cert, KeyFault::Other("has no secret key that may sign now".into()))
    })?;
    let mut signing = SigningKey::new(unlock(key, ask)?);
    if let Some(listed) = listed(&found.judge.preferences(now), DIGESTS) {
        signing.restrict(&listed);
    }
    Ok(signing)
}

/// The keys with a secret with which signatures can be made here, the newest first.
pub(crate) fn signing_keys(
    keys: &[Key<PublicParts, UnspecifiedRole>],
) -> impl Iterator<Item = Key<SecretParts, UnspecifiedRole>> {
    let supported = keys.iter().filter(|key| unsupported(key).is_none());
    let mut secret: Vec<_> =
        supported.filter_map(|key| key.clone().parts_into_secret().ok()).collect();
    secret.sort_by_key(|key| std::cmp::Reverse(key.creation_time()));
    secret.into_iter()
}

/// An unlocked key pair of `key`. The encryption of a secret authenticates whether the key is a
/// primary key or a subkey, so `key` must know its role. A key from
/// [`Cert::keys`](openpgp::Cert::keys) knows it; after `role_into_unspecified` a key has forgotten
/// it.
///
/// # Errors
///
/// [`MessageError::Key`] if no passphrase fits.
pub fn unlock(key: Key<SecretParts, UnspecifiedRole>, ask: &mut AskForKey<'_>) -> Result<KeyPair> {
    let name = key.fingerprint().to_hex();
    if key.secret().is_encrypted() {
        let public = key.parts_as_public().clone();
        let mut asked = 0;
        while let Some(password) = ask(asked, &public) {
            if let Some(Ok(key)) = guarded(|| decrypt_secret(key.clone(), &password)) {
                return key.into_keypair().map_err(MessageError::secret);
            }
            asked += 1;
        }
        let why = if asked == 0 { KeyFault::Locked } else { KeyFault::WrongPassphrase };
        return Err(MessageError::Key { name, why });
    }
    key.into_keypair().map_err(MessageError::secret)
}

/// `key` with its secret decrypted.
fn decrypt_secret(
    key: Key<SecretParts, UnspecifiedRole>,
    password: &Password,
) -> openpgp::Result<Key<SecretParts, UnspecifiedRole>> {
    key.clone().decrypt_secret(password).or_else(|error| {
        let secret = with_leading_zeros(&key, password).ok_or(error)?;
        Ok(key.take_secret().0.add_secret(secret.into()).0)
    })
}

/// The secret of an elliptic-curve key that GnuPG has locked. GnuPG 2.4 writes the secrets of
/// Ed25519 and Cv25519 with a length of 256 bits even if they have leading zeros. RFC 9580, section
/// 3.2, forbids leading zeros, and Sequoia rejects them.
fn with_leading_zeros(
    key: &Key<SecretParts, UnspecifiedRole>,
    password: &Password,
) -> Option<mpi::SecretKeyMaterial> {
    const DIGEST_BYTES: usize = 20;
    let SecretKeyMaterial::Encrypted(locked) = key.secret() else { return None };
    if locked.aead_algo().is_some() || locked.checksum() != Some(mpi::SecretKeyChecksum::SHA1) {
        return None;
    }
    let cipher = Cipher::from_number(locked.algo().into()).ok()?;
    let (iv, sealed) = locked.ciphertext().ok()?.split_at_checked(cipher.block_bytes())?;
    let stretched = locked.s2k().derive_key(password, cipher.key_bytes()).ok()?;
    let mut plain = Zeroizing::new(sealed.to_vec());
    cfb::decrypt(&stretched, cipher, iv, &mut plain).ok()?;
    let (number, digest) = plain.split_at_checked(plain.len().checked_sub(DIGEST_BYTES)?)?;
    let sum = aws_lc_rs::digest::digest(&SHA1_FOR_LEGACY_USE_ONLY, number);
    aws_lc_rs::constant_time::verify_slices_are_equal(sum.as_ref(), digest).ok()?;
    let (bits, number) = number.split_first_chunk::<2>()?;
    if usize::from(u16::from_be_bytes(*bits)).div_ceil(8) != number.len() {
        return None;
    }
    let scalar = mpi::ProtectedMPI::from(number);
    match key.mpis() {
        mpi::PublicKey::EdDSA { .. } => Some(mpi::SecretKeyMaterial::EdDSA { scalar }),
        mpi::PublicKey::ECDH { .. } => Some(mpi::SecretKeyMaterial::ECDH { scalar }),
        mpi::PublicKey::ECDSA { .. } => Some(mpi::SecretKeyMaterial::ECDSA { scalar }),
        _ => None,
    }
}

/// The decryption keys of `certs`, including expired and revoked ones, because old messages must
/// stay readable. For a locked key, `ask` is called for a passphrase when a message needs the key.
pub fn decryption_keys<'a, A>(
    certs: impl IntoIterator<Item = &'a openpgp::Cert>,
    ask: A,
) -> Vec<DecryptionKey>
where
    A: FnMut(usize, &Key<PublicParts, UnspecifiedRole>) -> Option<Password> + Send + 'static,
{
    let ask = Arc::new(Mutex::new(ask));
    let mut all = Vec::new();
    for cert in certs {
        let sound = sound(cert);
        for key in sound.keys().secret().filter(|key| key.key().pk_algo().for_encryption()) {
            let key = key.key().clone();
            let public = key.parts_as_public().clone();
            let key = Lazy { public, locked: Some(key), pair: None, ask: Arc::clone(&ask) };
            all.push(DecryptionKey::new(Box::new(key), cert.fingerprint()));
        }
    }
    all
}

/// A decryption key that is unlocked on first use.
struct Lazy<A> {
    public: Key<PublicParts, UnspecifiedRole>,
    locked: Option<Key<SecretParts, UnspecifiedRole>>,
    pair: Option<KeyPair>,
    ask: Arc<Mutex<A>>,
}

impl<A> Decryptor for Lazy<A>
where
    A: FnMut(usize, &Key<PublicParts, UnspecifiedRole>) -> Option<Password> + Send + 'static,
{
    fn public(&self) -> &Key<PublicParts, UnspecifiedRole> {
        &self.public
    }

    fn decrypt(
        &mut self,
        ciphertext: &mpi::Ciphertext,
        plaintext_len: Option<usize>,
    ) -> openpgp::Result<SessionKey> {
        if let Some(locked) = self.locked.take() {
            let mut ask = self.ask.lock();
            self.pair = Some(unlock(locked, &mut *ask)?);
        }
        match &mut self.pair {
            Some(pair) => pair.decrypt(ciphertext, plaintext_len),
            None => Err(MessageError::Key {
                name: self.public.fingerprint().to_hex(),
                why: KeyFault::Other("was not unlocked".into()),
            }
            .into()),
        }
    }
}
