//! A builder that writes a message in one expression.

use std::io::{Read, Write};

use sequoia_openpgp as openpgp;
use sequoia_openpgp::crypto::Password;
use talaria_cert::{Cert, Fingerprint, Rules};

use crate::armor::{ArmorWriter, Label};
use crate::encrypt::{EncryptOptions, Encrypted, Recipients, encrypt};
use crate::error::Result;
use crate::keys::signing_key;
use crate::sign::SigningKey;

/// Encrypts to certificates and passphrases, and signs if there are signers.
///
/// ```
/// # use talaria_message::{Decryptor, Encryptor};
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let now = u32::try_from(std::time::UNIX_EPOCH.elapsed()?.as_secs())?;
/// let mut sealed = Vec::new();
/// Encryptor::new(now).passphrase("correct horse").write(&b"attack at dawn"[..], &mut sealed)?;
///
/// let (mut content, _) =
///     Decryptor::new(now).passphrase("correct horse").into_reader(&sealed[..])?;
/// assert_eq!(std::io::read_to_string(&mut content)?, "attack at dawn");
/// # Ok(())
/// # }
/// ```
pub struct Encryptor<'a> {
    now: u32,
    rules: Rules,
    find_revoker: Box<dyn FnMut(Fingerprint) -> Option<Cert> + Send + 'a>,
    recipients: Recipients,
    signers: Vec<SigningKey>,
    options: EncryptOptions,
    armor: bool,
}

impl<'a> Encryptor<'a> {
    /// Encrypts and signs as of the time `now`, in seconds since 1970.
    #[must_use]
    pub fn new(now: u32) -> Self {
        Self {
            now,
            rules: Rules::default(),
            find_revoker: Box::new(|_| None),
            recipients: Recipients::default(),
            signers: Vec::new(),
            options: EncryptOptions::default(),
            armor: false,
        }
    }

    /// Sets the rules by which certificates count. They apply to recipients and signers that are
    /// added after this call.
    #[must_use]
    pub fn rules(mut self, rules: Rules) -> Self {
        self.rules = rules;
        self
    }

    /// Sets a function that finds the designated revokers of recipients that are added after this
    /// call by their fingerprints, for example in a store.
    #[must_use]
    pub fn revokers(mut self, find: impl FnMut(Fingerprint) -> Option<Cert> + Send + 'a) -> Self {
        self.find_revoker = Box::new(find);
        self
    }

    /// Adds a certificate as a recipient.
    ///
    /// # Errors
    ///
    /// [`MessageError::Key`](crate::MessageError::Key) if the certificate has no valid encryption
    /// key.
    pub fn to(mut self, recipient: &openpgp::Cert) -> Result<Self> {
        self.recipients.add(recipient, self.rules, &mut *self.find_revoker, self.now)?;
        Ok(self)
    }

    /// Adds a passphrase as a recipient.
    #[must_use]
    pub fn passphrase(mut self, passphrase: impl Into<Password>) -> Self {
        self.recipients.add_password(passphrase.into());
        self
    }

    /// Adds a signer: the newest unlocked signing key of a certificate.
    ///
    /// # Errors
    ///
    /// [`MessageError::Key`](crate::MessageError::Key) if the certificate has no such key.
    pub fn sign(mut self, signer: &openpgp::Cert) -> Result<Self> {
        self.signers.push(signing_key(signer, self.rules, self.now, &mut |_, _| None)?);
        Ok(self)
    }

    /// Adds a signing key that is ready, wherever its secret is.
    #[must_use]
    pub fn sign_with(mut self, signer: SigningKey) -> Self {
        self.signers.push(signer);
        self
    }

    /// Writes the message in ASCII armor.
    #[must_use]
    pub fn armor(mut self) -> Self {
        self.armor = true;
        self
    }

    /// Sets all options of the encryption.
    #[must_use]
    pub fn options(mut self, options: EncryptOptions) -> Self {
        self.options = options;
        self
    }

    /// Encrypts `input`.
    ///
    /// # Errors
    ///
    /// Errors of reading, of writing, and of the keys;
    /// [`MessageError::Usage`](crate::MessageError::Usage) without recipients.
    pub fn write(
        self,
        input: impl Read + Send,
        output: &mut (impl Write + Send),
    ) -> Result<Encrypted> {
        let Self { now, recipients, mut signers, options, armor, .. } = self;
        if !armor {
            return encrypt(input, output, &recipients, &mut signers, &options, now);
        }
        let mut armored = ArmorWriter::new(output, Label::Message)?;
        let done = encrypt(input, &mut armored, &recipients, &mut signers, &options, now)?;
        armored.finish()?;
        Ok(done)
    }
}
