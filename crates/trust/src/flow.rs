//! The web of trust as a flow network, in which trust flows from trust roots to a user ID. The semantics are those
//! of Sequoia's web of trust, draft 1.
//!
//! A certification carries a trust amount of up to 120. A trust signature also delegates, within its scope and for
//! as many steps as its depth. Each path uses up the trust amount that it carries. The sum over all paths decides
//! the level of the user ID. A certification without a trust signature delegates nothing: unlike in
//! [`crate::evaluate`], a valid certificate is not an introducer for that reason alone. An introducer is an
//! authority on its own user IDs, too: a delegation to a certificate covers all statements of that certificate
//! about itself.
//!
//! Paths are found one by one. Each certificate is reached in as few steps as possible, and among equally short
//! ways by the one that carries most. The path of the root from which most arrives is taken. Paths on which an
//! introducer vouches for its own user ID come first.

use std::cmp::Reverse;
use std::collections::{HashMap, HashSet};
use std::hash::Hash;
use std::rc::Rc;

use crate::{Level, Scope};

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
    /// The name of a certificate, for example its number in a store. Their order decides between equally good paths.
    type Cert: Copy + Eq + Hash + Ord;
    /// Error of reading certifications.
    type Error;

    /// The certifications on a certificate, not yet verified. If one certificate has several on one user ID, only
    /// the newest that [`Self::is_made`] accepts counts.
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

    /// Whether the issuer made the certification, was able to certify at that time, and has not revoked the
    /// certification.
    ///
    /// # Errors
    ///
    /// Errors of reading the store.
    fn is_made(&mut self, edge: &Edge<Self::Cert>) -> Result<bool, Self::Error>;
}

/// A path from a trust root to the user ID, with its trust amount.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Path<C> {
    /// The certifications of the path, starting at the root. Empty if the user ID belongs to a root. The last
    /// certification is on the user ID, or it delegates to the certificate, which vouches for its own user ID.
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

/// Finds paths to a user ID of a certificate, until they carry [`FULL`] together. `roots` are the trust roots,
/// each with the maximum trust amount of its certifications. Among equally good paths, the later root has
/// priority.
///
/// # Errors
///
/// The errors of `network`.
pub fn paths<N: Network>(
    network: &mut N,
    roots: &[(N::Cert, u8)],
    (cert, user_id, text): (N::Cert, usize, &[u8]),
) -> Result<Vec<Path<N::Cert>>, N::Error> {
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
type Group<C> = Vec<Edge<C>>;

/// All certifications on a certificate.
type Groups<C> = Rc<Vec<Group<C>>>;

struct Search<'n, N: Network> {
    network: &'n mut N,
    roots: &'n [(N::Cert, u8)],
    /// The trust amounts that the certifications of a certificate may carry.
    caps: HashMap<N::Cert, u8>,
    edges: HashMap<N::Cert, Groups<N::Cert>>,
    made: HashMap<(N::Cert, N::Cert, usize), bool>,
    /// Certifications that failed verification.
    refuted: HashSet<(N::Cert, N::Cert, usize)>,
    /// The trust amount that earlier paths carry from one certificate to another.
    used: HashMap<(N::Cert, N::Cert), u8>,
    /// The trust amounts that roots have given to their own user IDs.
    given: HashMap<N::Cert, u8>,
}

/// The best known way from a certificate to the user ID.
struct Reach<C> {
    /// The next certification on the way to the user ID.
    next: Option<Edge<C>>,
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
        // Only certifications on the paths of roots are verified. A refuted certification is left out of the next
        // search, since it may have displaced a good one.
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

    fn of_roots(
        &self,
        reached: &HashMap<N::Cert, Reach<N::Cert>>,
        speaker: Speaker,
    ) -> Vec<Path<N::Cert>> {
        let path = |&(root, _): &(N::Cert, u8)| {
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
        let cap = self.caps.get(&edge.from).filter(|&&cap| cap < FULL);
        let amount = cap.map_or(edge.amount, |&cap| cap.min(edge.amount));
        amount
            .saturating_sub(self.used.get(&(edge.from, edge.to)).copied().unwrap_or(0))
            .saturating_sub(self.given.get(&edge.from).copied().unwrap_or(0))
    }

    /// The trust amount that a root can still give to its own user IDs.
    fn own(&self, root: N::Cert) -> u8 {
        let cap = self.caps.get(&root).copied().unwrap_or(0);
        cap.saturating_sub(self.used.get(&(root, root)).copied().unwrap_or(0))
            .saturating_sub(self.given.get(&root).copied().unwrap_or(0))
    }

    fn edges_to(&mut self, cert: N::Cert) -> Result<Groups<N::Cert>, N::Error> {
        if let Some(groups) = self.edges.get(&cert) {
            return Ok(Rc::clone(groups));
        }
        let mut edges = self.network.edges_to(cert)?;
        edges.sort_by_key(|edge| (edge.from, edge.user_id, Reverse(edge.created)));
        let groups = edges
            .chunk_by(|one, other| (one.from, one.user_id) == (other.from, other.user_id))
            .map(<[_]>::to_vec);
        let groups = Rc::new(groups.collect::<Vec<_>>());
        self.edges.insert(cert, Rc::clone(&groups));
        Ok(groups)
    }

    /// The certifications of a group that count: the newest good one, and those with the same creation time. A
    /// certification that is alone in its group is assumed to be good until a path uses it.
    fn current<'g>(&mut self, group: &'g Group<N::Cert>) -> Result<&'g [Edge<N::Cert>], N::Error> {
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
        if let Some(&made) = self.made.get(&name(edge)) {
            return Ok(made);
        }
        let made = self.network.is_made(edge)?;
        self.made.insert(name(edge), made);
        Ok(made)
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
        let Ok(paths) =
            paths(&mut Drawn(edges.to_vec()), roots, (target, 0, b"Alice <alice@example.org>"));
        paths.iter().map(|path| u32::from(path.amount)).sum()
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

    #[test]
    fn cycles_of_certifications_terminate() {
        let edges = [edge(1, 2, 120, 255), edge(2, 3, 120, 255), edge(3, 2, 120, 255)];
        let edges = [&edges[..], &[edge(3, 4, 120, 0)]].concat();
        assert_eq!(flow(&edges, &[(1, 120)], 4), 120);
        assert_eq!(flow(&edges, &[(9, 120)], 4), 0);
        assert_eq!(level(119), Level::Marginal);
    }
}
