//! How many mails may be sent: to a mailbox, to a domain, about a certificate, for a network.

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use talaria_cert::Fingerprint;

use crate::network::Network;

/// Mails to one mailbox within [`WINDOW`], and those that one network may ask for.
pub(crate) const MAILBOX_MAILS_MAX: usize = 4;
pub(crate) const SHARE_MAILS_MAX: usize = 2;

/// Mails about one certificate within [`WINDOW`]. Nearly all certificates have fewer addresses.
pub(crate) const CERT_MAILS_MAX: usize = 20;

/// Mails that one network asks for within [`WINDOW`]. Anybody can make certificates with addresses
/// of others.
pub(crate) const NETWORK_MAILS_MAX: usize = 60;

/// Mails to one domain within [`DOMAIN_WINDOW`] for all networks that have not confirmed any
/// address.
pub(crate) const DOMAIN_MAILS_MAX: usize = 100;

/// The time in which mails are counted.
const WINDOW: Duration = Duration::from_secs(3600);
const DOMAIN_WINDOW: Duration = Duration::from_secs(600);

/// Payers that are remembered. Beyond that, those with the smallest part of their mails are
/// forgotten.
const REMEMBERED_MAX: usize = 65_536;

/// The part of them that is forgotten at once.
const FORGOTTEN_PART: usize = 8;

/// Networks that are known to have confirmed an address, and for how long.
const KNOWN_MAX: usize = 65_536;
const KNOWN: Duration = Duration::from_secs(30 * 24 * 3600);

/// Providers that read an address without its dots.
const WITHOUT_DOTS: [&str; 2] = ["gmail.com", "googlemail.com"];

/// Whose number of mails is limited.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub(crate) enum Payer {
    /// All addresses of one mailbox, see [`mailbox`].
    Mailbox(String),
    /// A network, and a mailbox to which it has mails sent.
    Share(Network, String),
    Domain(String),
    Cert(Fingerprint),
    Network(Network),
}

impl Payer {
    /// The time in which its mails are counted.
    fn window(&self) -> Duration {
        match self {
            Self::Domain(_) => DOMAIN_WINDOW,
            _ => WINDOW,
        }
    }
}

impl fmt::Display for Payer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Mailbox(mailbox) | Self::Share(_, mailbox) => f.write_str(mailbox),
            Self::Domain(domain) => f.write_str(domain),
            Self::Cert(fingerprint) => write!(f, "the certificate {fingerprint}"),
            Self::Network(_) => f.write_str("your network"),
        }
    }
}

/// The mailbox of an address, under one name: without what stands behind a plus sign, and without
/// dots where the provider ignores them.
pub(crate) fn mailbox(address: &str) -> String {
    let local = address.rsplit_once('@').map_or(address, |(local, _)| local);
    let unquoted = local.strip_prefix('"').and_then(|local| local.strip_suffix('"'));
    let local: String = unquoted.unwrap_or(local).chars().filter(|&c| c != '\\').collect();
    let mut local = local.split('+').next().unwrap_or_default().to_lowercase();
    let mut domain = domain_of(address);
    if WITHOUT_DOTS.contains(&domain.as_str()) {
        local.retain(|c| c != '.');
        WITHOUT_DOTS[0].clone_into(&mut domain);
    }
    format!("{local}@{domain}")
}

/// The domain of an address, under one name.
pub(crate) fn domain_of(address: &str) -> String {
    let (_, domain) = address.rsplit_once('@').unwrap_or_default();
    domain.trim_end_matches('.').to_lowercase()
}

/// Somebody got their mails for now.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Spent {
    pub(crate) who: Payer,
    /// The time until there is one more.
    pub(crate) seconds: u64,
}

/// The mails that were sent lately, and the networks that have confirmed addresses.
#[derive(Debug, Default)]
pub(crate) struct Quota {
    sent: Mutex<HashMap<Payer, Sent>>,
    known: Mutex<HashMap<Network, Instant>>,
}

/// The times of mails.
#[derive(Debug, Default)]
struct Sent {
    times: VecDeque<Instant>,
    max: usize,
}

impl Sent {
    /// How much of the limit is used up, in thousandths.
    fn used(&self) -> usize {
        self.times.len().saturating_mul(1000) / self.max.max(1)
    }
}

