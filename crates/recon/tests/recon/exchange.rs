//! Both roles with each other, and each with a model peer with other thresholds.

use std::collections::BTreeSet;
use std::time::Duration;

use crate::peers::digest::digest;
use crate::peers::{Failure, Side};
use proptest::prelude::*;
use talaria_recon::{
    Difference, Digest, Ending, ExchangeError, ExchangeOutcome, ExchangeRole, FilterRule,
    GossipMessage, OUTSTANDING_MAX, POINTS, PeerConfig, Prefix, PrefixTree, REPLY_DIGESTS_MAX,
    Settings, Values, reconcile,
};

fn settings() -> Settings {
    Settings { wanted_max: usize::MAX, ..Settings::default() }
}

fn sides(seed: u64) -> (Side, Side) {
    let side = |role| Side::new(role, settings(), seed);
    (side(ExchangeRole::Acceptor), side(ExchangeRole::Initiator))
}

/// Runs both sides until neither has more to send. Bytes arrive in pieces of `piece`.
fn run(
    acceptor: &mut Side,
    acceptors: &PrefixTree,
    initiator: &mut Side,
    initiators: &PrefixTree,
    piece: usize,
) -> Result<(), Failure> {
    loop {
        let (requests, answers) = (acceptor.outbox.take_due(), initiator.outbox.take_due());
        if requests.is_empty() && answers.is_empty() {
            return Ok(());
        }
        for piece in requests.chunks(piece) {
            initiator.receive(piece, initiators)?;
        }
        for piece in answers.chunks(piece) {
            acceptor.receive(piece, acceptors)?;
        }
    }
}

fn only(tree: &PrefixTree, other: &PrefixTree) -> Vec<Digest> {
    tree.iter().filter(|digest| !other.contains(digest)).collect()
}

/// The missing digests of both sides after an exchange.
fn compare(
    acceptors: &PrefixTree,
    initiators: &PrefixTree,
    piece: usize,
) -> (ExchangeOutcome, ExchangeOutcome) {
    let (mut acceptor, mut initiator) = sides(acceptors.len() as u64);
    run(&mut acceptor, acceptors, &mut initiator, initiators, piece).unwrap();
    (acceptor.outcome().unwrap(), initiator.outcome().unwrap())
}

fn config() -> PeerConfig {
    PeerConfig {
        version: "1.1.6".into(),
        http_port: 80,
        bit_quantum: 2,
        m_bar: 5,
        filters: "yminsky.merge,yminsky.dedup".into(),
    }
}

fn encoded(messages: &[GossipMessage]) -> Vec<u8> {
    let mut bytes = Vec::new();
    messages.iter().for_each(|message| message.encode(&mut bytes));
    bytes
}

/// The answers of one side to these messages.
fn told(
    role: ExchangeRole,
    settings: Settings,
    tree: &PrefixTree,
    messages: &[GossipMessage],
) -> Result<Side, Failure> {
    let mut side = Side::new(role, settings, 1);
    side.receive(&encoded(messages), tree)?;
    Ok(side)
}

fn refusal(role: ExchangeRole, tree: &PrefixTree, messages: &[GossipMessage]) -> ExchangeError {
    let hello = [&[GossipMessage::Config(config()), GossipMessage::Passed], messages].concat();
    match told(role, settings(), tree, &hello) {
        Err(Failure::Exchange(error)) => error,
        Err(other) => panic!("{other:?}"),
        Ok(side) => panic!("{:?}", side.outcome()),
    }
}

#[test]
fn equal_sets_cost_one_request() {
    for len in [0, 1, 50, 51, 149, 1000, 20_000] {
        let tree: PrefixTree = (0..len).map(digest).collect();
        let (mut acceptor, mut initiator) = sides(len);
        run(&mut acceptor, &tree, &mut initiator, &tree, usize::MAX).unwrap();
        let (requests, answers) = (&initiator.received[2..], &acceptor.received[2..]);
        let [
            GossipMessage::Poly { prefix: Prefix::ROOT, .. },
            GossipMessage::Flush,
            GossipMessage::Done,
        ] = requests
        else {
            panic!("{len}: {requests:?}")
        };
        assert_eq!(answers, [GossipMessage::Elements(vec![])]);
        for side in [acceptor, initiator] {
            let outcome = side.outcome().unwrap();
            assert_eq!((outcome.wanted, outcome.ending), (vec![], Ending::Complete));
            assert_eq!((outcome.peer_http_port, outcome.requests), (11371, 1));
            assert_eq!(outcome.peer_version, "1.1.6");
        }
    }
}

