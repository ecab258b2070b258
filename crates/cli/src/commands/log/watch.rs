//! `talaria log watch`

use std::io::Write as _;
use std::path::Path;
use std::process::ExitCode;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::Duration;

use talaria_log::{Action, EntryId, Follower, Log};

use super::{history, people};
use crate::context::Context;
use crate::error::CliError;

/// Time between two looks at the log.
const PAUSE: Duration = Duration::from_millis(100);

/// Print changes as they come
///
/// Prints each new change of an object, or of all, as a line of `talaria log history`, until it is interrupted. Other commands
/// write to the log meanwhile, such as `talaria log serve`.
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
    let mut out = cx.stdout();
    let mut show = |log: &Log, ids: &[EntryId]| {
        if ids.is_empty() {
            return Ok(());
        }
        let people = people(log);
        let lines = ids.iter().filter(|id| args.wants(log, id));
        for line in lines.filter_map(|id| history::line(log, id, &people, cx)) {
            writeln!(out, "{line}")?;
        }
        out.flush()
    };
    if args.all {
        let ids: Vec<EntryId> = follower.log().entries().map(|(id, _)| id).collect();
        show(follower.log(), &ids)?;
    }
    while !asked.load(Ordering::Relaxed) {
        thread::sleep(PAUSE);
        let came = follower.advance()?;
        show(follower.log(), &came)?;
    }
    Ok(ExitCode::SUCCESS)
}
