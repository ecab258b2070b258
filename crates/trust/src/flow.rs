//! The web of trust as a network in which trust flows from roots to a user ID (the semantics of Sequoia's
//! web of trust, draft 1).
//!
//! A certification carries up to 120; one that is a trust signature delegates as well, as many steps as its
//! depth says, within its scope. What arrives over all paths, each of which uses up what it carries, is how much
//! a user ID is believed. A certification without a trust signature delegates nothing: unlike in
//! [`crate::evaluate`], a certificate that is valid introduces nobody by that.

use std::collections::HashMap;

use crate::{Level, Scope};

/// What makes a user ID valid.
pub const FULL: u8 = 120;
/// What makes a user ID marginally valid.
pub const PARTIAL: u8 = 40;
/// Steps that are looked at, however far a signature delegates.
const STEPS_MAX: u8 = 32;

/// A certification, or a delegation by one.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Edge {
    /// The certificate that made it.
    pub from: i64,
    /// The certificate that it is on.
    pub to: i64,
    /// The place of its user ID.
    pub user_id: usize,
    /// How much it carries.
    pub amount: u8,
    /// Steps that it delegates; 0 for none.
    pub depth: u8,
    /// What it delegates for.
    pub scope: Option<Scope>,
}

/// Where certifications come from.
pub trait Network {
    /// What goes wrong with reading.
    type Error;

    /// The certifications on a certificate that hold, not verified yet.
    ///
    /// # Errors
    ///
    /// What reading can meet.
    fn edges_to(&mut self, cert: i64) -> Result<Vec<Edge>, Self::Error>;

    /// Whether the certificate made it.
    ///
    /// # Errors
    ///
    /// What reading can meet.
    fn is_made(&mut self, edge: &Edge) -> Result<bool, Self::Error>;
}

/// A path and what flows over it: from a root to the user ID.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Path {
    /// Its certifications, that of the root first; none if the user ID is one of a root.
    pub edges: Vec<Edge>,
    /// How much flows.
    pub amount: u8,
}

/// The level of what has arrived.
#[must_use]
pub fn level(amount: u32) -> Level {
    match amount {
        _ if amount >= u32::from(FULL) => Level::Full,
        _ if amount >= u32::from(PARTIAL) => Level::Marginal,
        0 => Level::Unknown,
        _ => Level::Undefined,
    }
}

/// The paths from `roots`, each with what it may give, to a user ID of a certificate, until [`FULL`] has
/// arrived.
///
/// # Errors
///
/// Those of `network`.
pub fn paths<N: Network>(
    network: &mut N,
    roots: &[(i64, u8)],
    (cert, user_id, text): (i64, usize, &[u8]),
) -> Result<Vec<Path>, N::Error> {
    let roots: &HashMap<i64, u8> = &roots.iter().copied().collect();
    let mut search = Search {
        network,
        edges: HashMap::new(),
        made: HashMap::new(),
        used: HashMap::new(),
        given: HashMap::new(),
    };
    let mut found = Vec::new();
    let mut arrived = 0;
    if let Some(&amount) = roots.get(&cert) {
        found.push(Path { edges: Vec::new(), amount });
        arrived += u32::from(amount);
    }
    while arrived < u32::from(FULL) {
        let Some(path) = search.best(roots, (cert, user_id, text))? else { break };
        arrived += u32::from(path.amount);
        for edge in &path.edges {
            *search.used.entry(name(edge)).or_default() += path.amount;
        }
        *search.given.entry(path.edges[0].from).or_default() += path.amount;
        found.push(path);
    }
    Ok(found)
}

type Name = (i64, i64, usize);

fn name(edge: &Edge) -> Name {
    (edge.from, edge.to, edge.user_id)
}

struct Search<'n, N: Network> {
    network: &'n mut N,
    edges: HashMap<i64, Vec<Edge>>,
    made: HashMap<Name, bool>,
    /// What earlier paths carry.
    used: HashMap<Name, u8>,
    /// What roots have given.
    given: HashMap<i64, u8>,
}

/// A certificate from which the user ID can be reached.
#[derive(Clone)]
struct Reach {
    cert: i64,
    amount: u8,
    /// The certifications on the way, the one on the user ID last.
    edges: Vec<Edge>,
}

