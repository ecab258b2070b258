//! Backup repositories in places that a network leads to: S3, SFTP and WebDAV, through `opendal`.
//!
//! [`Remote`] is a [`Backend`](talaria_backup::Backend): nothing in it knows what an object means. A call waits for its
//! answer, however many threads call; a small runtime of its own carries the connections.

mod ahead;
mod bounded;
mod remote;
mod url;

pub use remote::Remote;
pub use url::{RepositoryUrl, RepositoryUrlError, is_url};
