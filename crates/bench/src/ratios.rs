//! Tasks beside a peer, compared with the ratios of an earlier run: finds what became slower or
//! larger.
//!
//! The other measurements take minutes to hours and say how fast talaria is. This one takes two
//! minutes and says whether it became slower than it was. Time on a shared machine changes by a
//! factor within the hour, so a figure alone says nothing: each task is done by talaria and by a
//! peer in turns, and the CPU time of both gives one ratio for each pair. A task has slipped if the
//! whole interval of the median is above 1.25 times the recorded ratio, and is so again in a longer
//! measurement after all other tasks.

mod interval;
mod options;
mod tasks;

use std::fs;
use std::io::Write;
use std::path::Path;

use self::interval::Interval;
pub use self::options::RatiosOptions;
use self::tasks::{Beside, Memory, Task, Work};
use crate::error::BenchError;
use crate::table::{Cell, Table};

/// How much more than recorded the ratio to a peer may be, as long as its interval lies above that.
const ALLOWED: f64 = 1.25;

/// How many times the pairs a task has in its second measurement, at the end, if it has slipped in
/// the first one.
const AGAIN: usize = 2;

/// How much more memory than recorded a command may take. Memory varies less than time.
const ALLOWED_MEMORY: f64 = 1.15;

/// The runs of each command whose memory is looked at. The least counts.
const MEMORY_RUNS: usize = 3;

/// The result of a run.
#[derive(Clone, Debug, PartialEq)]
pub struct Ratios {
    /// All tasks and commands.
    pub table: Table,
    /// A sentence for each task or command that costs more than recorded.
    pub slipped: Vec<String>,
    /// A sentence for each task that was not compared: its peer is missing, or nothing is recorded.
    pub left_out: Vec<String>,
}

/// The column of the recorded file for the build that runs: an unoptimised program is slower by a
/// constant factor, so it is compared with its own kind.
fn build() -> &'static str {
    if cfg!(debug_assertions) { "test build" } else { "release build" }
}

/// Measures, prints the table, and compares it with what is recorded.
///
/// # Errors
///
/// When a program that is there fails, or a file cannot be read or written. A ratio that slipped is
/// no error.
pub fn run(options: &RatiosOptions, out: &mut dyn Write) -> Result<Ratios, BenchError> {
    let folder = tempfile::Builder::new()
        .prefix("r")
        .tempdir_in(&options.scratch)
        .map_err(BenchError::io("make a folder in", &options.scratch))?;
    let mut recorded = Recorded::read(&options.recorded)?;
    let mut result = Ratios { table: new_table(), slipped: Vec::new(), left_out: Vec::new() };
    let place = tasks::prepare(options, folder.path())?;
    let mut tasks = Vec::new();
    for Task { name, beside } in tasks::all(&place)? {
        match beside {
            Beside::Missing(peer) => {
                result.left_out.push(format!("{name}: not compared, since there is no {peer}"));
                result.table.push(vec![name.into(), peer.into()]);
            }
            Beside::Peer { name: peer, mut ours, mut theirs } => {
                let interval = in_turns(options.pairs, &mut ours, &mut theirs)?;
                tasks.push((name, peer, ours, theirs, interval));
            }
        }
    }
    for (name, peer, mut ours, mut theirs, mut interval) in tasks {
        let before = recorded.get(name);
        let has_slipped = |interval: Interval| {
            !options.record && before.is_some_and(|before| interval.low > ALLOWED * before)
        };
        // What else the machine does changes ratios for seconds. Who becomes slower stays so.
        if has_slipped(interval) {
            interval = in_turns(AGAIN * options.pairs, &mut ours, &mut theirs)?;
        }
        let Interval { low, middle, high } = interval;
        match before {
            _ if options.record => recorded.set(name, middle),
            Some(before) if has_slipped(interval) => result.slipped.push(format!(
                "{name}: {middle:.3} times the CPU time of {peer} ({low:.3} to {high:.3}); \
                 recorded {before:.3}"
            )),
            Some(_) => {}
            None => result.left_out.push(unrecorded(name)),
        }
        result.table.push(vec![
            name.into(),
            peer.into(),
            Cell::Ratio(middle),
            Cell::Ratio(low),
            Cell::Ratio(high),
            before.map_or(Cell::Missing, Cell::Ratio),
        ]);
    }
    for Memory { name, mut run } in tasks::commands(&place) {
        let mut least = u64::MAX;
        for _ in 0..MEMORY_RUNS {
            least = least.min(run()?.peak_bytes);
        }
        #[expect(clippy::cast_precision_loss, reason = "memory of a command")]
        let megabytes = least as f64 / 1e6;
        let before = recorded.get(name);
        match before {
            _ if options.record => recorded.set(name, megabytes),
            Some(before) if megabytes > ALLOWED_MEMORY * before => result
                .slipped
                .push(format!("{name}: {megabytes:.1} MB of memory; recorded {before:.1}")),
            Some(_) => {}
            None => result.left_out.push(unrecorded(name)),
        }
        result.table.push(vec![
            name.into(),
            "MB of memory".into(),
            megabytes.into(),
            Cell::Missing,
            Cell::Missing,
            before.into(),
        ]);
    }
    if options.record {
        recorded.write(&options.recorded)?;
    }
    result.table.note(format!(
        "CPU time of talaria divided by that of the peer, both as whole processes, in {} pairs that alternate; the \
         log and libsodium within a process. Median, and the interval that has the median of all runs with 95 %. {}.",
        options.pairs.max(1),
        build()
    ));
    result.table.print(out).map_err(BenchError::Output)?;
    Ok(result)
}

