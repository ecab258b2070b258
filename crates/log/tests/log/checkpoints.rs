//! Checkpoints: expired and stolen keys, forks, checkpointers and witnesses that lie.

use talaria_log::{
    Action, BadCheckpoint, Checkpoint, Clock, Cosignatures, DraftError, Edge, Entry, EntryId, Log,
    NoteKind, NoteSecret, Objection, Outcome, Refusal, Signed, Standing, TreeHead, WitnessError,
    WitnessFolder, WitnessRequest, Witnessed, is_included, paths,
};
use talaria_message::openpgp::types::HashAlgorithm;

use crate::people::{
    EXPIRING, GRACE, NOW, NOW_MS, Notary, Person, VALID_S, begin, genesis_of, grant, grant_by,
    head, name, offer, refusal, revoke, revoke_since, set,
};

/// SHA-256 apart from the code under test.
fn sha256(bytes: &[u8]) -> [u8; 32] {
    let hash = HashAlgorithm::SHA256.context().unwrap();
    let mut hash = hash.for_digest();
    hash.update(bytes);
    hash.into_digest().unwrap().try_into().unwrap()
}

/// A log with a checkpointer. Alice owns it, and a member has a grant.
struct Site {
    notary: Notary,
    alice: Person,
    /// The number of the member.
    number: usize,
    member: Person,
    genesis: Signed,
    grant: Signed,
    /// Alice's copy.
    log: Log,
}

impl Site {
    fn new(witnesses: u8, number: usize) -> Self {
        let notary = Notary::new(witnesses);
        let (mut alice, member) = (Person::new(0, 1), Person::new(number, 1));
        let genesis = begin(&mut alice, notary.of(genesis_of(&[&Person::new(0, 1)], 1)));
        let mut log = Log::begin(&genesis).unwrap();
        let grant = alice.make(&mut log, grant(&member)).unwrap();
        Self { notary, alice, number, member, genesis, grant, log }
    }

    fn copy(&self, entries: &[&Signed]) -> Log {
        let mut log = Log::begin(&self.genesis).unwrap();
        offer(&mut log, &[&self.grant]);
        let outcomes = offer(&mut log, entries).outcomes;
        assert!(outcomes.iter().all(|outcome| *outcome == Outcome::Added), "{outcomes:?}");
        log
    }

    fn checkpoint(&mut self, after: u32) -> Signed {
        self.notary.checkpoint(&mut self.alice, &mut self.log, after)
    }

    fn by_member(&mut self, text: &str) -> Signed {
        self.member.make(&mut self.log, set(text)).unwrap()
    }

    fn standing(&self, entry: &Signed) -> Standing {
        self.log.standing(&entry.id).unwrap()
    }

    /// An entry by somebody who has the key of the member, on a device of their own, dated back
    /// behind the grant.
    fn backdated(&self, text: &str) -> Signed {
        let mut thief = Person::new(self.number, 66);
        let entry = thief.draft(&self.copy(&[]), set(text));
        let entry = Entry { clock: Clock(self.grant.entry.clock.0 + 1), ..entry };
        thief.sign(entry, self.log.id())
    }
}

/// A key expires. What a checkpoint covers until then, or within the grace time, counts; an entry
/// that is dated back does not.
#[test]
fn expired_key_that_backdates() {
    let mut site = Site::new(0, EXPIRING);
    let early = site.by_member("early");
    let first = site.checkpoint(1000);
    let late = site.by_member("late");
    let second = site.checkpoint(VALID_S + GRACE);
    let stolen = site.backdated("dated back");
    assert_eq!(offer(&mut site.log, &[&stolen]).outcomes, [Outcome::Added]);
    let uncovered = site.by_member("uncovered");
    for entry in [&early, &late, &stolen, &uncovered] {
        // Nobody can know yet that the time is over.
        assert_eq!(site.standing(entry), Standing::Counts);
    }
    let third = site.checkpoint(VALID_S + GRACE + 1);
    assert_eq!(site.standing(&early), Standing::Counts);
    assert_eq!(site.standing(&late), Standing::Counts);
    // The third checkpoint covers them too late.
    assert_eq!(site.standing(&stolen), Standing::Expired);
    assert_eq!(site.standing(&uncovered), Standing::Expired);
    assert_eq!(name(&site.log).as_deref(), Some("late"));
    // In another order: the checkpoints before what they do not cover.
    let mut other = site.copy(&[&early, &first, &late, &second]);
    offer(&mut other, &[&third, &uncovered]);
    assert_eq!(offer(&mut other, &[&stolen]).outcomes, [Outcome::Added]);
    assert_eq!(other.standing(&stolen.id), Some(Standing::Expired));
    assert_eq!(other.state_hash(), site.log.state_hash());
    assert_eq!(other.checkpoints(), site.log.checkpoints());
}

