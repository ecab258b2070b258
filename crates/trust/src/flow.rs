//! The web of trust as a flow network, in which trust flows from trust roots to a user ID. The
//! semantics are those of Sequoia's web of trust, draft 1.
//!
//! A certification carries a trust amount of up to 120. A trust signature also delegates, within
//! its scope and for as many steps as its depth. Each path uses up the trust amount that it
//! carries. The sum over all paths decides the level of the user ID. A certification without a
//! trust signature delegates nothing: unlike in [`crate::evaluate`], a valid certificate is not an
//! introducer for that reason alone. An introducer is an authority on its own user IDs, too: a
//! delegation to a certificate covers all statements of that certificate about itself.
//!
//! Paths are found one by one. Each certificate is reached in as few steps as possible, and among
//! equally short ways by the one that carries most. The path of the root from which most arrives is
//! taken. Paths on which an introducer vouches for its own user ID come first.
//!
//! A [`Flow`] answers for many user IDs. What it learns of the network holds for all of them: the
//! certifications, whether they were made, and which certificates no root can reach. So a ring of
//! strangers who certify each other costs what its certifications cost, once. A search within reach
//! of the roots has a budget. Without it, a ring in which each certification carries little would
//! cost the number of its paths. A search that ends early has found too little trust, never too
//! much.

use std::cmp::Reverse;
use std::collections::{HashMap, HashSet};
use std::hash::Hash;
use std::rc::Rc;

use crate::level::Level;
use crate::scope::Scope;

/// The trust amount that makes a user ID fully valid.
pub const FULL: u8 = 120;
/// The trust amount that makes a user ID marginally valid.
pub const PARTIAL: u8 = 40;
/// The depth of a trust signature that delegates without limit.
const ENDLESS: u8 = 255;

/// A certification, possibly with a delegation. `C` is the name of a certificate in the network.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Edge<C> {
    /// The issuer's certificate.
    pub from: C,
    /// The certified certificate.
    pub to: C,
    /// Index of the certified user ID.
    pub user_id: usize,
    /// Index of the signature packet in the certified certificate.
    pub signature: usize,
    /// Creation time in seconds since 1970.
    pub created: u32,
    /// The trust amount of the certification.
    pub amount: u8,
    /// Number of steps of the delegation; 0 for none, 255 for any number.
    pub depth: u8,
    /// The scope of the delegation.
    pub scope: Option<Scope>,
}

/// Source of certifications.
pub trait Network {
    /// The name of a certificate, for example its number in a store. Their order decides between
    /// equally good paths.
    type Cert: Copy + Eq + Hash + Ord;
    /// Error of reading certifications.
    type Error;

    /// The certifications on a certificate, not yet verified. If one certificate has several on one
    /// user ID, only the newest that [`Self::is_made`] accepts counts.
    ///
    /// # Errors
    ///
    /// Errors of reading the store.
    fn edges_to(&mut self, cert: Self::Cert) -> Result<Vec<Edge<Self::Cert>>, Self::Error>;

    /// Whether a certificate has an acceptable self-signature on a user ID.
    ///
    /// # Errors
    ///
    /// Errors of reading the store.
    fn is_own(&mut self, cert: Self::Cert, user_id: usize) -> Result<bool, Self::Error>;

    /// Whether the issuer made the certification, was able to certify at that time, and has not
    /// revoked the certification.
    ///
    /// # Errors
    ///
    /// Errors of reading the store.
    fn is_made(&mut self, edge: &Edge<Self::Cert>) -> Result<bool, Self::Error>;
}

/// A path from a trust root to the user ID, with its trust amount.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Path<C> {
    /// The certifications of the path, starting at the root. Empty if the user ID belongs to a
    /// root. The last certification is on the user ID, or it delegates to the certificate, which
    /// vouches for its own user ID.
    pub edges: Vec<Edge<C>>,
    /// The trust amount that the path carries.
    pub amount: u8,
}

/// The level for a sum of trust amounts.
#[must_use]
pub fn level(amount: u32) -> Level {
    match amount {
        _ if amount >= u32::from(FULL) => Level::Full,
        _ if amount >= u32::from(PARTIAL) => Level::Marginal,
        0 => Level::Unknown,
        _ => Level::Undefined,
    }
}

