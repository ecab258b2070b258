//! Export: certificates out of the stores, in the forms that other programs read.

use std::fs::{self, File};
use std::io::{self, Write};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use talaria_cert::{Cert, Fingerprint, Verdict, Verification, enarmor};
use talaria_gnupg::{self as gnupg, LeftOut};
use talaria_store::{Cursor, Order, Query, Store};

use crate::{Error, Monitor, Progress, Stores};

/// Which signatures go along.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Signatures {
    /// All of them, also those that their makers marked as local.
    All,
    /// All that may leave a ring.
    #[default]
    Exportable,
    /// The newest self-signature of each component and revocations.
    Minimal,
}

/// What is written.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Format {
    /// A keyring, certificate after certificate.
    Binary,
    /// The same as one armored block.
    Armor,
    /// Into a GnuPG home directory.
    GnupgHome(PathBuf),
    /// Into a shared certificate directory (pgp.cert.d).
    CertDirectory(PathBuf),
    /// A folder of SKS dump files, with so many certificates in each.
    SksDump {
        /// The folder, made if it is not there.
        folder: PathBuf,
        /// Certificates per file.
        per_file: usize,
    },
}

/// What to export.
#[derive(Clone, Debug)]
pub struct ExportOptions {
    /// Which certificates; all if there is none.
    pub queries: Vec<Query>,
    /// Only those that were added or changed after this change number.
    pub changed_since: Option<i64>,
    /// Which signatures.
    pub signatures: Signatures,
    /// In which form.
    pub format: Format,
    /// The present, in seconds since 1970.
    pub now: u32,
}

/// What was exported.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Exported {
    /// Certificates written.
    pub certs: u64,
    /// Bytes of their packets.
    pub bytes: u64,
    /// Certificates that the format has no room for: the fingerprint and why.
    pub left_out: Vec<String>,
    /// Certificates that were deleted since `changed_since`.
    pub deleted: Vec<Fingerprint>,
}

/// Exports from `stores`; formats that are one stream go to `out`.
///
/// # Errors
///
/// [`Error::NotFound`] if a query names nothing; what reading and writing can meet.
pub fn export(
    stores: &Stores,
    options: &ExportOptions,
    out: &mut dyn Write,
    monitor: &mut Monitor<'_>,
) -> Result<Exported, Error> {
    let mut exported = Exported::default();
    let mut writer = Writer::new(options, out)?;
    let mut one = |cert: Cert, verdicts: &[Verdict]| -> Result<(), Error> {
        monitor.check()?;
        let cert = match options.signatures {
            Signatures::All => cert,
            Signatures::Exportable => cert.exportable(),
            Signatures::Minimal => cert.minimal(verdicts),
        };
        exported.certs += 1;
        exported.bytes += cert.as_bytes().len() as u64;
        (monitor.report)(Progress {
            certs: exported.certs,
            bytes: exported.bytes,
            ..Progress::default()
        });
        writer.write(cert)
    };
    if let Some(since) = options.changed_since {
        for opened in stores.iter() {
            let mut failed = None;
            opened.store.walk(&mut Cursor::Change(since), |row| {
                let result = whole(&opened.store, row.id, &mut one);
                failed = result.err();
                if failed.is_some() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
            })?;
            failed.map_or(Ok(()), Err)?;
            let gone = opened.store.tombstones(since)?;
            exported.deleted.extend(gone.iter().map(|tombstone| tombstone.fingerprint));
        }
    } else {
        let many = stores.iter().count() > 1;
        stores.visit(&options.queries, Order::Insertion, options.now, |opened, row| {
            match many.then(|| stores.cert(row.summary.fingerprint())).transpose()?.flatten() {
                // Copies in several stores are joined; the verdicts of one do not fit.
                Some(cert) => {
                    let verdicts = talaria_cert::verdicts(&[&cert], Verification::Full);
                    one(cert, &verdicts[0])?;
                }
                None => whole(&opened.store, row.id, &mut one)?,
            }
            Ok(ControlFlow::Continue(()))
        })?;
    }
    exported.left_out = writer.finish(stores, options.now)?;
    Ok(exported)
}

fn whole(
    store: &Store,
    id: i64,
    one: &mut impl FnMut(Cert, &[Verdict]) -> Result<(), Error>,
) -> Result<(), Error> {
    match store.stored(id)? {
        Some(stored) => one(stored.cert, &stored.verdicts),
        None => Ok(()),
    }
}