/// Without a checkpointer nothing expires, and without an expiry checkpoints change nothing.
#[test]
fn keys_without_expiry_and_logs_without_checkpointer_are_as_before() {
    let mut site = Site::new(0, 2);
    let before = site.by_member("x");
    site.checkpoint(u32::MAX - NOW);
    let after = site.by_member("y");
    assert_eq!(site.standing(&before), Standing::Counts);
    assert_eq!(site.standing(&after), Standing::Counts);
    let mut alice = Person::new(0, 1);
    let genesis = begin(&mut alice, genesis_of(&[&Person::new(0, 1)], 1));
    let mut log = Log::begin(&genesis).unwrap();
    let mut member = Person::new(EXPIRING, 1);
    alice.make(&mut log, grant(&member)).unwrap();
    let late = u64::from(NOW + VALID_S + 1) * 1000;
    let entry = member.make_at(&mut log, set("late"), late).unwrap();
    assert_eq!(log.standing(&entry.id), Some(Standing::Counts));
    let key = NoteSecret::new("x", NoteKind::Plain, &[1; 32]).unwrap();
    let refused = log.draft_checkpoint(alice.chain, &key, 1, NOW_MS);
    assert!(matches!(refused, Err(DraftError::NotCheckpointer)), "{refused:?}");
}

/// The owner's own key expires. A grant with the newer certificate keeps all rights of the owner.
#[test]
fn an_owner_goes_on_with_a_newer_certificate() {
    let notary = Notary::new(0);
    let mut owner = Person::new(EXPIRING, 1);
    let genesis = begin(&mut owner, notary.of(genesis_of(&[&Person::new(EXPIRING, 1)], 1)));
    let mut log = Log::begin(&genesis).unwrap();
    let carol = Person::new(2, 1);
    let late = u64::from(NOW + VALID_S + GRACE + 10) * 1000;
    // An expired owner writes nothing that would not count.
    let refused = owner.make_at(&mut log, grant(&carol), late);
    assert!(matches!(refused, Err(DraftError::Expired { .. })), "{refused:?}");
    let renewed = Person::renewed(EXPIRING, 10 * VALID_S);
    assert_eq!(renewed.expires(owner.chain.subkey), Some(u64::from(NOW + 10 * VALID_S)));
    let renewal = owner.make(&mut log, grant_by(renewed)).unwrap();
    notary.checkpoint(&mut owner, &mut log, 10);
    let by_renewed = owner.make_at(&mut log, grant(&carol), late).unwrap();
    assert_eq!(by_renewed.entry.grant, renewal.id);
    notary.try_checkpoint(&mut owner, &mut log, VALID_S + GRACE + 20).unwrap();
    assert_eq!(log.standing(&renewal.id), Some(Standing::Counts));
    assert_eq!(log.standing(&by_renewed.id), Some(Standing::Counts));
    // Carol's grant is in force, although it came after the expiry in genesis.
    let mut carol = carol;
    let entry = carol.make_at(&mut log, set("carol"), late).unwrap();
    assert_eq!(log.standing(&entry.id), Some(Standing::Counts));
    // A revocation by the expired certificate has no effect: here, the key of genesis was stolen.
    let mut thief = Person::new(EXPIRING, 66);
    let mut old = Log::begin(&genesis).unwrap();
    let against = thief.make(&mut old, revoke(&carol, Vec::new())).unwrap();
    assert_eq!(offer(&mut log, &[&against]).outcomes, [Outcome::Added]);
    assert_eq!(log.standing(&against.id), Some(Standing::Expired));
    assert_eq!(log.standing(&entry.id), Some(Standing::Counts));
}

