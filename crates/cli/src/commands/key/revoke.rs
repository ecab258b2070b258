//! `talaria key revoke`

use std::io::Write as _;
use std::process::ExitCode;

use clap::ValueEnum;
use talaria::described;
use talaria::keys::{Revocation, RevocationReason, RevocationTarget, revocation};
use talaria::message::openpgp::packet::Signature;
use talaria::message::openpgp::serialize::MarshalInto as _;
use talaria::message::openpgp::{Cert, Packet};
use talaria::message::{ArmorWriter, Label};
use talaria::store::Query;

use super::publish::{publish_change, writable};
use super::report::write_key;
use crate::confirm::{Unasked, confirm};
use crate::context::Context;
use crate::error::CliError;
use crate::keys::unlocker;
use crate::output::{OutputArgs, Target};
use crate::passphrase::PassphraseArgs;
use crate::query::parse_query;
use crate::render::printable;

/// Revoke a key, one of its subkeys, or one of its user IDs
///
/// A revocation cannot be undone. talaria shows what it will revoke and asks. The key and the store
/// are updated; publish the certificate so that others learn of the revocation. With --output, the
/// revocation is only written to a file, and takes effect when that file is imported (`talaria
/// import`).
#[derive(Debug, clap::Args)]
#[command(mut_arg("output", |arg| arg.help("Write the revocation to FILE and do not revoke; - for standard output")))]
pub(super) struct Args {
    /// Key to revoke
    #[arg(value_name = "KEY", value_parser = parse_query)]
    query: Query,
    /// Revoke only this user ID, given as its whole text or its address
    #[arg(long, value_name = "USER-ID")]
    user_id: Option<String>,
    /// Revoke only this subkey, given by fingerprint or key ID
    #[arg(long, value_name = "SUBKEY", value_parser = parse_query, conflicts_with = "user_id")]
    subkey: Option<Query>,
    /// Reason code
    #[arg(long, value_enum, default_value_t = ReasonArg::Unspecified)]
    reason: ReasonArg,
    /// Public comment stored in the revocation
    #[arg(long, value_name = "TEXT", default_value = "")]
    message: String,
    #[command(flatten)]
    passphrase: PassphraseArgs,
    #[command(flatten)]
    output: OutputArgs,
    /// Revoke without asking
    #[arg(long, short)]
    yes: bool,
}

/// Reasons for a revocation.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum ReasonArg {
    /// No reason given
    Unspecified,
    /// Replaced by a new key
    Superseded,
    /// The secret key is known to somebody else
    Compromised,
    /// No longer used
    Retired,
}

pub(super) fn run(args: &Args, cx: &mut Context) -> Result<ExitCode, CliError> {
    args.output.check(None)?;
    let keys = cx.keys()?;
    // With --output, a revocation can be made without a store.
    let mut stores = if args.output.path.is_some() { None } else { Some(writable(cx)?) };
    let mut cert = keys.one(&args.query)?;
    if let Some(stores) = &stores {
        cert = stores.refreshed(cert, cx.now)?;
    }
    let what = match (&args.user_id, &args.subkey) {
        (Some(user_id), _) => RevocationTarget::user_id(&cert, user_id)?,
        (None, Some(subkey)) => RevocationTarget::subkey(&cert, subkey)?,
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
    let named = match &wanted.what {
        RevocationTarget::Certificate => format!("the key {}", described(&cert)),
        RevocationTarget::UserId(user_id) => {
            format!("the user ID \"{}\" of {}", printable(user_id.value()), cert.fingerprint())
        }
        RevocationTarget::Subkey(subkey) => {
            format!("the subkey {} of {}", subkey.fingerprint(), described(&cert))
        }
    };
    if stores.is_some() {
        let what = format!("This revokes {named}. A revocation cannot be undone.");
        confirm(cx, args.yes, &what, "Revoke it?", Unasked::Refuse)?;
    }
    let mut ask = unlocker(args.passphrase.given()?, std::slice::from_ref(&cert));
    let made = revocation(&cert, &mut ask, &wanted, cx.now)?;
    let Some(stores) = &mut stores else {
        let packets = match wanted.what {
            RevocationTarget::Certificate => vec![made.signature.into()],
            _ => importable(&cert, made.component, made.signature),
        };
        written_revocation(&packets, args.output.open(false)?)?.keep(true)?;
        let json = serde_json::json!({
            "action": "write_revocation", "output": args.output.path,
            "fingerprint": cert.fingerprint().to_hex(),
        });
        cx.report(args.output.content(), &json)?;
        return Ok(ExitCode::SUCCESS);
    };
    let cert = keys.add(&cert, [made.signature])?;
    publish_change(&cert, stores, cx)?;
    cx.status(format_args!("Revoked {named}."));
    if cx.json {
        write_key(&mut cx.stdout(), &cert, cx)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// A revocation with the packets that identify the revoked certificate or part.
fn importable(cert: &Cert, component: Option<Packet>, revocation: Signature) -> Vec<Packet> {
    let primary = Packet::from(cert.primary_key().key().clone());
    [Some(primary), component, Some(revocation.into())].into_iter().flatten().collect()
}

/// Writes a revocation as GnuPG does: armored as a public key block, which every program imports. A
/// file is complete, and has no name yet.
pub(super) fn written_revocation(
    packets: &[Packet],
    mut target: Target,
) -> Result<Target, CliError> {
    let mut armor = ArmorWriter::new(&mut target, Label::PublicKey)?;
    for packet in packets {
        armor.write_all(&packet.to_vec().map_err(std::io::Error::other)?)?;
    }
    armor.finish()?;
    Ok(target)
}
