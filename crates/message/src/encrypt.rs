//! Encryption (RFC 9580, section 10.3): wrapped session keys, then a packet of encrypted content.

use std::fmt;
use std::io::{Read, Write};

use sequoia_openpgp as openpgp;
use sequoia_openpgp::crypto::{Password, SessionKey};
use sequoia_openpgp::packet::key::{PublicParts, UnspecifiedRole};
use sequoia_openpgp::packet::{Key, PKESK, pkesk::PKESK3, pkesk::PKESK6};
use sequoia_openpgp::serialize::MarshalInto as _;
use talaria_cert::{Judge, Purpose, Rules, Weak};
use zeroize::Zeroizing;

use crate::algorithm::{Aead, ChunkSize, Cipher};
use crate::certs::read_key;
use crate::cfb;
use crate::chunked::{Chunks, SALT_BYTES};
use crate::compression::Compression;
use crate::content::{self, Literal};
use crate::error::{KeyFault, MessageError, Result};
use crate::framing::{self, PartialWriter, tag};
use crate::judged::{FindRevoker, judge, refused, usable_by};
use crate::password::{Stretched, Wrapping};
use crate::preferences::Preferences;
use crate::random;
use crate::sign::SigningKey;
use crate::unsupported::unsupported;

/// The packet formats of a message.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Profile {
    /// RFC 9580: version 2 of the encrypted data packet, AEAD.
    Rfc9580,
    /// RFC 4880: version 1, CFB with a digest. Every implementation reads it.
    Rfc4880,
    /// GnuPG's AEAD packet in OCB mode, which GnuPG from 2.2.21 and RNP read.
    LibrePgp,
}

/// The subpackets with preferred algorithms (RFC 9580, sections 5.2.3.14 to 5.2.3.17).
const CIPHERS: u8 = 11;
pub(crate) const DIGESTS: u8 = 21;
const COMPRESSIONS: u8 = 22;

/// The subpacket with the features that the recipient can read (RFC 9580, section 5.2.3.32), and
/// its bits.
const FEATURES: u8 = 30;
/// By this bit GnuPG 2.3 and later announces that it reads packet 20 (draft-koch-librepgp, section
/// 5.2.3.25).
const PACKET_20: u8 = 2;
/// Version 2 of the encrypted data packet.
const SEIPD_2: u8 = 8;

/// Whether a message names a key that it is encrypted to.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Naming {
    /// By its key ID or its fingerprint.
    Named,
    /// No: readers try all their keys.
    Hidden,
}

/// The recipients of a message.
#[derive(Default)]
pub struct Recipients {
    keys: Vec<(Key<PublicParts, UnspecifiedRole>, Naming)>,
    passwords: Vec<Password>,
    /// At least one recipient has not announced support for RFC 9580.
    old: bool,
    /// At least one recipient has not announced support for GnuPG's AEAD packet.
    no_packet_20: bool,
    preferences: Preferences,
    /// At least one recipient does not accept GCM.
    no_gcm: bool,
}

impl Recipients {
    /// Adds all encryption keys of a certificate that may be used at `now`, in seconds since 1970.
    /// `find` finds its designated revokers. Returns the weakest self-signature that they need, if
    /// it has a broken hash function.
    ///
    /// # Errors
    ///
    /// [`MessageError::Key`] with the reason if the certificate has no such key.
    pub fn add(
        &mut self,
        cert: &openpgp::Cert,
        rules: Rules,
        find: FindRevoker<'_>,
        now: u32,
    ) -> Result<Option<Weak>> {
        self.add_judged(cert, judge(cert, rules, find, now)?, now)
    }

    /// As [`Self::add`], with the judge of the certificate.
    ///
    /// # Errors
    ///
    /// The errors of [`Self::add`].
    pub fn add_judged(
        &mut self,
        cert: &openpgp::Cert,
        judge: Judge,
        now: u32,
    ) -> Result<Option<Weak>> {
        // The reason names the key type if the certificate has an encryption key of a type that
        // nobody here can compute with.
        let subkeys = || cert.keys().subkeys().map(|key| key.key().role_as_unspecified());
        let named = || subkeys().filter(|key| key.pk_algo().for_encryption()).find_map(unsupported);
        let other = |what| {
            let why = format!("has {what} to encrypt to, which is not supported");
            refused(cert, KeyFault::Other(why))
        };
        let found = usable_by(judge, cert, Purpose::Encrypt, now);
        let mut found = found.map_err(|error| named().map_or(error, other))?;
        found.keys.retain(|key| key.pk_algo().is_supported() && unsupported(key).is_none());
        if found.keys.is_empty() {
            let no_key = || refused(cert, KeyFault::Other("has no key to encrypt to".into()));
            return Err(named().map_or_else(no_key, other));
        }
        let preferences = found.judge.preferences(now);
        let features = preferences.get(FEATURES).and_then(|body| body.first()).copied();
        let features = features.unwrap_or_default();
        self.old |= features & SEIPD_2 == 0;
        self.no_packet_20 |= features & PACKET_20 == 0;
        self.preferences.add(
            listed(&preferences, CIPHERS).as_deref(),
            listed(&preferences, DIGESTS).as_deref(),
            listed(&preferences, COMPRESSIONS).as_deref(),
        );
        self.no_gcm |= !accepts_gcm(&preferences);
        self.keys.extend(found.keys.into_iter().map(|key| (key, Naming::Named)));
        Ok(found.weak)
    }

