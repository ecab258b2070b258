//! `talaria backup copy`

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use talaria::backup::{CopySource, Listed, select};
use talaria::message::openpgp::Fingerprint;

use super::access::AccessArgs;
use super::chosen::ClientArgs;
use super::notices::teller;
use super::option::parse_fingerprint;
use super::progress::with_progress;
use super::words::counted_snapshots;
use crate::context::{Content, Context};
use crate::error::CliError;
use crate::terminal::Paint;

/// Copy snapshots from another repository
///
/// Reads snapshots of the repository FROM, and writes them to the repository named with --repo,
/// encrypted for its readers. You must be a reader of FROM. You sign the copies, so you need the
/// role `create` in the other repository. Existing content is not stored again, and snapshots that
/// you copied before are skipped, so an interrupted copy continues when you start it again.
///
/// If a snapshot is damaged, talaria names it, copies the others, and ends with exit status 4.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Snapshot to copy: `latest` or the start of an identifier (can be repeated) [default: all
    /// that count]
    #[arg(value_name = "SNAPSHOT")]
    snapshots: Vec<String>,
    /// Repository to copy from: a folder or a URL
    #[arg(long, value_name = "FROM")]
    from: PathBuf,
    /// Fingerprint of the expected owner of FROM
    #[arg(long, value_name = "FINGERPRINT", value_parser = parse_fingerprint)]
    from_owner: Option<Fingerprint>,
    #[command(flatten)]
    client: ClientArgs,
    /// Key that signs the copies [default: your only key that may create snapshots here]
    #[arg(long, short = 'u', visible_alias = "local-user", value_name = "KEY")]
    sign_with: Option<String>,
    #[command(flatten)]
    access: AccessArgs,
}

impl Args {
    /// The place of the repository to copy from.
    pub(super) fn from(&self) -> &Path {
        &self.from
    }

    /// The snapshots that are meant, oldest first.
    fn wanted(&self, listed: &[Listed]) -> Result<Vec<Listed>, CliError> {
        let mut wanted: Vec<Listed> = if self.snapshots.is_empty() {
            self.client.of(listed).cloned().collect()
        } else {
            let client = self.client.client.as_ref();
            let chosen = self.snapshots.iter().map(|name| select(listed, name, client).cloned());
            chosen.collect::<Result<_, _>>()?
        };
        wanted.sort_by_key(|one| (one.snapshot.made(), one.snapshot.number, one.id));
        wanted.dedup_by_key(|one| one.id);
        Ok(wanted)
    }
}

pub(crate) fn run(args: &Args, place: &Path, cx: &mut Context) -> Result<ExitCode, CliError> {
    // The expectations about one repository do not apply to the other.
    let access = AccessArgs {
        owner: args.from_owner.clone(),
        expect_head: Vec::new(),
        ..args.access.clone()
    };
    let mut from = access.open(&args.from, cx)?;
    let (listed, _) = from.snapshots(cx.now, &mut teller(cx))?;
    let wanted = args.wanted(&listed)?;
    let reader = from.reader(cx.now, &mut teller(cx))?;
    let mut session = args.access.open(place, cx)?;
    let (name, signer) = args.access.creator(args.sign_with.as_deref(), &session, cx)?;
    let source =
        CopySource { repository: from.repository.id(), reader: &reader, snapshots: &wanted };
    let threads = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let (repository, keys, state) = (&session.repository, &session.keys, &mut session.state);
    let (client, now) = (name.as_ref().zip(signer), cx.now);
    let copies = with_progress(cx, |progress| {
        repository.copy(keys, client, state, (&source, threads), progress, now)
    })?;
    let paint = Paint::stderr();
    for copied in &copies.copied {
        let Some(original) = &copied.snapshot.original else { continue };
        let (id, first) = (copied.id.to_string(), original.id.to_string());
        if cx.json {
            let json = serde_json::json!({
                "action": "backup copy", "id": id, "number": copied.snapshot.number,
                "original": first, "was_there": copied.was_there,
            });
            cx.report(Content::Elsewhere, &json)?;
        } else {
            cx.status(format_args!(
                "Snapshot {} of {} is a copy of {}{}.",
                paint.handle(&id[..12]),
                talaria::timestamp(original.time),
                paint.handle(&first[..12]),
                if copied.was_there { " (was there)" } else { "" },
            ));
        }
    }
    for (id, error) in &copies.failed {
        cx.status(format_args!("{}: {id}: {error}", paint.bad("Not copied")));
    }
    if !cx.json {
        let new = copies.copied.iter().filter(|copied| !copied.was_there).count();
        cx.status(format_args!("{} copied.", counted_snapshots(new)));
    }
    Ok(if copies.failed.is_empty() { ExitCode::SUCCESS } else { ExitCode::from(4) })
}
