//! The memory that requests and answers may take: so much in all, and so much of it for one network.
//!
//! Room for an answer is given back when the answer has been written to the socket, not when it was made. So clients that do not read hold what is counted, and nothing beyond.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::answer::Refusal;
use crate::limiter::Network;

/// The part of a budget that one network can take: a quarter.
const SHARES: usize = 4;

/// A number of octets, and who holds how many of them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Budget(Arc<Mutex<Taken>>);

#[derive(Debug, Default)]
struct Taken {
    all: usize,
    by_network: HashMap<Network, usize>,
}

/// Room that was taken. It is given back when this is dropped.
#[derive(Debug)]
pub(crate) struct Room {
    budget: Budget,
    network: Network,
    bytes: usize,
}

impl Budget {
    fn lock(&self) -> MutexGuard<'_, Taken> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes `bytes` of `total` for a network.
    ///
    /// # Errors
    ///
    /// [`Refusal::Busy`] if there is no room, or the network has its share.
    pub(crate) fn take(
        &self,
        total: usize,
        network: Network,
        bytes: usize,
    ) -> Result<Room, Refusal> {
        let mut room = Room { budget: self.clone(), network, bytes: 0 };
        room.grow(total, bytes)?;
        Ok(room)
    }

    /// Octets that are held.
    pub(crate) fn taken(&self) -> usize {
        self.lock().all
    }
}

impl Room {
    /// Takes more for the same purpose.
    ///
    /// # Errors
    ///
    /// As [`Budget::take`]; what was taken before stays.
    pub(crate) fn grow(&mut self, total: usize, more: usize) -> Result<(), Refusal> {
        let mut taken = self.budget.lock();
        let theirs = taken.by_network.get(&self.network).copied().unwrap_or(0);
        let (all, theirs) = (taken.all.saturating_add(more), theirs.saturating_add(more));
        if all > total || theirs > total / SHARES {
            return Err(Refusal::Busy);
        }
        taken.all = all;
        taken.by_network.insert(self.network, theirs);
        self.bytes += more;
        Ok(())
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        if self.bytes == 0 {
            return;
        }
        let mut taken = self.budget.lock();
        taken.all -= self.bytes;
        if let Some(theirs) = taken.by_network.get_mut(&self.network) {
            *theirs -= self.bytes;
            if *theirs == 0 {
                taken.by_network.remove(&self.network);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_network_takes_a_quarter_and_leaves_the_rest_to_others() {
        let budget = Budget::default();
        let net = |text: &str| Network::Net(text.parse().unwrap());
        let (a, b) = (net("192.0.2.1/32"), net("192.0.2.2/32"));
        let mut first = budget.take(100, a, 20).unwrap();
        assert!(first.grow(100, 6).is_err() && first.grow(100, 5).is_ok());
        assert!(budget.take(100, a, 1).is_err() && budget.take(100, b, 25).is_ok());
        assert_eq!(budget.taken(), 25);
        drop(first);
        assert_eq!(budget.taken(), 0);
    }

    #[test]
    fn many_networks_together_take_no_more_than_all() {
        let budget = Budget::default();
        let held: Vec<Room> = (0..100u8)
            .filter_map(|n| {
                let net = Network::Net(std::net::IpAddr::from([192, 0, 2, n]).into());
                budget.take(100, net, 9).ok()
            })
            .collect();
        assert_eq!((held.len(), budget.taken()), (11, 99));
        drop(held);
        assert_eq!(budget.taken(), 0);
        assert!(budget.lock().by_network.is_empty());
    }
}
