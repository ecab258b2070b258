//! `--encrypt`, with `--sign` or without: a message to keys of the home directory, in the format of
//! gpg 2.2.

use std::ffi::OsString;
use std::io::Read;

use talaria_agent::Refusal;
use talaria_message::{Cipher, EncryptOptions, MessageError, Naming, Profile};

use crate::algorithm::{self, CIPHERS};
use crate::code::{Code, Exit};
use crate::gpg::content::{self, Content, violates};
use crate::gpg::ends::Output;
use crate::gpg::files::Files;
use crate::gpg::handover::Reason;
use crate::gpg::preferred;
use crate::gpg::recipients::{Recipient, Recipients};
use crate::gpg::request::Form;
use crate::gpg::sealing::Sealing;
use crate::gpg::signers::Signers;
use crate::gpg::signing::Signing;
use crate::gpg::start::Started;

/// GnuPG's number of the digest at the end of the message.
const SHA1: u8 = 2;

/// How the message is made.
struct How {
    options: EncryptOptions,
    to: talaria_message::Recipients,
    /// Texts about what the recipients do not prefer.
    warnings: Vec<String>,
    cipher: u8,
}

/// An encryption whose recipients were looked for.
pub(crate) struct Encryption {
    recipients: Recipients,
    /// The keys that sign, if the message is signed.
    signers: Option<Signers>,
    files: Files,
    /// How, and where to; `None` without recipients or without an input.
    how: Option<(How, Output)>,
}

impl Encryption {
    /// Finds the recipients, and the keys that sign if the message is signed, and opens the files.
    ///
    /// # Errors
    ///
    /// [`Reason`] if the real gpg must encrypt.
    pub(crate) fn find(
        started: &Started,
        is_signed: bool,
        words: &[OsString],
    ) -> Result<Self, Reason> {
        let Started { session, settings, .. } = started;
        let needs = |what: &str| Reason::Undone(format!("an encryption {what}"));
        if settings.verbose > 0 {
            return Err(needs("with all texts"));
        }
        if words.len() > 1 {
            return Err(Reason::Usage("usage: gpg [options] --encrypt [filename]".to_owned()));
        }
        let end = if settings.armor { ".asc" } else { ".gpg" };
        let files = Files::find(settings, words.first(), end);
        let files = files.ok_or_else(|| needs("of such an input"))?;
        let mut signers = if is_signed { Some(Signers::find(started)?) } else { None };
        let recipients = Recipients::find(started)?;
        let how = match &recipients.found {
            Ok(found) if files.is_open() => {
                let content = files.content(is_signed);
                let how = How::choose(&settings.sealing, found, &content, session.now)?;
                if let Some(signers) = &mut signers {
                    let all: Vec<_> = found.iter().map(|one| one.preferred.clone()).collect();
                    signers.prefer(&all, settings)?;
                }
                let output = files.output(settings);
                Some((how, output.ok_or_else(|| needs("to such an output"))?))
            }
            _ => None,
        };
        Ok(Self { recipients, signers, files, how })
    }

    /// Writes the message.
    ///
    /// # Errors
    ///
    /// [`Exit`] with 2 if there is none, which was reported then.
    pub(crate) fn write(self, started: &Started) -> Result<(), Exit> {
        let Started { session, settings, .. } = started;
        started.begin();
        let passwords = settings.passwords();
        let Self { recipients, signers, files, how } = self;
        let shown = files.shown.clone();
        let (place, verb) = match &signers {
            Some(_) => ("sign-encrypt", "sign+encrypt"),
            None => ("encrypt", "encryption"),
        };
        let fail = |number: u32, text: &str| {
            session.status.failure(place, number);
            session.log.error(format!("{shown}: {verb} failed: {text}"));
            Err(Exit(2))
        };
        if let Some(signers) = &signers {
            signers.report(session);
            if signers.found.is_empty() {
                return fail(Code::NoSecret.number(), Code::NoSecret.text());
            }
        }
        recipients.report(session);
        if let Err(code) = &recipients.found {
            return fail(code.number(), code.text());
        }
        let (input, mut reading) = match files.open(session) {
            Ok(opened) => opened,
            Err(code) => return fail(code.whole_number(), code.text()),
        };
        let Some((how, output)) = how else { return Err(Exit(2)) };
        how.warnings.iter().for_each(|text| session.log.info(text));
        let signing = signers.map(|signers| signers.into_keys(passwords)).transpose();
        let Ok(signing) = signing else { return Err(Exit(2)) };
        let mut signing = signing.unwrap_or_default();
        if !signing.keys.is_empty() {
            signing.begin(session);
        }
        session.status.line(&format!("BEGIN_ENCRYPTION {SHA1} {}", how.cipher));
        if let Err(error) = how.seal(input, output, &mut signing, settings.armor, session.now) {
            if let Some(refusal) = Refusal::of(&error) {
                session.log.error(format!("signing failed: {}", refusal.text()));
                return fail(refusal.number(), refusal.text());
            }
            reading.blame(session, &error, verb);
            return fail(Code::General.whole_number(), Code::General.text());
        }
        reading.progress.end(session);
        signing.end(session, Form::Inline);
        session.status.line("END_ENCRYPTION");
        if session.log.has_errors() { Err(Exit(2)) } else { Ok(()) }
    }
}

impl How {
    /// Chooses the algorithms by the preferences of the recipients.
    fn choose(
        sealing: &Sealing,
        recipients: &[Recipient],
        content: &Content<'_>,
        now: u32,
    ) -> Result<Self, Reason> {
        let needs = |what: String| Reason::Undone(format!("an encryption {what}"));
        let all: Vec<_> = recipients.iter().map(|one| one.preferred.clone()).collect();
        let mut warnings = Vec::new();
        let preferred = preferred::cipher(&all, sealing.cipher, &sealing.personal.ciphers);
        let cipher = sealing.cipher.or(preferred);
        let (cipher, number) = match cipher {
            Some(7) => (Cipher::Aes128, 7),
            Some(8) => (Cipher::Aes192, 8),
            Some(9) => (Cipher::Aes256, 9),
            other => return Err(needs(format!("with cipher {}", other.unwrap_or_default()))),
        };
        if preferred != Some(number) && !sealing.is_expert {
            let name = algorithm::name(&CIPHERS, number);
            warnings.push(violates(&format!("symmetric cipher {name} ({number})")));
        }
        let mut to = talaria_message::Recipients::default();
        for Recipient { body, is_hidden, .. } in recipients {
            let is_hidden = *is_hidden || sealing.hides_all;
            let naming = if is_hidden { Naming::Hidden } else { Naming::Named };
            to.add_key(body, naming).map_err(|error| needs(format!("to such a key: {error}")))?;
        }
        let mut options = content.options(sealing, &all, now, &mut warnings)?;
        options.profile = Some(Profile::Rfc4880);
        options.cipher = Some(cipher);
        Ok(Self { options, to, warnings, cipher: number })
    }

    /// Writes the message.
    fn seal(
        &self,
        input: impl Read + Send,
        output: Output,
        signing: &mut Signing,
        is_armored: bool,
        now: u32,
    ) -> Result<(), MessageError> {
        signing.reverse();
        let keys = &mut signing.keys;
        let Self { options, to, .. } = self;
        let sealed = output.write(|mut output| {
            content::seal(input, &mut output, to, keys, options, is_armored, now)
        });
        signing.reverse();
        sealed
    }
}
