//! The programs that `talaria` starts in its own place, with the same arguments.
//!
//! Each lies in a fixed folder beside `talaria` and is never looked for elsewhere. It refuses to
//! work for a `talaria` of another build, and to be started by hand.
//!
//! A program that has this crate also begins OpenSSL with what it needs, and no more.

mod openssl;

use std::os::unix::fs::MetadataExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs, io};

/// Where the programs may lie, seen from the folder of `talaria`: as packages install them, and as
/// cargo builds them.
const PLACES: [&str; 2] = ["../libexec/talaria", "."];

/// The build that all programs must be of.
const BUILD: &str = env!("TALARIA_BUILD");

/// The variable in which `talaria` says its build.
const VARIABLE: &str = "TALARIA_BUILD";

/// A program that `talaria` starts in its own place.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Program {
    /// Servers, exchanges over networks and storage services.
    Services,
    /// Measurements.
    Bench,
}

/// Why a program does not run.
#[derive(Debug, thiserror::Error)]
pub enum ProgramError {
    /// It is in none of its places.
    #[error("the part of talaria for {} is not installed: {}", program.purpose(), program.name())]
    Missing {
        /// The program.
        program: Program,
        /// Where it was looked for.
        places: Vec<PathBuf>,
    },
    /// The system does not say where `talaria` lies.
    #[error("the folder of talaria is not known")]
    NoFolder(#[source] io::Error),
    /// Another user could have put it there.
    #[error("{} belongs to another user than talaria, so it is not started", path.display())]
    Foreign {
        /// The program.
        path: PathBuf,
    },
    /// The system does not start it.
    #[error("starting {}", path.display())]
    Start {
        /// The program.
        path: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
    /// It was started by hand.
    #[error("{} is a part of talaria, which starts it by itself", .0.name())]
    Alone(Program),
    /// A `talaria` of another build has started it.
    #[error("talaria and {} are of different builds", .0.name())]
    OtherBuild(Program),
}

impl ProgramError {
    /// What the user can do.
    #[must_use]
    pub fn hint(&self) -> String {
        match self {
            Self::Missing { program, places } => {
                let places = places.iter().map(|place| format!("\n  {}", place.display()));
                format!(
                    "Install all programs of one release; from its sources: {}\nLooked for:{}",
                    program.installation(),
                    places.collect::<String>()
                )
            }
            Self::NoFolder(_) => "Mount /proc, in which the kernel names it.".to_owned(),
            Self::Foreign { .. } | Self::Start { .. } | Self::OtherBuild(_) => {
                "Install all programs of one release.".to_owned()
            }
            Self::Alone(_) => "See the commands: talaria help".to_owned(),
        }
    }
}

impl Program {
    /// The name of its file.
    fn name(self) -> &'static str {
        match self {
            Self::Services => "talaria-services",
            Self::Bench => "talaria-bench",
        }
    }

    /// What it has, in errors.
    fn purpose(self) -> &'static str {
        match self {
            Self::Services => "networks",
            Self::Bench => "measurements",
        }
    }

    /// How it is installed from the sources.
    fn installation(self) -> &'static str {
        match self {
            Self::Services => "cargo install --locked --path crates/cli",
            Self::Bench => "cargo install --locked --path crates/measure",
        }
    }

    /// Starts it in the place of this process. Returns only if that fails.
    #[must_use]
    pub fn take_over(self) -> ProgramError {
        let own = match env::current_exe() {
            Ok(own) => own,
            Err(error) => return ProgramError::NoFolder(error),
        };
        let folder = own.parent().unwrap_or(Path::new("/"));
        let places: Vec<PathBuf> =
            PLACES.iter().map(|place| folder.join(place).join(self.name())).collect();
        let Some(given) = places.iter().find(|path| path.is_file()) else {
            return ProgramError::Missing { program: self, places };
        };
        let given = given.clone();
        // What was looked at is started, wherever symbolic links lead by then.
        let path = match given.canonicalize() {
            Ok(path) => path,
            Err(source) => return ProgramError::Start { path: given, source },
        };
        match are_of_same_owner([&given, &path], folder) {
            Ok(true) => {}
            Ok(false) => return ProgramError::Foreign { path: given },
            Err(source) => return ProgramError::Start { path: given, source },
        }
        let mut command = Command::new(&path);
        // The name of this program, which is the one to measure and to start again.
        command.arg0(&own).args(env::args_os().skip(1)).env(VARIABLE, BUILD);
        ProgramError::Start { path, source: command.exec() }
    }

    /// Whether this process, which is this program, was started by `talaria` of the same build.
    ///
    /// # Errors
    ///
    /// [`ProgramError::Alone`] and [`ProgramError::OtherBuild`].
    pub fn check_start(self) -> Result<(), ProgramError> {
        match env::var(VARIABLE) {
            Ok(build) if build == BUILD => Ok(()),
            Ok(_) => Err(ProgramError::OtherBuild(self)),
            Err(_) => Err(ProgramError::Alone(self)),
        }
    }
}

/// Whether programs and symbolic links belong to the owner of `talaria`, or to root, and so do the
/// folders that lead to them. In a folder such as `/tmp`, others can put programs, links and
/// folders beside `talaria`. The folders that lead to `talaria` itself do not count: their owners
/// can replace `talaria`.
fn are_of_same_owner(paths: [&Path; 2], folder: &Path) -> io::Result<bool> {
    // Also if the file was replaced since this process began.
    let own = fs::metadata("/proc/self/exe")?.uid();
    let is_beside = |path: &&Path| !folder.starts_with(path) && !path.ends_with("..");
    for path in paths.into_iter().flat_map(|path| path.ancestors().take_while(is_beside)) {
        let owner = fs::symlink_metadata(path)?.uid();
        if owner != own && owner != 0 {
            return Ok(false);
        }
    }
    Ok(true)
}