#[test]
fn an_empty_server_learns_all_digests_in_parts() {
    let (empty, full) = (PrefixTree::default(), PrefixTree::build((0..30_000).map(digest)));
    let (outcome, other) = compare(&empty, &full, 4096);
    assert_eq!(outcome.wanted, only(&full, &empty));
    assert_eq!(other.wanted, []);
    let (other, outcome) = compare(&full, &empty, 4096);
    assert_eq!(outcome.wanted, only(&full, &empty));
    assert_eq!(other.wanted, []);
}

#[test]
fn an_exchange_ends_in_order_at_its_bound() {
    let (few, many) =
        (PrefixTree::build((0..500).map(digest)), PrefixTree::build((0..50_000).map(digest)));
    for few_accepts in [true, false] {
        let bounded = Settings { wanted_max: 700, ..Settings::default() };
        let (mut acceptor, mut initiator) = if few_accepts {
            (
                Side::new(ExchangeRole::Acceptor, bounded, 7),
                Side::new(ExchangeRole::Initiator, settings(), 7),
            )
        } else {
            (
                Side::new(ExchangeRole::Acceptor, settings(), 7),
                Side::new(ExchangeRole::Initiator, bounded, 7),
            )
        };
        let trees = if few_accepts { (&few, &many) } else { (&many, &few) };
        run(&mut acceptor, trees.0, &mut initiator, trees.1, 999).unwrap();
        assert!(acceptor.is_done() && initiator.is_done());
        assert_eq!(initiator.received.last(), Some(&GossipMessage::Done));
        let outcome = if few_accepts { acceptor } else { initiator }.outcome().unwrap();
        assert_eq!((outcome.wanted.len(), outcome.ending), (700, Ending::Cut));
        assert!(outcome.wanted.iter().all(|digest| many.contains(digest) && !few.contains(digest)));
    }
}

#[test]
fn a_lost_connection_keeps_the_digests_learned_so_far() {
    let (ours, theirs) =
        (PrefixTree::build((0..300).map(digest)), PrefixTree::build((0..302).map(digest)));
    let values = Box::new(theirs.at(Prefix::ROOT).values());
    let poly = GossipMessage::Poly { prefix: Prefix::ROOT, len: 302, values };
    let hello = [GossipMessage::Config(config()), GossipMessage::Passed, poly];
    let side = told(ExchangeRole::Initiator, settings(), &ours, &hello).unwrap();
    let outcome = side.outcome().unwrap();
    assert_eq!((outcome.wanted, outcome.ending), (only(&theirs, &ours), Ending::Cut));
    let side = told(ExchangeRole::Initiator, settings(), &ours, &hello[..1]).unwrap();
    assert_eq!(side.outcome(), None);
}

#[test]
fn answers_are_sent_at_the_flush() {
    let tree = PrefixTree::default();
    let full = GossipMessage::Full { prefix: Prefix::ROOT, digests: vec![] };
    let hello = [GossipMessage::Config(config()), GossipMessage::Passed, full.clone(), full];
    let mut side = told(ExchangeRole::Initiator, settings(), &tree, &hello).unwrap();
    let greeting = side.outbox.take_due();
    assert!(greeting.ends_with(b"passed"), "{greeting:?}");
    side.receive(&encoded(&[GossipMessage::Flush]), &tree).unwrap();
    assert_eq!(
        side.outbox.take_due(),
        encoded(&[const { GossipMessage::Elements(Vec::new()) }; 2])
    );
}

