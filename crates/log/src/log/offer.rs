//! Taking entries: those of others in any order, those of this node, and those that were admitted
//! before.

use std::collections::HashMap;
use std::sync::Arc;

use talaria_cert::{Verdict, ed25519_verdicts};

use super::memory::Log;
use super::outcome::{Offered, Outcome};
use super::trial::{Checked, NotPlaced, Trial};
use crate::bytes::Malformed;
use crate::certificate::MemberKey;
use crate::deletable::Opening;
use crate::entry::Entry;
use crate::name::EntryId;
use crate::record::{Evidence, Signed, SignedStatement, Unsigned};
use crate::refusal::Refusal;
use crate::signature::{BadSignature, Check};

impl Log {
    /// Offers entries, at `now_ms` in milliseconds since 1970. They may come in any order and more
    /// than once.
    ///
    /// Ed25519 signatures are checked together.
    pub fn offer(&mut self, entries: Vec<Signed>, now_ms: u64) -> Offered {
        let mut offered = Offered::default();
        let covered: Vec<bool> = entries.iter().map(Signed::is_covered).collect();
        let checked = self.check_many(&entries, &covered);
        for ((signed, checked), is_covered) in entries.into_iter().zip(checked).zip(covered) {
            let trial = Trial { signed, checked, is_covered };
            let outcome = self.take(trial, now_ms, &mut offered);
            offered.outcomes.push(outcome);
        }
        for trial in self.waiting.due(now_ms) {
            self.retry(trial, now_ms, &mut offered);
        }
        self.settle();
        for signed in &mut offered.added {
            if signed.opening.is_some() && self.state.is_deleted(&signed.id) {
                // What does not come to disk is not here.
                signed.opening = None;
                self.state.drop_value(&signed.id);
            }
        }
        offered.revealed.retain(|(id, _)| {
            let is_deleted = self.state.is_deleted(id);
            if is_deleted {
                self.state.drop_value(id);
            }
            !is_deleted
        });
        offered
    }

    /// Admits an entry of one's own, which the caller signs before it leaves.
    ///
    /// # Errors
    ///
    /// [`Refusal`] if the entry is not admissible, [`Refusal::Past`] if its past is not here,
    /// [`Refusal::Malformed`] if the format does not allow it.
    pub fn append(&mut self, entry: Entry) -> Result<EntryId, Refusal> {
        Ok(self.admit_own(entry)?.id)
    }

    pub(crate) fn admit_own(&mut self, entry: Entry) -> Result<Unsigned, Refusal> {
        let own = Unsigned::from(entry);
        // A caller can put more into an entry than the format allows, such as a list that is not
        // ascending.
        if Entry::read(&own.bytes)? != *own.entry {
            return Err(Malformed::Field("value").into());
        }
        self.admit_known(own.id, &own.entry, own.bytes.len())?;
        self.settle();
        Ok(own)
    }

    /// Admits an entry that this node has admitted before, without checking its signature again.
    /// The caller calls [`Self::settle`] after the last one.
    ///
    /// # Errors
    ///
    /// [`Refusal`] if the entry is not admissible.
    pub fn restore(&mut self, signed: &Signed) -> Result<(), Refusal> {
        if self.graph.number(&signed.id).is_some() {
            // A record that was written when its value came.
            self.note_opening(signed);
            return Ok(());
        }
        self.admit_known(signed.id, &signed.entry, signed.bytes.len())?;
        self.note_opening(signed);
        Ok(())
    }

    /// Notes the deletable value of an admitted entry. False if the entry is not here, or does not
    /// commit to it.
    pub fn reveal(&mut self, id: &EntryId, opening: &Opening) -> bool {
        let opens = self.entry(id).is_some_and(|entry| opening.opens(&entry));
        if opens {
            self.state.reveal(*id, opening);
        }
        opens
    }

    /// Notes the deletable value that came with an admitted entry. It was checked before.
    pub(super) fn note_opening(&mut self, signed: &Signed) {
        if let Some(opening) = &signed.opening {
            self.state.reveal(signed.id, opening);
        }
    }

    /// Takes the deletable value that comes with an entry that is here, if it is neither here nor
    /// deleted.
    pub(super) fn take_opening(&mut self, signed: &Signed, offered: &mut Offered) -> Outcome {
        if let Some(opening) = &signed.opening
            && self.state.is_lacking(&signed.id)
        {
            if !opening.opens(&signed.entry) {
                return Outcome::Refused(Refusal::Opening);
            }
            self.state.reveal(signed.id, opening);
            offered.revealed.push((signed.id, opening.clone()));
        }
        Outcome::Known
    }

    fn admit_known(
        &mut self,
        id: EntryId,
        entry: &Arc<Entry>,
        bytes: usize,
    ) -> Result<(), Refusal> {
        let place = match self.place(entry) {
            Ok(place) => place,
            Err(NotPlaced::Missing(_)) => return Err(Refusal::Past),
            Err(NotPlaced::Refused(refusal)) => return Err(refusal),
        };
        self.admissible(entry, bytes, &place)?;
        self.add(id, entry, place.past, bytes);
        Ok(())
    }

