//! Whether backups are recent: the newest snapshot of each client, and its last restore drill.

use std::collections::BTreeMap;

use talaria_backup::{Drill, Listed, RepositoryId};
use talaria_cert::user_id::{text, visible_text};
use talaria_message::openpgp::Fingerprint;

use crate::backup::error::ClientError;
use crate::backup::time_span::time_span;

/// The newest snapshot of each client, and its last restore drill.
#[derive(Clone, Debug)]
pub struct Health {
    /// The clients that have a snapshot that counts.
    pub clients: Vec<ClientHealth>,
    /// The time for which this holds, in seconds since 1970.
    pub now: u32,
}

/// The newest snapshot of a client, and its last restore drill.
#[derive(Clone, Debug)]
pub struct ClientHealth {
    /// The host of the snapshot, with the client where several have the same.
    pub name: String,
    /// The host of the snapshot, with hidden characters as escapes.
    pub host: String,
    /// The client; `None` for snapshots without a signature.
    pub client: Option<Fingerprint>,
    /// Of copies: the repository and the client of the originals.
    pub original: Option<(RepositoryId, Option<Fingerprint>)>,
    /// The newest time that is not in the future, in seconds since 1970.
    pub time: Option<u32>,
    /// The number of snapshots.
    pub snapshots: usize,
    /// The number of snapshots with a time in the future.
    pub ahead: usize,
    /// Bytes of its files.
    pub bytes: u64,
    /// Paths that could not be read.
    pub unread: u64,
    /// The last drill of one of the snapshots of the client that is not in the future.
    pub drill: Option<Drill>,
}

impl ClientHealth {
    /// The age of the newest snapshot in seconds; `None` if all times are in the future.
    #[must_use]
    pub fn age(&self, now: u32) -> Option<u32> {
        self.time.map(|time| now.saturating_sub(time))
    }

    /// The name, when the last drill was, and how it went.
    #[must_use]
    pub fn last_drill(&self, now: u32) -> String {
        let Some(drill) = &self.drill else { return format!("{} never", self.name) };
        let mut words = format!("{} {} ago", self.name, time_span(now.saturating_sub(drill.time)));
        if drill.sample < 100 {
            words += &format!(" ({} % of the files)", drill.sample);
        }
        if drill.read.failed > 0 {
            words += " (failed)";
        }
        words
    }
}

impl Health {
    /// The health of the clients of these snapshots, at `now` in seconds since 1970.
    ///
    /// A snapshot or drill with a time in the future silences no alarm: its time is a claim of its
    /// signer, and a thief of that key would need only one.
    #[must_use]
    pub fn new(listed: &[Listed], drills: &[Drill], now: u32) -> Self {
        let mut clients: BTreeMap<_, Vec<&Listed>> = BTreeMap::new();
        for listed in listed.iter().filter(|one| one.standing.counts()) {
            clients.entry(listed.snapshot.lineage()).or_default().push(listed);
        }
        let last = |snapshots: &[&Listed]| {
            let last = snapshots.iter().max_by_key(|one| one.snapshot.number);
            last.map(|last| last.snapshot.clone()).expect("a client has a snapshot")
        };
        let hosts: Vec<String> =
            clients.values().map(|snapshots| visible(&last(snapshots).host)).collect();
        let clients = clients.iter().map(|((client, original), snapshots)| {
            let last = last(snapshots);
            let host = visible(&last.host);
            let is_alone = hosts.iter().filter(|other| **other == host).count() == 1;
            let name = match client {
                Some(client) if !is_alone => format!("{host} ({})", client.to_hex()),
                _ => host.clone(),
            };
            let times = snapshots.iter().map(|one| one.snapshot.made());
            let is_own = |drill: &&Drill| snapshots.iter().any(|one| one.id == drill.snapshot.id);
            let own = drills.iter().filter(|drill| match original {
                None => drill.snapshot.client == *client && !is_copied(drill, listed),
                Some(_) => is_own(drill),
            });
            ClientHealth {
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
        Self { clients: clients.collect(), now }
    }

    /// The clients without a snapshot from the last `age_max_s` seconds.
    pub fn stale(&self, age_max_s: u32) -> impl Iterator<Item = &ClientHealth> {
        let is_old = move |one: &&ClientHealth| one.age(self.now).is_none_or(|age| age > age_max_s);
        self.clients.iter().filter(is_old)
    }

    /// The clients without a good restore drill in the last `age_max_s` seconds.
    pub fn undrilled(&self, age_max_s: u32) -> impl Iterator<Item = &ClientHealth> {
        let is_good = move |drill: &Drill| {
            drill.read.failed == 0 && self.now.saturating_sub(drill.time) <= age_max_s
        };
        self.clients.iter().filter(move |one| !one.drill.as_ref().is_some_and(is_good))
    }

    /// Checks that each client has a snapshot from the last `age_max_s` seconds, and that there is
    /// a client.
    ///
    /// # Errors
    ///
    /// [`ClientError::Stale`]
    pub fn require_snapshots(&self, age_max_s: u32) -> Result<(), ClientError> {
        let clients: Vec<String> = self.stale(age_max_s).map(|one| one.name.clone()).collect();
        if self.clients.is_empty() || !clients.is_empty() {
            return Err(ClientError::Stale { clients, age_max_s });
        }
        Ok(())
    }

    /// Checks that each client has a good restore drill in the last `age_max_s` seconds, and that
    /// there is a client.
    ///
    /// # Errors
    ///
    /// [`ClientError::Undrilled`]
    pub fn require_drills(&self, age_max_s: u32) -> Result<(), ClientError> {
        let last = |one: &ClientHealth| one.last_drill(self.now);
        let drills: Vec<String> = self.undrilled(age_max_s).map(last).collect();
        if self.clients.is_empty() || !drills.is_empty() {
            return Err(ClientError::Undrilled { drills, age_max_s });
        }
        Ok(())
    }
}

/// A name without hidden characters.
fn visible(name: &[u8]) -> String {
    visible_text(&text(name)).into_owned()
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
