//! Export: writing certificates from the stores in formats that other programs read.

use std::io::Write;
use std::ops::ControlFlow;
use std::path::PathBuf;

use talaria_cert::{Cert, Fingerprint, Verification, enarmor};
use talaria_gnupg::{self as gnupg, LeftOut};
use talaria_store::{ChangeNumber, Cursor, Order, Query, StoreError, Stored};

use crate::error::Error;
use crate::progress::{Monitor, Progress};
use crate::stores::Stores;

/// The signatures to export.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Signatures {
    /// All signatures, including local ones.
    All,
    /// All exportable signatures.
    #[default]
    Exportable,
    /// Revocations, and the newest self-signature of each component.
    Minimal,
}

/// The target format.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Format {
    /// A binary keyring: certificate after certificate.
    Binary,
    /// A keyring as one armored block.
    Armor,
    /// A GnuPG home directory.
    GnupgHome(PathBuf),
    /// A shared certificate directory (pgp.cert.d).
    CertDirectory(PathBuf),
}

/// The end of an export or a dump that meets a damaged certificate.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum OnDamage {
    /// It stops with an error.
    #[default]
    Stop,
    /// It goes on without the certificate, and reports it.
    Skip,
}

/// A damaged certificate that an export or a dump has left out.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Skipped {
    /// The store.
    pub store: PathBuf,
    /// The fingerprint of the certificate, if that can be read.
    pub fingerprint: Option<Fingerprint>,
    /// The error, for people.
    pub why: String,
}

/// Options for an export. Programs set the fields of [`Self::new`].
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ExportOptions {
    /// The certificates to export; all if there is no query.
    pub queries: Vec<Query>,
    /// If set, only certificates that were added or changed after this change.
    pub changed_since: Option<ChangeNumber>,
    /// The signatures to export.
    pub signatures: Signatures,
    /// The end of the export if a certificate is damaged.
    pub on_damage: OnDamage,
    /// The target format.
    pub format: Format,
    /// The current time, in seconds since 1970.
    pub now: u32,
}

impl ExportOptions {
    /// All certificates with all exportable signatures. `now` is the current time, in seconds
    /// since 1970.
    #[must_use]
    pub fn new(format: Format, now: u32) -> Self {
        Self {
            queries: Vec::new(),
            changed_since: None,
            signatures: Signatures::default(),
            on_damage: OnDamage::default(),
            format,
            now,
        }
    }
}

/// The report on an export.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Exported {
    /// The number of certificates written.
    pub certs: u64,
    /// The number of bytes of their packets.
    pub bytes: u64,
    /// Certificates that the format cannot hold: the fingerprint and the reason.
    pub left_out: Vec<String>,
    /// Damaged certificates, with [`OnDamage::Skip`]. What was exported lacks them.
    pub skipped: Vec<Skipped>,
    /// Certificates deleted since `changed_since`.
    pub deleted: Vec<Fingerprint>,
}

/// Exports certificates from `stores`; formats that are one stream are written to `out`.
///
/// # Errors
///
/// [`Error::NotFound`] if a query matches nothing; errors of reading and writing.
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
        on_damage: options.on_damage,
    };
    each(stores, &chosen, &mut exported, monitor, &mut |cert| writer.write(cert))?;
    exported.left_out = writer.finish(stores, options.now)?;
    Ok(exported)
}

/// The certificates to write, and the parts of them.
pub(crate) struct Chosen<'a> {
    /// The queries; all certificates if there is none.
    pub(crate) queries: &'a [Query],
    pub(crate) changed_since: Option<ChangeNumber>,
    pub(crate) signatures: Signatures,
    pub(crate) on_damage: OnDamage,
}

/// Passes each chosen certificate to `write`, and counts them.
pub(crate) fn each(
    stores: &Stores,
    chosen: &Chosen<'_>,
    exported: &mut Exported,
    monitor: &mut Monitor<'_>,
    write: &mut dyn FnMut(Cert) -> Result<(), Error>,
) -> Result<(), Error> {
    let Exported { certs, bytes, skipped, deleted, .. } = exported;
    let mut one = |read: Result<Option<Stored>, StoreError>| -> Result<(), Error> {
        monitor.check()?;
        let Stored { cert, verdicts } = match (read, chosen.on_damage) {
            (Ok(Some(stored)), _) => stored,
            (Ok(None), _) => return Ok(()),
            (Err(error @ StoreError::DamagedCert { .. }), OnDamage::Skip) => {
                let why = error.to_string();
                if let StoreError::DamagedCert { path: store, fingerprint, .. } = error {
                    skipped.push(Skipped { store, fingerprint, why });
                }
                return Ok(());
            }
            (Err(error), _) => return Err(error.into()),
        };
        let cert = match chosen.signatures {
            Signatures::All => cert,
            Signatures::Exportable => cert.exportable(),
            Signatures::Minimal => cert.minimal(&verdicts),
        };
        *certs += 1;
        *bytes += cert.as_bytes().len() as u64;
        (monitor.report)(Progress { certs: *certs, bytes: *bytes, ..Progress::default() });
        write(cert)
    };
    let Some(since) = chosen.changed_since else {
        let many = stores.iter().count() > 1;
        return stores.visit_as_stored(chosen.queries, Order::Insertion, |opened, row| {
            if many {
                let (cert, failed) = stores.joined(row.summary.fingerprint());
                failed.into_iter().try_for_each(|error| one(Err(error)))?;
                // The cached verdicts are those of one store and do not fit a certificate merged
                // from several.
                one(Ok(cert.map(|cert| {
                    let verdicts = talaria_cert::verdicts(&[&cert], Verification::Full).remove(0);
                    Stored { cert, verdicts }
                })))?;
            } else {
                one(opened.store.stored(row.id))?;
            }
            Ok(ControlFlow::Continue(()))
        });
    };
    for opened in stores.iter() {
        let mut failed = None;
        opened.store.walk(&mut Cursor::Change(since), |row| {
            failed = one(opened.store.stored(row.id)).err();
            if failed.is_some() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        })?;
        failed.map_or(Ok(()), Err)?;
    }
    for opened in stores.iter() {
        let gone = opened.store.log().tombstones(since)?;
        deleted.extend(gone.iter().map(|tombstone| tombstone.fingerprint));
    }
    Ok(())
}

/// The output of an export.
enum ExportWriter<'a> {
    Binary(&'a mut dyn Write),
    /// Armor is written all at once at the end.
    Armor(&'a mut dyn Write, Vec<u8>),
    Home(PathBuf, Vec<Cert>),
    CertDirectory(PathBuf, Vec<Cert>, Vec<LeftOut>),
}

/// The number of certificates that are written to a certificate directory under one lock.
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

    /// Writes the buffered certificates, and returns those that the format could not hold.
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
                    ownertrusts.extend(opened.store.web().ownertrusts()?);
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
