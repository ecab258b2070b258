//! `talaria trust export-ownertrust`

use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

use talaria::gnupg::write_ownertrust;
use talaria::store::Access;

use crate::context::{Content, Context};
use crate::error::CliError;
use crate::files::Target;

/// Export owner trust in the format of `gpg --export-ownertrust`
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Write to FILE instead of standard output
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
}

pub(super) fn run(args: &Args, cx: &mut Context) -> Result<ExitCode, CliError> {
    let stores = cx.stores(Access::Read)?;
    let mut target = Target::open(args.output.as_deref(), false)?;
    let entries = stores.iter().next().map(|opened| opened.store.ownertrusts());
    let entries = entries.transpose().map_err(talaria::Error::from)?.unwrap_or_default();
    target.write_all(write_ownertrust(&entries).as_bytes())?;
    target.keep(false)?;
    let json = serde_json::json!({
        "action": "export_ownertrust", "output": args.output, "entries": entries.len(),
    });
    cx.report(Content::of(args.output.as_deref()), &json)?;
    Ok(ExitCode::SUCCESS)
}
