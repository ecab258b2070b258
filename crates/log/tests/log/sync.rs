//! Exchanges between copies of a log, without sockets: two or more nodes, and hostile peers.

use talaria_log::{
    ALIVE_MS, ANSWER_MS, Entry, EntryId, FRAME_MS, FRAMES_MAX, Farewell, Fetching, FieldChange,
    HEADS_KEPT_MAX, HELLO_MS, IDLE_MS, Log, MemoryReplica, Mode, OUTPUT_LOW, Outcome, REPEAT_MS,
    SEND_MS, Session, Signed, SyncError, SyncFrame as Frame, VALUES_MS, Value, to_records,
};

use crate::deletion::opening;
use crate::people::{NOW_MS, Pair, Person, change, pair, set};

/// A node with one session to each of some peers.
struct Node {
    copy: MemoryReplica,
    fetching: Fetching,
}

impl Node {
    fn of(copy: MemoryReplica) -> Self {
        Self { copy, fetching: Fetching::default() }
    }

    /// A node with these entries, the first of which is genesis.
    fn with(entries: &[&Signed]) -> Self {
        let mut node = Self::of(MemoryReplica::new(entries[0]).unwrap());
        node.add(&entries[1..]);
        node
    }

    fn add(&mut self, entries: &[&Signed]) {
        let add = |log: &mut Log| {
            let offered = log.offer(entries.iter().map(|&one| one.clone()).collect(), NOW_MS);
            assert!(offered.outcomes.iter().all(|one| *one == Outcome::Added), "{offered:?}");
            Ok::<_, ()>(offered.added)
        };
        self.copy.append(add).unwrap().unwrap();
    }

    /// Makes entries with texts.
    fn write(&mut self, person: &mut Person, texts: &[&str]) {
        let make = |log: &mut Log| {
            Ok::<_, ()>(texts.iter().map(|text| person.make(log, set(text)).unwrap()).collect())
        };
        self.copy.append(make).unwrap().unwrap();
    }

    /// Makes entries with one signature.
    fn write_batch(&mut self, person: &mut Person, count: usize) {
        let make = |log: &mut Log| {
            let entries = (0..count).map(|number| {
                let entry = person.draft(log, set(&number.to_string()));
                log.append(entry.clone()).unwrap();
                entry
            });
            let entries = entries.collect();
            let mut maker = talaria_log::Maker { chain: person.chain, key: &mut person.key };
            Ok::<_, ()>(maker.sign_batch(entries, log.id(), NOW_MS).unwrap())
        };
        self.copy.append(make).unwrap().unwrap();
    }

    fn log(&self) -> &Log {
        self.copy.log().unwrap()
    }

    fn receive(&mut self, session: &mut Session, bytes: &[u8], now_ms: u64) -> Result<(), String> {
        let done = session.receive(bytes, &mut self.copy, &self.fetching, now_ms, NOW_MS);
        done.map_err(|error| error.word().to_owned())
    }

    fn advance(&mut self, session: &mut Session, now_ms: u64) -> Result<(), String> {
        let done = session.advance(&mut self.copy, &self.fetching, now_ms);
        done.map_err(|error| error.word().to_owned())
    }
}

/// The bytes that a session sends.
fn take(session: &mut Session, most: usize, now_ms: u64) -> Vec<u8> {
    let bytes = session.output()[..most.min(session.output().len())].to_vec();
    session.sent(bytes.len(), now_ms);
    bytes
}

/// Two nodes exchange once, some bytes at a time. Returns the bytes that went over, and the
/// sessions.
fn exchange(a: &mut Node, b: &mut Node, most: usize) -> (usize, Session, Session) {
    let log = a.copy.log().or(b.copy.log()).unwrap().id();
    let mut one = Session::new(log, 7, Mode::Once, 0);
    let mut other = Session::new(log, 9, Mode::Stay, 0);
    let mut bytes = 0;
    for step in 0.. {
        let now_ms = step / 20;
        let out = take(&mut one, most, now_ms);
        bytes += out.len();
        b.receive(&mut other, &out, now_ms).unwrap();
        let out = take(&mut other, most, now_ms);
        bytes += out.len();
        a.receive(&mut one, &out, now_ms).unwrap();
        if one.is_over() && other.is_over() {
            break;
        }
        assert!(now_ms < 60_000, "{one:?} {other:?}");
    }
    (bytes, one, other)
}

