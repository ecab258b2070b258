//! Checking signatures.

use pyo3::prelude::*;
use talaria::embed;
use talaria::message::SignatureReport;

use crate::data::Data;
use crate::error::{Raised, UsageError};
use crate::keys::Store;

/// Checks detached signatures with given certificates or those of a store.
#[pyclass(frozen)]
pub(crate) struct Verifier(embed::Verifier);

impl Verifier {
    pub(crate) fn inner(&self) -> &embed::Verifier {
        &self.0
    }
}

#[pymethods]
impl Verifier {
    #[new]
    #[pyo3(signature = (*, certs = None, store = None))]
    fn new(
        py: Python<'_>,
        certs: Option<Vec<Data>>,
        store: Option<PyRef<'_, Store>>,
    ) -> PyResult<Self> {
        let made = match (certs, store) {
            (Some(certs), None) => py.detach(|| embed::Verifier::with_certs(&certs)),
            (None, Some(store)) => embed::Verifier::with_store(store.inner()),
            _ => return Err(UsageError::new_err("a verifier takes certs or a store")),
        };
        Ok(Self(made.map_err(Raised::from)?))
    }

    /// Checks a detached signature. Whatever is wrong with it is in the result.
    fn verify(&self, py: Python<'_>, signature: Data, data: Data) -> Result<Verification, Raised> {
        Ok(py.detach(|| self.0.verify(signature.as_ref(), data.as_ref()))?.into())
    }

    /// Checks many, each a signature and its data, on all cores.
    fn verify_many(
        &self,
        py: Python<'_>,
        items: Vec<(Data, Data)>,
    ) -> Result<Vec<Verification>, Raised> {
        let reports = py.detach(|| self.0.verify_many(&items))?;
        Ok(reports.into_iter().map(Verification::from).collect())
    }
}

/// What came out of checking a signature. True if it is good and counts.
#[pyclass(frozen)]
pub(crate) struct Verification(SignatureReport);

impl From<SignatureReport> for Verification {
    fn from(report: SignatureReport) -> Self {
        Self(report)
    }
}

#[pymethods]
impl Verification {
    #[getter]
    fn outcome(&self) -> &'static str {
        self.0.outcome.name()
    }

    #[getter]
    fn certificate(&self) -> Option<&str> {
        self.0.signer.as_ref().map(|signer| &*signer.certificate)
    }

    #[getter]
    fn key(&self) -> Option<&str> {
        self.0.signer.as_ref().map(|signer| &*signer.key)
    }

    #[getter]
    fn user_id(&self) -> Option<&str> {
        self.0.signer.as_ref()?.user_id.as_deref()
    }

    #[getter]
    fn created(&self) -> u32 {
        self.0.created
    }

    #[getter]
    fn why(&self) -> Option<String> {
        self.0.outcome.why()
    }

    #[getter]
    fn since(&self) -> Option<String> {
        self.0.since.as_ref().map(ToString::to_string)
    }

    fn __bool__(&self) -> bool {
        self.0.is_good()
    }

    fn __repr__(&self) -> String {
        let by = self.certificate().unwrap_or("-");
        let why = self.why().map(|why| format!(": {why}")).unwrap_or_default();
        format!("<talaria.Verification {} {by}{why}>", self.outcome())
    }
}
