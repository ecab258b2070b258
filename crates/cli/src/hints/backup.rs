//! Remedies for backup repositories.

use talaria::backup::{BackupError, ClientError};
use talaria_backup_remote::is_url;

use super::file::file_hint;
use super::message::message_hint;

const DAMAGED: &str = "List the damage: talaria backup check --read-data";

/// The remedy for a backup repository.
pub(crate) fn backup_hint(error: &ClientError) -> Option<String> {
    let error = match error {
        ClientError::Backup(error) => error,
        ClientError::HeadMissing { .. } => return Some(DAMAGED.into()),
        _ => return None,
    };
    let hint = match error {
        BackupError::Occupied => {
            "Use it: talaria backup create FOLDER\nOr make another one: --repo with another place"
        }
        BackupError::Empty => "Make one: talaria backup create FOLDER",
        BackupError::NotFound(_) => {
            "List the snapshots: talaria backup list\nList their files: talaria backup ls SNAPSHOT"
        }
        BackupError::NoKey { .. } => {
            "Import the secret key of one of them: talaria key import FILE\nOr use the keys of GnuPG: add --gpg-agent"
        }
        BackupError::Gap { id, .. } => {
            return Some(format!(
                "If the storage is slow to list it, try again later.\nIf it is gone for good: talaria backup forget {id}\nOr prune all the same: --despite-missing {id}"
            ));
        }
        BackupError::Damaged { .. } | BackupError::Missing { .. } => DAMAGED,
        BackupError::Storage { name, .. } if is_url(name) => {
            "Check the address and the network connection, and try again."
        }
        BackupError::Storage { name, source } | BackupError::File { path: name, source } => {
            return file_hint(name, source);
        }
        BackupError::Message { source, .. } => return message_hint(source),
        _ => return None,
    };
    Some(hint.to_owned())
}
