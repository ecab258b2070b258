//! Why an operation of the engine was not done.

use std::sync::Arc;
use std::time::Duration;

use talaria_store::StoreError;

/// An error of the engine, by what its caller does about it.
#[derive(Clone, Debug, thiserror::Error)]
pub(crate) enum EngineError {
    /// The signatures of certificates cost more CPU time than is allowed. Nothing was done.
    #[error("verifying the signatures takes too much CPU time")]
    TooCostly { needed: Duration, allowed: Duration },
    /// There is no room for the change. Nothing was done.
    #[error(transparent)]
    Full(Arc<StoreError>),
    /// Others use the store, or it is no longer the one that was opened.
    #[error(transparent)]
    Unavailable(Arc<StoreError>),
    /// Damaged data, or an error of the system.
    #[error(transparent)]
    Failed(Arc<StoreError>),
    /// The server is going down. Nothing was done.
    #[error("the server is shutting down")]
    Closed,
}

impl From<Arc<StoreError>> for EngineError {
    fn from(error: Arc<StoreError>) -> Self {
        match *error {
            StoreError::TooCostly { needed, allowed } => Self::TooCostly { needed, allowed },
            StoreError::Full { .. } | StoreError::TooLarge { .. } => Self::Full(error),
            StoreError::Busy { .. }
            | StoreError::ReadOnly { .. }
            | StoreError::Moved { .. }
            | StoreError::Format { .. } => Self::Unavailable(error),
            _ => Self::Failed(error),
        }
    }
}

impl From<StoreError> for EngineError {
    fn from(error: StoreError) -> Self {
        Arc::new(error).into()
    }
}
