//! Snapshots: what they show to those who have no entries, and attacks on them.

use std::path::Path;

use proptest::prelude::*;
use talaria_log::{
    Action, BadSnapshot, Content, DraftError, Edit, EntryId, FieldChange, Log, LogError, LogFolder,
    Maker, Malformed, ObjectId, Outcome, Refusal, SNAPSHOT_MAGIC, SNAPSHOTS_CHECKED_MAX, Signed,
    Signing, Snapshot, SnapshotError, SnapshotFile, Update, Value, deletable,
};

use crate::people::{
    EXPIRING, GRACE, NOW, NOW_MS, Notary, Person, VALID_S, begin, change, genesis_of, grant,
    grant_by, name, object, offer, refusal, revoke, set,
};

/// A log of some owners in a folder. The folder goes when this is dropped.
struct Site {
    _folder: tempfile::TempDir,
    log: LogFolder,
    owners: Vec<Person>,
}

impl Site {
    fn new(owners: &[usize], threshold: u8) -> Self {
        let owners: Vec<Person> = owners.iter().map(|&owner| Person::new(owner, 1)).collect();
        let genesis = genesis_of(&owners.iter().collect::<Vec<_>>(), threshold);
        Self::with(owners, genesis)
    }

    fn with(mut owners: Vec<Person>, genesis: talaria_log::Genesis) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let genesis = begin(&mut owners[0], genesis);
        let log = LogFolder::create(&folder.path().join("log"), &genesis).unwrap();
        // Each owner has a device of their own.
        owners[0].chain.instance = log.instance();
        Self { _folder: folder, log, owners }
    }

    /// An entry by an owner, as it would come from their node.
    fn by(&mut self, owner: usize, action: Action) -> Signed {
        self.try_by(owner, action, NOW_MS).unwrap()
    }

    fn try_by(&mut self, owner: usize, action: Action, now_ms: u64) -> Result<Signed, LogError> {
        let person = &mut self.owners[owner];
        self.log.append(|log| {
            let signed = person.make_at(log, action, now_ms)?;
            Ok((vec![signed.clone()], signed))
        })
    }

    fn snapshot(&mut self) -> EntryId {
        let Person { chain, key, .. } = &mut self.owners[0];
        self.log.put_snapshot(&mut Maker { chain: *chain, key }, NOW_MS).unwrap()
    }

    /// A statement that an owner signs, whatever is true.
    fn state(&mut self, owner: usize, change: impl FnOnce(&mut Snapshot)) -> EntryId {
        let person = &mut self.owners[owner];
        let chain = person.chain;
        let mut entry = self.log.read(|log| log.draft_snapshot(chain, NOW_MS)).unwrap().unwrap();
        let Action::Snapshot(snapshot) = &mut entry.action else { panic!() };
        change(snapshot);
        let signed = person.sign(entry, self.log.id());
        let id = signed.id;
        self.log
            .append(|log| {
                let offered = log.offer(vec![signed], NOW_MS);
                assert_eq!(offered.outcomes, [Outcome::Added]);
                Ok::<_, LogError>((offered.added, ()))
            })
            .unwrap();
        id
    }

    fn put(&mut self, updates: &[Update]) -> Vec<EntryId> {
        let Person { chain, key, .. } = &mut self.owners[0];
        let mut maker = Maker { chain: *chain, key };
        self.log.put(&mut maker, updates, Signing::Each, NOW_MS).unwrap()
    }

    fn write(&self, snapshot: &EntryId) -> Vec<u8> {
        self.try_write(snapshot).unwrap()
    }

    fn try_write(&self, snapshot: &EntryId) -> Result<Vec<u8>, LogError> {
        let mut out = Vec::new();
        self.log.write_snapshot(snapshot, &mut out, Path::new("memory")).map(|_| out)
    }

    fn read(&self, bytes: &[u8]) -> Result<SnapshotFile, SnapshotError> {
        SnapshotFile::read(&mut &bytes[..], self.log.id())
    }
}

fn update(object: &str, field: &str, value: Value) -> Update {
    Update { object: object.to_owned(), edit: Edit::Put(field.to_owned(), value) }
}

