//! What all operations share.

use std::time::{Duration, SystemTime};

use talaria_message::Rules;

/// The interface: what operations share. `operations.rs` lists them.
pub(crate) struct Talaria {
    /// The signatures that count.
    pub(crate) rules: Rules,
    /// Seconds since 1970.
    pub(crate) now: u32,
}

impl Talaria {
    pub(crate) fn new(now: u32) -> Self {
        Self { rules: Rules::default(), now }
    }

    pub(crate) fn time(&self) -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_secs(u64::from(self.now))
    }
}
