//! Remedies for stores.

use talaria::store::{SecondName, StoreError};

use super::file::{LARGER_FILES, file_hint};
use super::import_hint::import_hint;
use crate::shell::shell_word;

/// The remedy for damage that no rebuild of indexes repairs.
pub(crate) const RESTORE: &str = "Restore a backup of the store: talaria admin restore --overwrite BACKUP\nOr build a new store \
                                  from a keyring or a dump: talaria --store NEW build FILE…";

pub(crate) fn store_hint(error: &StoreError) -> Option<String> {
    let hint = match error {
        StoreError::Missing { .. } => "Make one: talaria import FILE… or talaria build FILE…",
        StoreError::Foreign { path } => {
            return Some(format!(
                "Name another file with --store, or import this one: talaria import {}",
                shell_word(path)
            ));
        }
        StoreError::Format { .. } => "Use a newer version of talaria. The file was not changed.",
        StoreError::DamagedCert { .. } => {
            "Repair it with a copy: talaria check --repair-from FILE\nOr with one from a keyserver: talaria check --keyserver URL"
        }
        StoreError::Outdated { .. } => {
            "Make a copy of the file, then upgrade it: talaria check --verify\nOlder versions cannot read it afterwards."
        }
        StoreError::Damaged { path, .. } => {
            return Some(format!(
                "List the damage, with a remedy for each kind: talaria --store {} check",
                shell_word(path)
            ));
        }
        StoreError::Orphan { log, .. } => {
            return Some(format!(
                "If the store was moved, put it back, or move {} to it. If it is gone, remove the log.",
                shell_word(log)
            ));
        }
        StoreError::Moved { .. } => {
            "The last change was not stored. Other running programs may have the old file open: end them, then try again."
        }
        StoreError::SecondName { path, name: SecondName::HardLink { .. } } => {
            return Some(format!(
                "Find the other names and remove them: find / -xdev -samefile {}\nFor a copy of the store: talaria admin backup FILE",
                shell_word(path)
            ));
        }
        StoreError::SecondName { name: SecondName::Mount, .. } => {
            "Mount the folder of the store instead of the file: the log is beside the store."
        }
        StoreError::NoIndex { path, log } => {
            return Some(format!(
                "Run a command that writes, as a user who may write to the folder. Or copy {} and {} to another folder, and use the copy.",
                shell_word(path),
                shell_word(log)
            ));
        }
        StoreError::Changed { .. } => "Try again.",
        StoreError::Busy { .. } => {
            "Another program is writing to the store. Try again when it has finished. To restore a backup, stop the keyserver first."
        }
        StoreError::Full { .. } => {
            "Free some space and try again. The data in the store is unharmed."
        }
        StoreError::TooLarge { .. } => LARGER_FILES,
        StoreError::ReadOnly { .. } => {
            "Check the permissions of the file and its folder, or use another --store."
        }
        StoreError::Exists { .. } => {
            "Build to another path (--store FILE), or add to it: talaria import FILE…"
        }
        StoreError::Io { path, source, .. } => {
            return file_hint(&path.display().to_string(), source);
        }
        StoreError::NotFound(fingerprint) => return Some(import_hint(&fingerprint.to_string())),
        _ => return None,
    };
    Some(hint.to_owned())
}

/// The remedy for a store that `talaria admin restore` cannot restore.
pub(crate) fn restore_hint(error: &StoreError) -> Option<String> {
    let hint = match error {
        StoreError::Missing { .. } => {
            "Check the name of the backup. To write one: talaria admin backup FILE"
        }
        StoreError::Foreign { .. } => "Name a file that `talaria admin backup` wrote.",
        StoreError::Damaged { .. } | StoreError::DamagedCert { .. } => {
            "Restore another backup, or build a new store from a keyring or a dump: talaria --store NEW build FILE…"
        }
        StoreError::Outdated { path, .. } => {
            return Some(format!(
                "Make a copy of the backup, then upgrade it: talaria --store {} check --verify",
                shell_word(path)
            ));
        }
        error => return store_hint(error),
    };
    Some(hint.to_owned())
}
