//! Import of any number of inputs into a store.

use std::path::Path;

use rayon::prelude::*;
use serde::Serialize;
use talaria_cert::{Cert, Fingerprint, Reason, Signature, Tag, Verdict, Verification};
use talaria_store::{IngestOutcome, Query, Store};

use crate::compressed::WindowTooLarge;
use crate::error::{Error, describe};
use crate::progress::{Monitor, Progress};
use crate::source::{self, Input, InputKind, Piece, Place};

/// The number of bytes of certificates in one transaction: 64 MiB, enough for the keyring of a
/// distribution.
const TRANSACTION_BYTES: usize = 64 << 20;

/// The maximum number of rejected certificates listed in a report; further ones are only counted.
const REJECTED_MAX: usize = 1000;

/// The maximum number of certificates with the key ID in a revocation on which the revocation is
/// tried.
const REVOKED_MAX: usize = 16;

/// Options for an import. Programs set the fields of [`Self::new`].
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct ImportOptions {
    /// Whether self-signatures are verified.
    pub verification: Verification,
    /// The current time, in seconds since 1970.
    pub now: u32,
}

impl ImportOptions {
    /// All self-signatures are verified. `now` is the current time, in seconds since 1970.
    #[must_use]
    pub fn new(now: u32) -> Self {
        Self { verification: Verification::Full, now }
    }
}

/// The report on one input.
#[derive(Clone, Debug)]
pub struct FileReport {
    /// The input.
    pub input: Input,
    /// The kind of the input; `None` if it could not be read at all.
    pub kind: Option<InputKind>,
    /// The number of certificates read.
    pub read: u64,
    /// The number of secret keys among them, of which only the certificates were imported.
    pub secret_keys: u64,
    /// The number of secret keys in a GnuPG home directory that were not imported: gpg-agent keeps
    /// them.
    pub secret_keys_left: u64,
    /// The number of certificates that are new in the store.
    pub new: u64,
    /// The number of certificates that got new parts.
    pub updated: u64,
    /// The number of certificates that the store already had in full.
    pub unchanged: u64,
    /// The number of owner trust values recorded.
    pub ownertrusts: u64,
    /// The first thousand rejected certificates.
    pub rejected: Vec<Rejected>,
    /// The number of all rejected certificates.
    pub rejected_count: u64,
    /// The reason why the rest of the input was not read.
    pub error: Option<String>,
    /// Whether `error` is an unreadable file or an unreachable server, not a fault in the content.
    pub is_unreadable: bool,
    /// Whether `error` is that the server has no such certificate.
    pub is_absent: bool,
    /// The input was not read because its compression needs more memory than talaria allows.
    pub window: Option<WindowTooLarge>,
}

/// A rejected certificate.
#[derive(Clone, Debug, Serialize)]
pub struct Rejected {
    /// The position of the certificate in the input.
    pub place: String,
    /// The fingerprint, if it could be computed.
    pub fingerprint: Option<String>,
    /// The reason for the rejection.
    pub reason: String,
}

impl FileReport {
    fn new(input: Input) -> Self {
        Self {
            input,
            kind: None,
            read: 0,
            secret_keys: 0,
            secret_keys_left: 0,
            new: 0,
            updated: 0,
            unchanged: 0,
            ownertrusts: 0,
            rejected: Vec::new(),
            rejected_count: 0,
            error: None,
            is_unreadable: false,
            is_absent: false,
            window: None,
        }
    }

    fn reject(&mut self, place: &Place, fingerprint: Option<Fingerprint>, reason: &dyn ToString) {
        self.rejected_count += 1;
        if self.rejected.len() < REJECTED_MAX {
            self.rejected.push(Rejected {
                place: place.to_string(),
                fingerprint: fingerprint.map(|fingerprint| fingerprint.to_string()),
                reason: reason.to_string(),
            });
        }
    }
}