    /// Takes one entry, and those that waited for it.
    pub(super) fn take(&mut self, trial: Trial, now_ms: u64, offered: &mut Offered) -> Outcome {
        let id = trial.signed.id;
        let outcome = self.attempt(trial, now_ms, offered);
        self.release(id, &outcome, now_ms, offered);
        outcome
    }

    /// Takes an entry that waited.
    pub(super) fn retry(&mut self, trial: Trial, now_ms: u64, offered: &mut Offered) {
        let id = trial.signed.id;
        let outcome = self.attempt(trial, now_ms, offered);
        if let Outcome::Refused(refusal) = &outcome {
            offered.refused.push((id, refusal.clone()));
        }
        self.release(id, &outcome, now_ms, offered);
    }

    /// Takes or refuses the entries that waited for `id`.
    fn release(&mut self, id: EntryId, outcome: &Outcome, now_ms: u64, offered: &mut Offered) {
        let is_decided = |outcome: &Outcome| match outcome {
            Outcome::Added => true,
            Outcome::Refused(refusal) => refusal.is_final(),
            _ => false,
        };
        // Chains can be long, so this is a loop.
        let mut decided = Vec::new();
        if is_decided(outcome) {
            decided.push(id);
        }
        while let Some(id) = decided.pop() {
            for trial in self.waiting.behind(&id) {
                let id = trial.signed.id;
                let outcome = self.attempt(trial, now_ms, offered);
                if let Outcome::Refused(refusal) = &outcome {
                    offered.refused.push((id, refusal.clone()));
                }
                if is_decided(&outcome) {
                    decided.push(id);
                }
            }
        }
    }

    /// Remembers a refusal that is final, and gives its outcome.
    pub(super) fn refused(&mut self, id: EntryId, refusal: Refusal) -> Outcome {
        if refusal.is_final() {
            self.waiting.refuse(id);
        }
        Outcome::Refused(refusal)
    }

    /// Checks the signatures of entries whose keys are known, each batch once.
    fn check_many(&self, entries: &[Signed], covered: &[bool]) -> Vec<Option<Checked>> {
        let mut checked = vec![None; entries.len()];
        let mut jobs = Vec::new();
        let mut places: Vec<(Arc<MemberKey>, Vec<usize>)> = Vec::new();
        // Entries of one batch share a signature: the place of its first entry here, and its job.
        let mut batches: HashMap<*const SignedStatement, (usize, Option<usize>)> = HashMap::new();
        let mut last: Option<(*const SignedStatement, usize)> = None;
        for (at, signed) in entries.iter().enumerate() {
            let chain = &signed.entry.chain;
            // A batch comes in a row, and is by one key.
            if let Evidence::InBatch(batch, _) = &signed.evidence
                && let Some((_, job)) = last.filter(|(of, _)| *of == Arc::as_ptr(batch))
            {
                if signed.log() == self.id && covered[at] {
                    places[job].1.push(at);
                }
                continue;
            }
            let Some(key) = self.keys.get(&chain.subkey) else { continue };
            if self.graph.number(&signed.id).is_some() || signed.log() != self.id || !covered[at] {
                continue;
            }
            let check = match &signed.evidence {
                Evidence::Alone(signature) => signature.check(&signed.bytes, key, self.id),
                Evidence::InBatch(batch, _) => match batches.get(&Arc::as_ptr(batch)) {
                    Some((_, Some(job))) => {
                        places[*job].1.push(at);
                        last = Some((Arc::as_ptr(batch), *job));
                        continue;
                    }
                    Some((first, None)) => {
                        let first = checked[*first].clone();
                        checked[at] = first;
                        continue;
                    }
                    None => batch.signature.check(&batch.statement.to_bytes(), key, self.id),
                },
            };
            let mut job = None;
            let known = |bad| Checked { key: Arc::clone(key), bad };
            match check {
                Ok(Check::Deferred(deferred)) => {
                    job = Some(jobs.len());
                    jobs.push(*deferred);
                    places.push((Arc::clone(key), vec![at]));
                }
                Ok(Check::Good) => checked[at] = Some(known(None)),
                Err(bad) => checked[at] = Some(known(Some(bad))),
            }
            if let Evidence::InBatch(batch, _) = &signed.evidence {
                batches.insert(Arc::as_ptr(batch), (at, job));
                last = job.map(|job| (Arc::as_ptr(batch), job));
            }
        }
        for ((key, places), verdict) in places.iter().zip(ed25519_verdicts(&jobs)) {
            let bad = (verdict != Verdict::Good).then_some(BadSignature::Forged);
            for &at in places {
                checked[at] = Some(Checked { key: Arc::clone(key), bad });
            }
        }
        checked
    }
}
