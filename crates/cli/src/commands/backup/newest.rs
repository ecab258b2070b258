//! The newest snapshot of each client, and its last drill.

use std::collections::BTreeMap;

use talaria::message::openpgp::Fingerprint;
use talaria_backup::{Drill, Listed, RepositoryId};

use crate::render::printable;

/// The newest snapshot of a client.
pub(super) struct Newest {
    /// The host of the snapshot, with the client where several have the same.
    pub(super) name: String,
    pub(super) host: String,
    pub(super) client: Option<Fingerprint>,
    /// Of copies: the repository and the client of the originals.
    pub(super) original: Option<(RepositoryId, Option<Fingerprint>)>,
    /// The newest time that is not in the future.
    pub(super) time: Option<u32>,
    /// The number of snapshots.
    pub(super) snapshots: usize,
    /// The number of snapshots with a time in the future.
    pub(super) ahead: usize,
    /// Bytes of its files, and paths that could not be read.
    pub(super) bytes: u64,
    pub(super) unread: u64,
    /// The last drill of one of the snapshots of the client that is not in the future.
    pub(super) drill: Option<Drill>,
}

impl Newest {
    pub(super) fn age(&self, now: u32) -> Option<u32> {
        self.time.map(|time| now.saturating_sub(time))
    }

    /// When the last drill was, and how it went.
    pub(super) fn drill_in_words(&self, now: u32) -> String {
        let Some(drill) = &self.drill else { return format!("{} never", self.name) };
        let mut words = format!("{} {} ago", self.name, age(now.saturating_sub(drill.time)));
        if drill.sample < 100 {
            words += &format!(" ({} % of the files)", drill.sample);
        }
        if drill.read.failed > 0 {
            words += " (failed)";
        }
        words
    }
}

pub(super) fn newest(listed: &[Listed], drills: &[Drill], now: u32) -> Vec<Newest> {
    let mut clients: BTreeMap<_, Vec<&Listed>> = BTreeMap::new();
    for listed in listed.iter().filter(|one| one.standing.counts()) {
        clients.entry(listed.snapshot.lineage()).or_default().push(listed);
    }
    let last = |snapshots: &[&Listed]| {
        let last = snapshots.iter().max_by_key(|one| one.snapshot.number);
        last.map(|last| last.snapshot.clone()).expect("a client has a snapshot")
    };
    let hosts: Vec<String> =
        clients.values().map(|snapshots| printable(&last(snapshots).host)).collect();
    let newest = clients.iter().map(|((client, original), snapshots)| {
        let last = last(snapshots);
        let host = printable(&last.host);
        let is_alone = hosts.iter().filter(|other| **other == host).count() == 1;
        let name = match client {
            Some(client) if !is_alone => format!("{host} ({})", client.to_hex()),
            _ => host.clone(),
        };
        // Otherwise a thief of a client's key could silence an alarm with one snapshot from the
        // future.
        let times = snapshots.iter().map(|one| one.snapshot.made());
        let is_own = |drill: &&Drill| snapshots.iter().any(|one| one.id == drill.snapshot.id);
        let own = drills.iter().filter(|drill| match original {
            None => drill.snapshot.client == *client && !is_copied(drill, listed),
            Some(_) => is_own(drill),
        });
        Newest {
            name,
            host,
            client: client.clone(),
            original: original.clone(),
            time: times.clone().filter(|time| *time <= now).max(),
            snapshots: snapshots.len(),
            ahead: times.filter(|time| *time > now).count(),
            bytes: last.bytes,
            unread: last.unread,
            drill: last_of(own.filter(|drill| drill.time <= now)),
        }
    });
    newest.collect()
}

/// The last drill; of several in one second, one that failed.
fn last_of<'a>(drills: impl Iterator<Item = &'a Drill>) -> Option<Drill> {
    drills.max_by_key(|drill| (drill.time, drill.read.failed)).cloned()
}

/// Whether the drill was one of a copy. The drill of a snapshot that was forgotten since counts for
/// its client.
fn is_copied(drill: &Drill, listed: &[Listed]) -> bool {
    let found = listed.iter().find(|one| one.id == drill.snapshot.id);
    found.is_some_and(|one| one.snapshot.original.is_some())
}

/// A time span in the largest unit that fits.
pub(super) fn age(seconds: u32) -> String {
    match seconds {
        0..120 => format!("{seconds} s"),
        120..7200 => format!("{} min", seconds / 60),
        7200..172_800 => format!("{} h", seconds / 3600),
        _ => format!("{} days", seconds / 86_400),
    }
}
