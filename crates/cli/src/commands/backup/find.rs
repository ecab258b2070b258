//! `talaria backup find`

use std::io::Write as _;
use std::path::Path;
use std::process::ExitCode;

use talaria::backup::{Found, Listed, PathSelection, find, select};

use super::access::AccessArgs;
use super::chosen::ClientArgs;
use super::ls;
use super::notices::teller;
use super::words::counted_snapshots;
use crate::context::Context;
use crate::error::CliError;
use crate::terminal::{Paint, stdout_columns};

/// Find files in snapshots by their names
///
/// Searches all snapshots that count, oldest first. If a file has the same size, time and owner in
/// several snapshots, it is listed once, with the oldest snapshot and the number of snapshots. A
/// matching folder is listed without its content.
///
/// The exit status is 1 if nothing matches.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Name of a file, or a path if it contains `/`; can contain `*`, `?` and `**`
    #[arg(value_name = "GLOB", required = true)]
    globs: Vec<String>,
    /// Search only this snapshot: `latest`, or the start of its identifier
    #[arg(long, value_name = "SNAPSHOT")]
    snapshot: Option<String>,
    #[command(flatten)]
    client: ClientArgs,
    #[command(flatten)]
    access: AccessArgs,
}

/// The width in columns from which a snapshot and a file share a line.
const WIDE: usize = 120;

pub(crate) fn run(args: &Args, place: &Path, cx: &mut Context) -> Result<ExitCode, CliError> {
    let selection =
        PathSelection::new(&args.globs, &[]).map_err(|error| CliError::Usage(error.to_string()))?;
    let mut session = args.access.open(place, cx)?;
    let client = args.client.client.as_ref();
    let (all, _) = session.snapshots(cx.now, &mut teller(cx))?;
    let searched: Vec<&Listed> = if let Some(name) = &args.snapshot {
        vec![select(&all, name, client)?]
    } else {
        args.client.of(&all).collect()
    };
    let reader = session.reader(cx.now, &mut teller(cx))?;
    let found = find(&reader, searched.iter().copied(), &selection)?;
    let mut out = std::io::BufWriter::new(cx.stdout());
    let paint = Paint::stdout();
    // On a narrow terminal, each file has a line of its own below the snapshot.
    let is_narrow = stdout_columns().is_some_and(|columns| columns < WIDE);
    let between = if is_narrow { "\n  " } else { "  " };
    for Found { entry, first, time, count } in &found {
        if cx.json {
            let mut json = ls::json(entry);
            json["snapshot"] = first.to_string().into();
            json["snapshots"] = (*count).into();
            writeln!(out, "{json}")?;
        } else {
            let id = first.to_string();
            writeln!(
                out,
                "{}  {}  {count:>4}{between}{}",
                paint.handle(&id[..12]),
                talaria::timestamp(*time),
                ls::line(entry, paint)
            )?;
        }
    }
    out.flush()?;
    drop(out);
    if found.is_empty() {
        let among = counted_snapshots(searched.len());
        return Err(CliError::Missing(format!("no path in {among} matches")));
    }
    Ok(ExitCode::SUCCESS)
}
