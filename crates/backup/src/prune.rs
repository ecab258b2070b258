//! Prune: deletes packs that no snapshot needs, while others write. The steps and their order are
//! in `docs/formats/backup.md`.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use parking_lot::Mutex;
use talaria_message::SigningKey;
use talaria_message::openpgp::Fingerprint;

use crate::backend::is_of_one_object;
use crate::catalog::ListedPacks;
use crate::chain::Irregularity;
use crate::check::checked::Problem;
use crate::chunks::{ReadChunks as _, WriteChunks as _};
use crate::config::Role;
use crate::document::DocumentStanding;
use crate::epoch::Use;
use crate::error::{BackupError, Result};
use crate::forgotten::Forgotten;
use crate::gaps::Gaps;
use crate::id::{Id, Kind, ObjectHash, in_folder};
use crate::index::{self, IndexedPack};
use crate::lease::{Patience, Waiting};
use crate::listed::Listed;
use crate::located::Present;
use crate::pack::{PackedChunk, pack_name};
use crate::plan::{Plan, Plans, can_rely, may_delete};
use crate::progress::BackupProgress;
use crate::repository::{Keys, Repository};
use crate::sink::{SealIndex, Sink, SinkOptions};
use crate::snapshot::{Heads, PREPARED, SNAPSHOTS, Snapshot};
use crate::source::Source;
use crate::tree::mark;
use crate::verified::{Verdicts, Verified};

/// Packs in one plan. A further prune finds the rest.
const PLAN_PACKS_MAX: usize = 200_000;
/// The number of times that a prune copies again because others planned to delete its copies
/// meanwhile.
const ATTEMPTS: usize = 5;

/// Options of a prune.
#[derive(Clone, Debug)]
pub struct PruneOptions {
    /// Unused bytes in the packs that stay, in per cent of all bytes in them.
    pub max_unused: u32,
    /// Also copy the content of packs of old epochs.
    pub rekey: bool,
    /// The time to wait for runs.
    pub patience: Patience,
    /// The heads that the caller has seen. One that is not there any more stops the prune.
    pub seen: Heads,
    /// Snapshots that are missing, and do not stop it.
    pub despite_missing: BTreeSet<Id>,
}

impl Default for PruneOptions {
    fn default() -> Self {
        Self {
            max_unused: 5,
            rekey: false,
            patience: Patience::default(),
            seen: Heads::new(),
            despite_missing: BTreeSet::new(),
        }
    }
}

/// The result of a prune, or of a dry run.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Pruned {
    /// Packs that there were.
    pub packs: u64,
    /// Bytes of them.
    pub bytes: u64,
    /// Packs that were deleted.
    pub deleted_packs: u64,
    /// Bytes of them.
    pub deleted_bytes: u64,
    /// Bytes of needed chunks in them, which were copied to new packs.
    pub copied_bytes: u64,
    /// Objects of forgotten snapshots that were deleted.
    pub snapshots: u64,
    /// Snapshots that a run has prepared and not published. Their content stays, until that client
    /// backs up again or somebody forgets them.
    pub prepared: BTreeSet<Id>,
    /// Snapshots that are missing, as clients say. The packs that their clients wrote stay, and
    /// those that a reader has confirmed.
    pub missing: Vec<Irregularity>,
    /// Planned packs that stay, since needed chunks in them cannot be read.
    pub kept: BTreeSet<Problem>,
}

/// Everything that decides which packs are used.
struct PruneView {
    forgotten: Forgotten,
    /// Snapshots that a run has prepared and not published.
    prepared: BTreeSet<Id>,
    /// Objects of such snapshots that were published.
    published: Vec<String>,
    listed: ListedPacks,
    source: Source,
    /// The descriptions of packs that indexes do not describe, or not in one way, from the packs
    /// themselves.
    own: HashMap<ObjectHash, IndexedPack>,
    /// Packs that have no description at all. They stay.
    unreadable: HashSet<ObjectHash>,
    used: Present,
    verified: Verified,
    gaps: Gaps,
}

/// The use of a pack.
struct PackUse {
    hash: ObjectHash,
    bytes: u64,
    /// Bytes of needed chunks.
    used: u64,
    /// Bytes of other chunks.
    unused: u64,
}

