//! Long work with progress.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;

use talaria::backup::{BackupError, BackupProgress};

use crate::context::Context;
use crate::error::CliError;

/// How often the counters are shown, and an interrupt is looked for.
pub(super) const TURN: Duration = Duration::from_millis(100);

/// Runs long work, shows its progress, and cancels it on an interrupt.
pub(super) fn with_progress<T: Send>(
    cx: &Context,
    work: impl FnOnce(&Arc<BackupProgress>) -> Result<T, BackupError> + Send,
) -> Result<T, CliError> {
    let progress = Arc::new(BackupProgress::default());
    cx.long(|monitor| {
        std::thread::scope(|scope| {
            let (done, result) = mpsc::channel();
            let work_progress = &progress;
            let worker = scope.spawn(move || {
                // It is received below.
                let _ = done.send(work(work_progress));
            });
            loop {
                match result.recv_timeout(TURN) {
                    Ok(result) => return Ok(result?),
                    Err(RecvTimeoutError::Timeout) => {}
                    Err(RecvTimeoutError::Disconnected) => break,
                }
                if monitor.stop.load(Ordering::Relaxed) {
                    progress.cancel();
                }
                (monitor.report)(talaria::Progress {
                    bytes: progress
                        .bytes
                        .load(Ordering::Relaxed)
                        .max(progress.read_bytes.load(Ordering::Relaxed)),
                    ..talaria::Progress::default()
                });
            }
            match worker.join() {
                Ok(()) => unreachable!("the work sends a result unless it panics"),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        })
    })
}
