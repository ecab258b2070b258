//! Names of files: the folder of a file, and a name beside it.

use std::path::{Path, PathBuf};

/// The folder of a file.
#[must_use]
pub fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// The name of a file beside another one: its name and `suffix`.
#[must_use]
pub fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}
