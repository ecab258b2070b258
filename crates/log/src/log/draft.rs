//! Drafts: entries at the end of one's own chain, ready to be signed.

use talaria_message::SigningKey;

use super::error::DraftError;
use super::memory::Log;
use super::standing::Standing;
use crate::action::{Action, Change, DataAction, FieldChange, Grant, Target};
use crate::certificate::Certificate;
use crate::clock::Clock;
use crate::entry::{Entry, LINKS_MAX};
use crate::genesis::Genesis;
use crate::graph::{Number, View};
use crate::name::{ChainName, EntryId, KeyName};
use crate::record::{Evidence, Signed, SignedStatement, Statement, Tree, Unsigned};
use crate::refusal::Refusal;
use crate::signature::StoredSignature;

/// Writes entries of one chain: drafts, signs and admits them.
pub struct Maker<'a> {
    /// The chain.
    pub chain: ChainName,
    /// The key of the chain.
    pub key: &'a mut SigningKey,
}

impl<'a> Maker<'a> {
    /// A writer of the chain of a key on a device instance. `None` if the key may not sign for the
    /// author.
    #[must_use]
    pub fn new(
        certificate: &Certificate,
        key: &'a mut SigningKey,
        instance: [u8; 16],
    ) -> Option<Self> {
        let signer = key.public().fingerprint();
        let is_signer = |name: &KeyName| name.fingerprint().as_bytes() == signer.as_bytes();
        let subkey = certificate.key_names().find(is_signer)?;
        let chain = ChainName { author: certificate.name(), subkey, instance };
        Some(Self { chain, key })
    }

    /// Makes the first entry of a new log. `now_ms` is in milliseconds since 1970.
    ///
    /// # Errors
    ///
    /// [`DraftError::Key`]; [`DraftError::Signature`].
    pub fn begin(&mut self, genesis: Genesis, now_ms: u64) -> Result<Signed, DraftError> {
        let entry = Entry {
            log: EntryId::NONE,
            chain: self.chain,
            sequence: 0,
            previous: EntryId::NONE,
            links: Vec::new(),
            clock: Clock::at_ms(now_ms),
            grant: EntryId::NONE,
            action: Action::Genesis(Box::new(genesis)),
        };
        self.sign(entry, EntryId::NONE, now_ms)
    }

    /// Makes one entry with a signature of its own. `now_ms` is in milliseconds since 1970.
    ///
    /// The entry is in the log when this returns. It must not leave before it is on disk.
    ///
    /// # Errors
    ///
    /// [`DraftError`]; the log is as it was before, except after [`DraftError::Key`] and
    /// [`DraftError::Signature`], after which it must be dropped.
    pub fn make(
        &mut self,
        log: &mut Log,
        action: Action,
        now_ms: u64,
    ) -> Result<Signed, DraftError> {
        let entry = log.draft(self.chain, action, now_ms)?;
        let entry = log.admit_own(entry)?;
        self.sign_alone(entry, log.id(), now_ms)
    }

    /// Signs an entry of the log `log`.
    ///
    /// # Errors
    ///
    /// [`DraftError::Key`]; [`DraftError::Signature`].
    pub fn sign(&mut self, entry: Entry, log: EntryId, now_ms: u64) -> Result<Signed, DraftError> {
        self.sign_alone(entry.into(), log, now_ms)
    }

    pub(crate) fn sign_alone(
        &mut self,
        entry: Unsigned,
        log: EntryId,
        now_ms: u64,
    ) -> Result<Signed, DraftError> {
        let log = if entry.entry.log.is_none() { entry.id } else { log };
        let signature = self.signature(&entry.bytes, log, now_ms)?;
        Ok(entry.with(Evidence::Alone(signature)))
    }

    /// Signs entries in a row with one signature. The log has admitted them already.
    ///
    /// # Errors
    ///
    /// [`DraftError::Key`]; [`DraftError::Signature`].
    ///
    /// # Panics
    ///
    /// If there is no entry, more than [`crate::BATCH_MAX`], or if they are not in a row.
    pub fn sign_batch(
        &mut self,
        entries: Vec<Entry>,
        log: EntryId,
        now_ms: u64,
    ) -> Result<Vec<Signed>, DraftError> {
        self.sign_together(entries.into_iter().map(Unsigned::from).collect(), log, now_ms)
    }