fn text(text: &str) -> Value {
    Value::String(text.to_owned())
}

/// All that a log shows, as text.
fn shown(log: &Log) -> String {
    let state = log.state();
    let object = |object: talaria_log::ObjectInfo| {
        let fields: Vec<String> = state.fields(object.id).map(|one| format!("{one:?}")).collect();
        format!("{object:?} {fields:?}\n")
    };
    state.objects().map(object).collect()
}

/// The same of the file of a snapshot.
fn shown_in(file: &SnapshotFile) -> String {
    let object = |object: talaria_log::ObjectInfo| {
        let fields: Vec<String> = file.fields(object.id).map(|one| format!("{one:?}")).collect();
        format!("{object:?} {fields:?}\n")
    };
    file.objects().map(object).collect()
}

/// Fields of every rule, a deleted object, and deletable values.
fn filled(owners: &[usize], threshold: u8) -> Site {
    let mut site = Site::new(owners, threshold);
    let secret = |value: &str| deletable(&text(value)).unwrap();
    let hidden = |field: &str, value: &str| Update {
        object: "server".to_owned(),
        edit: Edit::PutDeletable(field.to_owned(), secret(value)),
    };
    site.put(&[
        update("server", "color", text("red")),
        update("server", "strict", text("one")),
        update("server", "set", text("a")),
        update("server", "set", text("b")),
        update("server", "count", Value::Integer(7)),
        update("server", "list", text("first")),
        update("server", "list", text("second")),
        hidden("owner", "Bob Smith"),
        hidden("set-of-names", "Carol"),
        hidden("set-of-names", "Carol"),
        hidden("list-of-names", "Dave"),
        hidden("strict-name", "Erin"),
        update("old", "color", text("grey")),
        Update { object: "old".to_owned(), edit: Edit::Delete },
        update("other", "color", text("blue")),
    ]);
    site
}

/// Somebody who has nothing but the identity of the log reads what it was, and who has signed it.
#[test]
fn a_snapshot_shows_the_log_to_who_has_no_entries() {
    let mut site = filled(&[0, 1, 3], 2);
    let before = site.log.read(|log| (shown(log), log.state_hash(), log.len() as u64)).unwrap();
    let id = site.snapshot();
    site.by(1, Action::Approve(id));
    // What comes later is not in it.
    site.put(&[update("server", "color", text("green")), update("new", "color", text("x"))]);
    let bytes = site.write(&id);
    let file = site.read(&bytes).unwrap();
    assert_eq!(shown_in(&file), before.0);
    assert_eq!((file.snapshot().state, file.snapshot().entries), (before.1, before.2));
    assert_eq!((file.entry(), file.missing_values()), (id, 0));
    let mut signers = [site.owners[0].name(), site.owners[1].name()];
    signers.sort_unstable();
    assert_eq!(file.signers(), signers);
    let server = file.find_object("server").unwrap();
    assert_eq!(file.field(server, "owner"), Some(&Content::LastWriter(text("Bob Smith"))));
    // A deleted object has no name that finds it, and its fields are not shown.
    assert!(file.find_object("old").is_err());
    let old = site.log.read(|log| ObjectId::of(log.id(), site.owners[0].name(), "old")).unwrap();
    assert_eq!((file.object(old), file.field(old, "color")), (None, None));
    // Opening the log again, with an index or without, gives the same file.
    let path = site.log.path().to_owned();
    for with_index in [true, false] {
        if with_index {
            site.log.write_index().unwrap();
        }
        drop(site.log);
        if !with_index {
            std::fs::remove_file(path.join("index")).unwrap();
        }
        site.log = LogFolder::open(&path).unwrap();
        assert!(site.write(&id) == bytes);
        assert_eq!(site.log.verify().unwrap().snapshots.right, 1);
    }
}

