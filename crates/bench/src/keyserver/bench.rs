//! What all parts of the measurement share.

use std::path::Path;

use super::dump::Dump;
use super::options::{KeyserverOptions, Section};
use super::sks::Sks;
use crate::error::BenchError;
use crate::table::Table;

/// Data that all parts share.
pub(super) struct Bench<'a> {
    pub(super) options: &'a KeyserverOptions,
    pub(super) folder: &'a Path,
    pub(super) dump: &'a Dump,
    /// Whether SKS is installed and selected.
    pub(super) has_sks: bool,
}

impl Bench<'_> {
    pub(super) fn has(&self, part: Section) -> bool {
        !self.options.skip.contains(&part)
    }

    pub(super) fn runs(&self) -> usize {
        self.options.runs.max(1)
    }

    /// A place for SKS, `None` if it is not measured.
    pub(super) fn sks(&self, name: &str) -> Result<Option<Sks>, BenchError> {
        let make = || Sks::new(&self.options.sks, &self.folder.join(name), "127.0.0.1");
        self.has_sks.then(make).transpose()
    }
}

/// A table, and the name of the file that it is kept in.
pub(super) struct Results {
    pub(super) name: &'static str,
    pub(super) table: Table,
}
