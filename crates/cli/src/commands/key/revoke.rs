//! `talaria key revoke`

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::ValueEnum;
use talaria::keys::{Revocation, RevocationReason, RevocationTarget, revocation};
use talaria::message::openpgp::packet::Signature;
use talaria::message::openpgp::serialize::MarshalInto as _;
use talaria::message::openpgp::{Cert, Packet};
use talaria::message::{ArmorWriter, Label};
use talaria::store::Query;

use super::super::parse_query;
use super::{publish_change, writable, write_key};
use crate::context::Context;
use crate::error::CliError;
use crate::files::Target;
use crate::keys::unlocker;
use crate::passphrase::PassphraseArgs;

/// Revoke a key, one of its subkeys, or one of its user IDs
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
    /// Revoke this subkey only: its fingerprint or key ID
    #[arg(long, value_name = "SUBKEY", value_parser = parse_query, conflicts_with = "user_id")]
    subkey: Option<Query>,
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
    let what = match (&args.user_id, &args.subkey) {
        (Some(user_id), _) => RevocationTarget::UserId(user_id.clone()),
        (None, Some(subkey)) => RevocationTarget::Subkey(subkey.clone()),
        (None, None) => RevocationTarget::Certificate,
    };
    let wanted = Revocation {
        what,
        reason: match args.reason {
            ReasonArg::Unspecified => RevocationReason::Unspecified,
            ReasonArg::Superseded => RevocationReason::Superseded,
            ReasonArg::Compromised => RevocationReason::Compromised,
            ReasonArg::Retired => RevocationReason::Retired,
        },
        message: args.message.clone(),
    };
    let mut ask = unlocker(args.passphrase.given()?, std::slice::from_ref(&cert));
    let made = revocation(&cert, &mut ask, &wanted, cx.now)?;
    let Some(stores) = &mut stores else {
        let packets = match wanted.what {
            RevocationTarget::Certificate => vec![made.signature.into()],
            _ => importable(&cert, made.component, made.signature),
        };
        write_revocation(&packets, args.output.as_deref())?;
        return Ok(ExitCode::SUCCESS);
    };
    let cert = keys.add(&cert, [made.signature])?;
    publish_change(&cert, stores, cx)?;
    let what = match wanted.what {
        RevocationTarget::Certificate => "",
        RevocationTarget::UserId(_) => "a user ID of ",
        RevocationTarget::Subkey(_) => "a subkey of ",
    };
    cx.status(format_args!("Revoked {what}{}.", cert.fingerprint().to_hex()));
    if cx.json {
        write_key(&mut std::io::stdout().lock(), &cert, cx)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// The revocation of a part of a certificate, with what says which part of which certificate it is of.
fn importable(cert: &Cert, component: Option<Packet>, revocation: Signature) -> Vec<Packet> {
    let primary = Packet::from(cert.primary_key().key().clone());
    [Some(primary), component, Some(revocation.into())].into_iter().flatten().collect()
}

/// Writes a revocation as GnuPG writes it: armored as if it were a certificate, which all import.
pub(super) fn write_revocation(packets: &[Packet], path: Option<&Path>) -> Result<(), CliError> {
    let mut target = Target::open(path, false)?;
    let mut armor = ArmorWriter::new(&mut target, Label::PublicKey)?;
    for packet in packets {
        armor.write_all(&packet.to_vec().map_err(std::io::Error::other)?)?;
    }
    armor.finish()?;
    target.keep(true)
}
