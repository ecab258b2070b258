//! `--detach-sign`, `--clear-sign` and `--sign`: signatures by keys that gpg-agent has.

use std::ffi::OsString;
use std::io::{Read as _, Write};

use talaria_agent::Refusal;
use talaria_message::{
    ArmorWriter, CLEARTEXT_BYTES_MAX, EncryptOptions, Label, MessageError, SigningKey, pack,
    sign_cleartext, sign_detached,
};

use crate::code::{Code, Exit};
use crate::gpg::ends::{Input, Output};
use crate::gpg::files::Files;
use crate::gpg::handover::Reason;
use crate::gpg::request::Form;
use crate::gpg::signers::Signers;
use crate::gpg::signing::Signing;
use crate::gpg::start::Started;
use crate::progress::Counted;

/// A signature whose keys were looked for.
pub(crate) struct Signature {
    form: Form,
    signers: Signers,
    files: Files,
    /// How a message is written, and where to; `None` without an input or without a key.
    how: Option<(EncryptOptions, Output)>,
}

impl Signature {
    /// Finds the keys, and opens the files.
    ///
    /// # Errors
    ///
    /// [`Reason`] if the real gpg must sign.
    pub(crate) fn find(started: &Started, form: Form, words: &[OsString]) -> Result<Self, Reason> {
        let Started { session, settings, .. } = started;
        let needs = |what: &str| Reason::Undone(format!("a signature {what}"));
        if settings.verbose > 0 {
            return Err(needs("with all texts"));
        }
        if words.len() > 1 {
            return Err(needs("of several files"));
        }
        let end = match form {
            _ if settings.armor => ".asc",
            Form::Clear => ".asc",
            Form::Detached => ".sig",
            Form::Inline => ".gpg",
        };
        let files = Files::find(settings, words.first(), end);
        let files = files.ok_or_else(|| needs("of such an input"))?;
        if form == Form::Clear
            && matches!(files.input, Input::File(_, bytes) if bytes > CLEARTEXT_BYTES_MAX)
        {
            return Err(needs("around such a long text"));
        }
        let signers = Signers::find(started)?;
        let how = if files.is_open() && !signers.found.is_empty() {
            let content = files.content(true);
            let options = content.options(&settings.sealing, &[], session.now, &mut Vec::new())?;
            let output = files.output(settings);
            Some((options, output.ok_or_else(|| needs("to such an output"))?))
        } else {
            None
        };
        Ok(Self { form, signers, files, how })
    }

    /// Makes the signature.
    ///
    /// # Errors
    ///
    /// [`Exit`] with 2 if there is none, which was reported then.
    pub(crate) fn write(self, started: &Started) -> Result<(), Exit> {
        let Started { session, settings, .. } = started;
        started.begin();
        let passwords = settings.passwords();
        let Self { form, signers, files, how } = self;
        let shown = files.shown.clone();
        let fail = |number: u32, text: &str| {
            session.status.failure("sign", number);
            let of =
                if form == Form::Clear { format!("{shown}: clear-sign") } else { "signing".into() };
            session.log.error(format!("{of} failed: {text}"));
            Err(Exit(2))
        };
        signers.report(session);
        if signers.found.is_empty() {
            return fail(Code::NoSecret.number(), Code::NoSecret.text());
        }
        let (input, mut reading) = match files.open(session) {
            Ok(opened) => opened,
            Err(code) => return fail(code.whole_number(), code.text()),
        };
        let Some((options, output)) = how else { return Err(Exit(2)) };
        let Ok(mut signing) = signers.into_keys(passwords) else { return Err(Exit(2)) };
        signing.begin(session);
        let now = session.now;
        let made = output.write(|output| match form {
            Form::Detached if settings.armor => {
                let mut armored = ArmorWriter::new(output, Label::Signature)?;
                detached(input, &mut armored, &mut signing.keys, now)?;
                armored.finish().map(drop)
            }
            Form::Detached => detached(input, output, &mut signing.keys, now),
            Form::Clear => {
                let mut text = Vec::new();
                let mut input = input.take(CLEARTEXT_BYTES_MAX + 2);
                input.read_to_end(&mut text).map_err(MessageError::Read)?;
                // To GnuPG, a line feed at the end only ends the last line.
                let mut text = text.strip_suffix(b"\n").unwrap_or(&text);
                sign_cleartext(&mut text, &mut &mut *output, &mut signing.keys, now)
            }
            Form::Inline if settings.armor => {
                let mut armored = ArmorWriter::new(output, Label::Message)?;
                inline(input, &mut armored, &mut signing, &options, now)?;
                armored.finish().map(drop)
            }
            Form::Inline => inline(input, output, &mut signing, &options, now),
        });
        if let Err(error) = made {
            if let Some(refusal) = Refusal::of(&error) {
                session.log.error(format!("signing failed: {}", refusal.text()));
                return fail(refusal.number(), refusal.text());
            }
            reading.blame(session, &error, "signing");
            return fail(Code::General.whole_number(), Code::General.text());
        }
        reading.progress.end(session);
        signing.end(session, form);
        if session.log.has_errors() { Err(Exit(2)) } else { Ok(()) }
    }
}

/// Writes a message with the signatures in it: announced in the order of the keys, and behind the
/// data in the other one.
fn inline(
    input: Counted,
    mut output: impl Write,
    signing: &mut Signing,
    options: &EncryptOptions,
    now: u32,
) -> Result<(), MessageError> {
    signing.reverse();
    let made = pack(input, &mut output, &mut signing.keys, options, now);
    signing.reverse();
    made
}

fn detached(
    mut input: Counted,
    mut output: impl Write,
    keys: &mut [SigningKey],
    now: u32,
) -> Result<(), MessageError> {
    sign_detached(&mut input, &mut output, keys, false, now)
}