/// Imports `inputs` into `store`, with one report each. Small inputs share a transaction.
///
/// An input that cannot be read is named in its report and does not stop the others.
///
/// # Errors
///
/// An error of writing the store, or [`Error::Interrupted`]. Earlier transactions stay in the
/// store.
pub fn import(
    store: &mut Store,
    inputs: &[Input],
    options: ImportOptions,
    monitor: &mut Monitor<'_>,
) -> Result<Vec<FileReport>, Error> {
    let total = inputs.iter().map(source::size).sum();
    let mut work = Import {
        store,
        options,
        reports: Vec::new(),
        pending: Vec::new(),
        held: 0,
        progress: Progress { bytes_total: total, ..Progress::default() },
    };
    let mut before = 0;
    for input in inputs {
        work.reports.push(FileReport::new(input.clone()));
        if !work.store.is_in_memory() && is_same_file(input, work.store.path()) {
            let report = work.reports.last_mut().expect("pushed above");
            report.error = Some("is the store itself".to_owned());
            continue;
        }
        let result = source::read(input, &mut |pieces, bytes| {
            monitor.check()?;
            work.take(pieces)?;
            work.progress.bytes = work.progress.bytes.max(before + bytes);
            (monitor.report)(work.progress);
            Ok(())
        });
        before += source::size(input);
        let report = work.reports.last_mut().expect("pushed above");
        match result {
            Ok(InputKind::Empty) => {
                report.kind = Some(InputKind::Empty);
                report.error = Some("the input is empty".to_owned());
            }
            Ok(kind) => {
                report.kind = Some(kind);
                if let (InputKind::Home, Input::Path(path)) = (kind, input) {
                    report.secret_keys_left = talaria_gnupg::secret_keys(path);
                }
            }
            Err(error @ (Error::Store(_) | Error::Interrupted)) => return Err(error),
            Err(error) => {
                report.is_unreadable = matches!(error, Error::Io { .. } | Error::Http { .. });
                report.is_absent = matches!(error, Error::Absent { .. });
                if let Error::Window { source, .. } = &error {
                    report.window = Some(*source);
                }
                report.error = Some(describe(&error));
            }
        }
    }
    work.flush()?;
    (monitor.report)(work.progress);
    Ok(work.reports)
}

/// Whether an input is the store that is the target.
fn is_same_file(input: &Input, store: &Path) -> bool {
    let Input::Path(path) = input else { return false };
    matches!((path.canonicalize(), store.canonicalize()), (Ok(a), Ok(b)) if a == b)
}

struct Import<'a> {
    store: &'a mut Store,
    options: ImportOptions,
    reports: Vec<FileReport>,
    /// Parsed certificates to be written, with the index of their report and their position.
    pending: Vec<(usize, Place, Cert)>,
    held: usize,
    progress: Progress,
}

