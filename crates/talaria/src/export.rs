//! Export: certificates out of the stores, in the forms that other programs read.

use std::io::Write;
use std::ops::ControlFlow;
use std::path::PathBuf;

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
    let mut writer = ExportWriter::new(options, out);
    let chosen = Chosen {
        queries: &options.queries,
        changed_since: options.changed_since,
        signatures: options.signatures,
        now: options.now,
    };
    each(stores, &chosen, &mut exported, monitor, &mut |cert| writer.write(cert))?;
    exported.left_out = writer.finish(stores, options.now)?;
    Ok(exported)
}

/// Which certificates are written, and how much of them.
pub(crate) struct Chosen<'a> {
    /// All if there is none.
    pub(crate) queries: &'a [Query],
    pub(crate) changed_since: Option<i64>,
    pub(crate) signatures: Signatures,
    pub(crate) now: u32,
}

/// Hands what was chosen to `write`, and counts it.
pub(crate) fn each(
    stores: &Stores,
    chosen: &Chosen<'_>,
    exported: &mut Exported,
    monitor: &mut Monitor<'_>,
    write: &mut dyn FnMut(Cert) -> Result<(), Error>,
) -> Result<(), Error> {
    let mut one = |cert: Cert, verdicts: &[Verdict]| -> Result<(), Error> {
        monitor.check()?;
        let cert = match chosen.signatures {
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
        write(cert)
    };
    let Some(since) = chosen.changed_since else {
        let many = stores.iter().count() > 1;
        return stores.visit(chosen.queries, Order::Insertion, chosen.now, |opened, row| {
            match many.then(|| stores.cert(row.summary.fingerprint())).transpose()?.flatten() {
                // Copies in several stores are joined; the verdicts of one do not fit.
                Some(cert) => {
                    let verdicts = talaria_cert::verdicts(&[&cert], Verification::Full);
                    one(cert, &verdicts[0])?;
                }
                None => whole(&opened.store, row.id, &mut one)?,
            }
            Ok(ControlFlow::Continue(()))
        });
    };
    for opened in stores.iter() {
        let mut failed = None;
        opened.store.walk(&mut Cursor::Change(since), |row| {
            let result = whole(&opened.store, row.id, &mut one);
            failed = result.err();
            if failed.is_some() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        })?;
        failed.map_or(Ok(()), Err)?;
    }
    for opened in stores.iter() {
        let gone = opened.store.tombstones(since)?;
        exported.deleted.extend(gone.iter().map(|tombstone| tombstone.fingerprint));
    }
    Ok(())
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
enum ExportWriter<'a> {
    Binary(&'a mut dyn Write),
    /// Armor is written in one piece.
    Armor(&'a mut dyn Write, Vec<u8>),
    Home(PathBuf, Vec<Cert>),
    CertDirectory(PathBuf, Vec<Cert>, Vec<LeftOut>),
}

/// Certificates that are put into a certificate directory under one lock.
const CERTD_BATCH: usize = 1000;

impl<'a> ExportWriter<'a> {
    fn new(options: &ExportOptions, out: &'a mut dyn Write) -> Self {
        match &options.format {
            Format::Binary => Self::Binary(out),
            Format::Armor => Self::Armor(out, Vec::new()),
            Format::GnupgHome(path) => Self::Home(path.clone(), Vec::new()),
            Format::CertDirectory(path) => {
                Self::CertDirectory(path.clone(), Vec::new(), Vec::new())
            }
        }
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
        }
        Ok(Vec::new())
    }
}
