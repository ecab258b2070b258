//! Checking signatures.

use pyo3::prelude::*;
use talaria::embed;
use talaria::message::SignatureReport;

use crate::data::Data;
use crate::error::{Raised, UsageError, work};
use crate::keys::{Store, rules};

/// Checks detached signatures with given certificates or those of a store.
#[pyclass(frozen)]
pub(crate) struct Verifier(pub(crate) embed::SharedVerifier);

#[pymethods]
impl Verifier {
    #[new]
    #[pyo3(signature = (*, certs = None, store = None, policy = None))]
    fn new(
        py: Python<'_>,
        certs: Option<Vec<Data>>,
        store: Option<PyRef<'_, Store>>,
        policy: Option<&str>,
    ) -> PyResult<Self> {
        let rules = rules(policy)?;
        Ok(match (certs, store) {
            (Some(certs), None) => {
                Self(work(py, || embed::SharedVerifier::with_certs(&certs, rules))?)
            }
            (None, Some(_)) if policy.is_some() => {
                return Err(UsageError::new_err("a store has its own policy"));
            }
            (None, Some(store)) => {
                let store = &store.certificates;
                Self(work(py, || embed::SharedVerifier::with_store(store))?)
            }
            _ => return Err(UsageError::new_err("a verifier takes certs or a store")),
        })
    }

    /// Verifies a detached signature. Faults of the signature are in the result.
    #[pyo3(signature = (signature, data, *, signers = None))]
    fn verify(
        &self,
        py: Python<'_>,
        signature: Data,
        data: Data,
        signers: Option<Vec<String>>,
    ) -> Result<Verification, Raised> {
        let checked = work(py, || {
            let signers = signers.as_deref().map(embed::fingerprints).transpose()?;
            self.0.verify(signature.as_ref(), data.as_ref(), signers.as_deref())
        })?;
        Ok(checked.into())
    }

    /// Checks many, each a signature and its data, on all cores.
    #[pyo3(signature = (items, *, signers = None))]
    fn verify_many(
        &self,
        py: Python<'_>,
        items: Vec<(Data, Data)>,
        signers: Option<Vec<String>>,
    ) -> Result<Vec<Verification>, Raised> {
        let checked = work(py, || {
            let signers = signers.as_deref().map(embed::fingerprints).transpose()?;
            self.0.verify_many(&items, signers.as_deref())
        })?;
        Ok(checked.into_iter().map(Verification::from).collect())
    }
}

/// The result of checking a signature. True if the signature is good, counts, and was expected.
#[pyclass(frozen)]
pub(crate) struct Verification {
    report: SignatureReport,
    /// Why the document is not accepted.
    refused: Option<String>,
}

impl From<SignatureReport> for Verification {
    fn from(report: SignatureReport) -> Self {
        let refused = (!report.is_good()).then(|| "the signature is not good".to_owned());
        Self { report, refused }
    }
}

impl From<embed::DocumentReport> for Verification {
    fn from(checked: embed::DocumentReport) -> Self {
        let refused = checked.decision.err().map(|why| why.to_string());
        Self { report: checked.report, refused }
    }
}

#[pymethods]
impl Verification {
    #[getter]
    fn outcome(&self) -> &'static str {
        self.report.outcome.name()
    }

    #[getter]
    fn certificate(&self) -> Option<&str> {
        self.report.signer.as_ref().map(|signer| &*signer.certificate)
    }

    #[getter]
    fn key(&self) -> Option<&str> {
        self.report.signer.as_ref().map(|signer| &*signer.key)
    }

    #[getter]
    fn user_id(&self) -> Option<&str> {
        self.report.signer.as_ref()?.user_id.as_deref()
    }

    #[getter]
    fn created(&self) -> u32 {
        self.report.created
    }

    #[getter]
    fn why(&self) -> Option<String> {
        self.report.outcome.why()
    }

    #[getter]
    fn since(&self) -> Option<String> {
        self.report.since.as_ref().map(ToString::to_string)
    }

    #[getter]
    fn refused(&self) -> Option<&str> {
        self.refused.as_deref()
    }

    fn __bool__(&self) -> bool {
        self.refused.is_none()
    }

    fn __repr__(&self) -> String {
        let by = self.certificate().unwrap_or("-");
        let why = self.why().map(|why| format!(": {why}")).unwrap_or_default();
        format!("<talaria.Verification {} {by}{why}>", self.outcome())
    }
}
