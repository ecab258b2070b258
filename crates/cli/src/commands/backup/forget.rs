//! `talaria backup forget`

use std::io::Write as _;
use std::path::Path;
use std::process::ExitCode;

use clap::ValueEnum;
use talaria::backup::{Authority, Fate, ForgetPlan, Grouping, Listed, Retention, Role, ToForget};

use super::access::AccessArgs;
use super::chosen::ClientArgs;
use super::notices::teller;
use super::option::parse_duration;
use super::words::counted_snapshots;
use crate::context::{Content, Context};
use crate::error::CliError;
use crate::render::printable;
use crate::terminal::Paint;

/// Forget snapshots that are no longer needed
///
/// Forgets the named snapshots, or all snapshots that no --keep rule keeps. Each rule applies to
/// each client separately, and there to each host and set of paths (see --group-by). The newest
/// snapshot of each group always stays. A snapshot whose time is in the future, or earlier than
/// that of its predecessor, stays until you name it.
///
/// Forgotten snapshots are no longer listed. Their content stays in the repository until the next
/// prune.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Snapshot: the start of its identifier (can be repeated)
    #[arg(value_name = "SNAPSHOT")]
    snapshots: Vec<String>,
    #[command(flatten)]
    keep: Keep,
    /// Group snapshots by these properties; each rule applies to each group
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "host,paths")]
    group_by: Vec<Property>,
    #[command(flatten)]
    client: ClientArgs,
    /// Show which snapshots would be forgotten, and change nothing
    #[arg(long)]
    dry_run: bool,
    /// Forget them even if a client loses more than half of its snapshots
    #[arg(long, short)]
    yes: bool,
    /// Key to sign with [default: your only key with this role]
    #[arg(long, short = 'u', visible_alias = "local-user", value_name = "KEY")]
    sign_with: Option<String>,
    #[command(flatten)]
    access: AccessArgs,
}

#[derive(Debug, clap::Args)]
#[expect(clippy::struct_field_names, reason = "they are the names of the options")]
struct Keep {
    /// Keep the newest N snapshots
    #[arg(long, value_name = "N", default_value_t = 0, hide_default_value = true)]
    keep_last: u32,
    /// Keep the newest snapshot of each of the last N hours that have one
    #[arg(long, value_name = "N", default_value_t = 0, hide_default_value = true)]
    keep_hourly: u32,
    /// Keep the newest snapshot of each of the last N days that have one
    #[arg(long, value_name = "N", default_value_t = 0, hide_default_value = true)]
    keep_daily: u32,
    /// Keep the newest snapshot of each of the last N weeks that have one
    #[arg(long, value_name = "N", default_value_t = 0, hide_default_value = true)]
    keep_weekly: u32,
    /// Keep the newest snapshot of each of the last N months that have one
    #[arg(long, value_name = "N", default_value_t = 0, hide_default_value = true)]
    keep_monthly: u32,
    /// Keep the newest snapshot of each of the last N years that have one
    #[arg(long, value_name = "N", default_value_t = 0, hide_default_value = true)]
    keep_yearly: u32,
    /// Keep all snapshots that are at most DURATION older than the newest one, such as 12h, 30d or
    /// 8w
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    keep_within: Option<u32>,
    /// Keep all snapshots with this tag (can be repeated)
    #[arg(long, value_name = "TAG")]
    keep_tag: Vec<String>,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
enum Property {
    Host,
    Paths,
    Tags,
    None,
}

impl Keep {
    fn policy(&self) -> Retention {
        Retention {
            last: self.keep_last,
            hourly: self.keep_hourly,
            daily: self.keep_daily,
            weekly: self.keep_weekly,
            monthly: self.keep_monthly,
            yearly: self.keep_yearly,
            within: self.keep_within,
            tags: self.keep_tag.iter().map(|tag| tag.clone().into_bytes()).collect(),
        }
    }
}

pub(crate) fn run(args: &Args, place: &Path, cx: &mut Context) -> Result<ExitCode, CliError> {
    let policy = args.keep.policy();
    if args.snapshots.is_empty() == policy.is_empty() {
        return Err(CliError::Usage(
            "name the snapshots to forget, or rules for those to keep: --keep-last, --keep-daily, …".into(),
        ));
    }
    let has = |property| args.group_by.contains(&property);
    let grouping = Grouping {
        host: has(Property::Host),
        paths: has(Property::Paths),
        tags: has(Property::Tags),
    };
    let wanted = match &args.snapshots[..] {
        [] => ToForget::Unkept(&policy, grouping),
        names => ToForget::Named(names),
    };
    let mut session = args.access.open(place, cx)?;
    let client = args.client.client.as_ref();
    let plan = session.plan_forget(wanted, client, cx.now, &mut teller(cx))?;
    if !plan.fates.is_empty() && !cx.json {
        show(&plan, cx)?;
    }
    let ForgetPlan { names, listed, .. } = &plan;
    if !args.dry_run {
        if !args.yes {
            plan.refuse_halving()?;
        }
        let wanted = args.sign_with.as_deref();
        let authority = Authority::Role(Role::Forget);
        let (mut signer, cert) = args.access.signer(wanted, &session, authority, cx)?;
        let by = (&cert.fingerprint(), &mut signer);
        session.repository.forget(&session.keys, names, by, cx.now)?;
    }
    if cx.json {
        let ids: Vec<String> = plan.ids().iter().map(ToString::to_string).collect();
        let json = serde_json::json!({
            "action": "backup forget", "forgotten": ids, "kept": listed.len() - listed.iter().filter(|l| {
                names.iter().any(|name| name.id == l.id)
            }).count(), "dry_run": args.dry_run,
        });
        cx.report(Content::Elsewhere, &json)?;
    } else if args.dry_run {
        cx.status(format_args!("Would forget {}.", counted_snapshots(names.len())));
    } else if names.is_empty() {
        cx.status(format_args!("Nothing to forget."));
    } else {
        cx.status(format_args!(
            "Forgot {}. The next talaria backup prune frees the space.",
            counted_snapshots(names.len())
        ));
    }
    Ok(ExitCode::SUCCESS)
}

/// A line for each snapshot, with its fate.
fn show(plan: &ForgetPlan, cx: &Context) -> Result<(), CliError> {
    let paint = Paint::stdout();
    let mut out = cx.stdout();
    for Listed { id, snapshot, .. } in &plan.listed {
        let (mark, why) = match &plan.fates[id] {
            Fate::Keep(why) => ("keep  ", why.join(", ")),
            Fate::Forget => ("forget", String::new()),
        };
        let id = id.to_string();
        writeln!(
            out,
            "{mark}  {}  {}  {}  {}",
            paint.handle(&id[..12]),
            talaria::timestamp(snapshot.time),
            printable(&snapshot.host),
            paint.faint(why),
        )?;
    }
    Ok(())
}
