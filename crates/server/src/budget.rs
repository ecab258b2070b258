//! Budgets for the memory of requests and answers: a total, and a share of it for each network.
//!
//! Room for an answer is given back when the answer has been written to the socket, not when it was
//! made. So a client that does not read holds counted memory, and no other.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::answer::Refusal;
use crate::network::Network;

/// The part of a budget that one network can take: a quarter, or all that there is for a single
/// piece.
const SHARES: usize = 4;

/// The bytes that a network may hold even if the budget is used up, as long as all networks hold at
/// most twice the budget. So small requests are answered while other networks hold the whole
/// budget. A budget may have another number.
const MODEST: usize = 64 << 10;

/// The time after which a request that waits for room looks again.
const AGAIN: Duration = Duration::from_millis(100);

/// The holders of room that are told each time, those first that have listened for longest. To tell
/// all would end more requests than are in the way, and what these leave to the allocator counts
/// for no budget.
const TOLD: usize = 4;

/// A number of bytes, and who holds how many of them.
#[derive(Clone, Debug)]
pub(crate) struct Budget(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    /// The bytes that a network may hold in any case.
    modest: usize,
    taken: Mutex<Taken>,
    /// Tells the holders of room that somebody waits for some.
    wanted: Notify,
}

#[derive(Debug, Default)]
struct Taken {
    all: usize,
    by_network: HashMap<Network, usize>,
    /// Requests that wait for room which others hold.
    waiting: usize,
}

/// The reason why there is no room.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Lack {
    /// The network has its share.
    OfNetwork,
    /// All networks together hold too much.
    OfAll,
}

/// A request that waits for room, until it is dropped.
struct Waiting(Budget);

/// Room that was taken. It is given back when this is dropped.
#[derive(Debug)]
pub(crate) struct Room {
    budget: Budget,
    network: Network,
    bytes: usize,
}

impl Default for Budget {
    fn default() -> Self {
        Self::with_modest(MODEST)
    }
}

impl Budget {
    /// A budget of which a network may hold so many bytes even if others hold all of it.
    pub(crate) fn with_modest(modest: usize) -> Self {
        Self(Arc::new(Shared { modest, taken: Mutex::default(), wanted: Notify::new() }))
    }

    fn lock(&self) -> MutexGuard<'_, Taken> {
        self.0.taken.lock()
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

    /// Bytes that are held.
    pub(crate) fn taken(&self) -> usize {
        self.lock().all
    }
}

impl Room {
    /// Takes more for the same purpose.
    ///
    /// # Errors
    ///
    /// As [`Budget::take`]. The room taken before stays.
    pub(crate) fn grow(&mut self, total: usize, more: usize) -> Result<(), Refusal> {
        self.add(total, more).map_err(|_| Refusal::Busy)
    }

    /// The same, but if other networks hold all, it waits for their room, at most for `patience`.
    /// [`Self::wanted`] tells them.
    ///
    /// # Errors
    ///
    /// As [`Self::grow`]. If the network has its share, at once.
    pub(crate) async fn grow_patiently(
        &mut self,
        total: usize,
        more: usize,
        patience: Duration,
    ) -> Result<(), Refusal> {
        self.patiently(patience, |room| room.add(total, more)).await
    }

    /// Waits until [`Self::grow`] would find as much, in the same way as [`Self::grow_patiently`],
    /// and takes nothing.
    ///
    /// # Errors
    ///
    /// As [`Self::grow_patiently`].
    pub(crate) async fn find(
        &mut self,
        total: usize,
        more: usize,
        patience: Duration,
    ) -> Result<(), Refusal> {
        self.patiently(patience, |room| room.with(&room.budget.lock(), total, more).map(|_| ()))
            .await
    }

    /// Waits until somebody waits for room of this budget, and it is the turn of this holder to
    /// make some.
    pub(crate) async fn wanted(&self) {
        loop {
            self.budget.0.wanted.notified().await;
            // A notification that nobody took may be an old one.
            if self.budget.lock().waiting > 0 {
                return;
            }
        }
    }

    /// Tries something until there is room for all networks together, at most for `patience`.
    async fn patiently(
        &mut self,
        patience: Duration,
        mut attempt: impl FnMut(&mut Self) -> Result<(), Lack>,
    ) -> Result<(), Refusal> {
        let end = Instant::now() + patience;
        let mut waiting = None;
        loop {
            match attempt(self) {
                Ok(()) => return Ok(()),
                Err(Lack::OfAll) if Instant::now() < end => {}
                Err(_) => return Err(Refusal::Busy),
            }
            waiting.get_or_insert_with(|| Waiting::begin(&self.budget));
            (0..TOLD).for_each(|_| self.budget.0.wanted.notify_one());
            tokio::time::sleep(AGAIN).await;
        }
    }

    fn add(&mut self, total: usize, more: usize) -> Result<(), Lack> {
        let mut taken = self.budget.lock();
        let (all, theirs) = self.with(&taken, total, more)?;
        taken.all = all;
        taken.by_network.insert(self.network, theirs);
        self.bytes += more;
        Ok(())
    }

