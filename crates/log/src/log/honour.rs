//! The admitted entries that count. Every function here takes a closed set, and no order.

use std::collections::{BTreeMap, BTreeSet};

use super::memory::Log;
use super::standing::Standing;
use crate::action::{Action, Grant, Target};
use crate::graph::{Fork, Number, View};
use crate::name::KeyName;
use crate::stamp::Stamp;

impl Log {
    /// Whether an entry counts in the set of all admitted entries.
    pub(super) fn standing_of(&self, number: Number) -> Standing {
        if self.is_ended(number, View::All) {
            return Standing::Revoked;
        }
        if self.is_forked(number, View::All) {
            return Standing::Forked;
        }
        if self.is_expired(number, View::All) {
            return Standing::Expired;
        }
        match self.graph.node(number).grant {
            Some(grant) if !self.is_in_force(grant.get(), View::All) => Standing::GrantEnded,
            _ => Standing::Counts,
        }
    }

    /// Whether a grant, or a snapshot, counts in a set, with as many owners as the threshold says.
    pub(super) fn is_in_force(&self, number: Number, view: View<'_>) -> bool {
        self.agreeing(number, view).len() >= usize::from(self.genesis.threshold)
    }

    /// The owners who agree with a grant or a snapshot in a set, each with the first entry that
    /// says so. None if it does not count itself.
    pub(super) fn agreeing(&self, number: Number, view: View<'_>) -> BTreeMap<KeyName, Number> {
        let mut found = BTreeMap::new();
        let counts = |number: Number| {
            self.graph.contains(view, number)
                && !self.is_ended(number, view)
                && !self.is_forked(number, view)
                && !self.is_expired(number, view)
        };
        if !counts(number) {
            return found;
        }
        found.insert(self.graph.name_of(number).author, number);
        let approvals = self.controls.approvals.get(&self.graph.node(number).id);
        for &approval in approvals.into_iter().flatten().filter(|&&approval| counts(approval)) {
            let first = found.entry(self.graph.name_of(approval).author).or_insert(approval);
            if *first != number && self.graph.stamp(approval) < self.graph.stamp(*first) {
                *first = approval;
            }
        }
        found
    }

    /// Whether a grant is in force, and no revocation in the set ends it for new entries.
    pub(super) fn is_usable(&self, grant: Number, view: View<'_>) -> bool {
        let target = Target::Grant(self.graph.node(grant).id);
        let Some(author) = self.graph.grant(grant).map(Grant::author) else { return false };
        self.is_in_force(grant, view)
            && self.working(target, view).next().is_none()
            && self.working(Target::Author(author), view).next().is_none()
    }

    /// Whether the authors of entries are as many as the threshold says.
    fn is_enough(&self, entries: impl Iterator<Item = Number>) -> bool {
        let authors: BTreeSet<KeyName> =
            entries.map(|number| self.graph.name_of(number).author).collect();
        authors.len() >= usize::from(self.genesis.threshold)
    }

    /// Whether a revocation or a choice takes effect in a set: it and enough approvals are in it,
    /// by keys that are not expired. Whether its authors are still owners does not matter, since
    /// two that end each other would have no answer.
    fn works(&self, control: Number, view: View<'_>) -> bool {
        self.is_agreed_by(control, |number| {
            self.graph.contains(view, number) && !self.is_expired(number, view)
        })
    }

    /// Whether enough owners agree with an entry in a set, also with expired keys: expiry depends
    /// on choices between branches of the checkpointer.
    pub(super) fn is_agreed(&self, control: Number, view: View<'_>) -> bool {
        self.is_agreed_by(control, |number| self.graph.contains(view, number))
    }

    fn is_agreed_by(&self, control: Number, takes_part: impl Fn(Number) -> bool) -> bool {
        if !takes_part(control) {
            return false;
        }
        let approvals = self.controls.approvals.get(&self.graph.node(control).id);
        let agreed = approvals.into_iter().flatten().copied();
        let agreed = agreed.filter(|&number| takes_part(number));
        self.is_enough(std::iter::once(control).chain(agreed))
    }

    /// The revocations of a target that take effect in a set.
    pub(super) fn working<'a>(
        &'a self,
        target: Target,
        view: View<'a>,
    ) -> impl Iterator<Item = Number> + 'a {
        let found = self.controls.revocations.get(&target).into_iter().flatten().copied();
        found.filter(move |&number| self.works(number, view))
    }

    /// Whether a revocation in a set ends the chain of an entry, or its grant, before the entry.
    fn is_ended(&self, number: Number, view: View<'_>) -> bool {
        // Most logs have no revocation.
        if self.controls.revocations.is_empty() {
            return false;
        }
        let chain = self.graph.name_of(number);
        let grant = self.graph.node(number).grant;
        let targets = [
            Some(Target::Author(chain.author)),
            Some(Target::Key(chain.author, chain.subkey)),
            grant.map(|grant| Target::Grant(self.graph.node(grant.get()).id)),
        ];
        let mut revocations =
            targets.into_iter().flatten().flat_map(|target| self.working(target, view));
        revocations.any(|revocation| !self.is_spared(revocation, number, view))
    }

    /// Whether a revocation names an entry, or one behind it in its chain, or if it existed before
    /// the stated compromise.
    fn is_spared(&self, revocation: Number, number: Number, view: View<'_>) -> bool {
        let Action::Revoke(revocation) = self.graph.control(revocation) else { return false };
        let heads = revocation.heads.iter().filter_map(|head| self.graph.number(head));
        heads.into_iter().any(|head| self.graph.is_up_to(number, head))
            || self.existed_before(number, revocation.since, view)
    }

    /// Whether the author has made two entries in the set at or before an entry, and neither an
    /// owner chose its branch nor a checkpoint covers it alone.
    pub(super) fn is_forked(&self, number: Number, view: View<'_>) -> bool {
        self.graph.forks_before(number).any(|(fork, child)| {
            let there = fork.children.iter().filter(|&&other| self.graph.contains(view, other));
            there.count() > 1
                && !self
                    .is_chosen(fork, child, view)
                    .unwrap_or_else(|| self.is_alone_in_checkpoint(fork, child, number, view))
        })
    }

    /// Whether the last choice or revocation that names a branch of the fork names that of `child`.
    /// `None` if there is none.
    fn is_chosen(&self, fork: &Fork, child: Number, view: View<'_>) -> Option<bool> {
        let mut last: Option<(Stamp, bool)> = None;
        let controls = self.controls.choices.iter().chain(&self.controls.all_revocations);
        for &control in controls {
            let stamp = self.graph.stamp(control);
            let named = match self.graph.control(control) {
                Action::Choose(id) => std::slice::from_ref(id),
                Action::Revoke(revocation) => &revocation.heads[..],
                _ => continue,
            };
            let branches: Vec<Number> = named
                .iter()
                .filter_map(|id| self.graph.number(id))
                .filter_map(|named| {
                    fork.children.iter().copied().find(|&one| self.graph.is_up_to(one, named))
                })
                .collect();
            if branches.is_empty()
                || last.is_some_and(|(last, _)| stamp < last)
                || !self.works(control, view)
            {
                continue;
            }
            last = Some((stamp, branches.contains(&child)));
        }
        last.map(|(_, is_child)| is_child)
    }
}
