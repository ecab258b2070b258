//! Checking signatures on documents: arithmetic, who made them, and whether they count.
//!
//! A certificate is parsed and judged once and kept in a bounded cache. What a key was worth changes only
//! at the times that its certificate names, so a verdict holds from one of these to the next, and a
//! thousand signatures of one key ask the policy once.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::io::{Read, Write};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use rayon::prelude::*;
use sequoia_openpgp as openpgp;
use sequoia_openpgp::cert::ValidCert;
use sequoia_openpgp::cert::amalgamation::ValidAmalgamation as _;
use sequoia_openpgp::policy::Policy;
use sequoia_openpgp::serialize::MarshalInto as _;
use sequoia_openpgp::types::RevocationStatus;
use talaria_cert::{
    Job, Key, KeyId, KeySetup, PacketRef, Signature, Tag, Verdict, batch_is_good, single_is_good,
};

use crate::content::Literal;
use crate::error::{MessageError, Result};
use crate::framing::{self, tag};
use crate::packets::Document;
use crate::sign::{BINARY, DocumentHasher, TEXT, salt_bytes};

/// The key that a signature names.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub struct Issuer {
    /// Its key ID.
    pub key_id: KeyId,
    /// Its fingerprint, if the signature has it.
    pub fingerprint: Option<talaria_cert::Fingerprint>,
}

/// Where certificates come from: those that have the key.
pub type Lookup<'a> = Box<dyn FnMut(&Issuer) -> Vec<openpgp::Cert> + Send + 'a>;

/// What came out of checking one signature.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Outcome {
    /// It is good and counts.
    Good,
    /// The key did not make it over this document.
    Bad,
    /// There is no certificate with the key.
    NoKey,
    /// The key made it, but it does not count.
    Discounted(Discount),
    /// It cannot be checked: an algorithm, a version or a form that is not known.
    Unchecked(String),
}

impl Outcome {
    /// The name that programs know it by.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::Good => "good",
            Self::Bad => "bad",
            Self::NoKey => "no_key",
            Self::Discounted(_) => "discounted",
            Self::Unchecked(_) => "unchecked",
        }
    }

    /// Why it does not count or cannot be checked.
    #[must_use]
    pub fn why(&self) -> Option<String> {
        match self {
            Self::Good | Self::Bad | Self::NoKey => None,
            Self::Discounted(why) => Some(why.to_string()),
            Self::Unchecked(why) => Some(why.clone()),
        }
    }
}

/// Why a signature that a key made does not count.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum Discount {
    /// Its digest can be forged.
    #[error("the digest {0} is weak")]
    WeakDigest(&'static str),
    /// Its own time is over.
    #[error("the signature has expired")]
    Expired,
    /// It was made later than now.
    #[error("the signature is from the future")]
    Future,
    /// The key was revoked when it was made, or is compromised.
    #[error("the key is revoked")]
    Revoked,
    /// The key had expired when it was made.
    #[error("the key had expired")]
    KeyExpired,
    /// The key belongs to no certificate, or is not for signing, or too weak.
    #[error("{0}")]
    Unbound(String),
    /// The signature is not one on a document, or has a part that is critical and not known.
    #[error("{0}")]
    Misused(&'static str),
}

/// Who made a signature.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Signer {
    /// The certificate, in upper-case hexadecimal.
    pub certificate: String,
    /// The key of it.
    pub key: String,
    /// The primary user ID at the time of the signature.
    pub user_id: Option<String>,
}

/// One signature, checked.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct SignatureReport {
    /// What came out.
    pub outcome: Outcome,
    /// Who made it, if the key is at hand.
    pub signer: Option<Signer>,
    /// The key that it names.
    pub issuer: Option<Issuer>,
    /// Seconds since 1970.
    pub created: u32,
    /// Seconds since 1970, 0 for never.
    pub expires: u32,
    /// Type (RFC 9580, section 5.2.1).
    pub kind: u8,
    /// 3, 4, 5 or 6.
    pub version: u8,
    /// Public-key algorithm (RFC 9580, section 9.1).
    pub algorithm: u8,
    /// Digest (RFC 9580, section 9.5).
    pub hash: u8,
    /// What has become of the key since: it has expired, or was revoked.
    pub since: Option<Discount>,
}

