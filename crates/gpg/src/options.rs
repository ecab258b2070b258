//! The grammar of GnuPG's command lines: options first, short ones combined (`-qv`, `-oFILE`), long
//! ones with `=` or a second word, and shortened as far as they stay unique. Options end at the
//! first word that is none, or after `--`.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};

/// Whether an option has an argument, and what else GnuPG marks it as.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Takes {
    /// It has none.
    Nothing,
    /// A number.
    Number,
    /// A number that may be hexadecimal.
    Size,
    /// A text or a name.
    Text,
    /// A text, unless the next word begins with `-`.
    Optional,
    /// None: it is a command.
    Command,
    /// None: GnuPG reads the option and does nothing.
    Ignored,
    /// The name of a configuration file.
    File,
    /// None: no configuration file is read.
    NoFile,
    /// None: it is the head of a group in the help.
    Heading,
}

impl Takes {
    fn is_nothing(self) -> bool {
        !matches!(self, Self::Number | Self::Size | Self::Text | Self::Optional | Self::File)
    }

    /// GnuPG's number.
    fn flags(self) -> u32 {
        match self {
            Self::Nothing => 0,
            Self::Number => 1,
            Self::Text => 2,
            Self::Optional => 10,
            Self::Size => 20,
            Self::Ignored => 64,
            Self::Command => 128,
            Self::NoFile => 256,
            Self::File => 258,
            Self::Heading => 512,
        }
    }
}

/// An option of a program.
#[derive(Debug)]
pub(crate) struct Opt<T> {
    /// What it means to the program.
    pub(crate) meaning: T,
    /// The letter; a number above 255 if it has none.
    pub(crate) short: u32,
    /// The name; empty if it has none.
    pub(crate) long: &'static str,
    /// Whether it has an argument.
    pub(crate) takes: Takes,
    /// Its line of the help; `@` for none.
    pub(crate) help: &'static str,
}

/// An option: a row of a table.
pub(crate) const fn opt<T: Copy>(
    meaning: T,
    short: u32,
    long: &'static str,
    takes: Takes,
    help: &'static str,
) -> Opt<T> {
    Opt { meaning, short, long, takes, help }
}

/// An option that was given.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Given<T> {
    /// What it means.
    pub(crate) meaning: T,
    /// Its number, which several names may share.
    pub(crate) short: u32,
    /// Its name.
    pub(crate) long: &'static str,
    /// Its argument as it was given; empty if it has none.
    pub(crate) text: OsString,
    /// Its argument as a number.
    pub(crate) number: i32,
}

/// Why a command line is not understood, as GnuPG writes it.
#[derive(Debug, Eq, PartialEq)]
pub(crate) struct Usage(pub(crate) String);

/// A command line that is being read.
pub(crate) struct Parser<'o, T> {
    options: &'o [Opt<T>],
    words: std::collections::VecDeque<OsString>,
    /// The letters of a word that are still to be read, and the word.
    letters: Option<(Vec<u8>, OsString)>,
    /// The options ended with `--`.
    has_stopped: bool,
}

impl<'o, T: Copy> Parser<'o, T> {
    /// A parser of the words after the name of the program.
    pub(crate) fn new(options: &'o [Opt<T>], words: Vec<OsString>) -> Self {
        Self { options, words: words.into(), letters: None, has_stopped: false }
    }

    /// Whether the options ended with `--`.
    pub(crate) fn has_stopped(&self) -> bool {
        self.has_stopped
    }

    /// The words behind the options.
    pub(crate) fn into_rest(self) -> Vec<OsString> {
        self.words.into()
    }

    /// The next option; `None` behind the last one.
    pub(crate) fn next(&mut self) -> Option<Result<Given<T>, Usage>> {
        if let Some((letters, word)) = self.letters.take() {
            return Some(self.letter(&letters, &word));
        }
        let first = self.words.front()?.as_bytes();
        if first == b"--" {
            self.words.pop_front();
            self.has_stopped = true;
            return None;
        }
        if !first.starts_with(b"-") || first == b"-" {
            return None;
        }
        let word = self.words.pop_front()?;
        match word.as_bytes().strip_prefix(b"--") {
            Some(long) => Some(self.long(long, &word)),
            None => Some(self.letter(&word.as_bytes()[1..], &word)),
        }
    }

