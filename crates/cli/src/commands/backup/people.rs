//! Giving and taking access.

use std::path::Path;
use std::process::ExitCode;

use talaria::backup::{Authority, Change, Client, Role};
use talaria::message::openpgp::{Cert, Fingerprint};
use talaria::store::{Access, Query};

use super::access::AccessArgs;
use crate::context::{Content, Context};
use crate::error::CliError;
use crate::query::parse_query;

/// A certificate that gets or loses access, and the key that signs the change.
#[derive(Debug, clap::Args)]
pub(crate) struct Person {
    /// Certificate: a fingerprint, or the address of a confirmed certificate
    #[arg(value_name = "CERT", value_parser = parse_query)]
    cert: Query,
    /// Key to sign the change with [default: your only key with this role]
    #[arg(long, short = 'u', visible_alias = "local-user", value_name = "KEY")]
    sign_with: Option<String>,
    #[command(flatten)]
    access: AccessArgs,
}

/// The change that a command makes to a certificate's access.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Action {
    AddReader,
    AddClient,
    Remove,
}

pub(crate) fn change(
    person: &Person,
    action: Action,
    place: &Path,
    cx: &mut Context,
) -> Result<ExitCode, CliError> {
    let Person { cert, sign_with, access } = person;
    let mut session = access.open(place, cx)?;
    let name;
    let (change, fingerprint, said) = if action == Action::Remove {
        name = member(cert, &session, cx)?;
        (None, name.to_hex(), "removed")
    } else {
        let found = entitled(cert, cx)?;
        name = found.fingerprint();
        (Some(found), name.to_hex(), "added")
    };
    let (mut signer, _) =
        access.signer(sign_with.as_deref(), &session, Authority::Role(Role::Admin), cx)?;
    let change = match (&change, action) {
        (Some(cert), Action::AddReader) => Change::AddReader(cert),
        (Some(cert), _) => Change::AddClient(cert),
        (None, _) => Change::Remove(&name),
    };
    session.change(&change, &mut signer, cx.now)?;
    let config = session.repository.config();
    if cx.json {
        let json = serde_json::json!({
            "action": format!("backup {said}"), "certificate": fingerprint,
            "configuration": config.number, "epoch": config.newest_epoch().number,
        });
        cx.report(Content::Elsewhere, &json)?;
        return Ok(ExitCode::SUCCESS);
    }
    match action {
        Action::AddReader => cx.status(format_args!("{fingerprint} can read all snapshots now.")),
        Action::AddClient => {
            cx.status(format_args!("{fingerprint} can create snapshots now, and read no files."));
        }
        Action::Remove => cx.status(format_args!(
            "{fingerprint} cannot read later backups (epoch {}).\n  Earlier backups stay readable \
             for everybody who kept the old keys and has access to the repository.",
            config.newest_epoch().number
        )),
    }
    Ok(ExitCode::SUCCESS)
}

/// The certificate of somebody who gets access: named by a key, or by the address of a confirmed
/// certificate.
pub(super) fn entitled(query: &Query, cx: &Context) -> Result<Cert, CliError> {
    let stores = cx.stores(Access::Read)?;
    let name = stores.signer(query, cx.now)?.fingerprint().to_hex();
    Ok(stores.recipient(&name.parse().map_err(talaria::Error::from)?, cx.rules(), cx.now)?.cert)
}

/// The reader or client that a query names, by a key or by the address of a confirmed certificate.
pub(super) fn member(
    query: &Query,
    session: &Client,
    cx: &Context,
) -> Result<Fingerprint, CliError> {
    session.member(query, || Ok(cx.stores(Access::Read)?.signers(query, cx.now)?))
}
