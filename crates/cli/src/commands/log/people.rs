//! The authors and owners of a log, as people name them.

use std::collections::HashMap;

use talaria_log::{Certificate, KeyName, Log};

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
