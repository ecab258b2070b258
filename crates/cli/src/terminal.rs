//! The terminal: width, lines and pager.

use std::ffi::OsString;
use std::io::{self, IsTerminal as _, Write};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use anstream::ColorChoice;
use clap::ValueEnum;
use talaria::cert::user_id::visible_json;
use unicode_width::{UnicodeWidthChar as _, UnicodeWidthStr as _};

pub(crate) use crate::paint::{Paint, Painted};
use crate::paint::{each_line, harmless};

/// The assumed width of a terminal that does not report its width, in columns.
const COLUMNS: usize = 80;

/// When output has colour.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, ValueEnum)]
pub(crate) enum ColorWhen {
    /// On a terminal, unless `NO_COLOR` is set
    #[default]
    Auto,
    /// Always
    Always,
    /// Never
    Never,
}

impl ColorWhen {
    /// Applies the choice to the whole process.
    pub(crate) fn apply(self) {
        match self {
            Self::Auto => ColorChoice::Auto,
            Self::Always => ColorChoice::Always,
            Self::Never => ColorChoice::Never,
        }
        .write_global();
    }
}

/// The width in columns of the terminal on standard output or standard error.
pub(crate) fn columns() -> usize {
    let asked = rustix::termios::tcgetwinsize(io::stdout())
        .or_else(|_| rustix::termios::tcgetwinsize(io::stderr()));
    match asked.map_or(0, |size| usize::from(size.ws_col)) {
        0 => COLUMNS,
        columns => columns,
    }
}

/// The width in columns of the terminal on standard error; `None` if there is none.
pub(crate) fn stderr_columns() -> Option<usize> {
    if !io::stderr().is_terminal() {
        return None;
    }
    let size =
        rustix::termios::tcgetwinsize(io::stderr()).map_or(0, |size| usize::from(size.ws_col));
    Some(if size == 0 { COLUMNS } else { size })
}

/// The width in columns of the terminal on standard output; `None` if there is none.
pub(crate) fn stdout_columns() -> Option<usize> {
    io::stdout().is_terminal().then(columns)
}

/// The indentation of continued lines beyond that of the first line.
const HANGING: usize = 2;

/// Folds the lines of a text between words so that they fit `columns`. A command that can be pasted
/// stays on one line, and so does a word that is too long. Colour takes no columns. A line that
/// starts with a label and two spaces goes on below the text behind the label.
pub(crate) fn folded(text: &str, columns: usize) -> String {
    let lines: Vec<String> = text.split('\n').map(|line| folded_line(line, columns)).collect();
    lines.join("\n")
}

fn folded_line(line: &str, columns: usize) -> String {
    let content = line.trim_start_matches(' ');
    let indent = line.len() - content.len();
    if visible(line) <= columns {
        return line.to_owned();
    }
    let hanging = indent + label(content).filter(|width| width * 4 <= columns).unwrap_or(HANGING);
    let mut out = " ".repeat(indent);
    let mut used = indent;
    let mut style = String::new();
    let mut is_first = true;
    for unit in units(content) {
        let wide = visible(&unit);
        if is_first {
            used += wide;
        } else if used + 1 + wide <= columns {
            out.push(' ');
            used += 1 + wide;
        } else if unit.is_empty() {
            // More than one space where the line is folded.
            continue;
        } else {
            out.truncate(out.trim_end_matches(' ').len());
            // A pager forgets the colour at the end of the line.
            let reset = if style.is_empty() { "" } else { RESET };
            out.push_str(&format!("{reset}\n{}{style}", " ".repeat(hanging)));
            used = hanging + wide;
        }
        follow(&mut style, &unit);
        out.push_str(&unit);
        is_first = false;
    }
    out
}

/// The width of the label at the start of a line, such as `uid`, with the two or more spaces behind
/// it.
fn label(content: &str) -> Option<usize> {
    let (label, rest) = content.split_once("  ")?;
    let text = rest.trim_start_matches(' ');
    (!label.contains(' ')).then(|| visible(label) + 2 + rest.len() - text.len())
}

/// The escape sequence that ends all colour and weight.
const RESET: &str = "\x1b[0m";

/// Updates the escape sequences that are in force behind `text`.
fn follow(style: &mut String, text: &str) {
    for part in text.split("\x1b[").skip(1) {
        match part.split_once('m') {
            Some(("0", _)) => style.clear(),
            Some((code, _)) => style.push_str(&format!("\x1b[{code}m")),
            None => {}
        }
    }
}

