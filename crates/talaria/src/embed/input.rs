//! Keys, certificates, passphrases and fingerprints as callers give them.

use talaria_message::openpgp::crypto::Password;
use talaria_message::openpgp::{Cert, Fingerprint};
use talaria_message::{DecryptionKey, MessageError, decryption_keys, read_certs};

use crate::error::Error;

/// The keys for decryption in `keys`, which are unlocked with one of `passphrases` when they are
/// needed.
pub(super) fn secret_keys<K: AsRef<[u8]>, P: AsRef<[u8]>>(
    keys: &[K],
    passphrases: &[P],
) -> Result<Vec<DecryptionKey>, Error> {
    let unlocking = passwords(passphrases)?;
    let certs = parse_all(keys)?;
    if !certs.iter().all(Cert::is_tsk) {
        return Err(MessageError::Malformed("no secret key found").into());
    }
    Ok(decryption_keys(&certs, move |asked, _| unlocking.get(asked).cloned()))
}

/// Parses fingerprints of certificates or keys, in hexadecimal.
///
/// # Errors
///
/// [`MessageError::Usage`] for any other text.
pub fn fingerprints<S: AsRef<str>>(texts: &[S]) -> Result<Vec<Fingerprint>, Error> {
    let parsed = |text: &S| {
        let digits: String = text.as_ref().chars().filter(|c| *c != ' ').collect();
        let fits = matches!(digits.len(), 40 | 64) && digits.bytes().all(|b| b.is_ascii_hexdigit());
        digits.parse().ok().filter(|_| fits).ok_or_else(|| {
            MessageError::Usage("a signer is a fingerprint of 40 or 64 hexadecimal digits").into()
        })
    };
    texts.iter().map(parsed).collect()
}

pub(super) fn passwords<B: AsRef<[u8]>>(texts: &[B]) -> Result<Vec<Password>, Error> {
    let password = |text: &B| match text.as_ref() {
        [] => Err(MessageError::Usage("a passphrase is empty").into()),
        text => Ok(Password::from(text)),
    };
    texts.iter().map(password).collect()
}

/// All certificates in all of `inputs`.
pub(super) fn parse_all<B: AsRef<[u8]>>(inputs: &[B]) -> Result<Vec<Cert>, Error> {
    let parsed = inputs.iter().map(|bytes| parse(bytes.as_ref()));
    Ok(parsed.collect::<Result<Vec<_>, _>>()?.concat())
}

/// The certificates in `bytes`, at least one.
pub(super) fn parse(bytes: &[u8]) -> Result<Vec<Cert>, MessageError> {
    const NONE: MessageError =
        MessageError::Malformed("the input is neither a certificate nor a key");
    let certs: Vec<Cert> =
        read_certs(bytes)?.into_iter().collect::<Result<_, _>>().map_err(|_| NONE)?;
    if certs.is_empty() { Err(NONE) } else { Ok(certs) }
}
