//! Bulk build of a store from dumps. One thread reads, parses and checks certificates while another
//! appends them to the store.

use std::fs::{self, File};
use std::io::{self, BufRead as _, BufReader, Read, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::thread;

use talaria_cert::{Armor, Batch, Item, Reject, Splitter};
use talaria_store::{BuildOptions, Builder, Built, Draft, Position, Step, TextIndex};

use crate::compressed::{Compression, MAGIC_BYTES};
use crate::error::Error;
use crate::import::Rejected;
use crate::progress::{Monitor, Progress};
use crate::source::{Input, compression, fill};

/// The number of bytes read, parsed and committed at a time: 16 MiB.
const BATCH_BYTES: usize = 16 << 20;

/// The maximum number of batches that wait to be appended.
const QUEUE: usize = 2;

/// The maximum number of rejected certificates listed in a report; further ones are only counted.
const REJECTED_MAX: usize = 1000;

/// The report on a build.
#[derive(Debug, Default)]
pub struct BuildReport {
    /// The number of certificates in the store, and of those that occurred more than once.
    pub built: Built,
    /// The position at which an interrupted build was resumed, in bytes of the inputs; 0 for a new
    /// build.
    pub resumed: u64,
    /// The first thousand rejected certificates: the input and the reason.
    pub rejected: Vec<(Input, Rejected)>,
    /// The number of all rejected certificates.
    pub rejected_count: u64,
}

/// One batch between the reader and the store.
struct Parcel {
    drafts: Vec<Draft>,
    rejected: Vec<(usize, Reject)>,
    reached: Position,
}

/// Builds a store at `target` from `inputs`: files, folders of dump files, or standard input.
///
/// # Errors
///
/// [`Error::Io`] if `target` exists or an input cannot be read; [`Error::NoCertificates`] if the
/// inputs have no certificate, and then no store is left behind; [`Error::Interrupted`]. The same
/// call resumes an interrupted build.
pub fn build(
    target: &Path,
    inputs: &[Input],
    options: &BuildOptions,
    monitor: &mut Monitor<'_>,
) -> Result<BuildReport, Error> {
    let inputs = expand(inputs)?;
    let sizes: Vec<u64> = inputs.iter().map(crate::source::size).collect();
    let mut builder = Builder::start(target, &describe(&inputs)?, options.clone())?;
    let from = builder.position();
    let done_before =
        |position: Position| sizes.iter().take(position.input).sum::<u64>() + position.offset;
    let mut report = BuildReport { resumed: done_before(from), ..BuildReport::default() };
    let mut progress = Progress {
        bytes: report.resumed,
        bytes_total: if sizes.contains(&0) { 0 } else { sizes.iter().sum() },
        certs: builder.appended(),
        step: None,
        // Reading, the text indexes, the other indexes, and joining and syncing.
        steps: Some((1, 3 + options.layout.text.len())),
    };
    (monitor.report)(progress);
    thread::scope(|scope| -> Result<(), Error> {
        let (sender, receiver) = mpsc::sync_channel(QUEUE);
        let reader = scope.spawn({
            let inputs = &inputs;
            move || produce(inputs, from, options, &sender)
        });
        for parcel in receiver {
            let Parcel { drafts, rejected, reached } = parcel;
            report.rejected_count += rejected.len() as u64;
            for (input, reject) in rejected {
                if report.rejected.len() < REJECTED_MAX {
                    let rejected = Rejected {
                        place: format!("offset {}", reject.offset),
                        fingerprint: None,
                        reason: reject.reason.to_string(),
                    };
                    report.rejected.push((inputs[input].clone(), rejected));
                }
            }
            builder.append(&drafts, reached)?;
            progress.bytes = done_before(reached);
            progress.certs = builder.appended();
            (monitor.report)(progress);
            // Dropping the receiver stops the reader.
            monitor.check()?;
        }
        reader.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })?;
    if builder.appended() == 0 {
        builder.discard()?;
        let reason = report.rejected.first().map(|(_, reject)| reject.reason.clone());
        let names = inputs.iter().map(ToString::to_string).collect();
        return Err(Error::NoCertificates { names, reason });
    }
    report.built = builder.finish(|step| {
        if let (Some((at, _)), true) = (&mut progress.steps, progress.step != Some(JOINING)) {
            *at += 1;
        }
        progress.step = Some(match step {
            Step::Indexes => "filling indexes",
            Step::Text(TextIndex::Words) => "indexing words",
            Step::Text(TextIndex::Trigrams) => "indexing trigrams",
            Step::Joining => JOINING,
            Step::Syncing => "syncing",
        });
        (monitor.report)(progress);
    })?;
    Ok(report)
}

/// The step that only some builds have; it counts as the beginning of the last one.
const JOINING: &str = "joining certificates that came twice";

/// Reads the inputs from a position on, until they end or the receiver is gone.
fn produce(
    inputs: &[Input],
    from: Position,
    options: &BuildOptions,
    sender: &mpsc::SyncSender<Parcel>,
) -> Result<(), Error> {
    for (number, input) in inputs.iter().enumerate().skip(from.input) {
        let start = if number == from.input { from.offset } else { 0 };
        let io = |source| Error::reading(input, source);
        let stream = open(input, start).map_err(io)?;
        let mut splitter = Splitter::new(stream, BATCH_BYTES);
        while let Some(batch) = splitter.next_batch().map_err(io)? {
            let end = start + batch.offset + batch.bytes.len() as u64;
            let parcel = parcel(number, start, &batch, options, end);
            if sender.send(parcel).is_err() {
                return Ok(());
            }
        }
    }
    Ok(())
}

fn parcel(input: usize, start: u64, batch: &Batch, options: &BuildOptions, end: u64) -> Parcel {
    let raw: Vec<(u64, &[u8])> = batch.certs().collect();
    let bytes: Vec<&[u8]> = raw.iter().map(|(_, bytes)| *bytes).collect();
    let mut drafts = Vec::with_capacity(raw.len());
    let mut rejected = Vec::new();
    for item in &batch.items {
        if let Item::Rejected(reject) = item {
            rejected.push((input, Reject { offset: start + reject.offset, ..reject.clone() }));
        }
    }
    for ((offset, _), draft) in raw.iter().zip(Builder::prepare(options, &bytes)) {
        match draft {
            Ok(draft) => drafts.push(draft),
            Err(reason) => rejected.push((input, Reject { offset: start + offset, reason })),
        }
    }
    Parcel { drafts, rejected, reached: Position { input, offset: end } }
}

/// Opens an input and skips the first `start` bytes of its packets.
fn open(input: &Input, start: u64) -> io::Result<Box<dyn Read>> {
    let stream: Box<dyn Read> = match input {
        Input::Stdin => {
            let mut head = vec![0; MAGIC_BYTES];
            let n = fill(&mut io::stdin(), &mut head)?;
            head.truncate(n);
            let compression = Compression::of(&head);
            let whole = io::Cursor::new(head).chain(io::stdin());
            match compression {
                Some(compression) => uncompressed(compression.content(whole))?,
                None => uncompressed(whole)?,
            }
        }
        Input::Url(_) => {
            return Err(io::Error::new(
                io::ErrorKind::Unsupported,
                "only import reads from servers",
            ));
        }
        Input::Path(path) => {
            let mut file = File::open(path)?;
            if let Some(compression) = compression(path) {
                return at(uncompressed(compression.content(file))?, start);
            }
            let mut first = [0];
            let binary = file.read(&mut first)? == 0 || first[0] & 0x80 != 0;
            file.seek(SeekFrom::Start(if binary { start } else { 0 }))?;
            if binary {
                return Ok(Box::new(file));
            }
            Box::new(Armor::new(BufReader::new(file)))
        }
    };
    at(stream, start)
}

/// Skips the first `start` bytes of `stream`.
fn at(mut stream: Box<dyn Read>, start: u64) -> io::Result<Box<dyn Read>> {
    io::copy(&mut stream.by_ref().take(start), &mut io::sink())?;
    Ok(stream)
}

/// The packets of a stream that may be armored.
fn uncompressed(stream: impl Read + 'static) -> io::Result<Box<dyn Read>> {
    let mut stream = BufReader::with_capacity(1 << 16, stream);
    let is_binary = stream.fill_buf()?.first().is_none_or(|first| first & 0x80 != 0);
    Ok(if is_binary { Box::new(stream) } else { Box::new(Armor::new(stream)) })
}

/// Replaces each folder by the dump files in it, in the order of their names.
fn expand(inputs: &[Input]) -> Result<Vec<Input>, Error> {
    let mut all = Vec::new();
    for input in inputs {
        match input {
            Input::Path(path) if path.is_dir() => {
                let io = |source| Error::reading(input, source);
                let mut files = Vec::new();
                for entry in fs::read_dir(path).map_err(io)? {
                    let path = entry.map_err(io)?.path();
                    let ends = |path: &Path, known: &[&str]| {
                        path.extension().is_some_and(|end| known.iter().any(|known| end == *known))
                    };
                    let plain = if ends(&path, &["gz", "zst", "xz", "bz2"]) {
                        path.with_extension("")
                    } else {
                        path.clone()
                    };
                    if path.is_file() && ends(&plain, &["pgp", "gpg", "asc", "key"]) {
                        files.push(path);
                    }
                }
                if files.is_empty() {
                    return Err(Error::Unrecognised {
                        name: input.to_string(),
                        what: "a folder without dump files (.pgp, .gpg, .asc or .key, also compressed)",
                    });
                }
                files.sort();
                all.extend(files.into_iter().map(Input::Path));
            }
            _ => all.push(input.clone()),
        }
    }
    Ok(all)
}

/// A description of the inputs by name, size and time, so that a build is resumed only with the
/// same inputs.
fn describe(inputs: &[Input]) -> Result<String, Error> {
    let mut text = String::new();
    for input in inputs {
        let line = match input {
            Input::Path(path) => {
                let io = |source| Error::reading(input, source);
                let meta = fs::metadata(path).map_err(io)?;
                let time = meta.modified().map_err(io)?;
                let full: PathBuf = path.canonicalize().map_err(io)?;
                format!("{} {} {time:?}\n", full.display(), meta.len())
            }
            // Data from a pipe cannot be read a second time.
            Input::Stdin | Input::Url(_) => format!("- {:?}\n", std::time::SystemTime::now()),
        };
        text.push_str(&line);
    }
    Ok(text)
}
