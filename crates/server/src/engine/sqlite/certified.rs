//! The verdicts on signatures of other keys, remembered for a while: verifying them costs more than a look-up.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use talaria_cert::{Cert, Verdict};
use talaria_store::{CertId, ChangeNumber, Store, StoreError};

/// The time after which signatures are verified again, because their issuers may have arrived.
const FRESH: Duration = Duration::from_secs(600);

/// Verdicts of all certificates together, of one octet each: 8 MiB. If there are more, all are forgotten.
const VERDICTS_MAX: usize = 8 << 20;

/// The verdicts that are remembered.
#[derive(Debug, Default)]
pub(crate) struct Certified(Mutex<Known>);

#[derive(Debug, Default)]
struct Known {
    by_cert: HashMap<CertId, Entry>,
    /// Number of all verdicts.
    count: usize,
}

/// The verdicts on a certificate since its last change.
#[derive(Clone, Debug)]
struct Entry {
    change: ChangeNumber,
    at: Instant,
    verdicts: Arc<[Verdict]>,
}

impl Certified {
    /// The verdicts on the signatures of a certificate, as [`Store::certified`] computes them, a few minutes old at most.
    ///
    /// The number of the certificate, that of its last change, `cert` and `verdicts` are those of `store` at this moment.
    pub(crate) fn verdicts(
        &self,
        store: &Store,
        (id, change): (CertId, ChangeNumber),
        cert: &Cert,
        verdicts: &[Verdict],
    ) -> Result<Arc<[Verdict]>, StoreError> {
        if let Some(known) = self.known((id, change)) {
            return Ok(known);
        }
        let verdicts: Arc<[Verdict]> = store.certified(cert, verdicts)?.into();
        let entry = Entry { change, at: Instant::now(), verdicts: Arc::clone(&verdicts) };
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.count += verdicts.len();
        if known.count > VERDICTS_MAX {
            *known = Known { by_cert: HashMap::new(), count: verdicts.len() };
        }
        if let Some(before) = known.by_cert.insert(id, entry) {
            known.count -= before.verdicts.len();
        }
        Ok(verdicts)
    }

    /// The remembered verdicts on a certificate.
    pub(crate) fn known(&self, (id, change): (CertId, ChangeNumber)) -> Option<Arc<[Verdict]>> {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let entry = known.by_cert.get(&id)?;
        let is_fresh = entry.change == change && entry.at.elapsed() < FRESH;
        is_fresh.then(|| Arc::clone(&entry.verdicts))
    }
}
