//! Repairing damaged certificates of a store with copies from files, other stores or a keyserver.

use std::collections::HashMap;

use rayon::prelude::*;
use serde::Serialize;
use talaria_cert::{Cert, Fingerprint};
use talaria_store::{DamagedCert, Repair, Salvage, Store};

use crate::error::Error;
use crate::progress::{Monitor, Progress};
use crate::source::{self, Input, Piece};

/// Maximum number of copies of one certificate that are kept for its repair. An equal copy always
/// counts.
const COPIES_MAX: usize = 8;

/// Options of the repair of a store. Programs set the fields of [`Self::new`].
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct RepairOptions {
    /// Places of copies: files, folders, other stores, URLs.
    pub inputs: Vec<Input>,
    /// A keyserver that is asked for each damaged certificate.
    pub keyserver: Option<String>,
    /// The permitted repair without a copy.
    pub salvage: Salvage,
    /// The current time, in seconds since 1970.
    pub now: u32,
}

impl RepairOptions {
    /// No places of copies, so that nothing is repaired. `now` is the current time, in seconds
    /// since 1970.
    #[must_use]
    pub fn new(now: u32) -> Self {
        Self { inputs: Vec::new(), keyserver: None, salvage: Salvage::WithCopy, now }
    }
}

/// The repair of a damaged certificate.
#[derive(Clone, Debug, Serialize)]
pub struct Repaired {
    /// The number of the certificate in the store.
    pub number: i64,
    /// The fingerprint, if it can be read.
    pub fingerprint: Option<String>,
    /// The result of the repair.
    #[serde(serialize_with = "name")]
    pub result: Repair,
    /// Why the keyserver gave no copy.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the signature that serde asks for")]
fn name<S: serde::Serializer>(repair: &Repair, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(match repair {
        Repair::Restored => "restored",
        Repair::Replaced => "replaced",
        Repair::Salvaged => "salvaged",
        Repair::Removed => "removed",
        Repair::NoCopy => "no_copy",
    })
}

/// Finds the damaged certificates of `store` and repairs them, each in one transaction.
///
/// # Errors
///
/// An error of the store or of an input, or [`Error::Interrupted`]. What was repaired before stays
/// repaired.
pub fn repair(
    store: &mut Store,
    options: &RepairOptions,
    monitor: &mut Monitor<'_>,
) -> Result<Vec<Repaired>, Error> {
    // A file that is not there is an error, also if nothing turns out to be damaged.
    for input in &options.inputs {
        if let Input::Path(path) = input {
            std::fs::metadata(path).map_err(|source| Error::reading(input, source))?;
        }
    }
    let progress = |certs, step| Progress { certs, step: Some(step), ..Progress::default() };
    let damaged = {
        let report = &mut monitor.report;
        store.damage().certs(|certs| report(progress(certs, "looking for damage")))?
    };
    monitor.check()?;
    let mut copies: Vec<Vec<Cert>> = vec![Vec::new(); damaged.len()];
    if !damaged.is_empty() {
        let mut read = 0;
        let wanted = Wanted::new(&damaged);
        for input in &options.inputs {
            gather(input, &wanted, &mut copies, &mut |certs| {
                monitor.check()?;
                read += certs;
                (monitor.report)(progress(read, "looking for copies"));
                Ok(())
            })?;
        }
    }
    let mut repaired = Vec::with_capacity(damaged.len());
    for (certificate, mut copies) in damaged.into_iter().zip(copies) {
        monitor.check()?;
        let mut error = None;
        if let (Some(server), Some(fingerprint)) = (&options.keyserver, certificate.fingerprint) {
            let input = Input::keyserver(server, &fingerprint.to_string());
            let mut fetched = [std::mem::take(&mut copies)];
            match gather(&input, &Wanted::new(&[certificate]), &mut fetched, &mut |_| {
                monitor.check()
            }) {
                Err(Error::Interrupted) => return Err(Error::Interrupted),
                result => error = result.err().map(|failure| crate::error::describe(&failure)),
            }
            [copies] = fetched;
        }
        let result = store.damage_mut().repair(
            certificate.id,
            &copies,
            options.salvage,
            options.now.into(),
        )?;
        // Another process may have repaired it.
        let Some(result) = result else { continue };
        repaired.push(Repaired {
            number: certificate.number(),
            fingerprint: certificate.fingerprint.map(|fingerprint| fingerprint.to_string()),
            result,
            error,
        });
        (monitor.report)(progress(repaired.len() as u64, "repairing"));
    }
    Ok(repaired)
}

/// The places of damaged certificates in a list.
struct Wanted {
    by_fingerprint: HashMap<Fingerprint, usize>,
    by_digest: HashMap<[u8; 16], usize>,
}

impl Wanted {
    fn new(damaged: &[DamagedCert]) -> Self {
        let places = || damaged.iter().enumerate();
        Self {
            by_fingerprint: places().filter_map(|(at, c)| Some((c.fingerprint?, at))).collect(),
            by_digest: places().filter_map(|(at, c)| Some((c.digest?, at))).collect(),
        }
    }
}

/// Adds the copies of damaged certificates in an input to `copies`.
fn gather(
    input: &Input,
    wanted: &Wanted,
    copies: &mut [Vec<Cert>],
    seen: &mut dyn FnMut(u64) -> Result<(), Error>,
) -> Result<(), Error> {
    source::read(input, &mut |pieces, _| {
        let certs: Vec<Cert> = pieces
            .into_par_iter()
            .filter_map(|piece| match piece {
                Piece::Cert(_, bytes) => Cert::parse(&bytes).ok(),
                _ => None,
            })
            .collect();
        seen(certs.len() as u64)?;
        for cert in certs {
            if let Some(&at) = wanted.by_digest.get(&DamagedCert::digest_of(&cert)) {
                copies[at].insert(0, cert);
                copies[at].truncate(COPIES_MAX);
            } else if let Some(&at) = wanted.by_fingerprint.get(&cert.fingerprint())
                && copies[at].len() < COPIES_MAX
            {
                copies[at].push(cert);
            }
        }
        Ok(())
    })
    .map(drop)
}
