//! What the user asks of an encryption: to whom it is, and with which algorithms.

use std::collections::VecDeque;
use std::ffi::OsString;

use crate::algorithm;
use crate::gpg::arguments;
use crate::gpg::handover::Reason;
use crate::gpg::preferred::Preferred;
use crate::gpg::table::{Argument, Encrypting};
use crate::options::Given;

/// Somebody to encrypt to.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Addressee {
    /// A name of a key, or of a file.
    pub(crate) name: OsString,
    pub(crate) kind: Kind,
    /// The message does not name the key.
    pub(crate) is_hidden: bool,
}

/// Where an addressee comes from.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Kind {
    /// The user names a key for this message.
    Named,
    /// The user names a file with a certificate.
    File,
    /// The user wants every message to be encrypted to this key, too.
    Always,
}

/// Who gets a message without an addressee.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(crate) enum Fallback {
    #[default]
    Nobody,
    /// The user's default key.
    Own,
    /// The key with this name.
    Named(OsString),
}

/// What the user asks of an encryption.
#[derive(Debug, Default)]
pub(crate) struct Sealing {
    /// In the order of the options.
    addressees: Vec<Addressee>,
    /// Names, in lower case, and what they stand for, in the order of the options.
    groups: Vec<(String, Vec<OsString>)>,
    pub(crate) fallback: Fallback,
    /// No message is encrypted to [`Kind::Always`].
    ignores_always: bool,
    /// No key is named.
    pub(crate) hides_all: bool,
    /// The number of a cipher.
    pub(crate) cipher: Option<u8>,
    /// The number of a compression.
    pub(crate) compression: Option<u8>,
    /// What the user prefers, among what all recipients accept.
    pub(crate) personal: Preferred,
    /// The level of zlib and that of bzip2.
    pub(crate) level: Option<i32>,
    pub(crate) bzip2_level: Option<i32>,
    /// The name in the message.
    pub(crate) file_name: Option<OsString>,
    /// Nothing is warned of.
    pub(crate) is_expert: bool,
    /// An option whose effect on an encryption is not implemented.
    pub(crate) undone: Option<Reason>,
}

impl Sealing {
    /// Obeys an option; `undone` says that its argument is not one of those that gpg knows.
    pub(crate) fn set(
        &mut self,
        option: Encrypting,
        given: &Given<impl Copy>,
        undone: impl Fn() -> Reason,
    ) -> Result<(), Reason> {
        let text = given.text.to_string_lossy();
        let known = |kind| {
            if arguments::is_known(kind, &text) { Ok(()) } else { Err(undone()) }
        };
        match option {
            Encrypting::Recipient => self.add(given, Kind::Named, false),
            Encrypting::HiddenRecipient => self.add(given, Kind::Named, true),
            Encrypting::RecipientFile => self.add(given, Kind::File, false),
            Encrypting::HiddenRecipientFile => self.add(given, Kind::File, true),
            Encrypting::EncryptTo => self.add(given, Kind::Always, false),
            Encrypting::HiddenEncryptTo => self.add(given, Kind::Always, true),
            Encrypting::NoEncryptTo => self.ignores_always = true,
            Encrypting::DefaultRecipient => {
                self.fallback = Fallback::Named(given.text.clone());
            }
            Encrypting::DefaultRecipientSelf => self.fallback = Fallback::Own,
            Encrypting::NoDefaultRecipient => self.fallback = Fallback::Nobody,
            Encrypting::ThrowKeyids => self.hides_all = true,
            Encrypting::NoThrowKeyids => self.hides_all = false,
            Encrypting::Cipher => {
                known(Argument::Cipher)?;
                self.cipher = algorithm::cipher_number(&text);
            }
            Encrypting::Compression => {
                known(Argument::Compression)?;
                self.compression =
                    algorithm::compression_number(&text).or_else(|| text.parse().ok());
            }
            Encrypting::Level => self.level = Some(given.number),
            Encrypting::Bzip2Level => self.bzip2_level = Some(given.number),
            Encrypting::BothLevels => {
                (self.level, self.bzip2_level) = (Some(given.number), Some(given.number));
            }
            Encrypting::FileName => self.file_name = Some(given.text.clone()),
            Encrypting::Expert => self.is_expert = true,
            Encrypting::NoExpert => self.is_expert = false,
            Encrypting::Undone => drop(self.undone.get_or_insert_with(undone)),
            Encrypting::PersonalCiphers => {
                known(Argument::Preferences)?;
                match arguments::preferences(&text, algorithm::cipher_number) {
                    Some(list) => self.personal.ciphers = list,
                    None => drop(self.undone.get_or_insert_with(undone)),
                }
            }
            Encrypting::PersonalCompressions => {
                known(Argument::Preferences)?;
                match arguments::preferences(&text, algorithm::compression_number) {
                    Some(list) => self.personal.compressions = list,
                    None => drop(self.undone.get_or_insert_with(undone)),
                }
            }
            Encrypting::Locate => {
                known(Argument::Locate)?;
                self.undone.get_or_insert_with(undone);
            }
        }
        Ok(())
    }

    fn add(&mut self, given: &Given<impl Copy>, kind: Kind, is_hidden: bool) {
        self.addressees.push(Addressee { name: given.text.clone(), kind, is_hidden });
    }

    /// Adds names to a group (`NAME=VALUE VALUE`); `false` if that is none.
    pub(crate) fn add_group(&mut self, text: &str) -> bool {
        let Some((name, values)) = text.split_once('=') else { return false };
        let name = name.trim_end().to_ascii_lowercase();
        let values = values.split([' ', '\t']).filter(|value| !value.is_empty());
        let values = values.map(OsString::from);
        match self.groups.iter_mut().find(|(known, _)| *known == name) {
            Some((_, known)) => known.extend(values),
            None => self.groups.push((name, values.collect())),
        }
        true
    }

    /// Whether there are groups.
    pub(crate) fn has_groups(&self) -> bool {
        !self.groups.is_empty()
    }

    /// All to encrypt to, in gpg's order, with those that groups stand for.
    ///
    /// # Errors
    ///
    /// [`Reason`] for files together with groups: gpg forgets the files.
    pub(crate) fn addressees(&self) -> Result<Vec<Addressee>, Reason> {
        // gpg puts each one in front of those before.
        let reversed = self.addressees.iter().rev();
        if self.groups.is_empty() {
            return Ok(reversed.cloned().collect());
        }
        let mut all = VecDeque::new();
        for addressee in reversed {
            if addressee.kind == Kind::File {
                return Err(Reason::Undone("--recipient-file with --group".to_owned()));
            }
            let name = addressee.name.to_string_lossy().to_ascii_lowercase();
            match self.groups.iter().find(|(known, values)| *known == name && !values.is_empty()) {
                Some((_, values)) => {
                    for value in values.iter().rev() {
                        all.push_front(Addressee { name: value.clone(), ..addressee.clone() });
                    }
                }
                None => all.push_front(addressee.clone()),
            }
        }
        Ok(all.into())
    }

    /// Whether messages are encrypted to [`Kind::Always`].
    pub(crate) fn has_always(&self) -> bool {
        !self.ignores_always
    }
}
