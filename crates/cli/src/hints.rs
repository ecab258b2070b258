//! What the user can do after an error. The remedies for the errors of a crate are in the file of
//! the crate.

mod backup;
pub(crate) mod file;
mod gnupg;
mod import_hint;
pub(crate) mod library;
mod log;
mod log_net;
pub(crate) mod message;
mod server;
pub(crate) mod store;

use std::io;

use talaria::message::MessageError;
use talaria::store::StoreError;

use self::file::LARGER_FILES;
use self::library::library_hint;
use self::log::{log_hint, witness_hint};
use self::log_net::{net_hint, node_key_hint};
use self::message::{DAMAGED, kind_hint};
use self::server::{config_hint, serve_hint};
use self::store::{RESTORE, restore_hint, store_hint};
use crate::error::CliError;
use crate::shell::shell_word;

/// The next step for the user.
pub(crate) fn hint(error: &CliError) -> Option<String> {
    let hint = match error {
        CliError::In { name, error } => return input_hint(name.as_deref(), error),
        CliError::Ambiguous { .. } => "Use the fingerprint of one of them.",
        CliError::WhichSigner { .. } => library::WHICH,
        CliError::Declined => return None,
        CliError::Output(error) if error.kind() == io::ErrorKind::FileTooLarge => LARGER_FILES,
        CliError::Unconfirmed { .. } => "Add --yes to do it without a question.",
        CliError::NoHome { .. } => "Set HOME, or name the files: --store FILE --keys FOLDER.",
        CliError::SameFile { .. } => "Write to another file.",
        CliError::Exists { .. } => "Write to another file, or replace it: add --overwrite.",
        CliError::SecondKey { .. } => {
            "Your correspondents could not tell which key to use.\nTo change the expiry date: talaria key expire KEY WHEN\nTo \
             generate a second key anyway: add --yes"
        }
        CliError::Detached { .. } => "Name the signed file: talaria verify SIGNATURE FILE",
        CliError::NoSecretKey { name } => {
            return Some(format!("If it holds certificates: talaria import {}", shell_word(name)));
        }
        CliError::Stopped => "No file was written. The content on standard output is not complete.",
        CliError::Serve(error) => return serve_hint(error),
        CliError::Config(error) => return config_hint(error),
        CliError::Program(error) => return Some(error.hint()),
        CliError::Settings(_) => "Correct the file. To run without it: TALARIA_CONFIG= talaria …",
        CliError::Unchecked(StoreError::Damaged { path, .. }) => {
            return Some(format!(
                "Rebuild the indexes: talaria --store {} check --rebuild\nIf that fails:\n{RESTORE}",
                shell_word(path)
            ));
        }
        CliError::NotRebuilt(StoreError::Damaged { .. }) => RESTORE,
        CliError::Unchecked(error) | CliError::NotRebuilt(error) => return store_hint(error),
        CliError::StoreBackup(error) => return restore_hint(error),
        CliError::Operation(error) => return library_hint(error),
        CliError::Log(error) => return log_hint(error),
        CliError::Witness(error) => return witness_hint(error),
        CliError::Net(error) => return net_hint(error),
        CliError::NodeKey(error) => return node_key_hint(error),
        CliError::Updates(_) => {
            "An update is one line: {\"object\": \"server-1\", \"field\": \"color\", \"value\": \"red\"}."
        }
        CliError::ManyObjects { .. } => "Use the identity of one of them in place of the name.",
        _ => return None,
    };
    Some(hint.to_owned())
}

/// The next step for the user, with the input called `name`; `None` is standard input.
fn input_hint(name: Option<&str>, error: &CliError) -> Option<String> {
    let file = &*name.map_or_else(|| "FILE".to_owned(), shell_word);
    Some(match error {
        CliError::Detached { .. } => format!("Name the signed file: talaria verify {file} FILE"),
        CliError::OtherContent { file: other } => format!(
            "Nothing is known about {other}. To write the signed content: talaria verify --output OUT {file}",
            other = shell_word(other)
        ),
        CliError::Operation(talaria::Error::Message(message)) => match message {
            MessageError::OtherKind { found, .. } if kind_hint(*found, file).is_some() => {
                return kind_hint(*found, file);
            }
            MessageError::Malformed(_) => DAMAGED.to_owned(),
            MessageError::OtherKind { .. } => format!(
                "If {file} is the signed file: talaria verify SIGNATURE {file}\nTo encrypt it: talaria encrypt \
                 -r CERT {file}"
            ),
            _ => return hint(error),
        },
        _ => return hint(error),
    })
}
