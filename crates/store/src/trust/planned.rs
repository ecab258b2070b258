//! Changes to certificates and trust that are yet to be made.

use std::collections::HashMap;

use talaria_cert::{Cert, Summary};
use talaria_trust::Rules;

/// Changes to be made, for a rehearsal.
#[derive(Default)]
pub(crate) struct Planned<'p> {
    /// The certificates to be written, by number, and `None` for those to be deleted. New ones have
    /// numbers below 0.
    pub(crate) certs: HashMap<i64, Option<(&'p Cert, &'p Summary)>>,
    /// Owner trust to be recorded, by stored fingerprint.
    pub(crate) owners: HashMap<Vec<u8>, u8>,
    /// The rules, if the web is to be recomputed from the certificates alone.
    pub(crate) anew: Option<Rules>,
}
