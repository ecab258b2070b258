//! Encrypting and decrypting.

use pyo3::prelude::*;
use pyo3::types::PyBytes;
use talaria::embed;
use talaria::message;

use crate::data::{Data, Passphrase};
use crate::error::{Raised, UsageError, work};
use crate::keys::{Key, rules};
use crate::signatures::{Verification, Verifier};

/// Encrypts many messages for the same recipients.
#[pyclass(frozen)]
pub(crate) struct Sealer(message::Sealer);

#[pymethods]
impl Sealer {
    #[new]
    #[pyo3(signature = (*, passphrase = None, certs = Vec::new(), profile = None, policy = None))]
    fn new(
        py: Python<'_>,
        passphrase: Option<Passphrase>,
        certs: Vec<Data>,
        profile: Option<&str>,
        policy: Option<&str>,
    ) -> PyResult<Self> {
        let rules = rules(policy)?;
        let profile = profile.map(parse_profile).transpose()?;
        let passphrases: Vec<Passphrase> = passphrase.into_iter().collect();
        Ok(Self(work(py, || embed::sealer(&passphrases, &certs, profile, rules))?))
    }

    /// Encrypts a message, and signs it if a key is given.
    #[pyo3(signature = (data, *, sign_with = None))]
    fn seal<'py>(
        &self,
        py: Python<'py>,
        data: Data,
        sign_with: Option<PyRef<'_, Key>>,
    ) -> Result<Bound<'py, PyBytes>, Raised> {
        let key = sign_with.as_ref().map(|key| &key.0);
        let sealed = work(py, || match key {
            Some(key) => embed::seal_signed(&self.0, data.as_ref(), key),
            None => Ok(self.0.seal(data.as_ref())?),
        })?;
        Ok(PyBytes::new(py, &sealed))
    }
}

fn parse_profile(name: &str) -> PyResult<message::Profile> {
    match name {
        "rfc9580" => Ok(message::Profile::Rfc9580),
        "rfc4880" => Ok(message::Profile::Rfc4880),
        "librepgp" => Ok(message::Profile::LibrePgp),
        _ => Err(UsageError::new_err(format!(
            "{name:?} is not one of 'rfc9580', 'rfc4880', 'librepgp'"
        ))),
    }
}

/// Decrypts many messages with the same keys and passphrases.
#[pyclass(frozen)]
pub(crate) struct Opener(embed::SharedOpener);

#[pymethods]
impl Opener {
    #[new]
    #[pyo3(signature = (*, passphrases = Vec::new(), keys = Vec::new(), key_passphrases = Vec::new()))]
    fn new(
        py: Python<'_>,
        passphrases: Vec<Passphrase>,
        keys: Vec<Data>,
        key_passphrases: Vec<Passphrase>,
    ) -> Result<Self, Raised> {
        Ok(Self(work(py, || embed::SharedOpener::new(&passphrases, &keys, &key_passphrases))?))
    }

    /// Returns the content of a message without checking its signatures.
    fn open<'py>(&self, py: Python<'py>, data: Data) -> Result<Bound<'py, PyBytes>, Raised> {
        let plain = work(py, || self.0.open(data.as_ref()))?;
        Ok(PyBytes::new(py, &plain))
    }

    /// The content of a message, and the results of checking its signatures.
    #[pyo3(signature = (data, verifier, *, signers = None))]
    fn open_verified<'py>(
        &self,
        py: Python<'py>,
        data: Data,
        verifier: &Verifier,
        signers: Option<Vec<String>>,
    ) -> Result<(Bound<'py, PyBytes>, Vec<Verification>), Raised> {
        let (plain, reports) = work(py, || {
            let signers = signers.as_deref().map(embed::fingerprints).transpose()?;
            self.0.open_verified(data.as_ref(), &verifier.0, signers.as_deref())
        })?;
        Ok((PyBytes::new(py, &plain), reports.into_iter().map(Verification::from).collect()))
    }
}
