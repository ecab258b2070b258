//! A builder that reads a message in one expression.

use std::io::{self, BufRead, BufReader, Read, Write};

use sequoia_openpgp as openpgp;
use sequoia_openpgp::crypto::Password;
use talaria_cert::Rules;

use crate::accept::ExpectedSigner;
use crate::error::{MessageError, Result};
use crate::held::{Held, HeldReader, Spool};
use crate::keys::decryption_keys;
use crate::packets::ReadLimits;
use crate::read::{ReadOptions, Received, read_message};
use crate::recognise::Message;
use crate::secrets::Secrets;
use crate::verify::report::Issuer;
use crate::verify::{Lookup, Verifier, lookup_in};

/// Reads encrypted messages, signed messages and texts with a cleartext signature; armored or not.
///
/// Without [`Self::signed_by`], signatures are checked with the certificates of [`Self::certs`] and
/// reported, and a bad signature is an error. With it, no content is released unless every expected
/// signer made a good signature.
///
/// ```
/// # use talaria_message::openpgp::cert::CertBuilder;
/// # use talaria_message::{Decryptor, Encryptor, MessageError};
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let now = u32::try_from(std::time::UNIX_EPOCH.elapsed()?.as_secs())?;
/// # let (alice, _) = CertBuilder::general_purpose(Some("<alice@example.org>")).generate()?;
/// # let (bob, _) = CertBuilder::general_purpose(Some("<bob@example.org>")).generate()?;
/// # let (mallory, _) = CertBuilder::general_purpose(Some("<mallory@example.org>")).generate()?;
/// let mut sealed = Vec::new();
/// Encryptor::new(now).to(&bob)?.sign(&alice)?.armor().write(&b"attack at dawn"[..], &mut sealed)?;
///
/// let mut plain = Vec::new();
/// Decryptor::new(now).key(&bob).signed_by(&[&alice]).to_writer(&sealed[..], &mut plain)?;
/// assert_eq!(plain, b"attack at dawn");
///
/// let mut nothing = Vec::new();
/// let expected = Decryptor::new(now).key(&bob).signed_by(&[&mallory]);
/// let refused = expected.to_writer(&sealed[..], &mut nothing);
/// assert!(matches!(refused, Err(MessageError::NotAccepted(_))) && nothing.is_empty());
/// # Ok(())
/// # }
/// ```
pub struct Decryptor<'a> {
    now: u32,
    rules: Rules,
    keys: Vec<openpgp::Cert>,
    passwords: Vec<Password>,
    certs: Vec<openpgp::Cert>,
    lookup: Option<Lookup<'a>>,
    expected: Option<Vec<ExpectedSigner>>,
    spools: Option<Box<MakeSpools<'a>>>,
    limits: ReadLimits,
    threads: usize,
}

/// The buffer of the input in bytes.
const READ_BYTES: usize = 64 << 10;

type MakeSpools<'a> = dyn Fn() -> io::Result<Box<dyn Spool>> + Send + Sync + 'a;

impl<'a> Decryptor<'a> {
    /// Reads as of the time `now`, in seconds since 1970.
    #[must_use]
    pub fn new(now: u32) -> Self {
        Self {
            now,
            rules: Rules::default(),
            keys: Vec::new(),
            passwords: Vec::new(),
            certs: Vec::new(),
            lookup: None,
            expected: None,
            spools: None,
            limits: ReadLimits::default(),
            threads: std::thread::available_parallelism().map_or(1, usize::from),
        }
    }

    /// Adds the secret keys of a certificate for decryption.
    #[must_use]
    pub fn key(mut self, key: &openpgp::Cert) -> Self {
        self.keys.push(key.clone());
        self
    }

    /// Adds a passphrase. It is tried on the message and on locked secret keys.
    #[must_use]
    pub fn passphrase(mut self, passphrase: impl Into<Password>) -> Self {
        self.passwords.push(passphrase.into());
        self
    }

    /// Requires a good signature of each of these certificates.
    #[must_use]
    pub fn signed_by(mut self, signers: &[&openpgp::Cert]) -> Self {
        let names = signers.iter().map(|cert| ExpectedSigner::from(cert.fingerprint()));
        self.expected.get_or_insert_default().extend(names);
        self.certs(signers)
    }