/// A key is revoked, and its owner says when it was stolen.
#[test]
fn revoked_key_with_stated_compromise_that_backdates() {
    let mut site = Site::new(0, 2);
    let early = site.by_member("early");
    let first = site.checkpoint(100);
    let late = site.by_member("late");
    let second = site.checkpoint(200);
    let stolen = site.backdated("dated back");
    let end =
        site.alice.make(&mut site.log, revoke_since(&site.member, u64::from(NOW + 200))).unwrap();
    offer(&mut site.log, &[&stolen]);
    assert_eq!(site.standing(&early), Standing::Counts);
    assert_eq!(site.standing(&late), Standing::Revoked);
    assert_eq!(site.standing(&stolen), Standing::Revoked);
    assert_eq!(name(&site.log).as_deref(), Some("early"));
    assert!(site.member.make(&mut site.log, set("x")).is_err());
    let mut other = site.copy(&[&stolen, &early, &first, &late, &second]);
    assert_eq!(name(&other).as_deref(), Some("late"));
    offer(&mut other, &[&end]);
    assert_eq!(other.state_hash(), site.log.state_hash());
    // Without a checkpoint before that time, nothing counts.
    let mut site = Site::new(0, 2);
    let early = site.by_member("early");
    site.checkpoint(100);
    site.alice.make(&mut site.log, revoke_since(&site.member, u64::from(NOW + 100))).unwrap();
    assert_eq!(site.standing(&early), Standing::Revoked);
}

/// Cosignatures come later, in any order. A late witness never takes away what counted.
#[test]
fn times_are_bounds_that_a_minority_cannot_move() {
    let mut site = Site::new(3, EXPIRING);
    let early = site.by_member("early");
    let first = site.checkpoint(0);
    let id = first.id;
    let info = |log: &Log| log.last_checkpoint().unwrap();
    assert!(!info(&site.log).is_valid, "no witness has cosigned");
    site.notary.cosign(&mut site.alice, &mut site.log, id, &[(1, 300)]);
    assert!(!info(&site.log).is_valid, "one of three");
    // One lies to the past: the other one decides.
    site.notary.cosign(&mut site.alice, &mut site.log, id, &[(0, 1)]);
    let existed_by = |log: &Log| info(log).existed_by.map(|time| time - u64::from(NOW));
    assert_eq!((info(&site.log).is_valid, existed_by(&site.log)), (true, Some(300)));
    // Late cosignatures, and later ones by the same witness, move nothing.
    site.notary.cosign(&mut site.alice, &mut site.log, id, &[(1, 900), (2, 100_000)]);
    assert_eq!(existed_by(&site.log), Some(300));
    assert_eq!(info(&site.log).cosigned.len(), 3);
    // A witness who lies to the future expires nothing: early is covered, and late counts until the
    // time is over.
    let late = site.by_member("late");
    let second = site.checkpoint(400);
    site.notary.cosign(&mut site.alice, &mut site.log, second.id, &[(0, 400), (2, 900_000)]);
    let uncovered = site.by_member("uncovered");
    assert_eq!(site.standing(&early), Standing::Counts);
    assert_eq!(site.standing(&late), Standing::Counts);
    assert_eq!(site.standing(&uncovered), Standing::Counts);
    // Covered too late as far as is known; then the third witness gives the earlier time.
    let over = site.checkpoint(VALID_S + GRACE + 1);
    let over_by = [(1, VALID_S + GRACE + 1), (2, VALID_S + GRACE + 1)];
    site.notary.cosign(&mut site.alice, &mut site.log, over.id, &over_by);
    assert_eq!(site.standing(&early), Standing::Counts);
    assert_eq!(site.standing(&late), Standing::Expired);
    assert_eq!(site.standing(&uncovered), Standing::Expired);
    site.notary.cosign(&mut site.alice, &mut site.log, second.id, &[(1, 450)]);
    assert_eq!(site.standing(&late), Standing::Counts);
    assert_eq!(site.standing(&uncovered), Standing::Expired);
    assert_eq!(name(&site.log).as_deref(), Some("late"));
    assert!(site.log.checkpoint_forks().is_empty());
    let note = site.log.checkpoint_note(&id).unwrap();
    assert_eq!(note.lines.len(), 5);
}