    pub(crate) fn sign_together(
        &mut self,
        entries: Vec<Unsigned>,
        log: EntryId,
        now_ms: u64,
    ) -> Result<Vec<Signed>, DraftError> {
        let first = &entries[0].entry;
        let mut statement = Statement {
            log,
            chain: self.chain,
            first: first.sequence,
            count: u32::try_from(entries.len()).expect("a batch has at most 65,536 entries"),
            previous: first.previous,
            root: [0; 32],
        };
        let tree = Tree::of(entries);
        statement.root = tree.root();
        let signature = self.signature(&statement.to_bytes(), log, now_ms)?;
        let signed = tree.sign(SignedStatement { statement, signature });
        Ok(signed.expect("the statement is about these entries"))
    }

    pub(super) fn signature(
        &mut self,
        bytes: &[u8],
        log: EntryId,
        now_ms: u64,
    ) -> Result<StoredSignature, DraftError> {
        // The templates are for SHA-256; keys that need more keep their digest.
        if matches!(self.key.algorithm(), 22 | 27) {
            self.key.set_hash(8).map_err(DraftError::Key)?;
        }
        let seconds = u32::try_from(now_ms / 1000).unwrap_or(u32::MAX);
        let packet = self.key.sign_for_log(bytes, &log.0, seconds).map_err(DraftError::Key)?;
        StoredSignature::of_packet(&packet, self.chain.subkey, log).map_err(DraftError::Signature)
    }
}

impl Log {
    /// An entry at the end of a chain, with links to heads that it has not seen and with a grant
    /// that allows it.
    ///
    /// # Errors
    ///
    /// [`DraftError::Rejected`], [`DraftError::Ended`], [`DraftError::Clock`],
    /// [`DraftError::Links`], or [`DraftError::Refused`] if the author has no grant.
    pub fn draft(
        &self,
        chain: ChainName,
        action: Action,
        now_ms: u64,
    ) -> Result<Entry, DraftError> {
        if let Action::Data(data) = &action {
            self.ask(chain.author, data)?;
        }
        if let Action::Approve(id) = &action
            && let Some(checked) = self.check_snapshot(id)
        {
            // Who signs it says that it is right.
            checked?;
        }
        let tips = self.graph.chain(&chain).map(|chain| &chain.tips[..]).unwrap_or_default();
        let previous = match tips {
            [] => None,
            &[tip] => Some(tip),
            // After a fork, the chosen branch goes on.
            tips => {
                let counts = |&&tip: &&Number| self.standing_of(tip) == Standing::Counts;
                Some(*tips.iter().find(counts).ok_or(DraftError::Ended(Standing::Forked))?)
            }
        };
        if let Some(previous) = previous.filter(|&previous| previous != 0) {
            match self.standing_of(previous) {
                Standing::Counts | Standing::GrantEnded | Standing::Expired => {}
                ended => return Err(DraftError::Ended(ended)),
            }
        }
        let grant = self.grant_for(&chain, &action, now_ms)?;
        let links = self.links(&chain, previous, &action, grant)?;
        let before = previous.iter().chain(&links).copied().chain([0]);
        let latest = before.map(|number| self.graph.node(number).clock).max();
        let clock = Clock::after(latest.unwrap_or_default(), now_ms).ok_or(DraftError::Clock)?;
        let (sequence, before) = previous.map_or((0, EntryId::NONE), |previous| {
            let node = self.graph.node(previous);
            (node.sequence() + 1, node.id)
        });
        let mut links: Vec<EntryId> = links.iter().map(|&link| self.graph.node(link).id).collect();
        links.sort_unstable();
        Ok(Entry { log: self.id, chain, sequence, previous: before, links, clock, grant, action })
    }

    /// The grant for an action: none for an owner with a key that is not expired, else one that is
    /// in force and covers it.
    fn grant_for(
        &self,
        chain: &ChainName,
        action: &Action,
        now_ms: u64,
    ) -> Result<EntryId, DraftError> {
        let is_owner = self.is_owner(&chain.author);
        let mut reason = Refusal::Stranger(chain.author);
        let mut is_expired = false;
        if is_owner {
            // A newer certificate of an owner is in a grant.
            match self.owner_key(chain) {
                Ok(_) if self.is_over(self.key_end(None, chain), now_ms) => {
                    is_expired = true;
                }
                Ok(_) => return Ok(EntryId::NONE),
                Err(refusal) => reason = refusal,
            }
        }
        let ms = now_ms.max(self.latest().ms());
        let allows = |grant: &Grant| match action {
            _ if is_owner => Ok(true),
            Action::Data(data) => Ok(grant.covers(data, ms)),
            Action::PublishNode(_) | Action::EndNode(_) => Ok(grant.lasts(ms)),
            // The signatures in the note allow them.
            Action::Checkpoint(_) | Action::Cosign(_) => Ok(true),
            _ => Err(Refusal::NotOwner),
        };
        for &number in &self.grants {
            let Some(grant) = self.graph.grant(number) else { continue };
            if grant.author() != chain.author || grant.certificate.key(chain.subkey).is_none() {
                continue;
            }
            let is_allowed = allows(grant)?;
            if !self.is_usable(number, View::All) {
                reason = Refusal::GrantNotInForce;
            } else if !is_allowed {
                reason = Refusal::NotGranted;
            } else if self.is_over(grant.certificate.expires(chain.subkey), now_ms) {
                is_expired = true;
            } else {
                return Ok(self.graph.node(number).id);
            }
        }
        if is_expired {
            return Err(DraftError::Expired { key: chain.subkey });
        }
        let is_for_owners = !matches!(
            action,
            Action::Data(_)
                | Action::PublishNode(_)
                | Action::EndNode(_)
                | Action::Checkpoint(_)
                | Action::Cosign(_)
        );
        Err(if is_for_owners && !is_owner { Refusal::NotOwner } else { reason }.into())
    }