    fn long(&mut self, text: &[u8], word: &OsStr) -> Result<Given<T>, Usage> {
        let equals = text.iter().position(|&byte| byte == b'=');
        let (name, value) = match equals {
            Some(at) => (&text[..at], Some(&text[at + 1..])),
            None => (text, None),
        };
        let exact = named(self.options, name);
        let begins = |option: &&Opt<T>| option.long.as_bytes().starts_with(name);
        let mut all = self.options.iter().filter(begins);
        let option = match (exact, all.next()) {
            (Some(option), _) => option,
            (None, Some(first)) if !name.is_empty() => {
                // Several names of one option are no choice.
                let is_same =
                    |other: &Opt<T>| (other.short, other.takes) == (first.short, first.takes);
                if !all.all(is_same) {
                    return Err(Usage(format!("option \"{}\" is ambiguous", shown(word))));
                }
                first
            }
            _ => return Err(invalid(word)),
        };
        if option.takes.is_nothing() {
            return Ok(given(option, OsString::new()));
        }
        let value = match value {
            Some([]) => None,
            Some(value) => Some(OsString::from_vec(value.to_vec())),
            None => self.next_value(option),
        };
        valued(option, value, word)
    }

    fn letter(&mut self, letters: &[u8], word: &OsStr) -> Result<Given<T>, Usage> {
        let Some((&letter, rest)) = letters.split_first() else { return Err(invalid(word)) };
        let found = self.options.iter().find(|option| option.short == u32::from(letter));
        let found = found.or_else(|| {
            // Every program has these.
            let is_help = |option: &&Opt<T>| option.long == "help";
            matches!(letter, b'h' | b'?').then(|| self.options.iter().find(is_help)).flatten()
        });
        let Some(option) = found else { return Err(invalid(word)) };
        if option.takes.is_nothing() {
            if !rest.is_empty() {
                self.letters = Some((rest.to_vec(), word.to_owned()));
            }
            return Ok(given(option, OsString::new()));
        }
        let value = if rest.is_empty() {
            self.next_value(option)
        } else {
            Some(OsString::from_vec(rest.to_vec()))
        };
        valued(option, value, word)
    }

    /// The next word as the argument of an option.
    fn next_value(&mut self, option: &Opt<T>) -> Option<OsString> {
        let begins_with_dash =
            self.words.front().is_some_and(|next| next.as_bytes().starts_with(b"-"));
        let is_option = option.takes == Takes::Optional && begins_with_dash;
        if is_option { None } else { self.words.pop_front() }
    }
}

/// The option with a name.
pub(crate) fn named<'o, T>(options: &'o [Opt<T>], name: &[u8]) -> Option<&'o Opt<T>> {
    let is_meant = |option: &&Opt<T>| !name.is_empty() && option.long.as_bytes() == name;
    options.iter().find(is_meant)
}

/// An option with the rest of its line in a configuration file.
pub(crate) fn from_line<T: Copy>(option: &Opt<T>, rest: &[u8]) -> Result<Given<T>, &'static str> {
    match (option.takes, rest) {
        (takes, []) if takes.is_nothing() || takes == Takes::Optional => {
            Ok(given(option, OsString::new()))
        }
        (takes, _) if takes.is_nothing() => Err("argument not expected"),
        (_, []) => Err("missing argument"),
        (_, value) => Ok(given(option, OsString::from_vec(value.to_vec()))),
    }
}

fn valued<T: Copy>(
    option: &Opt<T>,
    value: Option<OsString>,
    word: &OsStr,
) -> Result<Given<T>, Usage> {
    match value {
        None if option.takes != Takes::Optional => Err(missing(word)),
        value => Ok(given(option, value.unwrap_or_default())),
    }
}

fn given<T: Copy>(option: &Opt<T>, text: OsString) -> Given<T> {
    let number = match option.takes {
        Takes::Number => number(&text.to_string_lossy()),
        _ => 0,
    };
    let &Opt { meaning, short, long, .. } = option;
    Given { meaning, short, long, text, number }
}

/// A word as it stands in messages: the first 50 bytes.
fn shown(word: &OsStr) -> String {
    let bytes = word.as_bytes();
    String::from_utf8_lossy(&bytes[..bytes.len().min(50)]).into_owned()
}

fn invalid(word: &OsStr) -> Usage {
    Usage(format!("invalid option \"{}\"", shown(word)))
}

fn missing(word: &OsStr) -> Usage {
    Usage(format!("missing argument for option \"{}\"", shown(word)))
}

/// A decimal number as the C library reads it: up to the first other character, 0 if there is none
/// before.
fn number(text: &str) -> i32 {
    let text = text.trim_start();
    let (sign, digits) = match text.strip_prefix('-') {
        Some(rest) => (-1, rest),
        None => (1, text.strip_prefix('+').unwrap_or(text)),
    };
    let digits = digits.chars().map_while(|c| c.to_digit(10));
    let value =
        digits.fold(0_i64, |all, digit| all.saturating_mul(10).saturating_add(i64::from(digit)));
    i32::try_from(value.saturating_mul(sign)).unwrap_or(-1)
}

