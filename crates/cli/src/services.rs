//! What only the program `talaria-services` has: servers, exchanges over networks, storage services and benchmarks.
//!
//! `talaria` starts it in its own place, with the same arguments. It lies in a fixed folder beside `talaria` and is never looked for
//! elsewhere. It refuses to work for a `talaria` of another build.

use std::os::unix::fs::MetadataExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, OnceLock};
use std::{env, fs, io};

use talaria_backup::{Backend, BackupError};
use talaria_backup_remote::{Remote, RepositoryUrl};
use talaria_log::{FolderReplica, LogFolder};
use talaria_log_net::{Event, NetError, NodePublic, NodeSecret, ServeOptions, Stop, Synced};

/// The file name of the program.
const NAME: &str = "talaria-services";

/// Where it may lie, seen from the folder of `talaria`: as packages install it, and as cargo builds it.
const PLACES: [&str; 2] = ["../libexec/talaria", "."];

/// The build that both programs must be of.
const BUILD: &str = env!("TALARIA_BUILD");

/// The variable in which `talaria` says its build.
const VARIABLE: &str = "TALARIA_BUILD";

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

/// Why `talaria-services` does not run.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ServicesError {
    #[error("the part of talaria for networks is not installed: {NAME}")]
    Missing { places: Vec<PathBuf> },
    #[error("the folder of talaria is not known")]
    NoFolder(#[source] io::Error),
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
            Self::NoFolder(_) => "Mount /proc, in which the kernel names it.".to_owned(),
            Self::Foreign { .. } | Self::Start { .. } | Self::OtherBuild => {
                "Install both programs of one release.".to_owned()
            }
            Self::Alone => "See the commands: talaria help".to_owned(),
        }
    }
}

/// The calls that need a network. In `talaria`, `talaria-services` takes over: whoever needs them asks for them before anything else.
pub(crate) fn networks() -> Result<&'static Networks, ServicesError> {
    NETWORKS.get().map_or_else(|| Err(take_over()), Ok)
}

/// Starts `talaria-services` in the place of this process. Returns only if that fails.
pub(crate) fn take_over() -> ServicesError {
    let own = match env::current_exe() {
        Ok(own) => own,
        Err(error) => return ServicesError::NoFolder(error),
    };
    let folder = own.parent().unwrap_or(Path::new("/"));
    let places: Vec<PathBuf> = PLACES.iter().map(|place| folder.join(place).join(NAME)).collect();
    let Some(path) = places.iter().find(|path| path.is_file()) else {
        return ServicesError::Missing { places };
    };
    let path = path.clone();
    match is_of_same_owner(&path) {
        Ok(true) => {}
        Ok(false) => return ServicesError::Foreign { path },
        Err(source) => return ServicesError::Start { path, source },
    }
    let mut command = Command::new(&path);
    // The name of this program, which is the one to measure and to start again.
    command.arg0(&own).args(env::args_os().skip(1)).env(VARIABLE, BUILD);
    ServicesError::Start { path, source: command.exec() }
}

/// Whether a program belongs to the owner of `talaria`, or to root. In a folder such as `/tmp`, others can put programs beside it, and
/// symbolic links, which they can change between this look and the start.
fn is_of_same_owner(program: &Path) -> io::Result<bool> {
    // Also if the file was replaced since this process began.
    let own = fs::metadata("/proc/self/exe")?.uid();
    let found = [fs::symlink_metadata(program)?.uid(), fs::metadata(program)?.uid()];
    Ok(found.iter().all(|&owner| owner == own || owner == 0))
}

/// Makes this process `talaria-services`, if `talaria` of the same build has started it.
pub(crate) fn offer() -> Result<(), ServicesError> {
    match env::var(VARIABLE) {
        Ok(build) if build == BUILD => {}
        Ok(_) => return Err(ServicesError::OtherBuild),
        Err(_) => return Err(ServicesError::Alone),
    }
    let _ = NETWORKS.set(Networks {
        serve_log: |log, secret, options, stop, tell| {
            talaria_log_net::serve(log, secret, options, stop, tell)
        },
        sync_log: talaria_log_net::sync,
        storage: |url| Ok(Arc::new(Remote::new(url)?)),
    });
    Ok(())
}