    /// Whether a key with this end is expired. In a log without a checkpointer, no key expires.
    fn is_over(&self, end: Option<u64>, now_ms: u64) -> bool {
        self.genesis().checkpointer.is_some() && end.is_some_and(|end| end <= now_ms / 1000)
    }

    /// Heads of other chains that are not in the past: those that the action needs, then the
    /// latest.
    pub(super) fn links(
        &self,
        chain: &ChainName,
        previous: Option<Number>,
        action: &Action,
        grant: EntryId,
    ) -> Result<Vec<Number>, DraftError> {
        let mut needed = references(action);
        needed.push(grant);
        if let Some(approvals) = self.controls.approvals.get(&grant) {
            needed.extend(approvals.iter().map(|&number| self.graph.node(number).id));
        }
        let mut links: Vec<Number> = Vec::new();
        let mut past = self.graph.past(previous, &links);
        for needed in needed.iter().filter_map(|id| self.graph.number(id)) {
            if self.graph.is_in(&past, needed) {
                continue;
            }
            let of = &self.graph.chains[self.graph.chain_of(needed) as usize];
            let tip = of.tips.iter().find(|&&tip| self.graph.is_up_to(needed, tip));
            match tip {
                Some(&tip) if of.name != *chain => links.push(tip),
                _ => return Err(Refusal::Reference("an entry of another branch").into()),
            }
            past = self.graph.past(previous, &links);
        }
        if links.len() > LINKS_MAX {
            return Err(DraftError::Links);
        }
        let others = self.graph.chains.iter().filter(|other| other.name != *chain);
        let mut heads: Vec<Number> = others.flat_map(|other| other.tips.iter().copied()).collect();
        heads.sort_unstable_by_key(|&head| std::cmp::Reverse(self.graph.stamp(head)));
        for head in heads {
            if links.len() == LINKS_MAX {
                break;
            }
            if !self.graph.is_in(&past, head) {
                links.push(head);
                past = self.graph.past(previous, &links);
            }
        }
        Ok(links)
    }
}

/// The entries that an action names.
fn references(action: &Action) -> Vec<EntryId> {
    match action {
        Action::Genesis(_) | Action::Grant(_) | Action::PublishNode(_) | Action::Snapshot(_) => {
            Vec::new()
        }
        Action::Approve(id) | Action::Choose(id) | Action::EndNode(id) => vec![*id],
        Action::Checkpoint(checkpoint) if checkpoint.before.is_none() => Vec::new(),
        Action::Checkpoint(checkpoint) => vec![checkpoint.before],
        Action::Cosign(cosignatures) => vec![cosignatures.checkpoint],
        Action::Revoke(revocation) => {
            let grant = match revocation.target {
                Target::Grant(grant) => Some(grant),
                _ => None,
            };
            revocation.heads.iter().copied().chain(grant).collect()
        }
        Action::Data(DataAction { change: Change::Field(_, change), .. }) => {
            let mut named = named_by(change);
            named.extend(change.epoch());
            named
        }
        Action::Data(_) => Vec::new(),
    }
}

fn named_by(change: &FieldChange) -> Vec<EntryId> {
    match change {
        FieldChange::Replace { replaced, .. } => replaced.clone(),
        FieldChange::Remove(ids) | FieldChange::DeleteValues(ids) => ids.clone(),
        FieldChange::Insert { parent: element, .. } | FieldChange::Erase(element) => {
            if element.is_none() { Vec::new() } else { vec![*element] }
        }
        FieldChange::Set(_) | FieldChange::Add(_) | FieldChange::Count(_) => Vec::new(),
    }
}