/// The parts of a line that must not be folded: words, commands, and what is in backticks.
fn units(content: &str) -> Vec<String> {
    let mut units: Vec<String> = Vec::new();
    let (mut in_command, mut in_backticks) = (false, false);
    let mut words = content.split(' ').peekable();
    while let Some(word) = words.next() {
        match units.last_mut() {
            Some(unit) if in_command || in_backticks => {
                unit.push(' ');
                unit.push_str(word);
            }
            _ => units.push(word.to_owned()),
        }
        let has_option = words.peek().is_some_and(|next| next.starts_with('-'));
        let starts = match word.trim_start_matches(['`', '(', '\'']) {
            "talaria" => true,
            // The name of a program also stands in sentences.
            "gpg" | "sq" | "fusermount" => has_option,
            _ => false,
        };
        in_command = (in_command || starts) && !word.ends_with(['.', ',', ';', ':', ')', '`']);
        in_backticks ^= word.matches('`').count() % 2 == 1;
    }
    units
}

/// The width of a text in columns without its escape sequences of colour.
fn visible(text: &str) -> usize {
    let mut parts = text.split("\x1b[");
    let first = parts.next().map_or(0, width);
    first
        + parts.map(|part| part.split_once('m').map_or(0, |(_, shown)| width(shown))).sum::<usize>()
}

/// The width of a text in columns.
pub(crate) fn width(text: &str) -> usize {
    text.width()
}

/// A text in at most `columns` columns, with an ellipsis if it was cut.
pub(crate) fn cut(text: &str, columns: usize) -> String {
    if text.width() <= columns {
        return text.to_owned();
    }
    let mut left = columns.saturating_sub(1);
    let mut out = String::new();
    for c in text.chars() {
        let width = c.width().unwrap_or(0);
        if width > left {
            break;
        }
        left -= width;
        out.push(c);
    }
    if columns > 0 {
        out.push('…');
    }
    out
}

/// Use of a pager for long output.
#[derive(Clone, Copy, Debug, Default, clap::Args)]
pub(crate) struct PagerArgs {
    /// Do not start a pager, even if `TALARIA_PAGER` or `PAGER` is set
    #[arg(long)]
    no_pager: bool,
}

/// What standard output is for.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Form {
    /// Text for people: folded between words on a terminal.
    Text,
    /// JSON.
    Json,
    /// A format of other programs, which has escapes of its own.
    Exact,
}

impl Form {
    /// JSON if the user wants it, else text.
    pub(crate) fn json_or_text(json: bool) -> Self {
        if json { Self::Json } else { Self::Text }
    }
}

/// Standard output for lines; through the user's pager if one is set. Characters of others that
/// would have an effect on a terminal are escapes that can be read, in JSON those of JSON.
pub(crate) struct Output {
    sink: Sink,
    form: Form,
    /// The width to which lines are folded.
    columns: Option<usize>,
    /// The start of a line whose end is not known yet.
    line: Vec<u8>,
    /// Text is dropped after the reader has gone.
    needs_no_reader: bool,
}

enum Sink {
    Stdout(io::StdoutLock<'static>),
    Pager(Child),
}

impl PagerArgs {
    /// Opens the output.
    pub(crate) fn open(self, form: Form) -> Output {
        let wanted = form == Form::Text && !self.no_pager && io::stdout().is_terminal();
        let pager = wanted.then(pager).flatten().and_then(|pager| start(&pager).ok());
        let sink = pager.map_or_else(|| Sink::Stdout(io::stdout().lock()), Sink::Pager);
        Output::new(sink, form)
    }
}

impl Output {
    /// Standard output without a pager.
    pub(crate) fn stdout(form: Form) -> Self {
        Self::new(Sink::Stdout(io::stdout().lock()), form)
    }

    fn new(sink: Sink, form: Form) -> Self {
        let columns = if form == Form::Text { stdout_columns() } else { None };
        Self { sink, form, columns, line: Vec::new(), needs_no_reader: false }
    }

    /// The same output, for which it is no error that its reader goes away.
    pub(crate) fn without_reader(mut self) -> Self {
        self.needs_no_reader = true;
        self
    }

