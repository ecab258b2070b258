//! Where a repository is: a folder, or a URL.

use std::io;
use std::path::Path;
use std::sync::Arc;

use talaria::backup::{Backend, BackupError, Folder};
use talaria_backup_remote::{RepositoryUrl, is_url};

use crate::error::CliError;
use crate::services::networks;

/// Threads that restore from a service: each waits for answers most of the time.
const THREADS_REMOTE: usize = 8;

/// The address, if the place is a URL.
fn address(place: &Path) -> Option<Result<RepositoryUrl, CliError>> {
    let url = place.to_str().filter(|name| is_url(name))?;
    let parsed = RepositoryUrl::parse(url, &|name| std::env::var(name).ok());
    Some(parsed.map_err(|error| CliError::Usage(error.to_string())))
}

/// The storage in a place, which need not have a repository.
pub(super) fn open_place(place: &Path) -> Result<Arc<dyn Backend>, CliError> {
    Ok(match address(place) {
        None if place.is_file() => {
            let source = io::ErrorKind::NotADirectory.into();
            return Err(BackupError::Storage { name: place.display().to_string(), source }.into());
        }
        None => Arc::new(Folder::new(place)),
        Some(address) => (networks()?.storage)(&address?)?,
    })
}

/// The name of a place, wherever the user stands.
pub(super) fn place_name(place: &Path) -> String {
    if let Some(Ok(address)) = address(place) {
        return address.name().to_owned();
    }
    let absolute = place.canonicalize().or_else(|_| std::path::absolute(place));
    absolute.unwrap_or_else(|_| place.to_owned()).display().to_string()
}

/// Whether a place is behind a network.
pub(super) fn is_remote(place: &Path) -> bool {
    address(place).is_some()
}

/// The number of threads that restore from a place; 0 for one per core.
pub(super) fn restore_threads(place: &Path) -> usize {
    if is_remote(place) { THREADS_REMOTE } else { 0 }
}
