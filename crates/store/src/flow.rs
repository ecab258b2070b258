//! The certifications of a store as a network for [`talaria_trust::flow`].

use std::collections::HashMap;
use std::rc::Rc;

use talaria_cert::merge::Stored;
use talaria_cert::{
    Context, DesignatedRevocation, KeyId, PacketRef, Rules, Signature, Summary, Tag, Timestamp,
    Validity, Verdict, kind,
};
use talaria_trust::Scope;
use talaria_trust::flow::{Edge, FULL, Network};

use crate::error::StoreError;
use crate::number::CertId;
use crate::revoker;
use crate::store::Store;
use crate::tofu::CertIssuer;

/// From this time on (2013-02-01), third-party signatures with SHA-1 or RIPEMD-160 do not count, as
/// in Sequoia's policy: an attacker who chooses the signed data could forge them. Self-signatures
/// with RIPEMD-160 do not count either.
const COLLISIONS: u32 = 1_359_676_800;
/// From this time on (2023-02-01), self-signatures with SHA-1 do not count.
const SHA1_ENDS: u32 = 1_675_209_600;

/// The certifications in a store at a given time. The store is not modified.
pub struct Certifications<'s> {
    store: &'s Store,
    now: u32,
    /// Certificates by the key ID of their primary key, only those with a bound primary key.
    named: HashMap<KeyId, Rc<Vec<CertId>>>,
    issuers: HashMap<CertId, Option<Rc<Participant>>>,
}

/// The issuer or the subject of a certification.
struct Participant {
    stored: Stored,
    signer: CertIssuer,
    /// Whether the key is revoked for all times.
    void: bool,
    /// Whether an acceptable self-signature binds the key.
    bound: bool,
    /// For each user ID or attribute, whether an acceptable self-signature binds it.
    own: Vec<bool>,
    /// The revocations by designated revokers.
    designated: Vec<DesignatedRevocation>,
}

impl Participant {
    fn new(stored: Stored, designated: Vec<DesignatedRevocation>, now: u32) -> Self {
        let mut verdicts = stored.verdicts.iter();
        let (mut void, mut bound, mut own) = (false, false, Vec::new());
        let mut on = Tag::PUBLIC_KEY;
        for packet in stored.cert.packets() {
            if packet.tag != Tag::SIGNATURE {
                on = packet.tag;
                own.extend(matches!(on, Tag::USER_ID | Tag::USER_ATTRIBUTE).then_some(false));
                continue;
            }
            let good = verdicts.next() == Some(&Verdict::Good);
            let Some(signature) = Signature::parse(packet.body).filter(|_| good) else { continue };
            void |= is_hard(&signature);
            let believed = match signature.hash {
                1 => false,
                2 => now < SHA1_ENDS,
                3 => now < COLLISIONS,
                _ => true,
            };
            let over = signature.expires != 0 && signature.expires <= now;
            let understood = signature.understood(&Context::Certificate).is_ok();
            if !believed || over || signature.created > now || !understood {
                continue;
            }
            let certifies = kind::CERTIFICATION.contains(&signature.kind);
            bound |= certifies || signature.kind == kind::DIRECT_KEY;
            if let (true, Some(own)) = (certifies && on == Tag::USER_ID, own.last_mut()) {
                *own = true;
            }
        }
        void |= designated.iter().any(|made| made.hard);
        let signer = CertIssuer::new(stored.cert.clone());
        Self { stored, signer, void, bound, own, designated }
    }

    /// Whether the certificate could certify at the time `then`. A hard revocation, such as for a
    /// lost key, holds for all times.
    fn could(&self, then: u32) -> bool {
        let then_it_was = || {
            let Stored { cert, verdicts, .. } = &self.stored;
            Summary::glance(Rules::Standard, cert, verdicts, then).validity(then)
        };
        let revoked = self.designated.iter().any(|made| made.created <= then);
        self.bound && !self.void && !revoked && then_it_was() == Validity::Valid
    }
}

/// Whether a revocation of a key holds for all times.
fn is_hard(signature: &Signature<'_>) -> bool {
    signature.kind == kind::KEY_REVOCATION && signature.is_hard()
}

/// A third-party signature on a user ID.
struct ThirdPartySignature<'a> {
    /// Index of the user ID among user IDs and attributes.
    user_id: usize,
    /// Packet of the user ID.
    on: PacketRef<'a>,
    /// Index of the signature packet.
    place: usize,
    body: &'a [u8],
    signature: Signature<'a>,
    issuer: KeyId,
}

