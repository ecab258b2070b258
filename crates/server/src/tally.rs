//! The counts of the day that wait to be written.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;

use crate::metrics::Metrics;

/// Counts since they were written the last time.
#[derive(Debug)]
pub(crate) struct Tally {
    /// Requests are counted here.
    metrics: Arc<Metrics>,
    noted: Mutex<BTreeMap<String, u64>>,
}

impl Tally {
    pub(crate) fn new(metrics: Arc<Metrics>) -> Self {
        Self { metrics, noted: Mutex::default() }
    }

    /// Adds to the counts that are written with the next tally.
    pub(crate) fn note(&self, counts: &[(String, u64)]) {
        let mut noted = self.noted.lock();
        for (name, n) in counts {
            *noted.entry(name.clone()).or_default() += n;
        }
    }

    /// All counts since the last call.
    pub(crate) fn take(&self) -> Vec<(String, u64)> {
        let mut noted = self.noted.lock();
        let taken = std::mem::take(&mut *noted);
        drop(noted);
        self.metrics.since_last_tally().into_iter().chain(taken).collect()
    }
}
