//! `talaria list`

use std::io::{self, Write as _};
use std::ops::ControlFlow;
use std::process::ExitCode;

use clap::ValueEnum;
use talaria::store::{Access, Order, Query};

use super::parse_query;
use crate::context::Context;
use crate::error::CliError;
use crate::gnupg::Release;
use crate::render;
use crate::trust::TrustArgs;

/// List certificates
///
/// All of them, or those that any of the searches names. A line is printed as soon as it is known,
/// however many follow.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Certificates to list [default: all]
    #[arg(value_name = "QUERY", value_parser = parse_query)]
    queries: Vec<Query>,
    /// Print gpg's machine format (GnuPG, doc/DETAILS)
    #[arg(long, conflicts_with = "json")]
    with_colons: bool,
    /// The release of GnuPG whose machine format is written: in 2.4 the subkeys of an expired key expire with
    /// it
    #[arg(long, value_enum, value_name = "RELEASE", default_value_t, requires = "with_colons")]
    gnupg: Release,
    /// Print keygrips as well
    #[arg(long)]
    with_keygrip: bool,
    /// Print signatures as well, with the names of their makers
    #[arg(long, alias = "list-sigs")]
    with_sigs: bool,
    /// Say what is believed of each user ID and why, certificates with conflicts first
    #[arg(long)]
    with_trust: bool,
    /// Print what was seen of each user ID in gpg's machine format, in the models tofu and tofu+pgp
    #[arg(long, requires = "with_colons")]
    with_tofu_info: bool,
    #[command(flatten)]
    trust: TrustArgs,
    /// The order to list in, if there is no search
    #[arg(long, value_enum, default_value_t = By::Added)]
    order: By,
}

/// The order of a listing.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum By {
    /// As they were added
    Added,
    /// By fingerprint
    Key,
    /// By their last change
    Changed,
}

/// Output is written when this much is there, and after the first certificate.
const BUFFER_BYTES: usize = 1 << 16;

pub(crate) fn run(args: &Args, cx: &mut Context) -> Result<ExitCode, CliError> {
    let stores = cx.stores(Access::Read)?;
    let order = match args.order {
        By::Added => Order::Insertion,
        By::Key => Order::Key,
        By::Changed => Order::Change,
    };
    let lines = render::Lines::new(&stores, cx.now, args.with_keygrip, args.with_sigs);
    let mut lines = lines.following(args.gnupg.rules());
    // A listing for programs says what gpg's would; one for people says it where it is asked for.
    // Which certificates are listed when: those with conflicts, those without, or all.
    let mut passes: &[Option<bool>] = &[None];
    let judged = args.with_trust || args.with_colons || args.trust.trust_model.is_some();
    if judged && let Some(opened) = stores.iter().next() {
        let judge = args.trust.judge(&opened.store, args.queries.is_empty(), cx.now)?;
        let conflicts = args.with_trust && judge.model().is_tofu() && !args.with_colons && !cx.json;
        lines =
            lines.judged(judge).with_reasons(args.with_trust).with_tofu_info(args.with_tofu_info);
        passes = if conflicts { &[Some(true), Some(false)] } else { passes };
    }
    let mut out = io::stdout().lock();
    let mut buffer = Vec::with_capacity(2 * BUFFER_BYTES);
    let mut flush_at = 0;
    let mut failed = None;
    let mut result = Ok(());
    for &pass in passes {
        result = stores.visit(&args.queries, order, cx.now, |opened, row| {
            if let Some(wanted) = pass
                && lines.has_conflict(opened, &row)? != wanted
            {
                return Ok(ControlFlow::Continue(()));
            }
            if args.with_colons {
                lines.colons(&mut buffer, opened, &row)?;
            } else if cx.json {
                lines.json(&mut buffer, opened, &row)?;
            } else {
                lines.text(&mut buffer, opened, &row)?;
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
    out.write_all(&buffer)?;
    out.flush()?;
    result?;
    Ok(ExitCode::SUCCESS)
}
