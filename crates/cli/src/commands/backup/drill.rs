//! `talaria backup drill`

use std::path::Path;
use std::process::ExitCode;

use talaria::backup::{Authority, BackupError, Drill, SnapshotName, Tree, rehearse};

use super::access::AccessArgs;
use super::chosen::ClientArgs;
use super::notices::teller;
use super::place::restore_threads;
use super::progress::with_progress;
use crate::context::{Content, Context};
use crate::error::CliError;
use crate::progress::{grouped, size};
use crate::render::{counted, printable};
use crate::terminal::Paint;

/// Test whether a snapshot can be restored
///
/// Reads everything that a restore would read: the tree, and the content of all files. Every chunk
/// is decrypted and verified, and no file is written. A signed record in the repository keeps the
/// date and the result; `talaria backup list` shows its age.
///
/// The exit status is 5 if something cannot be read.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Snapshot: `latest`, `latest~1` for the one before, or the start of its identifier
    #[arg(value_name = "SNAPSHOT", default_value = "latest")]
    snapshot: String,
    /// Read the content of this share of the files, chosen anew each time, such as 10%
    #[arg(long, value_name = "PERCENT", default_value = "100%", value_parser = parse_sample)]
    sample: u8,
    /// Write no record
    #[arg(long)]
    no_record: bool,
    /// Name of the machine [default: its host name]
    #[arg(long, value_name = "HOST")]
    host: Option<String>,
    #[command(flatten)]
    client: ClientArgs,
    /// Key that signs the record [default: your only key that can read the repository]
    #[arg(long, short = 'u', visible_alias = "local-user", value_name = "KEY")]
    sign_with: Option<String>,
    #[command(flatten)]
    access: AccessArgs,
}

fn parse_sample(text: &str) -> Result<u8, String> {
    let number = text.strip_suffix('%').unwrap_or(text).parse().ok();
    let number = number.filter(|number| (1..=100).contains(number));
    number.ok_or_else(|| "a share is 1% to 100%".into())
}

pub(crate) fn run(args: &Args, place: &Path, cx: &mut Context) -> Result<ExitCode, CliError> {
    // Local copies would hide a damaged storage.
    let mut session = args.access.open_storage(place, cx)?;
    let (listed, reader) =
        session.read(&args.snapshot, args.client.client.as_ref(), cx.now, &mut teller(cx))?;
    // Before hours of work.
    let has_clock = session.repository.clock_behind(cx.now).is_none();
    let signer = if args.no_record || !has_clock {
        None
    } else {
        let wanted = args.sign_with.as_deref();
        Some(args.access.signer(wanted, &session, Authority::Read, cx)?)
    };
    let tree = Tree::new(&reader, listed.snapshot.root);
    let paint = Paint::stderr();
    let tell = |path: &[u8], error: BackupError| {
        let name = if path.is_empty() { "the tree".into() } else { printable(path) };
        cx.status(format_args!("{}: {name}: {error}", paint.bad("Not restorable")));
    };
    let began = std::time::Instant::now();
    let read = with_progress(cx, |progress| {
        rehearse(&tree, args.sample, restore_threads(place), progress, &tell)
    })?;
    let elapsed = u32::try_from(began.elapsed().as_secs()).unwrap_or(u32::MAX);
    let is_recorded = signer.is_some();
    if let Some((mut signer, cert)) = signer {
        let drill = Drill {
            reader: cert.fingerprint(),
            time: cx.now.saturating_add(elapsed),
            host: super::create::host_name(args.host.as_deref()),
            snapshot: SnapshotName::of(&listed),
            sample: args.sample,
            read,
        };
        session.repository.record_drill(&session.keys, &drill, &mut signer)?;
    }
    if cx.json {
        let json = serde_json::json!({
            "action": "backup drill", "id": listed.id.to_string(), "sample": args.sample,
            "entries": read.entries, "files": read.files, "bytes": read.bytes, "failed": read.failed,
            "recorded": is_recorded,
        });
        cx.report(Content::Elsewhere, &json)?;
    } else {
        cx.status(format_args!(
            "Read {} ({}) of snapshot {}, which has {}; {} cannot be restored.",
            counted(read.files, "file"),
            size(read.bytes),
            paint.handle(&listed.id.to_string()[..12]),
            counted(read.entries, "path"),
            grouped(read.failed),
        ));
        if is_recorded {
            cx.status(format_args!("The repository has a record of this drill."));
        } else if !has_clock {
            cx.status(format_args!("It is not recorded, since the clock is wrong."));
        }
    }
    Ok(if read.failed == 0 { ExitCode::SUCCESS } else { ExitCode::from(5) })
}
