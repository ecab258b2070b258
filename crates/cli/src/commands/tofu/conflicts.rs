//! `talaria tofu conflicts`

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::io::Write as _;
use std::ops::ControlFlow;
use std::process::ExitCode;

use serde::Serialize;
use talaria::cert::address::gnupg_name;
use talaria::cert::{Addressee, Fingerprint, UserIdContent, user_id};
use talaria::store::{Access, Order, Row};
use talaria::{Opened, TrustModel, day};

use super::info::Times;
use crate::context::Context;
use crate::error::CliError;
use crate::render::validity::seen;
use crate::render::{printable, state, word};
use crate::terminal::Paint;
use crate::trust::TrustArgs;

/// List addresses with several certificates and no decision
///
/// The exit status is 0 whether there are conflicts or not.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    trust: TrustArgs,
}

#[derive(Serialize)]
struct Conflict {
    email: String,
    certificates: Vec<String>,
    /// The certificates with details that help to tell them apart.
    claims: Vec<Claim>,
}

/// A certificate that claims the address.
#[derive(Serialize)]
struct Claim {
    fingerprint: String,
    /// The user ID with the address.
    user_id: String,
    created: u32,
    validity: &'static str,
    #[serde(skip)]
    state: &'static str,
    signatures: Times,
    encryptions: Times,
    #[serde(skip)]
    seen: String,
}

/// The details of a certificate that claims an address.
fn claim(
    opened: &Opened,
    fingerprint: Fingerprint,
    addressee: &Addressee,
    cx: &Context,
) -> Result<Option<Claim>, CliError> {
    let query = fingerprint.to_string().parse().map_err(talaria::Error::from)?;
    let found = opened.store.select(&query, ROWS_MAX).map_err(talaria::Error::from)?.rows;
    let is_it = |row: &Row| row.summary.fingerprint() == fingerprint;
    let Some(row) = found.into_iter().find(is_it) else { return Ok(None) };
    let now = cx.now;
    let row = opened.store.current(row, cx.rules(), now.into()).map_err(talaria::Error::from)?;
    let summary = &row.summary;
    let is_named = |text: &&[u8]| Addressee::of_user_id(text) == *addressee;
    let text = summary.texts().find(is_named).or(summary.primary_user_id()).unwrap_or_default();
    let (signatures, encryptions) = opened
        .store
        .tofu()
        .history(fingerprint, &gnupg_name(text))
        .map_err(talaria::Error::from)?;
    Ok(Some(Claim {
        fingerprint: fingerprint.to_string(),
        user_id: user_id::text(text).into_owned(),
        created: summary.primary.created,
        validity: word(summary.validity(now)),
        state: state(summary.validity(now)),
        seen: seen(&signatures, &encryptions),
        signatures: signatures.into(),
        encryptions: encryptions.into(),
    }))
}

/// The maximum number of certificates examined for a fingerprint, which other certificates can have
/// as a subkey.
const ROWS_MAX: usize = 20;

pub(super) fn run(args: &Args, cx: &mut Context) -> Result<ExitCode, CliError> {
    let stores = cx.stores(Access::Read)?;
    let Some(opened) = stores.iter().next() else { return Ok(ExitCode::SUCCESS) };
    let judge =
        args.trust.settings().with_model(TrustModel::Tofu).judge(&opened.store, true, cx.now)?;
    let mut found: BTreeMap<Addressee, BTreeSet<Fingerprint>> = BTreeMap::new();
    let mut complete: HashSet<Addressee> = HashSet::new();
    stores.visit(&[], Order::Key, cx.now, |opened, row| {
        if !judge.is_of(&opened.store) {
            return Ok(ControlFlow::Continue(()));
        }
        let judged = judge.judge(&row)?;
        for (user_id, judged) in row.summary.user_ids.iter().zip(judged.user_ids) {
            if let (UserIdContent::Text(text), Some(decision)) = (&user_id.content, judged.tofu)
                && !decision.conflicts.is_empty()
            {
                let addressee = Addressee::of_user_id(text);
                let certificates = found.entry(addressee.clone()).or_default();
                certificates.insert(row.summary.fingerprint());
                // If all rivals conflict with one certificate, there are no more.
                if !complete.contains(&addressee) {
                    certificates.extend(decision.conflicts.iter());
                    if decision.conflicts.is_everybody() {
                        complete.insert(addressee);
                    }
                }
            }
        }
        Ok(ControlFlow::Continue(()))
    })?;
    let mut out = cx.stdout();
    let paint = Paint::stdout();
    let is_none = found.is_empty();
    for (addressee, certificates) in found {
        let email = addressee.as_bytes();
        let mut claims = Vec::with_capacity(certificates.len());
        for &certificate in &certificates {
            claims.extend(claim(opened, certificate, &addressee, cx)?);
        }
        if cx.json {
            let email = user_id::text(email).into_owned();
            let certificates = certificates.iter().map(ToString::to_string).collect();
            let json = Conflict { email, certificates, claims };
            writeln!(out, "{}", serde_json::to_string(&json).map_err(std::io::Error::from)?)?;
            continue;
        }
        writeln!(out, "{}", paint.strong(printable(email)))?;
        for Claim { fingerprint, user_id, created, state, seen, .. } in claims {
            let name = printable(user_id.as_bytes());
            writeln!(out, "  {}", paint.handle(fingerprint))?;
            writeln!(out, "      {name}")?;
            writeln!(out, "      {state}, made on {}; {seen}", day(created))?;
        }
    }
    if !is_none && !cx.json {
        cx.status(format_args!(
            "Find out which certificate is the right one. Accept it, and refuse the others:\n  \
             talaria tofu policy FINGERPRINT good\n  talaria tofu policy FINGERPRINT bad"
        ));
    }
    Ok(ExitCode::SUCCESS)
}
