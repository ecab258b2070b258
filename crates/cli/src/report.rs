//! The end of a command that failed: its error in text or JSON, with a hint, and the exit status.

use std::process::ExitCode;
use std::time::Duration;

use crate::error::{CliError, input_name};
use crate::hints::hint;
use crate::outcome::Outcome;
use crate::stderr::{complain, say, say_json};

/// The time that the report of a server's last error may take.
const REPORT_TIME: Duration = Duration::from_secs(1);

impl CliError {
    /// Prints the error with its causes and a hint, and returns the exit status.
    pub(crate) fn report(&self, json: bool) -> ExitCode {
        if self.is_broken_pipe() {
            // The reader of the output has ended, which is no failure.
            return ExitCode::SUCCESS;
        }
        let message = describe(self);
        let outcome = self.outcome();
        if json {
            report_json(outcome, &message, hint(self).as_deref(), self.candidates());
        } else {
            complain(format_args!("{message}"));
            self.candidates().iter().for_each(|line| say(format_args!("  {line}")));
            let hint = hint(self).unwrap_or_default();
            hint.lines().for_each(|line| say(format_args!("  {line}")));
        }
        ExitCode::from(outcome.status)
    }

    /// Like [`Self::report`], but gives up if nobody reads standard error, so that the process ends
    /// in any case.
    pub(crate) fn report_in_time(self, json: bool) -> ExitCode {
        let status = if self.is_broken_pipe() { 0 } else { self.outcome().status };
        let (reported, ended) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            self.report(json);
            let _ = reported.send(());
        });
        let _ = ended.recv_timeout(REPORT_TIME);
        ExitCode::from(status)
    }
}

/// The text of an error with its causes. The name of an input occurs in it only once.
fn describe(error: &CliError) -> String {
    match error {
        CliError::In { name, error } => {
            format!("{}: {}", input_name(name.as_deref()), describe(error))
        }
        error => talaria::describe(error),
    }
}

/// Prints an error as JSON on standard error, because standard output is for results.
pub(crate) fn report_json(
    outcome: Outcome,
    message: &str,
    hint: Option<&str>,
    candidates: &[String],
) {
    say_json(&serde_json::json!({ "error": {
        "kind": outcome.kind, "exit_status": outcome.status, "message": message, "hint": hint, "candidates": candidates,
    } }));
}
