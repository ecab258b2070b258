//! `talaria log import`

use std::io::BufReader;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use talaria_log::{EntryId, Imported, LogError, LogFolder, Refusal};

use super::folder::open;
use super::identity::parse_entry;
use super::people::owners;
use crate::context::{Content, Context};
use crate::error::CliError;
use crate::files::Source;
use crate::progress::grouped;
use crate::render::{counted, printable};
use crate::terminal::Paint;

/// Take entries from other nodes
///
/// Reads what `talaria log export` wrote on another node, and checks every entry. Entries may come
/// in any order and more than once. If the folder has no log, a copy is made; --expect makes sure
/// that it is the right one.
///
/// If an entry is refused, comes before its past, or has a clock in the future, the others are
/// taken and the exit status is 1.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Exports to read [default: standard input]
    #[arg(value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Identity of the log, as its owner says
    #[arg(long, value_name = "LOG", value_parser = parse_entry)]
    expect: Option<EntryId>,
}

pub(crate) fn run(args: &Args, folder: &Path, cx: &mut Context) -> Result<ExitCode, CliError> {
    let mut log = match open(folder, cx) {
        Ok(log) => Some(log),
        Err(CliError::Log(LogError::NotALog { .. })) => None,
        Err(error) => return Err(error),
    };
    if let (Some(log), Some(wanted)) = (&log, args.expect)
        && log.id() != wanted
    {
        let (name, found) = (folder.display().to_string(), log.id());
        return Err(LogError::Unexpected { name, found, wanted }.into());
    }
    let stdin = [PathBuf::from("-")];
    let files = if args.files.is_empty() { &stdin[..] } else { &args.files };
    let mut status = 0;
    for path in files {
        let is_stdin = path == Path::new("-");
        let name = if is_stdin { "standard input".into() } else { path.display().to_string() };
        let mut input = BufReader::new(Source::open(Some(path))?.plain());
        let now_ms = cx.now_ms();
        let imported = cx.step("Reading entries", || match &log {
            Some(log) => log.import(&mut input, &name, now_ms).map(|imported| (None, imported)),
            None => LogFolder::receive(folder, &mut input, &name, args.expect, now_ms)
                .map(|(made, imported)| (Some(made), imported)),
        });
        // A damaged file leaves a copy, too, if it begins with a log.
        let (made, imported) = match imported {
            Err(error) if log.is_none() => (open(folder, cx).ok(), Err(error)),
            Err(error) => (None, Err(error)),
            Ok((made, imported)) => (made, Ok(imported)),
        };
        if let Some(made) = made {
            if args.expect.is_none() && !cx.json {
                first_use(&made, folder, cx)?;
            }
            log = Some(made);
        }
        let imported = imported?;
        let id = log.as_ref().map(LogFolder::id);
        report(&imported, &name, id, cx)?;
        if !imported.is_complete() {
            status = 1;
        }
    }
    Ok(ExitCode::from(status))
}

fn first_use(log: &LogFolder, folder: &Path, cx: &Context) -> Result<(), CliError> {
    let owners = log.read(owners)?;
    cx.status(format_args!(
        "Made a copy of the log {} in {}.\n  Owners: {}\n  Ask an owner whether this is the log: anybody can make one with \
         other keys.",
        log.id(),
        folder.display(),
        owners
    ));
    Ok(())
}

fn report(
    imported: &Imported,
    name: &str,
    log: Option<EntryId>,
    cx: &Context,
) -> Result<(), CliError> {
    let Imported { added, known, values, waiting, ahead, refused, more_refused } = imported;
    if cx.json {
        let one = |(id, refusal): &(EntryId, Refusal)| {
            serde_json::json!({
                "entry": id.to_string(), "reason": refusal.kind(), "why": refusal.to_string(),
            })
        };
        let json = serde_json::json!({
            "action": "log import", "file": name, "log": log.map(|log| log.to_string()),
            "added": added, "known": known, "values": values, "waiting": waiting, "ahead": ahead,
            "refused": refused.iter().map(one).collect::<Vec<_>>(), "more_refused": more_refused,
        });
        return cx.report(Content::Elsewhere, &json);
    }
    let paint = Paint::stderr();
    let name = printable(name.as_bytes());
    cx.status(format_args!("{name}: {} new, {} known", counted(*added, "entry"), grouped(*known)));
    if *values > 0 {
        cx.status(format_args!("  {} of known entries", counted(*values, "deletable value")));
    }
    for (id, refusal) in refused {
        cx.status(format_args!("  {} {id}: {refusal} ({})", paint.bad("refused"), refusal.kind()));
    }
    if *more_refused > 0 {
        cx.status(format_args!("  and {} more", grouped(*more_refused)));
    }
    if *waiting > 0 {
        cx.status(format_args!(
            "  {} not taken, because entries before them are missing. Import the export of a node that has them, too.",
            counted(*waiting, "entry")
        ));
    }
    if *ahead > 0 {
        cx.status(format_args!(
            "  {} not taken, because their clock is more than a minute ahead. Check both clocks, and import them again later.",
            counted(*ahead, "entry")
        ));
    }
    Ok(())
}
