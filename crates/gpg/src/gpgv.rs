//! `gpgv`: verifies signatures with the keys of keyrings that are trusted as they are.
//!
//! Status lines, texts and exit statuses are those of gpgv 2.2 for the same input, but for what
//! `docs/replacing-gpg.md` lists: signatures with weak digests are refused, and content is written
//! only once it is verified.

use std::ffi::OsString;
use std::io::Write as _;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;

use crate::algorithm;
use crate::code::{Code, Exit};
use crate::input;
use crate::keyring::Keyrings;
use crate::log::Log;
use crate::options::{self, Given, Opt, Parser, Takes, Usage, opt};
use crate::process::Processor;
use crate::session::Session;
use crate::time;

/// The exit status of anything that is neither good nor a bad signature.
const FAILED: u8 = 2;

#[derive(Clone, Copy, Debug)]
enum Meaning {
    Verbose,
    Quiet,
    Keyring,
    Output,
    IgnoreTimeConflict,
    StatusFd,
    LoggerFd,
    LogFile,
    Homedir,
    WeakDigest,
    Specials,
    Debug,
    Help,
    Version,
    Warranty,
    Table,
    Dump,
}

#[rustfmt::skip]
const OPTIONS: [Opt<Meaning>; 17] = [
    opt(Meaning::Verbose, 118, "verbose", Takes::Nothing, "verbose"),
    opt(Meaning::Quiet, 113, "quiet", Takes::Nothing, "be somewhat more quiet"),
    opt(Meaning::Keyring, 501, "keyring", Takes::Text, "|FILE|take the keys from the keyring FILE"),
    opt(Meaning::Output, 111, "output", Takes::Text, "|FILE|write output to FILE"),
    opt(Meaning::IgnoreTimeConflict, 502, "ignore-time-conflict", Takes::Nothing,
        "make timestamp conflicts only a warning"),
    opt(Meaning::StatusFd, 503, "status-fd", Takes::Number, "|FD|write status info to this FD"),
    opt(Meaning::LoggerFd, 504, "logger-fd", Takes::Number, "@"),
    opt(Meaning::LogFile, 505, "log-file", Takes::Text, "@"),
    opt(Meaning::Homedir, 506, "homedir", Takes::Text, "@"),
    opt(Meaning::WeakDigest, 507, "weak-digest", Takes::Text,
        "|ALGO|reject signatures made with ALGO"),
    opt(Meaning::Specials, 508, "enable-special-filenames", Takes::Nothing, "@"),
    opt(Meaning::Debug, 509, "debug", Takes::Text, "@"),
    opt(Meaning::Help, 32768, "help", Takes::Nothing, "@"),
    opt(Meaning::Version, 32769, "version", Takes::Nothing, "@"),
    opt(Meaning::Warranty, 32770, "warranty", Takes::Nothing, "@"),
    opt(Meaning::Table, 32772, "dump-option-table", Takes::Nothing, "@"),
    opt(Meaning::Dump, 32771, "dump-options", Takes::Nothing, "@"),
];

/// The flags of `--debug`, which are accepted and do nothing.
const DEBUG_FLAGS: [&str; 14] = [
    "packet", "mpi", "crypto", "filter", "iobuf", "memory", "cache", "memstat", "trust", "hashing",
    "ipc", "clock", "lookup", "extprog",
];

/// The first lines of `--version`: programs look there for the version of GnuPG that they have to
/// do with.
const VERSION: &str = concat!(
    "gpgv (GnuPG) 2.2.40\nlibgcrypt 1.10.1\n",
    "talaria-gpgv ",
    env!("CARGO_PKG_VERSION"),
    ", in place of GnuPG's gpgv; it is not GnuPG\n",
    "License LGPL-2.0-or-later\n",
    "This is free software: you are free to change and redistribute it.\n",
    "There is NO WARRANTY, to the extent permitted by law.\n",
);

/// The answer to `--warranty`.
pub(crate) const WARRANTY: &str = "\
This is free software; you can redistribute it and/or modify
it under the terms of the GNU Library General Public License as
published by the Free Software Foundation; either version 2 of
the License, or (at your option) any later version.

It is distributed in the hope that it will be useful,
but WITHOUT ANY WARRANTY; without even the implied warranty of
MERCHANTABILITY or FITNESS FOR A PARTICULAR PURPOSE.  See the
GNU Library General Public License for more details.

You should have received a copy of the GNU Library General Public License
along with this software.  If not, see <https://gnu.org/licenses/>.
";

/// What the options leave to do.
struct Task {
    session: Session,
    keyrings: Vec<OsString>,
    home: Option<OsString>,
    files: Vec<OsString>,
}

/// Runs `gpgv` with the words after its name, and returns its exit status.
///
/// 0 means that at least one signature was checked; that for each that was checked a key of the
/// keyrings made it over the signed data, with a digest that is not weak; that the key is bound to
/// its certificate, serves to sign, and is not newer than the signature; and that the signature has
/// not expired. As in gpgv, only the first signature is checked if several are of different types,
/// and the keys may have expired or been revoked: status lines say that. 1 means a bad or expired
/// signature, and 2 anything else.
#[must_use]
pub fn gpgv(arguments: Vec<OsString>) -> u8 {
    // A panic would be a bug. The status is then one of a failure, and not Rust's.
    let run = || read(arguments).and_then(verify).map_or_else(|Exit(status)| status, |()| 0);
    catch_unwind(AssertUnwindSafe(run)).unwrap_or(FAILED)
}