impl<N: Network> Search<'_, N> {
    /// The path over which most flows, the shortest of these.
    fn best(
        &mut self,
        roots: &HashMap<i64, u8>,
        (cert, user_id, text): (i64, usize, &[u8]),
    ) -> Result<Option<Path>, N::Error> {
        let mut best: Option<Path> = None;
        let mut reached: HashMap<i64, u8> = HashMap::new();
        let mut front = vec![Reach { cert, amount: FULL, edges: Vec::new() }];
        for step in 0..STEPS_MAX {
            let mut next: HashMap<i64, Reach> = HashMap::new();
            for reach in front {
                for edge in self.edges_to(reach.cert)? {
                    let fits = if step == 0 { edge.user_id == user_id } else { edge.depth >= step };
                    let left = edge.amount.saturating_sub(self.used(&edge));
                    let amount = left.min(reach.amount);
                    let within = edge.scope.as_ref().is_none_or(|scope| scope.has(text));
                    // A detour is no better than the way it leaves.
                    let known = reached.get(&edge.from).copied().unwrap_or(0);
                    let known = known.max(next.get(&edge.from).map_or(0, |reach| reach.amount));
                    let useful = amount > known && edge.from != cert;
                    if !(fits && within && useful && self.is_made(&edge)?) {
                        continue;
                    }
                    let edges = std::iter::once(edge.clone()).chain(reach.edges.iter().cloned());
                    let reach = Reach { cert: edge.from, amount, edges: edges.collect() };
                    next.insert(edge.from, reach);
                }
            }
            front = next.into_values().collect();
            // The order in a map is by chance.
            front.sort_unstable_by_key(|reach| reach.cert);
            for reach in &front {
                reached.insert(reach.cert, reach.amount);
                let Some(&root) = roots.get(&reach.cert) else { continue };
                let given = self.given.get(&reach.cert).copied().unwrap_or(0);
                let amount = reach.amount.min(root.saturating_sub(given));
                if amount > best.as_ref().map_or(0, |best| best.amount) {
                    best = Some(Path { edges: reach.edges.clone(), amount });
                }
            }
            if front.is_empty() {
                break;
            }
        }
        Ok(best)
    }

    fn used(&self, edge: &Edge) -> u8 {
        self.used.get(&name(edge)).copied().unwrap_or(0)
    }

    fn edges_to(&mut self, cert: i64) -> Result<Vec<Edge>, N::Error> {
        if let Some(edges) = self.edges.get(&cert) {
            return Ok(edges.clone());
        }
        let edges = self.network.edges_to(cert)?;
        self.edges.insert(cert, edges.clone());
        Ok(edges)
    }

    fn is_made(&mut self, edge: &Edge) -> Result<bool, N::Error> {
        if let Some(&made) = self.made.get(&name(edge)) {
            return Ok(made);
        }
        let made = self.network.is_made(edge)?;
        self.made.insert(name(edge), made);
        Ok(made)
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use super::*;

    struct Drawn(Vec<Edge>);

    impl Network for Drawn {
        type Error = Infallible;

        fn edges_to(&mut self, cert: i64) -> Result<Vec<Edge>, Infallible> {
            Ok(self.0.iter().filter(|edge| edge.to == cert).cloned().collect())
        }

        fn is_made(&mut self, _: &Edge) -> Result<bool, Infallible> {
            Ok(true)
        }
    }

    fn edge(from: i64, to: i64, amount: u8, depth: u8) -> Edge {
        Edge { from, to, user_id: 0, amount, depth, scope: None }
    }

    fn flow(edges: &[Edge], roots: &[(i64, u8)], target: i64) -> u32 {
        let Ok(paths) =
            paths(&mut Drawn(edges.to_vec()), roots, (target, 0, b"Alice <alice@example.org>"));
        paths.iter().map(|path| u32::from(path.amount)).sum()
    }

    #[test]
    fn a_certification_reaches_one_step() {
        let edges = [edge(1, 2, 120, 0), edge(2, 3, 120, 0)];
        assert_eq!(flow(&edges, &[(1, 120)], 2), 120);
        assert_eq!(flow(&edges, &[(1, 120)], 3), 0);
        assert_eq!(flow(&edges, &[(1, 120)], 1), 120);
        assert_eq!(flow(&edges, &[(2, 40)], 3), 40);
    }

    #[test]
    fn a_delegation_reaches_as_far_as_its_depth() {
        let chain = |depth| [edge(1, 2, 120, depth), edge(2, 3, 60, 1), edge(3, 4, 120, 0)];
        assert_eq!(flow(&chain(1), &[(1, 120)], 4), 0);
        assert_eq!(flow(&chain(2), &[(1, 120)], 4), 60);
        assert_eq!(flow(&chain(255), &[(1, 120)], 4), 60);
    }

    #[test]
    fn what_flows_over_several_paths_adds_up_and_is_used_up() {
        let two = [edge(1, 2, 60, 1), edge(1, 3, 60, 1), edge(2, 4, 120, 0), edge(3, 4, 120, 0)];
        assert_eq!(flow(&two, &[(1, 120)], 4), 120);
        assert_eq!(flow(&two, &[(1, 100)], 4), 100);
        // Both ways lead through one certification of 60.
        let neck = [edge(1, 2, 60, 2), edge(2, 3, 120, 1), edge(2, 4, 120, 1)];
        let neck = [&neck[..], &[edge(3, 5, 120, 0), edge(4, 5, 120, 0)]].concat();
        assert_eq!(flow(&neck, &[(1, 120)], 5), 60);
    }

    #[test]
    fn a_scope_holds_for_what_is_asked_about() {
        let within = |scope: &[u8]| {
            let scope = Some(Scope::new(scope));
            [Edge { scope, ..edge(1, 2, 120, 1) }, edge(2, 3, 120, 0)]
        };
        assert_eq!(flow(&within(b"<[^>]+[@.]example\\.org>$"), &[(1, 120)], 3), 120);
        assert_eq!(flow(&within(b"<[^>]+[@.]example\\.com>$"), &[(1, 120)], 3), 0);
    }

    #[test]
    fn circles_end() {
        let edges = [edge(1, 2, 120, 255), edge(2, 3, 120, 255), edge(3, 2, 120, 255)];
        let edges = [&edges[..], &[edge(3, 4, 120, 0)]].concat();
        assert_eq!(flow(&edges, &[(1, 120)], 4), 120);
        assert_eq!(flow(&edges, &[(9, 120)], 4), 0);
        assert_eq!(level(119), Level::Marginal);
    }
}