impl Quota {
    /// Takes the place of one mail from each of `payers`, or from none. [`Self::give_back`] frees
    /// it if the mail did not reach the mail server.
    ///
    /// # Errors
    ///
    /// [`Spent`] for the first payer that has its mails.
    pub(crate) fn take(&self, payers: &[(Payer, usize)], now: Instant) -> Result<(), Spent> {
        let mut all = self.sent.lock();
        check(&mut all, payers, now)?;
        for (payer, max) in payers {
            let sent = all.entry(payer.clone()).or_default();
            sent.max = *max;
            sent.times.push_back(now);
        }
        if all.len() > REMEMBERED_MAX {
            forget(&mut all, now);
        }
        Ok(())
    }

    /// Whether each of `payers` has a place.
    ///
    /// # Errors
    ///
    /// As [`Self::take`].
    pub(crate) fn check(&self, payers: &[(Payer, usize)], now: Instant) -> Result<(), Spent> {
        check(&mut self.sent.lock(), payers, now)
    }

    pub(crate) fn give_back(&self, payers: &[(Payer, usize)]) {
        let mut all = self.sent.lock();
        for (payer, _) in payers {
            let Some(Sent { times, .. }) = all.get_mut(payer) else { continue };
            times.pop_back();
            if times.is_empty() {
                all.remove(payer);
            }
        }
    }

    /// Notes that somebody in a network has confirmed an address, whose mail they read.
    pub(crate) fn has_confirmed(&self, network: Network, now: Instant) {
        // All who come through an onion service are one network here.
        if network == Network::Onion {
            return;
        }
        let mut known = self.known.lock();
        if known.len() >= KNOWN_MAX {
            let oldest = known.iter().min_by_key(|(_, since)| **since).map(|(network, _)| *network);
            oldest.map(|oldest| known.remove(&oldest));
        }
        known.insert(network, now);
    }

    /// Whether somebody in a network has confirmed an address lately.
    pub(crate) fn is_known(&self, network: Network, now: Instant) -> bool {
        let known = self.known.lock();
        known.get(&network).is_some_and(|since| now.saturating_duration_since(*since) < KNOWN)
    }
}

fn check(
    all: &mut HashMap<Payer, Sent>,
    payers: &[(Payer, usize)],
    now: Instant,
) -> Result<(), Spent> {
    for (payer, max) in payers {
        let Some(Sent { times, .. }) = all.get_mut(payer) else { continue };
        let recent = |sent: &Instant| now.saturating_duration_since(*sent) < payer.window();
        while times.front().is_some_and(|sent| !recent(sent)) {
            times.pop_front();
        }
        if let (true, Some(first)) = (times.len() >= *max, times.front()) {
            let wait = payer.window().saturating_sub(now.saturating_duration_since(*first));
            return Err(Spent { who: payer.clone(), seconds: wait.as_secs() + 1 });
        }
    }
    Ok(())
}

