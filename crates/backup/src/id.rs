//! Identifiers: keyed hashes of content, and the secret they depend on.

use std::fmt;
use std::str::FromStr;

use talaria_cert::hex::{self, Lower};
use zeroize::Zeroizing;

use crate::error::{BackupError, Result};

/// The domain of the hash of the group secret.
const GROUP_DOMAIN: &str = "talaria backup 1 group";
/// The domain of the key of identifiers.
const DOMAIN: &str = "talaria backup 1 identifiers";

/// What the name of an object in a folder of the repository says: an identifier, a hash or a number.
pub(crate) fn in_folder<T: FromStr>(folder: &str, name: &str) -> Option<T> {
    name.strip_prefix(folder)?.strip_prefix('/')?.parse().ok()
}

/// The kind of object that an identifier names. The kind is part of the hash, so a file with the
/// text of a tree is not a tree.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub enum Kind {
    /// A part of a file, or several small files one after the other.
    Data = 0,
    /// Content references.
    List = 1,
    /// Entries, or references to trees.
    Tree = 2,
    /// The text of a snapshot.
    Snapshot = 3,
    /// The text of a tombstone, protection, lease, plan or commit.
    Document = 4,
}

impl Kind {
    /// The name of the kind in line text.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Data => "data",
            Self::List => "list",
            Self::Tree => "tree",
            Self::Snapshot => "snapshot",
            Self::Document => "document",
        }
    }

    /// The kind of chunk with this name. A snapshot is not a chunk.
    pub(crate) fn of_chunk(name: &str) -> Option<Self> {
        [Self::Data, Self::List, Self::Tree].into_iter().find(|kind| kind.name() == name)
    }
}

/// A keyed BLAKE3 hash of a kind and plaintext.
#[derive(Clone, Copy, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Id(pub [u8; 32]);

impl fmt::Display for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Lower(&self.0).fmt(f)
    }
}

impl fmt::Debug for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for Id {
    type Err = BackupError;

    fn from_str(text: &str) -> Result<Self> {
        let refused = || {
            BackupError::Refused(format!(
                "\"{text}\" is no identifier: 64 lower-case hexadecimal digits"
            ))
        };
        Ok(Self(from_hex(text).ok_or_else(refused)?))
    }
}

/// The name of a repository: 16 random bytes.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct RepositoryId(pub [u8; 16]);

impl fmt::Display for RepositoryId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Lower(&self.0).fmt(f)
    }
}

impl FromStr for RepositoryId {
    type Err = BackupError;

    fn from_str(text: &str) -> Result<Self> {
        let refused = || {
            BackupError::Refused(format!(
                "\"{text}\" is no repository id: 32 lower-case hexadecimal digits"
            ))
        };
        Ok(Self(from_hex(text).ok_or_else(refused)?))
    }
}

/// The BLAKE3 hash of an object, which is its name. It is not keyed: everybody can check it.
#[derive(Clone, Copy, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct ObjectHash(pub [u8; 32]);

impl ObjectHash {
    /// The hash of an object.
    #[must_use]
    pub fn of(object: &[u8]) -> Self {
        Self(*blake3::hash(object).as_bytes())
    }
}

impl fmt::Display for ObjectHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Lower(&self.0).fmt(f)
    }
}

impl fmt::Debug for ObjectHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for ObjectHash {
    type Err = BackupError;

    fn from_str(text: &str) -> Result<Self> {
        let refused = || {
            BackupError::Refused(format!(
                "\"{text}\" is no hash of an object: 64 lower-case hexadecimal digits"
            ))
        };
        Ok(Self(from_hex(text).ok_or_else(refused)?))
    }
}

/// The secret that all readers and clients of a repository share.
#[derive(Clone)]
pub struct GroupSecret(pub Zeroizing<[u8; 32]>);

impl GroupSecret {
    /// The hash by which a configuration names the secret.
    #[must_use]
    pub(crate) fn hash(&self, repository: RepositoryId) -> [u8; 32] {
        let mut hasher = blake3::Hasher::new_derive_key(GROUP_DOMAIN);
        hasher.update(&*self.0).update(&repository.0);
        *hasher.finalize().as_bytes()
    }
}

/// Computes identifiers.
#[derive(Clone)]
pub struct Identifiers {
    key: Zeroizing<[u8; 32]>,
}

impl Identifiers {
    /// The identifiers of a repository.
    #[must_use]
    pub fn new(group: &GroupSecret, repository: RepositoryId) -> Self {
        let mut hasher = blake3::Hasher::new_derive_key(DOMAIN);
        hasher.update(&*group.0).update(&repository.0);
        Self { key: Zeroizing::new(*hasher.finalize().as_bytes()) }
    }

    /// The identifier of `plain`.
    #[must_use]
    pub fn of(&self, kind: Kind, plain: &[u8]) -> Id {
        let mut hasher = blake3::Hasher::new_keyed(&self.key);
        hasher.update(&[kind as u8]).update(plain);
        Id(*hasher.finalize().as_bytes())
    }

    /// Secret bytes for a purpose other than identifiers. No kind of content starts with the byte
    /// 0xff.
    pub(crate) fn secret(&self, purpose: &str, out: &mut [u8]) {
        let mut hasher = blake3::Hasher::new_keyed(&self.key);
        hasher.update(&[0xff]).update(purpose.as_bytes()).finalize_xof().fill(out);
    }

    /// Where a tree may be cut: a keyed hash of a path.
    pub(crate) fn cut(&self, path: &[u8]) -> u64 {
        let mut hasher = blake3::Hasher::new_keyed(&self.key);
        // No kind has this byte, so that the hash is no identifier, and no secret of another
        // purpose.
        hasher.update(&[0xfe]).update(path);
        let first = hasher.finalize().as_bytes().first_chunk().copied();
        u64::from_le_bytes(first.expect("a hash has 32 bytes"))
    }
}

/// Lower-case hexadecimal digits.
pub(crate) fn to_hex(bytes: &[u8]) -> String {
    Lower(bytes).to_string()
}

/// The bytes of exactly `2 * N` lower-case hexadecimal digits.
pub(crate) fn from_hex<const N: usize>(text: &str) -> Option<[u8; N]> {
    hex::array(text).filter(|_| !text.contains(|digit: char| digit.is_ascii_uppercase()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_identifier_depends_on_kind_content_secret_and_repository() {
        let group = |byte| GroupSecret(Zeroizing::new([byte; 32]));
        let ids = Identifiers::new(&group(1), RepositoryId([2; 16]));
        let id = ids.of(Kind::Data, b"text");
        assert_eq!(id, ids.of(Kind::Data, b"text"));
        assert_ne!(id, ids.of(Kind::Tree, b"text"));
        assert_ne!(id, ids.of(Kind::Data, b"texts"));
        assert_ne!(id, Identifiers::new(&group(2), RepositoryId([2; 16])).of(Kind::Data, b"text"));
        assert_ne!(id, Identifiers::new(&group(1), RepositoryId([3; 16])).of(Kind::Data, b"text"));
        assert_eq!(id.to_string().parse::<Id>().unwrap(), id);
        assert!(id.to_string().to_uppercase().parse::<Id>().is_err());
    }
}
