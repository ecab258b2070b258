//! Deletable values that come after their entries: from another peer, in a session or in an export.

use std::fs;
use std::path::{Path, PathBuf};

use talaria_log::{
    Evidence, FieldChange, Follower, Imported, LogFolder, MemoryReplica, Opening, Outcome, Refusal,
    Replica as _, Signed, StoredSignature, Value, read_record, to_records,
};

use crate::deletion::{delete, opening, shown, text};
use crate::files::create;
use crate::people::{NOW_MS, Pair, change, offer, pair, refusal, set};

const SECRET: &str = "the value that comes later";

/// Alice's log with some entries that have deletable values: one with a signature of its own, and
/// two in a batch.
fn committed() -> (Pair, Vec<Signed>) {
    let mut pair = pair();
    let mut made = Vec::new();
    for (number, field) in [(1, "name"), (2, "one"), (3, "two")] {
        let opening = opening(&format!("{SECRET} {number}"), number);
        let value = Some(Value::Committed(opening.commitment()));
        let action = change(1, field, FieldChange::Set(value));
        let entry = pair.alice.draft(&pair.log, action);
        pair.log.append(entry.clone()).unwrap();
        made.push((entry, opening));
    }
    let (entries, openings): (Vec<_>, Vec<Opening>) = made.into_iter().unzip();
    let id = pair.log.id();
    let mut signed = vec![pair.alice.sign(entries[0].clone(), id)];
    let mut maker = talaria_log::Maker { chain: pair.alice.chain, key: &mut pair.alice.key };
    signed.extend(maker.sign_batch(entries[1..].to_vec(), id, NOW_MS).unwrap());
    for (signed, opening) in signed.iter_mut().zip(openings) {
        assert!(pair.log.reveal(&signed.id, &opening));
        signed.opening = Some(opening);
    }
    (pair, signed)
}

fn bare(entries: &[Signed]) -> Vec<Signed> {
    entries.iter().map(|signed| Signed { opening: None, ..signed.clone() }).collect()
}

/// Through records, as from a file or a peer.
fn through_records(entries: &[Signed]) -> Vec<Signed> {
    let mut records = Vec::new();
    to_records(entries, &mut records);
    records.iter().flat_map(|record| read_record(record).unwrap()).collect()
}

/// A known entry takes the value that it lacks: once, only the right one, and none that is deleted.
#[test]
fn a_known_entry_takes_its_value_once() {
    let (mut pair, entries) = committed();
    let mut log = pair.copy();
    log.offer(bare(&entries), NOW_MS);
    assert_eq!(log.missing_values(), 3);
    let mut wrong = entries[0].clone();
    wrong.opening = Some(opening("another value", 1));
    assert_eq!(refusal(&mut log, &wrong), Refusal::Opening);
    assert_eq!(log.missing_values(), 3);
    let offered = log.offer(through_records(&entries), NOW_MS);
    assert_eq!(offered.outcomes, [Outcome::Known, Outcome::Known, Outcome::Known]);
    assert!(offered.added.is_empty());
    let revealed: Vec<(_, Opening)> =
        entries.iter().map(|one| (one.id, one.opening.clone().unwrap())).collect();
    assert_eq!(offered.revealed, revealed);
    assert_eq!(shown(&log), Some(text(&format!("{SECRET} 1"))));
    assert_eq!(log.missing_values(), 0);
    // It is not taken again, nor looked at.
    assert!(log.offer(through_records(&entries), NOW_MS).revealed.is_empty());
    assert_eq!(offer(&mut log, &[&wrong]).outcomes, [Outcome::Known]);
    assert_eq!(log.state_hash(), pair.log.state_hash());

    // A node that knows of the deletion does not want it, also if both come at once.
    let deletion = pair.alice.make(&mut pair.log, delete(&[&entries[0]])).unwrap();
    for at_once in [false, true] {
        let mut log = pair.copy();
        log.offer(bare(&entries), NOW_MS);
        if !at_once {
            offer(&mut log, &[&deletion]);
            assert_eq!(log.missing_values(), 2);
        }
        let offered = log.offer(vec![entries[0].clone(), deletion.clone()], NOW_MS);
        assert!(offered.revealed.is_empty(), "{at_once}");
        assert_eq!(shown(&log), None);
        assert_eq!(log.missing_values(), 2);
        assert_eq!(log.lacking_values(None, 9).len(), 2);
    }
}