fn assert_same(a: &Node, b: &Node) {
    assert_eq!(a.log().heads(), b.log().heads());
    assert_eq!(a.log().state_hash(), b.log().state_hash());
}

#[test]
fn a_new_node_gets_everything_by_one_exchange() {
    let Pair { mut alice, mut carol, genesis, grant, .. } = pair();
    let mut a = Node::with(&[&genesis, &grant]);
    a.write(&mut alice, &["one", "two"]);
    a.write_batch(&mut carol, 300);
    for most in [1, 7, 4096, usize::MAX] {
        let mut b = Node::of(MemoryReplica::empty(genesis.id));
        let (_, one, other) = exchange(&mut b, &mut a, most);
        assert_same(&a, &b);
        assert_eq!((one.report().added, other.report().sent), (304, 304), "{most}");
        assert_eq!(other.report().peer.added, 304);
        assert_eq!(other.report().added, 0);
        // A batch that is sent whole keeps its one signature.
        let mut records = Vec::new();
        to_records(b.copy.entries(), &mut records);
        assert_eq!(records.len(), 5);
    }
}

#[test]
fn nodes_that_changed_different_chains_send_only_the_difference() {
    let Pair { mut alice, mut carol, genesis, grant, .. } = pair();
    let mut a = Node::with(&[&genesis, &grant]);
    let texts: Vec<String> = (0..500).map(|number| number.to_string()).collect();
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    a.write(&mut alice, &texts);
    let all: Vec<Signed> = a.copy.entries().to_vec();
    let mut b = Node::with(&all.iter().collect::<Vec<_>>());
    a.write(&mut alice, &["a", "b", "c"]);
    b.write(&mut carol, &["d", "e"]);
    let (bytes, one, other) = exchange(&mut a, &mut b, usize::MAX);
    assert_same(&a, &b);
    assert_eq!((one.report().added, one.report().sent), (2, 3));
    assert_eq!((other.report().added, other.report().sent), (3, 2));
    assert_eq!((one.report().known, other.report().known), (0, 0));
    assert!(bytes < 4000, "{bytes}");
    // Nothing goes over twice.
    let (bytes, one, other) = exchange(&mut a, &mut b, usize::MAX);
    assert_eq!((one.report().sent, other.report().sent), (0, 0));
    assert!(bytes < 400, "{bytes}");
}

/// Two branches of one chain come together, whoever has the longer one, and nobody sends the common
/// part again.
#[test]
fn both_branches_of_a_fork_go_over() {
    for (left, right) in [(1, 1), (1, 40), (40, 1), (30, 33)] {
        let Pair { mut alice, genesis, grant, .. } = pair();
        let mut a = Node::with(&[&genesis, &grant]);
        let texts: Vec<String> = (0..200).map(|number| number.to_string()).collect();
        let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
        a.write(&mut alice, &texts);
        let all: Vec<Signed> = a.copy.entries().to_vec();
        let mut b = Node::with(&all.iter().collect::<Vec<_>>());
        a.write(&mut alice, &texts[..left]);
        b.write(&mut alice, &["another"]);
        b.write(&mut alice, &texts[..right - 1]);
        let (_, one, other) = exchange(&mut a, &mut b, 100);
        assert_same(&a, &b);
        assert_eq!(a.log().forks().len(), 1);
        assert_eq!((one.report().added, other.report().added), (right as u64, left as u64));
        let again = one.report().known + other.report().known;
        assert!(again <= (left + right) as u64, "{again} of {left} and {right}");
        exchange(&mut a, &mut b, 100);
        assert_same(&a, &b);
    }
}

/// Part of a batch is lacking: each of its entries comes with its proof.
#[test]
fn a_part_of_a_batch_goes_over() {
    let Pair { mut alice, genesis, grant, .. } = pair();
    let mut a = Node::with(&[&genesis, &grant]);
    a.write_batch(&mut alice, 100);
    let some: Vec<&Signed> = a.copy.entries()[..30].iter().collect();
    let mut b = Node::with(&some);
    let (_, one, _) = exchange(&mut b, &mut a, 1000);
    assert_eq!((one.report().added, one.report().known), (72, 0));
    assert_same(&a, &b);
}

