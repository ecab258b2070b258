//! Hand-over: what is not done here, the real gpg does with the same arguments, descriptors and
//! input, in place of this program.

use std::ffi::OsString;
use std::fmt;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::fs::Access;

use crate::code::Code;
use crate::log::Log;

/// The variable with the programs that were tried, so that none calls another in a circle.
const GUARD: &str = "TALARIA_GPG_TRIED";

/// Where gpg is if `PATH` has none.
const USUAL: &str = "/usr/bin/gpg";

/// Why a task is not done here.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum Reason {
    /// A command or an option, or one of these with an argument.
    Undone(String),
    /// A line of a configuration file: its place, and the option in it.
    Line(String, String),
    /// Something that must be computed or written first.
    Needed(String),
    /// The command line is wrong, with GnuPG's text.
    Wrong(String),
    /// The same, where GnuPG writes no name before the text.
    Usage(String),
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const NONE: &str = "and there is no GnuPG to hand it over to";
        match self {
            Self::Undone(what) => write!(f, "{what} is not implemented, {NONE}"),
            Self::Line(place, what) => write!(f, "{place}: {what} is not implemented, {NONE}"),
            Self::Needed(what) => write!(f, "{what} is needed, {NONE}"),
            Self::Wrong(text) | Self::Usage(text) => f.write_str(text),
        }
    }
}

/// The device and the inode of a program.
type Identity = (u64, u64);

fn identity(path: &Path) -> Option<Identity> {
    let meta = fs::metadata(path).ok().filter(fs::Metadata::is_file)?;
    Some((meta.dev(), meta.ino()))
}

/// This program.
fn own() -> Option<Identity> {
    let by_name = || identity(&std::env::current_exe().ok()?);
    identity(Path::new("/proc/self/exe")).or_else(by_name)
}

/// The programs that were tried so far, from the environment.
fn tried() -> Vec<Identity> {
    let guard = std::env::var(GUARD).unwrap_or_default();
    let identity = |word: &str| {
        let (device, inode) = word.split_once(':')?;
        Some((device.parse().ok()?, inode.parse().ok()?))
    };
    guard.split(',').filter_map(identity).collect()
}

/// The first gpg that is none of `tried`: in `PATH`, then in its usual place.
fn find(tried: &[Identity]) -> Option<(PathBuf, Identity)> {
    let folders = std::env::var_os("PATH").unwrap_or_default();
    let in_path = std::env::split_paths(&folders).filter(|folder| folder.is_absolute());
    let all = in_path.map(|folder| folder.join("gpg")).chain([PathBuf::from(USUAL)]);
    let may_run = |path: &PathBuf| rustix::fs::access(path, Access::EXEC_OK).is_ok();
    all.filter(may_run).find_map(|path| {
        let found = identity(&path).filter(|found| !tried.contains(found))?;
        Some((path, found))
    })
}

/// Runs the real gpg in place of this program. It returns only if there is none: then it says why
/// the task is not done, and the result is the exit status.
pub(crate) fn hand_over(arguments: &[OsString], reason: &Reason) -> u8 {
    const FAILED: u8 = 2;
    let log = Log::new("gpg");
    let mut tried = tried();
    tried.extend(own());
    while let Some((path, found)) = find(&tried) {
        tried.push(found);
        let guard: Vec<String> =
            tried.iter().map(|(device, inode)| format!("{device}:{inode}")).collect();
        let error =
            Command::new(&path).arg0("gpg").args(arguments).env(GUARD, guard.join(",")).exec();
        let error = Code::system(&error);
        log.info(format!("cannot start {}: {}", path.display(), error.text()));
    }
    match reason {
        Reason::Usage(text) => log.plain(text),
        reason => log.info(reason.to_string()),
    }
    FAILED
}
