//! The project's measurements: the tables of the reports that it answers.
//!
//! Each measurement is a function of its options that prints a table and returns it, and can leave
//! the same figures as CSV and as a plot. Other programs are measured as processes, from start to
//! end; of this project both the program and the library.

pub mod backup;
pub mod command;
mod error;
pub mod keydb;
pub mod keyserver;
pub mod log;
mod lookups;
mod measure;
pub mod messages;
mod page;
mod pictures;
pub mod plot;
pub mod ratios;
pub mod report;
mod results;
pub mod scale;
pub mod storage;
mod table;
pub mod trust;

use std::time::{SystemTime, UNIX_EPOCH};

pub use error::BenchError;
pub use measure::{Cost, ProgramRun, daemon_cpu_s, in_process, own_program};
pub use page::page;
pub use table::{Cell, Table};

/// The present, in seconds since 1970.
fn now() -> u32 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    u32::try_from(since).unwrap_or(u32::MAX)
}