    /// Adds one key, given the body of its packet. The caller has judged its certificate, and
    /// chooses the packet format and the algorithms, since a key alone has no preferences.
    ///
    /// # Errors
    ///
    /// [`MessageError::Malformed`] if that is not a key, and [`MessageError::Key`] if nobody here
    /// can encrypt to it.
    pub fn add_key(&mut self, body: &[u8], naming: Naming) -> Result<()> {
        let key = read_key(body)?;
        let refused = |what| MessageError::Key {
            name: key.fingerprint().to_hex(),
            why: KeyFault::Other(format!("is {what}, which is not supported")),
        };
        if let Some(what) = unsupported(&key) {
            return Err(refused(what));
        }
        if !key.pk_algo().for_encryption() {
            return Err(refused("a key for signatures".to_owned()));
        }
        (self.old, self.no_packet_20) = (true, true);
        self.keys.push((key, naming));
        Ok(())
    }

    /// Adds a passphrase.
    pub fn add_password(&mut self, password: Password) {
        self.passwords.push(password);
    }

    /// The number of encryption keys of the certificates.
    #[must_use]
    pub fn keys(&self) -> usize {
        self.keys.len()
    }

    /// The number of passphrases.
    #[must_use]
    pub fn passwords(&self) -> usize {
        self.passwords.len()
    }

    /// The compression that the recipients prefer, where `wanted` leaves the choice to them.
    pub(crate) fn compression(&self, wanted: Compression) -> Compression {
        match (wanted, self.preferences.compression()) {
            (Compression::Auto, Compression::None) => Compression::None,
            (Compression::Auto, Compression::Zip(_)) => Compression::AutoZip,
            (Compression::Auto, Compression::Bzip2(_)) => Compression::AutoBzip2,
            (wanted, _) => wanted,
        }
    }

    /// Whether there are no recipients.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.keys.is_empty() && self.passwords.is_empty()
    }
}

/// The algorithms in a subpacket with preferences.
pub(crate) fn listed<A: From<u8>>(
    preferences: &talaria_cert::Preferences<'_>,
    kind: u8,
) -> Option<Vec<A>> {
    preferences.get(kind).map(|body| body.iter().map(|&number| number.into()).collect())
}

/// Whether AES-256 in GCM is among the preferred AEAD suites (RFC 9580, section 5.2.3.15).
fn accepts_gcm(preferences: &talaria_cert::Preferences<'_>) -> bool {
    const SUITES: u8 = 39;
    let suite = [Cipher::Aes256 as u8, Aead::Gcm as u8];
    preferences.get(SUITES).is_some_and(|body| body.chunks_exact(2).any(|listed| *listed == suite))
}

/// Options for encryption. Programs set the fields of [`Self::default`].
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct EncryptOptions {
    /// The packet format; `None` for the newest that all recipients have announced: RFC 9580, else
    /// GnuPG's AEAD, else RFC 4880.
    pub profile: Option<Profile>,
    /// The cipher; `None` for the AES variant that the recipients prefer, AES-256 if they have no
    /// preference.
    pub cipher: Option<Cipher>,
    /// The AEAD mode of [`Profile::Rfc9580`]; `None` for GCM unless a recipient does not accept it.
    pub aead: Option<Aead>,
    /// The amount of plaintext under one authentication tag.
    pub chunk: ChunkSize,
    /// The compression of the content.
    pub compression: Compression,
    /// The metadata of the content.
    pub literal: Literal,
    /// The length of the input in bytes, if it is known: then the message is one packet of definite
    /// length.
    pub size: Option<u64>,
    /// The number of threads.
    pub threads: usize,
}

