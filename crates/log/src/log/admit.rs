//! Whether an entry is admissible: a function of genesis, the entry and its past.

use std::sync::Arc;

use talaria_cert::Verdict;

use super::memory::Log;
use super::outcome::{Offered, Outcome};
use super::trial::{Checked, NotPlaced, Place, Trial};
use super::waiting::AHEAD_MS;
use crate::action::{Action, Change, DataAction, FieldChange, Grant, Target, number as operation};
use crate::certificate::{Certificate, MemberKey};
use crate::commitment::Commitment;
use crate::entry::Entry;
use crate::genesis::Pattern;
use crate::graph::{Node, Number, View};
use crate::name::{ChainName, EntryId, KeyName, ObjectId};
use crate::record::{Evidence, Signed};
use crate::refusal::Refusal;
use crate::signature::{BadSignature, Check};

impl Log {
    /// Admits an entry, refuses it, or lets it wait.
    pub(super) fn attempt(&mut self, trial: Trial, now_ms: u64, offered: &mut Offered) -> Outcome {
        let signed = &trial.signed;
        let id = signed.id;
        if self.graph.number(&id).is_some() {
            return self.take_opening(signed, offered);
        }
        if self.waiting.has(signed) {
            return Outcome::Known;
        }
        if signed.log() != self.id {
            return Outcome::Refused(Refusal::OtherLog);
        }
        if !trial.is_covered {
            return Outcome::Refused(Refusal::Batch);
        }
        if signed.opening.as_ref().is_some_and(|opening| !opening.opens(&signed.entry)) {
            return Outcome::Refused(Refusal::Opening);
        }
        let place = match self.place(&signed.entry) {
            Ok(place) => place,
            Err(NotPlaced::Missing(missing)) if self.waiting.is_refused(&missing) => {
                return self.refused(id, Refusal::Past);
            }
            Err(NotPlaced::Missing(missing)) => {
                // Forged copies take no room from others. A good one, or one by another key of the
                // same name, can come again.
                return match trial.checked {
                    Some(Checked { bad: Some(bad), .. }) => Outcome::Refused(bad.into()),
                    _ => self.waiting.for_past(missing, trial),
                };
            }
            Err(NotPlaced::Refused(refusal)) => return self.refused(id, refusal),
        };
        // The signature comes first, so that nobody learns more about the rights of others.
        let key = match self.key(&signed.entry, &place) {
            Ok(key) => key,
            Err(refusal) => return self.refused(id, refusal),
        };
        // The certificate of an entry decides which key is meant, and it may be another one of the
        // same name.
        let checked = match &trial.checked {
            Some(Checked { key: with, bad }) if with.is_same(&key) => {
                bad.map_or(Ok(()), |bad| Err(bad.into()))
            }
            _ => self.check(signed, &key),
        };
        if let Err(refusal) = checked {
            return self.refused(id, refusal);
        }
        if let Err(refusal) = self.permitted(&signed.entry, signed.bytes.len(), &place) {
            return self.refused(id, refusal);
        }
        if signed.entry.clock.ms() > now_ms.saturating_add(AHEAD_MS) {
            return self
                .waiting
                .for_clock(Trial { checked: Some(Checked { key, bad: None }), ..trial });
        }
        self.add(id, &signed.entry, place.past, signed.bytes.len());
        self.note_opening(signed);
        offered.added.push(trial.signed);
        Outcome::Added
    }

    /// Checks the signature of an entry, or of its batch, alone.
    pub(crate) fn check(&self, signed: &Signed, key: &MemberKey) -> Result<(), Refusal> {
        let check = match &signed.evidence {
            Evidence::Alone(signature) => signature.check(&signed.bytes, key, self.id),
            Evidence::InBatch(batch, _) => {
                batch.signature.check(&batch.statement.to_bytes(), key, self.id)
            }
        };
        match check? {
            Check::Good => Ok(()),
            Check::Deferred(job) if job.verdict() == Verdict::Good => Ok(()),
            Check::Deferred(_) => Err(BadSignature::Forged.into()),
        }
    }