impl SignatureReport {
    /// Whether it is good and counts.
    #[must_use]
    pub fn is_good(&self) -> bool {
        self.outcome == Outcome::Good
    }

    /// The report on what cannot be read as a signature.
    #[must_use]
    pub fn unreadable(why: &str) -> Self {
        Self {
            outcome: Outcome::Unchecked(why.to_owned()),
            signer: None,
            issuer: None,
            created: 0,
            expires: 0,
            kind: 0,
            version: 0,
            algorithm: 0,
            hash: 0,
            since: None,
        }
    }
}

/// Issuers whose certificates are kept.
const CACHE_MAX: usize = 4096;
/// Signatures on one document.
const SIGNATURES_MAX: usize = 128;
/// Seconds that clocks may differ.
const CLOCK_SKEW_S: u32 = 300;
/// Ed25519 signatures that are checked as one: more gain little, and each failure costs all of them.
const BATCH: usize = 256;

/// Checks signatures with certificates that it looks up.
pub struct Verifier<'a> {
    lookup: Mutex<Lookup<'a>>,
    policy: &'a (dyn Policy + Sync),
    now: u32,
    known: Mutex<Known>,
}

#[derive(Default)]
struct Known {
    keys: HashMap<Issuer, Arc<Vec<KnownKey>>>,
    order: VecDeque<Issuer>,
}

/// A key of a certificate.
struct KnownKey {
    cert: openpgp::Cert,
    fingerprint: openpgp::Fingerprint,
    /// Both in hexadecimal.
    names: (String, String),
    /// The body of the packet of the public key.
    body: Vec<u8>,
    /// Times at which its worth may change, ascending.
    times: Vec<u32>,
    /// Its worth from one of these times on.
    worth: Mutex<BTreeMap<u32, Arc<Worth>>>,
}

struct Worth {
    refused: Option<Discount>,
    user_id: Option<String>,
}

impl<'a> Verifier<'a> {
    /// Checks as of `now`, in seconds since 1970.
    pub fn new(lookup: Lookup<'a>, policy: &'a (dyn Policy + Sync), now: u32) -> Self {
        Self { lookup: Mutex::new(lookup), policy, now, known: Mutex::default() }
    }

    /// Checks as of `now` from here on. What is known of certificates stays known.
    pub fn set_now(&mut self, now: u32) {
        self.now = now;
    }

    /// Checks detached signatures on what `document` gives, in the order of their packets.
    ///
    /// # Errors
    ///
    /// [`MessageError::Malformed`] if `signatures` are none; [`MessageError::Read`].
    pub fn detached(
        &self,
        signatures: &[u8],
        document: &mut (impl Read + ?Sized),
    ) -> Result<Vec<SignatureReport>> {
        let bodies = signature_packets(signatures)?;
        let mut seen = bodies.iter().map(|body| Seen::before(body)).collect::<Vec<_>>();
        let mut buffer = vec![0; 128 << 10];
        loop {
            let read = framing::read_full(&mut &mut *document, &mut buffer)?;
            for hasher in seen.iter_mut().filter_map(|seen| seen.hasher.as_mut()) {
                hasher.update(&buffer[..read]);
            }
            if read < buffer.len() {
                break;
            }
        }
        Ok(seen.into_iter().map(|seen| self.check(seen)).collect())
    }

    /// Checks one detached signature on a document in memory: one packet.
    #[must_use]
    pub fn one(&self, signature: &[u8], document: &[u8]) -> SignatureReport {
        match self.prepare(signature, document, &mut Setups::new()) {
            Ok(Prepared::Done(report)) => report,
            Ok(Prepared::Job(job, mut report)) => {
                if !single_is_good(&job) {
                    report.outcome = Outcome::Bad;
                }
                report
            }
            Err(error) => SignatureReport::unreadable(&error.to_string()),
        }
    }

    /// Checks many detached signatures, each with its document, on all cores. Ed25519 signatures are
    /// checked as batches; those of a batch that is not good one by one.
    #[must_use]
    pub fn many(&self, items: &[(&[u8], &[u8])]) -> Vec<SignatureReport> {
        items.par_chunks(BATCH).flat_map_iter(|items| self.batch(items)).collect()
    }

