//! Requests of owners, as Hockeypuck has them (HIP-1): `/pks/delete` and `/pks/replace`.
//!
//! A form has the field `keytext`, whose first line is the path and which has the armored
//! certificate behind it, and `keysig`, an armored detached signature over `keytext`. Hockeypuck
//! accepted signatures by the certificates themselves up to version 2.1, and accepts those of
//! administrators since. Here the owner signs: with the primary key, even an expired or revoked
//! one, or with a valid signing subkey.
//!
//! A request that was signed once may be sent again by anybody who saw it. So it does nothing if
//! the certificate has changed since it was signed. And whoever has stolen a key can sign, too: so
//! what was revoked stays revoked.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use http::{Method, header};
use sequoia_openpgp as openpgp;
use sequoia_openpgp::parse::Parse as _;
use sequoia_openpgp::types::{HashAlgorithm, SignatureType};
use talaria_cert::{
    Capabilities, Cert, Fingerprint, Key, PacketRef, Signature, Summary, Tag, Validity, Verdict,
    Verification, complete, kind,
};

use crate::answer::{Answer, Refusal, json, open_to_all, options, with};
use crate::clock;
use crate::config::Settings;
use crate::engine::{
    Arrival, Conflict, Done, Engine, EngineError, IngestOutcome, Judging, Order, Preparation,
    Reading, Redaction, Replacement, Since, Stored, Terms, Wish,
};
use crate::intake::Lanes;
use crate::network::Network;
use crate::report::{Named, Report};
use crate::request::Request;
use crate::secret;
use crate::submission;

/// Certificates in one request.
const CERTS_MAX: usize = 16;

/// Signatures in one request.
const SIGNATURES_MAX: usize = 4;

/// Bytes of the signatures in one request.
const SIGNATURE_BYTES_MAX: usize = 64 << 10;

/// The accepted difference of a clock that is ahead. A request waits until its time has come:
/// afterwards a copy of it is older than the change that it made.
const AHEAD: Duration = Duration::from_secs(5);

/// A certificate whose owner signed the request.
struct Signed {
    cert: Cert,
    /// When, in seconds since 1970.
    time: u32,
}

impl Signed {
    /// The order that the owner has signed.
    fn order(self, wish: Wish) -> Order {
        let fingerprint = self.cert.fingerprint();
        let unless_changed_since = Some(Since::Time(self.time));
        Order { fingerprint, wish, unless_changed_since }
    }
}

fn missing(fingerprint: Fingerprint) -> Refusal {
    Refusal::NotFound(format!("{fingerprint} is not on this server"))
}

/// The report on orders of owners.
fn report(named: Vec<Named>, done: Vec<Done>) -> Report {
    let mut report = Report::default();
    for (mut name, done) in named.into_iter().zip(done) {
        match done {
            Done::Bared => {
                name.comment =
                    Some("the key stays with its revocation; its user IDs are gone".into());
                report.deleted.push(name);
            }
            Done::Replaced(IngestOutcome::New | IngestOutcome::Updated) => {
                report.updated.push(name);
            }
            Done::Replaced(IngestOutcome::Unchanged) => report.ignored.push(name),
            Done::Replaced(IngestOutcome::Refused(why)) => {
                name.comment = Some(why.to_string());
                report.invalid.push(name);
            }
            _ => report.deleted.push(name),
        }
    }
    report
}

/// Answers requests of owners.
pub(crate) struct Owners {
    pub(crate) settings: Settings,
    pub(crate) engine: Engine,
    pub(crate) lanes: Arc<Lanes>,
}

