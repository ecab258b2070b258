//! `talaria list`

use std::io::{self, IsTerminal as _, Write as _};
use std::ops::ControlFlow;
use std::process::ExitCode;

use clap::ValueEnum;
use talaria::Bookmark;
use talaria::store::{Access, Order, Query};

use crate::context::Context;
use crate::error::CliError;
use crate::query::parse_query;
use crate::render::lines::Lines;
use crate::render::short::Counts;
use crate::terminal::{Form, PagerArgs, Paint, columns};
use crate::trust::TrustArgs;

/// List certificates
///
/// Lists all certificates, or those that match any QUERY. On a terminal, each has one line: state,
/// key ID, what it can do now (S: sign, E: encrypt, A: authenticate), until when or what is wrong
/// with it, user ID, and the number of further user IDs. The state is `confirmed` (✓) if you, or people whom you trust, have certified the user ID, and `usable` (○)
/// if nobody has: anybody can make such a certificate. Files and pipes get the long form, as with
/// --long. Output starts at once, however large the store is.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Certificates to list [default: all]
    #[arg(value_name = "QUERY", value_parser = parse_query)]
    queries: Vec<Query>,
    /// Output format [default: short on a terminal, otherwise long]
    #[arg(long, value_enum, value_name = "FORMAT", conflicts_with_all = ["json", "with_colons"])]
    format: Option<Format>,
    /// Print keys, fingerprints and all user IDs (same as --format long)
    #[arg(long, short, conflicts_with_all = ["format", "json", "with_colons"])]
    long: bool,
    /// List at most N certificates, and print a token to continue
    #[arg(long, value_name = "N")]
    limit: Option<u64>,
    /// Continue a listing that --limit ended
    #[arg(long, value_name = "TOKEN", conflicts_with = "order")]
    after: Option<Bookmark>,
    /// Print gpg's colon format (GnuPG, doc/DETAILS)
    #[arg(long, conflicts_with = "json")]
    with_colons: bool,
    /// Also print keygrips
    #[arg(long)]
    with_keygrip: bool,
    /// Also print signatures with the names of their issuers
    #[arg(long, alias = "list-sigs")]
    with_sigs: bool,
    /// Also print the validity of each user ID and the reason, certificates with TOFU conflicts
    /// first
    #[arg(long)]
    with_trust: bool,
    /// Also print TOFU statistics in the colon format, for the trust models tofu and tofu+pgp
    #[arg(long, requires = "with_colons")]
    with_tofu_info: bool,
    #[command(flatten)]
    trust: TrustArgs,
    /// Sort order (only without a QUERY)
    #[arg(long, value_enum, default_value_t = By::Added, conflicts_with = "queries")]
    order: By,
    #[command(flatten)]
    pager: PagerArgs,
}

/// The order of a listing.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum By {
    /// By the time of addition
    Added,
    /// By fingerprint
    Key,
    /// By the time of the last change
    Changed,
}

/// Formats of a listing.
#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
enum Format {
    /// One line each
    Short,
    /// Keys, fingerprints and all user IDs
    Long,
    /// One JSON object per line: the same as --json
    Json,
    /// gpg's machine format: the same as --with-colons
    Colons,
}

/// The buffer size in bytes: output is written when the buffer is full, and after the first
/// certificate.
const BUFFER_BYTES: usize = 1 << 16;

/// The width of a short line that is not written to a terminal, in columns.
const WIDE: usize = 200;

impl Args {
    fn format(&self, json: bool, is_terminal: bool) -> Format {
        let wants_more = self.with_sigs || self.with_keygrip || self.with_trust;
        match self.format {
            _ if json => Format::Json,
            Some(format) => format,
            None if self.with_colons => Format::Colons,
            None if self.long || wants_more || !is_terminal => Format::Long,
            None => Format::Short,
        }
    }
}

