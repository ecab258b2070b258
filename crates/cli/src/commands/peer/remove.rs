//! `talaria peer remove`

use std::process::ExitCode;

use talaria::store::Access;

use super::Target;
use crate::context::Context;
use crate::error::CliError;

/// Take a gossip peer out
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The peer, as `talaria peer list` names it
    #[arg(value_name = "HOST[:PORT]")]
    peer: Target,
}

pub(super) fn run(args: &Args, cx: &mut Context) -> Result<ExitCode, CliError> {
    let mut stores = cx.stores(Access::Write)?;
    if !stores.writable()?.remove_peer(&args.peer.host, args.peer.port)? {
        return Err(CliError::Missing(format!("{} is no peer of the store", args.peer)));
    }
    cx.status(format_args!("Removed {}.", args.peer));
    Ok(ExitCode::SUCCESS)
}
