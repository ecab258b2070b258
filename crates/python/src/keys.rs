//! Secret keys and stores of certificates.

use std::path::PathBuf;

use pyo3::prelude::*;
use pyo3::types::PyBytes;
use talaria::cert::{Rules, RulesError};
use talaria::embed;

use crate::data::{Data, Passphrase};
use crate::error::{Raised, UsageError, work};

/// The rules by which certificates count.
pub(crate) fn rules(policy: Option<&str>) -> PyResult<Rules> {
    let unknown = |name| UsageError::new_err(format!("{name:?}: {RulesError}"));
    policy.map_or(Ok(Rules::default()), |name| name.parse().map_err(|_| unknown(name)))
}

/// A secret key for signing.
#[pyclass(frozen)]
pub(crate) struct Key(pub(crate) embed::SharedKey);

#[pymethods]
impl Key {
    /// The newest key that may sign of the one certificate in `data`.
    #[staticmethod]
    #[pyo3(signature = (data, passphrase = None, *, policy = None))]
    fn from_bytes(
        py: Python<'_>,
        data: Data,
        passphrase: Option<Passphrase>,
        policy: Option<&str>,
    ) -> PyResult<Self> {
        let rules = rules(policy)?;
        let passphrase = passphrase.as_ref().map(AsRef::as_ref);
        Ok(Self(work(py, || embed::SharedKey::from_bytes(data.as_ref(), passphrase, rules))?))
    }

    /// The fingerprint of the certificate.
    #[getter]
    fn certificate(&self) -> &str {
        self.0.certificate()
    }

    /// A detached signature.
    fn sign<'py>(&self, py: Python<'py>, data: Data) -> Result<Bound<'py, PyBytes>, Raised> {
        let signature = work(py, || self.0.sign(data.as_ref()))?;
        Ok(PyBytes::new(py, &signature))
    }

    /// A detached signature on each.
    fn sign_many<'py>(
        &self,
        py: Python<'py>,
        data: Vec<Data>,
    ) -> Result<Vec<Bound<'py, PyBytes>>, Raised> {
        let signatures = work(py, || self.0.sign_many(&data))?;
        Ok(signatures.iter().map(|signature| PyBytes::new(py, signature)).collect())
    }

    fn __repr__(&self) -> String {
        format!("<talaria.Key {}>", self.0.certificate())
    }
}

/// A store of certificates, or a keyring file.
#[pyclass(frozen)]
pub(crate) struct Store {
    pub(crate) certificates: embed::Certificates,
    path: PathBuf,
}

#[pymethods]
impl Store {
    #[new]
    #[pyo3(signature = (path, *, policy = None))]
    fn new(py: Python<'_>, path: PathBuf, policy: Option<&str>) -> PyResult<Self> {
        let rules = rules(policy)?;
        let certificates = work(py, || embed::Certificates::open(&path, rules))?;
        Ok(Self { certificates, path })
    }

    /// All certificates that match.
    fn lookup<'py>(
        &self,
        py: Python<'py>,
        query: &str,
    ) -> Result<Vec<Bound<'py, PyBytes>>, Raised> {
        let certs = work(py, || self.certificates.lookup(query))?;
        Ok(certs.iter().map(|cert| PyBytes::new(py, cert)).collect())
    }

    /// The only certificate that matches and can be encrypted to.
    fn recipient<'py>(&self, py: Python<'py>, query: &str) -> Result<Bound<'py, PyBytes>, Raised> {
        let cert = work(py, || self.certificates.recipient(query))?;
        Ok(PyBytes::new(py, &cert))
    }

    fn __repr__(&self) -> String {
        format!("<talaria.Store {}>", self.path.display())
    }
}
