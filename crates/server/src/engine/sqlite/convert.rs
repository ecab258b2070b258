//! From the types of the store to those of the interface, and back.

use std::sync::Arc;

use talaria_cert::Verification;
use talaria_store::{ChangeNumber, StoreError};

use super::opaque;
use crate::clock;
use crate::engine::error::EngineError;
use crate::engine::order::Preparation;
use crate::engine::row::Position;

impl From<Arc<StoreError>> for EngineError {
    fn from(error: Arc<StoreError>) -> Self {
        match *error {
            StoreError::TooCostly(cost) => Self::TooCostly(cost),
            StoreError::TooLong { .. } => Self::TooLong(error),
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

/// How the store prepares certificates now.
pub(crate) fn preparation(preparation: &Preparation) -> talaria_store::Preparation {
    talaria_store::Preparation {
        limits: preparation.limits.clone(),
        verification: Verification::Full,
        now: clock::now().into(),
        work: preparation.work,
    }
}

/// The position of a change.
pub(crate) fn position(change: ChangeNumber) -> Position {
    Position::Sqlite(opaque::Change(change))
}
