//! Storage for the objects of a repository.

use crate::error::{BackupError, Result};

/// An object as the storage lists it.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Object {
    /// The name, with its folder.
    pub name: String,
    /// The length in bytes.
    pub bytes: u64,
}

/// A place for named, immutable objects. Names have `/` between folders, and no leading one.
///
/// Errors name the object.
pub trait Backend: Send + Sync {
    /// Creates an object from its parts, one after the other, if there is none of this name.
    ///
    /// An object appears whole or not at all. It is durable after the next [`Self::sync`].
    ///
    /// # Errors
    ///
    /// [`Exists`](crate::BackupError::Exists) if the name is taken; errors of the storage.
    fn put(&self, name: &str, parts: &[&[u8]]) -> Result<()>;

    /// Returns when all objects that [`Self::put`] created are durable, with their names.
    ///
    /// # Errors
    ///
    /// Errors of the storage.
    fn sync(&self) -> Result<()>;

    /// The content of an object of at most `limit` bytes.
    ///
    /// # Errors
    ///
    /// [`Missing`](crate::BackupError::Missing); [`Damaged`](crate::BackupError::Damaged) if it is
    /// larger; errors of the storage.
    fn get(&self, name: &str, limit: u64) -> Result<Vec<u8>>;

    /// `length` bytes of an object from `offset` on; fewer where the object ends.
    ///
    /// # Errors
    ///
    /// [`Missing`](crate::BackupError::Missing); errors of the storage.
    fn get_range(&self, name: &str, offset: u64, length: u64) -> Result<Vec<u8>>;

    /// Calls `each` with all objects in a folder and its folders, in no particular order. A folder
    /// that is not there is empty.
    ///
    /// # Errors
    ///
    /// Errors of the storage.
    fn list_each(&self, folder: &str, each: &mut dyn FnMut(Object)) -> Result<()>;

    /// The objects of [`Self::list_each`], for folders with few objects: a repository has millions
    /// of packs.
    ///
    /// # Errors
    ///
    /// Errors of the storage.
    fn list(&self, folder: &str) -> Result<Vec<Object>> {
        let mut objects = Vec::new();
        self.list_each(folder, &mut |object| objects.push(object))?;
        Ok(objects)
    }

    /// Whether a list shows every write and deletion that ended before the list began, by any
    /// process. Pruning needs that.
    fn lists_at_once(&self) -> bool;

    /// Deletes an object. One that is not there is no error.
    ///
    /// # Errors
    ///
    /// Errors of the storage.
    fn delete(&self, name: &str) -> Result<()>;

    /// Drops a copy of an object that is kept on this side, because its content is wrong. Returns
    /// whether there was one, so that reading the object again asks the storage itself.
    fn drop_copy(&self, name: &str) -> bool {
        let _ = name;
        false
    }
}

/// Whether an error of a storage is that of one object only: the storage answers otherwise. A bad
/// sector is one, a lost connection is not.
pub(crate) fn is_of_one_object(backend: &dyn Backend, error: &BackupError) -> bool {
    error.is_of_storage() && backend.list("config").is_ok_and(|objects| !objects.is_empty())
}

/// Reads an object of at most `limit` bytes and parses it. If a copy of it is damaged, the object
/// itself is read.
///
/// # Errors
///
/// Errors of the storage and of `parse`.
pub(crate) fn read_object<T>(
    backend: &dyn Backend,
    name: &str,
    limit: u64,
    mut parse: impl FnMut(&[u8]) -> Result<T>,
) -> Result<T> {
    match parse(&backend.get(name, limit)?) {
        Err(BackupError::Damaged { .. } | BackupError::Message { .. })
            if backend.drop_copy(name) =>
        {
            parse(&backend.get(name, limit)?)
        }
        parsed => parsed,
    }
}
