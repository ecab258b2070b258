//! `talaria certify`

use std::io::{self, Write};
use std::process::ExitCode;

use serde::Serialize;
use talaria::cert::{UserIdContent, Validity};
use talaria::message::make::{CertifyOptions, Introduction};
use talaria::message::openpgp::packet::UserID;
use talaria::store::{Access, Row};
use talaria::trust_models::Level;
use talaria::trust_models::tofu::Policy;
use talaria::{Certifiable, Certified, Certifier, Judge, Stores, TrustModel, day};

use crate::confirm::{Unasked, confirm};
use crate::context::Context;
use crate::error::CliError;
use crate::expiry::Expiry;
use crate::keys::KeyArgs;
use crate::passphrase::PassphraseArgs;
use crate::render::printable;

/// Certify that a certificate belongs to its user IDs
///
/// Signs user IDs of a certificate with your key, like `gpg --sign-key`. Compare the fingerprint
/// with the certificate's owner first, in person or by phone. The certification is saved in the
/// store, and the web of trust is updated at once.
///
/// If CERT is a fingerprint, all valid user IDs are certified; if it is a whole address or user ID,
/// only the user IDs that match it exactly. On a terminal, talaria asks before it certifies.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Certificate: its fingerprint, or a whole address or user ID
    #[arg(value_name = "CERT")]
    cert: String,
    /// Certify only this user ID, given as its text or its whole address (can be repeated)
    #[arg(long, value_name = "USER-ID")]
    user_id: Vec<String>,
    /// Make a local certification, which is not exported (like gpg --lsign-key)
    #[arg(long)]
    local: bool,
    /// Also trust the owner to certify others (trust signature): 1 for the owner only, 2 for one
    /// more step
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(1..))]
    depth: Option<u8>,
    /// Trust amount: 120 is full, 60 is partial trust [default: 120]
    #[arg(long, value_name = "N", requires = "depth", value_parser = clap::value_parser!(u8).range(1..))]
    amount: Option<u8>,
    /// Expiry: never, a date (2030-12-31), or a time from now (90d, 8w, 6m, 2y)
    #[arg(long, value_name = "WHEN", default_value = "never")]
    expires: Expiry,
    /// Key to certify with [default: your only key]
    #[arg(long, short = 'u', visible_alias = "local-user", value_name = "KEY")]
    with: Option<String>,
    #[command(flatten)]
    keys: KeyArgs,
    #[command(flatten)]
    passphrase: PassphraseArgs,
    /// Certify without asking
    #[arg(long, short)]
    yes: bool,
}

/// The result of certifying, as JSON.
#[derive(Serialize)]
struct Report {
    fingerprint: String,
    certified_by: String,
    local: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    depth: Option<u8>,
    #[serde(skip_serializing_if = "Option::is_none")]
    amount: Option<u8>,
    expires: Option<u32>,
    user_ids: Vec<UserIdReport>,
    /// Other valid user IDs, which were not to be certified.
    left_out: Vec<String>,
}

#[derive(Serialize)]
struct UserIdReport {
    user_id: String,
    /// Whether an equal certification existed before, so that nothing was done.
    before: bool,
    /// The new validity in the web of trust.
    validity: &'static str,
}

