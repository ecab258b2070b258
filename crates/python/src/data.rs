//! Arguments that are bytes.

use pyo3::prelude::*;
use pyo3::pybacked::{PyBackedBytes, PyBackedStr};
use pyo3::types::{PyBytes, PyMemoryView};

/// Anything with the buffer protocol. `bytes` are used where they are; what somebody could change
/// while other threads run (`bytearray`, `memoryview`, `mmap`, …) is copied once.
pub(crate) struct Data(PyBackedBytes);

impl<'py> FromPyObject<'_, 'py> for Data {
    type Error = PyErr;

    fn extract(object: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        if let Ok(bytes) = object.cast::<PyBytes>() {
            return Ok(Self(bytes.to_owned().into()));
        }
        let copy = PyMemoryView::from(&object)?.call_method0("tobytes")?;
        Ok(Self(copy.cast_into::<PyBytes>()?.into()))
    }
}

impl AsRef<[u8]> for Data {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

/// A passphrase: text, which is taken as UTF-8, or bytes.
#[derive(FromPyObject)]
pub(crate) enum Passphrase {
    Text(PyBackedStr),
    Bytes(Data),
}

impl AsRef<[u8]> for Passphrase {
    fn as_ref(&self) -> &[u8] {
        match self {
            Self::Text(text) => text.as_bytes(),
            Self::Bytes(data) => data.as_ref(),
        }
    }
}