#[test]
fn configurations_are_compared() {
    let verdict = |settings: &Settings, theirs: PeerConfig| {
        let hello = [GossipMessage::Config(theirs), GossipMessage::Passed];
        match told(ExchangeRole::Initiator, settings.clone(), &PrefixTree::default(), &hello) {
            Ok(_) => None,
            Err(Failure::Exchange(error)) => Some(error),
            Err(other) => panic!("{other:?}"),
        }
    };
    let by_names = settings();
    assert_eq!(verdict(&by_names, config()), None);
    for version in ["0.1.5", "1.1.6+", "2.2.0-rc1", "0.2.0"] {
        assert_eq!(verdict(&by_names, PeerConfig { version: version.into(), ..config() }), None);
    }
    for version in ["", "0.1.4", "0.0.99", "1.1", "1..6", "one.two.three", "1.1.", "-1.1.1"] {
        let theirs = PeerConfig { version: version.into(), ..config() };
        assert_eq!(verdict(&by_names, theirs), Some(ExchangeError::Version(version.into())));
    }
    let theirs = PeerConfig { bit_quantum: 3, ..config() };
    let expected = ExchangeError::Parameter { name: "bitquantum", theirs: 3, ours: 2 };
    assert_eq!(verdict(&by_names, theirs), Some(expected));
    let theirs = PeerConfig { m_bar: 6, ..config() };
    let expected = ExchangeError::Parameter { name: "mbar", theirs: 6, ours: 5 };
    assert_eq!(verdict(&by_names, theirs), Some(expected));
    let theirs = PeerConfig { filters: "yminsky.dedup".into(), ..config() };
    assert!(matches!(verdict(&by_names, theirs), Some(ExchangeError::Filters { .. })));
    let by_text = Settings { filter_rule: FilterRule::SameText, ..settings() };
    assert!(matches!(verdict(&by_text, config()), Some(ExchangeError::Filters { .. })));
    let theirs = PeerConfig { filters: by_text.filters.clone(), ..config() };
    assert_eq!(verdict(&by_text, theirs), None);
}

#[test]
fn a_refusal_is_sent_with_its_reason() {
    let tree = PrefixTree::default();
    let mut side = Side::new(ExchangeRole::Acceptor, settings(), 1);
    let theirs = GossipMessage::Config(PeerConfig { m_bar: 7, ..config() });
    assert!(side.receive(&encoded(&[theirs]), &tree).is_err());
    let told = side.outbox.take_due();
    let expected = encoded(&[GossipMessage::Failed("the peer has mbar 7, not 5".into())]);
    assert!(told.ends_with(&expected), "{}", String::from_utf8_lossy(&told));

    // The reason quotes the peer, up to a limit.
    let mut side = Side::new(ExchangeRole::Acceptor, settings(), 1);
    let theirs = GossipMessage::Config(PeerConfig { filters: "é".repeat(8000), ..config() });
    assert!(side.receive(&encoded(&[theirs]), &tree).is_err());
    let sent = side.outbox.take_due();
    assert!((2000..2500).contains(&sent.len()), "{}", sent.len());
    let mut peer = Side::new(ExchangeRole::Initiator, settings(), 1);
    let Err(Failure::Exchange(ExchangeError::Refused(reason))) = peer.receive(&sent, &tree) else {
        panic!("not refused")
    };
    // The first words of it are kept.
    assert_eq!(reason.chars().count(), 200);

    let mut side = Side::new(ExchangeRole::Acceptor, settings(), 1);
    let no = [GossipMessage::Config(config()), GossipMessage::Failed("not you".into())];
    let refused = Failure::Exchange(ExchangeError::Refused("not you".into()));
    assert_eq!(side.receive(&encoded(&no), &tree), Err(refused));
}

#[test]
fn messages_out_of_order_are_refused() {
    let tree = PrefixTree::default();
    let unexpected = |found, due| ExchangeError::Unexpected { found, due };
    for (role, messages, expected) in [
        (ExchangeRole::Acceptor, vec![GossipMessage::Flush], unexpected("flush", "an answer")),
        (ExchangeRole::Acceptor, vec![GossipMessage::Done], unexpected("end", "an answer")),
        (
            ExchangeRole::Initiator,
            vec![GossipMessage::SyncFail],
            unexpected("failure to compare", "a request"),
        ),
        (
            ExchangeRole::Initiator,
            vec![GossipMessage::Elements(vec![])],
            unexpected("set of missing digests", "a request"),
        ),
        (
            ExchangeRole::Initiator,
            vec![GossipMessage::Config(config())],
            unexpected("configuration", "a request"),
        ),
        (
            ExchangeRole::Acceptor,
            vec![GossipMessage::Error("ouch".into())],
            ExchangeError::Peer("ouch".into()),
        ),
        (
            ExchangeRole::Acceptor,
            // After three levels the request has the digests themselves.
            [const { GossipMessage::SyncFail }; 1 + 4 + 16 + 1].to_vec(),
            unexpected("failure to compare", "a set of missing digests"),
        ),
    ] {
        assert_eq!(refusal(role, &tree, &messages), expected);
    }
}

