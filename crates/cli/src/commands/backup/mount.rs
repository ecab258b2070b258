//! `talaria backup mount`

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::Ordering;
use std::time::Duration;

use talaria::backup::{BackupError, Listed, Mount, Mounted};

use super::access::AccessArgs;
use super::chosen::ClientArgs;
use super::notices::teller;
use super::words::counted_snapshots;
use crate::context::{Content, Context};
use crate::error::CliError;
use crate::render::printable;
use crate::stderr::say;
use crate::terminal::Paint;

/// How often the command looks whether it has to end.
const TURN: Duration = Duration::from_millis(100);

/// Show snapshots as a read-only folder
///
/// Mounts one snapshot, or a folder for each snapshot that counts, with FUSE. Every chunk is
/// verified before a program sees it. Only you can enter the folder. Set-user-ID bits and devices
/// have no effect in it.
///
/// The command runs until you interrupt it with Ctrl-C, or unmount the folder with `fusermount -u
/// FOLDER`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Snapshot: `latest`, or the start of its identifier [default: all]
    #[arg(value_name = "SNAPSHOT")]
    snapshot: Option<String>,
    /// Folder to mount on; it must be empty
    #[arg(long, short, value_name = "FOLDER")]
    target: PathBuf,
    #[command(flatten)]
    client: ClientArgs,
    #[command(flatten)]
    access: AccessArgs,
}

pub(crate) fn run(args: &Args, place: &Path, cx: &mut Context) -> Result<ExitCode, CliError> {
    let is_empty = std::fs::read_dir(&args.target).map(|mut entries| entries.next().is_none());
    match is_empty {
        Ok(true) => {}
        Ok(false) => {
            let why = format!("{} is not empty: choose another folder", args.target.display());
            return Err(CliError::Usage(why));
        }
        Err(source) => {
            let path = args.target.display().to_string();
            return Err(BackupError::File { path, source }.into());
        }
    }
    let mut session = args.access.open(place, cx)?;
    let client = args.client.client.as_ref();
    let (mounted, reader) = if let Some(name) = &args.snapshot {
        let (listed, reader) = session.read(name, client, cx.now, &mut teller(cx))?;
        (vec![mounted(&listed, String::new())], reader)
    } else {
        let (all, _) = session.snapshots(cx.now, &mut teller(cx))?;
        let mounted = args.client.of(&all).map(|listed| {
            let id = listed.id.to_string();
            mounted(listed, format!("{}-{}", talaria::timestamp(listed.snapshot.time), &id[..8]))
        });
        (mounted.collect(), session.reader(cx.now, &mut teller(cx))?)
    };
    let count = mounted.len();
    let tell = |path: &[u8], error: &BackupError| {
        say(format_args!("{}: {}: {error}", Paint::stderr().bad("Not shown"), printable(path)));
    };
    // A signal between mounting and waiting must unmount, too, and a second one must not end the
    // command before that.
    cx.asking(true, |monitor| -> Result<(), CliError> {
        let mount = Mount::new(reader, mounted, &args.target, Box::new(tell))?;
        if cx.json {
            let target = args.target.display().to_string();
            let json = serde_json::json!({
                "action": "backup mount", "target": target, "snapshots": count,
            });
            cx.report(Content::Elsewhere, &json)?;
        } else {
            cx.status(format_args!(
                "Mounted {} on {}. Press Ctrl-C to unmount.",
                counted_snapshots(count),
                args.target.display()
            ));
        }
        while !monitor.stop.load(Ordering::Relaxed) && !mount.has_ended() {
            std::thread::sleep(TURN);
        }
        mount.unmount().map_err(|source| {
            let path = format!("{} cannot be unmounted", args.target.display());
            CliError::from(BackupError::File { path, source })
        })
    })?;
    Ok(ExitCode::SUCCESS)
}

fn mounted(listed: &Listed, name: String) -> Mounted {
    Mounted { name, root: listed.snapshot.root, time: listed.snapshot.time }
}
