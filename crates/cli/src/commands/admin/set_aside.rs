//! `talaria admin set-aside`

use std::io::Write as _;
use std::process::ExitCode;

use talaria::day;
use talaria::store::{Access, SetAside, Store};

use crate::confirm::{Unasked, confirm};
use crate::context::{Content, Context};
use crate::error::CliError;
use crate::output::OutputArgs;
use crate::render::counted;

/// List, save or delete the damaged bytes that `talaria check` set aside
///
/// A repair that cannot restore a certificate as it was keeps its damaged bytes: a revocation or a
/// signature by others may be in them that no other copy has. They are never served or exported.
/// Deleting or redacting a certificate deletes them, too.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Numbers of entries [default: all]
    #[arg(value_name = "NUMBER")]
    numbers: Vec<i64>,
    #[command(flatten)]
    output: OutputArgs,
    /// Delete the entries
    #[arg(long, conflicts_with = "output")]
    delete: bool,
    /// Delete without asking
    #[arg(long, short, requires = "delete")]
    yes: bool,
}

pub(super) fn run(args: &Args, cx: &mut Context) -> Result<ExitCode, CliError> {
    let mut stores = cx.stores(if args.delete { Access::Write } else { Access::Read })?;
    let store = stores.writable()?;
    let entries = chosen(store, &args.numbers)?;
    if args.delete {
        return delete(store, &entries, args.yes, cx);
    }
    if args.output.path.is_some() {
        return save(store, &entries, &args.output, cx);
    }
    let mut out = cx.report_stdout();
    for entry in &entries {
        if cx.json {
            let json = serde_json::json!({
                "number": entry.number, "time": entry.time.seconds(),
                "fingerprint": entry.fingerprint.map(|fingerprint| fingerprint.to_string()),
                "bytes": entry.length,
            });
            writeln!(out, "{json}")?;
        } else {
            writeln!(out, "{}", line(entry))?;
        }
    }
    if entries.is_empty() {
        cx.status(format_args!("Nothing is set aside."));
    }
    Ok(ExitCode::SUCCESS)
}

/// The entries with these numbers, or all.
fn chosen(store: &Store, numbers: &[i64]) -> Result<Vec<SetAside>, CliError> {
    let mut entries = store.damage().set_aside()?;
    if let Some(number) =
        numbers.iter().find(|&number| !entries.iter().any(|entry| entry.number == *number))
    {
        return Err(CliError::Missing(format!(
            "{}: no entry {number} is set aside; talaria admin set-aside lists the entries",
            store.path().display()
        )));
    }
    entries.retain(|entry| numbers.is_empty() || numbers.contains(&entry.number));
    Ok(entries)
}

fn line(entry: &SetAside) -> String {
    let name = entry.fingerprint.map_or_else(
        || "(the fingerprint could not be read)".to_owned(),
        |fingerprint| fingerprint.to_string(),
    );
    format!(
        "{}  {}  {name}  {}",
        entry.number,
        day(entry.time.seconds()),
        counted(entry.length, "byte")
    )
}

fn delete(
    store: &mut Store,
    entries: &[SetAside],
    yes: bool,
    cx: &Context,
) -> Result<ExitCode, CliError> {
    if !entries.is_empty() {
        let lines: Vec<String> = entries.iter().map(line).collect();
        let what = format!("This deletes what is set aside:\n  {}", lines.join("\n  "));
        confirm(cx, yes, &what, "Continue?", Unasked::Refuse)?;
    }
    let numbers: Vec<i64> = entries.iter().map(|entry| entry.number).collect();
    let deleted = store.damage_mut().delete_set_aside(&numbers)?;
    if cx.json {
        cx.report(Content::Elsewhere, &serde_json::json!({ "deleted": deleted }))?;
    } else {
        cx.status(format_args!("Deleted {}.", counted(deleted, "entry")));
    }
    Ok(ExitCode::SUCCESS)
}

/// Writes the damaged bytes of the entries one after the other.
fn save(
    store: &Store,
    entries: &[SetAside],
    output: &OutputArgs,
    cx: &Context,
) -> Result<ExitCode, CliError> {
    output.check(None)?;
    let mut target = output.open(true)?;
    let mut bytes = 0;
    for entry in entries {
        // Another process may have deleted the entry since.
        let damaged = store.damage().set_aside_bytes(entry.number)?.unwrap_or_default();
        target.write_all(&damaged)?;
        bytes += damaged.len();
    }
    target.keep(false)?;
    if cx.json {
        let json = serde_json::json!({ "entries": entries.len(), "bytes": bytes });
        cx.report(output.content(), &json)?;
    } else {
        cx.status(format_args!(
            "Saved {} of {}.",
            counted(bytes as u64, "byte"),
            counted(entries.len() as u64, "entry")
        ));
    }
    Ok(ExitCode::SUCCESS)
}