#[test]
fn forged_and_replayed_cosignatures() {
    let mut site = Site::new(3, 2);
    let first = site.checkpoint(0);
    site.by_member("x");
    let second = site.checkpoint(10);
    let refused = |site: &mut Site, action: Action| {
        let entry = site.alice.draft(&site.log, set("x"));
        let signed = site.alice.sign(Entry { action, ..entry }, site.log.id());
        refusal(&mut site.log, &signed)
    };
    let bad = |name: &str| Refusal::from(BadCheckpoint::Cosignature(name.to_owned()));
    let names: Vec<String> =
        site.notary.witnesses.iter().map(|witness| witness.public().name).collect();
    let good = site.notary.cosignatures(&site.log, first.id, &[(0, 1), (2, 1)]);
    let Action::Cosign(good) = good else { panic!() };
    // Of one checkpoint on another.
    let replayed = Cosignatures { checkpoint: second.id, ..good.clone() };
    assert_eq!(refused(&mut site, Action::Cosign(replayed)), bad(&names[0]));
    // A time that the witness did not sign, another signature, another name, another order, twice.
    for at in [7, 20, 71] {
        let mut forged = good.clone();
        forged.lines[1].signature[at] ^= 1;
        assert_eq!(refused(&mut site, Action::Cosign(forged)), bad(&names[2]));
    }
    let mut renamed = good.clone();
    renamed.lines[0].name.clone_from(&names[1]);
    assert_eq!(refused(&mut site, Action::Cosign(renamed)), bad(&names[1]));
    let mut reversed = good.clone();
    reversed.lines.reverse();
    assert_eq!(refused(&mut site, Action::Cosign(reversed)), bad(&names[0]));
    let twice = Cosignatures { lines: vec![good.lines[0].clone(); 2], ..good.clone() };
    assert_eq!(refused(&mut site, Action::Cosign(twice)), bad(&names[0]));
    // Somebody who is no witness, with a name of one.
    let stranger = NoteSecret::new(&names[0], NoteKind::Timed, &[1; 32]).unwrap();
    let line = stranger.cosign(&head(&site.log, first.id).to_string(), 5);
    let strange = Cosignatures { checkpoint: first.id, lines: vec![line] };
    assert_eq!(refused(&mut site, Action::Cosign(strange)), bad(&names[0]));
    // On an entry that is no checkpoint.
    let elsewhere = Cosignatures { checkpoint: site.grant.id, ..good.clone() };
    let reason = refused(&mut site, Action::Cosign(elsewhere));
    assert_eq!(reason, Refusal::Reference("the checkpoint"));
    assert!(site.log.checkpoints().iter().all(|one| one.cosigned.is_empty()));
    // A member who has a grant may bring good ones.
    site.member.make(&mut site.log, Action::Cosign(good)).unwrap();
    assert!(site.log.checkpoints()[0].is_valid);
}

