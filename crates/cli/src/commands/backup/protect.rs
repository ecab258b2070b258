//! `talaria backup protect`

use std::path::Path;
use std::process::ExitCode;

use talaria::backup::{Authority, BackupError, Role, SnapshotName, select};

use super::access::AccessArgs;
use super::chosen::ClientArgs;
use super::notices::teller;
use crate::context::{Content, Context};
use crate::error::CliError;

/// Protect a snapshot from being forgotten
///
/// Only the owner and signers with the role "admin" can protect snapshots. Nobody can forget a
/// protected snapshot, whatever rules say, until its protection is removed.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Snapshot: `latest`, or the start of its identifier
    #[arg(value_name = "SNAPSHOT")]
    snapshot: String,
    /// Remove the protection
    #[arg(long)]
    remove: bool,
    /// Key to sign with [default: your only key with this role]
    #[arg(long, short = 'u', visible_alias = "local-user", value_name = "KEY")]
    sign_with: Option<String>,
    #[command(flatten)]
    client: ClientArgs,
    #[command(flatten)]
    access: AccessArgs,
}

pub(crate) fn run(args: &Args, place: &Path, cx: &mut Context) -> Result<ExitCode, CliError> {
    let mut session = args.access.open(place, cx)?;
    let (listed, _) = session.snapshots(cx.now, &mut teller(cx))?;
    let listed = select(&listed, &args.snapshot, args.client.client.as_ref())?;
    let (repository, keys) = (&session.repository, &session.keys);
    if args.remove {
        if !repository.unprotect(keys, &listed.id, cx.now)? {
            let why = format!("snapshot {} is not protected", listed.id);
            return Err(BackupError::Refused(why).into());
        }
    } else {
        let wanted = args.sign_with.as_deref();
        let (mut signer, cert) =
            args.access.signer(wanted, &session, Authority::Role(Role::Admin), cx)?;
        let by = (&cert.fingerprint(), &mut signer);
        repository.protect(keys, &SnapshotName::of(listed), by, cx.now)?;
    }
    let id = listed.id.to_string();
    if cx.json {
        let json = serde_json::json!({
            "action": "backup protect", "id": id, "protected": !args.remove,
        });
        cx.report(Content::Elsewhere, &json)?;
    } else {
        let state = if args.remove { "no longer" } else { "now" };
        cx.status(format_args!("Snapshot {} is {state} protected.", &id[..12]));
    }
    Ok(ExitCode::SUCCESS)
}
