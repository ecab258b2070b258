//! A secret key for signing, shared by threads.

use parking_lot::Mutex;
use talaria_message::openpgp::Cert;
use talaria_message::{MessageError, Rules, SigningKey, signing_key};

use crate::embed::call::now;
use crate::embed::input::{parse, passwords};
use crate::error::Error;

/// A secret key for signing.
pub struct SharedKey {
    pub(super) signing: Mutex<SigningKey>,
    certificate: String,
    /// The public parts.
    pub(super) cert: Cert,
}

impl SharedKey {
    /// The newest signing key of the only certificate in `bytes`, which counts by `rules`,
    /// unlocked.
    ///
    /// # Errors
    ///
    /// [`Error::Message`] if there is no such key, if there are several certificates, or if the
    /// passphrase does not fit.
    pub fn from_bytes(
        bytes: &[u8],
        passphrase: Option<&[u8]>,
        rules: Rules,
    ) -> Result<Self, Error> {
        let certs = parse(bytes)?;
        let [cert] = &certs[..] else {
            return Err(MessageError::Usage("several keys found; sign with a single key").into());
        };
        let unlocking = passwords(passphrase.as_slice())?;
        let mut ask = |asked: usize, _: &_| unlocking.get(asked).cloned();
        let signing = Mutex::new(signing_key(cert, rules, now(), &mut ask)?);
        let public = cert.clone().strip_secret_key_material();
        Ok(Self { signing, certificate: cert.fingerprint().to_hex(), cert: public })
    }

    /// The fingerprint of the certificate, in upper-case hexadecimal.
    #[must_use]
    pub fn certificate(&self) -> &str {
        &self.certificate
    }

    /// A detached signature on `data`.
    ///
    /// # Errors
    ///
    /// [`Error::Message`] if the key refuses to sign.
    pub fn sign(&self, data: &[u8]) -> Result<Vec<u8>, Error> {
        Ok(self.signing.lock().sign(data, now())?)
    }

    /// A detached signature on each of `data`, on all cores.
    ///
    /// # Errors
    ///
    /// [`Error::Message`] if the key refuses to sign.
    pub fn sign_many<B: AsRef<[u8]> + Sync>(&self, data: &[B]) -> Result<Vec<Vec<u8>>, Error> {
        Ok(self.signing.lock().sign_many(data, now())?)
    }
}
