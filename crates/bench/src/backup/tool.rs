//! The programs that back up, and how each of them is called.

use std::env;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use crate::measure::ProgramRun;

/// The passphrase of peers that need one.
const PASSPHRASE: &str = "correct horse";

/// A program with its way to back up.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Tool {
    /// With a profile of encryption.
    Talaria(&'static str),
    Rsync,
    Restic,
    Borg,
    Duplicity,
}

/// The profiles of talaria, the default first.
pub(super) const PROFILES: [&str; 4] = ["rfc9580", "librepgp", "rfc4880", "none"];

impl Tool {
    /// The peers that are installed.
    pub(super) fn peers() -> impl Iterator<Item = Self> {
        let paths = env::var_os("PATH").unwrap_or_default();
        let is_there = move |tool: &Self| {
            env::split_paths(&paths).any(|path| path.join(tool.program()).is_file())
        };
        [Self::Rsync, Self::Restic, Self::Borg, Self::Duplicity].into_iter().filter(is_there)
    }

    pub(super) fn program(self) -> &'static str {
        match self {
            Self::Talaria(_) => "talaria",
            Self::Rsync => "rsync",
            Self::Restic => "restic",
            Self::Borg => "borg",
            Self::Duplicity => "duplicity",
        }
    }

    pub(super) fn name(self) -> String {
        match self {
            Self::Talaria("rfc9580") => "talaria".into(),
            Self::Talaria(profile) => format!("talaria {profile}"),
            tool => tool.program().into(),
        }
    }
}

/// Where a program works.
pub(super) struct Place<'a> {
    /// The talaria executable.
    pub(super) program: &'a Path,
    pub(super) source: &'a Path,
    /// A folder for everything that the program writes.
    pub(super) work: &'a Path,
}

impl Place<'_> {
    pub(super) fn repository(&self) -> PathBuf {
        self.work.join("repository")
    }

    /// A run with the settings of this place only.
    fn run(&self, program: &Path) -> ProgramRun {
        let setting = |name: &str, value: PathBuf| {
            let mut setting = OsString::from(name);
            setting.push("=");
            setting.push(value);
            setting
        };
        ProgramRun::new("env")
            .arg("-C")
            .arg(self.work)
            .arg(setting("HOME", self.work.into()))
            .arg(setting("TALARIA_CONFIG", PathBuf::new()))
            .arg(setting("XDG_DATA_HOME", self.work.join("data")))
            .arg(setting("RESTIC_PASSWORD", PASSPHRASE.into()))
            .arg(setting("RESTIC_CACHE_DIR", self.work.join("cache")))
            .arg(setting("BORG_PASSPHRASE", PASSPHRASE.into()))
            .arg(setting("BORG_BASE_DIR", self.work.join("borg")))
            .arg(setting("PASSPHRASE", PASSPHRASE.into()))
            .arg(program)
    }

    pub(super) fn talaria(&self) -> ProgramRun {
        self.run(self.program).args(["-q", "backup", "--repo"]).arg(self.repository())
    }

    fn peer(&self, tool: Tool) -> ProgramRun {
        self.run(Path::new(tool.program()))
    }

    fn borg_archive(&self, name: &str) -> OsString {
        let mut archive = self.repository().into_os_string();
        archive.push("::");
        archive.push(name);
        archive
    }

    /// The command that makes the repository.
    pub(super) fn prepare(&self, tool: Tool) -> Vec<ProgramRun> {
        let repository = self.repository();
        match tool {
            Tool::Talaria(profile) => vec![
                self.run(self.program).args([
                    "-q",
                    "key",
                    "generate",
                    "--no-passphrase",
                    "Backup <backup@example.org>",
                ]),
                self.talaria().args(["init", "--profile", profile]),
            ],
            Tool::Rsync | Tool::Duplicity => Vec::new(),
            Tool::Restic => vec![self.peer(tool).arg("-r").arg(repository).arg("init")],
            Tool::Borg => {
                vec![self.peer(tool).args(["init", "-e", "repokey-blake2"]).arg(repository)]
            }
        }
    }

    pub(super) fn back_up(&self, tool: Tool, name: &str) -> ProgramRun {
        let repository = self.repository();
        match tool {
            Tool::Talaria(_) => self.talaria().arg("create").arg(self.source),
            Tool::Rsync => self.peer(tool).arg("-a").arg(self.source.join("")).arg(repository),
            Tool::Restic => {
                self.peer(tool).arg("-r").arg(repository).arg("backup").arg(self.source)
            }
            Tool::Borg => {
                self.peer(tool).arg("create").arg(self.borg_archive(name)).arg(self.source)
            }
            Tool::Duplicity => self.duplicity().arg(self.source).arg(self.url()),
        }
    }

    pub(super) fn restore(&self, tool: Tool) -> ProgramRun {
        let (repository, target) = (self.repository(), self.work.join("restored"));
        match tool {
            Tool::Talaria(_) => self
                .talaria()
                .args(["restore", "latest", "--target"])
                .arg(target)
                .arg("--path")
                .arg(self.source),
            Tool::Rsync => self.peer(tool).arg("-a").arg(repository.join("")).arg(target),
            Tool::Restic => self
                .peer(tool)
                .arg("-r")
                .arg(repository)
                .args(["restore", "latest", "--target"])
                .arg(target),
            // It extracts into the working directory.
            Tool::Borg => self
                .run(Path::new("env"))
                .arg("-C")
                .arg(target)
                .args(["borg", "extract"])
                .arg(self.borg_archive("b")),
            Tool::Duplicity => self.duplicity().arg("--force").arg(self.url()).arg(target),
        }
    }

    fn duplicity(&self) -> ProgramRun {
        let peer = self.peer(Tool::Duplicity).args(["--no-print-statistics", "--archive-dir"]);
        peer.arg(self.work.join("archive")).arg("--tempdir").arg(self.work)
    }

    /// The repository, as duplicity names it.
    fn url(&self) -> OsString {
        let mut url = OsString::from("file://");
        url.push(self.repository());
        url
    }
}