/// A snapshot is about its past, and not about what its author's node has besides.
#[test]
fn what_a_snapshot_has_not_seen_is_not_in_it() {
    let mut site = Site::new(&[0, 1], 1);
    site.by(0, set("seen"));
    let chain = site.owners[0].chain;
    let seen = site.log.read(|log| log.draft_snapshot(chain, NOW_MS)).unwrap().unwrap();
    let beside = site.by(1, set("beside"));
    let signed = site.owners[0].sign(seen, site.log.id());
    let id = signed.id;
    site.log.append(|log| Ok::<_, LogError>((log.offer(vec![signed], NOW_MS).added, ()))).unwrap();
    assert_eq!(site.log.read(|log| log.check_snapshot(&id)).unwrap(), Some(Ok(())));
    let file = site.read(&site.write(&id)).unwrap();
    assert_eq!(file.field(object(1), "name"), Some(&Content::LastWriter(text("seen"))));
    assert_eq!(file.snapshot().entries, 2);
    assert_eq!(site.log.read(name).unwrap().as_deref(), Some("beside"));
    assert!(site.log.read(|log| log.entry(&beside.id).is_some()).unwrap());
}

/// The file has values that are not deleted when it is written. Without them, it shows the same
/// state.
#[test]
fn a_deleted_value_is_not_in_a_file_that_is_written_later() {
    let mut site = filled(&[0], 1);
    let id = site.snapshot();
    let before = site.write(&id);
    assert!(before.windows(9).any(|part| part == b"Bob Smith"));
    let edit = Edit::DeleteValues("owner".to_owned());
    site.put(&[Update { object: "server".to_owned(), edit }]);
    let after = site.write(&id);
    assert!(!after.windows(9).any(|part| part == b"Bob Smith"));
    let file = site.read(&after).unwrap();
    assert_eq!(file.missing_values(), 1);
    let server = file.find_object("server").unwrap();
    let owner = file.field(server, "owner");
    assert!(matches!(owner, Some(Content::LastWriter(Value::Committed(_)))), "{owner:?}");
    assert_eq!(file.snapshot(), site.read(&before).unwrap().snapshot());
    // A snapshot that has seen the deletion has no such field.
    let id = site.snapshot();
    let file = site.read(&site.write(&id)).unwrap();
    assert_eq!((file.field(server, "owner"), file.missing_values()), (None, 0));
}

/// The file of a snapshot in its parts: genesis, the number of records, the records, and what is
/// behind them.
struct Parts {
    genesis: Vec<u8>,
    records: Vec<Vec<u8>>,
    rest: Vec<u8>,
}

impl Parts {
    fn of(bytes: &[u8]) -> Self {
        let mut rest = bytes.strip_prefix(&SNAPSHOT_MAGIC).unwrap();
        let part = |rest: &mut &[u8]| {
            let (length, behind) = rest.split_first_chunk::<4>().unwrap();
            let (part, behind) = behind.split_at(u32::from_be_bytes(*length) as usize);
            *rest = behind;
            part.to_vec()
        };
        let genesis = part(&mut rest);
        let (count, behind) = rest.split_first_chunk::<2>().unwrap();
        rest = behind;
        let records = (0..u16::from_be_bytes(*count)).map(|_| part(&mut rest)).collect();
        Self { genesis, records, rest: rest.to_vec() }
    }

    fn join(&self) -> Vec<u8> {
        let mut out = SNAPSHOT_MAGIC.to_vec();
        let part = |out: &mut Vec<u8>, part: &[u8]| {
            out.extend(u32::try_from(part.len()).unwrap().to_be_bytes());
            out.extend_from_slice(part);
        };
        part(&mut out, &self.genesis);
        out.extend(u16::try_from(self.records.len()).unwrap().to_be_bytes());
        self.records.iter().for_each(|record| part(&mut out, record));
        [out, self.rest.clone()].concat()
    }
}

fn kind<T>(result: Result<T, SnapshotError>) -> &'static str {
    result.map_or_else(|error| error.word(), |_| "good")
}

