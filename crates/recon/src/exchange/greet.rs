//! The handshake: both send a configuration, then a verdict on the other's.

use std::collections::BTreeSet;
use std::time::Duration;

use fastrand::Rng;

use crate::exchange::error::ExchangeError;
use crate::exchange::found::Found;
use crate::exchange::outbox::Outbox;
use crate::message::{BIT_QUANTUM, GossipMessage, M_BAR, PeerConfig};

/// The oldest version that speaks this protocol.
const VERSION_MIN: [u32; 3] = [0, 1, 5];

/// The side of the connection that we are on.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum ExchangeRole {
    /// The peer connected to us. We ask.
    Acceptor,
    /// We connected to the peer. We answer.
    Initiator,
}

/// The parameters that we announce to a peer and expect of it; peers differ, so this is per peer.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Settings {
    /// The version we claim. Some versions of Hockeypuck insist on their own.
    pub version: String,
    /// The HTTP port at which we serve certificates.
    pub http_port: u16,
    /// The filters that we apply to certificates before their digests are made, separated by
    /// commas.
    pub filters: String,
    /// The comparison of the peer's filters with ours.
    pub filter_rule: FilterRule,
    /// Maximum number of digests that are learnt.
    pub wanted_max: usize,
}

/// The rule by which the filters of two peers are the same.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum FilterRule {
    /// The same names in any order, as for SKS.
    SameNames,
    /// The same text, as for Hockeypuck.
    SameText,
}

impl Default for Settings {
    /// The settings of SKS 1.1.6.
    fn default() -> Self {
        Self {
            version: "1.1.6".to_owned(),
            http_port: 11371,
            filters: "yminsky.dedup,yminsky.merge".to_owned(),
            filter_rule: FilterRule::SameNames,
            wanted_max: 15_000,
        }
    }
}

impl Settings {
    /// The address that the peer will see.
    fn config(&self) -> PeerConfig {
        PeerConfig {
            version: self.version.clone(),
            http_port: self.http_port,
            bit_quantum: BIT_QUANTUM,
            m_bar: M_BAR,
            filters: self.filters.clone(),
        }
    }

    fn check(&self, theirs: &PeerConfig) -> Result<(), ExchangeError> {
        if version(&theirs.version).is_none_or(|version| version < VERSION_MIN) {
            return Err(ExchangeError::Version(theirs.version.clone()));
        }
        for (name, theirs, ours) in
            [("bitquantum", theirs.bit_quantum, BIT_QUANTUM), ("mbar", theirs.m_bar, M_BAR)]
        {
            if theirs != ours {
                return Err(ExchangeError::Parameter { name, theirs, ours });
            }
        }
        let same = match self.filter_rule {
            FilterRule::SameNames => names(&theirs.filters) == names(&self.filters),
            FilterRule::SameText => theirs.filters == self.filters,
        };
        if !same {
            let (theirs, ours) = (theirs.filters.clone(), self.filters.clone());
            return Err(ExchangeError::Filters { theirs, ours });
        }
        Ok(())
    }
}

/// The first state: our configuration is sent.
#[derive(Debug)]
pub struct Greet {
    role: ExchangeRole,
    settings: Settings,
    random: Rng,
}

impl Greet {
    pub(super) fn start(
        role: ExchangeRole,
        settings: Settings,
        seed: u64,
        out: &mut Outbox,
    ) -> Self {
        out.push(&GossipMessage::Config(settings.config()));
        out.flush();
        Self { role, settings, random: Rng::with_seed(seed) }
    }

    pub(super) fn config(
        self,
        theirs: PeerConfig,
        out: &mut Outbox,
    ) -> Result<Agree, ExchangeError> {
        let checked = self.settings.check(&theirs);
        out.push(&match &checked {
            Ok(()) => GossipMessage::Passed,
            Err(error) => GossipMessage::Failed(error.to_string()),
        });
        out.flush();
        checked?;
        let found = Found {
            wanted: BTreeSet::new(),
            wanted_max: self.settings.wanted_max,
            cut: false,
            requests: 0,
            offered: 0,
            cost: Duration::ZERO,
            peer_http_port: theirs.http_port,
            peer_version: theirs.version,
        };
        Ok(Agree { role: self.role, found, random: self.random })
    }
}

/// The second state: we accepted.
#[derive(Debug)]
pub struct Agree {
    pub(super) role: ExchangeRole,
    pub(super) found: Found,
    pub(super) random: Rng,
}

/// Three numbers with dots; text after the last digit is ignored.
fn version(text: &str) -> Option<[u32; 3]> {
    let mut parts = text.splitn(3, '.');
    let number = |part: &str| part.parse().ok();
    let (first, second, third) = (parts.next()?, parts.next()?, parts.next()?);
    let end = third.find(|c: char| !c.is_ascii_digit()).unwrap_or(third.len());
    Some([number(first)?, number(second)?, number(&third[..end])?])
}

fn names(filters: &str) -> BTreeSet<&str> {
    filters.split(',').map(str::trim).filter(|name| !name.is_empty()).collect()
}
