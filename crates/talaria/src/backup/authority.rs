//! What somebody may do in a repository.

use std::fmt;

use talaria_backup::{RepositoryConfig, Role};
use talaria_message::openpgp::Fingerprint;

/// What somebody may do in a repository.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Authority {
    /// What a role allows. The owner has all roles.
    Role(Role),
    /// To read the content of files, or to own the repository.
    Read,
}

impl Authority {
    /// Whether the certificate with this fingerprint has the authority.
    #[must_use]
    pub fn is_held(self, by: &Fingerprint, config: &RepositoryConfig) -> bool {
        match self {
            Self::Role(role) => config.has_role(by, role),
            Self::Read => config.readers.contains(by) || config.owner == *by,
        }
    }
}

impl fmt::Display for Authority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Role(role) => write!(f, "has the role \"{}\" in", role.name()),
            Self::Read => f.write_str("is a reader of"),
        }
    }
}
