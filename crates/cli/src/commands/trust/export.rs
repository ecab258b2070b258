//! `talaria trust export-ownertrust`

use std::io::Write as _;
use std::process::ExitCode;

use talaria::gnupg::write_ownertrust;
use talaria::store::Access;

use crate::context::Context;
use crate::error::CliError;
use crate::output::OutputArgs;

/// Export owner trust in the format of `gpg --export-ownertrust`
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    output: OutputArgs,
}

pub(super) fn run(args: &Args, cx: &mut Context) -> Result<ExitCode, CliError> {
    let stores = cx.stores(Access::Read)?;
    let mut target = args.output.open(false)?;
    let entries = stores.iter().next().map(|opened| opened.store.web().ownertrusts());
    let entries = entries.transpose().map_err(talaria::Error::from)?.unwrap_or_default();
    target.write_all(write_ownertrust(&entries).as_bytes())?;
    target.keep(false)?;
    let json = serde_json::json!({
        "action": "export_ownertrust", "output": args.output.path, "entries": entries.len(),
    });
    cx.report(args.output.content(), &json)?;
    Ok(ExitCode::SUCCESS)
}
