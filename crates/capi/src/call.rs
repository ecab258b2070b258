//! The frame of every call: its status, the text of its error, and a barrier for panics.

use std::cell::RefCell;
use std::ffi::{CString, c_char};
use std::mem::MaybeUninit;
use std::panic::{AssertUnwindSafe, catch_unwind};

use talaria::Error;
use talaria::cert::ErrorKind;
use talaria::embed::guarded;
use talaria::message::MessageError;

/// The result of a call.
#[repr(C)]
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum talaria_status {
    /// Success.
    Ok = 0,
    /// The arguments contradict each other, or a required pointer is null.
    Usage = 1,
    /// The data are malformed, or of another kind.
    Malformed = 2,
    /// The integrity check of the message fails or is missing.
    Tampered = 3,
    /// None of the keys and passphrases opens the message.
    NoSecret = 4,
    /// A certificate cannot be encrypted to, or a key cannot sign or is locked.
    UnusableKey = 5,
    /// The message uses an unsupported algorithm or format.
    Unsupported = 6,
    /// A part of the message exceeds a limit.
    TooLarge = 7,
    /// The store or the certificate does not exist.
    NotFound = 8,
    /// Several certificates match the name, or none matches it exactly.
    Ambiguous = 9,
    /// The store cannot be read.
    Store = 10,
    /// Another error.
    Other = 11,
    /// A bug in talaria. The objects of the call can only be freed.
    Bug = 12,
    /// A signature of the message is bad, or a required signature is missing.
    NotAccepted = 13,
}

impl From<ErrorKind> for talaria_status {
    fn from(kind: ErrorKind) -> Self {
        match kind {
            ErrorKind::Usage => Self::Usage,
            ErrorKind::Malformed => Self::Malformed,
            ErrorKind::Tampered => Self::Tampered,
            ErrorKind::NoSecret => Self::NoSecret,
            ErrorKind::UnusableKey | ErrorKind::UnfitKey | ErrorKind::KeyHolder => {
                Self::UnusableKey
            }
            ErrorKind::Unsupported => Self::Unsupported,
            ErrorKind::TooLarge => Self::TooLarge,
            ErrorKind::NotFound | ErrorKind::NoStore => Self::NotFound,
            ErrorKind::Ambiguous | ErrorKind::Unconfirmed => Self::Ambiguous,
            ErrorKind::NotAccepted => Self::NotAccepted,
            ErrorKind::Store | ErrorKind::StoreIo | ErrorKind::Exists => Self::Store,
            ErrorKind::Bug => Self::Bug,
            // No function of the library uses a log.
            ErrorKind::Refused | ErrorKind::Unexpected | ErrorKind::Unproven => Self::Other,
            ErrorKind::Io | ErrorKind::Interrupted => Self::Other,
        }
    }
}

thread_local! {
    static MESSAGE: RefCell<CString> = RefCell::default();
}

/// Does the work of a call, and stores its error.
pub(crate) fn call(work: impl FnOnce() -> Result<(), Error>) -> talaria_status {
    let Err(error) = guarded(work) else { return talaria_status::Ok };
    let (status, text) = (talaria_status::from(error.kind()), talaria::describe(&error));
    // A thread that is ending has no place for the text any more.
    let _ = MESSAGE.try_with(|message| *message.borrow_mut() = c_string(&text));
    status
}

/// Drops a value from the caller, and stops panics.
pub(crate) fn give_back<T>(value: T) {
    let _ = catch_unwind(AssertUnwindSafe(|| drop(value)));
}

/// Text without the byte that ends strings in C.
pub(crate) fn c_string(text: &str) -> CString {
    CString::new(text.replace('\0', "\u{fffd}")).unwrap_or_default()
}

/// The error of the latest failed call on this thread, in UTF-8. Never null; valid until the next
/// call on this thread fails.
#[unsafe(no_mangle)]
pub extern "C" fn talaria_error_message() -> *const c_char {
    MESSAGE.try_with(|message| message.borrow().as_ptr()).unwrap_or(c"".as_ptr())
}

/// A required handle or output.
pub(crate) fn given<T>(pointer: Option<T>) -> Result<T, Error> {
    pointer.ok_or(Error::Message(MessageError::Usage("a pointer is null")))
}

/// Writes a new handle to its output pointer.
pub(crate) fn hand_out<T>(place: &mut MaybeUninit<Option<Box<T>>>, value: T) {
    place.write(Some(Box::new(value)));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_of_error_has_a_status_of_the_header() {
        let header = include_str!("../include/talaria.h");
        for kind in ErrorKind::ALL {
            let status = talaria_status::from(kind);
            assert_ne!(status, talaria_status::Ok, "{kind:?}");
            let name = format!("{status:?}").chars().fold(String::new(), |mut name, letter| {
                if letter.is_uppercase() && !name.is_empty() {
                    name.push('_');
                }
                name.push(letter.to_ascii_uppercase());
                name
            });
            let line = format!("TALARIA_STATUS_{name} = {},", status as u8);
            assert!(header.contains(&line), "{kind:?}: {line}");
        }
    }
}
