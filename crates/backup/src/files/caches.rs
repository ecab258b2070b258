//! The caches of the runs of this machine: one for each set of paths, so that backups of different
//! folders into one repository do not forget what the others have read.

use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// How the names of all caches in the state folder begin.
const PREFIX: &str = "cache";
/// Caches that are kept.
const CACHES_MAX: usize = 16;

/// The file for the cache of a set of paths.
pub(super) fn cache_of(folder: &Path, paths: &[PathBuf]) -> PathBuf {
    let absolute = |path: &PathBuf| std::path::absolute(path).unwrap_or_else(|_| path.clone());
    let mut paths: Vec<PathBuf> = paths.iter().map(absolute).collect();
    paths.sort();
    paths.dedup();
    let mut hash = blake3::Hasher::new();
    for path in paths {
        hash.update(path.as_os_str().as_bytes());
        hash.update(b"\0");
    }
    folder.join(format!("{PREFIX}-{}", &hash.finalize().to_hex()[..16]))
}

/// The cache to read for a run that writes `own`: that of the last run of the same paths, or else
/// the newest one, whose paths may be partly the same.
pub(super) fn cache_to_read(own: &Path) -> PathBuf {
    if own.exists() {
        return own.to_owned();
    }
    let folder = own.parent().unwrap_or(Path::new("."));
    let newest = caches(folder).ok().and_then(|mut caches| caches.pop());
    newest.map_or_else(|| own.to_owned(), |(_, path)| path)
}

/// Removes the oldest caches, if there are too many.
pub(super) fn remove_oldest(folder: &Path) {
    // Without them, files are read again, which is slower and not wrong.
    if let Ok(caches) = caches(folder) {
        let too_many = caches.len().saturating_sub(CACHES_MAX);
        for (_, path) in caches.into_iter().take(too_many) {
            let _ = talaria_disk::remove_if_there(&path);
        }
    }
}

/// All caches, oldest first.
fn caches(folder: &Path) -> io::Result<Vec<(SystemTime, PathBuf)>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let name = entry.file_name();
        let is_one = name.as_bytes().strip_prefix(PREFIX.as_bytes());
        if is_one.is_some_and(|rest| rest.is_empty() || rest.starts_with(b"-")) {
            found.push((entry.metadata()?.modified()?, entry.path()));
        }
    }
    found.sort();
    Ok(found)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn each_set_of_paths_has_a_cache_and_the_oldest_go() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path();
        let set = |names: &[&str]| -> PathBuf {
            cache_of(folder, &names.iter().map(PathBuf::from).collect::<Vec<_>>())
        };
        assert_eq!(set(&["/a", "/b"]), set(&["/b", "/a", "/a"]));
        assert_ne!(set(&["/a", "/b"]), set(&["/a"]));
        assert_ne!(set(&["/a/b"]), set(&["/a", "/b"]));
        // Without any, it is the one that will be written.
        assert_eq!(cache_to_read(&set(&["/a"])), set(&["/a"]));
        let make = |path: &Path, age: u64| {
            let file = fs::File::create(path).unwrap();
            file.set_modified(SystemTime::now() - Duration::from_secs(age)).unwrap();
        };
        // The only cache of earlier versions.
        make(&folder.join("cache"), 100);
        fs::write(folder.join("cached"), "not a cache").unwrap();
        assert_eq!(cache_to_read(&set(&["/a"])), folder.join("cache"));
        for age in 1..=16_u64 {
            make(&set(&[&age.to_string()]), age);
        }
        assert_eq!(cache_to_read(&set(&["/a"])), set(&["1"]));
        remove_oldest(folder);
        assert!(!folder.join("cache").exists() && folder.join("cached").exists());
        assert!((1..=16_u64).all(|age| set(&[&age.to_string()]).exists()));
    }
}
