//! Verification of signatures on documents: arithmetic, signer, and whether a signature counts.
//!
//! A certificate is parsed and evaluated once and kept in a bounded cache. The validity of a key
//! changes only at the times that its certificate gives, so a verdict holds from one of these times
//! to the next. A thousand signatures of one key evaluate the policy once.

mod known;
pub(crate) mod received;
pub(crate) mod receiver;
pub(crate) mod report;

use std::io::Read;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use parking_lot::Mutex;
use rayon::prelude::*;
use sequoia_openpgp as openpgp;
use talaria_cert::{
    Context, Fingerprint, Job, Key, PacketRef, Rules, Signature, Tag, Verdict, Verified,
    ed25519_verdicts,
};

use crate::certs::sound;
use crate::error::{MessageError, Result};
use crate::framing::{self, tag};
use crate::judged::{judge_of, verified};
use crate::sign::{BINARY, TEXT};
use crate::verify::known::{CachedKey, KeyCache, Worth};
use crate::verify::received::{Digests, ReceivedSignature, SIGNATURES_MAX};
use crate::verify::report::{Issuer, NotCounted, Outcome, SignatureReport, Signer};

/// A function that finds the certificates that contain a key.
pub type Lookup<'a> = Box<dyn FnMut(&Issuer) -> Vec<Verified> + Send + 'a>;

/// A function that finds those of `certs` that contain a key. A certificate is verified when it is
/// found.
#[must_use]
pub fn lookup_in(certs: impl Into<Arc<[openpgp::Cert]>>) -> Lookup<'static> {
    let certs = certs.into();
    Box::new(move |issuer: &Issuer| {
        let id = issuer.key_id.to_string();
        let has =
            |cert: &&openpgp::Cert| sound(cert).keys().any(|key| key.key().keyid().to_hex() == id);
        certs.iter().filter(has).filter_map(|cert| verified(cert).ok()).collect()
    })
}

/// A function that says whether the user has called a signer bad. The second argument is the user
/// ID that the signature names, if it names one.
pub type Distrust<'a> = Box<dyn FnMut(&Signer, Option<&[u8]>) -> bool + Send + 'a>;

/// The tolerated difference of clocks in seconds.
pub const CLOCK_SKEW_S: u32 = 300;
/// The number of Ed25519 signatures that are verified as one batch. A smaller batch costs more per
/// signature. A larger one than the maximum saves nothing, and one bad signature makes the whole
/// batch fail.
const BATCH_MIN: usize = 64;
const BATCH_MAX: usize = 2048;

/// Verifies signatures with certificates that it looks up.
pub struct Verifier<'a> {
    lookup: Mutex<Lookup<'a>>,
    rules: Rules,
    now: AtomicU32,
    takes_later_dates: bool,
    notations: Vec<String>,
    distrust: Option<Mutex<Distrust<'a>>>,
    known: Mutex<KeyCache>,
}

impl<'a> Verifier<'a> {
    /// Verifies as of the time `now`, in seconds since 1970.
    #[must_use]
    pub fn new(lookup: Lookup<'a>, rules: Rules, now: u32) -> Self {
        let (lookup, now) = (Mutex::new(lookup), AtomicU32::new(now));
        let known = Mutex::default();
        Self {
            lookup,
            rules,
            now,
            takes_later_dates: false,
            notations: Vec::new(),
            distrust: None,
            known,
        }
    }

    /// Takes signatures that are dated after now, and judges them as of their date: for documents
    /// that must be readable where the clock is wrong.
    #[must_use]
    pub fn with_later_dates(self) -> Self {
        Self { takes_later_dates: true, ..self }
    }

    /// Sets the notations (RFC 9580, section 5.2.3.24) that the caller understands. A signature
    /// with any other critical notation does not count.
    #[must_use]
    pub fn with_known_notations(self, notations: Vec<String>) -> Self {
        Self { notations, ..self }
    }

