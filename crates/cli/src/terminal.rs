//! The terminal: width, colour and pager.

use std::ffi::OsString;
use std::fmt::{self, Display};
use std::io::{self, IsTerminal as _, Write};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use anstream::{AutoStream, ColorChoice};
use anstyle::{AnsiColor, Style};
use clap::ValueEnum;
use unicode_width::{UnicodeWidthChar as _, UnicodeWidthStr as _};

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

/// Gives text colour and weight by its meaning, or leaves the text plain if colour is off.
///
/// Only the 16 colours of the terminal's theme are used, so that dark and light backgrounds work.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Paint {
    on: bool,
}

impl Paint {
    /// The painter for standard output.
    pub(crate) fn stdout() -> Self {
        Self { on: AutoStream::choice(&io::stdout()) != ColorChoice::Never }
    }

    /// The painter for standard error.
    pub(crate) fn stderr() -> Self {
        Self { on: AutoStream::choice(&io::stderr()) != ColorChoice::Never }
    }

    /// Whether output has colour.
    pub(crate) fn is_on(self) -> bool {
        self.on
    }

    /// A painter without colour.
    #[cfg(test)]
    pub(crate) fn plain() -> Self {
        Self { on: false }
    }

    /// A trustworthy result.
    pub(crate) fn good<T: Display>(self, text: T) -> Painted<T> {
        self.with(AnsiColor::Green.on_default(), text)
    }

    /// A doubtful result. It is not yellow, which many terminals with a light background show almost as white.
    pub(crate) fn doubtful<T: Display>(self, text: T) -> Painted<T> {
        self.with(AnsiColor::Magenta.on_default(), text)
    }

    /// A result that must not be relied on.
    pub(crate) fn bad<T: Display>(self, text: T) -> Painted<T> {
        self.with(AnsiColor::Red.on_default().bold(), text)
    }

    /// The most important text of a line.
    pub(crate) fn strong<T: Display>(self, text: T) -> Painted<T> {
        self.with(Style::new().bold(), text)
    }

    /// A name that the user can type.
    pub(crate) fn handle<T: Display>(self, text: T) -> Painted<T> {
        self.with(AnsiColor::Cyan.on_default(), text)
    }

    /// Less important text.
    pub(crate) fn faint<T: Display>(self, text: T) -> Painted<T> {
        self.with(Style::new().dimmed(), text)
    }

    fn with<T: Display>(self, style: Style, text: T) -> Painted<T> {
        Painted { style: if self.on { style } else { Style::new() }, text }
    }
}

/// A text with its colour. Width and alignment apply to the text only.
pub(crate) struct Painted<T> {
    style: Style,
    text: T,
}

impl<T: Display> Display for Painted<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.style)?;
        self.text.fmt(f)?;
        write!(f, "{:#}", self.style)
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

/// Folds the lines of a text between words so that they fit `columns`. A command that can be pasted stays on one
/// line, and so does a word that is too long. Colour takes no columns. A line that starts with a label and two spaces
/// goes on below the text behind the label.
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

/// The width of the label at the start of a line, such as `uid`, with the two or more spaces behind it.
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

/// Standard output for lines: folded between words on a terminal, unchanged elsewhere; through the user's pager if one
/// is set.
pub(crate) struct Output {
    sink: Sink,
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
    /// Opens the output. `text` tells whether it is text for people.
    pub(crate) fn open(self, text: bool) -> Output {
        let wanted = text && !self.no_pager && io::stdout().is_terminal();
        let pager = wanted.then(pager).flatten().and_then(|pager| start(&pager).ok());
        let sink = pager.map_or_else(|| Sink::Stdout(io::stdout().lock()), Sink::Pager);
        Output::new(sink, text)
    }
}

impl Output {
    /// Standard output without a pager. `text` tells whether it is text for people.
    pub(crate) fn stdout(text: bool) -> Self {
        Self::new(Sink::Stdout(io::stdout().lock()), text)
    }

    fn new(sink: Sink, text: bool) -> Self {
        let columns = if text { stdout_columns() } else { None };
        Self { sink, columns, line: Vec::new(), needs_no_reader: false }
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
    // Show colours, quit if the text fits the screen, and do not clear the screen: git sets the same.
    for (name, value) in [("LESS", "FRX"), ("LV", "-c")] {
        if std::env::var_os(name).is_none() {
            command.env(name, value);
        }
    }
    let child = command.spawn()?;
    // Ignore interrupts here: they are meant for the pager, which must not be left alone with the terminal.
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
    /// Writes data, with lines folded.
    fn fold(&mut self, data: &[u8]) -> io::Result<()> {
        let Some(columns) = self.columns else { return self.sink.write_all(data) };
        self.line.extend_from_slice(data);
        if let Some(end) = data.iter().rposition(|octet| *octet == b'\n') {
            let rest = self.line.split_off(self.line.len() - (data.len() - end - 1));
            let lines = std::mem::replace(&mut self.line, rest);
            self.sink.write_all(folded(&String::from_utf8_lossy(&lines), columns).as_bytes())?;
        }
        Ok(())
    }
}

impl Write for Output {
    fn write(&mut self, data: &[u8]) -> io::Result<usize> {
        match self.fold(data) {
            Err(error) if !self.may_lose(&error) => Err(error),
            _ => Ok(data.len()),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        let line = std::mem::take(&mut self.line);
        match self.sink.write_all(&line).and_then(|()| self.sink.flush()) {
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
        let painted = Paint { on: true }.good("valid").to_string();
        assert_eq!(folded(&format!("{painted} {painted}"), 11), format!("{painted} {painted}"));
        assert_eq!(folded(&format!("{painted} {painted}"), 10), format!("{painted}\n  {painted}"));
        let long = Paint { on: true }.strong("one two three");
        assert_eq!(folded(&long.to_string(), 7), "\x1b[1mone two\x1b[0m\n  \x1b[1mthree\x1b[0m");
        assert_eq!(
            folded("uid   Alice of Wonderland, the second", 24),
            "uid   Alice of\n      Wonderland, the\n      second"
        );
        assert_eq!(folded("one   two   three", 9), "one   two\n  three");
    }

    #[test]
    fn lines_are_folded_when_they_are_complete() {
        let mut out = Output::stdout(false);
        out.columns = Some(9);
        // Nothing is written before the end of the line is known.
        out.write_all(b"one two").unwrap();
        assert_eq!(out.line, b"one two");
        out.line.clear();
    }

    #[test]
    fn padding_counts_the_columns_of_the_text() {
        let painted = Paint { on: true }.good("valid").to_string();
        assert!(painted.starts_with("\x1b[") && painted.ends_with("valid\x1b[0m"), "{painted:?}");
        let padded = format!("{:^9}", Paint { on: true }.good("valid"));
        assert!(padded.contains("  valid  "), "{padded:?}");
        assert_eq!(format!("{:^9}", Paint::plain().bad("valid")), "  valid  ");
    }
}
