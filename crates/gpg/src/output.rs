//! The content of messages: held back until all signatures are good, or written at once if there is
//! nothing to wait for.

use std::fs::File;
use std::io::{self, Write as _};

use talaria_message::{Held, Spool};

use crate::code::{Code, cause};
use crate::descriptor;
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
}

impl Output {
    /// An output that holds content back, if there is an option `--output`.
    pub(crate) fn new(session: &Session) -> Self {
        let place = if session.output.is_some() {
            let spool = || -> io::Result<Box<dyn Spool>> { Ok(Box::new(tempfile::tempfile()?)) };
            Place::Held(Held::new(Box::new(spool)))
        } else {
            Place::None
        };
        Self { place, releases_unsigned: false, has_content: false, is_whole: false }
    }

    /// Lets content without signatures be written at once: it is known to be authentic.
    pub(crate) fn release_unsigned(&mut self) {
        self.releases_unsigned = true;
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
        if self.has_content && self.releases_unsigned && !is_signed {
            self.place = create(session).map_or(Place::None, Place::Written);
        }
    }

    /// Adds a piece of the content. An error is reported.
    pub(crate) fn write(&mut self, session: &Session, data: &[u8]) {
        let (written, what) = match &mut self.place {
            Place::None => return,
            Place::Held(held) => (held.write_all(data), "a temporary file".to_owned()),
            Place::Written(file) => (file.write_all(data), shown(session)),
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
        let (Place::Held(held), true) = (self.place, self.has_content) else { return };
        let Some(mut file) = create(session) else { return };
        if let Err(error) = held.release(&mut file) {
            let error = cause(&error);
            session.log.error(format!("error writing to {}: {error}", shown(session)));
        }
    }
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