    fn batch(&self, items: &[(&[u8], &[u8])]) -> Vec<SignatureReport> {
        let mut setups = Setups::new();
        let mut jobs = Vec::new();
        let mut places = Vec::new();
        let mut reports = Vec::with_capacity(items.len());
        for (signature, document) in items {
            reports.push(match self.prepare(signature, document, &mut setups) {
                Ok(Prepared::Done(report)) => report,
                Ok(Prepared::Job(job, report)) => {
                    jobs.push(job);
                    places.push(reports.len());
                    report
                }
                Err(error) => SignatureReport::unreadable(&error.to_string()),
            });
        }
        if jobs.len() < 2 || !batch_is_good(&jobs) {
            for (job, place) in jobs.iter().zip(places) {
                if !single_is_good(job) {
                    reports[place].outcome = Outcome::Bad;
                }
            }
        }
        reports
    }

    fn prepare(&self, signature: &[u8], document: &[u8], setups: &mut Setups) -> Result<Prepared> {
        let packet = talaria_cert::first_packet(signature)
            .filter(|packet| packet.tag == Tag::SIGNATURE)
            .ok_or(MessageError::Malformed("it is not a signature"))?;
        let mut seen = Seen::before(packet.body);
        if let Some(hasher) = &mut seen.hasher {
            hasher.update(document);
        }
        Ok(self.arithmetic(seen, setups))
    }

    fn check(&self, seen: Seen) -> SignatureReport {
        match self.arithmetic(seen, &mut Setups::new()) {
            Prepared::Done(report) => report,
            Prepared::Job(job, mut report) => {
                if !single_is_good(&job) {
                    report.outcome = Outcome::Bad;
                }
                report
            }
        }
    }

    /// Everything but, for Ed25519, the last step. A report that comes with a job is right if the job is
    /// good.
    fn arithmetic(&self, seen: Seen, setups: &mut Setups) -> Prepared {
        let Some(signature) = Signature::parse(&seen.body) else {
            return Prepared::Done(SignatureReport::unreadable("its fields do not fit"));
        };
        let issuer = signature
            .issuer
            .map(|key_id| Issuer { key_id, fingerprint: signature.issuer_fingerprint });
        let mut report = SignatureReport {
            outcome: Outcome::NoKey,
            signer: None,
            issuer: issuer.clone(),
            created: signature.created,
            expires: signature.expires,
            kind: signature.kind,
            version: signature.version,
            algorithm: signature.algorithm,
            hash: signature.hash,
            since: None,
        };
        let Some(hasher) = seen.hasher else {
            let why = seen.problem.unwrap_or("its digest is not supported");
            report.outcome = Outcome::Unchecked(why.to_owned());
            return Prepared::Done(report);
        };
        let Some(issuer) = issuer else {
            report.outcome = Outcome::Unchecked("it names no key".to_owned());
            return Prepared::Done(report);
        };
        let keys = self.keys(&issuer);
        let mut hasher = hasher;
        hasher.finish_text();
        // More than one key with an ID is somebody's trick; each is tried.
        for (place, known) in keys.iter().enumerate() {
            let packet = PacketRef { tag: Tag::PUBLIC_KEY, body: &known.body };
            let Ok(key) = Key::parse(packet) else { continue };
            let Some(digest) = signature.digest(hasher.inner.clone()) else { continue };
            let place = (Arc::as_ptr(&keys), place);
            let (_, setup) =
                setups.entry(place).or_insert_with(|| (Arc::clone(&keys), KeySetup::default()));
            let mut deferred = None;
            let verdict =
                setup.verify(&key, &seen.body, &signature, &digest, |job| deferred = Some(job));
            let worth = known.worth(self.policy, signature.created);
            report.signer = Some(known.signer(&worth));
            match verdict {
                Verdict::Unchecked | Verdict::Good => {
                    (report.outcome, report.since) = self.judge(known, &worth, &signature);
                    return match deferred {
                        Some(job) => Prepared::Job(job, report),
                        None => Prepared::Done(report),
                    };
                }
                Verdict::Unsupported | Verdict::Malformed => {
                    let why = "its algorithm is not supported, or its numbers do not fit";
                    report.outcome = Outcome::Unchecked(why.to_owned());
                }
                _ => report.outcome = Outcome::Bad,
            }
        }
        Prepared::Done(report)
    }

