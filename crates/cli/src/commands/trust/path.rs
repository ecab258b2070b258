//! `talaria trust path`

use std::io::Write as _;
use std::process::ExitCode;

use serde::Serialize;
use talaria::cert::user_id;
use talaria::store::{Access, Certifier, Certifiers, Query, Row, Store};
use talaria::trust_models::Level;
use talaria::trust_models::tofu::Policy;
use talaria::{Judge, TrustModel, day};

use crate::context::Context;
use crate::error::CliError;
use crate::query::parse_query;
use crate::render::printable;
use crate::render::validity::painted_level_name;
use crate::terminal::Paint;

/// Show why user IDs are valid: the certifications from your own keys to them
///
/// Each line is a certification that counts, with the issuer above the certified user ID. The exit
/// status is 1 if there is no path.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Certificate to find paths to
    #[arg(value_name = "QUERY", value_parser = parse_query)]
    query: Query,
    /// Web of trust to search: that of GnuPG, or that of Sequoia
    #[arg(long, value_enum, default_value_t = ModelArg::Pgp)]
    model: ModelArg,
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum ModelArg {
    /// As in GnuPG: valid certificates with owner trust introduce others
    Pgp,
    /// As in Sequoia: only trust signatures introduce others, and each path has a trust amount
    Wot,
}

/// A step from one of your own keys to a user ID.
#[derive(Serialize)]
struct Step {
    fingerprint: String,
    user_id: Option<String>,
    /// The owner trust, for certificates that certify.
    trust: Option<&'static str>,
    /// The time of its certification of the next step.
    created: Option<u32>,
}

#[derive(Serialize)]
struct PathJson {
    user_id: String,
    level: &'static str,
    /// The trust amount of the path, of 120, in the flow model.
    #[serde(skip_serializing_if = "Option::is_none")]
    amount: Option<u8>,
    steps: Vec<Step>,
}

pub(super) fn run(args: &Args, cx: &mut Context) -> Result<ExitCode, CliError> {
    let stores = cx.stores(Access::Read)?;
    let row = stores.only(&args.query, cx.now)?;
    let Some(opened) = stores.iter().next() else { return Ok(ExitCode::FAILURE) };
    let paths = match args.model {
        ModelArg::Pgp => paths(&opened.store, &row, cx.now),
        ModelArg::Wot => flows(&opened.store, &row, cx.now),
    };
    let paths = paths.map_err(talaria::Error::from)?;
    let mut out = cx.stdout();
    let paint = Paint::stdout();
    for path in &paths {
        if cx.json {
            writeln!(out, "{}", serde_json::to_string(path).map_err(std::io::Error::from)?)?;
            continue;
        }
        let name = paint.strong(printable(path.user_id.as_bytes()));
        write!(out, "[{:^9}] {name}", painted_level_name(path.level, paint))?;
        match path.amount {
            Some(amount) => writeln!(out, " ({amount} of 120)")?,
            None => writeln!(out)?,
        }
        for (at, step) in path.steps.iter().enumerate() {
            write!(out, "{:indent$}", "", indent = 2 + 2 * at)?;
            // The last step is the certificate itself, whose name is above.
            let unnamed = if step.trust.is_some() { "(no user ID)" } else { "" };
            let name = printable(step.user_id.as_deref().unwrap_or(unnamed).as_bytes());
            let line = match (step.trust, step.created) {
                (Some(trust), Some(created)) => {
                    format!("{name} [{trust}] certified on {}", day(created))
                }
                (Some(trust), None) => format!("{name} [{trust}]"),
                _ => name,
            };
            let line = format!("{} {line}", paint.handle(&step.fingerprint));
            writeln!(out, "{}", line.trim_end())?;
        }
        writeln!(out)?;
    }
    if paths.is_empty() {
        cx.status(format_args!(
            "No authentication path leads from your trust roots to {}.",
            row.summary.fingerprint()
        ));
        return Ok(ExitCode::FAILURE);
    }
    Ok(ExitCode::SUCCESS)
}

