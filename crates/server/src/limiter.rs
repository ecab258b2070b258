//! Rate limits per network: token buckets.

use std::cmp::Ordering;
use std::collections::HashMap;
use std::net::IpAddr;
use std::time::Instant;

use ipnet::IpNet;
use parking_lot::Mutex;

use crate::config::{Rate, Rates};
use crate::network::Network;
use crate::request::{Request, Via};

/// Networks that are remembered; beyond that, the half with the fullest buckets is forgotten.
const NETWORKS_MAX: usize = 65_536;

/// The requested object.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub(crate) enum Class {
    Lookup,
    Search,
    Upload,
}

#[derive(Clone, Copy, Debug)]
struct Bucket {
    tokens: f64,
    filled: Instant,
}

/// The buckets of all networks.
#[derive(Debug, Default)]
pub(crate) struct Limiter {
    buckets: Mutex<HashMap<(Network, Class), Bucket>>,
}

impl Rates {
    pub(crate) fn of(&self, class: Class) -> Rate {
        match class {
            Class::Lookup => self.lookups,
            Class::Search => self.searches,
            Class::Upload => self.uploads,
        }
    }

    /// The network whose rate limit a request counts against. `None` if the address is exempt.
    pub(crate) fn network(&self, address: IpAddr, via: Via) -> Option<Network> {
        let address = address.to_canonical();
        let exempt = via != Via::Onion && self.exempt.iter().any(|net| net.contains(&address));
        (!exempt).then(|| self.payer(address, via))
    }

    /// The network of a request, as [`Self::network`] has it.
    pub(crate) fn limited(&self, request: &Request) -> Option<Network> {
        self.network(request.client, request.via)
    }

    /// The network whose budget a request's memory is taken from. No network is exempt from this.
    pub(crate) fn payer(&self, address: IpAddr, via: Via) -> Network {
        match via {
            Via::Onion => Network::Onion,
            Via::Public | Via::Operator => Network::Net(self.net(address)),
        }
    }

    /// The network of an address.
    pub(crate) fn net(&self, address: IpAddr) -> IpNet {
        let address = address.to_canonical();
        let bits = match address {
            IpAddr::V4(_) => self.ipv4_bits,
            IpAddr::V6(_) => self.ipv6_bits,
        };
        IpNet::new(address, bits).map_or_else(|_| address.into(), |net| net.trunc())
    }
}

impl Limiter {
    /// Takes one token. `Err` has the seconds after which there is one.
    pub(crate) fn take(
        &self,
        rates: &Rates,
        network: Network,
        class: Class,
        now: Instant,
    ) -> Result<(), u64> {
        let Rate { mut per_second, mut burst } = rates.of(class);
        if network == Network::Onion {
            per_second *= f64::from(rates.onion_share);
            burst *= f64::from(rates.onion_share);
        }
        let mut buckets = self.buckets.lock();
        if buckets.len() >= NETWORKS_MAX && !buckets.contains_key(&(network, class)) {
            forget_fullest(&mut buckets, rates, now);
        }
        let bucket =
            buckets.entry((network, class)).or_insert(Bucket { tokens: burst, filled: now });
        let since = now.saturating_duration_since(bucket.filled).as_secs_f64();
        bucket.tokens = (bucket.tokens + since * per_second).min(burst);
        bucket.filled = now;
        if bucket.tokens >= 1.0 {
            bucket.tokens -= 1.0;
            return Ok(());
        }
        let wait = ((1.0 - bucket.tokens) / per_second).ceil();
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a few seconds"
        )]
        Err(wait as u64)
    }
}

/// Forgets half of the buckets: the fullest, since a full one is as good as none.
fn forget_fullest(buckets: &mut HashMap<(Network, Class), Bucket>, rates: &Rates, now: Instant) {
    let fullness = |class: Class, bucket: &Bucket| {
        let Rate { per_second, burst } = rates.of(class);
        let since = now.saturating_duration_since(bucket.filled).as_secs_f64();
        ((bucket.tokens + since * per_second) / burst).min(1.0)
    };
    let mut all: Vec<f64> =
        buckets.iter().map(|(&(_, class), bucket)| fullness(class, bucket)).collect();
    let half = all.len() / 2;
    let median = *all.select_nth_unstable_by(half, f64::total_cmp).1;
    let mut equal = half - all[..half].iter().filter(|&&fullness| fullness < median).count();
    buckets.retain(|&(_, class), bucket| match fullness(class, bucket).total_cmp(&median) {
        Ordering::Less => true,
        Ordering::Equal if equal > 0 => {
            equal -= 1;
            true
        }
        _ => false,
    });
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn rates() -> Rates {
        Rates { uploads: Rate { per_second: 2.0, burst: 3.0 }, ..Rates::default() }
    }

    #[test]
    fn a_bucket_allows_its_burst_and_then_its_rate() {
        let (rates, limiter, start) = (rates(), Limiter::default(), Instant::now());
        let net = rates.network("192.0.2.7".parse().unwrap(), Via::Public).unwrap();
        let take = |ms| {
            limiter.take(&rates, net, Class::Upload, start + Duration::from_millis(ms)).is_ok()
        };
        assert!(take(0) && take(0) && take(0) && !take(0));
        assert!(!take(400) && take(500) && !take(500) && take(1000));
    }

    #[test]
    fn a_network_that_has_used_its_rate_is_not_forgotten_for_others() {
        let (rates, limiter, now) = (rates(), Limiter::default(), Instant::now());
        let take = |address: u32| {
            let net = rates.network(std::net::Ipv4Addr::from(address).into(), Via::Public);
            limiter.take(&rates, net.unwrap(), Class::Upload, now).is_ok()
        };
        let used = 0x0100_0000;
        while take(used) {}
        for other in 0..200_000 {
            assert!(take(0x0200_0000 + other * 256));
        }
        assert!(!take(used));
        let buckets = limiter.buckets.lock().len();
        assert!((NETWORKS_MAX / 2..=NETWORKS_MAX).contains(&buckets), "{buckets}");
    }

    #[test]
    fn neighbouring_addresses_share_a_bucket_and_others_do_not() {
        let rates = rates();
        let net = |text: &str| rates.network(text.parse().unwrap(), Via::Public);
        assert_eq!(net("2001:db8:1:2:3::4"), net("2001:db8:1:2:ffff::1"));
        assert_ne!(net("2001:db8:1:2:3::4"), net("2001:db8:2::1"));
        assert_eq!(net("::ffff:192.0.2.7"), net("192.0.2.7"));
        assert_eq!(net("127.0.0.1"), None);
    }

    #[test]
    fn all_clients_of_an_onion_service_share_a_bucket() {
        let rates = rates();
        let through = |via, text: &str| rates.network(text.parse().unwrap(), via);
        assert_eq!(through(Via::Onion, "127.0.0.1"), Some(Network::Onion));
        assert_eq!(through(Via::Onion, "192.0.2.7"), Some(Network::Onion));
        assert_eq!(through(Via::Public, "127.0.0.1"), None);
    }

    #[test]
    fn memory_is_bounded() {
        let (rates, limiter, start) = (rates(), Limiter::default(), Instant::now());
        for n in 0..100_000u32 {
            let net = Network::Net(rates.net(IpAddr::from(n.to_be_bytes())));
            let _ = limiter.take(&rates, net, Class::Lookup, start);
        }
        assert!(limiter.buckets.lock().len() <= NETWORKS_MAX);
    }
}
