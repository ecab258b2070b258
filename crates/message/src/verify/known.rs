//! A bounded cache of certificates that were looked up, parsed and evaluated.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use parking_lot::Mutex;
use sequoia_openpgp as openpgp;
use sequoia_openpgp::cert::ValidCert;
use sequoia_openpgp::cert::amalgamation::ValidAmalgamation as _;
use sequoia_openpgp::packet::Signature;
use sequoia_openpgp::policy::Policy;
use sequoia_openpgp::serialize::MarshalInto as _;
use sequoia_openpgp::types::{RevocationStatus, SignatureType};
use talaria_cert::KeySetup;

use crate::certs::sound;
use crate::guard::guarded;
use crate::revoked::{LookUp, Revocations};
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
    cert: openpgp::Cert,
    fingerprint: openpgp::Fingerprint,
    /// The fingerprints of the certificate and of the key, in hexadecimal.
    names: (String, String),
    /// The body of the public-key packet.
    pub(super) body: Vec<u8>,
    pub(super) setup: KeySetup,
    revocations: Arc<Revocations>,
    /// The times at which the validity of the key may change, ascending.
    times: Arc<[u32]>,
    /// The validity of the key from each of these times on.
    worth: Mutex<BTreeMap<u32, Arc<Worth>>>,
}

/// The validity of a key at a time.
pub(super) struct Worth {
    pub(super) refused: Option<NotCounted>,
    user_id: Option<String>,
}

impl CachedKey {
    /// The keys of `cert` that match an issuer. `look_up` finds the designated revokers of `cert`.
    pub(super) fn of(
        cert: &openpgp::Cert,
        issuer: &Issuer,
        policy: &dyn Policy,
        look_up: LookUp<'_>,
        now: u32,
    ) -> Vec<Self> {
        let cert = &*sound(cert);
        let wanted = issuer.fingerprint.map(|fingerprint| fingerprint.to_string());
        let revocations = Arc::new(Revocations::of(cert, policy, look_up, now));
        let times: Arc<[u32]> = times(cert, &revocations).into();
        let is_issuer = |key: &openpgp::Fingerprint| match &wanted {
            Some(wanted) => key.to_hex() == *wanted,
            None => openpgp::KeyID::from(key).to_hex() == issuer.key_id.to_string(),
        };
        cert.keys()
            .filter(|key| is_issuer(&key.key().fingerprint()))
            .filter_map(|key| {
                let body = key_packet(key.key()).to_vec().ok()?;
                let body = talaria_cert::first_packet(&body)?.body.to_vec();
                Some(Self {
                    cert: cert.clone(),
                    names: (cert.fingerprint().to_hex(), key.key().fingerprint().to_hex()),
                    fingerprint: key.key().fingerprint(),
                    body,
                    setup: KeySetup::default(),
                    revocations: Arc::clone(&revocations),
                    times: Arc::clone(&times),
                    worth: Mutex::default(),
                })
            })
            .collect()
    }

    /// The validity of the key for signatures made at `time`.
    pub(super) fn worth(&self, policy: &dyn Policy, time: u32) -> Arc<Worth> {
        let place = self.times.partition_point(|&from| from <= time);
        let from = if place == 0 { 0 } else { self.times[place - 1] };
        let mut worth = self.worth.lock();
        let evaluate = || {
            let unbound = || NotCounted::Unbound("a part of the certificate is malformed".into());
            let malformed = || Worth { refused: Some(unbound()), user_id: None };
            Arc::new(guarded(|| self.ask(policy, from)).unwrap_or_else(malformed))
        };
        Arc::clone(worth.entry(from).or_insert_with(evaluate))
    }

    fn ask(&self, policy: &dyn Policy, time: u32) -> Worth {
        let time = SystemTime::UNIX_EPOCH + Duration::from_secs(u64::from(time));
        match self.cert.with_policy(policy, time) {
            Ok(valid) => Worth {
                refused: self.refused(&valid, seconds(time)),
                user_id: valid
                    .primary_userid()
                    .ok()
                    .map(|id| String::from_utf8_lossy(id.userid().value()).into_owned()),
            },
            Err(error) => {
                let why = format!("the certificate was not valid at that time: {error}");
                Worth { refused: Some(NotCounted::Unbound(why)), user_id: None }
            }
        }
    }