    fn may_lose(&self, error: &io::Error) -> bool {
        self.needs_no_reader && error.kind() == io::ErrorKind::BrokenPipe
    }
}

/// The pager command of the user.
fn pager() -> Option<OsString> {
    let set = |name| std::env::var_os(name);
    let pager = set("TALARIA_PAGER").or_else(|| set("PAGER"))?;
    (!pager.is_empty() && pager != "cat").then_some(pager)
}

fn start(pager: &OsString) -> io::Result<Child> {
    let mut command = Command::new("sh");
    command.arg("-c").arg(pager).stdin(Stdio::piped());
    // Show colours, quit if the text fits the screen, and do not clear the screen: git sets the
    // same.
    for (name, value) in [("LESS", "FRX"), ("LV", "-c")] {
        if std::env::var_os(name).is_none() {
            command.env(name, value);
        }
    }
    let child = command.spawn()?;
    // Ignore interrupts here: they are meant for the pager, which must not be left alone with the
    // terminal.
    let _ = signal_hook::flag::register(signal_hook::consts::SIGINT, Arc::<AtomicBool>::default());
    Ok(child)
}

impl Write for Sink {
    fn write(&mut self, data: &[u8]) -> io::Result<usize> {
        match self {
            Self::Stdout(stdout) => stdout.write(data),
            Self::Pager(child) => match &mut child.stdin {
                Some(stdin) => stdin.write(data),
                None => Err(io::ErrorKind::BrokenPipe.into()),
            },
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Stdout(stdout) => stdout.flush(),
            Self::Pager(child) => child.stdin.as_mut().map_or(Ok(()), Write::flush),
        }
    }
}

impl Output {
    /// Writes the lines in `data` that are complete, and keeps the rest.
    fn add(&mut self, data: &[u8]) -> io::Result<()> {
        if self.form == Form::Exact {
            return self.sink.write_all(data);
        }
        let end = data.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        let (lines, rest) = data.split_at(end);
        let written = if lines.is_empty() {
            Ok(())
        } else if self.line.is_empty() {
            self.write_lines(lines)
        } else {
            let mut all = std::mem::take(&mut self.line);
            all.extend_from_slice(lines);
            self.write_lines(&all)
        };
        self.line.extend_from_slice(rest);
        written
    }

    fn write_lines(&mut self, lines: &[u8]) -> io::Result<()> {
        let shown = match self.form {
            Form::Text => each_line(lines, harmless),
            Form::Json => each_line(lines, visible_json),
            Form::Exact => lines.to_vec(),
        };
        let Some(columns) = self.columns else { return self.sink.write_all(&shown) };
        self.sink.write_all(folded(&String::from_utf8_lossy(&shown), columns).as_bytes())
    }
}

impl Write for Output {
    fn write(&mut self, data: &[u8]) -> io::Result<usize> {
        match self.add(data) {
            Err(error) if !self.may_lose(&error) => Err(error),
            _ => Ok(data.len()),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        let line = std::mem::take(&mut self.line);
        match self.write_lines(&line).and_then(|()| self.sink.flush()) {
            Err(error) if self.may_lose(&error) => Ok(()),
            result => result,
        }
    }
}

impl Drop for Output {
    fn drop(&mut self) {
        let _ = self.flush();
        if let Sink::Pager(child) = &mut self.sink {
            drop(child.stdin.take());
            let _ = child.wait();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_cut_by_columns_not_by_characters() {
        assert_eq!(cut("Ωmega", 5), "Ωmega");
        assert_eq!(cut("Ωmega <o@example.org>", 6), "Ωmega…");
        // Each of these characters takes two columns.
        assert_eq!(cut("東京都庁", 5), "東京…");
        assert_eq!(width(&cut("東京都庁", 4)), 3);
        assert_eq!(cut("x", 0), "");
    }

    #[test]
    fn lines_are_folded_between_words_and_commands_stay_whole() {
        assert_eq!(folded("short", 10), "short");
        assert_eq!(folded("one two three\nfour", 8), "one two\n  three\nfour");
        assert_eq!(folded("  one two three", 9), "  one two\n    three");
        let hint = "List it: talaria list bob. Or import it: talaria import FILE, from a server";
        let wanted = "List it:\n  talaria list bob. Or\n  import it:\n  talaria import FILE,\n  from a server";
        assert_eq!(folded(hint, 22), wanted);
        // A word that is too long is left to the terminal.
        let hint = "To copy one: gpg --export-secret-keys KEY | talaria key import -";
        let wanted = "To copy one:\n  gpg --export-secret-keys KEY | talaria key import -";
        assert_eq!(folded(hint, 30), wanted);
        assert_eq!(
            folded("gpg reads `a b c d` as gpg does", 12),
            "gpg reads\n  `a b c d`\n  as gpg\n  does"
        );
        assert_eq!(folded("a abcdefghijkl b", 5), "a\n  abcdefghijkl\n  b");
        let painted = "\x1b[32mvalid\x1b[0m";
        assert_eq!(folded(&format!("{painted} {painted}"), 11), format!("{painted} {painted}"));
        assert_eq!(folded(&format!("{painted} {painted}"), 10), format!("{painted}\n  {painted}"));
        let long = Paint::colored().strong("one two three").to_string();
        assert_eq!(
            folded(&crate::paint::harmless(&long), 7),
            "\x1b[1mone two\x1b[0m\n  \x1b[1mthree\x1b[0m"
        );
        assert_eq!(
            folded("uid   Alice of Wonderland, the second", 24),
            "uid   Alice of\n      Wonderland, the\n      second"
        );
        assert_eq!(folded("one   two   three", 9), "one   two\n  three");
    }

    #[test]
    fn lines_are_folded_when_they_are_complete() {
        let mut out = Output::stdout(Form::Text);
        out.columns = Some(9);
        // Nothing is written before the end of the line is known.
        out.write_all(b"one two").unwrap();
        assert_eq!(out.line, b"one two");
        out.line.clear();
    }
}
