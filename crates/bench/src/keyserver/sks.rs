//! An SKS in a folder of its own.

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::dump::file_bytes;
use super::server::{Server, free_port};
use crate::error::BenchError;
use crate::measure::{Cost, ProgramRun};

/// Whether SKS can be run.
pub(crate) fn is_there(program: &Path) -> bool {
    Command::new(program).arg("version").output().is_ok()
}

/// Tries of a program that crashes now and then when all is done, in Berkeley DB.
const TRIES: usize = 5;

/// Runs it again if it fails.
fn repeated(run: impl Fn() -> Result<Cost, BenchError>) -> Result<Cost, BenchError> {
    for _ in 1..TRIES {
        match run() {
            Err(BenchError::Failed { .. }) => {}
            result => return result,
        }
    }
    run()
}

pub(crate) struct Sks {
    program: PathBuf,
    base: PathBuf,
    address: String,
    hkp_port: u16,
    pub(super) recon_port: u16,
}

impl Sks {
    /// Makes the folders and the configuration.
    pub(crate) fn new(program: &Path, base: &Path, address: &str) -> Result<Self, BenchError> {
        for part in [
            "etc/sks",
            "var/lib/sks/dump",
            "var/lib/sks/www",
            "var/log/sks",
            "var/run/sks",
            "var/spool/sks/messages",
            "var/spool/sks/failed_messages",
        ] {
            let path = base.join(part);
            fs::create_dir_all(&path).map_err(BenchError::io("make", &path))?;
        }
        let (hkp_port, recon_port) = (free_port(address)?, free_port(address)?);
        // It gossips about as often as it may: every six seconds. A page size here would win over
        // the one on the command line.
        let text = format!(
            "hostname: localhost\nnodename: bench\nhkp_address: {address}\nhkp_port: {hkp_port}\n\
             recon_address: {address}\nrecon_port: {recon_port}\nptree_pagesize: 16\n\
             disable_mailsync:\ngossip_interval: 0.1\nmembership_reload_interval: 0.01\n\
             debuglevel: 4\n"
        );
        let path = base.join("etc/sks/sksconf");
        fs::write(&path, text).map_err(BenchError::io("write", &path))?;
        let sks = Self {
            program: program.to_owned(),
            base: base.to_owned(),
            address: address.to_owned(),
            hkp_port,
            recon_port,
        };
        sks.befriend(&[])?;
        Ok(sks)
    }

    /// Names its peers.
    pub(super) fn befriend(&self, peers: &[&Self]) -> Result<(), BenchError> {
        let line = |peer: &&Self| format!("{} {}\n", peer.address, peer.recon_port);
        let text: String = peers.iter().map(line).collect();
        let path = self.base.join("etc/sks/membership");
        fs::write(&path, text).map_err(BenchError::io("write", &path))
    }

    fn run(&self, command: &str) -> ProgramRun {
        ProgramRun::new(&self.program).arg(command).arg("-basedir").arg(&self.base)
    }

    /// A build with pages of so many times 512 bytes.
    pub(super) fn build(&self, files: &[&Path], page_size: u32) -> ProgramRun {
        let page_size = page_size.to_string();
        let run = ProgramRun::new(&self.program).arg("build").args(files);
        run.args(["-n", "10", "-cache", "100", "-pagesize", &page_size])
            .arg("-basedir")
            .arg(&self.base)
    }

    /// Measures a build into an empty database.
    pub(crate) fn measure_build(
        &self,
        files: &[&Path],
        page_size: u32,
    ) -> Result<Cost, BenchError> {
        repeated(|| {
            self.clear()?;
            self.build(files, page_size).measure()
        })
    }

    /// Measures the build of the prefix tree, which gossip needs.
    pub(super) fn measure_tree(&self) -> Result<Cost, BenchError> {
        repeated(|| {
            self.remove(&["PTree"])?;
            self.run("pbuild").args(["-cache", "20", "-ptree_cache", "70"]).measure()
        })
    }

    /// Builds all that a server needs.
    pub(super) fn prepare(&self, files: &[&Path]) -> Result<(), BenchError> {
        self.measure_build(files, 16)?;
        repeated(|| self.run("cleandb").measure())?;
        self.measure_tree().map(drop)
    }

    /// Removes the databases.
    pub(super) fn clear(&self) -> Result<(), BenchError> {
        self.remove(&["KDB", "DB", "PTree"])
    }

    fn remove(&self, names: &[&str]) -> Result<(), BenchError> {
        for name in names {
            let path = self.data().join(name);
            if path.exists() {
                fs::remove_dir_all(&path).map_err(BenchError::io("remove", &path))?;
            }
        }
        Ok(())
    }

    fn data(&self) -> PathBuf {
        self.base.join("var/lib/sks")
    }

    /// Bytes of the database of certificates and of that of the tree.
    pub(super) fn bytes(&self) -> Result<(f64, f64), BenchError> {
        let sum = |name: &str| -> Result<f64, BenchError> {
            let path = self.data().join(name);
            let Ok(files) = fs::read_dir(&path) else { return Ok(0.0) };
            // Berkeley DB's shared memory is no data.
            let files = files.filter_map(Result::ok).map(|file| file.path());
            let data = files.filter(|path| {
                !path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("__db"))
            });
            data.map(|path| file_bytes(&path)).sum()
        };
        Ok((sum("DB")? + sum("KDB")?, sum("PTree")?))
    }

    /// Starts the process that answers, and the one that gossips if that is wanted.
    pub(super) fn start(&self, gossips: bool) -> Result<Server, BenchError> {
        let log = self.base.join("var/log/sks/out");
        let command = |name: &str| {
            let mut command = Command::new(&self.program);
            command.arg(name).arg("-basedir").arg(&self.base);
            command
        };
        let address = format!("{}:{}", self.address, self.hkp_port);
        let address: SocketAddr = address.parse().expect("an address and a port");
        let mut server = Server::start("SKS", command("db"), address, &log)?;
        server.wait()?;
        if gossips {
            // It ends at once if the other one's socket is not there yet.
            server.also(command("recon"))?;
        }
        Ok(server)
    }
}
