//! The content of messages: held back until all signatures are good, or written at once if there is
//! nothing to wait for.

use std::ffi::OsStr;
use std::fs::File;
use std::io::Write as _;

use talaria_message::{Held, MessageError};

use crate::code::{Code, cause};
use crate::descriptor;
use crate::gpg::ends;
use crate::session::Session;

/// The content of a message, if the user asked for it.
pub(crate) struct Output {
    place: Place,
    /// Content without signatures is written at once.
    releases_unsigned: bool,
    has_content: bool,
    is_whole: bool,
}

/// Where the content is.
enum Place {
    /// Nowhere: nobody asked for it, or an error was reported.
    None,
    /// Up to 8 MiB in memory, and more in a temporary file, encrypted.
    Held(Held<'static>),
    /// Where the user wants it.
    Written(File),
    /// In a file that does not have its name yet.
    New(ends::Output),
}

impl Output {
    /// An output that holds content back, if there is an option `--output`.
    pub(crate) fn new(session: &Session) -> Self {
        let place = match &session.output {
            None => Place::None,
            Some(name) => match new_file(name, session.specials) {
                Some(file) => Place::New(file),
                None => Place::Held(Held::new(Box::new(|| Ok(Box::new(tempfile::tempfile()?))))),
            },
        };
        Self { place, releases_unsigned: false, has_content: false, is_whole: false }
    }

    /// Lets content without signatures be written at once: it is known to be authentic.
    pub(crate) fn release_unsigned(&mut self) {
        self.releases_unsigned = true;
    }

    /// Whether what is written here stays unseen until it is released.
    pub(crate) fn is_unseen(&self) -> bool {
        matches!(self.place, Place::New(_))
    }

    /// Whether content is kept.
    pub(crate) fn is_wanted(&self) -> bool {
        !matches!(self.place, Place::None)
    }

    /// Whether all content came without an error.
    pub(crate) fn is_whole(&self) -> bool {
        self.is_whole
    }

    /// Notes that there is content, which may be empty and which may be signed.
    pub(crate) fn begin(&mut self, session: &Session, is_signed: bool) {
        self.has_content = self.is_wanted();
        let is_held = matches!(self.place, Place::Held(_));
        if is_held && self.releases_unsigned && !is_signed {
            self.place = create(session).map_or(Place::None, Place::Written);
        }
    }

    /// Adds a piece of the content. An error is reported.
    pub(crate) fn write(&mut self, session: &Session, data: &[u8]) {
        let (written, what) = match &mut self.place {
            Place::None => return,
            Place::Held(held) => (held.write_all(data), "a temporary file".to_owned()),
            Place::Written(file) => (file.write_all(data), shown(session)),
            Place::New(file) => (file.writer().write_all(data), shown(session)),
        };
        if let Err(error) = written {
            let error = Code::system(&error);
            session.log.error(format!("error writing to {what}: {}", error.text()));
            self.place = Place::None;
        }
    }

    /// Notes that all content came.
    pub(crate) fn end(&mut self) {
        self.is_whole = true;
    }

    /// Writes what was held back.
    pub(crate) fn release(self, session: &Session) {
        let result = match self.place {
            _ if !self.has_content => return,
            Place::None | Place::Written(_) => return,
            Place::New(file) => file.keep().map_err(MessageError::Write),
            Place::Held(held) => {
                let Some(mut file) = create(session) else { return };
                held.release(&mut file)
            }
        };
        if let Err(error) = result {
            let error = cause(&error);
            session.log.error(format!("error writing to {}: {error}", shown(session)));
        }
    }
}

/// A file that appears when it is whole; `None` for an output of another kind, and where one cannot
/// be made.
fn new_file(name: &OsStr, specials: bool) -> Option<ends::Output> {
    let is_file = !descriptor::is_pipe(name, specials) && name != "/dev/null";
    Some(name).filter(|_| is_file).and_then(|name| ends::output(name, specials, true))
}

/// Opens the output; `None` after an error, which was reported.
fn create(session: &Session) -> Option<File> {
    let name = session.output.as_ref()?;
    descriptor::create(name, session.specials)
        .inspect_err(|error| {
            let error = Code::system(error);
            session.log.error(format!("error creating {}: {}", shown(session), error.text()));
        })
        .ok()
}

/// The name of the output in texts.
fn shown(session: &Session) -> String {
    let name = session.output.as_deref().unwrap_or_default();
    format!("'{}'", name.to_string_lossy())
}