/// The error after the beginning of a message, which announces so many bytes.
fn announced(
    role: ExchangeRole,
    tree: &PrefixTree,
    messages: &[GossipMessage],
    kind: u8,
    len: usize,
) -> Option<ExchangeError> {
    let hello = [GossipMessage::Config(config()), GossipMessage::Passed];
    let mut side = told(role, settings(), tree, &[&hello[..], messages].concat()).unwrap();
    let mut beginning = u32::try_from(len).unwrap().to_be_bytes().to_vec();
    beginning.push(kind);
    match side.receive(&beginning, tree) {
        Ok(()) => None,
        Err(Failure::Exchange(error)) => Some(error),
        Err(other) => panic!("{other:?}"),
    }
}

#[test]
fn sets_that_nobody_asked_for_are_refused_before_they_arrive() {
    const SET: usize = 64 << 10;
    const OURS: usize = 17 * REPLY_DIGESTS_MAX + 5;
    const LARGEST: usize = 16 << 20;
    use ExchangeRole::{Acceptor, Initiator};
    let empty = PrefixTree::default();
    // The acceptor has asked for the root by values, and then for a node of six bits by digests.
    let to_digests = [const { GossipMessage::SyncFail }; 1 + 4 + 16];
    // The initiator answers a request for the root with all that it has, and may get what it lacks.
    let values = Box::new(tree_of(1).at(Prefix::ROOT).values());
    let invited = [GossipMessage::Poly { prefix: Prefix::ROOT, len: 9000, values }];
    for (role, messages, kind, longest) in [
        (Acceptor, &[][..], 2, SET),
        (Acceptor, &[], 3, SET),
        (Acceptor, &[], 4, SET),
        (Acceptor, &[], 7, 16 << 10),
        (Acceptor, &to_digests, 2, LARGEST),
        (Initiator, &[], 0, SET),
        (Initiator, &[], 1, SET),
        (Initiator, &invited, 2, LARGEST),
    ] {
        assert_eq!(announced(role, &empty, messages, kind, longest), None, "{role:?} {kind}");
        let error = announced(role, &empty, messages, kind, longest + 1);
        assert!(matches!(error, Some(ExchangeError::TooLong { max, .. }) if max == longest));
    }
    for (role, messages, kind) in [
        (Acceptor, &[][..], 0),
        (Acceptor, &[], 1),
        (Acceptor, &to_digests, 3),
        (Acceptor, &to_digests, 4),
        (Initiator, &[], 2),
        (Initiator, &[], 3),
        (Initiator, &invited, 3),
        (Initiator, &[], 8),
        (Initiator, &[], 11),
    ] {
        let error = announced(role, &empty, messages, kind, 6);
        assert!(matches!(error, Some(ExchangeError::Unexpected { .. })), "{role:?} {kind}");
    }
    // Far down the tree, a set has the length of one of ours at most.
    let tree = tree_of(20_000);
    let prefix = Prefix::new(digest(7), 12).unwrap();
    let values = Box::new(tree_of(1).at(prefix).values());
    let deep = [GossipMessage::Poly { prefix, len: 9000, values }];
    assert_eq!(announced(Initiator, &tree, &deep, 2, OURS), None);
    assert!(announced(Initiator, &tree, &deep, 2, OURS + 1).is_some());
}

fn tree_of(len: u64) -> PrefixTree {
    PrefixTree::build((0..len).map(digest))
}

#[test]
fn a_lying_peer_gains_nothing() {
    let tree = PrefixTree::build((0..1000).map(digest));
    let mut side = Side::new(ExchangeRole::Acceptor, settings(), 1);
    let hello = [GossipMessage::Config(config()), GossipMessage::Passed, GossipMessage::SyncFail];
    side.receive(&encoded(&hello), &tree).unwrap();
    let _ = side.outbox.take_due();
    // Four requests with the same answer: our digests, and one that matches only one request.
    let lie = GossipMessage::Elements(tree.iter().chain([digest(5000)]).collect());
    let lies = vec![lie; 4];
    side.receive(&encoded(&lies), &tree).unwrap();
    let outcome = side.outcome().unwrap();
    assert_eq!((outcome.wanted, outcome.requests), (vec![digest(5000)], 5));

    // An endless peer may fail once per node of the tree.
    let mut side = Side::new(ExchangeRole::Acceptor, settings(), 1);
    let hello = [GossipMessage::Config(config()), GossipMessage::Passed];
    side.receive(&encoded(&hello), &tree).unwrap();
    let fail = encoded(&[GossipMessage::SyncFail]);
    let fails = (0..10_000).take_while(|_| side.receive(&fail, &tree).is_ok()).count();
    assert!(fails < 200, "{fails}");

    // An initiator that gets the same request again and again.
    let mut side = Side::new(ExchangeRole::Initiator, settings(), 1);
    side.receive(&encoded(&hello), &tree).unwrap();
    let all = GossipMessage::Full { prefix: Prefix::ROOT, digests: vec![] };
    let all = encoded(&vec![all; 10]);
    let mut asked = 0;
    while !side.is_done() {
        side.receive(&all, &tree).unwrap();
        let _ = side.outbox.take_due();
        asked += 10;
    }
    assert!(asked <= 1010, "{asked}");
}