/// For each user ID, one path through each introducer that counts for it.
fn paths(store: &Store, row: &Row, now: u32) -> Result<Vec<PathJson>, talaria::store::StoreError> {
    let web = store.web().at(now.into())?;
    let Some(standing) = web.standing(store, row.id)? else { return Ok(Vec::new()) };
    let texts: Vec<String> = row
        .summary
        .user_ids
        .iter()
        .map(|id| match &id.content {
            talaria::cert::UserIdContent::Text(text) => user_id::text(text).into_owned(),
            talaria::cert::UserIdContent::Attribute { .. } => "(user attribute)".to_owned(),
        })
        .collect();
    let target = || Step {
        fingerprint: row.summary.fingerprint().to_string(),
        user_id: None,
        trust: None,
        created: None,
    };
    let mut paths = Vec::new();
    if standing.level() == Level::Ultimate {
        let name = |text: &String| PathJson {
            user_id: text.clone(),
            level: Level::Ultimate.name(),
            amount: None,
            steps: vec![target()],
        };
        return Ok(texts.iter().map(name).collect());
    }
    let mut certifiers = store.web().certifiers(now.into())?;
    for certifier in certifiers.of(row.id)? {
        let level = standing.levels.get(certifier.user_id).copied().unwrap_or_default();
        let counts =
            matches!(certifier.introducer.level, Level::Marginal | Level::Full | Level::Ultimate);
        if level <= Level::Undefined || !counts {
            continue;
        }
        let user_id = texts[certifier.user_id].clone();
        let mut steps = lead(store, &certifier, &mut certifiers)?;
        steps.push(target());
        paths.push(PathJson { user_id, level: level.name(), amount: None, steps });
    }
    Ok(paths)
}

/// For each user ID, the paths over which trust flows to it.
fn flows(store: &Store, row: &Row, now: u32) -> Result<Vec<PathJson>, talaria::store::StoreError> {
    let judge = Judge::new(store, TrustModel::Wot, Policy::Auto, false, now)?;
    let judged = judge.judge(row)?;
    let mut found = Vec::new();
    for (at, (user_id, judged)) in row.summary.user_ids.iter().zip(judged.user_ids).enumerate() {
        let text = match &user_id.content {
            talaria::cert::UserIdContent::Text(text) => user_id::text(text).into_owned(),
            talaria::cert::UserIdContent::Attribute { .. } => "(user attribute)".to_owned(),
        };
        for path in judge.paths(row, at)?.paths {
            let mut steps = Vec::new();
            for cert in path.edges.iter().map(|edge| edge.from).chain([row.id]) {
                let step = store.row_by_id(cert)?;
                let Some(step) = step else { continue };
                let name = step.summary.primary_user_id();
                steps.push(Step {
                    fingerprint: step.summary.fingerprint().to_string(),
                    user_id: name.map(|name| user_id::text(name).into_owned()),
                    trust: None,
                    created: None,
                });
            }
            found.push(PathJson {
                user_id: text.clone(),
                level: judged.level.name(),
                amount: Some(path.amount),
                steps,
            });
        }
    }
    Ok(found)
}

/// The steps from an own key to an introducer, and the introducer's certification.
fn lead(
    store: &Store,
    certifier: &Certifier,
    certifiers: &mut Certifiers<'_>,
) -> Result<Vec<Step>, talaria::store::StoreError> {
    let mut steps = Vec::new();
    let mut next = Some(certifier.clone());
    while let Some(certifier) = next {
        let row = store.row_by_id(certifier.cert)?;
        let name = row.as_ref().and_then(|row| row.summary.primary_user_id());
        steps.push(Step {
            fingerprint: row
                .as_ref()
                .map_or_else(String::new, |row| row.summary.fingerprint().to_string()),
            user_id: name.map(|name| user_id::text(name).into_owned()),
            trust: Some(certifier.introducer.level.name()),
            created: Some(certifier.created.seconds()),
        });
        // Only certifiers at a lower depth come into question, so each step is nearer to an own
        // key. The highest owner trust wins, then the lowest depth.
        let depth = certifier.introducer.depth;
        let before = certifiers.of(certifier.cert)?.into_iter();
        next = before.filter(|before| before.introducer.depth < depth).min_by_key(|before| {
            (std::cmp::Reverse(before.introducer.level), before.introducer.depth)
        });
    }
    steps.reverse();
    Ok(steps)
}
