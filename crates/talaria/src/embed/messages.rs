//! Encrypting and decrypting messages in memory.

use std::borrow::Cow;

use parking_lot::Mutex;
use talaria_message::openpgp::Fingerprint;
use talaria_message::{
    EncryptOptions, Issuer, MessageError, MessageKind, Profile, Recipients, Recognised, Rules,
    Sealer, SignatureReport, Unsigned, unarmored,
};

use crate::embed::call::now;
use crate::embed::input::{parse_all, passwords, secret_keys};
use crate::embed::key::SharedKey;
use crate::embed::verifier::{SharedVerifier, acceptance};
use crate::error::Error;

/// A sealer for passphrases and for all certificates in `certs`. Each item of `certs` has one or
/// more certificates. With `profile` as `None`, the sealer uses the newest packet format that all
/// certificates have announced. `rules` are those by which the certificates count.
///
/// # Errors
///
/// [`Error::Message`] if there is no recipient, an item without a certificate, or a certificate
/// without a key to encrypt to.
pub fn sealer<P: AsRef<[u8]>, C: AsRef<[u8]>>(
    passphrases: &[P],
    certs: &[C],
    profile: Option<Profile>,
    rules: Rules,
) -> Result<Sealer, Error> {
    let mut recipients = Recipients::default();
    for cert in parse_all(certs)? {
        recipients.add(&cert, rules, &mut |_| None, now())?;
    }
    passwords(passphrases)?.into_iter().for_each(|password| recipients.add_password(password));
    let mut options = EncryptOptions::default();
    options.profile = profile;
    options.threads = 1;
    Ok(Sealer::new(&recipients, options)?)
}

/// Decrypts messages with passphrases and secret keys, one message at a time. A program that
/// decrypts in several threads needs one opener per thread.
pub struct SharedOpener(Mutex<talaria_message::Opener>);

impl SharedOpener {
    /// An opener with all secret keys in `keys`. Locked keys are unlocked with one of
    /// `key_passphrases` when a message is for them.
    ///
    /// # Errors
    ///
    /// [`Error::Message`] if an item of `keys` has no key.
    pub fn new<P: AsRef<[u8]>, K: AsRef<[u8]>>(
        passphrases: &[P],
        keys: &[K],
        key_passphrases: &[P],
    ) -> Result<Self, Error> {
        let keys = secret_keys(keys, key_passphrases)?;
        Ok(Self(Mutex::new(talaria_message::Opener::new(keys, passwords(passphrases)?))))
    }

    /// The content of a message; its signatures are ignored.
    ///
    /// # Errors
    ///
    /// [`Error::Message`]; no content is returned then.
    pub fn open(&self, sealed: &[u8]) -> Result<Vec<u8>, Error> {
        let nobody = Box::new(|_: &Issuer| Vec::new());
        let verifier = talaria_message::Verifier::new(nobody, Rules::default(), now());
        Ok(self.0.lock().open(&encrypted(sealed)?, &verifier)?.0)
    }

    /// The content of a message and the reports on its signatures; no reports if the message is not
    /// signed. With `signers`, each of them must have made a good signature.
    ///
    /// # Errors
    ///
    /// [`Error::Message`], with [`MessageError::NotAccepted`] for a bad or missing signature; no
    /// content is returned then.
    pub fn open_verified(
        &self,
        sealed: &[u8],
        verifier: &SharedVerifier,
        signers: Option<&[Fingerprint]>,
    ) -> Result<(Vec<u8>, Vec<SignatureReport>), Error> {
        let sealed = encrypted(sealed)?;
        let current = verifier.current()?;
        let (plain, decrypted) = self.0.lock().open(&sealed, &current)?;
        acceptance(signers, Unsigned::Accepted)
            .decide(&decrypted.signatures)
            .map_err(MessageError::NotAccepted)?;
        Ok((plain, decrypted.signatures))
    }
}

/// Encrypts a message for the recipients of `sealer`, signed with `key`.
///
/// # Errors
///
/// [`Error::Message`] if the key refuses to sign.
pub fn seal_signed(sealer: &Sealer, plain: &[u8], key: &SharedKey) -> Result<Vec<u8>, Error> {
    Ok(sealer.seal_signed(plain, std::slice::from_mut(&mut *key.signing.lock()), now())?)
}

/// The packets of an encrypted message, without armor.
fn encrypted(sealed: &[u8]) -> Result<Cow<'_, [u8]>, MessageError> {
    let found = Recognised::of(sealed, true).map_or(MessageKind::Other, |what| what.kind);
    if found != MessageKind::Encrypted {
        return Err(MessageError::OtherKind { found, wanted: "an encrypted message" });
    }
    unarmored(sealed)
}
