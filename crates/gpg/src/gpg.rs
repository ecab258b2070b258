//! `gpg`: verifies signatures, lists keys, encrypts and signs in place of GnuPG's gpg, and hands
//! everything else over to it.
//!
//! Whether a task is done here is decided before anything is written or any input is read: by the
//! command line, the configuration and the files of the home directory ([`request`]). A home
//! directory is never changed.

mod about;
mod arguments;
mod arranged;
mod chosen;
mod config;
mod content;
mod decrypt;
mod described;
mod encrypt;
pub(crate) mod ends;
mod export;
mod files;
mod handover;
mod list;
pub(crate) mod manner;
pub(crate) mod names;
mod passphrase;
mod plain;
mod preferred;
mod recipients;
mod request;
mod sealing;
mod secrets;
mod sign;
mod signers;
mod signing;
mod start;
mod symmetric;
mod table;
mod trust;
pub(crate) mod trusted;
mod unlock;
mod verify;
mod web;

use std::ffi::OsString;
use std::io::Write as _;
use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::code::Exit;
use crate::gpg::decrypt::Decryption;
use crate::gpg::encrypt::Encryption;
use crate::gpg::export::Export;
use crate::gpg::handover::{Reason, hand_over};
use crate::gpg::list::{Lines, Listing};
use crate::gpg::plain::{Kind, Looked, Plain};
use crate::gpg::request::{Request, Task};
use crate::gpg::sign::Signature;
use crate::gpg::symmetric::Symmetric;
use crate::gpg::table::OPTIONS;
use crate::gpg::web::Model;
use crate::gpgv;
use crate::log::Log;
use crate::options;

/// The exit status of anything that is neither good nor a bad signature.
const FAILED: u8 = 2;

/// Runs `gpg` with the words after its name, and returns its exit status.
#[must_use]
pub fn gpg(arguments: &[OsString]) -> u8 {
    // A panic would be a bug. The status is then one of a failure, and not Rust's.
    let run = || match Request::read(arguments).and_then(run) {
        Ok(result) => result.map_or_else(|Exit(status)| status, |()| 0),
        Err(reason) => hand_over(arguments, &reason),
    };
    catch_unwind(AssertUnwindSafe(run)).unwrap_or(FAILED)
}

/// Keeps the verifier of certificates from starting a thread for each core: there is one
/// certificate.
fn alone() {
    let alone = rayon::ThreadPoolBuilder::new().num_threads(1).use_current_thread();
    let _ = alone.build_global();
}

/// Does what is asked for.
fn run(request: Request) -> Result<Result<(), Exit>, Reason> {
    let Request { task, settings, words, has_stopped } = request;
    alone();
    Ok(match task {
        Task::Help => print(&about::help(&settings.home)),
        Task::Version => print(&about::version(&settings.home, settings.verbose > 0)),
        Task::Warranty => print(&format!("{}\n", gpgv::WARRANTY)),
        Task::Dump => print(&options::dump(OPTIONS)),
        Task::Table => print(&options::table(OPTIONS)),
        Task::ListConfig => {
            let mut words = words.iter().map(|word| word.to_string_lossy().into_owned());
            let (items, None) = (words.next(), words.next()) else {
                return Err(Reason::Wrong("usage: gpg [options] --list-config [items]".to_owned()));
            };
            if settings.colons { list_config(items.as_deref()) } else { Ok(()) }
        }
        Task::Verify => verify::verify(&start::start(settings, &words, has_stopped, None)?, &words),
        Task::Decrypt | Task::Default => {
            let plain = if task == Task::Decrypt { Plain::Decrypt } else { Plain::Default };
            let Looked { kind, output, seen, start } = plain::look(plain, &settings, &words)?;
            let content = Some((plain, output));
            let started = start::start(settings, &words, has_stopped, content)?;
            match kind {
                Kind::Encrypted(_) | Kind::Symmetric(_) => {
                    let found = Decryption::find(&started, plain, &kind, (seen, start))?;
                    found.write(&started, &words)
                }
                _ => match &started.settings.list_only {
                    Some(reason) => return Err(reason.clone()),
                    None => verify::write(&started, plain, &words),
                },
            }
        }
        Task::Encrypt | Task::EncryptSigned => {
            let started = start::start(settings, &words, has_stopped, None)?;
            Encryption::find(&started, task == Task::EncryptSigned, &words)?.write(&started)
        }
        Task::Symmetric => {
            let started = start::start(settings, &words, has_stopped, None)?;
            Symmetric::find(&started, &words)?.write(&started)
        }
        Task::Sign(form) => {
            // Whom a key belongs to is no question of a signature by it.
            let mut settings = settings;
            settings.web.model = Model::Always;
            let started = start::start(settings, &words, has_stopped, None)?;
            Signature::find(&started, form, &words)?.write(&started)
        }
        Task::ListKeys | Task::ListSigs | Task::ListSecretKeys => {
            let lines = match task {
                Task::ListSigs => Lines::Signatures,
                Task::ListSecretKeys => Lines::SecretKeys,
                _ => Lines::Keys,
            };
            let started = start::start(settings, &words, has_stopped, None)?;
            Listing::find(&started, lines, &words)?.write(&started, &words)
        }
        Task::CheckSigs => return Err(Reason::Undone("--check-sigs".to_owned())),
        Task::Export => {
            let started = start::start(settings, &words, has_stopped, None)?;
            Export::find(&started, &words)?.write(&started)
        }
    })
}

fn list_config(items: Option<&str>) -> Result<(), Exit> {
    let log = Log::new("gpg");
    let (text, unknown) = about::config(items);
    let printed = print(&text);
    for item in unknown {
        log.error(format!("unknown configuration item '{item}'"));
    }
    if log.has_errors() { Err(Exit(FAILED)) } else { printed }
}

/// Writes a text to the standard output.
fn print(text: &str) -> Result<(), Exit> {
    std::io::stdout().write_all(text.as_bytes()).map_err(|_| Exit(FAILED))
}
