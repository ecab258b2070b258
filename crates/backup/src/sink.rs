//! Writing chunks to packs, on all cores.

use std::sync::Arc;

use crate::backend::Backend;
use crate::epoch::Sealing;
use crate::error::Result;
use crate::id::{Identifiers, RepositoryId};
use crate::located::Present;
use crate::progress::Progress;

/// Turns the text of an index into its object: signed and encrypted to the index key.
pub(crate) type SealIndex = Box<dyn FnMut(&str) -> Result<Vec<u8>> + Send>;

/// What a run writes to, and with which keys.
pub(crate) struct SinkOptions {
    pub(crate) backend: Arc<dyn Backend>,
    pub(crate) repository: RepositoryId,
    pub(crate) identifiers: Identifiers,
    /// Seals packs to the data key of the newest epoch.
    pub(crate) packs: Sealing,
    pub(crate) seal_index: SealIndex,
    /// The chunks of packs that this client's indexes name and that the storage lists.
    pub(crate) present: Present,
    /// Seconds since 1970.
    pub(crate) now: u32,
    pub(crate) threads: usize,
    pub(crate) progress: Arc<Progress>,
}
