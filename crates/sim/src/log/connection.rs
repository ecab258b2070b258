//! Connections between two nodes: the exchange of `docs/formats/log-sync.md`, in pieces of any
//! length, until it ends or breaks.

use std::collections::HashSet;

use talaria_log::{
    EntryId, Fetching, Known, LACKING_MAX, Mode, Replica, Session, Signed, SyncError, Taken,
    VALUES_MAX, WANT_MAX, piece,
};

use super::disk::{Cut, Stopped};
use super::node::Node;
use crate::numbers::Numbers;

/// Most turns of a connection. An honest exchange of a few hundred entries needs far fewer.
const TURNS_MAX: usize = 4000;

/// The log of a node, as a session sees it.
struct NodeReplica<'a> {
    node: &'a mut Node,
    world_ms: u64,
    cut: &'a mut Cut,
    /// Whether the node gives no deletable values away.
    withholds: bool,
}

impl Replica for NodeReplica<'_> {
    type Error = Stopped;

    fn end(&mut self) -> Result<u64, Stopped> {
        Ok(self.node.stored.len() as u64)
    }

    fn knows(&mut self, id: &EntryId) -> Known {
        self.node.log.as_ref().map_or(Known::Lacking, |log| log.knows(id))
    }

    fn heads(&mut self, from: u64, end: u64) -> Vec<EntryId> {
        self.node.log.as_ref().map_or_else(Vec::new, |log| log.heads_between(from, end))
    }

    fn places(&mut self, between: (u64, u64), shared: &HashSet<EntryId>) -> Vec<EntryId> {
        let log = self.node.log.as_ref();
        log.map_or_else(Vec::new, |log| log.places_between(between, shared, WANT_MAX))
    }

    fn keep_last(&mut self, have: &mut HashSet<EntryId>) {
        if let Some(log) = &self.node.log {
            log.keep_last(have);
        }
    }

    fn lacking(&mut self, have: &HashSet<EntryId>) -> Vec<u64> {
        self.node.log.as_ref().map_or_else(Vec::new, |log| log.lacking(have, LACKING_MAX))
    }

    fn lacking_values(&mut self, behind: Option<EntryId>) -> Vec<EntryId> {
        let log = self.node.log.as_ref();
        log.map_or_else(Vec::new, |log| log.lacking_values(behind, VALUES_MAX))
    }

    fn places_of_values(&mut self, ids: &[EntryId]) -> Vec<u64> {
        let log = self.node.log.as_ref().filter(|_| !self.withholds);
        log.map_or_else(Vec::new, |log| log.places_of_values(ids))
    }

    fn read(&mut self, places: &[u64]) -> Result<Vec<Signed>, Stopped> {
        piece(places, |place| {
            let signed = &self.node.stored[usize::try_from(place).expect("a place in memory")];
            Ok(self.node.leaving(signed, self.withholds))
        })
    }

    fn take(&mut self, entries: Vec<Signed>, _: u64) -> Result<Taken, Stopped> {
        let ids: Vec<EntryId> = entries.iter().map(|signed| signed.id).collect();
        let now_ms = self.node.now_ms(self.world_ms);
        let Some(log) = &mut self.node.log else { return Err(Stopped::Cut) };
        let offered = log.offer(entries, now_ms);
        let (added, values) = (offered.added.len() as u64, offered.revealed.len() as u64);
        self.node.commit(offered.added, self.cut)?;
        self.node.commit_values(offered.revealed, self.cut)?;
        Ok(Taken { values, ..Taken::of(&ids, offered.outcomes, added) })
    }
}

/// The end of a connection.
#[derive(Debug, Default)]
pub(super) struct Ended {
    /// The node, of the two, whose disk stopped.
    pub(super) stopped: Option<(usize, Stopped)>,
    pub(super) added: u64,
    pub(super) waiting: u64,
    pub(super) values: u64,
}

/// Connects two nodes until both have what the other one had, or until `bytes` have gone over the
/// line.
///
/// # Errors
///
/// The reason if one of two honest nodes calls the other one faulty, or if the exchange does not
/// end.
pub(super) fn connect(
    nodes: &mut [&mut Node; 2],
    mut bytes: Option<usize>,
    world_ms: u64,
    mut cuts: [Cut; 2],
    withholds: [bool; 2],
    numbers: &mut Numbers,
) -> Result<Ended, String> {
    let mut ended = Ended::default();
    let Some(log) = nodes[0].stored.first().map(|genesis| genesis.id) else { return Ok(ended) };
    let mut now_ms = world_ms;
    let fetching = [Fetching::default(), Fetching::default()];
    let mut sessions = [1, 2].map(|number| Session::new(log, number, Mode::Once, now_ms));
    'line: for _ in 0..TURNS_MAX {
        let mut is_idle = true;
        for to in [0, 1] {
            let from = 1 - to;
            let waiting = sessions[from].output().len();
            let most = if numbers.percent(20) { 40 } else { 8192 };
            let mut length = waiting.min(1 + numbers.below(most));
            if let Some(left) = &mut bytes {
                length = length.min(*left);
                *left -= length;
                if *left == 0 {
                    break 'line;
                }
            }
            let sent = sessions[from].output()[..length].to_vec();
            sessions[from].sent(length, now_ms);
            is_idle &= length == 0;
            let node = &mut *nodes[to];
            let wall_ms = node.now_ms(world_ms);
            let cut = &mut cuts[to];
            let mut replica = NodeReplica { node, world_ms, cut, withholds: withholds[to] };
            let (session, fetching) = (&mut sessions[to], &fetching[to]);
            let result = session
                .receive(&sent, &mut replica, fetching, now_ms, wall_ms)
                .and_then(|()| session.advance(&mut replica, fetching, now_ms));
            match result {
                Ok(()) => {}
                Err(SyncError::Replica(stopped)) => {
                    ended.stopped = Some((to, stopped));
                    break 'line;
                }
                Err(error) if error.is_fault_of_peer() => {
                    return Err(format!("an honest node is called faulty: {error}"));
                }
                Err(_) => break 'line,
            }
        }
        if sessions.iter().all(|session| session.is_over() && session.output().is_empty()) {
            break;
        }
        let next_ms = [0, 1].map(|at| sessions[at].next_ms(&fetching[at]));
        now_ms = if is_idle { next_ms[0].min(next_ms[1]).max(now_ms + 1) } else { now_ms + 2 };
    }
    for session in &sessions {
        ended.added += session.report().added;
        ended.values += session.report().values;
        ended.waiting += session.report().waiting + session.report().ahead;
    }
    Ok(ended)
}