    /// The sums of all networks and of this one with `more`, if they are within bounds.
    fn with(&self, taken: &Taken, total: usize, more: usize) -> Result<(usize, usize), Lack> {
        let theirs = taken.by_network.get(&self.network).copied().unwrap_or(0);
        let (all, theirs) = (taken.all.saturating_add(more), theirs.saturating_add(more));
        let is_single = theirs == self.bytes.saturating_add(more);
        let is_modest = theirs <= self.budget.0.modest && all <= total.saturating_mul(2);
        if is_modest {
            Ok((all, theirs))
        } else if !is_single && theirs > total / SHARES {
            Err(Lack::OfNetwork)
        } else if all > total {
            Err(Lack::OfAll)
        } else {
            Ok((all, theirs))
        }
    }

    /// The bytes of this room.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Gives back all but `bytes`.
    pub(crate) fn keep(mut self, bytes: usize) -> Self {
        let more = self.bytes.saturating_sub(bytes);
        self.bytes -= more;
        drop(Self { budget: self.budget.clone(), network: self.network, bytes: more });
        self
    }
}

impl Waiting {
    fn begin(budget: &Budget) -> Self {
        budget.lock().waiting += 1;
        Self(budget.clone())
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.0.lock().waiting -= 1;
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

    const MIB: usize = 1 << 20;

    fn net(n: u32) -> Network {
        Network::Net(std::net::IpAddr::from(n.to_be_bytes()).into())
    }

    #[test]
    fn one_network_takes_a_quarter_and_leaves_the_rest_to_others() {
        let budget = Budget::default();
        let small = budget.take(100 * MIB, net(1), 1).unwrap();
        let mut first = budget.take(100 * MIB, net(1), 20 * MIB).unwrap();
        assert!(first.grow(100 * MIB, 5 * MIB).is_err());
        drop(small);
        first.grow(100 * MIB, 5 * MIB).unwrap();
        assert_eq!(budget.taken(), 25 * MIB);
        assert!(budget.take(100 * MIB, net(1), 1).is_err());
        assert!(budget.take(100 * MIB, net(2), 25 * MIB).is_ok());
        assert_eq!(budget.taken(), 25 * MIB);
        let first = first.keep(MIB).keep(2 * MIB);
        assert_eq!(budget.taken(), MIB);
        drop(first);
        assert_eq!(budget.taken(), 0);
    }

    #[test]
    fn a_single_answer_may_be_larger_than_the_share_of_a_network() {
        let budget = Budget::default();
        let large = budget.take(100 * MIB, net(1), 90 * MIB).unwrap();
        assert!(budget.take(100 * MIB, net(1), MIB).is_err());
        assert!(budget.take(100 * MIB, net(2), 11 * MIB).is_err());
        drop(large);
        assert!(budget.take(100 * MIB, net(1), 101 * MIB).is_err());
    }

    #[test]
    fn who_asks_for_little_is_served_beside_those_who_hold_all() {
        let budget = Budget::default();
        let take = |n, bytes| budget.take(100 * MIB, net(n), bytes).ok();
        let held: Vec<Room> = (0..100).filter_map(|n| take(n, 9 * MIB)).collect();
        assert_eq!((held.len(), budget.taken()), (11, 99 * MIB));
        let _modest = take(200, MODEST).unwrap();
        assert!(take(200, 1 + MIB).is_none() && take(201, MODEST + 2 * MIB).is_none());
        // Any number of networks takes twice the budget at most.
        let more: Vec<Room> = (1000..10_000).filter_map(|n| take(n, MODEST)).collect();
        assert!(more.len() > 1000 && budget.taken() <= 200 * MIB);
        drop((held, more));
        assert_eq!(budget.taken(), MODEST);
        assert_eq!(budget.lock().by_network.len(), 1);
    }

    #[tokio::test]
    async fn those_who_are_told_make_room_for_one_who_waits() {
        let budget = Budget::default();
        let take = |n, bytes| budget.take(100 * MIB, net(n), bytes).unwrap();
        let _others = [1, 2, 3].map(|n| take(n, 25 * MIB));
        let (held, mut late) = (take(4, 25 * MIB), take(5, 1));
        let soon = Duration::from_millis(10);
        assert!(late.find(100 * MIB, MIB, soon).await.is_err());
        assert!(late.grow_patiently(100 * MIB, MIB, soon).await.is_err());
        let told = tokio::spawn(async move {
            held.wanted().await;
            drop(held);
        });
        tokio::time::sleep(soon).await;
        assert!(!told.is_finished());
        late.find(100 * MIB, MIB, Duration::from_secs(60)).await.unwrap();
        late.grow_patiently(100 * MIB, MIB, soon).await.unwrap();
        told.await.unwrap();
        assert_eq!((late.bytes, budget.lock().waiting), (MIB + 1, 0));
    }

    #[tokio::test]
    async fn a_network_that_has_its_share_does_not_wait() {
        let budget = Budget::default();
        let _all = [1, 2, 3, 4].map(|n| budget.take(100 * MIB, net(n), 24 * MIB).unwrap());
        let mut more = budget.take(100 * MIB, net(1), MIB).unwrap();
        let began = Instant::now();
        assert!(more.grow_patiently(100 * MIB, 9 * MIB, Duration::from_secs(60)).await.is_err());
        assert!(began.elapsed() < Duration::from_secs(30));
    }
}