#[test]
fn checkpoints_with_wrong_trees() {
    let mut site = Site::new(0, 2);
    site.by_member("1");
    let first = site.checkpoint(5);
    site.by_member("2");
    let time = u64::from(NOW + 10);
    let draft =
        site.log.draft_checkpoint(site.alice.chain, &site.notary.key, time, NOW_MS).unwrap();
    let Action::Checkpoint(good) = draft.action.clone() else { panic!() };
    let key = site.notary.key.named(&good.head().origin).unwrap();
    let refused = |site: &mut Site, checkpoint: Checkpoint| {
        let action = Action::Checkpoint(Box::new(checkpoint));
        let signed = site.alice.sign(Entry { action, ..draft.clone() }, site.log.id());
        match refusal(&mut site.log, &signed) {
            Refusal::Checkpoint(bad) => bad,
            other => panic!("{other:?}"),
        }
    };
    // The checkpointer signs another tree.
    let signed = |change: &dyn Fn(&mut Checkpoint), time: u64| {
        let mut checkpoint = (*good).clone();
        change(&mut checkpoint);
        let text = checkpoint.head().to_string();
        checkpoint.note.lines = vec![key.sign(&text), key.cosign(&text, time)];
        checkpoint
    };
    let root = signed(&|c| c.note.head.root[3] ^= 1, time);
    assert_eq!(refused(&mut site, root), BadCheckpoint::Root);
    let edge = signed(
        &|c| {
            let mut roots = c.edge.roots().to_vec();
            roots[0][0] ^= 1;
            c.edge = Edge::new(c.edge.size(), roots).unwrap();
        },
        time,
    );
    assert_eq!(refused(&mut site, edge), BadCheckpoint::Root);
    let size = good.head().size;
    let smaller = signed(
        &|c| {
            c.note.head.size = size - 1;
            let roots = vec![[0; 32]; (size - 1).count_ones() as usize];
            c.edge = Edge::new(size - 1, roots).unwrap();
        },
        time,
    );
    let wrong = BadCheckpoint::Size { size: size - 1, found: size };
    assert_eq!(refused(&mut site, smaller), wrong);
    let origin = signed(&|c| c.note.head.origin = "example.org/other".to_owned(), time);
    assert!(matches!(refused(&mut site, origin), BadCheckpoint::Origin(_)));
    // It must see the checkpoint before, and time does not go back.
    let blind = signed(&|c| c.before = EntryId::NONE, time);
    assert_eq!(refused(&mut site, blind), BadCheckpoint::Before);
    let strange = signed(&|c| c.before = site.grant.id, time);
    assert_eq!(refused(&mut site, strange), BadCheckpoint::Before);
    let early = signed(&|_| (), u64::from(NOW + 4));
    assert_eq!(refused(&mut site, early), BadCheckpoint::Time);
    // Signatures by others, missing, exchanged, or not by witnesses.
    let other = NoteSecret::new(&good.head().origin, NoteKind::Plain, &[1; 32]).unwrap();
    let text = good.head().to_string();
    let lines = [
        vec![other.sign(&text), other.cosign(&text, time)],
        vec![key.sign(&text)],
        vec![key.cosign(&text, time), key.sign(&text)],
        vec![key.sign(&text), key.sign(&text)],
    ];
    for lines in lines {
        let mut checkpoint = (*good).clone();
        checkpoint.note.lines = lines;
        assert_eq!(refused(&mut site, checkpoint), BadCheckpoint::Signature);
    }
    let mut longer = (*good).clone();
    longer.note.lines.push(key.cosign(&text, time));
    assert!(matches!(refused(&mut site, longer), BadCheckpoint::Cosignature(_)));
    // Nothing was spoiled: the good one is admitted, and a second one on the first is a fork.
    let entry = site.alice.sign(draft.clone(), site.log.id());
    assert_eq!(offer(&mut site.log, &[&entry]).outcomes, [Outcome::Added]);
    assert_eq!(site.log.last_checkpoint().unwrap().entry, entry.id);
    assert_eq!(site.log.last_checkpoint().unwrap().before, first.id);
}

/// The checkpointer shows two peers different trees.
#[test]
fn checkpointer_that_shows_two_trees() {
    let mut site = Site::new(0, EXPIRING);
    let before = site.by_member("before");
    let first = site.checkpoint(10);
    let mut east = site.copy(&[&before, &first]);
    let mut west = site.copy(&[&before, &first]);
    let mut other_alice = Person::new(0, 2);
    let in_east = site.member.make(&mut east, set("east")).unwrap();
    let one = site.notary.checkpoint(&mut site.alice, &mut east, 20);
    let over_east = site.notary.checkpoint(&mut site.alice, &mut east, VALID_S + GRACE + 1);
    let two = site.notary.checkpoint(&mut other_alice, &mut west, 30);
    assert_eq!(east.standing(&in_east.id), Some(Standing::Counts));
    assert!(east.last_checkpoint().unwrap().is_valid && west.last_checkpoint().unwrap().is_valid);
    offer(&mut east, &[&two]);
    offer(&mut west, &[&in_east, &one, &over_east]);
    assert_eq!(east.checkpoint_forks(), west.checkpoint_forks());
    let mut branches = vec![one.id, two.id];
    branches.sort_unstable();
    let [fork] = &east.checkpoint_forks()[..] else { panic!() };
    assert_eq!((fork.before, &fork.branches), (first.id, &branches));
    for log in [&east, &west] {
        // Both branches stop counting. What was before the fork goes on.
        let valid: Vec<EntryId> =
            log.checkpoints().into_iter().filter(|c| c.is_valid).map(|c| c.entry).collect();
        assert_eq!(valid, [first.id]);
        // The time of over_east does not count, so nothing is expired.
        assert_eq!(log.standing(&in_east.id), Some(Standing::Counts));
        assert_eq!(log.standing(&before.id), Some(Standing::Counts));
    }
    assert_eq!(east.state_hash(), west.state_hash());
    // An owner chooses. First the west: in_east is not covered in it.
    let choose_west = other_alice.make(&mut west, Action::Choose(two.id)).unwrap();
    let valid = |log: &Log, entry: &Signed| {
        log.checkpoints().iter().any(|one| one.entry == entry.id && one.is_valid)
    };
    assert!(valid(&west, &two) && !valid(&west, &one) && !valid(&west, &over_east));
    // Then the east.
    let choose_east = other_alice.make(&mut west, Action::Choose(over_east.id)).unwrap();
    assert!(!valid(&west, &two) && valid(&west, &one) && valid(&west, &over_east));
    assert_eq!(west.standing(&in_east.id), Some(Standing::Counts));
    assert_eq!(west.standing(&before.id), Some(Standing::Counts));
    let uncovered = site.backdated("dated back");
    offer(&mut west, &[&uncovered]);
    assert_eq!(west.standing(&uncovered.id), Some(Standing::Expired));
    offer(&mut east, &[&choose_east, &choose_west, &uncovered]);
    assert_eq!(east.checkpoints().len(), 4);
    let sorted = |log: &Log| {
        let mut all = log.checkpoints();
        all.sort_by_key(|one| one.entry);
        all
    };
    assert_eq!(sorted(&east), sorted(&west));
    assert_eq!(east.state_hash(), west.state_hash());
    // The line goes on where the owners chose.
    let next = site.notary.checkpoint(&mut other_alice, &mut west, VALID_S + GRACE + 2);
    let info = west.last_checkpoint().unwrap();
    assert_eq!((info.entry, info.before, info.is_valid), (next.id, over_east.id, true));
}