/// New entries are announced while a session stays open, and fetched from one of two peers.
#[test]
fn new_entries_go_over_live_and_from_one_peer() {
    let Pair { mut alice, genesis, grant, .. } = pair();
    let mut a = Node::with(&[&genesis, &grant]);
    let (mut b, mut c) = (Node::with(&[&genesis]), Node::with(&[&genesis]));
    // Sessions between all three, by the nodes that hold their sides.
    let new = |number| Session::new(genesis.id, number, Mode::Stay, 0);
    let mut ab = (new(1), new(1));
    let mut ac = (new(2), new(1));
    let mut bc = (new(2), new(2));
    for now_ms in 0..2_000 {
        if now_ms % 20 == 0 && now_ms < 1_900 {
            a.write(&mut alice, &["x"]);
        }
        for (left, right, (one, other)) in [(0, 1, &mut ab), (0, 2, &mut ac), (1, 2, &mut bc)] {
            let (out, back) = (take(one, 5000, now_ms), take(other, 5000, now_ms));
            let nodes = [&mut a, &mut b, &mut c];
            nodes[right].receive(other, &out, now_ms).unwrap();
            nodes[left].receive(one, &back, now_ms).unwrap();
        }
    }
    assert_same(&a, &b);
    assert_same(&a, &c);
    assert_eq!(a.log().len(), 97);
    // Each entry went to each node once.
    let sent = [&ab.0, &ab.1, &ac.0, &ac.1, &bc.0, &bc.1].map(|side| side.report().sent);
    assert_eq!(sent.iter().sum::<u64>(), 2 * 96, "{sent:?}");
}

/// Alice's entry with a deletable value.
fn committed(pair: &mut Pair, salt: u8) -> Signed {
    let opening = opening(&format!("value {salt}"), salt);
    let value = Some(Value::Committed(opening.commitment()));
    let action = change(1, &format!("field-{salt}"), FieldChange::Set(value));
    let made = pair.alice.make(&mut pair.log, action).unwrap();
    Signed { opening: Some(opening), ..made }
}

fn bare(signed: &Signed) -> Signed {
    Signed { opening: None, ..signed.clone() }
}

/// A value that one peer withheld comes from another one. Both sides of a session get theirs before
/// it is over, and nothing is asked twice.
#[test]
fn withheld_values_come_from_another_peer() {
    let mut pair = pair();
    let [one, two, three] = [1, 2, 3].map(|salt| committed(&mut pair, salt));
    let (genesis, grant) = (&pair.genesis, &pair.grant);
    let mut a = Node::with(&[genesis, grant, &one, &bare(&two), &bare(&three)]);
    let mut b = Node::with(&[genesis, grant, &bare(&one), &two, &bare(&three)]);
    assert_eq!(a.log().missing_values(), 2);
    for (left, right) in [(true, 1), (false, 0)] {
        let (a, b) = if left { (&mut a, &mut b) } else { (&mut b, &mut a) };
        let (bytes, first, other) = exchange(a, b, 1000);
        let values = [&first, &other].map(|side| side.report().values);
        assert_eq!(values, [right, right]);
        assert_eq!([first.report().sent, first.report().added], [right, 0]);
        assert!(bytes < 2000, "{bytes}");
        assert_eq!((a.log().missing_values(), b.log().missing_values()), (1, 1));
    }
    // Who gets the entry later gets all that is known.
    let mut c = Node::with(&[genesis]);
    let (_, session, _) = exchange(&mut c, &mut a, 1000);
    assert_eq!((session.report().added, session.report().values), (4, 0));
    assert_eq!(c.log().missing_values(), 1);
}

