//! Shell completion of the names of certificates and keys, from the stores on the command line.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use clap::builder::ValueHint;
use clap_complete::engine::{ArgValueCompleter, CompletionCandidate};
use talaria::Stores;
use talaria::cert::{Summary, user_id};
use talaria::keys::{KeyStore, summary};
use talaria::store::{Access, Order, Query};

use crate::config::Settings;
use crate::folders::data_folder;
use crate::render::printable;

/// The maximum number of certificates examined for one completion.
const CERTS_MAX: usize = 1000;
/// The maximum number of candidates offered.
const CANDIDATES_MAX: usize = 100;

/// The command line with name completion for all arguments that take a certificate or key.
pub(crate) fn with_names(command: clap::Command) -> clap::Command {
    command
        .mut_args(|arg| {
            let takes = |name: &str| {
                arg.get_value_names().is_some_and(|names| names.iter().any(|other| *other == *name))
            };
            if takes("CERT") || takes("QUERY") {
                arg.add(ArgValueCompleter::new(certificates))
            } else if takes("KEY") {
                arg.add(ArgValueCompleter::new(keys))
            } else if takes("FILE") || takes("PATH") {
                arg.value_hint(ValueHint::AnyPath)
            } else if takes("DIR") || takes("FOLDER") {
                arg.value_hint(ValueHint::DirPath)
            } else {
                arg
            }
        })
        .mut_subcommands(with_names)
}

fn now() -> u32 {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    u32::try_from(now.as_secs()).unwrap_or(u32::MAX)
}

/// The values of an option: from the command line to be completed, otherwise from the environment,
/// otherwise from the user's settings.
fn named(option: &str, variable: &str) -> Vec<PathBuf> {
    let mut values = Vec::new();
    let mut words = std::env::args_os().skip(1).skip_while(|word| word != "--").skip(1);
    while let Some(word) = words.next() {
        let Some(text) = word.to_str() else { continue };
        if text == option {
            values.extend(words.next().map(PathBuf::from));
        } else if let Some(value) =
            text.strip_prefix(option).and_then(|rest| rest.strip_prefix('='))
        {
            values.push(value.into());
        }
    }
    if values.is_empty() {
        values
            .extend(std::env::var_os(variable).filter(|path| !path.is_empty()).map(PathBuf::from));
    }
    if values.is_empty() {
        let settings = Settings::read().unwrap_or_default();
        let of_settings = settings.values(option.trim_start_matches('-'));
        values.extend(of_settings.iter().map(PathBuf::from));
    }
    values
}

/// Candidates from the certificates in the stores.
fn certificates(current: &OsStr) -> Vec<CompletionCandidate> {
    let mut paths = named("--store", "TALARIA_STORE");
    if paths.is_empty() {
        paths.extend(data_folder().map(|folder| folder.join("certs.db")));
    }
    candidates_in(&paths, current)
}

/// The candidates for `current`; none if the stores cannot be read, because completion cannot show
/// errors.
fn candidates_in(paths: &[PathBuf], current: &OsStr) -> Vec<CompletionCandidate> {
    let Some(current) = current.to_str() else { return Vec::new() };
    let readable = |path: &&PathBuf| path.is_file();
    let paths: Vec<PathBuf> = paths.iter().filter(readable).cloned().collect();
    let now = now();
    let Ok(stores) = Stores::open(&paths, Access::Read, now) else { return Vec::new() };
    let mut found = BTreeMap::new();
    let mut looked_at = 0;
    let mut look = |queries: &[Query], found: &mut BTreeMap<String, String>| {
        let _ = stores.visit(queries, Order::Insertion, now, |_, row| {
            offer(&row.summary, current, found);
            looked_at += 1;
            let enough = looked_at >= CERTS_MAX || found.len() >= CANDIDATES_MAX;
            Ok(if enough { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
        });
    };
    // Search for the typed text. No index finds an incomplete fingerprint, so all certificates are
    // examined if nothing was found.
    match current.parse::<Query>() {
        Ok(query) if current.len() > 1 => look(&[query], &mut found),
        _ => {}
    }
    if found.is_empty() {
        look(&[], &mut found);
    }
    candidates(found)
}

/// Candidates from the folder of secret keys.
fn keys(current: &OsStr) -> Vec<CompletionCandidate> {
    let folder = named("--keys", "TALARIA_KEYS").into_iter().next();
    let folder = folder.or_else(|| Some(data_folder()?.join("keys")));
    folder.map_or_else(Vec::new, |folder| keys_in(&folder, current))
}

fn keys_in(folder: &Path, current: &OsStr) -> Vec<CompletionCandidate> {
    let Some(current) = current.to_str() else { return Vec::new() };
    let mut found = BTreeMap::new();
    let certs = KeyStore::open(folder).and_then(|keys| keys.list()).unwrap_or_default();
    for cert in certs {
        if let Ok(summary) = summary(&cert, now()) {
            offer(&summary, current, &mut found);
        }
    }
    candidates(found)
}

/// Adds the addresses and the fingerprint of a certificate that start with the typed text.
fn offer(summary: &Summary, current: &str, found: &mut BTreeMap<String, String>) {
    let name = summary.primary_user_id().map(printable).unwrap_or_default();
    for text in summary.texts() {
        let text = user_id::text(text);
        let address = text.rsplit_once('<').and_then(|(_, rest)| rest.strip_suffix('>'));
        let address = address.unwrap_or(&text);
        if !address.is_empty()
            && address.starts_with(current)
            && !address.contains(char::is_control)
        {
            found.insert(address.to_owned(), printable(text.as_bytes()));
        }
    }
    let fingerprint = summary.fingerprint().to_string();
    if current.len() > 1 && fingerprint.starts_with(&current.to_ascii_uppercase()) {
        found.insert(fingerprint, name);
    }
}

fn candidates(found: BTreeMap<String, String>) -> Vec<CompletionCandidate> {
    let candidate =
        |(value, help): (String, String)| CompletionCandidate::new(value).help(Some(help.into()));
    found.into_iter().map(candidate).collect()
}
