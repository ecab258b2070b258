//! Errors as exceptions, one class for each kind.

use pyo3::create_exception;
use pyo3::exceptions::PyException;
use pyo3::prelude::*;
use talaria::cert::ErrorKind;
use talaria::embed;

create_exception!(talaria, Error, PyException, "The base class of all errors of talaria.");
create_exception!(talaria, UsageError, Error, "The arguments contradict each other.");
create_exception!(talaria, MalformedError, Error, "The data are malformed, or of another kind.");
create_exception!(
    talaria,
    TamperedError,
    Error,
    "The integrity check of the message fails or is missing."
);
create_exception!(
    talaria,
    NoSecretError,
    Error,
    "None of the keys and passphrases opens the message."
);
create_exception!(
    talaria,
    UnusableKeyError,
    Error,
    "A certificate cannot be encrypted to, or a key cannot sign or is locked."
);
create_exception!(
    talaria,
    UnsupportedError,
    Error,
    "The message uses an unsupported algorithm or format."
);
create_exception!(talaria, TooLargeError, Error, "A part of the message exceeds a limit.");
create_exception!(
    talaria,
    NotFoundError,
    Error,
    "The store, the certificate, the log or the object does not exist."
);
create_exception!(
    talaria,
    AmbiguousError,
    Error,
    "Several certificates match the name, or none matches it exactly."
);
create_exception!(
    talaria,
    SignatureError,
    Error,
    "A signature of the message is bad, or a required signature is missing."
);
create_exception!(
    talaria,
    RefusedError,
    Error,
    "The log does not allow the change, or is another log than expected."
);
create_exception!(talaria, InternalError, Error, "A bug in talaria (a panic).");
create_exception!(talaria, StoreError, Error, "The store or the log cannot be read or written.");

/// Does the work of a call while other threads of Python run. A panic becomes an exception that
/// `except Exception` catches.
pub(crate) fn work<T: Send, E: Into<talaria::Error>>(
    py: Python<'_>,
    work: impl FnOnce() -> Result<T, E> + Send,
) -> Result<T, Raised> {
    py.detach(|| embed::guarded(|| work().map_err(Into::into))).map_err(Raised)
}

/// An error on its way to Python.
pub(crate) struct Raised(talaria::Error);

impl<E: Into<talaria::Error>> From<E> for Raised {
    fn from(error: E) -> Self {
        Self(error.into())
    }
}

impl From<Raised> for PyErr {
    fn from(Raised(error): Raised) -> Self {
        exception(error.kind(), talaria::describe(&error))
    }
}

/// The exception for errors of a kind.
fn exception(kind: ErrorKind, text: String) -> PyErr {
    match kind {
        ErrorKind::Usage => UsageError::new_err(text),
        ErrorKind::Malformed => MalformedError::new_err(text),
        ErrorKind::Tampered => TamperedError::new_err(text),
        ErrorKind::NoSecret => NoSecretError::new_err(text),
        ErrorKind::UnusableKey | ErrorKind::UnfitKey | ErrorKind::KeyHolder => {
            UnusableKeyError::new_err(text)
        }
        ErrorKind::Unsupported => UnsupportedError::new_err(text),
        ErrorKind::TooLarge => TooLargeError::new_err(text),
        ErrorKind::NotFound | ErrorKind::NoStore => NotFoundError::new_err(text),
        ErrorKind::Ambiguous | ErrorKind::Unconfirmed => AmbiguousError::new_err(text),
        ErrorKind::NotAccepted => SignatureError::new_err(text),
        ErrorKind::Refused | ErrorKind::Unexpected | ErrorKind::Unproven => {
            RefusedError::new_err(text)
        }
        ErrorKind::Store | ErrorKind::StoreIo | ErrorKind::Exists => StoreError::new_err(text),
        ErrorKind::Bug => InternalError::new_err(text),
        ErrorKind::Io | ErrorKind::Interrupted => Error::new_err(text),
    }
}