/// A writer might not see the plan, and a prune not the snapshot that needs a pack.
fn not_listed() -> BackupError {
    BackupError::Refused(
        "the storage does not list new objects at once, so a prune could delete content that somebody needs".into(),
    )
}

/// The object that an error is about.
fn object_of(error: &BackupError) -> &str {
    match error {
        BackupError::Missing { name }
        | BackupError::Damaged { name, .. }
        | BackupError::Newer { name, .. }
        | BackupError::Message { name, .. } => name,
        _ => "",
    }
}

impl Repository {
    /// Refuses somebody without the role `prune`, or whose role may be the word of a thief.
    pub(crate) fn refuse_without_role_prune(&self, name: &Fingerprint) -> Result<()> {
        if !self.config().has_role(name, Role::Prune) {
            return Err(BackupError::Refused(format!(
                "{} has no role \"prune\" in this repository",
                name.to_hex()
            )));
        }
        if let DocumentStanding::Doubtful(signer, why) = self.standing() {
            return Err(BackupError::Refused(format!(
                "the configuration is signed by {}, and {why}",
                signer.to_hex()
            )));
        }
        Ok(())
    }

    /// The result that a prune would have, without any change.
    ///
    /// # Errors
    ///
    /// The errors of [`Self::prune`].
    pub fn prune_dry(
        &self,
        keys: &Keys,
        options: &PruneOptions,
        progress: &BackupProgress,
        now: u32,
    ) -> Result<Pruned> {
        let view = self.view(keys, options, progress, now)?;
        let uses = self.uses(&view, keys, now)?;
        let doomed = self.chosen(&view, &uses, options)?;
        let mut pruned = Pruned {
            packs: view.listed.len() as u64,
            bytes: view.listed.iter().map(|(_, bytes)| bytes).sum(),
            snapshots: self.forgotten_objects(&view.forgotten)?.len() as u64,
            prepared: view.prepared.clone(),
            missing: view.gaps.missing.clone(),
            ..Pruned::default()
        };
        for one in uses.iter().filter(|one| doomed.contains(&one.hash)) {
            pruned.deleted_packs += 1;
            pruned.deleted_bytes += one.bytes;
            pruned.copied_bytes += one.used;
        }
        Ok(pruned)
    }

    /// Deletes the packs that no snapshot needs, and copies the needed chunks of packs that are
    /// used in part.
    ///
    /// `wait` gets the number of runs that the prune waits for, pauses if there are any, and
    /// returns seconds of a clock that only this prune reads.
    ///
    /// # Errors
    ///
    /// [`BackupError::Refused`] if the certificate has no role `prune`, if `keys` read no data, or
    /// if a snapshot cannot be read, and with it the list of what it needs; [`BackupError::Gap`] if
    /// a snapshot is missing that the caller has seen;
    /// [`BackupError::Cancelled`]; errors of the storage. After an error, nothing that is needed is
    /// gone, and the next prune continues.
    pub fn prune(
        &self,
        keys: &Keys,
        (name, signer): (&Fingerprint, SigningKey),
        options: &PruneOptions,
        wait: &mut dyn FnMut(usize) -> Result<u64>,
        progress: &Arc<BackupProgress>,
        now: u32,
    ) -> Result<Pruned> {
        self.refuse_without_role_prune(name)?;
        if !self.backend().lists_at_once() {
            return Err(not_listed());
        }
        let signer = Arc::new(Mutex::new(signer));
        let view = self.view(keys, options, progress, now)?;
        let mut pruned = Pruned {
            packs: view.listed.len() as u64,
            bytes: view.listed.iter().map(|(_, bytes)| bytes).sum(),
            ..Pruned::default()
        };
        let uses = self.uses(&view, keys, now)?;
        let mut chosen = self.chosen(&view, &uses, options)?;
        drop((view, uses));
        let begun = self.plans(keys, now)?.planned();
        chosen.retain(|pack| !begun.contains(pack));
        if !chosen.is_empty() {
            self.write_plan(keys, &chosen, &mut signer.lock(), now)?;
        }
        // From here on, plans that others have begun are carried out, too.
        let plans = self.plans(keys, now)?;
        if !chosen.is_empty() && !plans.plans.iter().any(|plan| plan.packs == chosen) {
            return Err(not_listed());
        }
        let ours: Vec<_> = plans.plans.iter().filter(|plan| plan.is_ours).cloned().collect();
        let doomed: BTreeSet<ObjectHash> =
            ours.iter().flat_map(|plan| &plan.packs).copied().collect();
        self.wait_for_runs(keys, options.patience, wait, progress, now)?;
        for plan in &ours {
            let is_committed = |commit: &Plan| {
                commit.is_ours && commit.of == plan.of && commit.packs == plan.packs
            };
            if !plans.commits.iter().any(is_committed) {
                self.write_commit(keys, plan, &mut signer.lock(), now)?;
            }
        }
        let (view, kept) = self.copy_needed(
            keys,
            (&doomed, options),
            (name, &signer),
            &mut pruned,
            progress,
            now,
        )?;
        for object in self.forgotten_objects(&view.forgotten)? {
            self.backend().delete(&object)?;
            pruned.snapshots += 1;
        }
        for object in &view.published {
            self.backend().delete(object)?;
        }
        pruned.prepared.clone_from(&view.prepared);
        pruned.missing.clone_from(&view.gaps.missing);
        for (pack, bytes) in view.listed.iter().filter(|(pack, _)| doomed.contains(pack)) {
            progress.go_on()?;
            if !kept.contains(&pack) && !view.gaps.spare(&pack) {
                self.backend().delete(&pack_name(&pack))?;
                pruned.deleted_packs += 1;
                pruned.deleted_bytes += bytes;
            }
        }
        self.tidy(keys, now)?;
        self.merge_tombstones(keys, (name, &mut signer.lock()), now)?;
        Ok(pruned)
    }