#[test]
fn snapshot_with_too_few_signatures() {
    let mut site = filled(&[0, 1, 3], 2);
    let id = site.snapshot();
    let failed = site.try_write(&id).unwrap_err();
    assert!(
        matches!(failed, LogError::SnapshotNotInForce { agreed: 1, needed: 2, .. }),
        "{failed}"
    );
    site.by(1, Action::Approve(id));
    let mut parts = Parts::of(&site.write(&id));
    assert_eq!(parts.records.len(), 2);
    let approval = parts.records.pop().unwrap();
    let failed = site.read(&parts.join());
    assert!(matches!(failed, Err(SnapshotError::TooFew { found: 1, needed: 2 })), "{failed:?}");
    // An approval without its snapshot shows nothing.
    parts.records = vec![approval];
    assert_eq!(kind(site.read(&parts.join())), "refused");
    parts.records = Vec::new();
    assert_eq!(kind(site.read(&parts.join())), "malformed");
}

#[test]
fn snapshot_that_the_same_owner_signs_twice() {
    let mut site = filled(&[0, 1, 3], 2);
    let id = site.snapshot();
    let again = site.by(0, Action::Approve(id));
    assert!(matches!(site.try_write(&id), Err(LogError::SnapshotNotInForce { agreed: 1, .. })));
    let by_bob = site.by(1, Action::Approve(id));
    let mut parts = Parts::of(&site.write(&id));
    parts.records[1] = again.to_record();
    assert_eq!(kind(site.read(&parts.join())), "too-few");
    parts.records[1] = parts.records[0].clone();
    assert_eq!(kind(site.read(&parts.join())), "malformed");
    parts.records[1] = by_bob.to_record();
    assert_eq!(kind(site.read(&parts.join())), "good");
}

/// Nodes that know of the removal count the owner no more, and write no file. Who has only a file
/// cannot know it.
#[test]
fn snapshot_that_a_removed_owner_approves() {
    let mut site = filled(&[0, 1, 3], 2);
    let id = site.snapshot();
    let approval = site.by(1, Action::Approve(id));
    let file = site.write(&id);
    let bob = Person::new(1, 1);
    let end = site.by(0, revoke(&bob, Vec::new()));
    assert_eq!(kind(site.read(&site.write(&id))), "good");
    site.by(2, Action::Approve(end.id));
    assert!(matches!(site.try_write(&id), Err(LogError::SnapshotNotInForce { agreed: 1, .. })));
    // His approvals are refused from now on.
    let refused = site.try_by(1, Action::Approve(id), NOW_MS);
    assert!(matches!(refused, Err(LogError::Draft(_))), "{refused:?}");
    // Another owner takes his place.
    site.by(2, Action::Approve(id));
    let parts = Parts::of(&site.write(&id));
    assert!(!parts.records.contains(&approval.to_record()));
    // The file from before does not say what came later.
    assert_eq!(kind(site.read(&file)), "good");
}

/// Heads of a revocation spare what was signed before.
#[test]
fn snapshot_that_an_owner_approved_before_the_removal() {
    let mut site = filled(&[0, 1, 3], 2);
    let id = site.snapshot();
    let approval = site.by(1, Action::Approve(id));
    let end = site.by(0, revoke(&Person::new(1, 1), vec![approval.id]));
    site.by(2, Action::Approve(end.id));
    assert_eq!(kind(site.read(&site.write(&id))), "good");
}

#[test]
fn snapshot_of_another_log() {
    let mut site = filled(&[0, 1], 1);
    let mut other = filled(&[1, 0], 1);
    let (id, of_other) = (site.snapshot(), other.snapshot());
    let (mine, theirs) = (site.write(&id), other.write(&of_other));
    assert_eq!(kind(site.read(&theirs)), "other-log");
    // Under the genesis of this log, it is not by its owners.
    let mut mixed = Parts::of(&theirs);
    mixed.genesis = Parts::of(&mine).genesis;
    let refused = site.read(&mixed.join());
    let Err(SnapshotError::Refused { refusal, .. }) = refused else { panic!("{refused:?}") };
    assert_eq!(*refusal, Refusal::OtherLog);
    // The state of another log under one's own signatures.
    let mut mixed = Parts::of(&mine);
    mixed.rest = Parts::of(&theirs).rest;
    assert_eq!(kind(site.read(&mixed.join())), "state");
}