impl Owners {
    /// Answers `/pks/delete` and `/pks/replace`.
    pub(crate) async fn handle(&self, request: &Request) -> Result<Answer, Refusal> {
        const ALLOW: &str = "POST, OPTIONS";
        match *request.method() {
            Method::OPTIONS => {
                return Ok(with(
                    options(ALLOW),
                    header::ACCEPT,
                    "application/x-www-form-urlencoded",
                ));
            }
            Method::POST => {}
            _ => {
                return Err(Refusal::Method { method: request.method().to_string(), allow: ALLOW });
            }
        }
        if !self.settings.load().policy.owner_requests {
            return Err(Refusal::Forbidden(
                "this server does not accept requests of owners".into(),
            ));
        }
        let path = request.path().to_owned();
        let form = request.form();
        let field = |name| {
            form.get(name)
                .filter(|text| !text.is_empty())
                .map(str::to_owned)
                .ok_or_else(|| Refusal::BadRequest(format!("the field {name} is missing or empty")))
        };
        let (keytext, keysig) = (field("keytext")?, field("keysig")?);
        if keytext.lines().next().map(str::trim_end) != Some(&path) {
            return Err(Refusal::BadRequest(format!("the first line of keytext must be {path}")));
        }
        let signed = self
            .engine
            .read(async move |store: &mut Reading| read(store, &keytext, &keysig).await)
            .await?;
        let time = signed.iter().map(|signed| signed.time).max().unwrap_or(0);
        tokio::time::sleep(Duration::from_secs(time.saturating_sub(clock::now()).into())).await;
        let orders = if path == "/pks/delete" {
            let order = |signed: Signed| signed.order(Wish::Withdraw);
            signed.into_iter().map(order).collect()
        } else {
            let from = self.settings.load().rates.payer(request.client, request.via);
            self.prepare(from, signed).await?
        };
        let named: Vec<Named> = orders.iter().map(|order| Named::new(order.fingerprint)).collect();
        let terms = Terms::now(self.settings.load().policy.limits());
        match self.engine.carry_out(orders, terms).await? {
            Ok(done) => Ok(open_to_all(json(&report(named, done)))),
            Err(Conflict::Missing(fingerprint)) => Err(missing(fingerprint)),
            Err(Conflict::Changed(fingerprint)) => Err(Refusal::Malformed(format!(
                "{fingerprint} has changed on this server since the request was signed; sign it again"
            ))),
        }
    }

    /// Prepares the replacement of the stored certificates: verifies the new ones, before it is the
    /// request's turn to write.
    async fn prepare(&self, from: Network, signed: Vec<Signed>) -> Result<Vec<Order>, Refusal> {
        let (certs, times): (Vec<Cert>, Vec<u32>) =
            signed.into_iter().map(|signed| (signed.cert, signed.time)).unzip();
        let work = async move |store: &mut Reading, certs: Vec<Cert>, preparation: &Preparation| {
            let mut left = preparation.clone();
            let mut orders = Vec::with_capacity(certs.len());
            for (cert, &time) in certs.into_iter().zip(&times) {
                let replacement = replacement(store, &cert, &mut left).await?;
                let replacement = replacement.ok_or_else(|| missing(cert.fingerprint()))?;
                orders.push(Signed { cert, time }.order(Wish::Replace(Box::new(replacement))));
            }
            Ok(orders)
        };
        Ok(self.lanes.work_on(from, certs, false, work).await?.0)
    }
}

/// Reads a request: every certificate in it must have signed it.
async fn read(store: &mut Reading, keytext: &str, keysig: &str) -> Result<Vec<Signed>, Refusal> {
    secret::refuse(keytext.as_bytes())?;
    let certs = submission::read(keytext.as_bytes())?;
    if let Some(rejected) = certs.rejected.first() {
        return Err(Refusal::Malformed(rejected.why.clone()));
    }
    if certs.certs.len() > CERTS_MAX {
        return Err(Refusal::TooLarge(format!(
            "a request of an owner may have at most {CERTS_MAX} certificates"
        )));
    }
    let signatures = signatures(keysig)?;
    let readings = Readings::of(keytext);
    let now = clock::now();
    let mut all = Vec::new();
    for cert in certs.certs {
        let fingerprint = cert.fingerprint();
        let missing = || missing(fingerprint);
        let row = store.row(fingerprint).await?.ok_or_else(missing)?;
        let ours = store.stored(&row, Judging::Stored).await?.ok_or_else(missing)?.cert;
        if ours.packets().next() != cert.packets().next() {
            return Err(Refusal::Malformed(format!(
                "{fingerprint} has a primary key other than the one on this server"
            )));
        }
        let keys = signing_keys(&ours, &row.summary, now);
        let time = signatures
            .iter()
            .filter_map(|signature| readings.signed_at(signature, &keys))
            .max()
            .ok_or_else(|| {
                Refusal::Malformed(format!(
                    "there is no good signature of {fingerprint} over keytext: sign exactly what \
                     is sent, with the primary key or a signing subkey, by SHA-2 and with the \
                     right time (gpg --armor --detach-sign --local-user {fingerprint})"
                ))
            })?;
        all.push(Signed { cert: cert.exportable(), time });
    }
    Ok(all)
}

