//! `--symmetric`: a message to the passphrase of the caller, in the format of gpg 2.2.

use std::ffi::OsString;

use talaria_message::{Cipher, EncryptOptions, Profile, Recipients};

use crate::code::{Code, Exit};
use crate::gpg::content;
use crate::gpg::ends::Output;
use crate::gpg::files::Files;
use crate::gpg::handover::Reason;
use crate::gpg::start::Started;

/// GnuPG's numbers: of the digest at the end of the message, of how a passphrase becomes a key, and
/// of the digest for that, which is SHA-1 in gpg.
const SHA1: u8 = 2;
const ITERATED: u8 = 3;
const SHA256: u8 = 8;

/// GnuPG's number and text of a passphrase that is none.
const INVALID_PASSPHRASE: (u32, &str) = ((2 << 24) + 31, "Invalid passphrase");

/// An encryption whose files are open.
pub(crate) struct Symmetric {
    files: Files,
    /// How, and where to; `None` without an input.
    how: Option<(EncryptOptions, Output)>,
    /// The cipher, by its number.
    cipher: u8,
}

impl Symmetric {
    /// Opens the files.
    ///
    /// # Errors
    ///
    /// [`Reason`] if the real gpg must encrypt.
    pub(crate) fn find(started: &Started, words: &[OsString]) -> Result<Self, Reason> {
        let Started { session, settings, .. } = started;
        let needs = |what: &str| Reason::Undone(format!("an encryption to a passphrase {what}"));
        if settings.verbose > 0 {
            return Err(needs("with all texts"));
        }
        if words.len() > 1 {
            return Err(needs("of several files"));
        }
        let end = if settings.armor { ".asc" } else { ".gpg" };
        let files = Files::find(settings, words.first(), end);
        let files = files.ok_or_else(|| needs("of such an input"))?;
        let sealing = &settings.sealing;
        let number = sealing.cipher.or(sealing.personal.ciphers.first().copied()).unwrap_or(9);
        let cipher = match number {
            7 => Cipher::Aes128,
            8 => Cipher::Aes192,
            9 => Cipher::Aes256,
            _ => return Err(needs("with such a cipher")),
        };
        let how = if files.is_open() {
            let content = files.content(false);
            let mut options = content.options(sealing, &[], session.now, &mut Vec::new())?;
            options.profile = Some(Profile::Rfc4880);
            options.cipher = Some(cipher);
            let output = files.output(settings);
            Some((options, output.ok_or_else(|| needs("to such an output"))?))
        } else {
            None
        };
        Ok(Self { files, how, cipher: number })
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
        let Self { files, how, cipher } = self;
        let shown = files.shown.clone();
        let fail = |number: u32, text: &str| {
            session.status.failure("symencrypt", number);
            session.log.error(format!("symmetric encryption of '{shown}' failed: {text}"));
            Err(Exit(2))
        };
        let (input, mut reading) = match files.open(session) {
            Ok(opened) => opened,
            Err(code) => return fail(code.whole_number(), code.text()),
        };
        let Some((options, output)) = how else { return Err(Exit(2)) };
        session.status.line(&format!("NEED_PASSPHRASE_SYM {cipher} {ITERATED} {SHA256}"));
        let mut to = Recipients::default();
        for password in passwords {
            if password.map(|bytes| bytes.is_empty()) {
                let (number, text) = INVALID_PASSPHRASE;
                session.status.line("MISSING_PASSPHRASE");
                session.log.error(format!("error creating passphrase: {text}"));
                return fail(number, text);
            }
            to.add_password(password);
        }
        session.status.line(&format!("BEGIN_ENCRYPTION {SHA1} {cipher}"));
        let sealed = output.write(|mut output| {
            let (is_armored, now) = (settings.armor, session.now);
            content::seal(input, &mut output, &to, &mut [], &options, is_armored, now)
        });
        if let Err(error) = sealed {
            reading.blame(session, &error, "symmetric encryption");
            return fail(Code::General.whole_number(), Code::General.text());
        }
        reading.progress.end(session);
        session.status.line("END_ENCRYPTION");
        if session.log.has_errors() { Err(Exit(2)) } else { Ok(()) }
    }
}
