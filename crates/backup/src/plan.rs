//! Plans of packs to delete, and the decisions of writers and prunes about them.
//!
//! The decisions are functions of the listed objects. The order of the steps is in
//! `docs/formats/backup.md`, and a model in the tests goes through all interleavings.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use talaria_message::SigningKey;
use talaria_message::openpgp::Fingerprint;

use crate::config::Role;
use crate::error::{BackupError, Result};
use crate::id::{Id, ObjectHash, RepositoryId};
use crate::repository::{Keys, Repository};
use crate::signed::Header;
use crate::text::Lines;

/// The folder of plans.
pub(crate) const PLANS: &str = "plans";
/// The folder of commits.
pub(crate) const COMMITS: &str = "commits";

const PLAN_DOMAIN: &str = "talaria backup plan";
const COMMIT_DOMAIN: &str = "talaria backup commit";

/// Whether a pack can be relied on: as present for a writer, or as the place of a copy for a prune.
pub(crate) fn can_rely(is_listed: bool, is_planned: bool) -> bool {
    is_listed && !is_planned
}

/// Whether a writer that relied on a pack has to begin again. It has written its snapshot before it
/// listed commits, and then packs.
pub(crate) fn is_lost(is_listed: bool, is_committed: bool) -> bool {
    !is_listed || is_committed
}

/// Whether a prune may delete a committed pack. It has listed snapshots after the commit, which say
/// whether its chunks are needed, and plans and packs after the index of the copies.
pub(crate) fn may_delete(is_needed: bool, has_copies: bool) -> bool {
    !is_needed || has_copies
}

/// A plan or a commit.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Plan {
    /// The name of the object.
    pub(crate) name: String,
    /// The plan that a commit repeats, or the plan itself.
    pub(crate) of: Id,
    pub(crate) packs: BTreeSet<ObjectHash>,
    /// Its signer has the role `prune` now. Others may still carry it out.
    pub(crate) is_ours: bool,
}

/// The plans and commits of a repository.
#[derive(Clone, Debug, Default)]
pub(crate) struct Plans {
    pub(crate) plans: Vec<Plan>,
    pub(crate) commits: Vec<Plan>,
}

impl Plans {
    /// The packs of all plans and commits.
    pub(crate) fn planned(&self) -> BTreeSet<ObjectHash> {
        let all = self.plans.iter().chain(&self.commits);
        all.flat_map(|plan| &plan.packs).copied().collect()
    }
}

fn text(
    domain: &str,
    repository: RepositoryId,
    header: Header,
    plan: Option<&Id>,
    packs: &BTreeSet<ObjectHash>,
) -> String {
    let mut out = header.text(domain, repository);
    let _ = writeln!(out, "plan {}", plan.map_or("none".into(), Id::to_string));
    for pack in packs {
        let _ = writeln!(out, "pack {pack}");
    }
    out
}

fn parse(
    domain: &str,
    name: &str,
    bytes: &[u8],
    repository: RepositoryId,
) -> Result<(Option<Id>, BTreeSet<ObjectHash>)> {
    let id = repository.to_string();
    let mut lines = Lines::open(name, bytes, domain, Some(&id))?;
    let header = Header::read(&mut lines)?;
    let plan = match lines.one("plan")? {
        "none" => None,
        plan => Some(plan.parse().map_err(|_| lines.damaged("its plan is invalid"))?),
    };
    let packs = lines.many("pack").into_iter().map(str::parse);
    let packs = packs.collect::<Result<BTreeSet<_>>>();
    let packs = packs.map_err(|_| lines.damaged("a pack cannot be read"))?;
    lines.end()?;
    if text(domain, repository, header, plan.as_ref(), &packs).as_bytes() != bytes {
        return Err(BackupError::damaged(name, "its lines are not in the form of the format"));
    }
    Ok((plan, packs))
}

/// The packs that the plan with this text names.
///
/// # Errors
///
/// [`Damaged`](BackupError::Damaged) with the reason; [`Newer`](BackupError::Newer).
pub fn parse_plan(
    name: &str,
    bytes: &[u8],
    repository: RepositoryId,
) -> Result<BTreeSet<ObjectHash>> {
    parse(PLAN_DOMAIN, name, bytes, repository).map(|(_, packs)| packs)
}

