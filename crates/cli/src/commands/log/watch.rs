//! `talaria log watch`

use std::io::Write as _;
use std::path::Path;
use std::process::ExitCode;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::Duration;

use talaria::message::Secrets;
use talaria_log::{Action, EntryId, EpochKeys, Follower, Log};

use super::history;
use super::people::people;
use super::reading::ReadArgs;
use crate::context::Context;
use crate::error::CliError;

/// Time between two looks at the log.
const PAUSE: Duration = Duration::from_millis(100);

/// Print changes as they come
///
/// Prints each new change of an object, or of all, as a line of `talaria log history`, until it is
/// interrupted. Other commands write to the log meanwhile, such as `talaria log serve`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Object: its name, or its identity [default: all]
    #[arg(value_name = "OBJECT")]
    object: Option<String>,
    /// Field [default: all]
    #[arg(value_name = "FIELD")]
    field: Option<String>,
    /// Begin with the changes that are there
    #[arg(long)]
    all: bool,
    #[command(flatten)]
    read: ReadArgs,
}

impl Args {
    /// Whether a change is wanted. The object may come later than the command begins.
    fn wants(&self, log: &Log, id: &EntryId) -> bool {
        let Some(entry) = log.entry(id) else { return false };
        let Action::Data(data) = &entry.action else { return false };
        let is_object = |name: &String| log.find_object(name).is_ok_and(|id| id == data.object);
        self.object.as_ref().is_none_or(is_object)
            && self.field.as_deref().is_none_or(|field| entry.action.field() == field)
    }
}

pub(crate) fn run(args: &Args, folder: &Path, cx: &mut Context) -> Result<ExitCode, CliError> {
    let asked = cx.stop_flag();
    let mut follower = Follower::open(folder)?;
    // An epoch can begin while the command waits.
    let (keys, elsewhere) = args.read.keys.decryption(&args.read.passphrase.given()?, cx)?;
    let keys = EpochKeys::new(Secrets { keys, elsewhere, ..Secrets::default() });
    let mut out = cx.stdout();
    let mut show = |follower: &Follower, ids: &[EntryId]| {
        let lines = follower.read(|log| {
            let people = people(log);
            let ids = ids.iter().filter(|id| args.wants(log, id));
            ids.filter_map(|id| history::line(log, id, &people, &keys, cx)).collect::<Vec<_>>()
        })?;
        lines.iter().try_for_each(|line| writeln!(out, "{line}"))?;
        out.flush()?;
        Ok::<_, CliError>(())
    };
    if args.all {
        let ids = follower.read(|log| log.ids().collect::<Vec<_>>())?;
        show(&follower, &ids)?;
    }
    while !asked.load(Ordering::Relaxed) {
        thread::sleep(PAUSE);
        let came = follower.advance()?;
        if !came.is_empty() {
            show(&follower, &came)?;
        }
    }
    Ok(ExitCode::SUCCESS)
}