/// The number of steps of all searches of a [`Flow`] together. A step looks at one certification.
const STEPS_MAX: u64 = 5_000_000;
/// The number of steps of one search.
const SEARCH_STEPS_MAX: u64 = 1_000_000;
/// The number of steps that each search has, even if earlier ones have used up [`STEPS_MAX`].
const SEARCH_STEPS_MIN: u64 = 10_000;
/// The number of steps that stand for verifying a certification.
const VERIFICATION_STEPS: u64 = 100;

/// The paths to a user ID.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Found<C> {
    /// The paths.
    pub paths: Vec<Path<C>>,
    /// Whether the search ended early, because the network is too large. There may be more paths
    /// then.
    pub cut_off: bool,
}

impl<C> Found<C> {
    /// The trust amount of all paths together.
    #[must_use]
    pub fn amount(&self) -> u32 {
        self.paths.iter().map(|path| u32::from(path.amount)).sum()
    }
}

/// A network and its trust roots, for searches to many user IDs.
pub struct Flow<N: Network> {
    network: N,
    roots: Vec<(N::Cert, u8)>,
    /// The trust amounts that the certifications of a certificate may carry.
    caps: HashMap<N::Cert, u8>,
    edges: HashMap<N::Cert, Groups<N::Cert>>,
    made: HashMap<(N::Cert, N::Cert, usize), bool>,
    /// Whether delegations lead from a root to the certificate, whatever their depths, scopes and
    /// amounts.
    anchored: HashMap<N::Cert, bool>,
    steps_left: u64,
}

impl<N: Network> Flow<N> {
    /// A network with trust roots, each with the maximum trust amount of its certifications. Among
    /// equally good paths, the later root has priority.
    #[must_use]
    pub fn new(network: N, roots: Vec<(N::Cert, u8)>) -> Self {
        Self {
            network,
            caps: roots.iter().copied().collect(),
            roots,
            edges: HashMap::new(),
            made: HashMap::new(),
            anchored: HashMap::new(),
            steps_left: STEPS_MAX,
        }
    }

    /// Finds paths to a user ID of a certificate, until they carry [`FULL`] together.
    ///
    /// # Errors
    ///
    /// The errors of the network.
    pub fn paths(
        &mut self,
        (cert, user_id, text): (N::Cert, usize, &[u8]),
    ) -> Result<Found<N::Cert>, N::Error> {
        let target = Target { cert, user_id, text };
        let steps = self.steps_left.clamp(SEARCH_STEPS_MIN, SEARCH_STEPS_MAX);
        let mut search = Search {
            flow: self,
            refuted: HashSet::new(),
            used: HashMap::new(),
            given: HashMap::new(),
            steps_left: Some(steps),
        };
        let own = search.flow.network.is_own(cert, user_id)?;
        let mut paths = Vec::new();
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
            paths.push(path);
        }
        let left = search.steps_left;
        self.steps_left = self.steps_left.saturating_sub(steps - left.unwrap_or(0));
        Ok(Found { paths, cut_off: left.is_none() })
    }

    fn edges_to(&mut self, cert: N::Cert) -> Result<Groups<N::Cert>, N::Error> {
        if let Some(groups) = self.edges.get(&cert) {
            return Ok(Rc::clone(groups));
        }
        let mut edges = self.network.edges_to(cert)?;
        edges.sort_by_key(|edge| (edge.from, edge.user_id, Reverse(edge.created)));
        let edges: Vec<Rc<Edge<N::Cert>>> = edges.into_iter().map(Rc::new).collect();
        let groups = edges
            .chunk_by(|one, other| (one.from, one.user_id) == (other.from, other.user_id))
            .map(<[_]>::to_vec);
        let groups = Rc::new(groups.collect::<Vec<_>>());
        self.edges.insert(cert, Rc::clone(&groups));
        Ok(groups)
    }

    fn is_made(&mut self, edge: &Edge<N::Cert>) -> Result<bool, N::Error> {
        if let Some(&made) = self.made.get(&name(edge)) {
            return Ok(made);
        }
        let made = self.network.is_made(edge)?;
        self.made.insert(name(edge), made);
        Ok(made)
    }

    /// Whether delegations lead from a root to `cert`. Each certificate of the network is looked at
    /// once, in whatever order the questions come.
    fn is_anchored(&mut self, cert: N::Cert) -> Result<bool, N::Error> {
        if let Some(&known) = self.anchored.get(&cert) {
            return Ok(known);
        }
        let mut seen = HashSet::from([cert]);
        let mut open = vec![cert];
        let mut delegates: HashMap<N::Cert, Vec<N::Cert>> = HashMap::new();
        let mut reached = Vec::new();
        while let Some(to) = open.pop() {
            if self.caps.contains_key(&to) {
                reached.push(to);
                continue;
            }
            for edge in self.edges_to(to)?.iter().flatten().filter(|edge| edge.depth > 0) {
                match self.anchored.get(&edge.from) {
                    Some(true) => reached.push(to),
                    Some(false) => {}
                    None => {
                        delegates.entry(edge.from).or_default().push(to);
                        if seen.insert(edge.from) {
                            open.push(edge.from);
                        }
                    }
                }
            }
        }
        let mut anchored = HashSet::new();
        while let Some(from) = reached.pop() {
            if anchored.insert(from) {
                reached.extend(delegates.remove(&from).unwrap_or_default());
            }
        }
        self.anchored.extend(seen.into_iter().map(|cert| (cert, anchored.contains(&cert))));
        Ok(anchored.contains(&cert))
    }
}