/// Nobody who is no owner is heard, whatever grant they have.
#[test]
fn snapshot_by_a_member() {
    let mut site = Site::new(&[0, 1], 1);
    let given = site.by(0, grant(&Person::new(2, 1)));
    let mut carol = Person::new(2, 1);
    let chain = carol.chain;
    let refused = site.log.read(|log| log.draft_snapshot(chain, NOW_MS)).unwrap();
    assert!(matches!(refused, Err(DraftError::Refused(Refusal::NotOwner))), "{refused:?}");
    let id = site.snapshot();
    let mut parts = Parts::of(&site.write(&id));
    let mut entry = site.log.read(|log| log.draft(chain, set("x"), NOW_MS)).unwrap().unwrap();
    let Action::Snapshot(snapshot) = site.log.read(|log| log.entry(&id)).unwrap().unwrap().action
    else {
        panic!()
    };
    entry.action = Action::Snapshot(snapshot);
    let signed = carol.sign(entry, site.log.id());
    let refused = site.log.append(|log| {
        let refused = refusal(log, &signed);
        Ok::<_, LogError>((Vec::new(), refused))
    });
    assert_eq!(refused.unwrap(), Refusal::NotOwner);
    parts.records = vec![signed.to_record()];
    let refused = site.read(&parts.join());
    let Err(SnapshotError::Refused { refusal, .. }) = refused else { panic!("{refused:?}") };
    assert_eq!(*refusal, Refusal::Stranger(carol.name()));
    // Her grant is no part of a snapshot.
    parts.records = vec![given.to_record(), signed.to_record()];
    assert_eq!(kind(site.read(&parts.join())), "malformed");
}

/// An owner signs a state that the log never had. Nodes admit the entry, say what is wrong with it,
/// and do not sign it.
#[test]
fn snapshot_of_a_state_that_never_was() {
    let mut site = filled(&[0, 1], 2);
    let wrong = [
        (site.state(1, |snapshot| snapshot.state = [7; 32]), "state"),
        (site.state(1, |snapshot| snapshot.entries += 1), "entries"),
        (site.state(1, |snapshot| snapshot.root = [7; 32]), "root"),
    ];
    let right = site.state(1, |_| {});
    for (id, kind) in wrong {
        let found = site.log.read(|log| log.check_snapshot(&id)).unwrap().unwrap();
        assert_eq!(found.unwrap_err().kind(), kind);
        let refused = site.try_by(0, Action::Approve(id), NOW_MS);
        let Err(LogError::Draft(DraftError::Snapshot(bad))) = refused else {
            panic!("{refused:?}")
        };
        assert_eq!(bad.kind(), kind);
    }
    site.by(0, Action::Approve(right));
    assert_eq!(kind(site.read(&site.write(&right))), "good");
    // With as many liars as the threshold says, the file is refused all the same by who has the
    // log.
    let chain = site.owners[0].chain;
    let (id, _) = wrong[0];
    let approve = |log: &Log| log.draft(chain, Action::Choose(id), NOW_MS);
    let mut entry = site.log.read(approve).unwrap().unwrap();
    entry.action = Action::Approve(id);
    let signed = site.owners[0].sign(entry, site.log.id());
    site.log.append(|log| Ok::<_, LogError>((log.offer(vec![signed], NOW_MS).added, ()))).unwrap();
    assert!(site.log.read(|log| log.snapshot(&id).unwrap().is_in_force).unwrap());
    let refused = site.try_write(&id);
    assert!(matches!(refused, Err(LogError::BadSnapshot { .. })), "{refused:?}");
    let verified = site.log.verify().unwrap();
    assert!(verified.failed.is_empty());
    assert_eq!((verified.snapshots.right, verified.snapshots.left_out), (1, 0));
    let found: Vec<(EntryId, &str)> =
        verified.snapshots.wrong.iter().map(|(id, bad)| (*id, bad.kind())).collect();
    assert_eq!(found, wrong);
}

