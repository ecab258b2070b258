//! The authors and owners of a log, as people name them.

use std::collections::HashMap;

use talaria::keys::names;
use talaria::message::read_cert;
use talaria::store::Query;
use talaria_log::{Certificate, KeyName, Log};

use crate::error::CliError;
use crate::render::printable;

/// The user IDs of the authors of a log.
pub(super) fn people(log: &Log) -> HashMap<KeyName, String> {
    let named = |cert: &Certificate| {
        let user_id = cert.user_id().unwrap_or_default();
        (cert.name(), printable(user_id.as_bytes()))
    };
    log.certificates().map(named).collect()
}

/// The name of an author for people.
pub(super) fn person(name: &KeyName, people: &HashMap<KeyName, String>) -> String {
    match people.get(name) {
        Some(user_id) if !user_id.is_empty() => user_id.clone(),
        _ => name.to_string(),
    }
}

/// The owners of a log, for people: a line each, below the first.
pub(super) fn owners(log: &Log) -> String {
    let people = people(log);
    let one =
        |owner: &Certificate| format!("{} ({})", owner.name(), person(&owner.name(), &people));
    log.genesis().owners.iter().map(one).collect::<Vec<_>>().join("\n          ")
}

/// The only author of a log whom a query names exactly.
pub(super) fn author_named(query: &Query, log: &Log) -> Result<KeyName, CliError> {
    let mut found: Vec<(KeyName, String)> = Vec::new();
    let exact = query.exact();
    for certificate in log.certificates() {
        let Ok(cert) = read_cert(certificate.as_bytes()) else { continue };
        let is_named = exact.as_ref().is_some_and(|query| names(query, &cert));
        if is_named && found.iter().all(|(name, _)| *name != certificate.name()) {
            found.push((certificate.name(), talaria::described(&cert)));
        }
    }
    match found.len() {
        1 => Ok(found.remove(0).0),
        0 => Err(CliError::Missing(format!(
            "{query} is no author of this log; to see the authors: talaria log list --grants"
        ))),
        count => Err(CliError::Ambiguous {
            query: query.to_string(),
            count: count.to_string(),
            candidates: found.into_iter().map(|(_, described)| described).collect(),
        }),
    }
}
