//! `talaria admin redact`

use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt as _;
use std::process::ExitCode;

use talaria::cert::{Redaction, Summary};
use talaria_server::{Access, Command};

use super::action::{Reason, carry_out};
use super::digits::Digits;
use crate::confirm::{Unasked, confirm};
use crate::context::Context;
use crate::error::CliError;
use crate::render::printable;

/// Remove user IDs of a certificate and refuse them from now on
///
/// Keys, subkeys and revocations stay, so that the certificate can still be updated and revoked. On
/// a terminal, talaria shows what it will remove and asks. The store keeps only a digest of removed
/// user IDs. Run `talaria compact` to overwrite their remains in the file. Gossip peers keep their
/// copies.
#[derive(Debug, clap::Args)]
#[command(group = clap::ArgGroup::new("what").required(true))]
pub(super) struct Args {
    /// Fingerprint of the certificate, which need not be in the store
    #[arg(value_name = "FINGERPRINT")]
    fingerprint: Digits,
    /// User ID to remove: its whole text (can be repeated)
    #[arg(long, value_name = "TEXT", group = "what")]
    user_id: Vec<OsString>,
    /// Remove all user IDs and attributes, and refuse new ones
    #[arg(long, group = "what")]
    all: bool,
    /// Remove without asking
    #[arg(long, short)]
    yes: bool,
    #[command(flatten)]
    reason: Reason,
}

pub(super) fn run(args: &Args, cx: &mut Context) -> Result<ExitCode, CliError> {
    let operator = cx.operator(Access::Write)?;
    let fingerprint = args.fingerprint.known(&operator)?;
    let here = operator.summaries(&[fingerprint])?.pop();
    let mut redactions = Vec::new();
    let mut named: Vec<String> =
        args.user_id.iter().map(|text| printable(text.as_bytes())).collect();
    if args.all {
        redactions.push(Redaction::All);
        named.extend(here.iter().flat_map(Summary::texts).map(printable));
    }
    let what = format!("This removes from {fingerprint}:\n  {}", named.join("\n  "));
    confirm(cx, args.yes, &what, "Continue?", Unasked::Proceed)?;
    for text in &args.user_id {
        let body = text.as_bytes();
        if let Some(here) = &here
            && !here.texts().any(|user_id| user_id == body)
        {
            cx.status(format_args!(
                "{fingerprint} has no user ID {:?} now; it will be refused if it arrives.",
                text.to_string_lossy()
            ));
        }
        redactions.push(Redaction::of(body));
    }
    carry_out(&operator, cx, &args.reason, &[fingerprint], &Command::Redact(redactions))
}
