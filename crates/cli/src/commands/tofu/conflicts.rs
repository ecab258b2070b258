//! `talaria tofu conflicts`

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write as _;
use std::ops::ControlFlow;
use std::process::ExitCode;

use serde::Serialize;
use talaria::TrustModel;
use talaria::cert::{Addressee, Fingerprint, UserIdContent, user_id};
use talaria::store::{Access, Order};

use crate::context::Context;
use crate::error::CliError;
use crate::render::printable;
use crate::trust::TrustArgs;

/// List the addresses that more than one certificate claims, and about which nothing was decided
///
/// Exit status 0, whether there are any or not.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    trust: TrustArgs,
}

#[derive(Serialize)]
struct Conflict {
    email: String,
    certificates: Vec<String>,
}

pub(super) fn run(args: &Args, cx: &mut Context) -> Result<ExitCode, CliError> {
    let stores = cx.stores(Access::Read)?;
    let Some(opened) = stores.iter().next() else { return Ok(ExitCode::SUCCESS) };
    let judge = args.trust.judge_by(TrustModel::Tofu, &opened.store, true, cx.now)?;
    let mut found: BTreeMap<Addressee, BTreeSet<Fingerprint>> = BTreeMap::new();
    stores.visit(&[], Order::Key, cx.now, |opened, row| {
        if !judge.is_of(&opened.store) {
            return Ok(ControlFlow::Continue(()));
        }
        let judged = judge.judge(&row)?;
        for (user_id, judged) in row.summary.user_ids.iter().zip(judged.user_ids) {
            if let (UserIdContent::Text(text), Some(decision)) = (&user_id.content, judged.tofu)
                && !decision.conflicts.is_empty()
            {
                let certificates = found.entry(Addressee::of_user_id(text)).or_default();
                certificates.insert(row.summary.fingerprint());
                certificates.extend(decision.conflicts);
            }
        }
        Ok(ControlFlow::Continue(()))
    })?;
    let mut out = std::io::stdout().lock();
    for (addressee, certificates) in found {
        let email = addressee.as_bytes();
        if cx.json {
            let email = user_id::text(email).into_owned();
            let certificates = certificates.iter().map(ToString::to_string).collect();
            let json = Conflict { email, certificates };
            writeln!(out, "{}", serde_json::to_string(&json).map_err(std::io::Error::from)?)?;
            continue;
        }
        writeln!(out, "{}", printable(email))?;
        for certificate in certificates {
            writeln!(out, "  {certificate}")?;
        }
    }
    Ok(ExitCode::SUCCESS)
}