impl Import<'_> {
    fn take(&mut self, pieces: Vec<Piece>) -> Result<(), Error> {
        let at = self.reports.len() - 1;
        let mut raw = Vec::with_capacity(pieces.len());
        let mut ownertrusts = Vec::new();
        let mut revocations = Vec::new();
        for piece in pieces {
            match piece {
                Piece::Cert(place, bytes) => {
                    let first = talaria_cert::first_packet(&bytes).map(|packet| packet.tag);
                    self.reports[at].secret_keys += u64::from(first == Some(Tag::SECRET_KEY));
                    raw.push((place, bytes));
                }
                Piece::Rejected(place, reason) => {
                    self.reports[at].reject(&place, None, &reason);
                }
                Piece::Revocation(place, body) => revocations.push((place, body)),
                Piece::Ownertrust(fingerprint, value) => ownertrusts.push((fingerprint, value)),
            }
        }
        if !ownertrusts.is_empty() {
            self.store.web_mut().set_ownertrust(&ownertrusts, self.options.now.into())?;
            self.reports[at].ownertrusts += ownertrusts.len() as u64;
        }
        let parsed: Vec<(Place, Result<Cert, Reason>)> =
            raw.into_par_iter().map(|(place, bytes)| (place, Cert::parse(&bytes))).collect();
        for (place, cert) in parsed {
            self.reports[at].read += 1;
            self.progress.certs += 1;
            match cert {
                Ok(cert) => {
                    self.held += cert.as_bytes().len();
                    self.pending.push((at, place, cert));
                }
                Err(reason) => self.reports[at].reject(&place, None, &reason),
            }
        }
        if self.held >= TRANSACTION_BYTES || !revocations.is_empty() {
            self.flush()?;
        }
        revocations.into_iter().try_for_each(|(place, body)| self.revoke(&place, &body))
    }

    /// Merges a stand-alone revocation into the certificate that issued it, or into the one that
    /// names the issuer as its designated revoker.
    fn revoke(&mut self, place: &Place, body: &[u8]) -> Result<(), Error> {
        let ImportOptions { now, .. } = self.options;
        let at = self.reports.len() - 1;
        self.reports[at].read += 1;
        let issuer = Signature::parse(body).and_then(|signature| signature.issuer);
        let rows = match issuer {
            Some(id) => self.store.select(&Query::KeyId(id), REVOKED_MAX)?.rows,
            None => Vec::new(),
        };
        for row in rows.iter().filter(|row| Some(row.summary.fingerprint().key_id()) == issuer) {
            let Some(stored) = self.store.stored(row.id)? else { continue };
            let revoked = stored.cert.with_direct_signature(body);
            // Only a revocation by the owner of the key is accepted here.
            let good =
                |verdicts: &[Verdict]| verdicts.iter().filter(|v| **v == Verdict::Good).count();
            let verdicts = talaria_cert::verdicts(&[&stored.cert, &revoked], Verification::Full);
            if revoked != stored.cert && good(&verdicts[1]) == good(&verdicts[0]) {
                continue;
            }
            let outcome = self.store.ingest(vec![revoked], Verification::Full, now.into())?;
            match outcome[0] {
                IngestOutcome::Unchanged => self.reports[at].unchanged += 1,
                _ => self.reports[at].updated += 1,
            }
            return Ok(());
        }
        for row in &rows {
            let revoker = row.summary.fingerprint();
            if Some(revoker.key_id()) == issuer && self.revoke_by(revoker, body)? {
                return Ok(());
            }
        }
        let name = issuer.map_or_else(|| "an unknown key".to_owned(), |id| id.to_string());
        let reason = format!("a revocation by {name}, whose certificate is not in the store");
        self.reports[at].reject(place, None, &reason);
        Ok(())
    }

    /// Merges a revocation by a designated revoker into a certificate that names the revoker, if
    /// the signature is good.
    fn revoke_by(&mut self, revoker: Fingerprint, body: &[u8]) -> Result<bool, Error> {
        let ImportOptions { now, .. } = self.options;
        let at = self.reports.len() - 1;
        let Some(theirs) = self.store.get(revoker)? else { return Ok(false) };
        let Some(key) = theirs.cert.packets().next() else { return Ok(false) };
        for id in self.store.candidates().naming(revoker)? {
            let Some(stored) = self.store.stored(id)? else { continue };
            let revoked = stored.cert.with_direct_signature(body);
            let made = |cert: &Cert| cert.revocations_by(revoker, key.body).len();
            if revoked != stored.cert && made(&revoked) == made(&stored.cert) {
                continue;
            }
            let outcome = self.store.ingest(vec![revoked], Verification::Full, now.into())?;
            match outcome[0] {
                IngestOutcome::Unchanged => self.reports[at].unchanged += 1,
                _ => self.reports[at].updated += 1,
            }
            return Ok(true);
        }
        Ok(false)
    }

    fn flush(&mut self) -> Result<(), Error> {
        self.held = 0;
        let pending = std::mem::take(&mut self.pending);
        let mut places = Vec::with_capacity(pending.len());
        let mut certs = Vec::with_capacity(pending.len());
        for (at, place, cert) in pending {
            places.push((at, place, cert.fingerprint()));
            certs.push(cert);
        }
        if certs.is_empty() {
            return Ok(());
        }
        let ImportOptions { verification, now } = self.options;
        let outcomes = self.store.ingest(certs, verification, now.into())?;
        for ((at, place, fingerprint), outcome) in places.into_iter().zip(outcomes) {
            let report = &mut self.reports[at];
            match outcome {
                IngestOutcome::New => report.new += 1,
                IngestOutcome::Updated => report.updated += 1,
                IngestOutcome::Unchanged => report.unchanged += 1,
                IngestOutcome::Refused(refusal) => {
                    report.reject(&place, Some(fingerprint), &refusal);
                }
            }
        }
        Ok(())
    }
}
