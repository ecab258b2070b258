//! What only the program `talaria-services` has: servers, exchanges over networks, and storage
//! services.
//!
//! `talaria` starts it in its own place ([`talaria_programs`]).

use std::sync::{Arc, OnceLock};

use talaria::backup::{Backend, BackupError};
use talaria_backup_remote::{Remote, RepositoryUrl};
use talaria_log::{FolderReplica, LogFolder};
use talaria_log_net::{Event, NetError, NodePublic, NodeSecret, ServeOptions, Stop, Synced};
use talaria_programs::{Program, ProgramError};

type ServeLog = fn(
    Arc<LogFolder>,
    &NodeSecret,
    &ServeOptions,
    &Stop,
    Box<dyn Fn(Event) + Send + Sync>,
) -> Result<(), NetError>;

type SyncLog =
    fn(FolderReplica, &NodeSecret, Option<NodePublic>, &str, &Stop) -> Result<Synced, NetError>;

/// The calls that need a network, as pointers: what `talaria` names itself, it has.
pub(crate) struct Networks {
    /// [`talaria_log_net::serve`]
    pub(crate) serve_log: ServeLog,
    /// [`talaria_log_net::sync`]
    pub(crate) sync_log: SyncLog,
    /// The storage behind a URL.
    pub(crate) storage: fn(&RepositoryUrl) -> Result<Arc<dyn Backend>, BackupError>,
}

static NETWORKS: OnceLock<Networks> = OnceLock::new();

/// The calls that need a network. In `talaria`, `talaria-services` takes over: whoever needs them
/// asks for them before anything else.
pub(crate) fn networks() -> Result<&'static Networks, ProgramError> {
    NETWORKS.get().map_or_else(|| Err(Program::Services.take_over()), Ok)
}

/// Makes this process `talaria-services`, if `talaria` of the same build has started it.
pub(crate) fn offer() -> Result<(), ProgramError> {
    Program::Services.check_start()?;
    let _ = NETWORKS.set(Networks {
        serve_log: |log, secret, options, stop, tell| {
            talaria_log_net::serve(log, secret, options, stop, tell)
        },
        sync_log: talaria_log_net::sync,
        storage: |url| Ok(Arc::new(Remote::new(url)?)),
    });
    Ok(())
}