    /// The place of an entry: its chain, its links and its clock.
    pub(super) fn place(&self, entry: &Entry) -> Result<Place, NotPlaced> {
        let refused = |refusal| Err(NotPlaced::Refused(refusal));
        if matches!(entry.action, Action::Genesis(_)) || entry.log != self.id {
            return refused(Refusal::OtherLog);
        }
        let number = |id: &EntryId| self.graph.number(id).ok_or(NotPlaced::Missing(*id));
        let previous = if entry.sequence == 0 { None } else { Some(number(&entry.previous)?) };
        let links = entry.links.iter().map(number).collect::<Result<Vec<_>, _>>()?;
        match previous {
            None if entry.chain == *self.graph.name_of(0) => return refused(Refusal::GenesisPlace),
            // A sequence of 2^64 - 1 is the last one.
            Some(previous)
                if *self.graph.name_of(previous) != entry.chain
                    || self.graph.node(previous).sequence().checked_add(1)
                        != Some(entry.sequence) =>
            {
                return refused(Refusal::Sequence);
            }
            _ => {}
        }
        let before = previous.iter().chain(&links).copied().chain([0]);
        if before.into_iter().any(|before| self.graph.node(before).clock >= entry.clock) {
            return refused(Refusal::Clock);
        }
        if links.iter().any(|&link| *self.graph.name_of(link) == entry.chain) {
            return refused(Refusal::Link);
        }
        let past = self.graph.past(previous, &links);
        Ok(Place { past, links })
    }

    /// The key that must have signed an entry: that of the certificate in genesis or in the grant.
    pub(super) fn key(&self, entry: &Entry, place: &Place) -> Result<Arc<MemberKey>, Refusal> {
        if entry.grant.is_none() {
            return self.owner_key(&entry.chain);
        }
        let (_, grant) = self.grant(entry, place)?;
        self.key_of(&grant.certificate, &entry.chain)
    }