    fn refused(&self, valid: &ValidCert<'_>, time: u32) -> Option<NotCounted> {
        let handle = openpgp::KeyHandle::from(&self.fingerprint);
        let Some(key) = valid.keys().key_handle(handle).next() else {
            return Some(NotCounted::Unbound(
                "the key was not bound to its certificate at that time".into(),
            ));
        };
        let revoked =
            |status: &RevocationStatus<'_>| matches!(status, RevocationStatus::Revoked(_));
        if revoked(&valid.revocation_status())
            || revoked(&key.revocation_status())
            || self.revocations.hold(&valid.cert().fingerprint(), time)
            || self.revocations.hold(&self.fingerprint, time)
        {
            return Some(NotCounted::Revoked);
        }
        if valid.alive().is_err() || key.alive().is_err() {
            return Some(NotCounted::KeyExpired);
        }
        if !self.has_said_something(time) {
            let why = "all user IDs of the certificate were revoked".into();
            return Some(NotCounted::Unbound(why));
        }
        if !key.for_signing() {
            return Some(NotCounted::Unbound("the key may not sign: its key flags say so".into()));
        }
        None
    }

    /// Whether a self-signature of the primary key was in force at `time`: a direct-key signature,
    /// or the binding of a user ID that was not revoked. For a user ID, the newest signature that
    /// had not expired decides, because a revocation can expire, too.
    fn has_said_something(&self, time: u32) -> bool {
        let made = |signature: &Signature| signature.signature_creation_time().map(seconds);
        let by_then = |signature: &&Signature| {
            let ends = |made: u32| {
                signature
                    .signature_validity_period()
                    .map_or(u32::MAX, |validity| made.saturating_add(period(validity)))
            };
            made(signature).is_some_and(|made| made <= time && time < ends(made))
        };
        let mut direct = self.cert.primary_key().self_signatures();
        direct.any(|signature| signature.typ() == SignatureType::DirectKey && by_then(&signature))
            || self.cert.userids().any(|id| {
                let newest = id.self_signatures().filter(by_then).filter_map(made).max();
                let revoked = id.self_revocations().filter(by_then).filter_map(made).max();
                newest.is_some() && newest >= revoked
            })
            || self
                .cert
                .user_attributes()
                .any(|attribute| attribute.self_signatures().any(|signature| by_then(&signature)))
    }

    pub(super) fn signer(&self, worth: &Worth) -> Signer {
        let (certificate, key) = self.names.clone();
        Signer { certificate, key, user_id: worth.user_id.clone() }
    }
}

fn key_packet(
    key: &openpgp::packet::Key<
        openpgp::packet::key::PublicParts,
        openpgp::packet::key::UnspecifiedRole,
    >,
) -> openpgp::Packet {
    openpgp::Packet::PublicKey(key.clone().role_into_primary())
}

fn seconds(time: SystemTime) -> u32 {
    let since = time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    u32::try_from(since.as_secs()).unwrap_or(u32::MAX)
}

/// The times at which anything in a certificate becomes valid or expires.
fn times(cert: &openpgp::Cert, revocations: &Revocations) -> Vec<u32> {
    let created: Vec<u32> = cert.keys().map(|key| seconds(key.key().creation_time())).collect();
    let mut times = created.clone();
    times.extend(revocations.times());
    let keys = cert
        .keys()
        .flat_map(|key| key.self_signatures().chain(key.self_revocations()).collect::<Vec<_>>());
    let user_ids = cert
        .userids()
        .flat_map(|id| id.self_signatures().chain(id.self_revocations()).collect::<Vec<_>>());
    for signature in keys.chain(user_ids) {
        // The cross-signature of a signing subkey has its own validity times.
        for signature in signature.embedded_signatures().chain([signature]) {
            let Some(made) = signature.signature_creation_time().map(seconds) else { continue };
            times.push(made);
            if let Some(validity) = signature.signature_validity_period() {
                times.push(made.saturating_add(period(validity)));
            }
            if let Some(validity) = signature.key_validity_period() {
                let validity = period(validity);
                times.extend(created.iter().map(|&created| created.saturating_add(validity)));
            }
        }
    }
    times.sort_unstable();
    times.dedup();
    times
}

fn period(validity: Duration) -> u32 {
    u32::try_from(validity.as_secs()).unwrap_or(u32::MAX)
}