impl Repository {
    /// The plans, then the commits, of everybody who ever had the role `prune`.
    ///
    /// A plan is there from the time it is written until its packs are gone, and its commit is
    /// deleted before it.
    pub(crate) fn plans(&self, keys: &Keys, now: u32) -> Result<Plans> {
        Ok(Plans {
            plans: self.read_plans(keys, PLANS, PLAN_DOMAIN, now)?,
            commits: self.commits(keys, now)?,
        })
    }

    /// The commits only.
    pub(crate) fn commits(&self, keys: &Keys, now: u32) -> Result<Vec<Plan>> {
        self.read_plans(keys, COMMITS, COMMIT_DOMAIN, now)
    }

    fn read_plans(&self, keys: &Keys, folder: &str, domain: &str, now: u32) -> Result<Vec<Plan>> {
        let mut found = Vec::new();
        // A document that nobody with the role has signed has no effect.
        self.read_signed(keys, folder, now, &mut |signed| {
            let Some(signer) = signed.signer(|signer| self.has_been_pruner(signer)) else {
                return Ok(());
            };
            let (plan, packs) = parse(domain, &signed.name, signed.text(), self.id())?;
            let is_ours = self.config().has_role(&signer, Role::Prune);
            let of = plan.unwrap_or(signed.id);
            found.push(Plan { name: signed.name.clone(), of, packs, is_ours });
            Ok(())
        })?;
        Ok(found)
    }

    /// Writes a plan.
    pub(crate) fn write_plan(
        &self,
        keys: &Keys,
        packs: &BTreeSet<ObjectHash>,
        signer: &mut SigningKey,
        now: u32,
    ) -> Result<Id> {
        let text = text(PLAN_DOMAIN, self.id(), Header::new(now)?, None, packs);
        self.write_signed(keys, PLANS, &text, Some(signer), now)
    }

    /// Writes the commit of a plan.
    pub(crate) fn write_commit(
        &self,
        keys: &Keys,
        plan: &Plan,
        signer: &mut SigningKey,
        now: u32,
    ) -> Result<()> {
        let header = Header::new(now)?;
        let text = text(COMMIT_DOMAIN, self.id(), header, Some(&plan.of), &plan.packs);
        self.write_signed(keys, COMMITS, &text, Some(signer), now).map(|_| ())
    }

    fn has_been_pruner(&self, signer: &Fingerprint) -> bool {
        self.pruners().contains(signer) || self.config().has_role(signer, Role::Prune)
    }
}

#[cfg(test)]
mod model;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const REPOSITORY: RepositoryId = RepositoryId([2; 16]);

    proptest! {
        #[test]
        fn a_plan_comes_back_and_has_one_text(
            packs in proptest::collection::btree_set(any::<[u8; 32]>(), 0..5), plan in proptest::option::of(any::<[u8; 32]>()),
            at in any::<proptest::sample::Index>(), byte: u8,
        ) {
            let header = Header { nonce: [5; 16], time: 1_795_381_506 };
            let packs: BTreeSet<_> = packs.into_iter().map(ObjectHash).collect();
            let plan = plan.map(Id);
            let written = text(COMMIT_DOMAIN, REPOSITORY, header, plan.as_ref(), &packs);
            let read = parse(COMMIT_DOMAIN, "c", written.as_bytes(), REPOSITORY).unwrap();
            prop_assert_eq!(read, (plan, packs));
            prop_assert!(parse(PLAN_DOMAIN, "c", written.as_bytes(), REPOSITORY).is_err());
            prop_assert!(parse(COMMIT_DOMAIN, "c", written.as_bytes(), RepositoryId([3; 16])).is_err());
            let mut changed = written.into_bytes();
            let at = at.index(changed.len());
            changed[at] = byte;
            if let Ok((plan, packs)) = parse(COMMIT_DOMAIN, "c", &changed, REPOSITORY) {
                let body = |text: &[u8]| String::from_utf8(text.to_vec()).unwrap().lines().skip(4).collect::<Vec<_>>().join("\n");
                let again = text(COMMIT_DOMAIN, REPOSITORY, header, plan.as_ref(), &packs);
                prop_assert_eq!(body(again.as_bytes()), body(&changed));
            }
        }
    }
}