    /// The objects of snapshots that were forgotten.
    fn forgotten_objects(&self, forgotten: &Forgotten) -> Result<Vec<String>> {
        let mut found = Vec::new();
        for folder in [SNAPSHOTS, PREPARED] {
            let objects = self.backend().list(folder)?.into_iter().map(|object| object.name);
            let is_forgotten =
                |name: &String| in_folder(folder, name).is_some_and(|id| forgotten.contains(&id));
            found.extend(objects.filter(is_forgotten));
        }
        Ok(found)
    }

    /// Reads everything that says which packs are used.
    fn view(
        &self,
        keys: &Keys,
        options: &PruneOptions,
        progress: &BackupProgress,
        now: u32,
    ) -> Result<PruneView> {
        // In this order: a snapshot is published before its prepared object goes, and packs that a
        // snapshot needs are listed after it.
        let mut prepared = self.prepared(keys, now)?;
        let (snapshots, forgotten, mut errors) = self.survey(keys, now)?;
        prepared.retain(|one| !forgotten.contains(&one.id));
        let is_published = |one: &Listed| snapshots.iter().any(|other| other.id == one.id);
        let published: Vec<_> = prepared.extract_if(.., |one| is_published(one)).collect();
        // A snapshot that could not be fetched needs its packs all the same.
        if let Some(at) = errors.iter().position(BackupError::is_of_storage) {
            return Err(errors.swap_remove(at));
        }
        if let Some(error) = errors.iter().find(|error| object_of(error).starts_with("snapshots/"))
        {
            return Err(BackupError::Refused(format!(
                "{error}: nobody can tell what it needs; forget it by its whole identifier to go on"
            )));
        }
        let PruneOptions { seen, despite_missing, .. } = options;
        let mut gaps = Gaps::find(&snapshots, &forgotten, seen, despite_missing)?;
        let (verified, _) = self.verified(keys, now)?;
        let listed = self.listed_packs()?;
        let mut source = self.empty_source(keys)?;
        let mut described: HashMap<ObjectHash, [u8; 32]> = HashMap::new();
        let mut odd = HashSet::new();
        self.indexes(keys, now, &mut |pack, standing| {
            if listed.get(&pack.hash) != Some(pack.bytes) {
                return Ok(());
            }
            source.add(pack)?;
            gaps.note(pack, standing, &verified)?;
            if standing.is_trusted() {
                let lines = pack.lines_hash();
                if *described.entry(pack.hash).or_insert(lines) != lines {
                    odd.insert(pack.hash);
                }
            }
            Ok(())
        })?;
        let (mut own, mut unreadable) = (HashMap::new(), HashSet::new());
        for (hash, _) in listed.iter() {
            if described.contains_key(&hash) && !odd.contains(&hash) {
                continue;
            }
            progress.go_on()?;
            match source.read_pack(&hash) {
                Ok(pack) => {
                    source.add(&pack.indexed)?;
                    gaps.note_unknown(&hash);
                    own.insert(hash, pack.indexed);
                }
                Err(error)
                    if error.is_of_storage() && !is_of_one_object(&**self.backend(), &error) =>
                {
                    return Err(error);
                }
                Err(_) => {
                    unreadable.insert(hash);
                }
            }
        }
        source.merge()?;
        let mut used = Present::new(Arc::clone(self.scratch()));
        for listed in &snapshots {
            let marked = mark(&source, listed.snapshot.root, &mut used, progress);
            marked.map_err(|error| match error {
                BackupError::Damaged { .. } | BackupError::Missing { .. } => {
                    BackupError::Refused(format!(
                        "snapshots/{}: {error}: nobody can tell what it needs; forget it by its whole identifier to go on",
                        listed.id
                    ))
                }
                error => error,
            })?;
        }
        for listed in &prepared {
            match mark(&source, listed.snapshot.root, &mut used, progress) {
                // Its run has not published it yet, and will store again what is gone.
                Ok(()) | Err(BackupError::Damaged { .. } | BackupError::Missing { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        let published = published.iter().map(|one| Snapshot::prepared_name(&one.id)).collect();
        let prepared = prepared.iter().map(|one| one.id).collect();
        Ok(PruneView {
            forgotten,
            prepared,
            published,
            listed,
            source,
            own,
            unreadable,
            used,
            verified,
            gaps,
        })
    }

    /// Calls `each` once with every listed pack that has a description.
    fn each_pack(
        &self,
        view: &PruneView,
        keys: &Keys,
        now: u32,
        each: &mut dyn FnMut(&IndexedPack, Option<&DocumentStanding>) -> Result<()>,
    ) -> Result<()> {
        let mut seen = HashSet::new();
        self.indexes(keys, now, &mut |pack, standing| {
            let is_clear = view.listed.get(&pack.hash) == Some(pack.bytes)
                && !view.own.contains_key(&pack.hash)
                && !view.unreadable.contains(&pack.hash);
            if is_clear && standing.is_trusted() && seen.insert(pack.hash) {
                each(pack, Some(standing))?;
            }
            Ok(())
        })?;
        view.own.values().try_for_each(|pack| each(pack, None))
    }

    fn uses(&self, view: &PruneView, keys: &Keys, now: u32) -> Result<Vec<PackUse>> {
        let mut uses = Vec::new();
        self.each_pack(view, keys, now, &mut |pack, _| {
            let (mut used, mut unused) = (0, 0);
            for chunk in &pack.chunks {
                // A chunk without content counts, too.
                let bytes = u64::from(chunk.stored) + 1;
                *(if view.used.contains(&chunk.id)? { &mut used } else { &mut unused }) += bytes;
            }
            uses.push(PackUse { hash: pack.hash, bytes: pack.bytes, used, unused });
            Ok(())
        })?;
        Ok(uses)
    }

    /// The packs to delete: unused ones, those with the largest unused parts, and on demand those
    /// of old epochs.
    fn chosen(
        &self,
        view: &PruneView,
        uses: &[PackUse],
        options: &PruneOptions,
    ) -> Result<BTreeSet<ObjectHash>> {
        let mut chosen = BTreeSet::new();
        let mut stay = Vec::new();
        let newest = self.config().newest_epoch().number;
        for one in uses.iter().filter(|one| !view.gaps.spare(&one.hash)) {
            let is_old = options.rekey && {
                let epoch = view.source.epoch_of(&one.hash, one.bytes)?;
                epoch.is_some_and(|epoch| epoch != newest)
            };
            // The readable content of a damaged pack is copied.
            if one.used == 0 || is_old || view.verified.damaged().contains(&one.hash) {
                chosen.insert(one.hash);
            } else {
                stay.push(one);
            }
        }
        let mut unused: u64 = stay.iter().map(|one| one.unused).sum();
        let mut all: u64 = stay.iter().map(|one| one.used + one.unused).sum();
        // The largest unused fraction first: a / b > c / d if a * d > c * b.
        stay.sort_by(|a, b| {
            let (x, y) = (
                u128::from(a.unused) * u128::from(b.used),
                u128::from(b.unused) * u128::from(a.used),
            );
            y.cmp(&x).then(a.hash.0.cmp(&b.hash.0))
        });
        for one in stay {
            let limit = u128::from(all) * u128::from(options.max_unused);
            if one.unused == 0 || u128::from(unused) * 100 <= limit {
                break;
            }
            unused -= one.unused;
            all -= one.unused;
            chosen.insert(one.hash);
        }
        Ok(chosen.into_iter().take(PLAN_PACKS_MAX).collect())
    }

    /// Waits until the runs have ended that may have listed plans before ours, and deletes the
    /// leases of those that are not waited for.
    fn wait_for_runs(
        &self,
        keys: &Keys,
        patience: Patience,
        wait: &mut dyn FnMut(usize) -> Result<u64>,
        progress: &BackupProgress,
        now: u32,
    ) -> Result<()> {
        let mut leases = self.leases(keys, now)?;
        for object in std::mem::take(&mut leases.surplus) {
            self.backend().delete(&object)?;
        }
        let mut waiting = Waiting::new(&leases.runs, patience, wait(0)?);
        let mut clock = wait(0)?;
        loop {
            for run in waiting.observe(&leases.runs, clock) {
                for object in leases.objects.get(&run).into_iter().flatten() {
                    self.backend().delete(object)?;
                }
            }
            if waiting.len() == 0 {
                return Ok(());
            }
            progress.go_on()?;
            clock = wait(waiting.len())?;
            leases = self.leases(keys, now)?;
        }
    }

    /// Copies the needed chunks of doomed packs that have no copy elsewhere. Returns the view after
    /// that, and the packs that have to stay.
    fn copy_needed(
        &self,
        keys: &Keys,
        (doomed, options): (&BTreeSet<ObjectHash>, &PruneOptions),
        (name, signer): (&Fingerprint, &Arc<Mutex<SigningKey>>),
        pruned: &mut Pruned,
        progress: &Arc<BackupProgress>,
        now: u32,
    ) -> Result<(PruneView, HashSet<ObjectHash>)> {
        for _ in 0..ATTEMPTS {
            let view = self.view(keys, options, progress, now)?;
            pruned.kept.clear();
            let mut kept = HashSet::new();
            let mut absent = self.plans(keys, now)?.planned();
            absent.extend(view.verified.damaged());
            let mut good = self.empty_source(keys)?;
            let mut relied = HashSet::new();
            self.each_pack(&view, keys, now, &mut |pack, standing| {
                // A pack that no index describes has no standing of its own.
                let nobody = DocumentStanding::Foreign(String::new());
                let is_sure = view.verified.lets(Some(name), pack, standing.unwrap_or(&nobody))?;
                if is_sure && can_rely(true, absent.contains(&pack.hash)) {
                    good.add(pack)?;
                    relied.insert(pack.hash);
                }
                Ok(())
            })?;
            good.merge()?;
            let (mut sink, verdicts) = self.copying(keys, signer, progress, now)?;
            let store = Arc::clone(sink.store());
            let mut needed: Vec<(ObjectHash, Vec<PackedChunk>)> = Vec::new();
            self.each_pack(&view, keys, now, &mut |pack, _| {
                if doomed.contains(&pack.hash) {
                    let mut chunks = pack.chunks.clone();
                    let mut failed = None;
                    chunks.retain(|chunk| {
                        view.used.contains(&chunk.id).unwrap_or_else(|error| {
                            failed = Some(error);
                            true
                        })
                    });
                    failed.map_or(Ok(()), Err)?;
                    needed.push((pack.hash, chunks));
                }
                Ok(())
            })?;
            for (pack, chunks) in needed {
                let mut has_copies = true;
                for PackedChunk { kind, id, stored, .. } in &chunks {
                    progress.go_on()?;
                    has_copies &= match copy(*kind, id, &good, &view.source, &mut sink) {
                        Ok(is_new) => {
                            pruned.copied_bytes += if is_new { u64::from(*stored) } else { 0 };
                            true
                        }
                        Err(
                            error @ (BackupError::Damaged { .. } | BackupError::Missing { .. }),
                        ) => {
                            let (object, why) = (pack_name(&pack), error.to_string());
                            pruned.kept.insert(Problem { object, why });
                            false
                        }
                        Err(error)
                            if !store.has_failed() && view.source.is_of_one_object(&error) =>
                        {
                            let (object, why) = (pack_name(&pack), error.to_string());
                            pruned.kept.insert(Problem { object, why });
                            false
                        }
                        Err(error) => return Err(error),
                    };
                }
                if !may_delete(!chunks.is_empty(), has_copies) {
                    kept.insert(pack);
                }
            }
            // A pack with unknown content stays.
            kept.extend(view.unreadable.iter().copied());
            sink.finish()?;
            // The identifiers of the copies were computed here.
            self.write_verified(keys, &verdicts.lock(), &mut signer.lock(), now)?;
            relied.extend(store.written());
            let planned = self.plans(keys, now)?.planned();
            let listed = self.listed_packs()?;
            let is_there =
                |pack: &ObjectHash| can_rely(listed.get(pack).is_some(), planned.contains(pack));
            if relied.iter().all(is_there) {
                return Ok((view, kept));
            }
        }
        Err(BackupError::Refused(
            "other prunes keep planning to delete the packs of this prune: try later".into(),
        ))
    }

    /// Where copies go, and what can be signed about them afterwards.
    pub(crate) fn copying(
        &self,
        keys: &Keys,
        signer: &Arc<Mutex<SigningKey>>,
        progress: &Arc<BackupProgress>,
        now: u32,
    ) -> Result<(Sink, Arc<Mutex<Verdicts>>)> {
        let (sealing, repository) = (self.sealing(Use::Index, now)?, self.id());
        let signer = Arc::clone(signer);
        let verdicts = Arc::new(Mutex::new(Verdicts::default()));
        let good = Arc::clone(&verdicts);
        let seal_index: SealIndex = Box::new(move |text| {
            let packs = index::parse("indexes", text.as_bytes(), repository)?;
            good.lock().good.extend(packs.iter().map(|pack| (pack.hash, pack.lines_hash())));
            sealing.seal("indexes", text.as_bytes(), Some(&mut *signer.lock()), now)
        });
        let sink = Sink::new(SinkOptions {
            backend: Arc::clone(self.backend()),
            repository,
            identifiers: keys.identifiers.clone(),
            packs: self.sealing(Use::Data, now)?,
            seal_index,
            present: Present::new(Arc::clone(self.scratch())),
            threads: 2,
            progress: Arc::clone(progress),
        });
        Ok((sink, verdicts))
    }

    /// Deletes indexes, verdicts, commits and plans none of whose packs is left.
    fn tidy(&self, keys: &Keys, now: u32) -> Result<()> {
        let mut indexes: HashMap<String, bool> = HashMap::new();
        let Plans { plans, commits } = self.plans(keys, now)?;
        // The indexes first: a pack that an index names was there before the index.
        let mut names = Vec::new();
        self.named_indexes(keys, now, &mut |name, packs, standing| {
            if standing.is_trusted() {
                names.push((
                    name.to_owned(),
                    packs.iter().map(|pack| pack.hash).collect::<Vec<_>>(),
                ));
            }
            Ok(())
        })?;
        self.each_verified(keys, now, &mut |name, packs| {
            names.push((name.to_owned(), packs.copied().collect()));
            Ok(())
        })?;
        let listed = self.listed_packs()?;
        let is_gone = |pack: &ObjectHash| listed.get(pack).is_none();
        for (name, packs) in names {
            *indexes.entry(name).or_insert(true) &= packs.iter().all(is_gone);
        }
        for (name, _) in indexes.iter().filter(|(_, is_over)| **is_over) {
            self.backend().delete(name)?;
        }
        // The commit goes before its plan, so that one of the two is always seen.
        for plan in commits.iter().chain(&plans) {
            if plan.packs.iter().all(is_gone) {
                self.backend().delete(&plan.name)?;
            }
        }
        Ok(())
    }
}

/// Copies a chunk unless there is a good copy. False if there was one.
pub(crate) fn copy(
    kind: Kind,
    id: &Id,
    good: &Source,
    source: &Source,
    sink: &mut Sink,
) -> Result<bool> {
    if sink.store().contains(id)? {
        return Ok(false);
    }
    if good.contains(id)? && good.read(kind, id).is_ok() {
        return Ok(false);
    }
    let plain = source.read(kind, id)?;
    let written = sink.write(kind, &plain)?;
    assert_eq!(written, *id, "the identifier was computed when the chunk was read");
    Ok(true)
}