/// The signatures in `keysig` that are made over documents.
fn signatures(keysig: &str) -> Result<Vec<openpgp::packet::Signature>, Refusal> {
    if keysig.len() > SIGNATURE_BYTES_MAX {
        return Err(Refusal::TooLarge(format!(
            "keysig may have at most {SIGNATURE_BYTES_MAX} bytes"
        )));
    }
    let malformed =
        || Refusal::Malformed("keysig is not an armored detached OpenPGP signature".into());
    let pile = openpgp::PacketPile::from_bytes(keysig.as_bytes()).map_err(|_| malformed())?;
    let signatures: Vec<_> = pile
        .into_children()
        .filter_map(|packet| match packet {
            openpgp::Packet::Signature(signature) => Some(signature),
            _ => None,
        })
        .take(SIGNATURES_MAX)
        .collect();
    if signatures.is_empty() { Err(malformed()) } else { Ok(signatures) }
}

/// The keys that may sign for an owner: the primary key, which decides over all of the certificate,
/// and signing subkeys that are valid in the certificate as it is stored here.
fn signing_keys(cert: &Cert, summary: &Summary, now: u32) -> Vec<openpgp::Packet> {
    let good: HashSet<&[u8]> = summary
        .subkeys
        .iter()
        .filter(|key| {
            key.capabilities.has(Capabilities::SIGN)
                && summary.key_validity(key, now) == Validity::Valid
        })
        .map(|key| key.fingerprint.as_bytes())
        .collect();
    // A subkey that cannot be parsed must not sign; some of them make Sequoia panic.
    let keys =
        cert.retain(|_, packet| packet.tag == Tag::PUBLIC_SUBKEY && Key::parse(packet).is_ok());
    let Ok(pile) = openpgp::PacketPile::from_bytes(keys.as_bytes()) else { return Vec::new() };
    pile.into_children()
        .filter(|packet| match packet {
            openpgp::Packet::PublicKey(_) => true,
            openpgp::Packet::PublicSubkey(key) => good.contains(key.fingerprint().as_bytes()),
            _ => false,
        })
        .collect()
}

/// A text with the line ends that it may have been signed with: forms and mail programs change
/// them.
struct Readings {
    as_sent: Vec<u8>,
    unix: Vec<u8>,
    network: Vec<u8>,
}

impl Readings {
    fn of(text: &str) -> Self {
        let unix = text.replace("\r\n", "\n");
        let network = unix.replace('\n', "\r\n").into_bytes();
        Self { as_sent: text.as_bytes().to_vec(), unix: unix.into_bytes(), network }
    }

    /// The time when one of `keys` made the signature, in seconds since 1970; `None` if none did,
    /// or if it is worth nothing.
    fn signed_at(
        &self,
        signature: &openpgp::packet::Signature,
        keys: &[openpgp::Packet],
    ) -> Option<u32> {
        let readings: &[&[u8]] = match signature.typ() {
            SignatureType::Text => &[&self.network],
            SignatureType::Binary => &[&self.as_sent, &self.unix, &self.network],
            _ => return None,
        };
        let strong = matches!(
            signature.hash_algo(),
            HashAlgorithm::SHA224
                | HashAlgorithm::SHA256
                | HashAlgorithm::SHA384
                | HashAlgorithm::SHA512
                | HashAlgorithm::SHA3_256
                | HashAlgorithm::SHA3_512
        );
        let now = SystemTime::now();
        let created = signature.signature_creation_time()?;
        let expired = signature.signature_expiration_time().is_some_and(|end| end <= now);
        if !strong || expired || created > now + AHEAD {
            return None;
        }
        let issuers = signature.get_issuers();
        let verifies = |key: &openpgp::Packet| {
            readings.iter().any(|reading| match key {
                openpgp::Packet::PublicKey(key) => {
                    issuers.iter().any(|issuer| issuer.aliases(key.key_handle()))
                        && signature.verify_message(key, reading).is_ok()
                }
                openpgp::Packet::PublicSubkey(key) => {
                    issuers.iter().any(|issuer| issuer.aliases(key.key_handle()))
                        && signature.verify_message(key, reading).is_ok()
                }
                _ => false,
            })
        };
        if !keys.iter().any(verifies) {
            return None;
        }
        let seconds = created.duration_since(SystemTime::UNIX_EPOCH).ok()?.as_secs();
        u32::try_from(seconds).ok()
    }
}

