//! The web of trust as a network in which trust flows from roots to a user ID (the semantics of Sequoia's
//! web of trust, draft 1).
//!
//! A certification carries up to 120; one that is a trust signature delegates as well, as many steps as its
//! depth says, within its scope. What arrives over all paths, each of which uses up what it carries, is how much
//! a user ID is believed. A certification without a trust signature delegates nothing: unlike in
//! [`crate::evaluate`], a certificate that is valid introduces nobody by that. An introducer speaks for its own
//! user IDs, too: who delegates to a certificate believes all that it says about itself.
//!
//! Paths are found one by one: each certificate is reached over as few steps as possible, of these over the one
//! that carries most; the root from which most arrives has the path. Those on which an introducer speaks for
//! itself come first.

use std::cmp::Reverse;
use std::collections::{HashMap, HashSet};
use std::rc::Rc;

use crate::{Level, Scope};

/// The evidence that makes a user ID valid.
pub const FULL: u8 = 120;
/// The evidence that makes a user ID marginally valid.
pub const PARTIAL: u8 = 40;
/// The depth of a trust signature that delegates without an end.
const ENDLESS: u8 = 255;

/// A certification, or a delegation by one.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Edge {
    /// The certificate that made it.
    pub from: i64,
    /// The certificate that it is on.
    pub to: i64,
    /// The place of its user ID.
    pub user_id: usize,
    /// The place of its packet in the certificate that it is on.
    pub signature: usize,
    /// Seconds since 1970.
    pub created: u32,
    /// How much it carries.
    pub amount: u8,
    /// Steps that it delegates; 0 for none, 255 for any number.
    pub depth: u8,
    /// The scope of the delegation.
    pub scope: Option<Scope>,
}

/// Where certifications come from.
pub trait Network {
    /// Errors of reading.
    type Error;

    /// The certifications on a certificate, not verified yet. Of those by one certificate on one user ID only
    /// the newest counts that is made.
    ///
    /// # Errors
    ///
    /// Errors of reading the store.
    fn edges_to(&mut self, cert: i64) -> Result<Vec<Edge>, Self::Error>;

    /// Whether a certificate says that a user ID is its own.
    ///
    /// # Errors
    ///
    /// Errors of reading the store.
    fn is_own(&mut self, cert: i64, user_id: usize) -> Result<bool, Self::Error>;

    /// Whether the certificate made it, when it could, and has not taken it back.
    ///
    /// # Errors
    ///
    /// Errors of reading the store.
    fn is_made(&mut self, edge: &Edge) -> Result<bool, Self::Error>;
}

/// A path and what flows over it: from a root to the user ID.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Path {
    /// Its certifications, that of the root first; none if the user ID is one of a root. The last one is on the
    /// user ID, or delegates to the certificate, which speaks for itself.
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

/// The paths from `roots`, each with what its certifications may carry, to a user ID of a certificate, until [`FULL`] has arrived. If all else is equal, the later root has the path.
///
/// # Errors
///
/// Those of `network`.
pub fn paths<N: Network>(
    network: &mut N,
    roots: &[(i64, u8)],
    (cert, user_id, text): (i64, usize, &[u8]),
) -> Result<Vec<Path>, N::Error> {
    let target = Target { cert, user_id, text };
    let mut search = Search {
        network,
        roots,
        caps: roots.iter().copied().collect(),
        edges: HashMap::new(),
        made: HashMap::new(),
        refuted: HashSet::new(),
        used: HashMap::new(),
        given: HashMap::new(),
    };
    let own = search.network.is_own(cert, user_id)?;
    let mut found = Vec::new();
    let mut arrived = 0;
    while arrived < u32::from(FULL) {
        let itself = if own { search.best(&target, Speaker::Itself)? } else { None };
        let path = match itself {
            None => search.best(&target, Speaker::Others)?,
            found => found,
        };
        let Some(path) = path else { break };
        arrived += u32::from(path.amount);
        search.use_up(&path, &target);
        found.push(path);
    }
    Ok(found)
}

struct Target<'a> {
    cert: i64,
    user_id: usize,
    text: &'a [u8],
}