/// A deletion that ceases to count leaves a value that is wanted again.
#[test]
fn a_value_is_wanted_again_when_its_deletion_does_not_count() {
    let (mut pair, entries) = committed();
    let deletion = pair.carol.make(&mut pair.log, delete(&[&entries[0]])).unwrap();
    let mut log = pair.copy();
    log.offer(bare(&entries), NOW_MS);
    offer(&mut log, &[&deletion]);
    assert_eq!(log.missing_values(), 2);
    let end =
        pair.alice.make(&mut pair.log, crate::people::revoke(&pair.carol, Vec::new())).unwrap();
    offer(&mut log, &[&end]);
    assert_eq!(log.missing_values(), 3);
    assert_eq!(log.offer(entries, NOW_MS).revealed.len(), 3);
}

struct Site {
    folder: tempfile::TempDir,
    path: PathBuf,
    log: LogFolder,
    pair: Pair,
    entries: Vec<Signed>,
}

/// A log in a folder that has the entries without their values.
fn site() -> Site {
    let (pair, entries) = committed();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("log");
    let log = LogFolder::create(&path, &pair.genesis).unwrap();
    let site = Site { folder, path, log, pair, entries };
    let first = [&[site.pair.grant.clone()][..], &bare(&site.entries)].concat();
    assert_eq!(import(&site.log, &first).added, 4);
    site
}

fn import(log: &LogFolder, entries: &[Signed]) -> Imported {
    let mut records = Vec::new();
    to_records(entries, &mut records);
    let mut file = talaria_log::EXPORT_MAGIC.to_vec();
    for record in records {
        file.extend(u32::try_from(record.len()).unwrap().to_be_bytes());
        file.extend(record);
    }
    log.import(&mut &file[..], "memory", NOW_MS).unwrap()
}

fn each(log: &LogFolder) -> Vec<Signed> {
    let mut found = Vec::new();
    log.each(|signed| {
        found.push(signed);
        Ok(())
    })
    .unwrap();
    found
}

/// The value is on disk: it survives restarts with an index and without, and exports, verification
/// and sessions have each entry once.
#[test]
fn a_value_that_came_later_is_there_after_a_restart() {
    let mut site = site();
    let hash = site.log.read(talaria_log::Log::state_hash).unwrap();
    assert_eq!((site.log.verify().unwrap().missing, site.log.durable()), (3, 5));
    let imported = import(&site.log, &site.entries);
    assert_eq!((imported.added, imported.known, imported.values), (0, 3, 3));
    assert_eq!(import(&site.log, &site.entries).values, 0);
    for round in 0..4 {
        let verified = site.log.verify().unwrap();
        assert_eq!((verified.entries, verified.missing), (5, 0), "{round}");
        assert!(verified.failed.is_empty(), "{verified:?}");
        assert_eq!((verified.state_hash, site.log.durable()), (hash, 5));
        assert_eq!(site.log.read(shown).unwrap(), Some(text(&format!("{SECRET} 1"))));
        let found = each(&site.log);
        assert_eq!(found[2..], site.entries);
        for signed in &found {
            assert_eq!(site.log.signed(&signed.id).unwrap().as_ref(), Some(signed));
        }
        let mut exported = Vec::new();
        site.log.export(&mut exported, Path::new("memory")).unwrap();
        let other = site.folder.path().join(format!("other-{round}"));
        let (other, imported) =
            LogFolder::receive(&other, &mut &exported[..], "memory", None, NOW_MS).unwrap();
        assert_eq!((imported.added, imported.values), (5, 0));
        assert_eq!(each(&other), found);
        let follower = Follower::open(&site.path).unwrap();
        assert_eq!(follower.read(shown).unwrap(), site.log.read(shown).unwrap());
        if round == 1 {
            site.log.write_index().unwrap();
        }
        drop(site.log);
        if round == 2 {
            fs::remove_file(site.path.join("index")).unwrap();
        }
        site.log = LogFolder::open(&site.path).unwrap();
    }
}

/// An index from before the value came knows that it is lacking.
#[test]
fn an_index_knows_which_values_are_lacking() {
    let mut site = site();
    site.log.write_index().unwrap();
    drop(site.log);
    site.log = LogFolder::open(&site.path).unwrap();
    assert_eq!(site.log.read(talaria_log::Log::missing_values).unwrap(), 3);
    let mut follower = Follower::open(&site.path).unwrap();
    assert_eq!(import(&site.log, &site.entries).values, 3);
    assert_eq!(follower.advance().unwrap(), []);
    assert_eq!(follower.read(talaria_log::Log::missing_values).unwrap(), 0);
    drop(site.log);
    site.log = LogFolder::open(&site.path).unwrap();
    assert_eq!(site.log.read(talaria_log::Log::missing_values).unwrap(), 0);
    assert_eq!(each(&site.log)[2..], site.entries);
}

