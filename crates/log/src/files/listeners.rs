//! Listeners of a log in a folder.

use std::ops::ControlFlow;

use super::folder::LogFolder;
use crate::listen::{Event, Interest};
use crate::log::memory::Proposal;

impl LogFolder {
    /// Asks `check` before a change that `interest` matches is signed on this node. An error
    /// rejects the change, and is the reason in [`crate::DraftError::Rejected`]. Entries by others
    /// are never asked about: if they are valid, they count.
    ///
    /// The log is locked meanwhile: `check` reads it from the proposal, and must not use this
    /// folder.
    pub fn before(
        &self,
        interest: Interest,
        check: impl Fn(&Proposal<'_>) -> Result<(), String> + Send + 'static,
    ) {
        self.configure(|log| log.ask_before(interest, Box::new(check)));
    }

    /// Calls `tell` once for every change that begins to count from now on, and for every one that
    /// ceases to count, after the entries that cause it are on disk. The order is that in which
    /// this node admitted the entries. `tell` says whether it wants more. No lock is held: it may
    /// read and write this log. [`Self::append`] returns after its events were told, or after it
    /// left them to another thread that is telling earlier ones.
    ///
    /// Changes of the time before are in the log, and no events.
    pub fn after(
        &self,
        interest: Interest,
        tell: impl FnMut(&Event) -> ControlFlow<()> + Send + 'static,
    ) {
        self.configure(|log| {
            log.note_turns();
            self.announcer.listen(interest, Box::new(tell));
        });
    }
}