    /// Whether a signature that the key made counts, and what has become of the key since.
    fn judge(
        &self,
        known: &KnownKey,
        worth: &Worth,
        signature: &Signature<'_>,
    ) -> (Outcome, Option<Discount>) {
        let discounted = |why| (Outcome::Discounted(why), None);
        if !matches!(signature.kind, BINARY | TEXT) {
            return discounted(Discount::Misused("the signature is not one on a document"));
        }
        if signature.unknown_critical {
            return discounted(Discount::Misused("it has a critical part that is not known"));
        }
        if matches!(signature.hash, 1..=3) {
            return discounted(Discount::WeakDigest(crate::sign::hash_name(signature.hash)));
        }
        if signature.created > self.now.saturating_add(CLOCK_SKEW_S) {
            return discounted(Discount::Future);
        }
        if signature.expires != 0 && signature.expires <= self.now {
            return discounted(Discount::Expired);
        }
        match &worth.refused {
            Some(why) => discounted(why.clone()),
            None => (Outcome::Good, known.worth(self.policy, self.now).refused.clone()),
        }
    }

    /// The keys that an issuer may be.
    fn keys(&self, issuer: &Issuer) -> Arc<Vec<KnownKey>> {
        let lock = || self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(keys) = lock().keys.get(issuer) {
            return Arc::clone(keys);
        }
        let certs = (self.lookup.lock().unwrap_or_else(PoisonError::into_inner))(issuer);
        let keys: Vec<KnownKey> =
            certs.into_iter().flat_map(|cert| KnownKey::of(&cert, issuer)).collect();
        let keys = Arc::new(keys);
        let mut known = lock();
        if known.order.len() == CACHE_MAX
            && let Some(oldest) = known.order.pop_front()
        {
            known.keys.remove(&oldest);
        }
        // Two threads may have looked it up at once; one is enough.
        if known.keys.insert(issuer.clone(), Arc::clone(&keys)).is_none() {
            known.order.push_back(issuer.clone());
        }
        keys
    }
}

/// What was set up of keys, by where they are; they stay there as long as this does.
type Setups = HashMap<(*const Vec<KnownKey>, usize), (Arc<Vec<KnownKey>>, KeySetup)>;

enum Prepared {
    Done(SignatureReport),
    Job(Job, SignatureReport),
}

