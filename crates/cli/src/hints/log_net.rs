//! Remedies for nodes of a log, and for their keys.

use talaria_log::SyncError;
use talaria_log_net::{KeyError, NetError};

use super::file::file_hint;
use super::log::log_hint;
use crate::shell::shell_word;

/// The remedy for a connection.
pub(crate) fn net_hint(error: &NetError) -> Option<String> {
    let hint = match error {
        NetError::NotPublished { key } => {
            return Some(format!(
                "If it is a node of this log, an author publishes its key: talaria log node publish {key}"
            ));
        }
        NetError::OwnNotPublished { key } => {
            return Some(format!(
                "An author of the log publishes it: talaria log node publish {key}"
            ));
        }
        NetError::Sync(SyncError::OtherLog(_)) => {
            "To see which log a folder has: talaria log stats"
        }
        NetError::Listen { .. } => {
            "An address is HOST:PORT, such as 0.0.0.0:7711, and no other program has the port."
        }
        NetError::NotANode { .. } => {
            "Another node serves the log: talaria log serve --listen HOST:PORT"
        }
        NetError::Sync(SyncError::Replica(error)) | NetError::Log(error) => {
            return log_hint(error);
        }
        _ => return None,
    };
    Some(hint.to_owned())
}

/// The remedy for the key of a node.
pub(crate) fn node_key_hint(error: &KeyError) -> Option<String> {
    match error {
        KeyError::Readable { path, .. } => {
            Some(format!("Only you should: chmod 600 {}", shell_word(path)))
        }
        KeyError::Io { path, source, .. } => file_hint(&path.display().to_string(), source),
        _ => None,
    }
}
