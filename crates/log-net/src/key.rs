//! The key of a node.

use std::fmt;
use std::fs;
use std::io::{self, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ring::rand::SystemRandom;
use ring::signature::Ed25519KeyPair;
use talaria_cert::ErrorKind;
use talaria_cert::hex::{self, Lower};
use talaria_disk::{NewFile, Readers};
use talaria_log::NODE_KEY;
use tokio_rustls::rustls::crypto::ring::sign::any_eddsa_type;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer};
use tokio_rustls::rustls::sign::CertifiedKey;

/// The bytes before an Ed25519 key in its `SubjectPublicKeyInfo` (RFC 8410).
const SPKI_START: [u8; 12] =
    [0x30, 0x2a, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x03, 0x21, 0x00];

/// The public key of a node: Ed25519, written as 64 hexadecimal digits.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct NodePublic(pub [u8; 32]);

impl NodePublic {
    /// The key in a `SubjectPublicKeyInfo`.
    pub(crate) fn from_spki(bytes: &[u8]) -> Option<Self> {
        let key = bytes.strip_prefix(&SPKI_START)?;
        Some(Self(key.try_into().ok()?))
    }
}

impl fmt::Display for NodePublic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Lower(&self.0).fmt(f)
    }
}

/// A text is not the public key of a node.
#[derive(Debug, thiserror::Error)]
#[error("the key of a node has 64 hexadecimal digits")]
pub struct NotAKey;

impl FromStr for NodePublic {
    type Err = NotAKey;

    fn from_str(text: &str) -> Result<Self, NotAKey> {
        hex::array(text).map(Self).ok_or(NotAKey)
    }
}

/// The reason why there is no key for a node.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum KeyError {
    /// An operation on the file failed.
    #[error("cannot {action} {}", path.display())]
    Io {
        /// The operation.
        action: &'static str,
        /// The file.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// The file has no Ed25519 key.
    #[error("{} has no Ed25519 key in PKCS #8", path.display())]
    NotAKey {
        /// The file.
        path: PathBuf,
    },
    /// Others may read the file.
    #[error("{} can be read by others (mode {mode:o})", path.display())]
    Readable {
        /// The file.
        path: PathBuf,
        /// Its permissions.
        mode: u32,
    },
    /// The system gives no random numbers.
    #[error("the system gives no random numbers")]
    Random,
}

impl KeyError {
    /// The kind.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::NotAKey { .. } | Self::Readable { .. } => ErrorKind::UnfitKey,
            Self::Io { .. } | Self::Random => ErrorKind::Io,
        }
    }
}

/// The secret key of a node.
#[derive(Clone)]
pub struct NodeSecret {
    public: NodePublic,
    pub(crate) certified: Arc<CertifiedKey>,
}

impl NodeSecret {
    /// The key in a folder. If there is none, one is made, and is on disk when this returns.
    ///
    /// # Errors
    ///
    /// [`KeyError`].
    pub fn of_folder(folder: &Path) -> Result<Self, KeyError> {
        let path = folder.join(NODE_KEY);
        match Self::read(&path) {
            Err(KeyError::Io { source, .. }) if source.kind() == io::ErrorKind::NotFound => {}
            read => return read,
        }
        let made = Ed25519KeyPair::generate_pkcs8(&SystemRandom::new());
        let text = STANDARD.encode(made.map_err(|_| KeyError::Random)?.as_ref());
        let (one, other) = text.split_at(64.min(text.len()));
        let text =
            format!("-----BEGIN PRIVATE KEY-----\n{one}\n{other}\n-----END PRIVATE KEY-----\n");
        let io = |source| KeyError::Io { action: "write", path: path.clone(), source };
        let written = NewFile::beginning(&path).and_then(|mut file| {
            file.write_all(text.as_bytes())?;
            file.keep(Readers::Owner)
        });
        match written {
            // Another process was first.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            written => written.map_err(io)?,
        }
        Self::read(&path)
    }

    /// Reads a key.
    ///
    /// # Errors
    ///
    /// [`KeyError`].
    pub fn read(path: &Path) -> Result<Self, KeyError> {
        let io = |source| KeyError::Io { action: "read", path: path.to_owned(), source };
        let not_a_key = || KeyError::NotAKey { path: path.to_owned() };
        let mode = fs::metadata(path).map_err(io)?.permissions().mode() & 0o777;
        if mode & 0o077 != 0 {
            return Err(KeyError::Readable { path: path.to_owned(), mode });
        }
        let bytes = fs::read(path).map_err(io)?;
        let key = PrivatePkcs8KeyDer::from_pem_slice(&bytes).map_err(|_| not_a_key())?;
        let key = any_eddsa_type(&key).map_err(|_| not_a_key())?;
        let spki = key.public_key().ok_or_else(not_a_key)?;
        let public = NodePublic::from_spki(&spki).ok_or_else(not_a_key)?;
        let chain = vec![CertificateDer::from(spki.to_vec())];
        Ok(Self { public, certified: Arc::new(CertifiedKey::new(chain, key)) })
    }

    /// The public key.
    #[must_use]
    pub fn public(&self) -> NodePublic {
        self.public
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_has_one_key_that_only_its_owner_reads() {
        let folder = tempfile::tempdir().unwrap();
        let public = NodeSecret::of_folder(folder.path()).unwrap().public();
        assert_eq!(NodeSecret::of_folder(folder.path()).unwrap().public(), public);
        assert_eq!(public.to_string().parse::<NodePublic>().unwrap(), public);
        let path = folder.path().join(NODE_KEY);
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
        let error = NodeSecret::of_folder(folder.path()).err().unwrap();
        assert!(matches!(error, KeyError::Readable { mode: 0o640, .. }), "{error}");
    }

    #[test]
    fn a_file_without_a_key_is_named_and_stays() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(NODE_KEY);
        for text in ["", "hello", "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n"]
        {
            fs::write(&path, text).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
            let error = NodeSecret::of_folder(folder.path()).err().unwrap();
            assert!(matches!(error, KeyError::NotAKey { .. }), "{error}");
            assert_eq!(fs::read_to_string(&path).unwrap(), text);
        }
        for text in ["", "00", &"g".repeat(64), &"é".repeat(32)] {
            assert!(text.parse::<NodePublic>().is_err(), "{text}");
        }
    }
}
