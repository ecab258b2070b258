//! The places for connections: in all, and for each network. If all are taken, an idle connection
//! makes room.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::io;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::AbortHandle;
use ipnet::IpNet;
use parking_lot::Mutex;
use prometheus::IntCounter;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;

use crate::config::Http;
use crate::metrics::count;
use crate::patient::Activity;

/// The prefix length in bits of a wide network of IPv6: a provider gives one to a customer who asks
/// for it.
const WIDE_BITS: u8 = 48;

/// The places of a wide network of IPv6, as a multiple of those of a network.
const WIDE_SHARE: usize = 4;

/// The time after which another idle connection is ended if no place became free.
const AGAIN: Duration = Duration::from_millis(100);

/// The places for connections, which all sockets of a kind share.
#[derive(Clone, Debug)]
pub(crate) struct Places {
    permits: Arc<Semaphore>,
    open: Arc<Mutex<Open>>,
}

/// The open connections.
#[derive(Debug, Default)]
struct Open {
    /// The number of connections of each network, wide ones included.
    counts: HashMap<IpNet, usize>,
    /// Networks by number of connections. Of a wide network, only the whole is here.
    ranks: BTreeSet<(usize, IpNet)>,
    /// Connections by network, and by a number of their own.
    connections: BTreeMap<(IpNet, u64), Connected>,
    last: u64,
}

/// An open connection.
#[derive(Debug)]
struct Connected {
    net: IpNet,
    since: Instant,
    /// Its requests. `None` until it is clear that the client speaks HTTP.
    activity: Option<Activity>,
    end: AbortHandle,
}

/// The place of a connection, until it is dropped.
#[derive(Debug)]
pub(super) struct Place {
    _permit: OwnedSemaphorePermit,
    open: Arc<Mutex<Open>>,
    key: (IpNet, u64),
}

impl Places {
    /// As many places as the settings say, for so many sockets.
    pub(crate) fn new(http: &Http, sockets: usize) -> Self {
        // Each socket takes a place before it waits for the next connection.
        let permits = http.connections.saturating_add(sockets.saturating_sub(1));
        let permits = Arc::new(Semaphore::new(permits.min(Semaphore::MAX_PERMITS)));
        Self { permits, open: Arc::default() }
    }

    /// A place for the next connection. If all are taken, it ends the connection that has been idle
    /// for longest, of the network that has most, and counts it; if none is idle, it waits.
    pub(super) async fn take(&self, ended: &IntCounter) -> io::Result<OwnedSemaphorePermit> {
        if let Ok(permit) = Arc::clone(&self.permits).try_acquire_owned() {
            return Ok(permit);
        }
        loop {
            if self.open.lock().end_idle() {
                count(ended, 1);
            }
            let permit = Arc::clone(&self.permits).acquire_owned();
            if let Ok(permit) = tokio::time::timeout(AGAIN, permit).await {
                return permit.map_err(io::Error::other);
            }
        }
    }

    /// Gives a place to a connection of a network, unless `max` others of the network have one, or
    /// four times as many of its wide network. `end` ends the connection.
    pub(super) fn enter(
        &self,
        permit: OwnedSemaphorePermit,
        net: IpNet,
        max: usize,
        end: AbortHandle,
    ) -> Option<Place> {
        let key = self.open.lock().enter(net, max, end)?;
        Some(Place { _permit: permit, open: Arc::clone(&self.open), key })
    }
}

impl Place {
    /// Counts the connection for another network, unless that has too many.
    pub(super) fn moves(&mut self, net: IpNet, max: usize) -> bool {
        let mut open = self.open.lock();
        let entered = open.leave(self.key).and_then(|left| open.enter(net, max, left.end));
        entered.inspect(|&key| self.key = key).is_some()
    }

    /// From now on, a connection is idle if its requests say so, and `end` ends it.
    pub(super) fn serves(&self, activity: Activity, end: AbortHandle) {
        match self.open.lock().connections.get_mut(&self.key) {
            Some(connected) => {
                connected.activity = Some(activity);
                connected.end = end;
            }
            // It had to make room a moment ago.
            None => end.abort(),
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.open.lock().leave(self.key);
    }
}

impl Open {
    fn enter(&mut self, net: IpNet, max: usize, end: AbortHandle) -> Option<(IpNet, u64)> {
        let wide = wide(net);
        let count = |net| self.counts.get(&net).copied().unwrap_or(0);
        if count(net) >= max || count(wide) >= max.saturating_mul(WIDE_SHARE) {
            return None;
        }
        self.last += 1;
        let key = (wide, self.last);
        let connected = Connected { net, since: Instant::now(), activity: None, end };
        self.connections.insert(key, connected);
        self.counted(net, wide, 1);
        Some(key)
    }

    /// Forgets a connection, if it is not forgotten yet.
    fn leave(&mut self, key: (IpNet, u64)) -> Option<Connected> {
        let connected = self.connections.remove(&key)?;
        self.counted(connected.net, key.0, -1);
        Some(connected)
    }

    fn counted(&mut self, net: IpNet, wide: IpNet, more: isize) {
        let mut change = |net| {
            let count = self.counts.entry(net).or_default();
            let before = *count;
            *count = before.saturating_add_signed(more);
            (before, *count)
        };
        if net != wide {
            change(net);
        }
        let (before, now) = change(wide);
        self.ranks.remove(&(before, wide));
        if now > 0 {
            self.ranks.insert((now, wide));
        }
        for net in [net, wide] {
            if self.counts.get(&net) == Some(&0) {
                self.counts.remove(&net);
            }
        }
    }