/// With witnesses, a thief of the checkpointer's key takes nothing away: only cosigned checkpoints
/// make a fork.
#[test]
fn fork_by_a_thief_of_the_checkpointer_is_not_cosigned() {
    let mut site = Site::new(3, EXPIRING);
    let early = site.by_member("early");
    let origin = site.log.checkpointer().unwrap();
    let mut witnesses: Vec<Witnessed> = vec![Witnessed { key: origin, last: None }; 3];
    let ask =
        |site: &Site, witnesses: &mut [Witnessed], log: &Log, checkpoint: &Signed, after: u32| {
            let mut lines = String::new();
            for (place, witness) in witnesses.iter_mut().enumerate().take(2) {
                let old = witness.last.as_ref().map_or(0, |last| last.size);
                let request = log.witness_request_from(&checkpoint.id, Some(old)).unwrap();
                assert_eq!(WitnessRequest::read(&request.to_string()), Ok(request.clone()));
                let key = &site.notary.witnesses[place];
                let line = witness.cosign(&request, key, u64::from(NOW + after))?;
                lines.push_str(&line.to_string());
            }
            Ok::<_, Objection>(lines)
        };
    let first = site.checkpoint(10);
    let lines = ask(&site, &mut witnesses, &site.log, &first, 11).unwrap();
    let found = site.log.find_cosigned(&lines).unwrap();
    assert_eq!((found.checkpoint, found.lines.len()), (first.id, 2));
    site.alice.make(&mut site.log, Action::Cosign(found)).unwrap();
    assert!(site.log.last_checkpoint().unwrap().is_valid);
    // The thief begins another line, in a copy that has not seen the first one.
    let mut thiefs = site.copy(&[]);
    let mut owner_too = Person::new(0, 66);
    let stolen = site.backdated("dated back");
    offer(&mut thiefs, &[&stolen]);
    let forged = site.notary.checkpoint(&mut owner_too, &mut thiefs, 1);
    let objection = ask(&site, &mut witnesses, &thiefs, &forged, 12).unwrap_err();
    assert!(
        matches!(objection, Objection::Inconsistent { .. } | Objection::Old { .. }),
        "{objection:?}"
    );
    site.notary.checkpoint(&mut owner_too, &mut thiefs, 2);
    let longer = site.notary.checkpoint(&mut owner_too, &mut thiefs, 3);
    let objection = ask(&site, &mut witnesses, &thiefs, &longer, 12).unwrap_err();
    assert!(matches!(objection, Objection::Inconsistent { size: 5, known: 3 }), "{objection:?}");
    offer(&mut site.log, &[&stolen, &forged]);
    assert_eq!(site.log.checkpoint_forks().len(), 1, "it is reported");
    assert!(site.log.checkpoints().iter().any(|one| one.entry == first.id && one.is_valid));
    // The line goes on, and ends the key.
    let over = site.checkpoint(VALID_S + GRACE + 5);
    assert_eq!(site.log.last_checkpoint().unwrap().before, first.id);
    let lines = ask(&site, &mut witnesses, &site.log, &over, VALID_S + GRACE + 6).unwrap();
    let found = site.log.find_cosigned(&lines).unwrap();
    assert_eq!(found.checkpoint, over.id);
    site.alice.make(&mut site.log, Action::Cosign(found)).unwrap();
    assert_eq!(site.standing(&early), Standing::Counts);
    assert_eq!(site.standing(&stolen), Standing::Expired);
    // Lines that hold for nothing here are not found.
    assert!(thiefs.find_cosigned(&lines).is_none());
}