/// What a peer sends as the proof of an entry that is here is not kept: nobody has checked it.
#[test]
fn a_forged_proof_beside_a_value_is_not_kept() {
    let site = site();
    let mut forged = site.entries.clone();
    let Evidence::Alone(good) = &site.entries[0].evidence else { panic!() };
    let mut packet = good.to_packet(&[], site.entries[0].entry.chain.subkey, site.log.id());
    let last = packet.len() - 1;
    packet[last] ^= 1;
    let bad =
        StoredSignature::of_packet(&packet, site.entries[0].entry.chain.subkey, site.log.id());
    forged[0].evidence = Evidence::Alone(bad.unwrap());
    assert_ne!(forged[0].evidence, site.entries[0].evidence);
    assert_eq!(import(&site.log, &forged[..1]).values, 1);
    assert_eq!(each(&site.log)[2], site.entries[0]);
    assert!(site.log.verify().unwrap().failed.is_empty());
}

/// Compaction removes a value from wherever it stands, and keeps those that came later.
#[test]
fn compaction_knows_both_places_of_an_entry() {
    let mut site = site();
    assert_eq!(import(&site.log, &site.entries).values, 3);
    let deletion = site.pair.alice.make(&mut site.pair.log, delete(&[&site.entries[0]])).unwrap();
    import(&site.log, &[deletion]);
    assert_eq!(site.log.compact(|_| ()).unwrap().values, 1);
    for _ in 0..2 {
        let bytes = fs::read(site.path.join("segments/00000000")).unwrap();
        let count =
            |what: &str| bytes.windows(what.len()).filter(|at| *at == what.as_bytes()).count();
        let kept: Vec<usize> = (1..4).map(|number| count(&format!("{SECRET} {number}"))).collect();
        assert_eq!(kept, [0, 1, 1]);
        let found = each(&site.log);
        assert_eq!((found.len(), &found[2]), (6, &bare(&site.entries)[0]));
        assert_eq!(found[3..5], site.entries[1..]);
        assert!(site.log.verify().unwrap().failed.is_empty());
        // It is not taken again.
        assert_eq!(import(&site.log, &site.entries).values, 0);
        drop(site.log);
        site.log = LogFolder::open(&site.path).unwrap();
    }
}

/// The value came when the log had gone over to another segment, and the first one is written anew.
#[test]
fn a_value_in_a_later_segment_survives_the_compaction_of_an_earlier_one() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("log");
    let (log, mut alice) = create(&path, 0);
    let [later, gone] = [1, 2].map(|number| opening(&format!("{SECRET} {number}"), number));
    let by =
        |log: &LogFolder, alice: &mut crate::people::Person, action, opening: Option<&Opening>| {
            let made = log.append(|log| {
                let mut signed = alice.make(log, action).unwrap();
                signed.opening = opening.cloned();
                Ok::<_, talaria_log::LogError>((vec![signed.clone()], signed))
            });
            made.unwrap()
        };
    let commit = |field: &str, opening: &Opening| {
        let value = Some(Value::Committed(opening.commitment()));
        change(1, field, FieldChange::Set(value))
    };
    let bare = by(&log, &mut alice, commit("later", &later), None);
    let removed = by(&log, &mut alice, commit("name", &gone), Some(&gone));
    let long = "x".repeat(60_000);
    for _ in 0..20 {
        let entries = |log: &mut talaria_log::Log| {
            let made = (0..15).map(|_| alice.make(log, set(&long)).unwrap()).collect();
            Ok::<_, talaria_log::LogError>((made, ()))
        };
        log.append(entries).unwrap();
    }
    assert!(path.join("segments/00000001").exists());
    let whole = Signed { opening: Some(later), ..bare };
    assert_eq!(import(&log, std::slice::from_ref(&whole)).values, 1);
    by(&log, &mut alice, delete(&[&removed]), None);
    assert_eq!(log.compact(|_| ()).unwrap().segments, 1);
    assert_eq!(log.signed(&whole.id).unwrap(), Some(whole.clone()));
    drop(log);
    let log = LogFolder::open(&path).unwrap();
    assert_eq!(log.signed(&whole.id).unwrap(), Some(whole.clone()));
    assert!(each(&log).contains(&whole));
}

/// A copy in memory keeps the value for its peers, too.
#[test]
fn a_copy_in_memory_takes_a_value_later() {
    let (pair, entries) = committed();
    let mut copy = MemoryReplica::new(&pair.genesis).unwrap();
    let first = [&[pair.grant.clone()][..], &bare(&entries)].concat();
    assert_eq!(copy.take(first, NOW_MS).unwrap().added, 4);
    assert_eq!(copy.lacking_values(None).len(), 3);
    assert_eq!(copy.take(entries.clone(), NOW_MS).unwrap().values, 3);
    assert_eq!(copy.entries()[2..], entries);
    let ids: Vec<_> = entries.iter().rev().map(|signed| signed.id).collect();
    assert_eq!(copy.places_of_values(&ids), [2, 3, 4]);
}
