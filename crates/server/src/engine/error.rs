//! Why an operation of the engine was not done.

use std::error::Error;
use std::sync::Arc;

use talaria_cert::TooCostly;

/// The error of the software behind the engine. Only its text is for the server.
pub(crate) type Cause = Arc<dyn Error + Send + Sync>;

/// An error of the engine, by what its caller does about it.
#[derive(Clone, Debug, thiserror::Error)]
pub(crate) enum EngineError {
    /// Certificates take more CPU time than is allowed. Nothing was done.
    #[error(transparent)]
    TooCostly(#[from] TooCostly),
    /// What the engine has of certificates is too long to be changed together. Nothing was done.
    #[error(transparent)]
    TooLong(Cause),
    /// There is no room for the change. Nothing was done.
    #[error(transparent)]
    Full(Cause),
    /// Others use the store, or it is no longer the one that was opened.
    #[error(transparent)]
    Unavailable(Cause),
    /// Damaged data, or an error of the system.
    #[error(transparent)]
    Failed(Cause),
    /// The server is going down. Nothing was done.
    #[error("the server is shutting down")]
    Closed,
}

impl EngineError {
    /// The error of the software behind the engine, or else this one.
    pub(crate) fn into_cause(self) -> Cause {
        match self {
            Self::TooLong(cause)
            | Self::Full(cause)
            | Self::Unavailable(cause)
            | Self::Failed(cause) => cause,
            Self::TooCostly(_) | Self::Closed => Arc::new(self),
        }
    }
}

/// Why an engine was not opened.
#[derive(Debug)]
pub(crate) enum OpenError {
    Store(Cause),
    Threads(std::io::Error),
}