    /// The grant that an entry names.
    pub(super) fn grant<'a>(
        &'a self,
        entry: &Entry,
        place: &Place,
    ) -> Result<(Number, &'a Grant), Refusal> {
        let number = self.graph.number(&entry.grant).ok_or(Refusal::UnknownGrant)?;
        match self.graph.grant(number) {
            Some(grant) if self.graph.is_in(&place.past, number) => {
                if grant.author() == entry.author() {
                    Ok((number, grant))
                } else {
                    Err(Refusal::OtherGrant)
                }
            }
            _ => Err(Refusal::UnknownGrant),
        }
    }

    /// The key of a certificate that signs a chain, if the log allows its algorithm.
    pub(crate) fn key_of(
        &self,
        certificate: &Certificate,
        chain: &ChainName,
    ) -> Result<Arc<MemberKey>, Refusal> {
        let key = certificate.key(chain.subkey);
        let key = key.ok_or(Refusal::Key { author: chain.author, key: chain.subkey })?;
        if !self.genesis.algorithms.contains(&key.algorithm) {
            return Err(Refusal::Algorithm(key.algorithm));
        }
        Ok(Arc::clone(key))
    }

    /// Everything except place and signature.
    pub(super) fn admissible(
        &self,
        entry: &Entry,
        bytes: usize,
        place: &Place,
    ) -> Result<(), Refusal> {
        self.key(entry, place)?;
        self.permitted(entry, bytes, place)
    }

    /// Everything except place, key and signature.
    fn permitted(&self, entry: &Entry, bytes: usize, place: &Place) -> Result<(), Refusal> {
        debug_assert!(place.links.len() == entry.links.len(), "the place belongs to the entry");
        self.within_limits(entry, bytes, place)?;
        let view = View::Past(&place.past);
        let targets =
            [Target::Author(entry.author()), Target::Key(entry.author(), entry.chain.subkey)];
        // An entry with a revocation in its past is behind all of its heads.
        if targets.into_iter().any(|target| self.working(target, view).next().is_some()) {
            return Err(Refusal::Revoked);
        }
        if entry.grant.is_none() {
            // `key` has found the author among the owners.
        } else {
            let (number, grant) = self.grant(entry, place)?;
            if self.working(Target::Grant(entry.grant), view).next().is_some() {
                return Err(Refusal::Revoked);
            }
            if !self.is_in_force(number, view) {
                return Err(Refusal::GrantNotInForce);
            }
            match &entry.action {
                // The grant is a newer certificate of an owner.
                _ if self.is_owner(&entry.author()) => {}
                Action::Data(data) if grant.covers(data, entry.clock.ms()) => {}
                Action::PublishNode(_) | Action::EndNode(_) if grant.lasts(entry.clock.ms()) => {}
                Action::Data(_) | Action::PublishNode(_) | Action::EndNode(_) => {
                    return Err(Refusal::NotGranted);
                }
                // The signatures of the note allow these.
                Action::Checkpoint(_) | Action::Cosign(_) => {}
                _ => return Err(Refusal::NotOwner),
            }
        }
        match &entry.action {
            Action::Genesis(_) => Err(Refusal::GenesisPlace),
            Action::Data(data) => self.change_fits(entry, data, place),
            // What a snapshot states is not looked at here: that costs as much as all of its past
            // (decision record 14).
            Action::Grant(_) | Action::Snapshot(_) => Ok(()),
            Action::Approve(id) => self.named(id, place, "the approved entry", |node| {
                use operation::{CHOOSE, GRANT, REVOKE, SNAPSHOT};
                matches!(node.operation, GRANT | REVOKE | CHOOSE | SNAPSHOT)
            }),
            Action::Choose(id) => self.named(id, place, "the chosen entry", |_| true),
            Action::Checkpoint(checkpoint) => Ok(self.checkpoint_fits(checkpoint, place)?),
            Action::Cosign(cosignatures) => self.cosignatures_fit(cosignatures, place),
            Action::PublishNode(_) => self.has_room_for_node(entry, place),
            Action::EndNode(id) => self.may_end_node(entry, id, place),
            Action::Revoke(revocation) => {
                if let Target::Grant(grant) = &revocation.target {
                    let is_grant = |node: &Node| node.operation == operation::GRANT;
                    self.named(grant, place, "the grant", is_grant)?;
                }
                for head in &revocation.heads {
                    let by_target = |chain: &ChainName| match revocation.target {
                        Target::Author(author) => chain.author == author,
                        Target::Key(author, key) => chain.author == author && chain.subkey == key,
                        Target::Grant(grant) => self.has_grantee(grant, chain.author),
                    };
                    let node = self.graph.number(head);
                    let is_there = node.is_some_and(|number| {
                        self.graph.is_in(&place.past, number)
                            && by_target(self.graph.name_of(number))
                    });
                    if !is_there {
                        return Err(Refusal::Reference("a head"));
                    }
                }
                Ok(())
            }
        }
    }

    fn has_grantee(&self, grant: EntryId, author: KeyName) -> bool {
        let grant = self.graph.number(&grant).and_then(|number| self.graph.grant(number));
        grant.is_some_and(|grant| grant.author() == author)
    }

    fn within_limits(&self, entry: &Entry, bytes: usize, place: &Place) -> Result<(), Refusal> {
        let limits = &self.genesis.limits;
        let before = place.past.previous.map_or(0, |before| self.graph.node(before).chain_bytes);
        if entry.sequence >= limits.chain_entries {
            return Err(Refusal::Limit("entries of a chain"));
        }
        if before.saturating_add(weight(entry, bytes) as u64) > limits.chain_bytes {
            return Err(Refusal::Limit("bytes of a chain"));
        }
        if entry.sequence == 0
            && self.graph.chains_of(&place.past, &entry.chain) >= usize::from(limits.chains)
        {
            return Err(Refusal::Limit("chains"));
        }
        let limit = u64::from(limits.value_bytes);
        // A value is shorter than its entry.
        let is_short = bytes as u64 <= limit && entry.commitment().is_none();
        if is_short || !matches!(entry.action, Action::Data(_)) {
            return Ok(());
        }
        let value = entry.action.value().map_or(0, |value| value.len());
        // As if the value stood where its commitment does.
        let value = match entry.commitment() {
            Some(commitment) => value - Commitment::TYPED_BYTES + commitment.bytes as usize,
            None => value,
        } as u64;
        if value > limit {
            return Err(Refusal::TooLarge { bytes: value, limit });
        }
        Ok(())
    }

    /// Whether a change fits its object and field, and the entries that it names.
    fn change_fits(&self, entry: &Entry, data: &DataAction, place: &Place) -> Result<(), Refusal> {
        let (field, change) = match &data.change {
            Change::Create(name) => {
                let object = ObjectId::of(self.id, entry.author(), name);
                return if object == data.object { Ok(()) } else { Err(Refusal::Object) };
            }
            Change::Delete | Change::Encrypt(..) | Change::StopEncrypting(_) => return Ok(()),
            Change::Field(field, change) => (field, change),
        };
        let rule = self.genesis.rule(field);
        if !change.fits(rule) {
            return Err(Refusal::Rule(rule));
        }
        if let Some(epoch) = change.epoch() {
            let is_its = |node: &Node| self.is_epoch(node, data.object, field);
            self.named(&epoch, place, "the epoch of the value", is_its)?;
        }
        // Most changes name no entry.
        let is_of_field = |node: &Node| {
            *self.graph.objects.name(node.object) == data.object
                && **self.graph.fields.name(node.field) == **field
        };
        let named = |ids: &[EntryId], what, wanted| {
            let is_same = |node: &Node| node.operation == wanted && is_of_field(node);
            ids.iter().try_for_each(|id| self.named(id, place, what, is_same))
        };
        match change {
            FieldChange::Set(_) | FieldChange::Add(_) | FieldChange::Count(_) => Ok(()),
            FieldChange::Replace { replaced, .. } => {
                named(replaced, "a replaced write", operation::REPLACE)
            }
            FieldChange::Remove(additions) => {
                named(additions, "a removed addition", operation::ADD)
            }
            FieldChange::DeleteValues(ids) => self.named_values(ids, is_of_field, place),
            FieldChange::Insert { parent, .. } if parent.is_none() => Ok(()),
            FieldChange::Insert { parent: element, .. } | FieldChange::Erase(element) => {
                named(&[*element], "the element", operation::INSERT)
            }
        }
    }

    /// Whether an admitted entry begins an epoch of a field.
    pub(crate) fn is_epoch_of(&self, id: &EntryId, object: ObjectId, field: &str) -> bool {
        let node = self.graph.number(id).map(|number| self.graph.node(number));
        node.is_some_and(|node| self.is_epoch(node, object, field))
    }

    fn is_epoch(&self, node: &Node, object: ObjectId, field: &str) -> bool {
        node.operation == operation::ENCRYPT
            && *self.graph.objects.name(node.object) == object
            && Pattern::new(self.graph.fields.name(node.field))
                .is_some_and(|fields| fields.matches(field))
    }

    /// Whether entries that a deletion names are in its past, of its field, and have deletable
    /// values.
    fn named_values(
        &self,
        ids: &[EntryId],
        is_of_field: impl Fn(&Node) -> bool,
        place: &Place,
    ) -> Result<(), Refusal> {
        const WHAT: &str = "a deletable value";
        for id in ids {
            self.named(id, place, WHAT, &is_of_field)?;
            let entry = self.entry(id).ok_or(Refusal::Reference(WHAT))?;
            entry.commitment().ok_or(Refusal::Reference(WHAT))?;
        }
        Ok(())
    }

    /// Whether an entry that another one names is in its past and of a kind.
    pub(super) fn named(
        &self,
        id: &EntryId,
        place: &Place,
        what: &'static str,
        wanted: impl Fn(&Node) -> bool,
    ) -> Result<(), Refusal> {
        let is_there = self.graph.number(id).is_some_and(|number| {
            self.graph.is_in(&place.past, number) && wanted(self.graph.node(number))
        });
        if is_there { Ok(()) } else { Err(Refusal::Reference(what)) }
    }
}

/// The bytes that count for the limit of a chain: those of the entry and of the value to which it
/// commits.
pub(super) fn weight(entry: &Entry, bytes: usize) -> usize {
    bytes + entry.commitment().map_or(0, |commitment| commitment.bytes as usize)
}