struct Target<'a, C> {
    cert: C,
    user_id: usize,
    text: &'a [u8],
}

/// The authority on a user ID.
#[derive(Clone, Copy, PartialEq)]
enum Speaker {
    /// The certificate of the user ID, as an introducer.
    Itself,
    /// The issuers of its certifications.
    Others,
}

/// The certifications by one certificate on one user ID, the newest first.
type Group<C> = Vec<Rc<Edge<C>>>;

/// The certifications of a group that count.
type Current<'g, C> = &'g [Rc<Edge<C>>];

/// All certifications on a certificate.
type Groups<C> = Rc<Vec<Group<C>>>;

struct Search<'f, N: Network> {
    flow: &'f mut Flow<N>,
    /// Certifications that failed verification.
    refuted: HashSet<(N::Cert, N::Cert, usize)>,
    /// The trust amount that earlier paths carry from one certificate to another.
    used: HashMap<(N::Cert, N::Cert), u8>,
    /// The trust amounts that roots have given to their own user IDs.
    given: HashMap<N::Cert, u8>,
    /// `None` if the search has ended early.
    steps_left: Option<u64>,
}

/// The best known way from a certificate to the user ID.
struct Reach<C> {
    /// The next certification on the way to the user ID.
    next: Option<Rc<Edge<C>>>,
    amount: u8,
    steps: usize,
}

