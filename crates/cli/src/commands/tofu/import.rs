//! `talaria tofu import`

use std::path::PathBuf;
use std::process::ExitCode;

use talaria::gnupg::{GnupgError, read_tofudb};
use talaria::store::Access;
use talaria::tofu::import_tofu;

use crate::context::{Content, Context};
use crate::error::CliError;
use crate::render::counted;

/// Import TOFU statistics and policies of GnuPG
///
/// Reads a tofu.db, or the folder tofu.d of GnuPG 2.1.10 to 2.1.14, and does not change it.
/// Policies that are set here are kept; signatures recorded in both are counted once.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// File tofu.db or folder tofu.d
    #[arg(value_name = "PATH")]
    path: PathBuf,
}

pub(super) fn run(args: &Args, cx: &mut Context) -> Result<ExitCode, CliError> {
    let database = read_tofudb(&args.path).map_err(|error| match error {
        source @ GnupgError::Damaged { .. } => {
            talaria::Error::Foreign { name: args.path.display().to_string(), source }
        }
        // The others name the file.
        error => error.into(),
    })?;
    let mut stores = cx.stores(Access::Create)?;
    let count = import_tofu(stores.writable()?, database).map_err(talaria::Error::from)?;
    cx.status(format_args!("Imported {}.", counted(count, "binding")));
    cx.report(
        Content::Elsewhere,
        &serde_json::json!({ "action": "import_tofu", "bindings": count }),
    )?;
    Ok(ExitCode::SUCCESS)
}
