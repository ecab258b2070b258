//! A log that grows: opening it, looking things up, memory, and the catch-up of a new node.

use std::fs;
use std::path::Path;
use std::time::Instant;

use talaria_log::{Edit, LogError, LogFolder, Signing, Update, Value};

use super::nodes::{Author, log_error, now_ms, piece, take};
use super::options::LogOptions;
use super::updates::{FIELDS, value};
use crate::error::BenchError;
use crate::measure::{Cost, ProgramRun, in_process};
use crate::table::{Cell, Table};

/// Updates that the first node writes with one sync.
const CHUNK: usize = 10_000;
/// Look-ups of a value, and of the history of an object.
const GETS: usize = 10_000;
const HISTORIES: usize = 100;

fn update(number: usize, objects: usize) -> Update {
    Update {
        object: format!("object-{}", number % objects),
        edit: Edit::Put(
            format!("field-{}", number / objects % FIELDS),
            Value::String(value(number)),
        ),
    }
}

pub(super) fn growth(
    options: &LogOptions,
    folder: &Path,
    author: &mut Author,
) -> Result<Table, BenchError> {
    let mut table = Table::new(
        "A log that grows",
        &[
            "updates",
            "catch-up /s each-signed",
            "catch-up /s batch-signed",
            "open ms",
            "open without index, ms",
            "get us",
            "history of an object, us",
            "peak memory MiB",
            "bytes of it per entry",
            "on disk MiB",
        ],
    );
    table.note(format!(
        "Updates of 64 characters, {FIELDS} to each object. Catch-up: CPU of a new node that verifies and stores all entries, 1 MiB with each sync. Open, get and history: \
         wall time of a batch-signed log in this process, with files in the page cache; averages of {GETS} values and of {HISTORIES} histories. \
         Peak memory: a process that opens the log, gets a value and ends; an entry takes what it has more than one that only starts."
    ));
    let idle = ProgramRun::new(&options.program).arg("--version").measure()?.peak_bytes;
    for &count in options.growth.iter().filter(|&&count| count >= FIELDS) {
        let (_, each) = grown(&folder.join("each"), author, count, Signing::Each)?;
        remove(&folder.join("each"))?;
        let place = folder.join("batch");
        let (log, batch) = grown(&place, author, count, Signing::Together)?;
        let (entries, disk) =
            (log.read(talaria_log::Log::len).map_err(BenchError::Log)?, log.bytes());
        log.write_index().map_err(BenchError::Log)?;
        drop(log);
        let path = place.join("second");
        let opened = |what: &str| {
            let start = Instant::now();
            let log = LogFolder::open(&path).map_err(BenchError::Log)?;
            let found = log.read(talaria_log::Log::len).map_err(BenchError::Log)?;
            assert_eq!(found, entries, "{what}");
            Ok::<_, BenchError>((log, start.elapsed().as_secs_f64()))
        };
        let (log, open_s) = opened("with an index")?;
        let objects = count / FIELDS;
        let get_s = timed(GETS, |number| {
            let Update { object, edit: Edit::Put(field, _) } = update(number % count, objects)
            else {
                unreachable!("updates put")
            };
            let got = log.read(|log| {
                Ok::<_, LogError>(log.state().field(log.find_object(&object)?, &field))
            });
            got.and_then(|got| got).map_err(BenchError::Log).map(|got| assert!(got.is_some()))
        })?;
        let history_s = timed(HISTORIES, |number| {
            let object = format!("object-{}", number % objects);
            let got = log
                .read(|log| Ok::<_, LogError>(log.history(log.find_object(&object)?, None).len()));
            let found = got.and_then(|found| found).map_err(BenchError::Log)?;
            // The creation, and the updates.
            assert!(found > FIELDS.min(count / objects), "{object} has {found} entries");
            Ok(())
        })?;
        drop(log);
        let get = ProgramRun::new(&options.program)
            .args(["log", "--log"])
            .arg(&path)
            .args(["get", "object-0", "field-0"])
            .measure()?;
        let _ = fs::remove_file(path.join("index"));
        let (_, again_s) = opened("without an index")?;
        remove(&place)?;
        #[expect(clippy::cast_precision_loss, reason = "counts are small")]
        table.push(vec![
            Cell::Count(count as u64),
            (each.1 as f64 / each.0.cpu_s()).into(),
            (batch.1 as f64 / batch.0.cpu_s()).into(),
            (open_s * 1e3).into(),
            (again_s * 1e3).into(),
            (get_s * 1e6).into(),
            (history_s * 1e6).into(),
            (get.peak_bytes as f64 / f64::from(1 << 20)).into(),
            (get.peak_bytes.saturating_sub(idle) as f64 / entries as f64).into(),
            (disk as f64 / f64::from(1 << 20)).into(),
        ]);
    }
    Ok(table)
}

/// A second node that takes `count` updates of a first one: its log, the cost, and the number of
/// entries.
fn grown(
    place: &Path,
    author: &mut Author,
    count: usize,
    signing: Signing,
) -> Result<(LogFolder, (Cost, usize)), BenchError> {
    fs::create_dir_all(place).map_err(BenchError::io("make", place))?;
    let (one, two) = author.nodes(place)?;
    let mut maker = author.maker(one.instance())?;
    let (mut sum, mut taken) = (Cost::default(), 0);
    let objects = count / FIELDS;
    for start in (0..count).step_by(CHUNK) {
        let end = count.min(start + CHUNK);
        let updates: Vec<Update> = (start..end).map(|number| update(number, objects)).collect();
        one.put(&mut maker, &updates, signing, now_ms()).map_err(|error| log_error(error.error))?;
    }
    let heads = two.read(talaria_log::Log::heads).map_err(BenchError::Log)?;
    let mut place = one.catch_up(&heads).map_err(BenchError::Log)?;
    let mut sent = Vec::new();
    loop {
        let records = piece(&one, &mut place)?;
        if records.is_empty() {
            break;
        }
        sent.push(records);
    }
    // A node writes indexes as its time goes by, so that it must not wait for the first node here.
    for records in sent {
        let (added, cost) = in_process(|| take(&two, &records));
        taken += added?;
        sum.add(cost);
    }
    assert!(taken >= count, "the second node takes all");
    Ok((two, (sum, taken)))
}

/// The average wall time of a look-up in seconds.
fn timed(times: usize, look: impl Fn(usize) -> Result<(), BenchError>) -> Result<f64, BenchError> {
    let start = Instant::now();
    (0..times).try_for_each(|number| look(number * 7919))?;
    #[expect(clippy::cast_precision_loss, reason = "counts are small")]
    Ok(start.elapsed().as_secs_f64() / times as f64)
}

fn remove(place: &Path) -> Result<(), BenchError> {
    fs::remove_dir_all(place).map_err(BenchError::io("remove", place))
}