/// Any number of snapshots is admitted without computing one, and a verification computes the last
/// few.
#[test]
fn snapshots_without_end() {
    let mut site = Site::new(&[0], 1);
    let count = SNAPSHOTS_CHECKED_MAX + 5;
    let ids: Vec<EntryId> = (0..count)
        .map(|number| {
            site.state(0, |snapshot| snapshot.state[0] ^= u8::from(number == 4 || number == 5))
        })
        .collect();
    let verified = site.log.verify().unwrap().snapshots;
    assert_eq!((verified.left_out, verified.right), (5, SNAPSHOTS_CHECKED_MAX - 1));
    let [(id, BadSnapshot::State { .. })] = verified.wrong[..] else { panic!("{verified:?}") };
    assert_eq!(id, ids[5]);
}

/// A owner whose certificate is newer than genesis signs with the grant that has it.
#[test]
fn owner_with_a_newer_certificate() {
    let owners = vec![Person::new(EXPIRING, 1), Person::new(1, 1), Person::new(3, 1)];
    let genesis = genesis_of(&owners.iter().collect::<Vec<_>>(), 2);
    let mut site = Site::with(owners, Notary::new(0).of(genesis));
    let renewal = site.by(0, grant_by(Person::renewed(EXPIRING, 10 * VALID_S)));
    site.by(1, Action::Approve(renewal.id));
    let late = u64::from(NOW + VALID_S + GRACE + 10) * 1000;
    let id = site.state(1, |_| {});
    let approval = site.try_by(0, Action::Approve(id), late).unwrap();
    assert_eq!(approval.entry.grant, renewal.id);
    let parts = Parts::of(&site.write(&id));
    assert_eq!(parts.records.len(), 4);
    assert_eq!(kind(site.read(&parts.join())), "good");
    // The certificate does not count without the owners who agree with the grant, nor without the
    // grant.
    for left_out in [1, 0] {
        let mut parts = Parts::of(&site.write(&id));
        parts.records.remove(left_out);
        assert_eq!(kind(site.read(&parts.join())), "refused", "{left_out}");
    }
    // In another order, entries lack what they need.
    let mut parts = Parts::of(&site.write(&id));
    parts.records.reverse();
    assert_eq!(kind(site.read(&parts.join())), "refused");
}

#[test]
fn truncated_file() {
    let mut site = filled(&[0], 1);
    let id = site.snapshot();
    let bytes = site.write(&id);
    for length in 0..bytes.len() {
        let failed = site.read(&bytes[..length]);
        assert!(
            matches!(failed, Err(SnapshotError::Malformed(Malformed::Short))),
            "{length}: {failed:?}"
        );
    }
    let longer = [&bytes[..], &[0]].concat();
    assert!(matches!(site.read(&longer), Err(SnapshotError::Malformed(Malformed::Trailing))));
}

/// Numbers that the file cannot keep take no memory.
#[test]
fn huge_counts() {
    let mut site = Site::new(&[0], 1);
    let id = site.snapshot();
    let parts = Parts::of(&site.write(&id));
    // No objects, and no openings.
    assert_eq!(parts.rest, [0; 9]);
    let with = |rest: &[&[u8]]| Parts { rest: rest.concat(), ..Parts::of(&site.write(&id)) }.join();
    let huge = u64::MAX.to_be_bytes();
    for bytes in [
        with(&[&huge]),
        with(&[&huge, &[1; 32], &huge, &[0; 100]]),
        with(&[
            &1u64.to_be_bytes(),
            &[1; 32],
            &12u64.to_be_bytes(),
            &[0, 0, 0, 1],
            b"l",
            &[5],
            &huge[..6],
        ]),
        with(&[&[0; 8], &[1], &[0; 32], &u32::MAX.to_be_bytes()]),
    ] {
        assert_eq!(kind(site.read(&bytes)), "malformed");
    }
    let mut bytes = SNAPSHOT_MAGIC.to_vec();
    bytes.extend(u32::MAX.to_be_bytes());
    assert_eq!(kind(site.read(&bytes)), "malformed");
    // An opening that no commitment wants.
    assert_eq!(
        kind(site.read(&with(&[&[0; 8], &[1], &[0; 32], &[0, 0, 0, 1, 4], &[0]]))),
        "opening"
    );
}

