//! `talaria key revoke`

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::ValueEnum;
use talaria::keys::{Revocation, RevocationReason};
use talaria::message::openpgp::Packet;
use talaria::message::openpgp::packet::Signature;
use talaria::message::openpgp::serialize::MarshalInto as _;
use talaria::message::{ArmorWriter, Label};
use talaria::store::Query;

use super::super::parse_query;
use super::{publish_change, writable};
use crate::context::Context;
use crate::error::CliError;
use crate::files::Target;
use crate::keys::unlocker;
use crate::passphrase::PassphraseArgs;

/// Revoke a key, or one of its user IDs
///
/// That cannot be taken back. The revocation goes to the key and to the store; others learn of it when they
/// get the certificate anew. With --output it is only written to a file, and `talaria import` of that file
/// puts it into force.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The key
    #[arg(value_name = "KEY", value_parser = parse_query)]
    query: Query,
    /// Revoke this user ID only: all of it, or a part that no other one has
    #[arg(long, value_name = "USER-ID")]
    user_id: Option<String>,
    /// Why
    #[arg(long, value_enum, default_value_t = ReasonArg::Unspecified)]
    reason: ReasonArg,
    /// Why, in words, for all to read
    #[arg(long, value_name = "TEXT", default_value = "")]
    message: String,
    #[command(flatten)]
    passphrase: PassphraseArgs,
    /// Write the revocation to a file, and change nothing; - is standard output
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
}

/// Reasons for a revocation.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum ReasonArg {
    /// None is given
    Unspecified,
    /// There is a new key
    Superseded,
    /// Somebody else has the secret
    Compromised,
    /// It is not used any more
    Retired,
}

pub(super) fn run(args: &Args, cx: &mut Context) -> Result<ExitCode, CliError> {
    let keys = cx.keys()?;
    // It may be made where there is no store.
    let mut stores = if args.output.is_some() { None } else { Some(writable(cx)?) };
    let mut cert = keys.one(&args.query)?;
    if let Some(stores) = &stores {
        cert = stores.refreshed(cert, cx.now)?;
    }
    let revocation = Revocation {
        user_id: args.user_id.clone(),
        reason: match args.reason {
            ReasonArg::Unspecified => RevocationReason::Unspecified,
            ReasonArg::Superseded => RevocationReason::Superseded,
            ReasonArg::Compromised => RevocationReason::Compromised,
            ReasonArg::Retired => RevocationReason::Retired,
        },
        message: args.message.clone(),
    };
    let mut ask = unlocker(args.passphrase.given()?);
    let signature = keys.revocation(&cert, &mut ask, &revocation, cx.now)?;
    let Some(stores) = &mut stores else {
        write_revocation(&signature, args.output.as_deref())?;
        return Ok(ExitCode::SUCCESS);
    };
    let cert = keys.add(&cert, [signature])?;
    publish_change(&cert, stores, cx)?;
    let what = if args.user_id.is_some() { "a user ID of " } else { "" };
    cx.status(format_args!("Revoked {what}{}.", cert.fingerprint().to_hex()));
    Ok(ExitCode::SUCCESS)
}

/// Writes a revocation as GnuPG writes it: armored as if it were a certificate, which all import.
pub(super) fn write_revocation(signature: &Signature, path: Option<&Path>) -> Result<(), CliError> {
    let bytes = Packet::from(signature.clone()).to_vec().map_err(std::io::Error::other)?;
    let mut target = Target::open(path, false)?;
    let mut armor = ArmorWriter::new(&mut target, Label::PublicKey)?;
    armor.write_all(&bytes)?;
    armor.finish()?;
    target.keep(true)
}
