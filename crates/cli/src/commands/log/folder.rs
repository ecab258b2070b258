//! Opening the folder of a log.

use std::path::Path;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use talaria_log::{LogFolder, Recovered};

use crate::context::Context;
use crate::error::CliError;
use crate::stderr::say;

/// Time in which a process that serves the log lends it.
const LENT: Duration = Duration::from_secs(1);

/// Opens the log in a folder. While another process has it open, waits, and says so if it takes
/// long.
pub(super) fn open(folder: &Path, cx: &Context) -> Result<LogFolder, CliError> {
    let (opened, waits) = mpsc::channel::<()>();
    let (name, quiet) = (folder.display().to_string(), cx.quiet);
    let log = LogFolder::open_when_free(folder, || {
        thread::spawn(move || {
            if waits.recv_timeout(LENT) == Err(RecvTimeoutError::Timeout) && !quiet {
                say(format_args!("Another process has {name} open. Waiting for it."));
            }
        });
    });
    drop(opened);
    let log = log?;
    if log.recovered() == Recovered::Torn {
        cx.status(format_args!(
            "The last write to {} was cut off, and was never reported as stored. It is removed.",
            folder.display()
        ));
    }
    Ok(log)
}
