//! Our errors as those of the draft, which are numbers without a text; the text goes to standard
//! error.

use sop::errors::Error;
use talaria_cert::ErrorKind;
use talaria_cert::user_id::visible_text;
use talaria_message::MessageError;
use talaria_message::make::MakeError;

use crate::text::NotText;

pub(crate) type Result<T> = sop::Result<T>;

/// Errors of data that are not an encrypted message.
pub(crate) fn of_message(error: MessageError) -> Error {
    tell(&error);
    match error {
        MessageError::Read(cause) if NotText::caused(&cause) => Error::ExpectedText,
        MessageError::Read(cause) | MessageError::Write(cause) => Error::IoError(cause),
        error => of_kind(error.kind()),
    }
}

/// The number for errors of a kind, where the draft has none of its own for the operation.
fn of_kind(kind: ErrorKind) -> Error {
    match kind {
        ErrorKind::Malformed
        | ErrorKind::Tampered
        | ErrorKind::Unsupported
        | ErrorKind::TooLarge
        | ErrorKind::Unexpected
        | ErrorKind::NotAccepted
        | ErrorKind::UnusableKey
        | ErrorKind::UnfitKey
        | ErrorKind::NoSecret => Error::BadData,
        ErrorKind::NotFound
        | ErrorKind::Ambiguous
        | ErrorKind::Unconfirmed
        | ErrorKind::Refused
        | ErrorKind::Exists
        | ErrorKind::Usage
        | ErrorKind::NoStore
        | ErrorKind::Store
        | ErrorKind::Unproven
        | ErrorKind::KeyHolder
        | ErrorKind::StoreIo
        | ErrorKind::Io
        | ErrorKind::Interrupted
        | ErrorKind::Bug => Error::UnspecifiedFailure,
    }
}

/// Errors of encrypted messages.
pub(crate) fn of_decryption(error: MessageError) -> Error {
    match error {
        MessageError::Malformed(_) | MessageError::Read(_) | MessageError::Write(_) => {
            of_message(error)
        }
        _ => {
            tell(&error);
            Error::CannotDecrypt
        }
    }
}

/// Errors of making or changing a key.
#[expect(clippy::needless_pass_by_value, reason = "map_err gives the value")]
pub(crate) fn of_make(error: MakeError) -> Error {
    let number = match &error {
        MakeError::Invalid { .. } | MakeError::Revoked { .. } => Error::PrimaryKeyBad,
        MakeError::Unusable { .. } => Error::KeyCannotSign,
        MakeError::NoSecret { .. } => Error::BadData,
        MakeError::Locked(_) => Error::KeyIsProtected,
        MakeError::UserIdExists { .. }
        | MakeError::UserId(_)
        | MakeError::EndsTooEarly
        | MakeError::Failed(_) => Error::UnspecifiedFailure,
    };
    tell(&error);
    number
}

/// A reason that the draft has a number for, with ours.
pub(crate) fn because(error: Error, why: impl std::fmt::Display) -> Error {
    say(format_args!("{why}"));
    error
}

/// An error of Sequoia for which the draft has no number.
pub(crate) fn unspecified(why: impl std::fmt::Display) -> Error {
    because(Error::UnspecifiedFailure, why)
}

/// Writes a line to standard error, without any effect of others on a terminal. A failure is
/// ignored, because the exit status says the same.
pub(crate) fn say(line: std::fmt::Arguments<'_>) {
    use std::io::Write as _;

    let _ = writeln!(std::io::stderr(), "{}", visible_text(&line.to_string()));
}

fn tell(error: &dyn std::error::Error) {
    say(format_args!("{error}"));
    let mut cause = error.source();
    while let Some(error) = cause {
        say(format_args!("  because: {error}"));
        cause = error.source();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_of_bad_data_have_its_number() {
        for kind in ErrorKind::ALL {
            let is_of_data = matches!(
                kind,
                ErrorKind::Malformed
                    | ErrorKind::Tampered
                    | ErrorKind::Unsupported
                    | ErrorKind::TooLarge
                    | ErrorKind::Unexpected
                    | ErrorKind::NotAccepted
                    | ErrorKind::UnusableKey
                    | ErrorKind::UnfitKey
                    | ErrorKind::NoSecret
            );
            match of_kind(kind) {
                Error::BadData => assert!(is_of_data, "{kind:?}"),
                Error::UnspecifiedFailure => assert!(!is_of_data, "{kind:?}"),
                other => panic!("{kind:?}: {other:?}"),
            }
        }
    }
}