impl KnownKey {
    /// The keys of `cert` that an issuer may be.
    fn of(cert: &openpgp::Cert, issuer: &Issuer) -> Vec<Self> {
        let wanted = issuer.fingerprint.map(|fingerprint| fingerprint.to_string());
        let times = times(cert);
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
                    times: times.clone(),
                    worth: Mutex::default(),
                })
            })
            .collect()
    }

    /// What the key is worth for signatures made at `time`.
    fn worth(&self, policy: &dyn Policy, time: u32) -> Arc<Worth> {
        let place = self.times.partition_point(|&from| from <= time);
        let from = if place == 0 { 0 } else { self.times[place - 1] };
        let mut worth = self.worth.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(worth.entry(from).or_insert_with(|| Arc::new(self.ask(policy, from))))
    }

    fn ask(&self, policy: &dyn Policy, time: u32) -> Worth {
        let time = SystemTime::UNIX_EPOCH + Duration::from_secs(u64::from(time));
        match self.cert.with_policy(policy, time) {
            Ok(valid) => Worth {
                refused: self.refused(&valid),
                user_id: valid
                    .primary_userid()
                    .ok()
                    .map(|id| String::from_utf8_lossy(id.userid().value()).into_owned()),
            },
            Err(error) => {
                let why = format!("the certificate was not valid then: {error}");
                Worth { refused: Some(Discount::Unbound(why)), user_id: None }
            }
        }
    }

    fn refused(&self, valid: &ValidCert<'_>) -> Option<Discount> {
        let handle = openpgp::KeyHandle::from(&self.fingerprint);
        let Some(key) = valid.keys().key_handle(handle).next() else {
            return Some(Discount::Unbound("the key was not bound to its certificate".into()));
        };
        let revoked =
            |status: &RevocationStatus<'_>| matches!(status, RevocationStatus::Revoked(_));
        if revoked(&valid.revocation_status()) || revoked(&key.revocation_status()) {
            return Some(Discount::Revoked);
        }
        if valid.alive().is_err() || key.alive().is_err() {
            return Some(Discount::KeyExpired);
        }
        if !key.for_signing() {
            return Some(Discount::Unbound("the key is not for signing".into()));
        }
        None
    }

    fn signer(&self, worth: &Worth) -> Signer {
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

/// The times at which anything in a certificate begins or ends.
fn times(cert: &openpgp::Cert) -> Vec<u32> {
    let seconds = |time: SystemTime| {
        let since = time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        u32::try_from(since.as_secs()).unwrap_or(u32::MAX)
    };
    let created: Vec<u32> = cert.keys().map(|key| seconds(key.key().creation_time())).collect();
    let mut times = created.clone();
    let components =
        cert.keys()
            .flat_map(|key| key.self_signatures().chain(key.self_revocations()).collect::<Vec<_>>())
            .chain(cert.userids().flat_map(|id| {
                id.self_signatures().chain(id.self_revocations()).collect::<Vec<_>>()
            }));
    for signature in components {
        let Some(made) = signature.signature_creation_time() else { continue };
        let made = seconds(made);
        times.push(made);
        if let Some(validity) = signature.signature_validity_period() {
            times.push(made.saturating_add(u32::try_from(validity.as_secs()).unwrap_or(u32::MAX)));
        }
        if let Some(validity) = signature.key_validity_period() {
            let validity = u32::try_from(validity.as_secs()).unwrap_or(u32::MAX);
            times.extend(created.iter().map(|&created| created.saturating_add(validity)));
        }
    }
    times.sort_unstable();
    times.dedup();
    times
}

/// The bodies of the signature packets in `bytes`, of which there is at least one.
fn signature_packets(bytes: &[u8]) -> Result<Vec<Vec<u8>>> {
    let mut rest = bytes;
    let mut bodies = Vec::new();
    while let Some((kind, length)) = framing::read_header(&mut rest)? {
        let mut body = framing::Body::new(&mut rest, length);
        let body = body.read_small(64 << 10, "octets in a signature")?;
        match kind {
            tag::SIGNATURE => bodies.push(body),
            tag::MARKER | tag::PADDING => {}
            _ => return Err(MessageError::Malformed("it is not a detached signature")),
        }
        if bodies.len() > SIGNATURES_MAX {
            let limit = SIGNATURES_MAX as u64;
            return Err(MessageError::TooLarge { what: "signatures", limit });
        }
    }
    if bodies.is_empty() {
        return Err(MessageError::Malformed("there is no signature"));
    }
    Ok(bodies)
}

/// A signature and what its digest has seen of the document.
pub(crate) struct Seen {
    body: Vec<u8>,
    hasher: Option<DocumentHasher>,
    problem: Option<&'static str>,
}

impl Seen {
    /// A signature that is known before its document.
    fn before(body: &[u8]) -> Self {
        let hasher = Signature::parse(body)
            .filter(|signature| signature.version != 5)
            .filter(|signature| {
                signature.version != 6 || signature.salt.len() == salt_bytes(signature.hash)
            })
            .and_then(|signature| {
                let text = signature.kind == TEXT;
                DocumentHasher::new(signature.hash, text, signature.salt.to_vec()).ok()
            });
        Self { body: body.to_vec(), hasher, problem: None }
    }
}

/// What a one-pass signature packet announces (RFC 9580, section 5.4).
struct Announced {
    version: u8,
    kind: u8,
    hash: u8,
    hasher: Option<DocumentHasher>,
}

impl Announced {
    fn parse(body: &[u8]) -> Result<Self> {
        const SHORT: MessageError =
            MessageError::Malformed("a one-pass signature packet is too short");
        let &[version, kind, hash, _, ref rest @ ..] = body else { return Err(SHORT) };
        let mut salt = &[][..];
        if version == 6 {
            let (&len, rest) = rest.split_first().ok_or(SHORT)?;
            salt = rest.get(..usize::from(len)).ok_or(SHORT)?;
        }
        let known = version == 3 || version == 6 && salt.len() == salt_bytes(hash);
        let hasher =
            known.then(|| DocumentHasher::new(hash, kind == TEXT, salt.to_vec()).ok()).flatten();
        Ok(Self { version, kind, hash, hasher })
    }

    /// The announced digest, with the signature it is for.
    fn with(self, body: &[u8]) -> Seen {
        let body = body.to_vec();
        let fits = Signature::parse(&body).is_some_and(|signature| {
            let version = if self.version == 6 { 6 } else { signature.version };
            (signature.version, signature.kind, signature.hash) == (version, self.kind, self.hash)
                && self.hasher.as_ref().is_none_or(|hasher| hasher.salt == signature.salt)
        });
        if fits {
            Seen { body, hasher: self.hasher, problem: None }
        } else {
            let problem = Some("it is not the one that was announced");
            Seen { body, hasher: None, problem }
        }
    }
}

/// Takes the parts of a message: passes the data on and gathers its signatures.
pub(crate) struct Receiver<'a> {
    output: &'a mut (dyn Write + Send),
    announced: Vec<Announced>,
    before: Vec<Seen>,
    signatures: Vec<Seen>,
    literal: Option<Literal>,
    ended: bool,
}