pub(crate) fn run(args: &Args, cx: &mut Context) -> Result<ExitCode, CliError> {
    let mut stores = cx.stores(Access::Read)?;
    let order = match args.order {
        By::Added => Order::Insertion,
        By::Key => Order::Key,
        By::Changed => Order::Change,
    };
    let is_terminal = io::stdout().is_terminal();
    let format = args.format(cx.json, is_terminal);
    let for_people = matches!(format, Format::Short | Format::Long);
    let columns = if is_terminal { columns() } else { WIDE };
    if format == Format::Colons {
        stores = stores.judged_by(cx.rules_of_gnupg());
    }
    let lines = Lines::new(&stores, cx.now, args.with_keygrip, args.with_sigs);
    let mut lines = lines.following(cx.rules_of_gnupg().gnupg());
    // The order of the listing: certificates with conflicts, then those without; or all at once.
    let mut passes: &[Option<bool>] = &[None];
    // A listing for programs has validity as gpg's has; a listing for people has it on request.
    let judged = args.with_trust || format == Format::Colons || args.trust.trust_model.is_some();
    if judged && let Some(opened) = stores.iter().next() {
        let judge = args.trust.settings().judge(&opened.store, args.queries.is_empty(), cx.now)?;
        let conflicts = args.with_trust && judge.model().is_tofu() && for_people;
        let in_parts = args.limit.is_some() || args.after.is_some();
        lines =
            lines.judged(judge).with_reasons(args.with_trust).with_tofu_info(args.with_tofu_info);
        passes = if conflicts && !in_parts { &[Some(true), Some(false)] } else { passes };
    }
    let mut out = args.pager.open(match format {
        Format::Short | Format::Long => Form::Text,
        Format::Json => Form::Json,
        Format::Colons => Form::Exact,
    });
    let mut buffer = Vec::with_capacity(2 * BUFFER_BYTES);
    let mut flush_at = 0;
    let mut failed = None;
    let mut result = Ok(None);
    let mut counts = Counts::default();
    let mut left = args.limit;
    let mut has_heading = false;
    for &pass in passes {
        result =
            stores.visit_after(args.after.as_ref(), &args.queries, order, cx.now, |opened, row| {
                if let Some(wanted) = pass
                    && lines.has_conflict(opened, &row)? != wanted
                {
                    return Ok(ControlFlow::Continue(()));
                }
                match &mut left {
                    Some(0) => return Ok(ControlFlow::Break(())),
                    Some(left) => *left -= 1,
                    None => {}
                }
                if is_terminal && for_people {
                    lines.count(&mut counts, opened, &row)?;
                }
                match format {
                    Format::Colons => lines.colons(&mut buffer, opened, &row)?,
                    Format::Json => lines.json(&mut buffer, opened, &row)?,
                    Format::Long => lines.text(&mut buffer, opened, &row)?,
                    Format::Short => {
                        if is_terminal && !std::mem::replace(&mut has_heading, true) {
                            lines.short_heading(&mut buffer, columns);
                        }
                        lines.short(&mut buffer, opened, &row, columns)?;
                    }
                }
                if buffer.len() > flush_at {
                    flush_at = BUFFER_BYTES;
                    let written = out.write_all(&buffer).and_then(|()| out.flush());
                    buffer.clear();
                    if let Err(error) = written {
                        failed = Some(error);
                        return Ok(ControlFlow::Break(()));
                    }
                }
                Ok(ControlFlow::Continue(()))
            });
        if failed.is_some() || result.is_err() {
            break;
        }
    }
    failed.map_or(Ok(()), Err)?;
    if is_terminal && for_people && result.is_ok() {
        writeln!(buffer, "{}", counts.text(Paint::stdout()))?;
    }
    out.write_all(&buffer)?;
    if let (Ok(Some(next)), Format::Json) = (&result, format) {
        writeln!(out, "{}", serde_json::json!({ "next": next.to_string() }))?;
    }
    out.flush()?;
    drop(out);
    if let Some(next) = result?
        && format != Format::Json
    {
        cx.status(format_args!("There are more. To continue, add: --after {next}"));
    }
    Ok(ExitCode::SUCCESS)
}
