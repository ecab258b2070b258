//! Reading chunks from packs.

use std::sync::Arc;

use talaria_message::DecryptionKey;

use crate::backend::Backend;
use crate::epoch::Profile;
use crate::id::{Identifiers, RepositoryId};
use crate::index::IndexedPack;
use crate::located::Located;

/// The secret data keys of an epoch, and the packets of its packs.
pub(crate) struct EpochReader {
    pub(crate) profile: Profile,
    /// None for [`Profile::None`].
    pub(crate) keys: Vec<DecryptionKey>,
}

/// The chunks of a repository.
pub(crate) struct Source {
    backend: Arc<dyn Backend>,
    repository: RepositoryId,
    identifiers: Identifiers,
    epochs: Vec<EpochReader>,
    located: Located,
}

impl Source {
    /// Reads packs of these epochs. It knows no chunk before [`Self::add`].
    pub(crate) fn new(
        backend: Arc<dyn Backend>,
        repository: RepositoryId,
        identifiers: Identifiers,
        epochs: Vec<EpochReader>,
    ) -> Self {
        Self { backend, repository, identifiers, epochs, located: Located::new() }
    }

    /// Adds a pack of an index. A pack that was added before is skipped.
    pub(crate) fn add(&mut self, pack: &IndexedPack) {
        self.located.add(pack);
    }
}