#[test]
fn the_cost_counts_each_comparison_and_is_small_for_each_difference() {
    let (small, large) = (tree_of(20_000), tree_of(30_000));
    for (acceptors, initiators) in [(&small, &large), (&large, &small)] {
        let (acceptor, initiator) = compare(acceptors, initiators, 4096);
        let found = [&acceptor, &initiator].map(|of| of.wanted.len() + of.offered);
        assert_eq!(found.into_iter().max(), Some(10_000));
        for outcome in [acceptor, initiator] {
            assert!(outcome.cost < Duration::from_secs(1), "{:?}", outcome.cost);
        }
    }
    let (acceptor, initiator) = compare(&small, &small, 4096);
    assert!(acceptor.cost + initiator.cost < Duration::from_micros(20));

    // The same five differences again and again.
    let more = PrefixTree::build((0..20_005).map(digest));
    let hello = [GossipMessage::Config(config()), GossipMessage::Passed];
    let mut side = Side::new(ExchangeRole::Initiator, settings(), 1);
    side.receive(&encoded(&hello), &small).unwrap();
    let values = Box::new(more.at(Prefix::ROOT).values());
    let poly = GossipMessage::Poly { prefix: Prefix::ROOT, len: 20_005, values };
    side.receive(&encoded(&vec![poly; 100]), &small).unwrap();
    let outcome = side.outcome().unwrap();
    assert_eq!(outcome.wanted.len(), 5);
    assert!(outcome.cost >= Duration::from_millis(10), "{:?}", outcome.cost);
}

/// A model peer with other thresholds and without a tree.
struct Model {
    digests: BTreeSet<Digest>,
    full_below: usize,
    wanted: BTreeSet<Digest>,
}

impl Model {
    fn at(&self, prefix: Prefix) -> Vec<Digest> {
        self.digests.iter().filter(|digest| prefix.contains(digest)).copied().collect()
    }

    fn values(&self, prefix: Prefix) -> Values {
        PrefixTree::build(self.at(prefix)).at(Prefix::ROOT).values()
    }

    /// Records new digests and returns those that the other side lacks.
    fn exchange(&mut self, prefix: Prefix, theirs: &[Digest]) -> Vec<Digest> {
        self.wanted.extend(theirs.iter().filter(|digest| !self.digests.contains(digest)));
        self.at(prefix).into_iter().filter(|digest| !theirs.contains(digest)).collect()
    }

    /// As the initiator.
    fn answer(&mut self, request: &GossipMessage) -> Option<GossipMessage> {
        match request {
            GossipMessage::Full { prefix, digests } => {
                Some(GossipMessage::Elements(self.exchange(*prefix, digests)))
            }
            GossipMessage::Poly { prefix, len, values } => {
                let ours = self.at(*prefix);
                let surplus = i64::from(*len) - i64::try_from(ours.len()).unwrap();
                let mut number = 0;
                let mut random = || {
                    number += 1;
                    u128::from_be_bytes(digest(number).0)
                };
                let (values, local) = (&values[..], self.values(*prefix));
                match reconcile(&POINTS, values, &local, surplus, &mut random) {
                    Some(Difference { remote_only, local_only }) => {
                        self.wanted.extend(remote_only.iter().map(|zp| zp.digest().unwrap()));
                        let digests = local_only.iter().map(|zp| zp.digest().unwrap());
                        Some(GossipMessage::Elements(digests.collect()))
                    }
                    None if ours.len() < self.full_below => Some(GossipMessage::FullElements(ours)),
                    None => Some(GossipMessage::SyncFail),
                }
            }
            GossipMessage::Elements(digests) => {
                self.exchange(Prefix::ROOT, digests);
                None
            }
            _ => None,
        }
    }

