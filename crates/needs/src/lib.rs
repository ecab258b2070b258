//! What tests need of the machine, which of it may be absent, and how much they do.
//!
//! A test that cannot run says so here. That is its success only if the file `may-be-absent` of
//! this crate names what is missing, with a reason; otherwise the test fails. The file that the
//! variable `TALARIA_LEFT_OUT` names gets a line for each test, so that whoever runs all of them
//! sees what was not tested.

mod peers;
mod ports;

use std::fs::OpenOptions;
use std::io::Write as _;
use std::thread;

pub use peers::peer;
pub use ports::free_port;

/// The variable with the path of the file to which tests that were left out are added.
const RECORD: &str = "TALARIA_LEFT_OUT";

const LIST: &str = include_str!("../may-be-absent");

/// What may be absent.
fn listed() -> impl Iterator<Item = &'static str> {
    let lines = LIST.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    lines.filter_map(|line| line.split("  ").next())
}

/// Ends a test, or a part of it, for which the machine lacks something: the caller returns.
///
/// # Panics
///
/// If this may not be absent, or the record cannot be written.
///
/// ```should_panic
/// if !std::path::Path::new("/usr/bin/no-such-program").exists() {
///     talaria_needs::left_out("no-such-program");
/// }
/// ```
#[track_caller]
pub fn left_out(what: &str) {
    assert!(
        listed().any(|listed| listed == what),
        "{what} is missing. Install it (scripts/setup test), or name it in crates/needs/may-be-absent, with a reason."
    );
    let thread = thread::current();
    let name = thread.name().unwrap_or_default();
    eprintln!("left out: {name}: without {what}");
    let Some(path) = std::env::var_os(RECORD) else { return };
    let mut record = OpenOptions::new().create(true).append(true).open(path).expect(RECORD);
    writeln!(record, "{name}: without {what}").expect(RECORD);
}

/// What was looked for, if it is there. Otherwise as [`left_out`].
///
/// # Panics
///
/// As [`left_out`].
#[track_caller]
pub fn found<T>(found: Option<T>, what: &str) -> Option<T> {
    if found.is_none() {
        left_out(what);
    }
    found
}

/// How much a test does: `short` in the usual run, `full` if the variable `TALARIA_FULL` is set, as
/// `./test --full` does.
///
/// ```
/// let kills = talaria_needs::short_or_full(30, 1000);
/// assert!(kills == 30 || std::env::var_os("TALARIA_FULL").is_some());
/// ```
pub fn short_or_full<T>(short: T, full: T) -> T {
    if std::env::var_os("TALARIA_FULL").is_some() { full } else { short }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_line_has_a_date_and_a_reason() {
        for line in LIST.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
            let mut columns = line.split("  ").map(str::trim).filter(|column| !column.is_empty());
            let (what, date) = (columns.next(), columns.next());
            assert!(what.is_some() && date.is_some_and(|date| date.starts_with("20")), "{line}");
            assert!(columns.next().is_some_and(|why| why.len() > 10), "{line}");
            assert_eq!(columns.next(), None, "{line}");
        }
        assert!(listed().count() > 0);
    }

    #[test]
    fn what_is_not_listed_fails_a_test() {
        let caught = std::panic::catch_unwind(|| left_out("a program that everybody has"));
        assert!(caught.is_err());
    }
}
