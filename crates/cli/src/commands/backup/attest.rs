//! `talaria backup attest`

use std::collections::BTreeSet;
use std::path::Path;
use std::process::ExitCode;

use talaria::backup::{Authority, Listed, Role, heads, select};

use super::access::AccessArgs;
use super::chosen::ClientArgs;
use super::notices::teller;
use super::words::counted_snapshots;
use crate::context::{Content, Context};
use crate::error::CliError;

/// Attest that snapshots are genuine, in case the key of their client is revoked
///
/// If the key of a client is revoked as compromised, its snapshots count only if the owner has
/// attested them or a later one of the same chain. Attest the last snapshot of which you are sure
/// that the client made it. Without SNAPSHOT, the newest one of each client is attested. Attest
/// regularly: after a key is compromised it is too late.
///
/// Only the owner can attest.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Snapshot: `latest`, or the start of its identifier [default: the newest one of each client]
    #[arg(value_name = "SNAPSHOT")]
    snapshot: Option<String>,
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
    let chosen: Vec<&Listed> = if let Some(name) = &args.snapshot {
        vec![select(&listed, name, args.client.client.as_ref())?]
    } else {
        let newest: BTreeSet<_> = heads(&listed).into_values().map(|head| head.id).collect();
        args.client.of(&listed).filter(|one| newest.contains(&one.id)).collect()
    };
    let wanted = args.sign_with.as_deref();
    let (mut signer, cert) =
        args.access.signer(wanted, &session, Authority::Role(Role::Admin), cx)?;
    let name = cert.fingerprint();
    let mut count = 0;
    for head in &chosen {
        let by = (&name, &mut signer);
        count += session.repository.attest(&session.keys, &listed, head, by, cx.now)?;
    }
    if cx.json {
        let ids: Vec<_> = chosen.iter().map(|listed| listed.id.to_string()).collect();
        let json = serde_json::json!({
            "action": "backup attest", "heads": ids, "snapshots": count,
        });
        cx.report(Content::Elsewhere, &json)?;
    } else {
        cx.status(format_args!("Attested {}.", counted_snapshots(count)));
    }
    Ok(ExitCode::SUCCESS)
}
