//! The introducers among the issuers of certifications, and whether they made them.

use std::collections::HashMap;
use std::sync::Arc;

use talaria_cert::{Cert, CertificationVerifier, Key, KeyId, KeySetup, PacketRef, Tag, Verdict};
use talaria_trust::{Certification, IntroducerCert, SubjectId};

use crate::ledger::Ledger;
use crate::trust::node::Node;

/// The primary key of an introducer.
pub(super) struct IssuerKey {
    pub(super) id: KeyId,
    fingerprint: Vec<u8>,
    created: u32,
    body: Vec<u8>,
    setup: KeySetup,
}

impl IssuerKey {
    /// Reads the primary key of a certificate.
    pub(super) fn of(cert: &[u8]) -> Option<Self> {
        let packet = talaria_cert::first_packet(cert)?;
        let key = Key::parse(packet).ok()?;
        let fingerprint = key.fingerprint();
        Some(Self {
            id: fingerprint.key_id(),
            fingerprint: fingerprint.to_stored(),
            created: key.created,
            body: packet.body.to_vec(),
            setup: KeySetup::default(),
        })
    }

    /// The name of the verdict on a signature of this key on `component`. The component is part of
    /// the name, because the same signature may be on several components.
    fn verdict_name(&self, component: PacketRef<'_>, signature: &[u8]) -> [u8; 15] {
        let length = (component.body.len() as u64).to_be_bytes();
        let parts = [&self.fingerprint[..], &[component.tag.0], &length, component.body, signature];
        *talaria_cert::sha256(&parts).first_chunk().expect("32 bytes")
    }
}

/// The introducers that can affect a set of certificates.
#[derive(Default)]
pub(super) struct Voices {
    pub(super) speaking: HashMap<KeyId, Vec<IntroducerCert>>,
    pub(super) keys: HashMap<i64, Arc<IssuerKey>>,
}

impl Voices {
    pub(super) fn named(&self, id: KeyId) -> &[IntroducerCert] {
        self.speaking.get(&id).map_or(&[][..], Vec::as_slice)
    }
}

/// Answers whether introducers made signatures on a certificate, from known verdicts or by
/// verifying.
pub(super) struct Oracle<'w> {
    voices: &'w Voices,
    known: &'w Node,
    certified: Option<CertificationVerifier<'w>>,
    /// Verdicts of a rehearsal.
    pub(super) ledger: Option<&'w Ledger>,
    /// Verdicts that the stored row does not have.
    pub(super) fresh: Vec<[u8; 16]>,
    /// Number of verified signatures.
    pub(super) computed: u64,
    /// Whether signatures without a known verdict count as not made.
    pub(super) only_known: bool,
}

impl<'w> Oracle<'w> {
    pub(super) fn new(cert: &'w Cert, known: &'w Node, voices: &'w Voices) -> Self {
        let certified = CertificationVerifier::new(cert);
        let fresh = Vec::new();
        Self { voices, known, certified, ledger: None, fresh, computed: 0, only_known: false }
    }

    pub(super) fn made(
        &mut self,
        issuer: &IntroducerCert,
        user_id: &SubjectId<'w>,
        certification: &Certification<'w>,
    ) -> bool {
        let (Some(key), Some(certified)) =
            (self.voices.keys.get(&issuer.cert), &mut self.certified)
        else {
            return false;
        };
        if key.created > certification.created {
            return false;
        }
        let name = key.verdict_name(user_id.packet, certification.body);
        if let Some(good) = self.known.verdict(&name) {
            return good;
        }
        if self.only_known {
            return false;
        }
        let good = if let Some(good) = self.ledger.and_then(|ledger| ledger.certification(&name)) {
            good
        } else {
            let packet = PacketRef { tag: Tag::PUBLIC_KEY, body: &key.body };
            let Ok(parsed) = Key::parse(packet) else { return false };
            self.computed += 1;
            let verdict = certified.by(&parsed, &key.setup, user_id.packet, certification.body);
            verdict == Verdict::Good
        };
        let mut entry = [u8::from(good); 16];
        entry[..15].copy_from_slice(&name);
        self.fresh.push(entry);
        good
    }
}