/// Somebody repeats the note of a checkpoint in an entry of their own. It is the same checkpoint,
/// and no fork.
#[test]
fn replayed_note_is_the_same_checkpoint() {
    let mut site = Site::new(0, 2);
    let written = site.by_member("x");
    let seen = site.copy(&[&written]);
    let first = site.checkpoint(10);
    // The member has not seen the entry of the checkpoint, but its note and the same entries.
    let Action::Checkpoint(checkpoint) = first.entry.action.clone() else { panic!() };
    let entry = site.member.draft(&seen, set("x"));
    let replayed = Entry { action: Action::Checkpoint(checkpoint), ..entry };
    let replayed = site.member.sign(replayed, site.log.id());
    assert_eq!(offer(&mut site.log, &[&replayed]).outcomes, [Outcome::Added]);
    assert_eq!(site.log.checkpoint_forks(), []);
    assert_eq!(site.log.checkpoints().len(), 1);
    let second = site.checkpoint(20);
    let third = site.checkpoint(30);
    assert!(site.log.checkpoints().iter().all(|one| one.is_valid));
    let leaves = site.log.checkpoint_leaves(&third.id).unwrap();
    assert_eq!(leaves.len() as u64, head(&site.log, third.id).size);
    assert_eq!(leaves.last(), Some(&second.id));
    // A copy in which the replay came first.
    let copy = site.copy(&[&written, &replayed, &first, &second, &third]);
    assert_eq!(copy.checkpoints(), site.log.checkpoints());
    assert_eq!(copy.checkpoint_leaves(&third.id), Some(leaves));
}

/// A chain forks after a checkpoint has covered one branch. What the checkpoint covers still
/// counts.
#[test]
fn fork_behind_a_checkpoint_counts_up_to_it() {
    let mut site = Site::new(0, 2);
    let before = site.by_member("before");
    let mut older = site.copy(&[&before]);
    let covered = site.by_member("covered");
    let first = site.checkpoint(10);
    let behind = site.by_member("behind");
    // The machine of the member is set back, and goes on.
    let twin = site.member.make(&mut older, set("twin")).unwrap();
    offer(&mut site.log, &[&twin]);
    assert_eq!(site.standing(&covered), Standing::Counts);
    assert_eq!(site.standing(&behind), Standing::Forked);
    assert_eq!(site.standing(&twin), Standing::Forked);
    assert_eq!(name(&site.log).as_deref(), Some("covered"));
    // A later checkpoint that covers both branches takes nothing away.
    let second = site.checkpoint(20);
    assert_eq!(site.standing(&covered), Standing::Counts);
    assert_eq!(site.standing(&twin), Standing::Forked);
    let copy = site.copy(&[&before, &twin, &covered, &first, &behind, &second]);
    assert_eq!(copy.state_hash(), site.log.state_hash());
    // The owners have the last word.
    site.alice.make(&mut site.log, Action::Choose(twin.id)).unwrap();
    assert_eq!(site.standing(&covered), Standing::Forked);
    assert_eq!(site.standing(&twin), Standing::Counts);
}

/// RFC 9162, section 2.1.3.2, which goes from the bits of place and size.
fn is_included_by_bits(
    id: &EntryId,
    place: u64,
    size: u64,
    path: &[[u8; 32]],
    root: &[u8; 32],
) -> bool {
    let inner = |left: &[u8; 32], right: &[u8; 32]| sha256(&[&[1], &left[..], right].concat());
    let (mut at, mut last) = (place, size - 1);
    let mut hash = sha256(&[&[0], &id.0[..]].concat());
    for sibling in path {
        if last == 0 {
            return false;
        }
        if at & 1 == 1 || at == last {
            hash = inner(sibling, &hash);
            while at & 1 == 0 && at != 0 {
                (at, last) = (at >> 1, last >> 1);
            }
        } else {
            hash = inner(&hash, sibling);
        }
        (at, last) = (at >> 1, last >> 1);
    }
    last == 0 && hash == *root
}

