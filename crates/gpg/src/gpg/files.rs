//! The files of a task that writes one: the input, the output, and what is said of them.

use std::ffi::{OsStr, OsString};

use talaria_message::MessageError;

use crate::code::{Code, cause};
use crate::descriptor;
use crate::gpg::content::Content;
use crate::gpg::ends::{self, Input, Output};
use crate::gpg::request::Settings;
use crate::progress::{Counted, Progress};
use crate::session::Session;

/// The files of a task that writes one.
pub(crate) struct Files {
    pub(crate) input: Input,
    /// The name of the input as it was given.
    given: Option<OsString>,
    /// The name of the input in texts.
    pub(crate) shown: String,
    output: OsString,
}

impl Files {
    /// Finds the input that a word names. Without a name for the output, that is the same with this
    /// end. `None` for an input of another kind.
    pub(crate) fn find(settings: &Settings, given: Option<&OsString>, end: &str) -> Option<Self> {
        let name = given.map(OsString::as_os_str).filter(|name| *name != "-");
        let input = Input::find(name, settings.specials)?;
        let shown = name.map_or("[stdin]".into(), OsStr::to_string_lossy).into_owned();
        let output = output_name(settings, name, end);
        Some(Self { input, given: given.cloned(), shown, output })
    }

    /// Whether the input was opened.
    pub(crate) fn is_open(&self) -> bool {
        !matches!(self.input, Input::Failed(_))
    }

    /// What is to be in a message.
    pub(crate) fn content(&self, is_signed: bool) -> Content<'_> {
        let name = self.given.as_deref().filter(|_| matches!(self.input, Input::File(..)));
        Content { input: &self.input, name, is_signed }
    }

    /// Opens the output; `None` if gpg would ask, and for one of another kind.
    pub(crate) fn output(&self, settings: &Settings) -> Option<Output> {
        ends::output(&self.output, settings.specials, settings.yes)
    }

    /// The open input, whose reading is told. An error is reported.
    ///
    /// # Errors
    ///
    /// [`Code`] if it was not opened.
    pub(crate) fn open(self, session: &Session) -> Result<(Counted, Reading), Code> {
        let Self { input, given, shown, output } = self;
        let file = input.file().inspect_err(|code| {
            session.log.error(format!("can't open '{shown}': {}", code.text()));
        })?;
        let progress = Progress::begin(session, given.as_deref(), &file);
        Ok((progress.counted(file), Reading { progress, shown, output }))
    }
}

/// The reading of an input.
pub(crate) struct Reading {
    pub(crate) progress: Progress,
    shown: String,
    output: OsString,
}

impl Reading {
    /// Reports why what was to be written was not, which is called `what`.
    pub(crate) fn blame(&self, session: &Session, error: &MessageError, what: &str) {
        let Self { shown, output, .. } = self;
        let failed = match error {
            MessageError::Write(_) => format!("error writing to '{}'", output.to_string_lossy()),
            MessageError::Read(_) => format!("error reading '{shown}'"),
            _ => format!("{what} failed"),
        };
        session.log.error(format!("{failed}: {}", cause(error)));
    }
}

/// The name of the output: the one that is wanted, or else that of the input with this end, or the
/// standard output if the input is no file.
fn output_name(settings: &Settings, input: Option<&OsStr>, end: &str) -> OsString {
    let input = input.filter(|name| !descriptor::is_pipe(name, settings.specials));
    match (&settings.output, input) {
        (Some(wanted), _) => wanted.clone(),
        (None, None) => "-".into(),
        (None, Some(input)) => {
            let mut name = input.to_owned();
            name.push(end);
            name
        }
    }
}
