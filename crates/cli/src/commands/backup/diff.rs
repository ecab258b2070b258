//! `talaria backup diff`

use std::io::Write as _;
use std::path::Path;
use std::process::ExitCode;

use talaria::backup::{Difference, diff};

use super::access::AccessArgs;
use super::chosen::ClientArgs;
use super::notices::teller;
use crate::context::Context;
use crate::error::CliError;
use crate::render::printable;
use crate::terminal::Paint;

/// Show the differences between two snapshots
///
/// A line has `+` for a path that only the second snapshot has, `-` for one that only the first
/// has, `M` for changed content, and `U` for other changes: permissions, owner, time or attributes.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Older snapshot: `latest~1` for the one before the newest, or the start of its identifier
    #[arg(value_name = "OLD")]
    old: String,
    /// Newer snapshot: `latest`, or the start of its identifier
    #[arg(value_name = "NEW", default_value = "latest")]
    new: String,
    #[command(flatten)]
    client: ClientArgs,
    #[command(flatten)]
    access: AccessArgs,
}

pub(crate) fn run(args: &Args, place: &Path, cx: &mut Context) -> Result<ExitCode, CliError> {
    let client = args.client.client.as_ref();
    let mut session = args.access.open(place, cx)?;
    let (old, reader) = session.read(&args.old, client, cx.now, &mut teller(cx))?;
    let (new, _) = session.read(&args.new, client, cx.now, &mut teller(cx))?;
    let mut out = std::io::BufWriter::new(cx.stdout());
    let paint = Paint::stdout();
    diff(&reader, &old.snapshot, &new.snapshot, |difference, path| -> Result<(), CliError> {
        let mark = match difference {
            Difference::Added => '+',
            Difference::Removed => '-',
            Difference::Content => 'M',
            Difference::Meta => 'U',
        };
        if cx.json {
            let path = String::from_utf8_lossy(path);
            let json = serde_json::json!({ "change": mark.to_string(), "path": path });
            writeln!(out, "{json}")?;
        } else {
            let mark = match mark {
                '+' => paint.good(mark),
                '-' => paint.bad(mark),
                _ => paint.doubtful(mark),
            };
            writeln!(out, "{mark} {}", printable(path))?;
        }
        Ok(())
    })?;
    out.flush()?;
    Ok(ExitCode::SUCCESS)
}
