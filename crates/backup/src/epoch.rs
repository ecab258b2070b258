//! Epochs: key pairs that the objects of a repository are encrypted to, and the packets they may
//! have.

use std::fmt;
use std::io::BufRead;
use std::str::FromStr;

use talaria_message::make::{GenerateOptions, KeyProfile, Protection, generate};
use talaria_message::openpgp::serialize::SerializeInto as _;
use talaria_message::openpgp::{Cert, Fingerprint};
use talaria_message::{
    Aead, ChunkSize, Cipher, Compression, EncryptOptions, Recipients, Rules, SigningKey, encrypt,
    encrypt_buffered, pack,
};
use zeroize::Zeroizing;

use crate::error::{BackupError, Result};
use crate::id::RepositoryId;

/// Bytes under one authentication tag, and so the least that a reader decrypts.
const AEAD_CHUNK_BYTES: usize = 64 << 10;

/// The packets of an epoch.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum EpochProfile {
    /// RFC 9580: AES-256 in OCB, version 6 keys.
    #[default]
    Rfc9580,
    /// GnuPG's AEAD packet, version 4 keys.
    LibrePgp,
    /// Version 1 packets, version 4 keys. Every OpenPGP program reads them.
    Rfc4880,
    /// No encryption, for comparison only.
    None,
}

impl EpochProfile {
    /// All profiles.
    pub const ALL: [Self; 4] = [Self::Rfc9580, Self::LibrePgp, Self::Rfc4880, Self::None];

    /// The name of the profile in a configuration.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Rfc9580 => "rfc9580",
            Self::LibrePgp => "librepgp",
            Self::Rfc4880 => "rfc4880",
            Self::None => "none",
        }
    }

    /// The packets that messages of this profile have; `None` without encryption.
    pub(crate) fn packets(self) -> Option<talaria_message::Profile> {
        match self {
            Self::Rfc9580 => Some(talaria_message::Profile::Rfc9580),
            Self::LibrePgp => Some(talaria_message::Profile::LibrePgp),
            Self::Rfc4880 => Some(talaria_message::Profile::Rfc4880),
            Self::None => None,
        }
    }
}

impl fmt::Display for EpochProfile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for EpochProfile {
    type Err = BackupError;

    fn from_str(text: &str) -> Result<Self> {
        Self::ALL.into_iter().find(|profile| profile.name() == text).ok_or_else(|| {
            BackupError::Refused(format!(
                "\"{text}\" is not a profile: use rfc9580, librepgp, rfc4880 or none"
            ))
        })
    }
}

/// The purpose of an epoch's certificate.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Use {
    /// Packs.
    Data,
    /// Indexes and snapshots.
    Index,
}

/// A new key of an epoch: certificate and secret.
pub(crate) struct EpochKey {
    pub(crate) cert: Cert,
    /// The transferable secret key, without a passphrase.
    pub(crate) secret: Zeroizing<Vec<u8>>,
}

impl EpochKey {
    /// Generates a key at `now`, in seconds since 1970.
    pub(crate) fn generate(
        repository: RepositoryId,
        epoch: u32,
        profile: EpochProfile,
        used_for: Use,
        now: u32,
    ) -> Result<Self> {
        let purpose = match used_for {
            Use::Data => "data",
            Use::Index => "index",
        };
        let mut options = GenerateOptions::default();
        options.user_ids = vec![format!("talaria backup {repository} epoch {epoch} {purpose}")];
        options.profile = match profile {
            EpochProfile::Rfc9580 => KeyProfile::Rfc9580,
            _ => KeyProfile::Rfc4880,
        };
        let failed = |why: String| {
            BackupError::Refused(format!("the keys of epoch {epoch} cannot be made: {why}"))
        };
        let made = generate(&options, &Protection::Unprotected, now)
            .map_err(|error| failed(error.to_string()))?;
        let secret = made.cert.as_tsk().to_vec().map_err(|error| failed(error.to_string()))?;
        Ok(Self { cert: made.cert.strip_secret_key_material(), secret: Zeroizing::new(secret) })
    }
}

/// Encrypts objects to one key of an epoch, or only packs them in a profile without encryption.
pub(crate) struct Sealing {
    recipients: Option<Recipients>,
    options: EncryptOptions,
}

impl Sealing {
    /// Seals for an epoch's certificate, which began at `created`; `None` only for
    /// [`EpochProfile::None`].
    pub(crate) fn new(
        profile: EpochProfile,
        cert: Option<&Cert>,
        created: u32,
        now: u32,
    ) -> Result<Self> {
        let recipients = match (profile.packets(), cert) {
            (None, _) => None,
            (Some(_), Some(cert)) => {
                let mut recipients = Recipients::default();
                // A client whose clock is slow can still use the epoch.
                recipients.add(cert, Rules::default(), &mut |_| None, now.max(created)).map_err(
                    |source| BackupError::Message { name: cert_name(&cert.fingerprint()), source },
                )?;
                Some(recipients)
            }
            (Some(_), None) => {
                return Err(BackupError::Refused("the epoch has no certificate".into()));
            }
        };
        let mut options = EncryptOptions::default();
        options.profile = profile.packets();
        options.cipher = Some(Cipher::Aes256);
        options.aead = Some(Aead::Ocb);
        options.chunk = ChunkSize::from_bytes(AEAD_CHUNK_BYTES).expect("a power of two");
        options.compression = Compression::None;
        options.threads = 1;
        Ok(Self { recipients, options })
    }

    /// One message with the content `plain`, signed by `signer` at `now`.
    pub(crate) fn seal(
        &self,
        name: &str,
        plain: &[u8],
        signer: Option<&mut SigningKey>,
        now: u32,
    ) -> Result<Vec<u8>> {
        let mut sealed = Vec::with_capacity(sealed_bytes_max(plain.len() as u64));
        let mut options = self.options.clone();
        options.size = Some(plain.len() as u64);
        let signers = signer.map_or(&mut [][..], std::slice::from_mut);
        let done = match &self.recipients {
            None => pack(plain, &mut sealed, signers, &options, now),
            Some(recipients) => {
                encrypt(plain, &mut sealed, recipients, signers, &options, now).map(drop)
            }
        };
        done.map_err(|source| BackupError::Message { name: name.into(), source })?;
        Ok(sealed)
    }

    /// One message with a pack of `bytes` bytes, at the start of `room`. Returns its length, which
    /// is at most [`sealed_bytes_max`].
    pub(crate) fn seal_pack(
        &self,
        pack: impl BufRead + Send,
        bytes: u64,
        room: &mut [u8],
    ) -> Result<usize> {
        encrypt_buffered(pack, bytes, room, self.recipients.as_ref(), &self.options)
            .map_err(|source| BackupError::Message { name: "a pack".into(), source })
    }
}

/// The maximum size of a message of `bytes` bytes without a signature.
pub(crate) fn sealed_bytes_max(bytes: u64) -> usize {
    usize::try_from(bytes + bytes / 2048 + 1024).unwrap_or_default()
}

/// The name of the object with a certificate.
pub(crate) fn cert_name(fingerprint: &Fingerprint) -> String {
    format!("certs/{}.pgp", fingerprint.to_hex())
}

/// The name of the object with the secret keys of an epoch for a recipient.
pub(crate) fn key_name(epoch: u32, recipient: &Fingerprint) -> String {
    format!("keys/{epoch}/{}.pgp", recipient.to_hex())
}

/// The name of the object with the group secret for a recipient.
pub(crate) fn group_name(recipient: &Fingerprint) -> String {
    format!("keys/group/{}.pgp", recipient.to_hex())
}