/// A node asks again after a while: its peer has got the value from somebody else meanwhile.
#[test]
fn a_value_travels_over_nodes_that_lacked_it() {
    let mut pair = pair();
    let one = committed(&mut pair, 1);
    let (genesis, grant) = (&pair.genesis, &pair.grant);
    let without = || Node::with(&[genesis, grant, &bare(&one)]);
    let (mut a, mut b, mut c) = (Node::with(&[genesis, grant, &one]), without(), without());
    let new = |number| Session::new(genesis.id, number, Mode::Stay, 0);
    let mut bc = (new(1), new(1));
    let mut ab = (new(1), new(2));
    let mut came = [0, 0];
    for now_ms in (0..3 * VALUES_MS).step_by(10) {
        let turn = |left: &mut Node, right: &mut Node, (one, other): &mut (Session, Session)| {
            let (out, back) = (take(one, 5000, now_ms), take(other, 5000, now_ms));
            right.receive(other, &out, now_ms).unwrap();
            left.receive(one, &back, now_ms).unwrap();
        };
        turn(&mut b, &mut c, &mut bc);
        // The third node comes after the others have asked each other.
        if now_ms >= 10_000 {
            turn(&mut a, &mut b, &mut ab);
        }
        for (node, came) in [&b, &c].into_iter().zip(&mut came) {
            if *came == 0 && node.log().missing_values() == 0 {
                *came = now_ms;
            }
        }
    }
    assert!((10_000..11_000).contains(&came[0]), "{came:?}");
    assert!((VALUES_MS..VALUES_MS + 1000).contains(&came[1]), "{came:?}");
    assert_eq!(bc.0.report().sent + bc.1.report().sent, 1);
}

/// More values than one question holds are asked for in several, and rounds without a value become
/// rare.
#[test]
fn rounds_of_questions_are_bounded() {
    let mut victim = Victim::new();
    let grant = victim.grant.clone();
    let mut pair = pair();
    let entries: Vec<Signed> = (0..3).map(|salt| bare(&committed(&mut pair, salt))).collect();
    victim.node.add(&[&grant]);
    victim.node.add(&entries.iter().collect::<Vec<_>>());
    victim.announce(1, grant.id, 0).unwrap();
    let (mut now_ms, mut asked) = (0, Vec::new());
    while asked.len() < 9 {
        let is_asked = victim.said().contains(&VALUES);
        if is_asked {
            asked.push(now_ms);
        }
        let frame = if is_asked { Frame::End { more: false } } else { Frame::Alive };
        victim.get(&[frame], now_ms).unwrap();
        now_ms = now_ms.max(victim.session.next_ms(&victim.node.fetching)).min(now_ms + ALIVE_MS);
    }
    let pauses: Vec<u64> = asked.windows(2).map(|two| (two[1] - two[0]) / VALUES_MS).collect();
    assert_eq!(pauses, [1, 2, 4, 8, 16, 32, 60, 60]);
    // An answer is due like that to any want, and ends once.
    assert!(victim.said().contains(&VALUES) || victim.get(&[Frame::Alive], now_ms).is_ok());
    let mut victim = Victim::new();
    victim.node.add(&[&grant]);
    victim.node.add(&entries.iter().collect::<Vec<_>>());
    victim.announce(1, grant.id, 0).unwrap();
    assert_eq!(victim.get(&[Frame::Alive], ANSWER_MS), Err("slow".into()));
}

/// A peer that asks for values again and again gets an answer now and then, and only one question
/// may be open.
#[test]
fn questions_for_values_that_are_repeated_wait() {
    let mut pair = pair();
    let one = committed(&mut pair, 1);
    let mut victim = Victim::new();
    let grant = victim.grant.clone();
    victim.node.add(&[&grant, &one]);
    let ask = || [Frame::Values(vec![one.id, EntryId([7; 32]), one.id])];
    assert_eq!(victim.get(&ask(), 1), Err("protocol".into()));
    let mut victim = Victim::new();
    victim.node.add(&[&grant, &one]);
    victim.announce(1, one.id, 0).unwrap();
    victim.get(&ask(), 10).unwrap();
    let said = victim.said();
    assert_eq!(said.into_iter().filter(|kind| *kind == ENTRIES).collect::<Vec<_>>(), [ENTRIES]);
    assert_eq!(victim.session.report().sent, 1);
    victim.get(&ask(), 20).unwrap();
    assert!(!victim.said().contains(&ENTRIES));
    assert_eq!(victim.session.next_ms(&victim.node.fetching), 10 + REPEAT_MS);
    victim.node.advance(&mut victim.session, 10 + REPEAT_MS).unwrap();
    assert!(victim.said().contains(&ENTRIES));
    victim.get(&ask(), 11 + REPEAT_MS).unwrap();
    assert_eq!(victim.get(&ask(), 12 + REPEAT_MS), Err("protocol".into()));
}

