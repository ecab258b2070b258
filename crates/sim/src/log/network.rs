//! A network that loses, delays, repeats and reorders packets, and can be parted.

use std::collections::{BTreeMap, BTreeSet};

use talaria_log::EntryId;

use crate::numbers::Numbers;

/// A packet between two nodes.
#[derive(Clone, Debug)]
pub(super) enum Packet {
    /// The entries that the sender has: a question for the others.
    Have(BTreeSet<EntryId>),
    /// Entries, as records.
    Records(Vec<Vec<u8>>),
}

/// Packets on their way, by the time of arrival.
#[derive(Default)]
pub(super) struct Network {
    packets: BTreeMap<(u64, u64), Sent>,
    /// The number of packets so far.
    sent: u64,
    /// Nodes on one side of a partition, as bits. Zero without one.
    pub(super) parted: u32,
    pub(super) lost: u64,
    pub(super) repeated: u64,
}

/// A packet on its way.
pub(super) struct Sent {
    pub(super) from: usize,
    pub(super) to: usize,
    pub(super) packet: Packet,
}

impl Network {
    /// Whether two nodes cannot reach each other.
    pub(super) fn is_parted(&self, one: usize, other: usize) -> bool {
        ((self.parted >> one) ^ (self.parted >> other)) & 1 == 1
    }

    /// Sends a packet at `now_ms`.
    pub(super) fn send(
        &mut self,
        (from, to): (usize, usize),
        packet: &Packet,
        now_ms: u64,
        numbers: &mut Numbers,
    ) {
        if numbers.percent(12) || self.is_parted(from, to) {
            self.lost += 1;
            return;
        }
        let copies = if numbers.percent(8) { 2 } else { 1 };
        self.repeated += copies - 1;
        for _ in 0..copies {
            let most_ms = if numbers.percent(10) { 120_000 } else { 4_000 };
            let due = now_ms + 5 + numbers.below(most_ms) as u64;
            self.sent += 1;
            self.packets.insert((due, self.sent), Sent { from, to, packet: packet.clone() });
        }
    }

    /// The packets that have arrived at `now_ms`.
    pub(super) fn arrived(&mut self, now_ms: u64) -> Vec<Sent> {
        let later = self.packets.split_off(&(now_ms + 1, 0));
        std::mem::replace(&mut self.packets, later).into_values().collect()
    }

    pub(super) fn sent(&self) -> u64 {
        self.sent
    }
}