impl Default for EncryptOptions {
    fn default() -> Self {
        Self {
            profile: None,
            cipher: None,
            aead: None,
            chunk: ChunkSize::default(),
            compression: Compression::default(),
            literal: Literal::default(),
            size: None,
            threads: std::thread::available_parallelism().map_or(1, usize::from),
        }
    }
}

/// The packet format and algorithms that a session key is used with.
#[derive(Clone, Copy)]
pub(crate) struct Suite {
    pub(crate) profile: Profile,
    pub(crate) cipher: Cipher,
    pub(crate) aead: Aead,
    pub(crate) chunk: ChunkSize,
}

impl Suite {
    pub(crate) fn choose(recipients: &Recipients, options: &EncryptOptions) -> Self {
        // Nobody has announced the features of a reader who has a passphrase only.
        let keys_only = recipients.passwords.is_empty() && !recipients.keys.is_empty();
        let profile = options.profile.unwrap_or(if !recipients.old {
            Profile::Rfc9580
        } else if keys_only && !recipients.no_packet_20 {
            Profile::LibrePgp
        } else {
            Profile::Rfc4880
        });
        let cipher = recipients.preferences.cipher();
        let aead = match profile {
            Profile::LibrePgp => Aead::Ocb,
            _ => options.aead.unwrap_or(if recipients.no_gcm { Aead::Ocb } else { Aead::Gcm }),
        };
        Self { profile, cipher: options.cipher.unwrap_or(cipher), aead, chunk: options.chunk }
    }

    /// Generates a session key.
    pub(crate) fn session_key(self) -> Result<Zeroizing<Vec<u8>>> {
        let mut key = Zeroizing::new(vec![0; self.cipher.key_bytes()]);
        random::fill(&mut key)?;
        Ok(key)
    }

    /// The packets that wrap `session_key` for all recipients.
    pub(crate) fn wrap(self, session_key: &[u8], recipients: &Recipients) -> Result<Vec<u8>> {
        let mut out = Vec::new();
        let key = SessionKey::from(session_key);
        for (recipient, naming) in &recipients.keys {
            let refused = |error: anyhow_error| MessageError::Key {
                name: recipient.fingerprint().to_hex(),
                why: KeyFault::Other(error.to_string()),
            };
            let is_hidden = *naming == Naming::Hidden;
            let packet: PKESK = if self.profile == Profile::Rfc9580 {
                let mut packet = PKESK6::for_recipient(&key, recipient).map_err(refused)?;
                if is_hidden {
                    packet.set_recipient(None);
                }
                packet.into()
            } else {
                let cipher = self.cipher.sequoia();
                let packet = PKESK3::for_recipient(cipher, &key, recipient);
                let mut packet = packet.map_err(refused)?;
                if is_hidden {
                    packet.set_recipient(None);
                }
                packet.into()
            };
            let packet = openpgp::Packet::from(packet);
            out.extend(packet.to_vec().map_err(MessageError::secret)?);
        }
        for password in &recipients.passwords {
            let wrapping = match self.profile {
                Profile::Rfc9580 => Wrapping::Version6(self.aead),
                Profile::Rfc4880 => Wrapping::Version4,
                Profile::LibrePgp => Wrapping::Version5,
            };
            let stretched = Stretched::new(password, self.cipher, wrapping)?;
            let body = stretched.wrap(session_key, wrapping)?;
            framing::write_packet(&mut out, tag::SKESK, &body)?;
        }
        Ok(out)
    }

    /// The fields in front of the encrypted bytes, and the AEAD keys of the chunks: `None` for CFB.
    pub(crate) fn begin(self, session_key: &[u8]) -> Result<(Vec<u8>, Option<Chunks>)> {
        let Self { profile, cipher, aead, chunk } = self;
        let numbers = [cipher as u8, aead as u8, chunk.byte()];
        Ok(match profile {
            Profile::Rfc4880 => (vec![1], None),
            Profile::Rfc9580 => {
                let mut salt = [0; SALT_BYTES];
                random::fill(&mut salt)?;
                let chunks = Chunks::seipd_v2(session_key, cipher, aead, chunk, &salt)?;
                ([&[2], &numbers[..], &salt].concat(), Some(chunks))
            }
            Profile::LibrePgp => {
                let mut iv = vec![0; aead.nonce_bytes()];
                random::fill(&mut iv)?;
                let chunks = Chunks::librepgp(session_key, cipher, aead, chunk, &iv)?;
                ([&[1], &numbers[..], &iv].concat(), Some(chunks))
            }
        })
    }

    pub(crate) fn tag(self) -> u8 {
        if self.profile == Profile::LibrePgp { tag::AEAD } else { tag::SEIPD }
    }