    /// Sets the function that knows whom the user has called bad. It is asked about each signature
    /// that is good otherwise. Without it, nobody is bad.
    #[must_use]
    pub fn with_distrust(self, distrust: Distrust<'a>) -> Self {
        Self { distrust: Some(Mutex::new(distrust)), ..self }
    }

    /// Sets the reference time. Cached certificates stay in the cache.
    pub fn set_now(&self, now: u32) {
        self.now.store(now, Ordering::Relaxed);
    }

    /// Verifies detached signatures on the data of `document`, in the order of their packets.
    ///
    /// # Errors
    ///
    /// [`MessageError::Malformed`] if `signatures` contains no signatures; [`MessageError::Read`].
    pub fn detached(
        &self,
        signatures: &[u8],
        document: &mut (impl Read + ?Sized),
    ) -> Result<Vec<SignatureReport>> {
        let bodies = signature_packets(signatures)?;
        let mut digests = Digests::default();
        let seen: Vec<_> =
            bodies.iter().map(|body| ReceivedSignature::before(body, &mut digests)).collect();
        let mut buffer = vec![0; 128 << 10];
        loop {
            let read = framing::read_full(&mut &mut *document, &mut buffer)?;
            digests.update(&buffer[..read]);
            if read < buffer.len() {
                break;
            }
        }
        digests.end();
        Ok(seen.iter().map(|seen| self.check(seen, &digests, &[])).collect())
    }

    /// Verifies one detached signature, a single packet, on a document in memory.
    #[must_use]
    pub fn one(&self, signature: &[u8], document: &[u8]) -> SignatureReport {
        match self.prepare(signature, document) {
            Ok(prepared) => finished(prepared),
            Err(error) => SignatureReport::unreadable(&error.to_string()),
        }
    }

    /// Verifies many detached signatures, each with its document, on all cores. The reports are the
    /// same as those of [`Self::one`]. Ed25519 signatures are verified in batches, which is faster.
    #[must_use]
    pub fn many(&self, items: &[(&[u8], &[u8])]) -> Vec<SignatureReport> {
        let share = items.len().div_ceil(rayon::current_num_threads());
        items
            .par_chunks(share.clamp(BATCH_MIN, BATCH_MAX))
            .flat_map_iter(|items| self.batch(items))
            .collect()
    }

    fn batch(&self, items: &[(&[u8], &[u8])]) -> Vec<SignatureReport> {
        let mut jobs = Vec::new();
        let mut places = Vec::new();
        let mut reports = Vec::with_capacity(items.len());
        for (signature, document) in items {
            let (report, job) = match self.prepare(signature, document) {
                Ok(prepared) => prepared,
                Err(error) => (SignatureReport::unreadable(&error.to_string()), None),
            };
            if let Some(job) = job {
                jobs.push(job);
                places.push(reports.len());
            }
            reports.push(report);
        }
        for (place, verdict) in places.into_iter().zip(ed25519_verdicts(&jobs)) {
            if verdict != Verdict::Good {
                reports[place].outcome = Outcome::Bad;
            }
        }
        reports
    }

    fn prepare(&self, signature: &[u8], document: &[u8]) -> Result<Prepared> {
        let packet = talaria_cert::first_packet(signature)
            .filter(|packet| packet.tag == Tag::SIGNATURE)
            .ok_or(MessageError::Malformed("the packet is not a signature"))?;
        let mut digests = Digests::default();
        let seen = ReceivedSignature::before(packet.body, &mut digests);
        digests.update(document);
        digests.end();
        Ok(self.arithmetic(&seen, &digests, &[]))
    }

    /// Verifies a signature on a document that a key of each of `recipients` has decrypted.
    fn check(
        &self,
        seen: &ReceivedSignature,
        digests: &Digests,
        recipients: &[Fingerprint],
    ) -> SignatureReport {
        finished(self.arithmetic(seen, digests, recipients))
    }

