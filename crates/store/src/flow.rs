//! The certifications of a store as a network for [`talaria_trust::flow`].

use std::collections::HashMap;
use std::rc::Rc;

use talaria_cert::{Cert, KeyId, PacketRef, Tag, Validity};
use talaria_trust::flow::{Edge, Network};
use talaria_trust::{Certification, Scope, Subject};

use crate::{CertIssuer, Store, StoreError};

/// The certifications of a store at some time. Nothing is written.
pub struct Certifications<'s> {
    store: &'s Store,
    now: u32,
    /// The certificates with a primary key of that ID which may certify now.
    named: HashMap<KeyId, Rc<Vec<i64>>>,
    issuers: HashMap<i64, Option<Rc<CertIssuer>>>,
}

impl<'s> Certifications<'s> {
    /// Those of `store` at `now`, in seconds since 1970.
    #[must_use]
    pub fn new(store: &'s Store, now: u32) -> Self {
        Self { store, now, named: HashMap::new(), issuers: HashMap::new() }
    }

    fn named(&mut self, id: KeyId) -> Result<Rc<Vec<i64>>, StoreError> {
        if let Some(named) = self.named.get(&id) {
            return Ok(Rc::clone(named));
        }
        let mut named = Vec::new();
        for cert in self.store.with_key(id)? {
            let Some(row) = self.store.row_by_id(cert)? else { continue };
            let summary = self.store.current(row, self.now)?.summary;
            let valid = summary.validity(self.now) == Validity::Valid;
            if valid && summary.fingerprint().key_id() == id {
                named.push(cert);
            }
        }
        let named = Rc::new(named);
        self.named.insert(id, Rc::clone(&named));
        Ok(named)
    }

    fn issuer(&mut self, cert: i64) -> Result<Option<Rc<CertIssuer>>, StoreError> {
        if let Some(issuer) = self.issuers.get(&cert) {
            return Ok(issuer.clone());
        }
        let stored = self.store.stored(cert)?;
        let issuer = stored.map(|stored| Rc::new(CertIssuer::new(stored.cert)));
        self.issuers.insert(cert, issuer.clone());
        Ok(issuer)
    }

    /// Calls `each` with the certification of each issuer that holds, of each user ID.
    fn for_each(
        &self,
        cert: &Cert,
        id: i64,
        mut each: impl FnMut(usize, PacketRef<'_>, &Certification<'_>) -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        let Some(row) = self.store.row_by_id(id)? else { return Ok(()) };
        let summary = self.store.current(row, self.now)?.summary;
        let subject = Subject::of(cert, &summary, self.now);
        if !subject.usable {
            return Ok(());
        }
        for (at, user_id) in subject.user_ids.iter().enumerate().filter(|(_, id)| id.usable) {
            let mut newest: HashMap<KeyId, &Certification<'_>> = HashMap::new();
            for certification in &user_id.certifications {
                let entry = newest.entry(certification.issuer).or_insert(certification);
                if certification.created >= entry.created {
                    *entry = certification;
                }
            }
            for certification in newest.into_values() {
                let over = certification.expires != 0 && certification.expires <= self.now;
                if !certification.revokes && !over {
                    each(at, user_id.packet, certification)?;
                }
            }
        }
        Ok(())
    }
}

impl Network for Certifications<'_> {
    type Error = StoreError;

    fn edges_to(&mut self, cert: i64) -> Result<Vec<Edge>, StoreError> {
        let Some(stored) = self.store.stored(cert)? else { return Ok(Vec::new()) };
        let mut found = Vec::new();
        self.for_each(&stored.cert, cert, |user_id, _, certification| {
            let (depth, amount) = certification.trust.unwrap_or((0, talaria_trust::flow::FULL));
            let scope = certification.scope.map(Scope::new);
            found.push((user_id, certification.issuer, depth, amount, scope));
            Ok(())
        })?;
        let mut edges = Vec::new();
        for (user_id, issuer, depth, amount, scope) in found {
            for &from in self.named(issuer)?.iter() {
                edges.push(Edge { from, to: cert, user_id, amount, depth, scope: scope.clone() });
            }
        }
        edges.sort_unstable_by_key(|edge| (edge.from, edge.user_id));
        Ok(edges)
    }

    fn is_made(&mut self, edge: &Edge) -> Result<bool, StoreError> {
        let (Some(issuer), Some(stored)) = (self.issuer(edge.from)?, self.store.stored(edge.to)?)
        else {
            return Ok(false);
        };
        let mut made = false;
        let id = issuer.key_id();
        self.for_each(&stored.cert, edge.to, |user_id, packet, certification| {
            if user_id == edge.user_id && certification.issuer == id {
                debug_assert!(packet.tag != Tag::SIGNATURE);
                made |= issuer.made(&stored.cert, packet, certification.body);
            }
            Ok(())
        })?;
        Ok(made)
    }
}
