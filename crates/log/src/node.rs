//! The keys by which nodes know each other.

use crate::bytes::{Malformed, text};

/// Most keys of nodes by one author at a time.
pub const NODES_MAX: usize = 64;
/// Longest name of a node, in bytes.
const NAME_MAX: usize = 256;

/// The key of a node, as its owner publishes it.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct NodeKey {
    /// The Ed25519 key.
    pub key: [u8; 32],
    /// The name of the node, for people; it may be empty.
    pub name: String,
}

impl NodeKey {
    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        out.extend(self.key);
        out.extend_from_slice(self.name.as_bytes());
    }

    pub(crate) fn read(bytes: &[u8]) -> Result<Self, Malformed> {
        let (key, name) = bytes.split_first_chunk::<32>().ok_or(Malformed::Short)?;
        let name = text(name).filter(|name| name.len() <= NAME_MAX);
        Ok(Self { key: *key, name: name.ok_or(Malformed::Field("name"))?.to_owned() })
    }
}