    /// All checks except, for Ed25519, the last step.
    fn arithmetic(
        &self,
        seen: &ReceivedSignature,
        digests: &Digests,
        recipients: &[Fingerprint],
    ) -> Prepared {
        let Some(signature) = Signature::parse(&seen.body) else {
            return (
                SignatureReport::unreadable("the fields of the signature packet are malformed"),
                None,
            );
        };
        let issuers: Vec<Issuer> = signature
            .issuers()
            .into_iter()
            .map(|(key_id, fingerprint)| Issuer { key_id, fingerprint })
            .collect();
        let mut report = without_key(&signature, issuers.first().cloned());
        let Some(hasher) = seen.digest.map(|place| digests.at(place)) else {
            let why = seen.problem.unwrap_or("its digest algorithm is not supported");
            report.outcome = Outcome::Unchecked(why.to_owned());
            return (report, None);
        };
        if issuers.is_empty() {
            report.outcome = Outcome::Unchecked("the signature names no issuer key".to_owned());
            return (report, None);
        }
        let context = Context::Document { notations: &self.notations, recipients };
        // A signature may name several keys, and several keys may have the same ID. Each key is
        // tried until one of them made a signature that counts.
        let candidates: Vec<_> = issuers
            .into_iter()
            .flat_map(|issuer| {
                let keys = self.keys(&issuer);
                (0..keys.len()).map(move |at| (issuer.clone(), Arc::clone(&keys), at))
            })
            .collect();
        let mut best: Option<SignatureReport> = None;
        for (issuer, keys, at) in &candidates {
            let known = &keys[*at];
            let packet = PacketRef { tag: Tag::PUBLIC_KEY, body: &known.body };
            let Ok(key) = Key::parse(packet) else { continue };
            let Some(digest) = signature.digest(hasher.clone()) else { continue };
            let mut deferred = None;
            let mut verdict =
                known.setup.verify(&key, &signature, &digest, |job| deferred = Some(job));
            if let Some(job) = deferred.take_if(|_| candidates.len() > 1) {
                verdict = job.verdict();
            }
            let worth = known.worth(signature.created);
            let mut tried = SignatureReport {
                signer: Some(known.signer(&worth)),
                issuer: Some(issuer.clone()),
                ..report.clone()
            };
            match verdict {
                Verdict::Unchecked | Verdict::Good => {
                    (tried.outcome, tried.since) = self.judge(known, &worth, &signature, &context);
                    if tried.outcome == Outcome::Good && self.distrusts(&tried) {
                        tried.outcome = Outcome::Distrusted;
                    }
                    tried.digest = digest.as_bytes().to_vec();
                    if deferred.is_some() || tried.outcome == Outcome::Good {
                        return (tried, deferred);
                    }
                }
                Verdict::Unsupported | Verdict::Malformed => {
                    let what = key.curve().map_or_else(
                        || format!("algorithm number {}", key.algorithm),
                        |curve| format!("a key on {}", curve.name()),
                    );
                    let why = format!(
                        "its algorithm ({what}) is not supported, or its values are malformed"
                    );
                    tried.outcome = Outcome::Unchecked(why);
                }
                _ => tried.outcome = Outcome::Bad,
            }
            // A report on a key that made the signature is better than one on a key that did not.
            let made = |report: &SignatureReport| {
                matches!(report.outcome, Outcome::NotCounted(_) | Outcome::Distrusted)
            };
            if best.as_ref().is_none_or(|best| made(&tried) && !made(best)) {
                best = Some(tried);
            }
        }
        (best.unwrap_or(report), None)
    }