/// Forgets mails that no longer count, then payers with the smallest part of their mails, of these
/// the oldest ones. So whoever asks for mails to many addresses lifts no limit that is reached.
fn forget(all: &mut HashMap<Payer, Sent>, now: Instant) {
    all.retain(|payer, sent| {
        let last = sent.times.back();
        last.is_some_and(|last| now.saturating_duration_since(*last) < payer.window())
    });
    if all.len() <= REMEMBERED_MAX {
        return;
    }
    let mut ranks: Vec<(usize, Option<Instant>)> =
        all.values().map(|sent| (sent.used(), sent.times.back().copied())).collect();
    let (_, last, _) = ranks.select_nth_unstable(REMEMBERED_MAX / FORGOTTEN_PART);
    let last = *last;
    // Of those with the same rank as the last one, not all need to go.
    let mut left = REMEMBERED_MAX / FORGOTTEN_PART;
    all.retain(|_, sent| {
        let goes = left > 0 && (sent.used(), sent.times.back().copied()) <= last;
        left -= usize::from(goes);
        !goes
    });
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use super::*;

    fn network(number: u32) -> Network {
        Network::Net(IpAddr::from(number.to_be_bytes()).into())
    }

    /// The payers of a mail.
    fn payers(address: &str, cert: u8, number: u32) -> Vec<(Payer, usize)> {
        vec![
            (Payer::Mailbox(mailbox(address)), MAILBOX_MAILS_MAX),
            (Payer::Share(network(number), mailbox(address)), SHARE_MAILS_MAX),
            (Payer::Cert(Fingerprint::V4([cert; 20])), CERT_MAILS_MAX),
            (Payer::Network(network(number)), NETWORK_MAILS_MAX),
        ]
    }

    #[test]
    fn all_addresses_of_a_mailbox_count_as_one() {
        for (address, expected) in [
            ("alice@example.org", "alice@example.org"),
            ("Alice+news@Example.ORG.", "alice@example.org"),
            ("alice+a+b@example.org", "alice@example.org"),
            ("\"alice+x\"@example.org", "alice@example.org"),
            ("\"al\\ice\"@example.org", "alice@example.org"),
            ("a.li.ce@example.org", "a.li.ce@example.org"),
            ("a.li.ce+x@googlemail.com", "alice@gmail.com"),
            ("alice@gmail.com", "alice@gmail.com"),
            ("+x@example.org", "@example.org"),
        ] {
            assert_eq!(mailbox(address), expected, "{address}");
        }
    }

    #[test]
    fn a_mailbox_gets_a_limited_number_of_mails_per_hour_and_a_network_its_share_of_them() {
        let (quota, start) = (Quota::default(), Instant::now());
        let take = |address: &str, number, s| {
            quota.take(&payers(address, 1, number), start + Duration::from_secs(s))
        };
        for n in 0..4 {
            take(&format!("a+{n}@example.org"), n / 2, n.into()).unwrap();
        }
        let spent = |result: Result<(), Spent>| result.unwrap_err().who;
        assert!(matches!(spent(take("a+9@example.org", 7, 10)), Payer::Mailbox(_)));
        take("b@example.org", 0, 10).unwrap();
        take("b+1@example.org", 0, 10).unwrap();
        assert!(matches!(spent(take("b@example.org", 0, 10)), Payer::Share(..)));
        take("b@example.org", 1, 10).unwrap();
        // A mail that was not sent does not count.
        quota.give_back(&payers("a@example.org", 1, 1));
        take("a@example.org", 1, 11).unwrap();
        assert!(take("a@example.org", 8, 12).is_err());
        // The first mail no longer counts after an hour.
        assert!(take("a@example.org", 8, 3599).is_err());
        take("a@example.org", 8, 3600).unwrap();
    }

    #[test]
    fn a_certificate_and_a_network_have_limits_of_their_own() {
        let (quota, start) = (Quota::default(), Instant::now());
        let take = |address: usize, cert, number| {
            quota.take(&payers(&format!("{address}@example.org"), cert, number), start)
        };
        let who = |result: Result<(), Spent>| result.unwrap_err().who;
        for n in 0..CERT_MAILS_MAX {
            take(n, 1, 1).unwrap();
        }
        assert!(matches!(who(take(99, 1, 2)), Payer::Cert(_)));
        for n in CERT_MAILS_MAX..NETWORK_MAILS_MAX {
            take(n, u8::try_from(n).unwrap(), 1).unwrap();
        }
        assert!(matches!(who(take(99, 99, 1)), Payer::Network(_)));
        // What was refused took nothing from the others.
        take(99, 99, 2).unwrap();
    }

    #[test]
    fn requests_for_many_addresses_lift_no_limit_and_refuse_nobody() {
        let (quota, start) = (Quota::default(), Instant::now());
        let of = |address: String| [(Payer::Mailbox(address), MAILBOX_MAILS_MAX)];
        for _ in 0..MAILBOX_MAILS_MAX {
            quota.take(&of("victim".into()), start).unwrap();
        }
        for n in 0..2 * REMEMBERED_MAX {
            quota.take(&of(n.to_string()), start).unwrap();
            assert!(quota.sent.lock().len() <= REMEMBERED_MAX);
        }
        assert!(quota.take(&of("victim".into()), start).is_err());
        quota.take(&of("victim".into()), start + WINDOW).unwrap();
    }

    #[test]
    fn a_network_is_known_for_a_month_after_it_has_confirmed_an_address() {
        let (quota, start) = (Quota::default(), Instant::now());
        for number in 0..=u32::try_from(KNOWN_MAX).unwrap() {
            // The clock of some systems has a resolution of milliseconds.
            quota.has_confirmed(network(number), start + Duration::from_millis(number.into()));
        }
        quota.has_confirmed(Network::Onion, start);
        let is_known = |number, s| quota.is_known(network(number), start + Duration::from_secs(s));
        assert!(!is_known(0, 70) && is_known(1, 70) && !is_known(1, 31 * 24 * 3600));
        assert!(!quota.is_known(Network::Onion, start));
    }
}
