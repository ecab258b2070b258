//! The content of signed messages, held back until all signatures are good.

use std::io::{self, Read as _, Seek as _, Write as _};

use tempfile::SpooledTempFile;

use crate::code::Code;
use crate::descriptor;
use crate::session::Session;

/// The number of bytes that are held in memory; more are in a temporary file without a name.
const MEMORY_BYTES_MAX: usize = 16 << 20;

/// The content of a message, if the user asked for it.
pub(crate) struct Output {
    held: Option<SpooledTempFile>,
    has_content: bool,
}

impl Output {
    /// An output that keeps content if there is an option `--output`.
    pub(crate) fn new(session: &Session) -> Self {
        let held = session.output.is_some().then(|| SpooledTempFile::new(MEMORY_BYTES_MAX));
        Self { held, has_content: false }
    }

    /// Whether content is kept.
    pub(crate) fn is_wanted(&self) -> bool {
        self.held.is_some()
    }

    /// Notes that there is content, which may be empty.
    pub(crate) fn begin(&mut self) {
        self.has_content = self.held.is_some();
    }

    /// Adds a piece of the content.
    ///
    /// # Errors
    ///
    /// Errors of writing a temporary file.
    pub(crate) fn write(&mut self, data: &[u8]) -> io::Result<()> {
        self.held.as_mut().map_or(Ok(()), |held| held.write_all(data))
    }

    /// Writes all content to its place.
    pub(crate) fn release(self, session: &Session) {
        let (Some(mut held), true, Some(name)) = (self.held, self.has_content, &session.output)
        else {
            return;
        };
        let shown = name.to_string_lossy();
        let mut file = match descriptor::create(name, session.specials) {
            Ok(file) => file,
            Err(error) => {
                let error = Code::system(&error);
                return session.log.error(format!("error creating '{shown}': {}", error.text()));
            }
        };
        let mut copy = || {
            held.rewind()?;
            let mut buffer = vec![0; 64 << 10];
            loop {
                match held.read(&mut buffer)? {
                    0 => return file.flush(),
                    read => file.write_all(&buffer[..read])?,
                }
            }
        };
        if let Err(error) = copy() {
            let error = Code::system(&error);
            session.log.error(format!("error writing to '{shown}': {}", error.text()));
        }
    }
}
