//! The configuration files of gpg: which are read, and the options in their lines.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::Read as _;
use std::os::unix::ffi::OsStringExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::Access;

use crate::gpg::handover::Reason;
use crate::gpg::table::{Meaning, OPTIONS};
use crate::options::{self, Given};

/// The configuration of the machine.
const SYSTEM: &str = "/etc/gnupg/gpg.conf";

/// The configuration in the home directory: the first that may be read.
const NAMES: [&str; 4] = ["gpg.conf-2.2.40", "gpg.conf-2.2", "gpg.conf-2", "gpg.conf"];

/// The longest keyword that gpg reads, in bytes.
const KEYWORD_BYTES_MAX: usize = 99;

/// More is not read of a file.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// Which file the user asked for.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum Choice {
    /// That of the home directory.
    Home,
    /// None.
    None,
    /// This one.
    File(OsString),
}

/// An option in a line of a configuration file.
#[derive(Clone, Debug)]
pub(crate) struct Line {
    /// The file and the number of the line: `/home/alice/.gnupg/gpg.conf:7`.
    pub(crate) place: String,
    /// The option.
    pub(crate) given: Given<Meaning>,
}

/// The options of all configuration files, in their order.
///
/// # Errors
///
/// [`Reason`] if a line is not understood, with its place.
pub(crate) fn lines(home: &Path, choice: &Choice) -> Result<Vec<Line>, Reason> {
    let mut lines = Vec::new();
    if let Ok(text) = read(Path::new(SYSTEM)) {
        add(&mut lines, Path::new(SYSTEM), &text)?;
    }
    match choice {
        Choice::None => {}
        Choice::Home => {
            let may_read = |path: &PathBuf| rustix::fs::access(path, Access::READ_OK).is_ok();
            let path = NAMES.iter().map(|name| home.join(name)).find(may_read);
            if let Some((path, text)) = path
                .and_then(|path| Some((read(&path).ok()?, path)))
                .map(|(text, path)| (path, text))
            {
                add(&mut lines, &path, &text)?;
            }
        }
        Choice::File(name) => {
            let path = Path::new(name);
            let text = read(path).map_err(|error| {
                let why = crate::code::Code::system(&error);
                Reason::Usage(format!("option file '{}': {}", path.display(), why.text()))
            })?;
            if !path.starts_with(home) && !is_safe(path) {
                return Err(Reason::Needed(format!("a warning about '{}'", path.display())));
            }
            add(&mut lines, path, &text)?;
        }
    }
    Ok(lines)
}

fn read(path: &Path) -> std::io::Result<Vec<u8>> {
    let mut text = Vec::new();
    File::open(path)?.take(FILE_BYTES_MAX + 1).read_to_end(&mut text)?;
    if text.len() as u64 > FILE_BYTES_MAX {
        return Err(std::io::Error::other("File too large"));
    }
    Ok(text)
}

/// Whether only the user and root may write the file.
fn is_safe(path: &Path) -> bool {
    let user = rustix::process::getuid().as_raw();
    let folder = talaria_disk::folder_of(path);
    [path, folder].iter().all(|path| {
        path.metadata()
            .is_ok_and(|meta| (meta.uid() == user || meta.uid() == 0) && meta.mode() & 0o022 == 0)
    })
}

/// Adds the lines of a file.
fn add(lines: &mut Vec<Line>, path: &Path, text: &[u8]) -> Result<(), Reason> {
    let text = text.strip_prefix(b"\xef\xbb\xbf").unwrap_or(text);
    for (number, line) in text.split(|&byte| byte == b'\n').enumerate() {
        let line = line.trim_ascii();
        if line.is_empty() || line.starts_with(b"#") {
            continue;
        }
        let place = format!("{}:{}", path.display(), number + 1);
        let end = line.iter().position(u8::is_ascii_whitespace).unwrap_or(line.len());
        let (keyword, rest) = (&line[..end], unquoted(line[end..].trim_ascii_start()));
        let shown = || OsString::from_vec(keyword.to_vec()).to_string_lossy().into_owned();
        // Groups for users and what follows from them are only for administrators.
        let is_special = keyword.starts_with(b"[")
            || matches!(keyword, b"alias" | b"ignore-invalid-option")
            || keyword.len() > KEYWORD_BYTES_MAX;
        if is_special {
            return Err(Reason::Line(place, shown()));
        }
        let Some(option) = options::named(OPTIONS, keyword) else {
            return Err(Reason::Usage(format!("{place}: invalid option \"{}\"", shown())));
        };
        let given = options::from_line(option, rest)
            .map_err(|why| Reason::Usage(format!("{place}: {why} \"{}\"", shown())))?;
        // Which files are read was decided before.
        if !matches!(given.meaning, Meaning::OptionFile | Meaning::NoOptions) {
            lines.push(Line { place, given });
        }
    }
    Ok(())
}

/// An argument without its quotation marks.
fn unquoted(text: &[u8]) -> &[u8] {
    match text.strip_prefix(b"\"") {
        Some(rest) => rest.strip_suffix(b"\"").unwrap_or(rest),
        None => text,
    }
}

/// The words of a list of options with their signs: `no-show-photos` is `show-photos` and `false`.
pub(crate) fn flags(list: &OsStr) -> Vec<(String, bool)> {
    let list = list.to_string_lossy();
    let words = list.split([',', ' ', '\t']).filter(|word| !word.is_empty());
    let signed = |word: &str| match word.strip_prefix("no-") {
        Some(rest) => (rest.to_owned(), false),
        None => (word.to_owned(), true),
    };
    words.map(signed).collect()
}