impl<'a> Receiver<'a> {
    pub(crate) fn new(output: &'a mut (dyn Write + Send)) -> Self {
        Self {
            output,
            announced: Vec::new(),
            before: Vec::new(),
            signatures: Vec::new(),
            literal: None,
            ended: false,
        }
    }

    fn bounded(&self) -> Result<()> {
        let count = self.announced.len() + self.before.len() + self.signatures.len();
        if count < SIGNATURES_MAX {
            Ok(())
        } else {
            let limit = SIGNATURES_MAX as u64;
            Err(MessageError::TooLarge { what: "signatures", limit })
        }
    }

    /// Checks the signatures, when all has come.
    pub(crate) fn finish(
        self,
        verifier: &mut Verifier<'_>,
    ) -> Result<(Literal, Vec<SignatureReport>)> {
        let Some(literal) = self.literal.filter(|_| self.ended) else {
            return Err(MessageError::Malformed("it has no literal data"));
        };
        let missing = self
            .announced
            .iter()
            .map(|_| SignatureReport::unreadable("it was announced, but is missing"));
        let reports = self
            .before
            .into_iter()
            .chain(self.signatures)
            .map(|seen| verifier.check(seen))
            .chain(missing)
            .collect();
        Ok((literal, reports))
    }
}

impl Document for Receiver<'_> {
    fn one_pass(&mut self, body: &[u8]) -> Result<()> {
        self.bounded()?;
        if self.literal.is_some() {
            return Err(MessageError::Malformed("a signature is announced behind the data"));
        }
        self.announced.push(Announced::parse(body)?);
        Ok(())
    }

    fn signature(&mut self, body: &[u8]) -> Result<()> {
        self.bounded()?;
        if self.literal.is_none() {
            self.before.push(Seen::before(body));
            return Ok(());
        }
        let announced = self
            .announced
            .pop()
            .ok_or(MessageError::Malformed("a signature follows the data unannounced"))?;
        self.signatures.push(announced.with(body));
        Ok(())
    }

    fn literal(&mut self, literal: Literal) -> Result<()> {
        if self.literal.is_some() {
            return Err(MessageError::Malformed("it has more than one literal packet"));
        }
        self.literal = Some(literal);
        Ok(())
    }

    fn data(&mut self, data: &[u8]) -> Result<()> {
        let announced = self.announced.iter_mut().filter_map(|one| one.hasher.as_mut());
        let before = self.before.iter_mut().filter_map(|seen| seen.hasher.as_mut());
        announced.chain(before).for_each(|hasher| hasher.update(data));
        self.output.write_all(data).map_err(MessageError::write)
    }

    fn end(&mut self) -> Result<()> {
        self.ended = true;
        Ok(())
    }
}
