//! `talaria tofu export`

use std::path::PathBuf;
use std::process::ExitCode;

use talaria::gnupg::{IfExists, write_tofudb};
use talaria::store::Access;
use talaria::tofu::export_tofu;

use crate::context::{Content, Context};
use crate::error::CliError;
use crate::output::Existing;
use crate::render::counted;

/// Export TOFU statistics and policies as a tofu.db for GnuPG
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// File to write
    #[arg(value_name = "PATH")]
    path: PathBuf,
    /// Replace the file if it exists
    #[arg(long, alias = "replace")]
    overwrite: bool,
}

pub(super) fn run(args: &Args, cx: &mut Context) -> Result<ExitCode, CliError> {
    Existing::with_overwrite(args.overwrite).check(&args.path)?;
    let stores = cx.stores(Access::Read)?;
    let Some(opened) = stores.iter().next() else { return Ok(ExitCode::FAILURE) };
    let database = export_tofu(&opened.store).map_err(talaria::Error::from)?;
    let if_exists = if args.overwrite { IfExists::Replace } else { IfExists::Refuse };
    let left_out = write_tofudb(&args.path, &database, if_exists).map_err(|source| {
        talaria::Error::Foreign { name: args.path.display().to_string(), source }
    })?;
    for left_out in &left_out {
        cx.status(format_args!("Left out: {left_out}"));
    }
    let written = database.bindings.len() - left_out.len();
    cx.status(format_args!("Exported {}.", counted(written, "binding")));
    let left_out: Vec<String> = left_out.iter().map(ToString::to_string).collect();
    let json = serde_json::json!({
        "action": "export_tofu", "output": args.path, "bindings": written, "left_out": left_out,
    });
    cx.report(Content::Elsewhere, &json)?;
    Ok(ExitCode::SUCCESS)
}
