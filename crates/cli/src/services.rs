//! What only the program `talaria-services` has: servers, exchanges over networks, storage services and benchmarks.
//!
//! `talaria` starts it in its own place, with the same arguments. It lies in a fixed folder beside `talaria` and is never looked for
//! elsewhere. Each of the two refuses to work with the other of another build.

use std::env;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, OnceLock};

use talaria_backup::{Backend, BackupError};
use talaria_backup_remote::{Remote, RepositoryUrl};
use talaria_log::{FolderReplica, LogFolder};
use talaria_log_net::{Event, NetError, NodePublic, NodeSecret, ServeOptions, Stop, Synced};

use crate::error::CliError;

/// The file name of the program.
const NAME: &str = "talaria-services";

/// Where it may lie, seen from the folder of `talaria`: as packages install it, and as cargo builds it.
const PLACES: [&str; 2] = ["../libexec/talaria", "."];

/// The build that both programs must be of.
const BUILD: &str = env!("TALARIA_BUILD");

/// The variable in which `talaria` says its build.
const VARIABLE: &str = "TALARIA_BUILD";

/// The calls that need a network.
pub(crate) trait Networks: Sync {
    /// [`talaria_log_net::serve`]
    fn serve_log(
        &self,
        log: Arc<LogFolder>,
        secret: &NodeSecret,
        options: &ServeOptions,
        stop: &Stop,
        tell: Box<dyn Fn(Event) + Send + Sync>,
    ) -> Result<(), NetError>;

    /// [`talaria_log_net::sync`]
    fn sync_log(
        &self,
        replica: FolderReplica,
        secret: &NodeSecret,
        expected: Option<NodePublic>,
        address: &str,
        stop: &Stop,
    ) -> Result<Synced, NetError>;

    /// The storage behind a URL.
    fn storage(&self, url: &RepositoryUrl) -> Result<Arc<dyn Backend>, BackupError>;
}

/// The networks themselves.
struct Real;

impl Networks for Real {
    fn serve_log(
        &self,
        log: Arc<LogFolder>,
        secret: &NodeSecret,
        options: &ServeOptions,
        stop: &Stop,
        tell: Box<dyn Fn(Event) + Send + Sync>,
    ) -> Result<(), NetError> {
        talaria_log_net::serve(log, secret, options, stop, tell)
    }

    fn sync_log(
        &self,
        replica: FolderReplica,
        secret: &NodeSecret,
        expected: Option<NodePublic>,
        address: &str,
        stop: &Stop,
    ) -> Result<Synced, NetError> {
        talaria_log_net::sync(replica, secret, expected, address, stop)
    }

    fn storage(&self, url: &RepositoryUrl) -> Result<Arc<dyn Backend>, BackupError> {
        Ok(Arc::new(Remote::new(url)?))
    }
}

static NETWORKS: OnceLock<&dyn Networks> = OnceLock::new();

/// Why `talaria-services` does not run.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ServicesError {
    #[error("the part of talaria for networks is not installed: {NAME}")]
    Missing { places: Vec<PathBuf> },
    #[error("{} belongs to another user than talaria, so it is not started", path.display())]
    Foreign { path: PathBuf },
    #[error("starting {}", path.display())]
    Start { path: PathBuf, source: io::Error },
    #[error("{NAME} is a part of talaria, which starts it by itself")]
    Alone,
    #[error("talaria and {NAME} are of different builds")]
    OtherBuild,
}

impl ServicesError {
    pub(crate) fn hint(&self) -> String {
        match self {
            Self::Missing { places } => {
                let places = places.iter().map(|place| format!("\n  {}", place.display()));
                format!(
                    "Install both programs of one release. Looked for:{}",
                    places.collect::<String>()
                )
            }
            Self::Foreign { .. } | Self::Start { .. } | Self::OtherBuild => {
                "Install both programs of one release.".to_owned()
            }
            Self::Alone => "See the commands: talaria help".to_owned(),
        }
    }
}

/// The calls that need a network. In `talaria`, `talaria-services` takes over: whoever needs them asks for them before anything else.
pub(crate) fn networks() -> Result<&'static dyn Networks, CliError> {
    NETWORKS.get().copied().map_or_else(|| Err(take_over()), Ok)
}

/// Starts `talaria-services` in the place of this process. Returns only if that fails.
pub(crate) fn take_over() -> CliError {
    let Ok(own) = env::current_exe() else {
        return ServicesError::Missing { places: Vec::new() }.into();
    };
    let folder = own.parent().unwrap_or(Path::new("/"));
    let places: Vec<PathBuf> = PLACES.iter().map(|place| folder.join(place).join(NAME)).collect();
    let Some(path) = places.iter().find(|path| path.is_file()) else {
        return ServicesError::Missing { places }.into();
    };
    if !is_of_same_owner(&own, path) {
        return ServicesError::Foreign { path: path.clone() }.into();
    }
    let mut command = Command::new(path);
    // The name of this program, which is the one to measure and to start again.
    command.arg0(&own).args(env::args_os().skip(1)).env(VARIABLE, BUILD);
    ServicesError::Start { path: path.clone(), source: command.exec() }.into()
}

/// Whether a program belongs to the owner of `talaria`, or to root. In a folder such as `/tmp`, others can put programs beside it.
fn is_of_same_owner(own: &Path, other: &Path) -> bool {
    let owner = |path: &Path| path.metadata().map(|metadata| metadata.uid());
    match (owner(own), owner(other)) {
        (Ok(own), Ok(other)) => other == own || other == 0,
        _ => false,
    }
}

/// Makes this process `talaria-services`, if `talaria` of the same build has started it.
pub(crate) fn offer() -> Result<(), CliError> {
    match env::var(VARIABLE) {
        Ok(build) if build == BUILD => {}
        Ok(_) => return Err(ServicesError::OtherBuild.into()),
        Err(_) => return Err(ServicesError::Alone.into()),
    }
    let _ = NETWORKS.set(&Real);
    Ok(())
}