/// The CPU time of one work divided by that of the other, in pairs.
fn in_turns(
    pairs: usize,
    ours: &mut Work<'_>,
    theirs: &mut Work<'_>,
) -> Result<Interval, BenchError> {
    let mut ratios = Vec::new();
    for pair in 0..pairs.max(1) {
        // Neither side always runs after the other.
        let (one, two) = if pair % 2 == 0 {
            let one = ours()?;
            (one, theirs()?)
        } else {
            let two = theirs()?;
            (ours()?, two)
        };
        ratios.push(one.cpu_s() / two.cpu_s().max(f64::MIN_POSITIVE));
    }
    Ok(Interval::of_median(ratios))
}

fn unrecorded(name: &str) -> String {
    format!("{name}: not compared, since nothing is recorded")
}

fn new_table() -> Table {
    Table::new(
        "Cost beside a peer, and memory",
        &["task", "peer", "ratio", "at least", "at most", "recorded"],
    )
}

/// The file with the ratios of earlier runs: a row for each task, a column for each kind of build.
struct Recorded(Table);

impl Recorded {
    /// An empty one, if there is no file.
    fn read(path: &Path) -> Result<Self, BenchError> {
        match fs::read_to_string(path) {
            Ok(text) => {
                let table = Table::from_csv(&text);
                Ok(Self(table.ok_or_else(|| BenchError::Csv { path: path.to_owned() })?))
            }
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                Ok(Self(Table::new("", &["task", "release build", "test build"])))
            }
            Err(error) => Err(BenchError::io("read", path)(error)),
        }
    }

    fn column(&self) -> Option<usize> {
        self.0.columns.iter().position(|column| column == build())
    }

    fn get(&self, task: &str) -> Option<f64> {
        let column = self.column()?;
        self.row(task).and_then(|row| self.0.rows[row][column].number())
    }

    fn set(&mut self, task: &str, figure: f64) {
        let row = self.row(task).unwrap_or_else(|| {
            self.0.push(vec![task.into()]);
            self.0.rows.len() - 1
        });
        if let Some(column) = self.column() {
            self.0.rows[row][column] = Cell::Number(figure);
        }
    }

    fn row(&self, task: &str) -> Option<usize> {
        self.0.rows.iter().position(|row| row[0] == Cell::from(task))
    }

    fn write(&self, path: &Path) -> Result<(), BenchError> {
        let mut csv = Vec::new();
        self.0.csv(&mut csv).map_err(BenchError::io("write", path))?;
        fs::write(path, csv).map_err(BenchError::io("write", path))
    }
}