#[test]
fn leaves_have_inclusion_proofs_that_an_independent_computation_accepts() {
    let mut site = Site::new(0, 2);
    for round in 0..9 {
        (0..=round).for_each(|n| drop(site.by_member(&format!("{round} {n}"))));
        site.checkpoint(round);
    }
    let checkpoints = site.log.checkpoints();
    assert_eq!(checkpoints.len(), 9);
    for checkpoint in &checkpoints {
        let TreeHead { size, root, .. } = checkpoint.head;
        let leaves = site.log.checkpoint_leaves(&checkpoint.entry).unwrap();
        assert_eq!(leaves.len() as u64, size);
        // A node without edges computes the same.
        assert_eq!(talaria_log::root(&leaves), root);
        assert_eq!(leaves[0], site.genesis.id);
        for (place, path) in paths(&leaves).iter().enumerate() {
            assert!(is_included_by_bits(&leaves[place], place as u64, size, path, &root));
            assert!(is_included(&leaves[place], place, leaves.len(), path, &root));
            assert!(!is_included_by_bits(&leaves[0], 1 + place as u64, size, path, &root));
        }
    }
}

#[test]
fn a_witness_in_a_folder_remembers_and_refuses() {
    let mut site = Site::new(3, 2);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("witness");
    let witness = WitnessFolder::create(&path, "w.example.org").unwrap();
    assert!(matches!(WitnessFolder::create(&path, "w"), Err(WitnessError::Occupied { .. })));
    let mode = std::os::unix::fs::PermissionsExt::mode(
        &std::fs::metadata(path.join("key")).unwrap().permissions(),
    );
    assert_eq!(mode & 0o777, 0o600);
    let public = witness.public();
    let first = site.checkpoint(1);
    let request =
        |log: &Log, id: &EntryId, old| log.witness_request_from(id, Some(old)).unwrap().to_string();
    let text = request(&site.log, &first.id, 0);
    assert!(matches!(witness.cosign(&text, "f", 5), Err(WitnessError::Unknown { .. })));
    let log_key = site.log.checkpointer().unwrap();
    witness.trust(&log_key).unwrap();
    let line = witness.cosign(&text, "f", 5).unwrap();
    assert_eq!(public.verify(&head(&site.log, first.id).to_string(), &line), Some(5));
    drop(witness);
    let witness = WitnessFolder::open(&path).unwrap();
    witness.trust(&log_key).unwrap();
    let other = NoteSecret::new(&log_key.name, NoteKind::Plain, &[3; 32]).unwrap().public();
    assert!(matches!(witness.trust(&other), Err(WitnessError::OtherKey { .. })));
    let known = witness.known(&log_key.name).unwrap().unwrap();
    assert_eq!(known.last.unwrap().size, head(&site.log, first.id).size);
    // The same tree again, and the next one; never one from the beginning.
    let size = head(&site.log, first.id).size;
    witness.cosign(&request(&site.log, &first.id, size), "f", 6).unwrap();
    let second = site.checkpoint(2);
    let from_start = witness.cosign(&request(&site.log, &second.id, 0), "f", 6).unwrap_err();
    assert!(
        matches!(from_start, WitnessError::Objection(Objection::Old { old: 0, known }) if known == size)
    );
    witness.cosign(&request(&site.log, &second.id, size), "f", 7).unwrap();
    // A rollback.
    let rollback = witness.cosign(&request(&site.log, &first.id, size), "f", 8).unwrap_err();
    assert!(matches!(rollback, WitnessError::Objection(Objection::Old { .. })));
    assert!(matches!(witness.cosign("old 0\n", "f", 8), Err(WitnessError::Request { .. })));
    // Damage is reported, and nothing is cosigned.
    let state = std::fs::read_dir(path.join("logs")).unwrap().next().unwrap().unwrap().path();
    std::fs::write(&state, "").unwrap();
    let damaged = witness.cosign(&request(&site.log, &second.id, size), "f", 8);
    assert!(matches!(damaged, Err(WitnessError::Damaged { .. })), "{damaged:?}");
}