    /// Ends the connection that has been idle for longest, of the networks that have most among
    /// those with an idle one.
    fn end_idle(&mut self) -> bool {
        let mut longest: Option<(usize, Instant, (IpNet, u64))> = None;
        for &(count, net) in self.ranks.iter().rev() {
            if longest.is_some_and(|(of, ..)| of > count) {
                break;
            }
            let connections = self.connections.range((net, 0)..=(net, u64::MAX));
            let idle = connections.filter_map(|(&key, of)| Some((count, of.idle_since()?, key)));
            longest = longest.into_iter().chain(idle).min_by_key(|&(_, since, _)| since);
        }
        let Some((.., key)) = longest else { return false };
        // It has no place any more, even before its task has ended.
        self.leave(key).inspect(|connected| connected.end.abort()).is_some()
    }
}

impl Connected {
    /// The time since when no request is under way, `None` if one is.
    fn idle_since(&self) -> Option<Instant> {
        self.activity.as_ref().map_or(Some(self.since), Activity::idle_since)
    }
}

/// The wide network of a network: a /48 of IPv6, or the network itself.
fn wide(net: IpNet) -> IpNet {
    match net.addr() {
        IpAddr::V6(_) if net.prefix_len() > WIDE_BITS => {
            IpNet::new(net.addr(), WIDE_BITS).map_or(net, |wide| wide.trunc())
        }
        IpAddr::V4(_) | IpAddr::V6(_) => net,
    }
}

#[cfg(test)]
mod tests {
    use futures_util::future::Abortable;

    use super::*;

    fn places(connections: usize) -> Places {
        Places::new(&Http { connections, ..Http::default() }, 1)
    }

    /// A connection that got a place.
    fn enter(places: &Places, net: &str, max: usize) -> Option<(Place, AbortHandle)> {
        let permit = Arc::clone(&places.permits).try_acquire_owned().expect("a free place");
        let (end, _) = AbortHandle::new_pair();
        let place = places.enter(permit, net.parse().unwrap(), max, end.clone())?;
        Some((place, end))
    }

    #[test]
    fn a_network_has_its_places_and_a_wide_one_those_of_four() {
        let places = places(100);
        let mut open = Vec::new();
        for _ in 0..2 {
            for net in ["192.0.2.7/32", "2001:db8:1::/56", "2001:db8:1:100::/56"] {
                open.push(enter(&places, net, 2).unwrap());
            }
        }
        assert!(enter(&places, "192.0.2.7/32", 2).is_none());
        assert!(enter(&places, "2001:db8:1::/56", 2).is_none());
        open.push(enter(&places, "192.0.2.8/32", 2).unwrap());
        for number in 2..6 {
            open.push(enter(&places, &format!("2001:db8:1:{number}00::/56"), 2).unwrap());
        }
        assert!(enter(&places, "2001:db8:1:600::/56", 2).is_none());
        open.push(enter(&places, "2001:db8:2:600::/56", 2).unwrap());
        // A proxy says for whom it connects.
        let (mut place, _) = enter(&places, "192.0.2.9/32", 2).unwrap();
        assert!(place.moves("192.0.2.8/32".parse().unwrap(), 2));
        assert!(enter(&places, "192.0.2.8/32", 2).is_none());
        assert!(!place.moves("192.0.2.7/32".parse().unwrap(), 2));
        drop(place);
        open.clear();
        let empty = places.open.lock();
        assert!(empty.counts.is_empty() && empty.ranks.is_empty() && empty.connections.is_empty());
    }

    #[tokio::test]
    async fn the_longest_idle_connection_of_the_largest_network_makes_room() {
        let places = places(6);
        let mut open = Vec::new();
        // The first one is alone in its network, and the next one has a request.
        let nets = ["192.0.2.1/32", "2001:db8:1::/56", "2001:db8:1:100::/56"];
        for net in nets.into_iter().chain(["2001:db8:1:200::/56"; 2]).chain(["192.0.2.2/32"]) {
            open.push(enter(&places, net, 9).unwrap());
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        let activity = |place: &(Place, AbortHandle)| {
            let activity = Activity::new(Duration::from_secs(60), None);
            place.0.serves(activity.clone(), place.1.clone());
            activity
        };
        let request = activity(&open[1]).request();
        // It has answered a request since it came.
        drop(activity(&open[2]).request());
        let next = || {
            let was_ended: Vec<bool> = open.iter().map(|(_, end)| end.is_aborted()).collect();
            places.open.lock().end_idle();
            (0..6).find(|&at| open[at].1.is_aborted() && !was_ended[at])
        };
        assert_eq!([(); 5].map(|()| next()), [3, 4, 2, 0, 5].map(Some));
        // The last one is busy, and then it is not.
        assert_eq!(next(), None);
        drop(request);
        assert_eq!(next(), Some(1));
    }

    #[tokio::test]
    async fn a_newcomer_waits_while_all_others_are_busy() {
        let (places, ended) = (places(1), IntCounter::new("ended", "Ended.").unwrap());
        let permit = places.take(&ended).await.unwrap();
        let (end, _) = AbortHandle::new_pair();
        let place = places.enter(permit, "192.0.2.1/32".parse().unwrap(), 9, end).unwrap();
        let activity = Activity::new(Duration::from_secs(60), None);
        let (end, served) = AbortHandle::new_pair();
        place.serves(activity.clone(), end);
        let request = activity.request();
        let connection = async move {
            let _place = place;
            std::future::pending::<()>().await;
        };
        tokio::spawn(Abortable::new(connection, served));
        assert!(tokio::time::timeout(2 * AGAIN, places.take(&ended)).await.is_err());
        assert_eq!(ended.get(), 0);
        drop(request);
        drop(places.take(&ended).await.unwrap());
        assert_eq!(ended.get(), 1);
    }
}