/// A peer that answers with another value is cut off, and one with a deleted value is not heard.
#[test]
fn a_wrong_value_ends_the_session() {
    let mut pair = pair();
    let one = committed(&mut pair, 1);
    for (value, ended) in [("value 1", Ok(())), ("another", Err("refused".into()))] {
        let mut victim = Victim::new();
        let grant = victim.grant.clone();
        victim.node.add(&[&grant, &bare(&one)]);
        victim.announce(1, one.id, 0).unwrap();
        assert!(victim.said().contains(&VALUES));
        let sent = Signed { opening: Some(opening(value, 1)), ..one.clone() }.to_record();
        assert_eq!(victim.get(&[Frame::Entries(vec![&sent])], 1), ended);
        assert_eq!(victim.node.log().missing_values(), u64::from(ended.is_err()));
    }
}

/// A node whose session to a full node has begun, and what it has said.
struct Victim {
    node: Node,
    session: Session,
    genesis: Signed,
    grant: Signed,
}

impl Victim {
    fn new() -> Self {
        let Pair { genesis, grant, .. } = pair();
        let node = Node::with(&[&genesis]);
        let session = Session::new(genesis.id, 1, Mode::Stay, 0);
        let mut victim = Self { node, session, genesis, grant };
        victim.get(&[Frame::Hello(victim.genesis.id)], 0).unwrap();
        victim
    }