    /// Adds certificates to check signatures with, without requiring a signature of them.
    #[must_use]
    pub fn certs(mut self, certs: &[&openpgp::Cert]) -> Self {
        self.certs.extend(certs.iter().map(|&cert| cert.clone()));
        self
    }

    /// Adds a function that looks up further certificates, for example in a store.
    #[must_use]
    pub fn lookup(mut self, lookup: Lookup<'a>) -> Self {
        self.lookup = Some(lookup);
        self
    }

    /// Sets the rules by which certificates count.
    #[must_use]
    pub fn rules(mut self, rules: Rules) -> Self {
        self.rules = rules;
        self
    }

    /// Sets where long content waits, encrypted, before it may be released: temporary files. Up to
    /// 32 MiB wait in memory, 8 MiB if signers are expected. Without this setting, all content that
    /// must wait does so in memory.
    #[must_use]
    pub fn spool(
        mut self,
        make: impl Fn() -> io::Result<Box<dyn Spool>> + Send + Sync + 'a,
    ) -> Self {
        self.spools = Some(Box::new(make));
        self
    }

    /// Sets limits on the size of the content and on the cost of passphrases.
    #[must_use]
    pub fn limits(mut self, limits: ReadLimits) -> Self {
        self.limits = limits;
        self
    }

    /// Writes the content of the message `input`. The output before an error is the start of the
    /// authentic content. If signers are expected, or if the message is signed only, an error
    /// leaves the output empty.
    ///
    /// # Errors
    ///
    /// [`MessageError::NotAccepted`]; errors of the message, of reading and of writing.
    pub fn to_writer(
        self,
        input: impl Read + Send,
        output: &mut (dyn Write + Send),
    ) -> Result<Received> {
        self.read(BufReader::with_capacity(READ_BYTES, input), output, false)
    }

    /// The content of the message `input`, as a stream. The whole message has been read and
    /// accepted before this function returns.
    ///
    /// # Errors
    ///
    /// The errors of [`Self::to_writer`].
    pub fn into_reader(mut self, input: impl Read + Send) -> Result<(HeldReader, Received)> {
        let spools = self.spools.take().unwrap_or_else(|| Box::new(in_memory));
        let mut held = Held::new(Box::new(&*spools));
        let received = self.read(BufReader::with_capacity(READ_BYTES, input), &mut held, true)?;
        Ok((held.into_reader()?, received))
    }

    fn read(
        self,
        input: impl BufRead + Send,
        output: &mut (dyn Write + Send),
        disposable: bool,
    ) -> Result<Received> {
        let unlocking = self.passwords.clone();
        let mut secrets = Secrets {
            keys: decryption_keys(&self.keys, move |asked, _| unlocking.get(asked).cloned()),
            passwords: self.passwords,
            ..Secrets::default()
        };
        let (certs, mut further) = (self.certs, self.lookup);
        let mut given = lookup_in(certs);
        let lookup = move |issuer: &Issuer| {
            let mut found = given(issuer);
            found.extend(further.iter_mut().flat_map(|further| further(issuer)));
            found
        };
        let verifier = Verifier::new(Box::new(lookup), self.rules, self.now);
        let spools = self.spools.unwrap_or_else(|| Box::new(in_memory));
        let options = ReadOptions {
            expected: self.expected,
            disposable,
            limits: self.limits,
            threads: self.threads,
            ..ReadOptions::new(&*spools)
        };
        let message = Message::new(input)?;
        let received = read_message(message, output, &mut secrets, &verifier, &options)?;
        match received.decision {
            Err(why) => Err(MessageError::NotAccepted(why)),
            Ok(_) => Ok(received),
        }
    }
}

/// A spool in memory, for callers who have no place for files.
#[expect(clippy::unnecessary_wraps, reason = "other places can fail")]
fn in_memory() -> io::Result<Box<dyn Spool>> {
    Ok(Box::new(io::Cursor::new(Vec::new())))
}
