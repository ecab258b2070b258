//! Remedies for logs and their witnesses.

use talaria_log::{
    DraftError, LogError, Objection, Refusal, SignerError, SnapshotError, Unreadable, UpdateError,
    WitnessError,
};

use super::file::file_hint;
use super::message::message_hint;
use crate::shell::shell_word;

pub(crate) fn log_hint(error: &LogError) -> Option<String> {
    let hint = match error {
        LogError::NotALog { path } => {
            let path = shell_word(path);
            return Some(format!(
                "Make a log: talaria log --log {path} init\nOr take a copy of one: talaria log --log {path} import FILE"
            ));
        }
        LogError::Occupied { .. } => "Name an empty folder, or one that does not exist.",
        LogError::NotAnExport { .. } => "Another node makes one: talaria log export -o FILE",
        LogError::DamagedExport { .. } => {
            "Get the file again, and import it again: what is known already does no harm."
        }
        LogError::OtherLog { .. } => {
            "Name the folder of that log with --log. To see which log a folder has: talaria log stats"
        }
        LogError::Unexpected { .. } => "Nothing was made. Ask the owner which log it is.",
        LogError::NoSnapshot { .. } => "List the snapshots: talaria log list --snapshots",
        LogError::SnapshotNotInForce { id, .. } => {
            return Some(format!("Other owners agree with it: talaria log approve {id}"));
        }
        LogError::BadSnapshot { .. } | LogError::Draft(DraftError::Snapshot(_)) => {
            "Do not sign it. An owner who has the right entries signs another one: talaria log snapshot make"
        }
        LogError::Snapshot { source: SnapshotError::OtherLog { .. }, .. } => {
            "Ask an owner for the identity of the log: talaria log stats"
        }
        LogError::Snapshot { source: SnapshotError::Malformed(_), .. } => {
            "A node of the log writes such a file: talaria log snapshot export -o FILE"
        }
        LogError::Snapshot { .. } => {
            "Do not trust the file. Ask an owner for another one: talaria log snapshot export -o FILE"
        }
        LogError::Damaged { .. } | LogError::Stored { .. } => {
            "Nothing was changed. Import the export of another node into a new folder, or restore a backup."
        }
        LogError::Failed | LogError::InUse { .. } => "Run the command again.",
        LogError::Draft(DraftError::Refused(refusal)) => return refusal_hint(refusal),
        LogError::Draft(DraftError::Links) => {
            "Each entry links to the newest entries of up to 8 devices. Put any change first, then do it again."
        }
        LogError::Draft(DraftError::Expired { .. }) => {
            "Ask an owner for a grant with the newer certificate: talaria log grant CERT"
        }
        LogError::Draft(DraftError::NotCheckpointer) => {
            "Name the file that was made with the log: talaria log init --checkpointer FILE"
        }
        LogError::Draft(DraftError::Ended(_)) => {
            "See why: talaria log history OBJECT\nAfter a fork, an owner chooses a branch: talaria log choose ENTRY"
        }
        LogError::Draft(DraftError::Key(error)) | LogError::Signer(SignerError::Policy(error)) => {
            return message_hint(error);
        }
        LogError::Update(error) => match error {
            UpdateError::NoObject(_) => "List the objects: talaria log list",
            UpdateError::Forked => {
                "To see them: talaria log verify\nTo name the last entry that counts: talaria log revoke AUTHOR --last ENTRY"
            }
            UpdateError::NoEntry(_) => {
                "Get it first: talaria log import FILE, or talaria log sync HOST:PORT"
            }
            UpdateError::Absent { .. } => "List the fields: talaria log get OBJECT",
            UpdateError::NotInteger(_) | UpdateError::Counter(_) => {
                "For example: talaria log put OBJECT FIELD -- -1"
            }
            UpdateError::NoDeletable(_) => {
                "Only values of `talaria log put --deletable` can be deleted for good. To see them all: talaria log history OBJECT"
            }
            UpdateError::NotReader { why: Unreadable::NoKey { .. }, .. } => {
                "Ask a reader, or begin an epoch whose readers include you: talaria log encrypt OBJECT FIELDS --to CERT"
            }
            UpdateError::EncryptionLost(_) => {
                "Encrypt it anew: talaria log encrypt OBJECT FIELDS --to CERT\nOr write it for all to read: talaria log encrypt OBJECT FIELDS --stop"
            }
            UpdateError::EncryptedCounter(_) => {
                "Encrypt fields of another rule, or leave the counter out of the pattern"
            }
            UpdateError::WhichElement(_) => "Name it: talaria log put --remove OBJECT FIELD VALUE",
            UpdateError::OneValue(_) => {
                "Leave out the value: talaria log put --remove OBJECT FIELD"
            }
            _ => return None,
        },
        LogError::Io { path, source, .. } => {
            return file_hint(&path.display().to_string(), source);
        }
        _ => return None,
    };
    Some(hint.to_owned())
}

/// The remedy for an entry that the log does not allow.
fn refusal_hint(refusal: &Refusal) -> Option<String> {
    let hint = match refusal {
        Refusal::Stranger(_) | Refusal::NotGranted | Refusal::GrantNotInForce => {
            "See what you may do: talaria log list --grants\nAsk an owner for more: talaria log grant CERT"
        }
        Refusal::NotOwner => {
            "Ask an owner of the log to do it. To see the owners: talaria log stats"
        }
        Refusal::Revoked => {
            "An owner has ended this key or grant. Ask for another: talaria log grant CERT"
        }
        Refusal::TooLarge { .. } | Refusal::Malformed(_) => {
            "Store large values elsewhere, and put their hash and their place into the log."
        }
        Refusal::Algorithm(_) => {
            "Use a key that the log allows, such as Ed25519: talaria key generate"
        }
        _ => return None,
    };
    Some(hint.to_owned())
}

/// The remedy for a witness.
pub(crate) fn witness_hint(error: &WitnessError) -> Option<String> {
    let hint = match error {
        WitnessError::Objection(Objection::Old { known, .. }) => {
            return Some(format!(
                "The log writes a request from there: talaria log checkpoint --old {known} --request FILE"
            ));
        }
        WitnessError::Objection(Objection::Inconsistent { .. }) => {
            "Keep the request: with the earlier one, it is evidence against the checkpointer."
        }
        WitnessError::Unknown { .. } => {
            "Let the witness cosign this log: talaria log witness trust DIR FILE"
        }
        WitnessError::NoKey { .. } => {
            "These make keys: talaria log init --checkpointer FILE, and talaria log witness init DIR NAME"
        }
        WitnessError::Occupied { .. } => "Name a file or folder that does not exist.",
        WitnessError::Request { .. } => "The log writes one: talaria log checkpoint --request FILE",
        WitnessError::Damaged { .. } => {
            "Nothing was cosigned. Restore the newest state from a backup, or make a new witness."
        }
        WitnessError::Io { path, source, .. } => {
            return file_hint(&path.display().to_string(), source);
        }
        _ => return None,
    };
    Some(hint.to_owned())
}
