//! What the engine knows beside certificates.

use std::collections::BTreeMap;

use talaria_cert::{Address, Summary};

/// Facts about an address in a certificate.
#[derive(Debug)]
pub(crate) struct Facts {
    /// `None` if the certificate is not here.
    pub(crate) summary: Option<Summary>,
    /// The addresses of the certificate that were confirmed.
    pub(crate) published: Vec<Address>,
    /// The generation of links to the address.
    pub(crate) generation: u32,
}

/// New, updated and deleted certificates by day (days since 1970).
pub(crate) type Changes = Vec<(u32, [u64; 3])>;

/// Counts by day and name.
pub(crate) type Tally = BTreeMap<(u32, String), u64>;

/// The figures of some days.
#[derive(Debug)]
pub(crate) struct Days {
    pub(crate) changes: Changes,
    pub(crate) tally: Tally,
}

/// How writing goes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Progress {
    /// Transactions so far.
    pub(crate) commits: u64,
    /// Changes that wait.
    pub(crate) waiting: usize,
    /// Whether nothing can be written any more.
    pub(crate) has_ended: bool,
    /// Whether verdicts that were found while reading are to be written.
    pub(crate) has_verdicts: bool,
}
