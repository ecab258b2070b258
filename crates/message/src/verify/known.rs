//! A bounded cache of certificates that were looked up, parsed and evaluated.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;

use parking_lot::Mutex;
use talaria_cert::{
    Fault, Fingerprint, Judge, Key, KeySetup, Purpose, Summary, UserIdContent, UserIdSummary,
    Validity, Why,
};

use crate::verify::report::{Issuer, NotCounted, Signer};

/// The maximum number of issuers in the cache.
const CACHE_MAX: usize = 4096;

/// The keys of the issuers in the cache.
#[derive(Default)]
pub(super) struct KeyCache {
    keys: HashMap<Issuer, Arc<Vec<CachedKey>>>,
    order: VecDeque<Issuer>,
}

impl KeyCache {
    pub(super) fn get(&self, issuer: &Issuer) -> Option<Arc<Vec<CachedKey>>> {
        self.keys.get(issuer).map(Arc::clone)
    }

    /// Adds the keys of an issuer. A full cache drops the oldest entry.
    pub(super) fn put(&mut self, issuer: &Issuer, keys: Vec<CachedKey>) -> Arc<Vec<CachedKey>> {
        // Two threads may have looked up the same issuer at once; one result is enough.
        if let Some(keys) = self.get(issuer) {
            return keys;
        }
        if self.order.len() == CACHE_MAX
            && let Some(oldest) = self.order.pop_front()
        {
            self.keys.remove(&oldest);
        }
        let keys = Arc::new(keys);
        self.keys.insert(issuer.clone(), Arc::clone(&keys));
        self.order.push_back(issuer.clone());
        keys
    }
}

/// A key of a certificate.
pub(super) struct CachedKey {
    judge: Arc<Judge>,
    fingerprint: Fingerprint,
    /// The fingerprints of the certificate and of the key, in hexadecimal.
    names: (String, String),
    /// The body of the public-key packet.
    pub(super) body: Vec<u8>,
    pub(super) setup: KeySetup,
    /// The times at which the validity of the key may change, ascending.
    times: Arc<[u32]>,
    /// The validity of the key from each of these times on.
    worth: Mutex<BTreeMap<u32, Arc<Worth>>>,
}

/// The validity of a key at a time.
pub(super) struct Worth {
    pub(super) refused: Option<NotCounted>,
    /// The time of the oldest self-signatures that are present, if the key was in use before.
    pub(super) bound_later: Option<u32>,
    user_id: Option<String>,
}

impl CachedKey {
    /// The keys of a certificate that match an issuer.
    pub(super) fn of(judge: Judge, issuer: &Issuer) -> Vec<Self> {
        let times: Arc<[u32]> = judge.times().into();
        let judge = Arc::new(judge);
        let is_issuer = |key: &Fingerprint| match issuer.fingerprint {
            Some(wanted) => *key == wanted,
            None => key.key_id() == issuer.key_id,
        };
        let keys =
            judge.cert().packets().filter_map(|packet| Some((packet, Key::parse(packet).ok()?)));
        let keys = keys.map(|(packet, key)| (packet.body.to_vec(), key.fingerprint()));
        let wanted = keys.filter(|(_, fingerprint)| is_issuer(fingerprint));
        let certificate = judge.cert().fingerprint().to_string();
        let cached = wanted.map(|(body, fingerprint)| Self {
            judge: Arc::clone(&judge),
            names: (certificate.clone(), fingerprint.to_string()),
            fingerprint,
            body,
            setup: KeySetup::default(),
            times: Arc::clone(&times),
            worth: Mutex::default(),
        });
        cached.collect()
    }

    /// The validity of the key for signatures made at `time`.
    pub(super) fn worth(&self, time: u32) -> Arc<Worth> {
        let place = self.times.partition_point(|&from| from <= time);
        let from = if place == 0 { 0 } else { self.times[place - 1] };
        let mut worth = self.worth.lock();
        Arc::clone(worth.entry(from).or_insert_with(|| Arc::new(self.ask(from))))
    }

    fn ask(&self, time: u32) -> Worth {
        let mut summary = self.judge.at(time);
        let usable = |summary: &Summary, time| {
            self.judge.key_usable(summary, self.fingerprint, Purpose::Sign, time)
        };
        let mut refused = usable(&summary, time);
        // A copy of a certificate may have the newest self-signatures only. Then the oldest that it
        // has decides.
        let is_unbound = |why: &Why| why.fault == Fault::Unbound;
        let is_made = || {
            let mut keys = summary.keys();
            let mut made =
                |key| keys.any(|found| found.fingerprint == key && found.created <= time);
            made(self.fingerprint) && summary.primary.created <= time
        };
        let bound_later = match &refused {
            Err(why) if is_unbound(why) && is_made() => {
                self.judge.bound_from(self.fingerprint).filter(|&from| from > time)
            }
            _ => None,
        };
        if let Some(from) = bound_later {
            summary = self.judge.at(from);
            refused = usable(&summary, from);
        }
        let refused = refused.err().map(|why| match why.fault {
            Fault::Revoked => NotCounted::Revoked,
            Fault::Expired(_) => NotCounted::KeyExpired,
            _ => NotCounted::Unbound(why.to_string()),
        });
        let at = bound_later.unwrap_or(time);
        let valid = |id: &&UserIdSummary| id.validity(at) == Validity::Valid;
        let mut valid: Vec<_> = summary.user_ids.iter().filter(valid).collect();
        valid.sort_by_key(|id| !id.primary);
        let user_id = valid.into_iter().find_map(|id| match &id.content {
            UserIdContent::Text(text) => Some(String::from_utf8_lossy(text).into_owned()),
            UserIdContent::Attribute { .. } => None,
        });
        Worth { refused, bound_later, user_id }
    }

    pub(super) fn signer(&self, worth: &Worth) -> Signer {
        let (certificate, key) = self.names.clone();
        Signer { certificate, key, user_id: worth.user_id.clone() }
    }
}
