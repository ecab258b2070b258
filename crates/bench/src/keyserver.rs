//! The report on SKS again (2011), and what has to hold for a keyserver today: built from a dump,
//! asked, written to and gossiped with, by talaria and by SKS in turn.
//!
//! Measures the program as it is installed: `talaria build` and `talaria serve` beside
//! `sks build` and `sks db`, each with the data of the other. wrk asks; what uploads is a small
//! client of ours, which looks at every answer. Repetitions alternate, so that both sides have the
//! same weather.

mod bench;
mod builds;
mod client;
mod dump;
mod figures;
mod gossip;
mod options;
mod queries;
mod server;
pub(crate) mod sks;
mod trees;
mod uploads;

use std::io::Write;

use self::bench::{Bench, Results};
use self::dump::Dump;
pub use self::options::{KeyserverOptions, Section};
use crate::error::BenchError;
use crate::results;
use crate::table::Table;

/// Measures all parts, prints a table for each and returns them.
///
/// # Errors
///
/// When talaria fails or answers wrongly, or the scratch folder cannot be written. What is not
/// installed is left out.
pub fn run(options: &KeyserverOptions, out: &mut dyn Write) -> Result<Vec<Table>, BenchError> {
    // Short, since SKS puts sockets into it.
    let folder = tempfile::Builder::new()
        .prefix("ks")
        .tempdir_in(&options.scratch)
        .map_err(BenchError::io("make a folder in", &options.scratch))?;
    let mut counts = options.growth.clone();
    counts.push(options.certs);
    let dump = Dump::write(&options.profile, &counts, folder.path())?;
    let has_sks = !options.skip.contains(&Section::Sks) && sks::is_there(&options.sks);
    let bench = Bench { options, folder: folder.path(), dump: &dump, has_sks };
    type Measure = fn(&Bench<'_>) -> Result<Option<Results>, BenchError>;
    let parts: [(Section, Measure); 5] = [
        (Section::Builds, |bench| builds::run(bench).map(Some)),
        (Section::Trees, |bench| trees::run(bench).map(Some)),
        (Section::Lookups, queries::run),
        (Section::Uploads, |bench| uploads::run(bench).map(Some)),
        (Section::Gossip, |bench| gossip::run(bench).map(Some)),
    ];
    let mut tables = Vec::new();
    for (_, measure) in parts.iter().filter(|(part, _)| bench.has(*part)) {
        let Some(Results { name, table }) = measure(&bench)? else { continue };
        table.print(out).map_err(BenchError::Output)?;
        out.flush().map_err(BenchError::Output)?;
        results::save(options.results.as_deref(), name, &table)?;
        tables.push(table);
    }
    Ok(tables)
}
