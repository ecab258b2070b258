//! Turns of gossip: who may exchange with us now, and who fetches which certificate.
//!
//! Each address of a peer has turns of its own, and so has each peer that we call. So a peer that answers slowly, or never
//! ends, holds up nobody but itself. A certificate that several peers announce at once is fetched from one of them.

use std::collections::HashMap;
use std::hash::Hash;
use std::net::IpAddr;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use talaria_recon::Digest;

/// The time for which a certificate is left to the exchange that fetches it. After that, another one may fetch it, too: a
/// peer that never delivers keeps nothing away.
const FETCH: Duration = Duration::from_secs(30);

/// The turns of all peers.
#[derive(Debug, Default)]
pub(crate) struct GossipTurns {
    /// Exchanges that peers have begun, by their address.
    accepted: Mutex<HashMap<IpAddr, usize>>,
    /// The peers with which we have begun an exchange, by name.
    begun: Mutex<HashMap<String, usize>>,
    /// The digests that are being fetched, and since when.
    fetched: Mutex<HashMap<Digest, Instant>>,
}

/// A turn, until it is dropped.
#[derive(Debug)]
pub(crate) struct Turn<'a, K: Eq + Hash> {
    running: &'a Mutex<HashMap<K, usize>>,
    key: K,
}

impl GossipTurns {
    /// A turn for an exchange that a peer begins, if fewer than `max` from its address are running.
    pub(crate) fn accept(&self, address: IpAddr, max: usize) -> Option<Turn<'_, IpAddr>> {
        Turn::take(&self.accepted, address.to_canonical(), max)
    }

    /// A turn for an exchange that we begin, if none with this peer is running.
    pub(crate) fn begin(&self, peer: String) -> Option<Turn<'_, String>> {
        Turn::take(&self.begun, peer, 1)
    }

    /// Whether an exchange that we began with a peer is running.
    pub(crate) fn is_running(&self, peer: &str) -> bool {
        lock(&self.begun).contains_key(peer)
    }

    /// Those of `digests` that no other exchange is fetching. They are reserved until the result is dropped.
    pub(crate) fn fetch(&self, digests: &[Digest]) -> Fetching<'_> {
        let now = Instant::now();
        let mut fetched = lock(&self.fetched);
        let is_free = |since: &Instant| now.duration_since(*since) > FETCH;
        let mut digests = digests.to_vec();
        digests.retain(|digest| fetched.get(digest).is_none_or(is_free));
        fetched.extend(digests.iter().map(|&digest| (digest, now)));
        drop(fetched);
        Fetching { turns: self, since: now, digests }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<'a, K: Clone + Eq + Hash> Turn<'a, K> {
    fn take(running: &'a Mutex<HashMap<K, usize>>, key: K, max: usize) -> Option<Self> {
        let mut all = lock(running);
        if all.get(&key).is_some_and(|&number| number >= max) || max == 0 {
            return None;
        }
        *all.entry(key.clone()).or_default() += 1;
        drop(all);
        Some(Self { running, key })
    }
}

impl<K: Eq + Hash> Drop for Turn<'_, K> {
    fn drop(&mut self) {
        let mut all = lock(self.running);
        if let Some(number) = all.get_mut(&self.key) {
            *number -= 1;
            if *number == 0 {
                all.remove(&self.key);
            }
        }
    }
}

/// Digests that one exchange fetches.
#[derive(Debug)]
pub(crate) struct Fetching<'a> {
    turns: &'a GossipTurns,
    since: Instant,
    digests: Vec<Digest>,
}

impl Fetching<'_> {
    pub(crate) fn digests(&self) -> &[Digest] {
        &self.digests
    }
}

impl Drop for Fetching<'_> {
    fn drop(&mut self) {
        let mut fetched = lock(&self.turns.fetched);
        for digest in &self.digests {
            // Another exchange may have taken it over.
            if fetched.get(digest) == Some(&self.since) {
                fetched.remove(digest);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_address_and_each_peer_has_turns_of_its_own() {
        let turns = GossipTurns::default();
        let (one, other): (IpAddr, IpAddr) =
            ("192.0.2.1".parse().unwrap(), "::ffff:192.0.2.2".parse().unwrap());
        let first = turns.accept(one, 2).unwrap();
        let second = turns.accept(one, 2).unwrap();
        assert!(turns.accept(one, 2).is_none());
        assert!(turns.accept(other, 2).is_some());
        drop(first);
        assert!(turns.accept(one, 2).is_some());
        drop(second);
        let running = turns.begin("a:1".into());
        assert!(running.is_some() && turns.begin("a:1".into()).is_none());
        assert!(turns.is_running("a:1") && !turns.is_running("b:1"));
        assert!(turns.begin("b:1".into()).is_some());
        drop(running);
        assert!(!turns.is_running("a:1"));
    }

    #[test]
    fn a_digest_is_fetched_by_one_exchange_at_a_time() {
        let turns = GossipTurns::default();
        let [one, two, three] = [1, 2, 3].map(|n| Digest([n; 16]));
        let first = turns.fetch(&[one, two]);
        let second = turns.fetch(&[two, three]);
        assert_eq!((first.digests(), second.digests()), (&[one, two][..], &[three][..]));
        drop(first);
        assert_eq!(turns.fetch(&[one, two, three]).digests(), [one, two]);
        // A digest that is fetched for too long is free, and the first exchange does not give it back.
        lock(&turns.fetched).insert(three, Instant::now().checked_sub(2 * FETCH).unwrap());
        let third = turns.fetch(&[three]);
        assert_eq!(third.digests(), [three]);
        drop(second);
        assert!(turns.fetch(&[three]).digests().is_empty());
    }
}