/// The authority on a user ID.
#[derive(Clone, Copy, PartialEq)]
enum Speaker {
    /// Its own certificate, as an introducer.
    Itself,
    /// The issuers of its certifications.
    Others,
}

/// The certifications by one certificate on one user ID, the newest first.
type Group = Vec<Edge>;

struct Search<'n, N: Network> {
    network: &'n mut N,
    roots: &'n [(i64, u8)],
    /// The trust amounts that the certifications of a certificate may carry.
    caps: HashMap<i64, u8>,
    edges: HashMap<i64, Rc<Vec<Group>>>,
    made: HashMap<(i64, i64, usize), bool>,
    /// Certifications that turned out not to be made.
    refuted: HashSet<(i64, i64, usize)>,
    /// The trust amount that earlier paths carry from one certificate to another.
    used: HashMap<(i64, i64), u8>,
    /// The trust amounts that roots have given to their own user IDs.
    given: HashMap<i64, u8>,
}

/// How a certificate is reached, seen from the user ID.
struct Reach {
    /// The next step towards the user ID.
    next: Option<Edge>,
    amount: u8,
    steps: usize,
}

impl<N: Network> Search<'_, N> {
    /// The path of the root from which most arrives, the shortest of these.
    fn best(&mut self, target: &Target<'_>, speaker: Speaker) -> Result<Option<Path>, N::Error> {
        // Only what is on the paths of roots is verified. One that is not made has no part in the next search:
        // it may have stood before one that is.
        'again: loop {
            let paths = self.likely(target, speaker)?;
            for edge in paths.iter().flat_map(|path| &path.edges) {
                if !self.is_made(edge)? {
                    self.refuted.insert(name(edge));
                    continue 'again;
                }
            }
            return Ok(paths
                .into_iter()
                .max_by_key(|path| (path.amount, Reverse(steps(path, target)))));
        }
    }

    /// The path of each root, if the certifications that are alone in their groups are made.
    fn likely(&mut self, target: &Target<'_>, speaker: Speaker) -> Result<Vec<Path>, N::Error> {
        let mut reached =
            HashMap::from([(target.cert, Reach { next: None, amount: FULL, steps: 0 })]);
        let mut front = vec![target.cert];
        let mut steps = usize::from(speaker == Speaker::Itself);
        while !front.is_empty() {
            let mut next: Vec<i64> = Vec::new();
            for to in front {
                // A root that has all trust needs nobody to speak for it.
                if self.caps.get(&to) == Some(&FULL) {
                    continue;
                }
                let so_far = reached[&to].amount;
                let scoped = speaker == Speaker::Itself || to != target.cert;
                for group in self.edges_to(to)?.iter() {
                    for edge in self.current(group)? {
                        let on_target = to != target.cert
                            || speaker == Speaker::Itself
                            || edge.user_id == target.user_id;
                        let deep = edge.depth == ENDLESS || usize::from(edge.depth) >= steps;
                        let within = !scoped
                            || edge.scope.as_ref().is_none_or(|scope| scope.covers(target.text));
                        let amount = self.left(edge).min(so_far);
                        let known = reached.get(&edge.from);
                        let better = known
                            .is_none_or(|known| known.steps == steps + 1 && amount > known.amount);
                        if !(on_target && deep && within && amount > 0 && better) {
                            continue;
                        }
                        if known.is_none() {
                            next.push(edge.from);
                        }
                        let reach = Reach { next: Some(edge.clone()), amount, steps: steps + 1 };
                        reached.insert(edge.from, reach);
                    }
                }
            }
            next.sort_by_key(|cert| Reverse(reached[cert].amount));
            front = next;
            steps += 1;
        }
        Ok(self.of_roots(&reached, speaker))
    }

    fn of_roots(&self, reached: &HashMap<i64, Reach>, speaker: Speaker) -> Vec<Path> {
        let path = |&(root, _): &(i64, u8)| {
            let mut at = reached.get(&root)?;
            let mut path = Path { edges: Vec::new(), amount: at.amount };
            while let Some(edge) = &at.next {
                path.edges.push(edge.clone());
                at = &reached[&edge.to];
            }
            if path.edges.is_empty() {
                path.amount = if speaker == Speaker::Itself { self.own(root) } else { 0 };
            }
            Some(path).filter(|path| path.amount > 0)
        };
        self.roots.iter().filter_map(path).collect()
    }

    /// Takes what a path carries out of the network.
    fn use_up(&mut self, path: &Path, target: &Target<'_>) {
        let mut use_up = |from, to| {
            let used = self.used.entry((from, to)).or_default();
            *used = used.saturating_add(path.amount);
        };
        for edge in &path.edges {
            use_up(edge.from, edge.to);
        }
        if path.edges.is_empty() {
            let given = self.given.entry(target.cert).or_default();
            *given = given.saturating_add(path.amount);
        } else if speaks_for_itself(path, target) {
            use_up(target.cert, target.cert);
        }
    }

    /// The trust amount that a certification can still carry.
    fn left(&self, edge: &Edge) -> u8 {
        let cap = self.caps.get(&edge.from).filter(|&&cap| cap < FULL);
        let amount = cap.map_or(edge.amount, |&cap| cap.min(edge.amount));
        amount
            .saturating_sub(self.used.get(&(edge.from, edge.to)).copied().unwrap_or(0))
            .saturating_sub(self.given.get(&edge.from).copied().unwrap_or(0))
    }

    /// The trust amount that a root can still give to its own user IDs.
    fn own(&self, root: i64) -> u8 {
        let cap = self.caps.get(&root).copied().unwrap_or(0);
        cap.saturating_sub(self.used.get(&(root, root)).copied().unwrap_or(0))
            .saturating_sub(self.given.get(&root).copied().unwrap_or(0))
    }

    fn edges_to(&mut self, cert: i64) -> Result<Rc<Vec<Group>>, N::Error> {
        if let Some(groups) = self.edges.get(&cert) {
            return Ok(Rc::clone(groups));
        }
        let mut edges = self.network.edges_to(cert)?;
        edges.sort_by_key(|edge| (edge.from, edge.user_id, Reverse(edge.created)));
        let groups = edges
            .chunk_by(|one, other| (one.from, one.user_id) == (other.from, other.user_id))
            .map(<[Edge]>::to_vec);
        let groups = Rc::new(groups.collect::<Vec<_>>());
        self.edges.insert(cert, Rc::clone(&groups));
        Ok(groups)
    }

    /// The certifications of a group that count: the newest that is made, and those of the same time. One that
    /// is alone is taken to be made until a path needs it.
    fn current<'g>(&mut self, group: &'g Group) -> Result<&'g [Edge], N::Error> {
        if let [edge] = &group[..] {
            return Ok(if self.refuted.contains(&name(edge)) { &[] } else { group });
        }
        for (at, edge) in group.iter().enumerate() {
            if self.is_made(edge)? {
                let same = group[at..].iter().take_while(|other| other.created == edge.created);
                return Ok(&group[at..at + same.count()]);
            }
        }
        Ok(&[])
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

fn name(edge: &Edge) -> (i64, i64, usize) {
    (edge.from, edge.to, edge.signature)
}

/// Whether a path ends with what the certificate says about itself.
fn speaks_for_itself(path: &Path, target: &Target<'_>) -> bool {
    path.edges.last().is_none_or(|last| last.user_id != target.user_id)
}

fn steps(path: &Path, target: &Target<'_>) -> usize {
    path.edges.len() + usize::from(!path.edges.is_empty() && speaks_for_itself(path, target))
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

        fn is_own(&mut self, _: i64, _: usize) -> Result<bool, Infallible> {
            Ok(true)
        }

        fn is_made(&mut self, _: &Edge) -> Result<bool, Infallible> {
            Ok(true)
        }
    }

    fn edge(from: i64, to: i64, amount: u8, depth: u8) -> Edge {
        let signature = usize::try_from(from).unwrap();
        Edge { from, to, user_id: 0, signature, created: 0, amount, depth, scope: None }
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
        // What a root may give holds for each of its certifications.
        assert_eq!(flow(&two, &[(1, 40)], 4), 80);
        assert_eq!(flow(&two, &[(1, 40), (4, 30)], 4), 110);
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