/// Reads the command line.
fn read(arguments: Vec<OsString>) -> Result<Task, Exit> {
    let mut session = Session::new(Log::new("gpgv"), time::now());
    let (mut keyrings, mut home) = (Vec::new(), None);
    let mut parser = Parser::new(&OPTIONS, arguments);
    while let Some(next) = parser.next() {
        let Given { meaning, text, number, .. } = next.map_err(|Usage(why)| {
            let _ = writeln!(std::io::stderr(), "{why}");
            Exit(FAILED)
        })?;
        match meaning {
            Meaning::Verbose => session.verbose = session.verbose.saturating_add(1),
            Meaning::Quiet => session.quiet = true,
            Meaning::Keyring => keyrings.push(text),
            Meaning::Output => session.output = Some(text),
            Meaning::IgnoreTimeConflict => session.ignores_time_conflict = true,
            Meaning::StatusFd if number == -1 => session.status.stop(),
            Meaning::StatusFd => {
                let file = talaria_disk::duplicate(number);
                session.status.to_file(file.map_err(|error| invalid(&session, "status", &error))?);
            }
            Meaning::LoggerFd => {
                let file = talaria_disk::duplicate(number);
                session.log.to_file(file.map_err(|error| invalid(&session, "logger", &error))?);
            }
            Meaning::LogFile => {
                if let Err(error) = session.log.append_to(&text) {
                    let error = Code::system(&error);
                    let name = text.to_string_lossy();
                    let why = error.text();
                    session.log.info(format!("failed to open log file '{name}': {why}"));
                }
            }
            Meaning::Homedir => home = Some(text),
            Meaning::WeakDigest => {
                let name = text.to_string_lossy();
                match algorithm::digest_number(&name) {
                    Some(number) => session.weak.push(number),
                    None => session.log.error(format!("unknown weak digest '{name}'")),
                }
            }
            Meaning::Specials => session.specials = true,
            Meaning::Debug => debug(&session, &text.to_string_lossy()),
            Meaning::Help => return print(&help()),
            Meaning::Version => return print(VERSION),
            Meaning::Warranty => return print(&format!("{WARRANTY}\n")),
            Meaning::Table => return print(&options::table(&OPTIONS)),
            Meaning::Dump => return print(&options::dump(&OPTIONS)),
        }
    }
    if session.log.has_errors() {
        return Err(Exit(FAILED));
    }
    Ok(Task { session, keyrings, home, files: parser.into_rest() })
}

/// Verifies what the command line names.
fn verify(task: Task) -> Result<(), Exit> {
    // The verifier of certificates would start a thread for each core. There is one certificate.
    let alone = rayon::ThreadPoolBuilder::new().num_threads(1).use_current_thread();
    let _ = alone.build_global();
    let Task { session, keyrings, home, files } = task;
    let home = home.or_else(|| std::env::var_os("GNUPGHOME").filter(|home| !home.is_empty()));
    let home = home.map_or_else(
        || PathBuf::from(std::env::var_os("HOME").unwrap_or_default()).join(".gnupg"),
        PathBuf::from,
    );
    let home = std::env::current_dir().unwrap_or_default().join(home);
    let keyrings = Keyrings::open(&session, &keyrings, &home);
    let mut processor = Processor::new(&session, keyrings, &files);
    let result = input::verify(&mut processor)?;
    if let Err(code) = result {
        session.log.error(format!("verify signatures failed: {}", code.text()));
    }
    if session.log.has_errors() {
        return Err(Exit(FAILED));
    }
    processor.output.release(&session);
    if session.log.has_errors() { Err(Exit(FAILED)) } else { Ok(()) }
}

/// Reports a descriptor that does not exist.
fn invalid(session: &Session, what: &str, error: &std::io::Error) -> Exit {
    let why = Code::system(error);
    session.log.info(format!("Fatal: {what}-fd is invalid: {}", why.text()));
    Exit(FAILED)
}

fn debug(session: &Session, flags: &str) {
    let words = flags.split([',', ' ']).filter(|word| !word.is_empty());
    for word in words {
        let is_number = word.starts_with(|c: char| c.is_ascii_digit());
        if !is_number && !DEBUG_FLAGS.contains(&word) && !matches!(word, "none" | "all") {
            session.log.info(format!("unknown debug flag '{word}' ignored"));
        }
    }
}

fn help() -> String {
    format!(
        "{VERSION}\nSyntax: gpgv [options] [files]\nCheck signatures against known trusted keys\n\
         \n\nOptions:\n \n{}\nPlease report bugs to <https://github.com/talaria/talaria/issues>.\n",
        options::help(&OPTIONS)
    )
}

/// Writes a text to the standard output, and ends the program.
fn print(text: &str) -> Result<Task, Exit> {
    let written = std::io::stdout().write_all(text.as_bytes());
    Err(Exit(if written.is_ok() { 0 } else { FAILED }))
}
