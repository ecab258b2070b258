//! The memory that requests and answers hold, and that of the process.

use crate::answer::Refusal;
use crate::budget::{Budget, Room};
use crate::config::Http;
use crate::network::Network;

/// Answers up to this size have a budget of their own, so that large ones leave room for them.
pub(crate) const SMALL: usize = 64 << 10;

/// The memory that requests and answers hold now.
#[derive(Debug, Default)]
pub(crate) struct Memory {
    pub(crate) requests: Budget,
    pub(crate) answers: Budget,
    pub(crate) small_answers: Budget,
}

impl Memory {
    /// Room for an answer.
    pub(crate) fn for_answer(
        &self,
        http: &Http,
        payer: Network,
        bytes: usize,
    ) -> Result<Room, Refusal> {
        let small = http.answers_bytes / 3;
        if bytes <= SMALL {
            self.small_answers.take(small, payer, bytes)
        } else {
            self.answers.take(http.answers_bytes - small, payer, bytes)
        }
    }
}

/// Bytes of this process that are in memory, 0 where the system does not tell.
pub(crate) fn resident_bytes() -> u64 {
    let pages = std::fs::read_to_string("/proc/self/statm").ok();
    let pages = pages.and_then(|text| text.split(' ').nth(1)?.parse::<u64>().ok());
    pages.unwrap_or(0) * 4096
}
