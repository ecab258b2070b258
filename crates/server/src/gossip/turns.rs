//! Turns of gossip: who may exchange with us now, and who fetches which certificate.
//!
//! Each address of a peer has turns of its own, and so has each peer that we call. So a peer that
//! answers slowly, or never ends, holds up nobody but itself. A certificate that several peers
//! announce at once is fetched from one of them.

use std::collections::HashMap;
use std::hash::Hash;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use talaria_recon::Digest;

/// The time for which a certificate is left to the peer from which it is fetched. After that it may
/// be fetched from another one, too: a peer that never delivers keeps nothing away, however often
/// it is asked.
const FETCH: Duration = Duration::from_secs(30);

/// The time after which it is forgotten that a peer did not deliver, and the number of digests that
/// are remembered.
const REMEMBERED: Duration = Duration::from_secs(600);
const REMEMBERED_MAX: usize = 100_000;

/// The turns of all peers.
#[derive(Debug, Default)]
pub(crate) struct GossipTurns {
    /// Exchanges that peers have begun, by their address.
    accepted: Mutex<HashMap<IpAddr, usize>>,
    /// The peers with which we have begun an exchange, by name.
    begun: Mutex<HashMap<String, usize>>,
    /// The digests that are being fetched, or were fetched in vain.
    fetched: Mutex<HashMap<Digest, Held>>,
}

/// A digest that is left to a peer.
#[derive(Clone, Debug)]
struct Held {
    peer: Arc<str>,
    /// The time when it was first fetched from this peer.
    since: Instant,
    /// Whether it is being fetched now.
    is_running: bool,
    /// Peers that have had their time. They may still deliver, and keep nobody else from it.
    spent: Vec<Arc<str>>,
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
        self.begun.lock().contains_key(peer)
    }

    /// Those of `digests` that are not being fetched, or from another peer for too long. They are
    /// reserved until the result is dropped.
    pub(crate) fn fetch(&self, peer: &str, digests: &[Digest]) -> Fetching<'_> {
        let now = Instant::now();
        let peer: Arc<str> = peer.into();
        let mut fetched = self.fetched.lock();
        let are_few = fetched.len() <= REMEMBERED_MAX;
        fetched.retain(|_, held| {
            held.is_running || are_few && now.duration_since(held.since) < REMEMBERED
        });
        let mut digests = digests.to_vec();
        digests.retain(|&digest| {
            let Some(held) = fetched.get_mut(&digest) else {
                let (peer, spent) = (Arc::clone(&peer), Vec::new());
                fetched.insert(digest, Held { peer, since: now, is_running: true, spent });
                return true;
            };
            if held.spent.contains(&peer) {
                return true;
            }
            let has_time = now.duration_since(held.since) <= FETCH;
            if held.is_running && (has_time || held.peer == peer) {
                return false;
            }
            // To ask the same peer again gives it no more time.
            if held.peer != peer {
                let before = std::mem::replace(&mut held.peer, Arc::clone(&peer));
                if !has_time {
                    held.spent.push(before);
                }
                held.since = now;
            }
            held.is_running = true;
            true
        });
        drop(fetched);
        Fetching { turns: self, peer, digests, is_answered: false }
    }
}

impl<'a, K: Clone + Eq + Hash> Turn<'a, K> {
    fn take(running: &'a Mutex<HashMap<K, usize>>, key: K, max: usize) -> Option<Self> {
        let mut all = running.lock();
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
        let mut all = self.running.lock();
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
    peer: Arc<str>,
    digests: Vec<Digest>,
    is_answered: bool,
}

impl Fetching<'_> {
    pub(crate) fn digests(&self) -> &[Digest] {
        &self.digests
    }

    /// The peer has answered. What is still missing was noted elsewhere.
    pub(crate) fn answered(mut self) {
        self.is_answered = true;
    }
}

impl Drop for Fetching<'_> {
    fn drop(&mut self) {
        let mut fetched = self.turns.fetched.lock();
        for digest in &self.digests {
            // Another peer may have taken it over.
            let Some(held) = fetched.get_mut(digest).filter(|held| held.peer == self.peer) else {
                continue;
            };
            held.is_running = false;
            if self.is_answered {
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
        let first = turns.fetch("a:1", &[one, two]);
        let second = turns.fetch("b:1", &[two, three]);
        assert_eq!((first.digests(), second.digests()), (&[one, two][..], &[three][..]));
        assert!(turns.fetch("a:1", &[one]).digests().is_empty());
        first.answered();
        assert_eq!(turns.fetch("c:1", &[one, two, three]).digests(), [one, two]);
        // A digest that is fetched for too long is free for others, and the first exchange does not
        // give it back.
        turns.fetched.lock().get_mut(&three).unwrap().since -= 2 * FETCH;
        let third = turns.fetch("c:1", &[three]);
        assert_eq!(third.digests(), [three]);
        drop(second);
        assert!(turns.fetch("a:1", &[three]).digests().is_empty());
        // A peer whose time is over may still deliver, beside the other one.
        assert_eq!(turns.fetch("b:1", &[three]).digests(), [three]);
        assert!(turns.fetch("a:1", &[three]).digests().is_empty());
    }

    #[test]
    fn a_peer_that_is_asked_in_vain_again_and_again_gets_no_more_time() {
        let turns = GossipTurns::default();
        let one = Digest([1; 16]);
        let silent = turns.fetch("silent:1", &[one]);
        assert!(turns.fetch("honest:1", &[one]).digests().is_empty());
        drop(silent);
        turns.fetched.lock().get_mut(&one).unwrap().since -= 2 * FETCH;
        // It is asked once more.
        let silent = turns.fetch("silent:1", &[one]);
        assert_eq!(silent.digests(), [one]);
        let honest = turns.fetch("honest:1", &[one]);
        assert_eq!(honest.digests(), [one]);
        drop(silent);
        honest.answered();
        assert!(turns.fetched.lock().is_empty());
    }
}