/// The options for `--dump-options`, one a line.
pub(crate) fn dump<T>(options: &[Opt<T>]) -> String {
    let is_listed = |option: &&Opt<T>| !option.long.is_empty() && option.takes != Takes::Ignored;
    options.iter().filter(is_listed).map(|option| format!("--{}\n", option.long)).collect()
}

/// The options for `--dump-option-table`, with their numbers.
pub(crate) fn table<T>(options: &[Opt<T>]) -> String {
    let mut out = String::new();
    for Opt { short, long, takes, help, .. } in options.iter().filter(|o| !o.long.is_empty()) {
        out += &format!("{long}:{short}:{}:{help}:\n", takes.flags());
    }
    out
}

/// The options for the help.
pub(crate) fn help<T>(options: &[Opt<T>]) -> String {
    let mut out = String::new();
    for Opt { short, long, help, .. } in options.iter().filter(|option| option.help != "@") {
        let (argument, text) = match help.strip_prefix('|').and_then(|rest| rest.split_once('|')) {
            Some((argument, text)) => (format!(" {argument}"), text),
            None => (String::new(), *help),
        };
        let letter = char::from_u32(*short).filter(char::is_ascii);
        let letter = letter.map_or("   ".to_owned(), |letter| format!("-{letter},"));
        let names = format!(" {letter} --{long}{argument}");
        out += &format!("{names:<30}{text}\n");
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    const OPTIONS: [Opt<u8>; 5] = [
        Opt { meaning: 1, short: 118, long: "verbose", takes: Takes::Nothing, help: "@" },
        Opt { meaning: 2, short: 111, long: "output", takes: Takes::Text, help: "@" },
        Opt { meaning: 3, short: 500, long: "status-fd", takes: Takes::Number, help: "@" },
        Opt { meaning: 4, short: 501, long: "state", takes: Takes::Nothing, help: "@" },
        Opt { meaning: 5, short: 502, long: "help", takes: Takes::Nothing, help: "@" },
    ];

    type Read = (Vec<(u8, String, i32)>, Result<Vec<String>, String>);

    fn read(line: &str) -> Read {
        let words = line.split(' ').filter(|word| !word.is_empty()).map(Into::into).collect();
        let mut parser = Parser::new(&OPTIONS, words);
        let mut all = Vec::new();
        while let Some(next) = parser.next() {
            match next {
                Ok(Given { meaning, text, number, .. }) => {
                    all.push((meaning, text.into_string().unwrap(), number));
                }
                Err(Usage(why)) => return (all, Err(why)),
            }
        }
        (all, Ok(parser.into_rest().into_iter().map(|word| word.into_string().unwrap()).collect()))
    }

    #[test]
    fn lines_are_read_as_gnupg_reads_them() {
        let none = String::new;
        let rest = |words: &[&str]| Ok(words.iter().map(|&word| word.to_owned()).collect());
        let failed = |why: &str| Err(why.to_owned());
        for (line, all, end) in [
            ("", vec![], rest(&[])),
            ("a -v", vec![], rest(&["a", "-v"])),
            ("- -v", vec![], rest(&["-", "-v"])),
            ("-v -- -v", vec![(1, none(), 0)], rest(&["-v"])),
            (
                "-vvofile x",
                vec![(1, none(), 0), (1, none(), 0), (2, "file".into(), 0)],
                rest(&["x"]),
            ),
            ("-vo file x", vec![(1, none(), 0), (2, "file".into(), 0)], rest(&["x"])),
            ("--out=f --o g", vec![(2, "f".into(), 0), (2, "g".into(), 0)], rest(&[])),
            ("--output -v", vec![(2, "-v".into(), 0)], rest(&[])),
            ("--status-fd -3", vec![(3, "-3".into(), -3)], rest(&[])),
            ("--status=0x10", vec![(3, "0x10".into(), 0)], rest(&[])),
            ("--status-fd x", vec![(3, "x".into(), 0)], rest(&[])),
            ("--verb=3", vec![(1, none(), 0)], rest(&[])),
            ("-h", vec![(5, none(), 0)], rest(&[])),
            ("--sta", vec![], failed("option \"--sta\" is ambiguous")),
            ("--state", vec![(4, none(), 0)], rest(&[])),
            ("--bogus=3 x", vec![], failed("invalid option \"--bogus=3\"")),
            ("-vx", vec![(1, none(), 0)], failed("invalid option \"-vx\"")),
            ("-o", vec![], failed("missing argument for option \"-o\"")),
            ("--output=", vec![], failed("missing argument for option \"--output=\"")),
        ] {
            assert_eq!(read(line), (all, end), "{line}");
        }
    }
}
