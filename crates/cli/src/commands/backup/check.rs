//! `talaria backup check`

use std::io::Write;
use std::path::Path;
use std::process::ExitCode;

use talaria::backup::{Authority, Checked, Problem, ReadData, Role};

use super::access::AccessArgs;
use super::progress::with_progress;
use super::words::counted_snapshots;
use crate::context::Context;
use crate::error::CliError;
use crate::progress::size;
use crate::render::counted;

/// Check that a repository is complete and unchanged
///
/// Without --read-data, talaria checks signatures, indexes, trees, and the length of every pack.
/// With --read-data it also decrypts every pack and computes the identifier of every chunk.
///
/// With --promote, talaria also reads the packs whose content nobody has confirmed, and signs a
/// confirmation for those that are intact. Other clients can then use their content instead of
/// storing it again. The signing key must belong to a reader with the role "prune".
///
/// The exit status is 4 if anything is wrong.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Read and check all content
    #[arg(long, conflicts_with = "subset")]
    read_data: bool,
    /// Read and check part K of N of the content, such as 1/7
    #[arg(long, value_name = "K/N", value_parser = parse_subset)]
    subset: Option<(u32, u32)>,
    /// Confirm the intact packs of all clients, so that others can use them
    #[arg(long)]
    promote: bool,
    /// With --promote: key to sign with [default: your only key with this role]
    #[arg(
        long,
        short = 'u',
        visible_alias = "local-user",
        value_name = "KEY",
        requires = "promote"
    )]
    sign_with: Option<String>,
    #[command(flatten)]
    access: AccessArgs,
}

fn parse_subset(text: &str) -> Result<(u32, u32), String> {
    let parts = text.split_once('/').and_then(|(k, n)| Some((k.parse().ok()?, n.parse().ok()?)));
    let parts = parts.filter(|(k, n): &(u32, u32)| (1..=*n).contains(k));
    parts.ok_or_else(|| "a subset is K/N with K from 1 to N, such as 1/7".into())
}

/// One line for each problem.
pub(super) fn write_problems(out: &mut impl Write, checked: &Checked) -> std::io::Result<()> {
    for Problem { object, why } in &checked.problems {
        writeln!(out, "{object}: {why}")?;
    }
    if checked.more > 0 {
        writeln!(out, "… and {} more", counted(checked.more, "file"))?;
    }
    Ok(())
}

/// The problems for a program.
pub(super) fn json_problems(checked: &Checked) -> Vec<serde_json::Value> {
    let one =
        |Problem { object, why }: &Problem| serde_json::json!({ "object": object, "why": why });
    checked.problems.iter().map(one).collect()
}

pub(crate) fn run(args: &Args, place: &Path, cx: &mut Context) -> Result<ExitCode, CliError> {
    let session = args.access.open_storage(place, cx)?;
    let read = match (args.read_data, args.subset) {
        (true, _) => ReadData::All,
        (false, Some((part, of))) => ReadData::Subset { part, of },
        (false, None) => ReadData::No,
    };
    let signer = if args.promote {
        Some(args.access.signer(
            args.sign_with.as_deref(),
            &session,
            Authority::Role(Role::Prune),
            cx,
        )?)
    } else {
        None
    };
    let (repository, keys, seen) = (&session.repository, &session.keys, &session.state.heads);
    let checked = with_progress(cx, |progress| match signer {
        None => repository.check(keys, read, seen, progress, cx.now),
        Some((mut signer, cert)) => {
            let by = (&cert.fingerprint(), &mut signer);
            repository.check_and_promote(keys, by, read, seen, progress, cx.now)
        }
    })?;
    let mut out = cx.report_stdout();
    if cx.json {
        let json = serde_json::json!({
            "snapshots": checked.snapshots, "entries": checked.entries, "packs": checked.packs,
            "packs_read": checked.packs_read, "bytes_read": checked.bytes_read,
            "unindexed": checked.unindexed, "problems": json_problems(&checked), "more": checked.more, "promoted": checked.promoted,
        });
        writeln!(out, "{json}")?;
    } else {
        write_problems(&mut out, &checked)?;
        drop(out);
        cx.status(format_args!(
            "Checked {}, {} and {}; {} read ({}).",
            counted_snapshots(usize::try_from(checked.snapshots).unwrap_or(usize::MAX)),
            if checked.entries == 1 {
                "1 entry".into()
            } else {
                format!("{} entries", checked.entries)
            },
            counted(checked.packs, "pack"),
            counted(checked.packs_read, "pack"),
            size(checked.bytes_read),
        ));
        if checked.unindexed > 0 {
            cx.status(format_args!(
                "{} not in any index: left by an interrupted run, and harmless.",
                counted(checked.unindexed, "pack")
            ));
        }
        if args.promote {
            cx.status(format_args!("Signed for {}.", counted(checked.promoted, "pack")));
        }
        if checked.problems.is_empty() {
            let said = match read {
                ReadData::No if args.promote => "No problem found.",
                ReadData::No => {
                    "No problem found. The content of files was not read: --read-data does that."
                }
                ReadData::All => "No problem found.",
                ReadData::Subset { .. } => "No problem found in this part.",
            };
            cx.status(format_args!("{said}"));
        } else {
            cx.status(format_args!("{} found.", counted(checked.problems.len(), "problem")));
        }
    }
    Ok(if checked.problems.is_empty() { ExitCode::SUCCESS } else { ExitCode::from(4) })
}