    /// Takes frames from a hostile peer.
    fn get(&mut self, frames: &[Frame<'_>], now_ms: u64) -> Result<(), String> {
        let mut bytes = Vec::new();
        frames.iter().for_each(|frame| frame.write(&mut bytes));
        self.node.receive(&mut self.session, &bytes, now_ms)
    }

    /// Announces a head and waits for the want.
    fn announce(&mut self, number: u64, head: EntryId, now_ms: u64) -> Result<(), String> {
        self.get(&[Frame::Heads { number, is_last: true, ids: vec![head] }], now_ms)
    }

    /// The frames that the node has written since the last call.
    fn said(&mut self) -> Vec<u8> {
        let bytes = take(&mut self.session, usize::MAX, 0);
        let mut rest = &bytes[..];
        let mut kinds = Vec::new();
        while let Some((head, behind)) = rest.split_first_chunk::<5>() {
            kinds.push(head[0]);
            let length = u32::from_be_bytes(head[1..].try_into().unwrap());
            rest = &behind[length as usize..];
        }
        kinds
    }
}

const WANT: u8 = 3;
const ENTRIES: u8 = 4;
const VALUES: u8 = 9;
const BYE: u8 = 8;

#[test]
fn a_forged_entry_ends_the_session_and_is_reported_by_kind() {
    let mut victim = Victim::new();
    let mut mallory = Person::new(3, 1);
    let genesis = victim.genesis.clone();
    let grant = victim.grant.clone();
    // An entry by Alice, signed by somebody else.
    let mut other = Log::begin(&genesis).unwrap();
    let mut alice = Person::new(0, 1);
    let entry = alice.make(&mut other, set("x")).unwrap().entry;
    let forged = mallory.sign(Entry::clone(&entry), genesis.id);
    victim.announce(1, forged.id, 0).unwrap();
    assert!(victim.said().contains(&WANT));
    let records = [grant.to_record(), forged.to_record()];
    let records: Vec<&[u8]> = records.iter().map(Vec::as_slice).collect();
    assert_eq!(victim.get(&[Frame::Entries(records)], 1), Err("refused".into()));
    assert_eq!(victim.session.report().refused.get("signature"), Some(&1));
    // The good entry beside it was taken.
    assert_eq!(victim.session.report().added, 1);
    assert_eq!(victim.said().last(), Some(&BYE));
    // Nothing is taken afterwards.
    victim.get(&[Frame::Alive], 2).unwrap();
    assert!(victim.session.is_over());
}

#[test]
fn garbage_ends_the_session() {
    let frames: [&[u8]; 8] = [
        b"GET / HTTP/1.1\r\n\r\n",
        &[10, 0, 0, 0, 0],
        &[9, 0, 0, 0, 1, 0],
        &[1, 0xff, 0xff, 0xff, 0xff],
        &[4, 0, 0x40, 0, 1],
        &[5, 0, 0, 0, 1, 2],
        &[7, 0, 0, 0, 1],
        &[8, 0, 0, 0, 1, 99],
    ];
    for bytes in frames {
        let mut victim = Victim::new();
        let error = victim.node.receive(&mut victim.session, bytes, 1);
        assert_eq!(error, Err("protocol".into()), "{bytes:?}");
        assert!(victim.session.bytes() < 10_000);
    }
    for frame in [
        Frame::Hello(EntryId([1; 32])),
        Frame::Entries(vec![]),
        Frame::End { more: false },
        Frame::Want { is_last: true, ids: vec![] },
        Frame::Values(vec![]),
        Frame::Heads { number: 2, is_last: true, ids: vec![] },
        Frame::Took(talaria_log::Took { number: 9, ..Default::default() }),
    ] {
        let mut victim = Victim::new();
        assert_eq!(
            victim.get(std::slice::from_ref(&frame), 1),
            Err("protocol".into()),
            "{frame:?}"
        );
    }
    // Garbage instead of records.
    let mut victim = Victim::new();
    victim.announce(1, EntryId([3; 32]), 0).unwrap();
    assert_eq!(victim.get(&[Frame::Entries(vec![&[1, 2, 3]])], 1), Err("protocol".into()));
    // Another log.
    let mut session = Session::new(EntryId([1; 32]), 1, Mode::Stay, 0);
    let mut hello = Vec::new();
    Frame::Hello(EntryId([2; 32])).write(&mut hello);
    let done = victim.node.receive(&mut session, &hello, 0);
    assert_eq!(done, Err("other-log".into()));
}

#[test]
fn a_peer_that_promises_and_does_not_send_is_left() {
    let mut victim = Victim::new();
    victim.announce(1, EntryId([3; 32]), 0).unwrap();
    // It is alive, and does not answer.
    for now_ms in (0..ANSWER_MS).step_by(1000) {
        victim.get(&[Frame::Alive], now_ms).unwrap();
    }
    assert_eq!(victim.get(&[Frame::Alive], ANSWER_MS), Err("slow".into()));
    // It answers with nothing, again and again.
    let mut victim = Victim::new();
    victim.announce(1, EntryId([3; 32]), 0).unwrap();
    let (mut now_ms, mut wants) = (0, 0);
    let error = loop {
        let said = victim.said();
        let asked = said.contains(&WANT);
        wants += usize::from(asked);
        let frame = if asked { Frame::End { more: true } } else { Frame::Alive };
        if let Err(error) = victim.get(&[frame], now_ms) {
            break error;
        }
        now_ms = now_ms.max(victim.session.next_ms(&victim.node.fetching));
    };
    assert_eq!((error.as_str(), wants), ("promise", 3));
}

#[test]
fn a_peer_that_drips_or_is_silent_is_left() {
    // No hello.
    let mut node = Victim::new().node;
    let mut session = Session::new(node.log().id(), 1, Mode::Stay, 0);
    node.advance(&mut session, HELLO_MS - 1).unwrap();
    assert_eq!(node.advance(&mut session, HELLO_MS), Err("slow".into()));
    // Silence.
    let mut victim = Victim::new();
    victim.said();
    assert_eq!(victim.node.advance(&mut victim.session, IDLE_MS), Err("slow".into()));
    // A frame that comes a byte at a time.
    let mut victim = Victim::new();
    let mut bytes = Vec::new();
    Frame::Heads { number: 1, is_last: true, ids: vec![EntryId([1; 32]); 100] }.write(&mut bytes);
    let mut error = Ok(());
    let mut now_ms = 0;
    for byte in bytes {
        victim.said();
        error = victim.node.receive(&mut victim.session, &[byte], now_ms);
        if error.is_err() {
            break;
        }
        now_ms += 50;
    }
    assert_eq!(error, Err("slow".into()));
    assert!(now_ms < FRAME_MS + 1000);
}

#[test]
fn a_peer_that_never_reads_costs_bounded_memory_and_is_left() {
    let mut victim = Victim::new();
    let mut alice = Person::new(0, 1);
    let grant = victim.grant.clone();
    victim.node.add(&[&grant]);
    let long = "x".repeat(60_000);
    victim.node.write(&mut alice, &vec![long.as_str(); 100]);
    victim.announce(1, victim.genesis.id, 1).unwrap();
    victim.get(&[Frame::Want { is_last: true, ids: vec![] }], 2).unwrap();
    let mut now_ms = 2;
    let error = loop {
        // It goes on sending.
        if let Err(error) = victim.get(&[Frame::Alive], now_ms) {
            break error;
        }
        assert!(victim.session.bytes() < 4 << 20, "{}", victim.session.bytes());
        now_ms += 1000;
    };
    assert_eq!(error, "slow");
    assert!(now_ms <= SEND_MS + 1000);
    assert!(victim.session.output().len() > OUTPUT_LOW);
}

#[test]
fn floods_end_the_session() {
    let mut victim = Victim::new();
    let mut frames = 0;
    let error = loop {
        match victim.get(&[Frame::Alive], 500) {
            Ok(()) => frames += 1,
            Err(error) => break error,
        }
    };
    assert_eq!((error.as_str(), frames), ("flood", FRAMES_MAX - 1));
    // Endless heads.
    let mut victim = Victim::new();
    let mut made = 0_u64;
    let error = loop {
        let ids = (0..4096_u64).map(|_| {
            made += 1;
            EntryId::of(&made.to_be_bytes())
        });
        let frame = Frame::Heads { number: 1, is_last: false, ids: ids.collect() };
        if let Err(error) = victim.get(&[frame], 1000) {
            break error;
        }
        assert!(victim.session.bytes() < 24 << 20);
    };
    assert_eq!(error, "flood");
    assert!(usize::try_from(made).unwrap() <= HEADS_KEPT_MAX + 4096);
}

/// A want that brings nothing new is answered again only after a pause.
#[test]
fn wants_that_are_repeated_wait() {
    let mut victim = Victim::new();
    let genesis = victim.genesis.id;
    victim.announce(1, genesis, 0).unwrap();
    let want = || [Frame::Want { is_last: true, ids: vec![genesis] }];
    victim.get(&want(), 10).unwrap();
    assert!(victim.said().contains(&5));
    victim.get(&want(), 20).unwrap();
    assert!(!victim.said().contains(&5));
    // A second one at the same time is not allowed.
    let due = 10 + REPEAT_MS;
    assert_eq!(victim.session.next_ms(&victim.node.fetching), due);
    victim.node.advance(&mut victim.session, due).unwrap();
    assert!(victim.said().contains(&5));
    victim.get(&want(), due + 1).unwrap();
    assert_eq!(victim.get(&want(), due + 2), Err("protocol".into()));
}

/// An entry whose clock is ahead waits. It is not wanted again and again, and those behind it are
/// not either.
#[test]
fn entries_that_are_ahead_are_not_fetched_again() {
    let Pair { mut alice, mut carol, genesis, grant, .. } = pair();
    let mut a = Node::with(&[&genesis, &grant]);
    let make = |log: &mut Log| {
        let ahead = alice.make_at(log, set("later"), NOW_MS + 3_600_000).unwrap();
        let behind = alice.make_at(log, set("behind"), NOW_MS).unwrap();
        let linked = carol.make_at(log, set("linked"), NOW_MS).unwrap();
        Ok::<_, ()>(vec![ahead, behind, linked])
    };
    a.copy.append(make).unwrap().unwrap();
    let mut b = Node::with(&[&genesis]);
    let (_, one, other) = exchange(&mut b, &mut a, 1000);
    let report = one.report();
    assert_eq!((report.added, report.ahead, report.waiting, report.lacking), (1, 1, 2, 0));
    assert_eq!((other.report().peer.ahead, other.report().peer.lacking), (1, 0));
    let (_, one, other) = exchange(&mut b, &mut a, 1000);
    assert_eq!((one.report().known, other.report().sent), (0, 0));
}

#[test]
fn a_farewell_names_the_reason() {
    let mut victim = Victim::new();
    let fetching = Fetching::default();
    victim.session.end(Farewell::NotPublished, "publish it first", &fetching);
    let mut peer = Victim::new();
    let bytes = take(&mut victim.session, usize::MAX, 0);
    let mut session = Session::new(peer.genesis.id, 2, Mode::Once, 0);
    let error =
        session.receive(&bytes, &mut peer.node.copy, &peer.node.fetching, 0, NOW_MS).unwrap_err();
    assert!(error.to_string().ends_with("not-published: publish it first"), "{error}");
    assert!(matches!(error, SyncError::Bye { reason: Farewell::NotPublished, .. }));
}
