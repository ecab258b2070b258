//! The verdicts on signatures of other keys: verifying them costs more than a look-up. They are
//! remembered for a while here, and what a key has made is written to the store, when there is
//! enough of it or some time has passed. Writing them is no change of a certificate.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use talaria_cert::merge::bytes_digest;
use talaria_cert::{Cert, Verdict};
use talaria_store::{CertId, ChangeNumber, Store, StoreError};

/// The time after which signatures are verified again, because their issuers may have arrived.
const FRESH: Duration = Duration::from_secs(600);

/// Verdicts of all certificates together, of one byte each: 8 MiB. If there are more, all are
/// forgotten.
const VERDICTS_MAX: usize = 8 << 20;

/// Certificates whose verdicts are written to the store at once, and the time after which fewer
/// are.
const WRITE: usize = 256;
const WRITE_AFTER: Duration = Duration::from_secs(10);

/// Certificates whose verdicts wait to be written. Those beyond are verified again later.
const WAITING_MAX: usize = 8192;

/// The verdicts that are remembered.
#[derive(Debug, Default)]
pub(crate) struct Certified(Mutex<Known>);

#[derive(Debug, Default)]
struct Known {
    by_cert: HashMap<CertId, Entry>,
    /// Number of all verdicts.
    count: usize,
    /// What the store does not have yet, and since when.
    unwritten: Vec<Found>,
    since: Option<Instant>,
}

/// A certificate, its last change, and the verdicts.
pub(crate) type Found = (CertId, ChangeNumber, Arc<[Verdict]>);

/// The verdicts on a certificate since its last change.
#[derive(Clone, Debug)]
struct Entry {
    change: ChangeNumber,
    /// The digest of the bytes that they are about.
    digest: [u8; 16],
    at: Instant,
    verdicts: Arc<[Verdict]>,
}

impl Entry {
    fn is_fresh(&self) -> bool {
        self.at.elapsed() < FRESH
    }
}

impl Certified {
    /// The verdicts on the signatures of a certificate, as [`Store::certified`] computes them, a
    /// few minutes old at most.
    ///
    /// The number of the certificate, that of its last change, `cert` and `verdicts` are those of
    /// `store` at this moment.
    pub(crate) fn verdicts(
        &self,
        store: &Store,
        (id, change): (CertId, ChangeNumber),
        cert: &Cert,
        verdicts: &[Verdict],
        unranked: usize,
    ) -> Result<Arc<[Verdict]>, StoreError> {
        if let Some(known) = self.known((id, change)) {
            return Ok(known);
        }
        let stored = verdicts;
        let verdicts: Arc<[Verdict]> = store.certified(cert, stored, unranked)?.into();
        let digest = bytes_digest(cert.as_bytes());
        let entry = Entry { change, digest, at: Instant::now(), verdicts: Arc::clone(&verdicts) };
        let mut known = self.0.lock();
        let is_new =
            |(old, new): (&Verdict, &Verdict)| new.is_certified() && *old != Verdict::Certified;
        if stored.iter().zip(&*verdicts).any(is_new) && known.unwritten.len() < WAITING_MAX {
            known.unwritten.push((id, change, Arc::clone(&verdicts)));
            known.since.get_or_insert_with(Instant::now);
        }
        known.count += verdicts.len();
        if known.count > VERDICTS_MAX {
            known.by_cert.clear();
            known.count = verdicts.len();
        }
        if let Some(before) = known.by_cert.insert(id, entry) {
            known.count -= before.verdicts.len();
        }
        Ok(verdicts)
    }

    /// Whether verdicts are to be written to the store now.
    pub(crate) fn is_due(&self) -> bool {
        let known = self.0.lock();
        let is_late = known.since.is_some_and(|since| since.elapsed() >= WRITE_AFTER);
        known.unwritten.len() >= WRITE || is_late
    }

    /// Takes some of the verdicts that are to be written now.
    pub(crate) fn take_due(&self) -> Vec<Found> {
        if !self.is_due() {
            return Vec::new();
        }
        let mut known = self.0.lock();
        let left = known.unwritten.len().saturating_sub(WRITE);
        let taken = known.unwritten.split_off(left);
        if left == 0 {
            known.since = None;
        }
        taken
    }

    /// Whether verdicts on a certificate are remembered.
    pub(crate) fn knows(&self, cert: (CertId, ChangeNumber)) -> bool {
        self.known(cert).is_some()
    }

    /// The remembered verdicts on a certificate whose bytes have a digest. They belong to these
    /// bytes, whatever the last change of the certificate is.
    pub(crate) fn known_by_digest(&self, id: CertId, digest: [u8; 16]) -> Option<Arc<[Verdict]>> {
        self.fresh(id, |entry| entry.digest == digest)
    }

    fn known(&self, (id, change): (CertId, ChangeNumber)) -> Option<Arc<[Verdict]>> {
        self.fresh(id, |entry| entry.change == change)
    }

    fn fresh(&self, id: CertId, is_meant: impl FnOnce(&Entry) -> bool) -> Option<Arc<[Verdict]>> {
        let known = self.0.lock();
        let entry = known.by_cert.get(&id)?;
        (is_meant(entry) && entry.is_fresh()).then(|| Arc::clone(&entry.verdicts))
    }
}
