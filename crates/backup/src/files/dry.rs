//! A storage for dry runs.

use std::sync::Arc;

use crate::backend::{Backend, Object};
use crate::error::Result;

/// Reads from a storage, and drops all writes.
pub(super) struct DryRun(pub(super) Arc<dyn Backend>);

impl Backend for DryRun {
    fn put(&self, _: &str, _: &[&[u8]]) -> Result<()> {
        Ok(())
    }

    fn sync(&self) -> Result<()> {
        Ok(())
    }

    fn get(&self, name: &str, limit: u64) -> Result<Vec<u8>> {
        self.0.get(name, limit)
    }

    fn get_range(&self, name: &str, offset: u64, length: u64) -> Result<Vec<u8>> {
        self.0.get_range(name, offset, length)
    }

    fn list_each(&self, folder: &str, each: &mut dyn FnMut(Object)) -> Result<()> {
        self.0.list_each(folder, each)
    }

    fn lists_at_once(&self) -> bool {
        self.0.lists_at_once()
    }

    fn delete(&self, _: &str) -> Result<()> {
        Ok(())
    }

    fn drop_copy(&self, name: &str) -> bool {
        self.0.drop_copy(name)
    }
}
