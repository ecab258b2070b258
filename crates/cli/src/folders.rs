//! The user's folders (XDG Base Directory Specification).

use std::path::PathBuf;

/// The default folder of the user's store and keys; `None` if the environment does not tell where
/// the user's files are. The current folder is never used, because it is no place for secrets.
pub(crate) fn data_folder() -> Option<PathBuf> {
    Some(base_folder("XDG_DATA_HOME", ".local/share")?.join("talaria"))
}

/// The base folder that an environment variable names (XDG Base Directory Specification), or else
/// `default` in the home folder. A relative path would be in the current folder and is ignored, as
/// the specification demands.
pub(crate) fn base_folder(variable: &str, default: &str) -> Option<PathBuf> {
    let named = |name| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    named(variable).or_else(|| Some(named("HOME")?.join(default)))
}