    pub(crate) fn sealed_bytes(self, chunks: Option<&Chunks>, plain: u64) -> u64 {
        chunks.map_or_else(
            || cfb::sealed_bytes(self.cipher, plain),
            |chunks| chunks.sealed_bytes(plain),
        )
    }
}

#[expect(non_camel_case_types, reason = "the error of Sequoia, which has no name of its own there")]
type anyhow_error = <openpgp::Cert as std::str::FromStr>::Err;

/// The parameters of an encryption that is done.
pub struct Encrypted {
    /// The cipher.
    pub cipher: Cipher,
    /// The AEAD mode, `None` for version 1.
    pub aead: Option<Aead>,
    /// The session key, for callers who must disclose it.
    pub session_key: Zeroizing<Vec<u8>>,
}

/// Leaves the session key out, which must not be in any log.
impl fmt::Debug for Encrypted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { cipher, aead, session_key: _ } = self;
        let mut text = f.debug_struct("Encrypted");
        text.field("cipher", cipher).field("aead", aead).finish_non_exhaustive()
    }
}

/// Encrypts `input`, signed by `signers` if there are any, at `now` in seconds since 1970.
///
/// Memory use is a few segments per thread; a segment is 256 KiB, or one chunk if that is larger.
///
/// # Errors
///
/// Errors of reading, of writing, and of the keys; [`MessageError::Usage`] without recipients.
pub fn encrypt(
    input: impl Read + Send,
    output: &mut (impl Write + Send),
    recipients: &Recipients,
    signers: &mut [SigningKey],
    options: &EncryptOptions,
    now: u32,
) -> Result<Encrypted> {
    if recipients.is_empty() {
        return Err(MessageError::Usage("a message needs a recipient or a passphrase"));
    }
    let suite = Suite::choose(recipients, options);
    for signer in &mut *signers {
        signer.prefer(&recipients.preferences);
    }
    let session_key = suite.session_key()?;
    let (fields, chunks) = suite.begin(&session_key)?;
    let wrapped = suite.wrap(&session_key, recipients)?;
    let compression = recipients.compression(options.compression);
    let mut content =
        content::content(input, options.size, &options.literal, signers, now, compression)?;
    let sealed =
        content.bytes.map(|plain| fields.len() as u64 + suite.sealed_bytes(chunks.as_ref(), plain));
    let mut start = wrapped;
    if let Some(body) = sealed.filter(|&body| framing::is_definite(body)) {
        framing::write_header(&mut start, suite.tag(), body)?;
        start.extend(fields);
        output.write_all(&start).map_err(MessageError::write)?;
        seal(suite, chunks.as_ref(), &session_key, &mut content.stream, output, options.threads)?;
    } else {
        output.write_all(&start).map_err(MessageError::write)?;
        let mut parts = PartialWriter::new(&mut *output, suite.tag())?;
        parts.write_all(&fields).map_err(MessageError::write)?;
        seal(
            suite,
            chunks.as_ref(),
            &session_key,
            &mut content.stream,
            &mut parts,
            options.threads,
        )?;
        parts.finish()?;
    }
    output.flush().map_err(MessageError::write)?;
    let aead = chunks.is_some().then_some(suite.aead);
    Ok(Encrypted { cipher: suite.cipher, aead, session_key })
}

pub(crate) fn seal(
    suite: Suite,
    chunks: Option<&Chunks>,
    session_key: &[u8],
    plain: &mut (impl Read + Send),
    sealed: &mut (impl Write + Send),
    threads: usize,
) -> Result<()> {
    match chunks {
        Some(chunks) => chunks.seal(plain, sealed, threads),
        None => cfb::seal(session_key, suite.cipher, plain, sealed, threads),
    }
}

/// Writes `input` as a message that is not encrypted: compressed, signed, or only packed.
///
/// # Errors
///
/// Errors of reading, of writing, and of the keys.
pub fn pack(
    input: impl Read + Send,
    output: &mut impl Write,
    signers: &mut [SigningKey],
    options: &EncryptOptions,
    now: u32,
) -> Result<()> {
    let EncryptOptions { size, literal, compression, .. } = options;
    let mut content = content::content(input, *size, literal, signers, now, *compression)?;
    let mut buffer = vec![0; 128 << 10];
    loop {
        let read = framing::read_full(&mut content.stream, &mut buffer)?;
        output.write_all(&buffer[..read]).map_err(MessageError::write)?;
        if read < buffer.len() {
            return output.flush().map_err(MessageError::write);
        }
    }
}