/// The replacement of the stored certificate with `cert`. User IDs that it lacks do not return from
/// peers. `None` if there is no such certificate any more. What it costs is taken from what `left`
/// allows.
async fn replacement(
    store: &mut Reading,
    cert: &Cert,
    left: &mut Preparation,
) -> Result<Option<Replacement>, EngineError> {
    let Some(row) = store.row(cert.fingerprint()).await? else { return Ok(None) };
    let Some(mut stored) = store.stored(&row, Judging::Stored).await? else { return Ok(None) };
    if stored.verdicts.contains(&Verdict::Unchecked) {
        left.work.take(stored.cert.cost())?;
        stored.verdicts = complete(&stored.cert, stored.verdicts, Verification::Full);
    }
    let (lasting, gone) = compare(&stored, cert);
    let intake = store.prepare(Arrival::Replacement(cert.union(&lasting)), left).await?;
    left.work = intake.work();
    Ok(Some(Replacement { intake, gone }))
}

/// Compares the stored certificate with the owner's new copy. Returns the stored parts that stay
/// although the copy lacks them, which are revocations and the components they are on, and the
/// owner's user IDs to redact.
fn compare(stored: &Stored, new: &Cert) -> (Cert, Vec<Redaction>) {
    let theirs: HashSet<PacketRef<'_>> = new.packets().collect();
    let mut keep = vec![false; stored.cert.packets().len()];
    let mut gone = Vec::new();
    let mut verdicts = stored.verdicts.iter();
    let packets: Vec<PacketRef<'_>> = stored.cert.packets().collect();
    let mut at = 0;
    while at < packets.len() {
        let component = packets[at];
        let end = packets[at + 1..]
            .iter()
            .position(|packet| packet.tag != Tag::SIGNATURE)
            .map_or(packets.len(), |length| at + 1 + length);
        let signatures: Vec<(usize, u8, Verdict)> = (at + 1..end)
            .map(|at| {
                let kind = Signature::parse(packets[at].body).map_or(0, |found| found.kind);
                (at, kind, verdicts.next().copied().unwrap_or(Verdict::Unchecked))
            })
            .collect();
        let is_good = |wanted: u8| {
            signatures.iter().any(|&(_, kind, verdict)| kind == wanted && verdict == Verdict::Good)
        };
        let stays: Box<dyn Fn(u8, Verdict) -> bool> = match component.tag {
            // Others may be allowed to revoke a key.
            Tag::PUBLIC_KEY => Box::new(|kind, verdict| {
                kind == kind::KEY_REVOCATION && (verdict == Verdict::Good || verdict.is_by_others())
            }),
            Tag::PUBLIC_SUBKEY if is_good(kind::SUBKEY_REVOCATION) => {
                Box::new(|_, verdict| verdict == Verdict::Good)
            }
            Tag::USER_ID if theirs.contains(&component) => Box::new(|kind, verdict| {
                kind == kind::CERTIFICATION_REVOCATION && verdict == Verdict::Good
            }),
            _ => Box::new(|_, _| false),
        };
        for &(at, kind, verdict) in &signatures {
            keep[at] = stays(kind, verdict);
        }
        keep[at] = keep[at + 1..end].contains(&true);
        let is_name = matches!(component.tag, Tag::USER_ID | Tag::USER_ATTRIBUTE);
        let is_own = signatures
            .iter()
            .any(|&(_, kind, verdict)| verdict == Verdict::Good && kind != kind::ATTESTATION);
        // A user ID without a self-signature is never served, so it needs no redaction.
        if is_name && is_own && !theirs.contains(&component) {
            gone.push(Redaction::of(component.body));
        }
        at = end;
    }
    (stored.cert.retain(|at, _| keep[at]), gone)
}
