//! Backup repositories in places that a network leads to: S3, SFTP and WebDAV, through `opendal`.
//!
//! [`Remote`] is a [`Backend`](talaria_backup::Backend): nothing in it knows what an object means.
//! A call waits for its answer, however many threads call; a small runtime of its own carries the
//! connections.
//!
//! ```
//! use std::sync::Arc;
//!
//! use talaria_backup::{Backend, Repository};
//! use talaria_backup_remote::{Remote, RepositoryUrl};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! // Nobody listens there, so this backend gives up soon.
//! let url = "webdav://127.0.0.1:9/backups?attempts=1";
//! let url = RepositoryUrl::parse(url, &|name| std::env::var(name).ok())?;
//! let backend: Arc<dyn Backend> = Arc::new(Remote::new(&url)?);
//! assert!(Repository::id_in(&*backend).is_err());
//! # Ok(())
//! # }
//! ```

mod ahead;
mod bounded;
mod remote;
mod url;

pub use remote::Remote;
pub use url::{RepositoryUrl, RepositoryUrlError, is_url};