/// Where exported certificates go.
enum Writer<'a> {
    Binary(&'a mut dyn Write),
    /// Armor is written in one piece.
    Armor(&'a mut dyn Write, Vec<u8>),
    Home(PathBuf, Vec<Cert>),
    CertDirectory(PathBuf, Vec<Cert>, Vec<LeftOut>),
    Dump {
        folder: PathBuf,
        per_file: usize,
        files: usize,
        held: Vec<u8>,
        count: usize,
    },
}

/// Certificates that are put into a certificate directory under one lock.
const CERTD_BATCH: usize = 1000;

impl<'a> Writer<'a> {
    fn new(options: &ExportOptions, out: &'a mut dyn Write) -> Result<Self, Error> {
        Ok(match &options.format {
            Format::Binary => Self::Binary(out),
            Format::Armor => Self::Armor(out, Vec::new()),
            Format::GnupgHome(path) => Self::Home(path.clone(), Vec::new()),
            Format::CertDirectory(path) => {
                Self::CertDirectory(path.clone(), Vec::new(), Vec::new())
            }
            Format::SksDump { folder, per_file } => {
                fs::create_dir_all(folder).map_err(|e| io_error("make", folder, e))?;
                Self::Dump {
                    folder: folder.clone(),
                    per_file: (*per_file).max(1),
                    files: 0,
                    held: Vec::new(),
                    count: 0,
                }
            }
        })
    }

    fn write(&mut self, cert: Cert) -> Result<(), Error> {
        match self {
            Self::Binary(out) => out.write_all(cert.as_bytes()).map_err(|source| Error::Io {
                action: "write",
                name: "the keyring".into(),
                source,
            }),
            Self::Armor(_, held) => {
                held.extend_from_slice(cert.as_bytes());
                Ok(())
            }
            Self::Home(_, certs) => {
                certs.push(cert);
                Ok(())
            }
            Self::CertDirectory(path, certs, left_out) => {
                certs.push(cert);
                if certs.len() == CERTD_BATCH {
                    left_out.extend(gnupg::write_certd(path, &std::mem::take(certs))?);
                }
                Ok(())
            }
            Self::Dump { folder, per_file, files, held, count } => {
                held.extend_from_slice(cert.as_bytes());
                *count += 1;
                if *count == *per_file {
                    write_dump(folder, *files, held)?;
                    (*files, *count) = (*files + 1, 0);
                    held.clear();
                }
                Ok(())
            }
        }
    }

    /// Writes what is held, and returns what found no room.
    fn finish(self, stores: &Stores, now: u32) -> Result<Vec<String>, Error> {
        let stream = |source| Error::Io { action: "write", name: "the keyring".into(), source };
        match self {
            Self::Binary(out) => out.flush().map_err(stream)?,
            Self::Armor(out, held) => {
                if !held.is_empty() {
                    out.write_all(enarmor(&held).as_bytes()).map_err(stream)?;
                }
                out.flush().map_err(stream)?;
            }
            Self::Home(path, certs) => {
                let mut ownertrusts = Vec::new();
                for opened in stores.iter() {
                    ownertrusts.extend(opened.store.ownertrusts()?);
                }
                let left_out = gnupg::Home::write(&path, certs, &ownertrusts, now)?;
                return Ok(left_out.iter().map(ToString::to_string).collect());
            }
            Self::CertDirectory(path, certs, mut left_out) => {
                left_out.extend(gnupg::write_certd(&path, &certs)?);
                return Ok(left_out.iter().map(ToString::to_string).collect());
            }
            Self::Dump { folder, files, held, count, .. } => {
                if count > 0 {
                    write_dump(&folder, files, &held)?;
                }
            }
        }
        Ok(Vec::new())
    }
}

/// Writes one dump file: under another name first, so that a file that is there is complete.
fn write_dump(folder: &Path, number: usize, bytes: &[u8]) -> Result<(), Error> {
    let path = folder.join(format!("sks-dump-{number:04}.pgp"));
    let temporary = path.with_extension("pgp.tmp");
    let write = || -> io::Result<()> {
        let mut file = File::create(&temporary)?;
        file.write_all(bytes)?;
        file.sync_all()?;
        fs::rename(&temporary, &path)
    };
    write().map_err(|source| io_error("write", &path, source))
}

fn io_error(action: &'static str, path: &Path, source: io::Error) -> Error {
    Error::Io { action, name: path.display().to_string(), source }
}