    /// As the acceptor, with one request at a time.
    fn ask(&mut self, peer: &mut Side, tree: &PrefixTree) {
        let mut queue = vec![Prefix::ROOT];
        while let Some(prefix) = queue.pop() {
            let digests = self.at(prefix);
            let request = if digests.len() < self.full_below {
                GossipMessage::Full { prefix, digests }
            } else {
                let len = u32::try_from(digests.len()).unwrap();
                GossipMessage::Poly { prefix, len, values: Box::new(self.values(prefix)) }
            };
            peer.receive(&encoded(&[request, GossipMessage::Flush]), tree).unwrap();
            match received(peer).pop().unwrap() {
                GossipMessage::Elements(digests) => {
                    self.exchange(prefix, &digests);
                }
                GossipMessage::FullElements(digests) => {
                    let ours = self.exchange(prefix, &digests);
                    peer.receive(&encoded(&[GossipMessage::Elements(ours)]), tree).unwrap();
                }
                GossipMessage::SyncFail => queue.extend(prefix.children().unwrap()),
                other => panic!("{other:?}"),
            }
        }
        peer.receive(&encoded(&[GossipMessage::Done]), tree).unwrap();
    }
}

/// The bytes that a side sends, without the handshake if that was sent.
fn received(side: &mut Side) -> Vec<GossipMessage> {
    let mut decoder = talaria_recon::Decoder::new();
    // Moves the decoder past the handshake.
    decoder.feed(&encoded(&[GossipMessage::Config(config()), GossipMessage::Passed]));
    decoder.feed(&side.outbox.take_due());
    std::iter::from_fn(|| decoder.next_message().unwrap()).skip(2).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn each_side_learns_exactly_its_missing_digests(
        shared in 0..2000u64, first in 0..600u64, second in 0..600u64, few: bool, piece in 1..999usize,
    ) {
        let (first, second) = if few { (first % 8, second % 8) } else { (first, second) };
        let tree = |from: u64, len: u64| -> PrefixTree {
            (0..shared).chain(from..from + len).map(digest).collect()
        };
        let (a, b) = (tree(10_000, first), tree(20_000, second));
        let (for_a, for_b) = compare(&a, &b, piece);
        prop_assert_eq!(&for_a.wanted, &only(&b, &a));
        prop_assert_eq!(&for_b.wanted, &only(&a, &b));
        prop_assert_eq!((for_a.ending, for_b.ending), (Ending::Complete, Ending::Complete));
        prop_assert_eq!(for_a.requests, for_b.requests);
    }

    #[test]
    fn peers_with_other_thresholds_agree(
        shared in 0..600u64, first in 0..200u64, second in 0..200u64,
        full_below in prop::sample::select(vec![1, 5, 50, 150, 400]),
    ) {
        let model: BTreeSet<_> = (0..shared).chain(10_000..10_000 + first).map(digest).collect();
        let tree: PrefixTree = (0..shared).chain(20_000..20_000 + second).map(digest).collect();
        let ours = only(&tree, &PrefixTree::build(model.iter().copied()));
        let theirs = only(&PrefixTree::build(model.iter().copied()), &tree);
        let hello = [GossipMessage::Config(config()), GossipMessage::Passed];

        let mut peer = Model { digests: model.clone(), full_below, wanted: BTreeSet::new() };
        let mut side = told(ExchangeRole::Initiator, settings(), &tree, &hello).unwrap();
        let _ = side.outbox.take_due();
        peer.ask(&mut side, &tree);
        prop_assert_eq!(&side.outcome().unwrap().wanted, &theirs);
        prop_assert!(peer.wanted.iter().eq(&ours));

        let mut peer = Model { digests: model, full_below, wanted: BTreeSet::new() };
        let mut side = Side::new(ExchangeRole::Acceptor, settings(), 5);
        let _ = side.outbox.take_due();
        side.receive(&encoded(&hello), &tree).unwrap();
        let greeting = side.outbox.take_due();
        let mut decoder = talaria_recon::Decoder::new();
        decoder.feed(&encoded(&hello[..1]));
        decoder.feed(&greeting);
        let mut outstanding = 0;
        let mut answers = Vec::new();
        while !side.is_done() {
            while let Some(request) = decoder.next_message().unwrap() {
                answers.extend(peer.answer(&request));
                if request == GossipMessage::Flush {
                    outstanding = answers.len();
                }
            }
            prop_assert!((1..=OUTSTANDING_MAX).contains(&outstanding));
            side.receive(&encoded(&answers), &tree).unwrap();
            answers.clear();
            decoder.feed(&side.outbox.take_due());
        }
        while let Some(request) = decoder.next_message().unwrap() {
            peer.answer(&request);
        }
        prop_assert_eq!(&side.outcome().unwrap().wanted, &theirs);
        prop_assert!(peer.wanted.iter().eq(&ours));
    }
}
