//! `talaria tofu info`

use std::io::Write as _;
use std::ops::ControlFlow;
use std::process::ExitCode;

use serde::Serialize;
use talaria::cert::UserIdContent;
use talaria::store::{Access, Order, Query};
use talaria::trust_models::tofu::History;
use talaria::{TrustModel, day};

use crate::context::Context;
use crate::error::CliError;
use crate::query::parse_query;
use crate::render::json::{conflicts, is_zero};
use crate::render::{counted, printable};
use crate::terminal::Paint;
use crate::trust::TrustArgs;

/// Show TOFU statistics and policies of certificates
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Certificates to show
    #[arg(value_name = "QUERY", required = true, value_parser = parse_query)]
    queries: Vec<Query>,
    #[command(flatten)]
    trust: TrustArgs,
}

#[derive(Serialize)]
struct Info {
    fingerprint: String,
    user_id: String,
    policy: &'static str,
    trust: &'static str,
    conflicts: Vec<String>,
    #[serde(skip_serializing_if = "is_zero")]
    conflicts_left_out: usize,
    signatures: Times,
    encryptions: Times,
}

/// The number and the times of observations.
#[derive(Serialize)]
pub(super) struct Times {
    count: u64,
    first: Option<u32>,
    last: Option<u32>,
    days: u64,
}

impl From<History> for Times {
    fn from(history: History) -> Self {
        let History { count, first, last, days } = history;
        let some = |time| (count > 0).then_some(time);
        Self { count, first: some(first), last: some(last), days }
    }
}

impl Times {
    fn text(&self, what: &str) -> String {
        match (self.first, self.last) {
            (Some(first), Some(last)) => {
                let (first, last) = (day(first), day(last));
                let days = counted(self.days, "day");
                format!("{what}: {} on {days}, from {first} to {last}", self.count)
            }
            _ => format!("{what}: 0"),
        }
    }
}

pub(super) fn run(args: &Args, cx: &mut Context) -> Result<ExitCode, CliError> {
    let stores = cx.stores(Access::Read)?;
    let Some(opened) = stores.iter().next() else { return Ok(ExitCode::FAILURE) };
    let model = args.trust.trust_model.filter(|model| model.is_tofu()).unwrap_or(TrustModel::Tofu);
    let judge = args.trust.settings().with_model(model).judge(&opened.store, false, cx.now)?;
    let mut infos = Vec::new();
    stores.visit(&args.queries, Order::Insertion, cx.now, |opened, row| {
        if !judge.is_of(&opened.store) {
            return Ok(ControlFlow::Continue(()));
        }
        let judged = judge.judge(&row)?;
        for (user_id, judged) in row.summary.user_ids.iter().zip(judged.user_ids) {
            let (UserIdContent::Text(text), Some(decision)) = (&user_id.content, judged.tofu)
            else {
                continue;
            };
            let email = talaria::cert::address::gnupg_name(text);
            let (signatures, encryptions) =
                opened.store.tofu().history(row.summary.fingerprint(), &email)?;
            let (conflicts, conflicts_left_out) = conflicts(&decision);
            infos.push(Info {
                fingerprint: row.summary.fingerprint().to_string(),
                user_id: talaria::cert::user_id::text(text).into_owned(),
                policy: decision.policy.name(),
                trust: judged.level.name(),
                conflicts,
                conflicts_left_out,
                signatures: signatures.into(),
                encryptions: encryptions.into(),
            });
        }
        Ok(ControlFlow::Continue(()))
    })?;
    let mut out = cx.stdout();
    let paint = Paint::stdout();
    for info in &infos {
        if cx.json {
            writeln!(out, "{}", serde_json::to_string(info).map_err(std::io::Error::from)?)?;
            continue;
        }
        let name = paint.strong(printable(info.user_id.as_bytes()));
        writeln!(out, "{} {name}", paint.handle(&info.fingerprint))?;
        writeln!(out, "  policy {}, trust {}", info.policy, info.trust)?;
        writeln!(out, "  {}", info.signatures.text("signatures verified"))?;
        writeln!(out, "  {}", info.encryptions.text("messages encrypted"))?;
        for other in &info.conflicts {
            let conflict = paint.doubtful("conflict");
            writeln!(out, "  {conflict}: the same address is in {other}")?;
        }
        if info.conflicts_left_out > 0 {
            let more = counted(info.conflicts_left_out, "more certificate");
            writeln!(out, "  and in {more}: see talaria tofu conflicts")?;
        }
    }
    Ok(ExitCode::SUCCESS)
}