pub(crate) fn run(args: &Args, cx: &mut Context) -> Result<ExitCode, CliError> {
    let mut stores = cx.stores(Access::Write)?;
    stores.writable()?;
    let expires = args.expires.at(cx.now);
    if expires.is_some_and(|end| end <= cx.now) {
        return Err(CliError::Usage(
            "the expiry date of a certification must be in the future".into(),
        ));
    }
    let mut says = CertifyOptions::default();
    says.local = args.local;
    says.introduction =
        args.depth.map(|depth| Introduction { depth, amount: args.amount.unwrap_or(120) });
    says.expires = expires;
    let what = stores.certifiable(&args.cert, &args.user_id, cx.rules(), cx.now)?;
    let certifier = args.keys.certifier(args.with.as_deref(), args.passphrase.given()?, cx)?;
    let by = certifier.cert.fingerprint().to_hex();
    if by == what.cert.fingerprint().to_hex() {
        return Err(CliError::Usage(format!(
            "{} is your own key, which needs no certification. Name somebody else's certificate, or another key \
             of yours with --with",
            args.cert
        )));
    }
    announce(&what, &says, &by, cx);
    let question = "Have you compared the fingerprint with its owner? Certify?";
    confirm(cx, args.yes, "", question, Unasked::Proceed)?;
    let Certifier { cert, unlock } = certifier;
    let done = stores.certify(&what, &cert, &says, unlock, cx.now)?;
    if let Some(made) = done.made {
        cx.wait_until(made);
    }
    let name = done.cert.fingerprint().to_hex().parse().map_err(talaria::Error::from)?;
    let row = stores.only(&name, cx.now)?;
    let levels = levels(&stores, &row, cx.now)?;
    let user_ids = done.user_ids.iter().map(|(user_id, certified)| UserIdReport {
        user_id: text(user_id),
        before: *certified == Certified::Before,
        validity: level_of(&row, &levels, user_id).name(),
    });
    let report = Report {
        fingerprint: done.cert.fingerprint().to_hex(),
        certified_by: by,
        local: says.local,
        depth: says.introduction.map(|introduction| introduction.depth),
        amount: says.introduction.map(|introduction| introduction.amount),
        expires,
        user_ids: user_ids.collect(),
        left_out: what.left_out.iter().map(text).collect(),
    };
    write_report(&report, cx)?;
    let best = levels.iter().copied().max().unwrap_or_default();
    if best < Level::Marginal && is_untrusted(&stores, &report.certified_by, cx.now)? {
        cx.status(format_args!(
            "There is no trust root yet. If this key is yours: talaria trust set {} ultimate",
            report.certified_by
        ));
    }
    Ok(ExitCode::SUCCESS)
}

/// Shows the user IDs before they are certified.
fn announce(what: &Certifiable, says: &CertifyOptions, by: &str, cx: &Context) {
    cx.status(format_args!(
        "Certifying user IDs of {} with the key {by}:",
        what.cert.fingerprint().to_hex()
    ));
    for user_id in &what.user_ids {
        cx.status(format_args!("  {}", printable(user_id.value())));
    }
    for user_id in &what.left_out {
        cx.status(format_args!("Not certified: {}", printable(user_id.value())));
    }
    if let Some(Introduction { depth, amount }) = says.introduction {
        cx.status(format_args!(
            "The owner may certify others: trust amount {amount} of 120, depth {depth}."
        ));
    }
    if says.local {
        cx.status(format_args!("The certification is local and is not exported."));
    }
    if let Some(end) = says.expires {
        cx.status(format_args!("It expires on {}.", day(end)));
    }
}

fn write_report(report: &Report, cx: &Context) -> Result<(), CliError> {
    let mut out = cx.stdout();
    if cx.json {
        writeln!(out, "{}", serde_json::to_string(report).map_err(io::Error::from)?)?;
        return Ok(());
    }
    for user_id in &report.user_ids {
        let before = if user_id.before { " (certified before)" } else { "" };
        let text = printable(user_id.user_id.as_bytes());
        writeln!(out, "[{:^9}] {text}{before}", user_id.validity)?;
    }
    Ok(())
}

fn text(user_id: &UserID) -> String {
    String::from_utf8_lossy(user_id.value()).into_owned()
}

/// The validity of a certificate's user IDs in the web of trust of the first store, in canonical
/// order.
fn levels(stores: &Stores, row: &Row, now: u32) -> Result<Vec<Level>, CliError> {
    let Some(first) = stores.iter().next() else { return Ok(Vec::new()) };
    let judge = Judge::new(&first.store, TrustModel::Pgp, Policy::Auto, false, now)?;
    let judged = judge.judge(row)?;
    Ok(judged.user_ids.iter().map(|user_id| user_id.level).collect())
}

fn level_of(row: &Row, levels: &[Level], wanted: &UserID) -> Level {
    let mut user_ids = row.summary.user_ids.iter().zip(levels);
    let found = user_ids.find(|(user_id, _)| match &user_id.content {
        UserIdContent::Text(text) => text == wanted.value(),
        UserIdContent::Attribute { .. } => false,
    });
    found.map(|(_, level)| *level).unwrap_or_default()
}

/// Whether the certifying key lacks full validity, for example because its user has not marked it
/// as his own.
fn is_untrusted(stores: &Stores, by: &str, now: u32) -> Result<bool, CliError> {
    let name = by.parse().map_err(talaria::Error::from)?;
    match stores.only(&name, now) {
        Ok(row) if row.summary.validity(now) == Validity::Valid => {
            let best = levels(stores, &row, now)?.into_iter().max().unwrap_or_default();
            Ok(best < Level::Full)
        }
        Ok(_) | Err(_) => Ok(true),
    }
}
