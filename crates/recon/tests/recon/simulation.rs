//! Twenty servers that gossip over bad connections end with equal sets.
//!
//! One seed decides everything. A failure prints the seed; `SEED=N cargo test -p talaria-recon
//! simulation` repeats the run.

use std::env;

use crate::peers::Side;
use crate::peers::digest::digest;
use talaria_recon::{ExchangeOutcome, ExchangeRole, PrefixTree, Settings};

const SERVERS: usize = 20;

/// The number of rounds with failing connections and new certificates.
const BAD_ROUNDS: u64 = 20;

/// The number of further rounds within which all servers must be equal.
const GOOD_ROUNDS: u64 = 60;

#[test]
fn servers_converge_over_bad_connections() {
    let seeds = match env::var("SEED") {
        Ok(seed) => vec![seed.parse().unwrap()],
        Err(_) => (1..=12).collect(),
    };
    for seed in seeds {
        println!("SEED={seed}");
        Simulation::new(seed).run();
    }
}

/// A fault of a connection.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Fault {
    None,
    /// The rest of the bytes is lost.
    Cut,
    /// One bit is flipped.
    Garbled,
    /// Some bytes are missing.
    Lost,
    /// Some bytes arrive twice.
    Repeated,
}

struct Simulation {
    seed: u64,
    drawn: u64,
    round: u64,
    trees: Vec<PrefixTree>,
    /// The peers of each server.
    peers: Vec<Vec<usize>>,
    /// The number of the next certificate.
    next: u64,
    seen: Vec<Fault>,
}

impl Simulation {
    fn new(seed: u64) -> Self {
        let trees = vec![PrefixTree::default(); SERVERS];
        let (peers, seen) = (vec![Vec::new(); SERVERS], Vec::new());
        let mut new = Self { seed, drawn: 0, round: 0, trees, peers, next: 0, seen };
        // A tree of connections, and some more.
        for server in 1..SERVERS {
            let peer = new.below(server as u64);
            new.peers[server].push(peer);
        }
        for _ in 0..new.below(20) {
            let (server, peer) = (new.below(SERVERS as u64), new.below(SERVERS as u64));
            if server != peer {
                new.peers[server].push(peer);
            }
        }
        // A dump that most servers have loaded, and further certificates.
        let dump: Vec<_> = (0..2000).map(digest).collect();
        new.next = 2000;
        for server in 0..SERVERS {
            if new.below(5) > 0 {
                new.trees[server].insert_many(dump.iter().copied());
            }
            for _ in 0..new.below(60) {
                new.arrive(server);
            }
        }
        new
    }

    fn below(&mut self, bound: u64) -> usize {
        self.drawn += 1;
        let random = digest(self.seed << 32 | self.drawn);
        let number = u64::from_be_bytes(random.0[..8].try_into().unwrap());
        usize::try_from(number % bound).unwrap()
    }

    /// Someone uploads a certificate.
    fn arrive(&mut self, server: usize) {
        self.trees[server].insert(digest(self.next));
        self.next += 1;
    }

    fn run(mut self) {
        while self.round < BAD_ROUNDS || !self.is_equal() {
            self.round += 1;
            assert!(self.round <= BAD_ROUNDS + GOOD_ROUNDS, "SEED={} does not converge", self.seed);
            for server in 0..SERVERS {
                let choices = self.peers[server].len() as u64;
                if choices > 0 {
                    let choice = self.below(choices);
                    self.gossip(self.peers[server][choice], server);
                }
            }
        }
        let len = u64::try_from(self.trees[0].len()).unwrap();
        assert_eq!(len, self.next, "SEED={}: something was lost or invented", self.seed);
        for tree in &self.trees {
            assert_eq!(tree.check(), Ok(()), "SEED={}", self.seed);
        }
        for fault in [Fault::Cut, Fault::Garbled, Fault::Lost, Fault::Repeated] {
            assert!(self.seen.contains(&fault), "SEED={}: no {fault:?}", self.seed);
        }
    }

    fn is_equal(&self) -> bool {
        self.trees.iter().all(|tree| *tree == self.trees[0])
    }

    /// One connection, and then both fetch.
    fn gossip(&mut self, acceptor: usize, initiator: usize) {
        let settings = || Settings { wanted_max: 500, ..Settings::default() };
        let seed = self.drawn;
        let mut sides = [
            Side::new(ExchangeRole::Acceptor, settings(), seed),
            Side::new(ExchangeRole::Initiator, settings(), seed),
        ];
        let servers = [acceptor, initiator];
        let mut fault = Fault::None;
        if self.round <= BAD_ROUNDS && self.below(2) == 0 {
            fault = [Fault::Cut, Fault::Garbled, Fault::Lost, Fault::Repeated][self.below(4)];
        }
        // The transmission with the fault.
        let mut countdown = self.below(12);
        let mut alive = [true, true];
        while alive == [true, true] {
            let due = [sides[0].outbox.take_due(), sides[1].outbox.take_due()];
            if due.iter().all(Vec::is_empty) {
                break;
            }
            for (from, mut bytes) in due.into_iter().enumerate() {
                let to = 1 - from;
                if bytes.is_empty() {
                    continue;
                }
                if countdown == 0 && fault != Fault::None {
                    self.damage(fault, &mut bytes);
                    alive = [fault != Fault::Cut; 2];
                }
                countdown = countdown.wrapping_sub(1);
                if sides[to].receive(&bytes, &self.trees[servers[to]]).is_err() {
                    alive[to] = false;
                }
            }
            if self.round <= BAD_ROUNDS && self.below(40) == 0 {
                let server = servers[self.below(2)];
                self.arrive(server);
            }
        }
        let outcomes = sides.map(Side::outcome);
        for (side, outcome) in outcomes.into_iter().enumerate() {
            if let Some(outcome) = outcome {
                self.fetch(servers[side], servers[1 - side], &outcome);
            }
        }
    }

    fn damage(&mut self, fault: Fault, bytes: &mut Vec<u8>) {
        self.seen.push(fault);
        let at = self.below(bytes.len() as u64);
        match fault {
            Fault::None => {}
            Fault::Cut => bytes.truncate(at),
            Fault::Garbled => bytes[at] ^= 1 << self.below(8),
            Fault::Lost => drop(bytes.drain(at..bytes.len().min(at + 9))),
            Fault::Repeated => {
                let again = bytes[at..].to_vec();
                bytes.extend(again);
            }
        }
    }

    /// The peer delivers its certificates; during the faulty rounds some are lost.
    fn fetch(&mut self, server: usize, peer: usize, outcome: &ExchangeOutcome) {
        let mut fetched = Vec::new();
        for digest in &outcome.wanted {
            assert!(!self.trees[server].contains(digest), "SEED={}", self.seed);
            let lost = self.round <= BAD_ROUNDS && self.below(4) == 0;
            if self.trees[peer].contains(digest) && !lost {
                fetched.push(*digest);
            }
        }
        self.trees[server].insert_many(fetched);
    }
}
