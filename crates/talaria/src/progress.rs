//! The progress of long work, and stopping it.

use std::sync::atomic::{AtomicBool, Ordering};

use crate::error::Error;

/// The progress of long work. All numbers only grow.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Progress {
    /// The number of input bytes processed.
    pub bytes: u64,
    /// The total number of input bytes; 0 if it is unknown.
    pub bytes_total: u64,
    /// The number of certificates processed.
    pub certs: u64,
    /// The current step, if it is not reading.
    pub step: Option<&'static str>,
    /// The number of the current step, from 1, and the number of all steps, if the work has
    /// several.
    pub steps: Option<(usize, usize)>,
}

/// The caller's hooks for long work: a progress function and a flag that asks the work to stop.
pub struct Monitor<'a> {
    /// The progress function, called at least once per batch.
    pub report: &'a mut dyn FnMut(Progress),
    /// The stop flag, set from a signal handler or another thread.
    pub stop: &'a AtomicBool,
}

impl Monitor<'_> {
    /// Returns [`Error::Interrupted`] if the stop flag is set.
    pub(crate) fn check(&self) -> Result<(), Error> {
        if self.stop.load(Ordering::Relaxed) { Err(Error::Interrupted) } else { Ok(()) }
    }
}