/// A snapshot of a large field is checked like any other, and a content that is no encoding of the
/// rule is refused.
#[test]
fn changed_state() {
    let mut site = Site::new(&[0], 1);
    for number in 0..40 {
        site.by(0, change(1, "count", FieldChange::Count(number)));
    }
    site.by(0, set("red"));
    let id = site.snapshot();
    let bytes = site.write(&id);
    let at = bytes.windows(3).position(|part| part == b"red").unwrap();
    let mut changed = bytes.clone();
    changed[at..at + 3].copy_from_slice(b"sad");
    assert_eq!(kind(site.read(&changed)), "state");
    // Another object, which the hash does not have.
    let mut parts = Parts::of(&bytes);
    parts.rest[7] += 1;
    let end = parts.rest.pop().unwrap();
    parts.rest.extend([&[9; 32][..], &2u64.to_be_bytes(), &[0, 0], &[end]].concat());
    assert_eq!(kind(site.read(&parts.join())), "state");
    // An object that is left out.
    let mut parts = Parts::of(&bytes);
    parts.rest = vec![0; 9];
    assert_eq!(kind(site.read(&parts.join())), "state");
}

fn small_site() -> (Site, Vec<u8>) {
    let mut site = filled(&[0, 1], 2);
    let id = site.snapshot();
    site.by(1, Action::Approve(id));
    let bytes = site.write(&id);
    (site, bytes)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// No byte of a file can be another one.
    #[test]
    fn every_byte_of_a_snapshot_is_checked(
        changes in prop::collection::vec((any::<prop::sample::Index>(), 1u8..), 20),
    ) {
        let (site, bytes) = small_site();
        for (at, flip) in changes {
            let mut changed = bytes.clone();
            let at = at.index(changed.len());
            changed[at] ^= flip;
            prop_assert!(site.read(&changed).is_err(), "{}", at);
        }
        // Nor does reading depend on how the bytes come.
        let mut slowly = Slowly(&bytes);
        prop_assert!(SnapshotFile::read(&mut slowly, site.log.id()).is_ok());
    }

    #[test]
    fn no_bytes_make_the_reader_of_snapshots_panic(
        bytes in prop::collection::vec(any::<u8>(), 0..600),
        at: prop::sample::Index,
    ) {
        let (site, whole) = small_site();
        let _ = site.read(&bytes);
        let mut mixed = whole[..at.index(whole.len())].to_vec();
        mixed.extend(bytes);
        prop_assert!(site.read(&mixed).is_err());
    }
}

/// Gives one byte at a time.
struct Slowly<'a>(&'a [u8]);

impl std::io::Read for Slowly<'_> {
    fn read(&mut self, out: &mut [u8]) -> std::io::Result<usize> {
        let count = out.len().min(1);
        std::io::Read::read(&mut self.0, &mut out[..count])
    }
}

/// The entries of a snapshot come from anywhere, like all others, and in any order.
#[test]
fn snapshots_travel_like_other_entries() {
    let mut alice = Person::new(0, 1);
    let genesis = genesis_of(&[&alice, &Person::new(1, 1)], 2);
    let genesis = begin(&mut alice, genesis);
    let mut log = Log::begin(&genesis).unwrap();
    let first = alice.make(&mut log, set("x")).unwrap();
    let entry = log.draft_snapshot(alice.chain, NOW_MS).unwrap();
    log.append(entry.clone()).unwrap();
    let snapshot = alice.sign(entry, log.id());
    let mut bob = Person::new(1, 1);
    let approval = bob.make(&mut log, Action::Approve(snapshot.id)).unwrap();
    let mut other = Log::begin(&genesis).unwrap();
    offer(&mut other, &[&approval, &snapshot, &first]);
    assert_eq!(other.snapshots(), log.snapshots());
    assert!(other.snapshot(&snapshot.id).unwrap().is_in_force);
    assert_eq!(other.snapshot(&first.id), None);
    assert_eq!(other.check_snapshot(&first.id), None);
}
