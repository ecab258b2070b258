//! Standard error: lines for people, and JSON.

use talaria::cert::user_id::visible_json;

use crate::paint::{Paint, each_line, harmless};
use crate::terminal::{folded, stderr_columns};

/// Writes an error to standard error, with the name of the program. An error is one line, because
/// its parts come from others, too.
pub(crate) fn complain(message: std::fmt::Arguments<'_>) {
    let message = message.to_string().replace('\n', r"\n");
    say(format_args!("{}: {message}", Paint::stderr().bad("talaria")));
}

/// Writes lines to standard error, without any effect of others on the terminal. A failure is
/// ignored, because there is no other place to report it; the exit status is the same anyway.
pub(crate) fn say(lines: std::fmt::Arguments<'_>) {
    let lines = each_line(lines.to_string().as_bytes(), harmless);
    let lines = String::from_utf8_lossy(&lines);
    match stderr_columns() {
        Some(columns) => write_line(&folded(&lines, columns)),
        None => write_line(&lines),
    }
}

/// Writes JSON to standard error.
pub(crate) fn say_json(json: &serde_json::Value) {
    write_line(&visible_json(&json.to_string()));
}

fn write_line(line: &str) {
    use std::io::Write as _;

    let _ = writeln!(std::io::stderr(), "{line}");
}