    /// Evaluates whether a signature that the key made counts, and the present state of the key.
    fn judge(
        &self,
        known: &CachedKey,
        worth: &Worth,
        signature: &Signature<'_>,
        context: &Context<'_>,
    ) -> (Outcome, Option<NotCounted>) {
        let not_counted = |why| (Outcome::NotCounted(why), None);
        if !matches!(signature.kind, BINARY | TEXT) {
            return not_counted(NotCounted::Misused("the signature type is not one for documents"));
        }
        if signature.is_of_log() {
            return not_counted(NotCounted::Misused("the signature is on an entry of a log"));
        }
        if let Err(why) = signature.understood(context) {
            return not_counted(NotCounted::Critical(why));
        }
        if matches!(signature.hash, 1..=3) {
            return not_counted(NotCounted::WeakDigest(crate::sign::hash_name(signature.hash)));
        }
        let mut now = self.now.load(Ordering::Relaxed);
        if self.takes_later_dates {
            now = now.max(signature.created);
        }
        if signature.created > now.saturating_add(CLOCK_SKEW_S) {
            return not_counted(NotCounted::Future);
        }
        if signature.expires != 0 && signature.expires <= now {
            return not_counted(NotCounted::Expired);
        }
        if let Some(why) = &worth.refused {
            return not_counted(why.clone());
        }
        let since = known.worth(now).refused.clone();
        (Outcome::Good, since.or(worth.bound_later.map(NotCounted::BoundLater)))
    }

    fn distrusts(&self, report: &SignatureReport) -> bool {
        let (Some(distrust), Some(signer)) = (&self.distrust, &report.signer) else { return false };
        distrust.lock()(signer, report.signer_user_id.as_deref())
    }

    /// The keys that match an issuer.
    fn keys(&self, issuer: &Issuer) -> Arc<Vec<CachedKey>> {
        if let Some(keys) = self.known.lock().get(issuer) {
            return keys;
        }
        let keys = {
            let mut look_up = self.lookup.lock();
            let now = self.now.load(Ordering::Relaxed);
            let found = look_up(issuer);
            let mut find = |by: Fingerprint| {
                let revoker = Issuer { key_id: by.key_id(), fingerprint: Some(by) };
                let mut found = look_up(&revoker).into_iter().map(|known| known.cert().clone());
                found.find(|cert| cert.fingerprint() == by)
            };
            let mut judge = |known| judge_of(known, self.rules, &mut find, now);
            found.into_iter().flat_map(|known| CachedKey::of(judge(known), issuer)).collect()
        };
        self.known.lock().put(issuer, keys)
    }
}

/// The report on a signature before any key is tried.
fn without_key(signature: &Signature<'_>, issuer: Option<Issuer>) -> SignatureReport {
    SignatureReport {
        outcome: Outcome::NoKey,
        signer: None,
        issuer,
        created: signature.created,
        expires: signature.expires,
        kind: signature.kind,
        version: signature.version,
        algorithm: signature.algorithm,
        hash: signature.hash,
        signer_user_id: signature.signer_user_id.map(<[u8]>::to_vec),
        digest: Vec::new(),
        since: None,
    }
}

/// A report and, for Ed25519, the batch job that must succeed for the report to be right.
type Prepared = (SignatureReport, Option<Job>);

fn finished((mut report, job): Prepared) -> SignatureReport {
    if job.is_some_and(|job| job.verdict() != Verdict::Good) {
        report.outcome = Outcome::Bad;
    }
    report
}

/// The bodies of the signature packets in `bytes`; at least one.
fn signature_packets(bytes: &[u8]) -> Result<Vec<Vec<u8>>> {
    let mut rest = bytes;
    let mut bodies = Vec::new();
    while let Some((kind, length)) = framing::read_header(&mut rest)? {
        let mut body = framing::Body::new(&mut rest, length);
        let body = body.read_small(64 << 10, "bytes in a signature")?;
        match kind {
            tag::SIGNATURE => bodies.push(body),
            tag::MARKER | tag::PADDING => {}
            _ => return Err(MessageError::Malformed("the input is not a detached signature")),
        }
        if bodies.len() > SIGNATURES_MAX {
            let limit = SIGNATURES_MAX as u64;
            return Err(MessageError::TooLarge { what: "signatures", limit });
        }
    }
    if bodies.is_empty() {
        return Err(MessageError::Malformed("no signature found"));
    }
    Ok(bodies)
}