/// The third-party signatures on the user IDs of a certificate, not yet verified.
fn said<'a>(stored: &'a Stored, now: u32) -> impl Iterator<Item = ThirdPartySignature<'a>> {
    let own = stored.cert.fingerprint().key_id();
    let mut on: Option<PacketRef<'a>> = None;
    let mut user_ids = 0;
    stored.cert.packets().enumerate().filter_map(move |(place, packet)| {
        match packet.tag {
            Tag::SIGNATURE => {}
            Tag::USER_ID | Tag::USER_ATTRIBUTE => {
                let text = packet.tag == Tag::USER_ID && std::str::from_utf8(packet.body).is_ok();
                on = text.then_some(packet);
                user_ids += 1;
                return None;
            }
            _ => {
                on = None;
                return None;
            }
        }
        let on = on?;
        let signature = Signature::parse(packet.body)?;
        let issuer = signature.issuer.filter(|&issuer| issuer != own)?;
        let weak = signature.hash == 1 || matches!(signature.hash, 2 | 3) && now >= COLLISIONS;
        let understood = signature.understood(&Context::Certificate).is_ok();
        let counts = !weak && understood && signature.created <= now;
        let user_id = user_ids - 1;
        counts.then_some(ThirdPartySignature {
            user_id,
            on,
            place,
            body: packet.body,
            signature,
            issuer,
        })
    })
}

impl<'s> Certifications<'s> {
    /// The certifications in `store` at `now`.
    #[must_use]
    pub fn new(store: &'s Store, now: Timestamp) -> Self {
        Self { store, now: now.seconds(), named: HashMap::new(), issuers: HashMap::new() }
    }

    fn named(&mut self, id: KeyId) -> Result<Rc<Vec<CertId>>, StoreError> {
        if let Some(named) = self.named.get(&id) {
            return Ok(Rc::clone(named));
        }
        let mut named = Vec::new();
        for cert in self.store.candidates().with_key(id)? {
            let Some(row) = self.store.row_by_id(cert)? else { continue };
            let summary = self.store.current(row, Rules::Standard, self.now.into())?.summary;
            if summary.primary.bound && summary.fingerprint().key_id() == id {
                named.push(cert);
            }
        }
        let named = Rc::new(named);
        self.named.insert(id, Rc::clone(&named));
        Ok(named)
    }

    fn issuer(&mut self, cert: CertId) -> Result<Option<Rc<Participant>>, StoreError> {
        if let Some(issuer) = self.issuers.get(&cert) {
            return Ok(issuer.clone());
        }
        let stored = self.store.stored(cert)?;
        let issuer = match stored {
            Some(stored) => {
                let designated = self.store.run(|c| revoker::designated(c, &stored, self.now))?;
                Some(Rc::new(Participant::new(stored, designated, self.now)))
            }
            None => None,
        };
        self.issuers.insert(cert, issuer.clone());
        Ok(issuer)
    }
}

impl Network for Certifications<'_> {
    type Cert = CertId;
    type Error = StoreError;

    fn edges_to(&mut self, cert: CertId) -> Result<Vec<Edge<CertId>>, StoreError> {
        let Some(to) = self.issuer(cert)?.filter(|to| to.bound) else { return Ok(Vec::new()) };
        let mut edges = Vec::new();
        for said in said(&to.stored, self.now) {
            let Signature { created, expires, trust, .. } = said.signature;
            let over = expires != 0 && expires <= self.now;
            if !kind::CERTIFICATION.contains(&said.signature.kind) || over {
                continue;
            }
            let (depth, amount) = trust.unwrap_or((0, FULL));
            let scope = said.signature.trust_regex.filter(|_| trust.is_some()).map(Scope::new);
            for &from in self.named(said.issuer)?.iter() {
                edges.push(Edge {
                    from,
                    to: cert,
                    user_id: said.user_id,
                    signature: said.place,
                    created,
                    amount,
                    depth,
                    scope: scope.clone(),
                });
            }
        }
        Ok(edges)
    }

    fn is_own(&mut self, cert: CertId, user_id: usize) -> Result<bool, StoreError> {
        let of = self.issuer(cert)?;
        Ok(of.is_some_and(|of| of.own.get(user_id) == Some(&true)))
    }

    fn is_made(&mut self, edge: &Edge<CertId>) -> Result<bool, StoreError> {
        let (Some(from), Some(to)) = (self.issuer(edge.from)?, self.issuer(edge.to)?) else {
            return Ok(false);
        };
        let cert = &to.stored.cert;
        let id = from.signer.key_id();
        let of_issuer =
            |said: &ThirdPartySignature<'_>| said.issuer == id && said.user_id == edge.user_id;
        let made = |said: &ThirdPartySignature<'_>| from.signer.made(cert, said.on, said.body);
        let mut all = said(&to.stored, self.now).filter(of_issuer);
        if !all.any(|said| said.place == edge.signature && made(&said)) {
            return Ok(false);
        }
        let taken_back = said(&to.stored, self.now).filter(of_issuer).any(|said| {
            let revokes = said.signature.kind == kind::CERTIFICATION_REVOCATION;
            revokes && said.signature.created > edge.created && made(&said)
        });
        Ok(!taken_back && from.could(edge.created))
    }
}