impl<N: Network> Search<'_, N> {
    /// The path of the root from which most arrives; among equals, the shortest.
    fn best(
        &mut self,
        target: &Target<'_, N::Cert>,
        speaker: Speaker,
    ) -> Result<Option<Path<N::Cert>>, N::Error> {
        // Only certifications on the paths of roots are verified. A refuted certification is left
        // out of the next search, since it may have displaced a good one.
        'again: loop {
            let paths = self.likely(target, speaker)?;
            if self.steps_left.is_none() {
                return Ok(None);
            }
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

    /// The path of each root. A certification that is alone in its group is assumed to be good.
    fn likely(
        &mut self,
        target: &Target<'_, N::Cert>,
        speaker: Speaker,
    ) -> Result<Vec<Path<N::Cert>>, N::Error> {
        let mut reached =
            HashMap::from([(target.cert, Reach { next: None, amount: FULL, steps: 0 })]);
        let mut front = vec![target.cert];
        let mut steps = usize::from(speaker == Speaker::Itself);
        while !front.is_empty() {
            let mut next: Vec<N::Cert> = Vec::new();
            for to in front {
                // A root with full trust needs no authority above it.
                if self.flow.caps.get(&to) == Some(&FULL) {
                    continue;
                }
                let so_far = reached[&to].amount;
                let scoped = speaker == Speaker::Itself || to != target.cert;
                for group in self.flow.edges_to(to)?.iter() {
                    if !self.take(1) {
                        return Ok(Vec::new());
                    }
                    if !self.flow.is_anchored(group[0].from)? {
                        continue;
                    }
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
                        let reach = Reach { next: Some(Rc::clone(edge)), amount, steps: steps + 1 };
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

    fn of_roots(
        &self,
        reached: &HashMap<N::Cert, Reach<N::Cert>>,
        speaker: Speaker,
    ) -> Vec<Path<N::Cert>> {
        let path = |&(root, _): &(N::Cert, u8)| {
            let mut at = reached.get(&root)?;
            let mut path = Path { edges: Vec::new(), amount: at.amount };
            while let Some(edge) = &at.next {
                path.edges.push(Edge::clone(edge));
                at = &reached[&edge.to];
            }
            if path.edges.is_empty() {
                path.amount = if speaker == Speaker::Itself { self.own(root) } else { 0 };
            }
            Some(path).filter(|path| path.amount > 0)
        };
        self.flow.roots.iter().filter_map(path).collect()
    }

    /// Subtracts the trust amount of a path from the network.
    fn use_up(&mut self, path: &Path<N::Cert>, target: &Target<'_, N::Cert>) {
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
    fn left(&self, edge: &Edge<N::Cert>) -> u8 {
        let cap = self.flow.caps.get(&edge.from).filter(|&&cap| cap < FULL);
        let amount = cap.map_or(edge.amount, |&cap| cap.min(edge.amount));
        amount
            .saturating_sub(self.used.get(&(edge.from, edge.to)).copied().unwrap_or(0))
            .saturating_sub(self.given.get(&edge.from).copied().unwrap_or(0))
    }

    /// The trust amount that a root can still give to its own user IDs.
    fn own(&self, root: N::Cert) -> u8 {
        let cap = self.flow.caps.get(&root).copied().unwrap_or(0);
        cap.saturating_sub(self.used.get(&(root, root)).copied().unwrap_or(0))
            .saturating_sub(self.given.get(&root).copied().unwrap_or(0))
    }

    /// The certifications of a group that count: the newest good one, and those with the same
    /// creation time. A certification that is alone in its group is assumed to be good until a path
    /// uses it.
    fn current<'g>(&mut self, group: &'g Group<N::Cert>) -> Result<Current<'g, N::Cert>, N::Error> {
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

    fn is_made(&mut self, edge: &Edge<N::Cert>) -> Result<bool, N::Error> {
        if !self.flow.made.contains_key(&name(edge)) {
            self.take(VERIFICATION_STEPS);
        }
        self.flow.is_made(edge)
    }

    /// Takes steps from the budget. Returns whether the search may go on.
    fn take(&mut self, steps: u64) -> bool {
        self.steps_left = self.steps_left.and_then(|left| left.checked_sub(steps));
        self.steps_left.is_some()
    }
}

fn name<C: Copy>(edge: &Edge<C>) -> (C, C, usize) {
    (edge.from, edge.to, edge.signature)
}

/// Whether the certificate vouches for its own user ID at the end of a path.
fn speaks_for_itself<C>(path: &Path<C>, target: &Target<'_, C>) -> bool {
    path.edges.last().is_none_or(|last| last.user_id != target.user_id)
}

fn steps<C>(path: &Path<C>, target: &Target<'_, C>) -> usize {
    path.edges.len() + usize::from(!path.edges.is_empty() && speaks_for_itself(path, target))
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use super::*;

    struct Drawn(Vec<Edge<i64>>);

    impl Network for Drawn {
        type Cert = i64;
        type Error = Infallible;

        fn edges_to(&mut self, cert: i64) -> Result<Vec<Edge<i64>>, Infallible> {
            Ok(self.0.iter().filter(|edge| edge.to == cert).cloned().collect())
        }

        fn is_own(&mut self, _: i64, _: usize) -> Result<bool, Infallible> {
            Ok(true)
        }

        fn is_made(&mut self, _: &Edge<i64>) -> Result<bool, Infallible> {
            Ok(true)
        }
    }

    fn edge(from: i64, to: i64, amount: u8, depth: u8) -> Edge<i64> {
        let signature = usize::try_from(from).unwrap();
        Edge { from, to, user_id: 0, signature, created: 0, amount, depth, scope: None }
    }

    fn flow(edges: &[Edge<i64>], roots: &[(i64, u8)], target: i64) -> u32 {
        let mut flow = Flow::new(Drawn(edges.to_vec()), roots.to_vec());
        let Ok(found) = flow.paths((target, 0, b"Alice <alice@example.org>"));
        assert!(!found.cut_off);
        found.amount()
    }

    #[test]
    fn a_plain_certification_introduces_nobody() {
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
    fn several_paths_add_up_and_capacity_is_used_once() {
        let two = [edge(1, 2, 60, 1), edge(1, 3, 60, 1), edge(2, 4, 120, 0), edge(3, 4, 120, 0)];
        assert_eq!(flow(&two, &[(1, 120)], 4), 120);
        // The maximum trust amount of a root applies to each of its certifications.
        assert_eq!(flow(&two, &[(1, 40)], 4), 80);
        assert_eq!(flow(&two, &[(1, 40), (4, 30)], 4), 110);
        // Both paths use the same certification with amount 60.
        let neck = [edge(1, 2, 60, 2), edge(2, 3, 120, 1), edge(2, 4, 120, 1)];
        let neck = [&neck[..], &[edge(3, 5, 120, 0), edge(4, 5, 120, 0)]].concat();
        assert_eq!(flow(&neck, &[(1, 120)], 5), 60);
    }

    #[test]
    fn a_scope_applies_to_the_authenticated_address() {
        let within = |scope: &[u8]| {
            let scope = Some(Scope::new(scope));
            [Edge { scope, ..edge(1, 2, 120, 1) }, edge(2, 3, 120, 0)]
        };
        assert_eq!(flow(&within(b"<[^>]+[@.]example\\.org>$"), &[(1, 120)], 3), 120);
        assert_eq!(flow(&within(b"<[^>]+[@.]example\\.com>$"), &[(1, 120)], 3), 0);
    }

    /// All of `count` certificates, from `first` on, delegate to all others.
    fn ring(first: i64, count: i64, amount: u8) -> Vec<Edge<i64>> {
        let all = || first..first + count;
        let pairs = all().flat_map(|from| all().map(move |to| (from, to)));
        pairs.filter(|(from, to)| from != to).map(|(a, b)| edge(a, b, amount, 255)).collect()
    }

    /// The steps that the searches for all user IDs of a ring took, and the paths that were cut
    /// off.
    fn cost(edges: Vec<Edge<i64>>, targets: std::ops::Range<i64>) -> (u64, usize) {
        let mut flow = Flow::new(Drawn(edges), vec![(1, FULL)]);
        let mut cut_off = 0;
        for target in targets {
            let Ok(found) = flow.paths((target, 0, b"Alice <alice@example.org>"));
            cut_off += usize::from(found.cut_off);
        }
        (STEPS_MAX - flow.steps_left, cut_off)
    }

    #[test]
    fn a_ring_of_strangers_costs_a_step_for_each_certification() {
        let (steps, cut_off) = cost(ring(10, 60, FULL), 10..70);
        // A certification is looked at for its own certificate, by its issuers and by the subject
        // itself.
        assert!(steps <= 2 * 60 * 59, "{steps}");
        assert_eq!(cut_off, 0);
    }

    #[test]
    fn a_search_that_is_cut_off_says_so_and_finds_no_more_trust() {
        // Each path carries 1, so that 120 paths lead from the root to each member.
        let mut edges = ring(10, 100, 1);
        edges.extend((10..110).map(|to| edge(1, to, 1, 255)));
        let (steps, cut_off) = cost(edges.clone(), 10..110);
        assert!(steps <= STEPS_MAX + 100 * SEARCH_STEPS_MIN && cut_off > 0, "{steps} {cut_off}");
        let mut flow = Flow::new(Drawn(edges), vec![(1, FULL)]);
        let Ok(whole) = flow.paths((10, 0, b""));
        flow.steps_left = 0;
        let Ok(cut) = flow.paths((11, 0, b""));
        assert!(cut.cut_off && cut.amount() < whole.amount(), "{cut:?}");
        // Later searches still have enough steps for what is close to a root.
        flow.network.0.push(edge(1, 500, FULL, 0));
        let Ok(friend) = flow.paths((500, 0, b""));
        assert_eq!((friend.amount(), friend.cut_off), (u32::from(FULL), false));
    }

    #[test]
    fn cycles_of_certifications_terminate() {
        let edges = [edge(1, 2, 120, 255), edge(2, 3, 120, 255), edge(3, 2, 120, 255)];
        let edges = [&edges[..], &[edge(3, 4, 120, 0)]].concat();
        assert_eq!(flow(&edges, &[(1, 120)], 4), 120);
        assert_eq!(flow(&edges, &[(9, 120)], 4), 0);
        assert_eq!(level(119), Level::Marginal);
    }
}
