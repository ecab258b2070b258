//! `--verify`.

use std::ffi::OsString;

use crate::code::Exit;
use crate::gpg::plain::Plain;
use crate::gpg::start::Started;
use crate::input;
use crate::keyring::Keyrings;
use crate::process::Processor;
use crate::session::Session;

/// GnuPG's number of an error without a number of its own.
const GENERAL: u32 = 2 << 24 | 1;

/// Verifies the signatures in the first file, over the others or over its own content.
///
/// # Errors
///
/// [`Exit`] with 1 after a bad signature, and 2 after anything else that is not a good one. 0 means
/// as in gpgv that all signatures that were checked are good, by keys of the keyrings. Whether
/// these belong to whom they name, only the status lines say.
pub(crate) fn verify(started: &Started, words: &[OsString]) -> Result<(), Exit> {
    let session = &started.session;
    started.begin();
    let mut processor = processor(started, words);
    let result = input::verify(&mut processor).inspect_err(|_| ended(session))?;
    if let Err(code) = result {
        session.log.error(format!("verify signatures failed: {}", code.text()));
        fail(session, "verify", code.whole_number());
    }
    finish(processor)
}

/// Writes the content of a message that is only signed, if its signatures are good.
///
/// # Errors
///
/// As [`verify`].
pub(crate) fn write(started: &Started, plain: Plain, words: &[OsString]) -> Result<(), Exit> {
    let session = &started.session;
    begin(started, plain);
    let mut processor = processor(started, words);
    let (result, _) = input::process(&mut processor).inspect_err(|_| ended(session))?;
    if let Err(code) = result {
        let (what, place) = match plain {
            Plain::Decrypt => ("decrypt_message", "decrypt"),
            Plain::Default => ("processing message", "-"),
        };
        fail(session, place, code.whole_number());
        session.log.error(format!("{what} failed: {}", code.text()));
    }
    finish(processor)
}

/// Writes what comes before all else.
pub(crate) fn begin(started: &Started, plain: Plain) {
    let session = &started.session;
    started.begin();
    if plain == Plain::Default && !session.quiet {
        session.log.info("WARNING: no command supplied.  Trying to guess what you mean ...");
    }
}

/// A processor for the first of these files, with the others as its data.
pub(crate) fn processor<'a>(started: &'a Started, words: &'a [OsString]) -> Processor<'a> {
    let Started { session, settings, own, .. } = started;
    let keyrings = Keyrings::of_home(session, own.as_deref(), &settings.keyrings, &settings.home);
    Processor::new(session, keyrings, words)
}

/// Writes the content if all is well, and gives the exit status.
fn finish(processor: Processor<'_>) -> Result<(), Exit> {
    let session = processor.session;
    if !session.log.has_errors() && !session.has_bad() {
        processor.output.release(session);
    }
    status(session)
}

/// The exit status.
pub(crate) fn status(session: &Session) -> Result<(), Exit> {
    if session.log.has_errors() {
        Err(Exit(2))
    } else if session.has_bad() {
        Err(Exit(1))
    } else {
        Ok(())
    }
}

/// Says that the program ends before its end.
pub(crate) fn ended(session: &Session) {
    fail(session, "gpg-exit", GENERAL);
}

fn fail(session: &Session, place: &str, number: u32) {
    session.status.failure(place, number);
}
