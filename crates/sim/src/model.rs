//! A model of a store's content. It knows no indexes, no files and no transactions.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;

use talaria_cert::{Cert, Fingerprint, Tag, address, sha256};
use talaria_store::{
    Binding, ChangeNumber, Cursor, Event, IngestOutcome, IngestRefusal, Order, Return, Store,
    StoreError, TextIndex,
};
use talaria_trust::tofu::Policy;

use crate::operation::{CERTS, Copy, Operation, cert, copy_of};

/// The name of the store that operations change.
pub(crate) const MAIN: &str = "certs.db";

/// The name of a store that an operation makes.
pub(crate) fn name_of(kind: &str, number: usize) -> String {
    format!("{kind}-{number}.db")
}

/// The beginning of a digest, which names a packet.
type Name = [u8; 8];

/// A component of a certificate, and a signature on it.
type Part = ((u8, Name), Option<Name>);

/// The parts of a certificate.
fn parts(cert: &Cert) -> BTreeSet<Part> {
    let name = |body: &[u8]| -> Name { sha256(&[body])[..8].try_into().expect("8 bytes") };
    let mut component = (0, [0; 8]);
    let packets = cert.packets().map(|packet| {
        if packet.tag == Tag::SIGNATURE {
            return (component, Some(name(packet.body)));
        }
        component = (packet.tag.0, name(packet.body));
        (component, None)
    });
    packets.collect()
}

/// Addresses and fingerprints, with the data about them.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(crate) struct Bound {
    policy: u8,
    /// Digests of verified signatures.
    verified: BTreeSet<String>,
    /// Number of encryptions.
    encrypted: usize,
}

/// The content of a store, as its readers see it.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(crate) struct Content {
    pub(crate) certs: BTreeMap<Fingerprint, BTreeSet<Part>>,
    blocked: BTreeSet<Fingerprint>,
    redacted: BTreeSet<Fingerprint>,
    trust: BTreeMap<Fingerprint, u8>,
    bindings: BTreeMap<(Vec<u8>, Fingerprint), Bound>,
    indexes: BTreeSet<&'static str>,
    last_change: ChangeNumber,
}

impl Content {
    /// The content of a store.
    pub(crate) fn of(store: &Store) -> Result<Self, StoreError> {
        let mut content = Self { last_change: store.log().last()?, ..Self::default() };
        let mut rows = Vec::new();
        store.walk(&mut Cursor::start(Order::Insertion), |row| {
            rows.push(row);
            ControlFlow::Continue(())
        })?;
        for row in rows {
            if let Some(stored) = store.stored(row.id)? {
                content.certs.insert(row.summary.fingerprint(), parts(&stored.cert));
            }
        }
        for number in 0..=CERTS {
            let fingerprint = cert(number).fingerprint();
            if store.operator().is_blocked(fingerprint)? {
                content.blocked.insert(fingerprint);
            }
            if store.operator().is_redacted(fingerprint)? {
                content.redacted.insert(fingerprint);
            }
        }
        content.trust.extend(store.web().ownertrusts()?);
        for Binding { fingerprint, email, policy, .. } in store.tofu().bindings()? {
            let mut bound = Bound { policy: policy as u8, ..Bound::default() };
            for event in store.tofu().events(fingerprint, &email)? {
                match event {
                    Event::Verified { digest, .. } => {
                        bound.verified.insert(digest);
                    }
                    Event::Encrypted(_) => bound.encrypted += 1,
                    Event::Seen => {}
                }
            }
            content.bindings.insert((email, fingerprint), bound);
        }
        for index in TextIndex::ALL {
            if store.has_index(index)? {
                content.indexes.insert(index.table());
            }
        }
        Ok(content)
    }

    /// The differences to the content `there`, for people.
    pub(crate) fn differences(&self, there: &Self) -> Vec<String> {
        let mut all = Vec::new();
        let mut compare = |what: &str, equal: bool, want: String, have: String| {
            if !equal {
                all.push(format!("{what}: expected {want}, found {have}"));
            }
        };
        let counts = |content: &Self| {
            let count = |(name, parts): (&Fingerprint, &BTreeSet<Part>)| {
                format!("{} ({} parts)", name.key_id(), parts.len())
            };
            content.certs.iter().map(count).collect::<Vec<_>>().join(", ")
        };
        compare("certificates", self.certs == there.certs, counts(self), counts(there));
        macro_rules! compare_fields {
            ($($field:ident),*) => {$(
                let (want, have) = (&self.$field, &there.$field);
                compare(stringify!($field), want == have, format!("{want:?}"), format!("{have:?}"));
            )*};
        }
        compare_fields!(blocked, redacted, trust, bindings, indexes, last_change);
        all
    }
}

/// The redacted user IDs of a certificate.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
struct Redactions {
    all: bool,
    user_ids: BTreeSet<Name>,
}

/// A store.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct State {
    pub(crate) content: Content,
    redactions: BTreeMap<Fingerprint, Redactions>,
}

impl State {
    /// An empty store with all indexes.
    pub(crate) fn new() -> Self {
        let indexes = TextIndex::ALL.into_iter().map(TextIndex::table).collect();
        let content = Content { indexes, ..Content::default() };
        Self { content, redactions: BTreeMap::new() }
    }

    /// Joins a copy of a certificate.
    pub(crate) fn import(&mut self, number: usize, copy: Copy) -> IngestOutcome {
        let copy = copy_of(number, copy);
        let name = copy.fingerprint();
        let joined = self.joined(name, parts(&copy));
        let there = self.content.certs.get(&name);
        let outcome = match there {
            None if self.content.blocked.contains(&name) => {
                return IngestOutcome::Refused(IngestRefusal::Blocked);
            }
            None => IngestOutcome::New,
            Some(there) if *there == joined => return IngestOutcome::Unchanged,
            Some(_) => IngestOutcome::Updated,
        };
        self.content.certs.insert(name, joined);
        self.content.last_change = self.content.last_change.next();
        outcome
    }

    /// The parts that are there and `more`, without those that are redacted.
    fn joined(&self, name: Fingerprint, mut more: BTreeSet<Part>) -> BTreeSet<Part> {
        more.extend(self.content.certs.get(&name).into_iter().flatten());
        if let Some(redactions) = self.redactions.get(&name) {
            more.retain(|((tag, body), _)| {
                let is_named = match Tag(*tag) {
                    Tag::USER_ID | Tag::USER_ATTRIBUTE => {
                        redactions.all || redactions.user_ids.contains(body)
                    }
                    _ => false,
                };
                !is_named
            });
        }
        more
    }

    fn redact(&mut self, number: usize, user_id: Option<usize>) {
        let name = cert(number).fingerprint();
        let redactions = self.redactions.entry(name).or_default();
        match user_id.and_then(|at| user_id_of(number, at)) {
            None => redactions.all = true,
            Some(body) => {
                redactions.user_ids.insert(sha256(&[body])[..8].try_into().expect("8 bytes"));
            }
        }
        self.content.redacted.insert(name);
        let left = self.joined(name, BTreeSet::new());
        if let Some(there) = self.content.certs.get_mut(&name)
            && *there != left
        {
            *there = left;
            self.content.last_change = self.content.last_change.next();
        }
    }

    fn delete(&mut self, certs: &[usize], returning: Return) {
        for &number in certs {
            let name = cert(number).fingerprint();
            if self.content.certs.remove(&name).is_some() {
                self.content.last_change = self.content.last_change.next();
            }
            if returning == Return::Blocked {
                self.content.blocked.insert(name);
            }
        }
    }

    fn bound(&mut self, number: usize) -> &mut Bound {
        let (email, _) = address_of(number);
        let key = (email, cert(number).fingerprint());
        let new = || Bound { policy: Policy::Auto as u8, ..Bound::default() };
        self.content.bindings.entry(key).or_insert_with(new)
    }

    /// Does an operation on this store.
    fn apply(&mut self, operation: &Operation) {
        match operation {
            Operation::Import { copies, .. } => {
                for &(number, copy) in copies {
                    self.import(number, copy);
                }
            }
            Operation::Delete { certs, returning, .. } => self.delete(certs, *returning),
            Operation::Unblock { cert: number, .. } => {
                self.content.blocked.remove(&cert(*number).fingerprint());
            }
            Operation::Redact { cert, user_id, .. } => self.redact(*cert, *user_id),
            Operation::Unredact { cert: number, .. } => {
                let name = cert(*number).fingerprint();
                self.redactions.remove(&name);
                self.content.redacted.remove(&name);
            }
            Operation::SetTrust { cert: number, value, .. } => {
                let name = cert(*number).fingerprint();
                if *value == 0 {
                    self.content.trust.remove(&name);
                } else {
                    self.content.trust.insert(name, *value);
                }
            }
            Operation::Observe { cert, signature, .. } => {
                let bound = self.bound(*cert);
                match signature {
                    Some(number) => {
                        bound.verified.insert(digest_of(*number));
                    }
                    None => bound.encrypted += 1,
                }
            }
            Operation::Decide { cert, policy, .. } => self.bound(*cert).policy = *policy as u8,
            Operation::AddIndex { index, .. } => {
                self.content.indexes.insert(index.table());
            }
            Operation::DropIndex { index, .. } => {
                self.content.indexes.remove(index.table());
            }
            _ => {}
        }
    }
}

/// A user ID of a certificate.
pub(crate) fn user_id_of(number: usize, at: usize) -> Option<&'static [u8]> {
    let count = cert(number).user_ids().count();
    cert(number).user_ids().nth(at % count.max(1))
}

/// The address of a certificate in the form of bindings, and its user ID.
pub(crate) fn address_of(number: usize) -> (Vec<u8>, &'static [u8]) {
    let user_id = user_id_of(number, 0).unwrap_or_default();
    (address::gnupg_name(user_id), user_id)
}

/// A digest of signed data.
pub(crate) fn digest_of(number: u8) -> String {
    format!("digest {number}")
}

/// The stores in a folder, by name.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(crate) struct World(pub(crate) BTreeMap<String, State>);

impl World {
    /// The worlds through which an operation leads. Each is on the disk at some time, and the last
    /// one at the end.
    pub(crate) fn after(&self, operation: &Operation) -> Vec<Self> {
        let mut next = self.clone();
        match operation {
            Operation::Close { .. } => {}
            Operation::Build { number, copies } => {
                next.0.insert(name_of("built", *number), built(copies));
            }
            Operation::Restore { backup, number } => {
                let Some(from) = self.0.get(&name_of("copy", *backup)).cloned() else {
                    return vec![next];
                };
                let mut worlds = Vec::new();
                if let Some(main) = next.0.remove(MAIN) {
                    // The old store is set aside before the new one gets its name.
                    next.0.insert(name_of("aside", *number), main);
                    worlds.push(next.clone());
                }
                next.0.insert(MAIN.to_owned(), from);
                worlds.push(next);
                return worlds;
            }
            Operation::Upgrade { .. } if !self.0.contains_key(MAIN) => {}
            operation => {
                let mut worlds = Vec::new();
                if !next.0.contains_key(MAIN) {
                    next.0.insert(MAIN.to_owned(), State::new());
                    worlds.push(next.clone());
                }
                let main = next.0.get_mut(MAIN).expect("made before");
                main.apply(operation);
                if let Operation::Backup { number, .. } = operation {
                    let copy = main.clone();
                    next.0.insert(name_of("copy", *number), copy);
                }
                worlds.push(next);
                return worlds;
            }
        }
        vec![next]
    }

    /// This world, with what differs between `from` and `to`.
    pub(crate) fn with(&self, from: &Self, to: &Self) -> Self {
        let mut changed = self.clone();
        for name in from.0.keys().chain(to.0.keys()) {
            match to.0.get(name) {
                now if now == from.0.get(name) => {}
                Some(now) => {
                    changed.0.insert(name.clone(), now.clone());
                }
                None => {
                    changed.0.remove(name);
                }
            }
        }
        changed
    }

    /// Whether this equals the content that was found.
    pub(crate) fn is(&self, found: &BTreeMap<String, Content>) -> bool {
        let mine = self.0.iter().map(|(name, state)| (name, &state.content));
        mine.eq(found.iter())
    }

    /// The differences to the content that was found, for people.
    pub(crate) fn differences(&self, found: &BTreeMap<String, Content>) -> Vec<String> {
        let names: BTreeSet<&String> = self.0.keys().chain(found.keys()).collect();
        let of_store = |name: &&String| match (self.0.get(*name), found.get(*name)) {
            (Some(want), Some(have)) => want.content.differences(have),
            (Some(_), None) => vec!["missing".to_owned()],
            (None, _) => vec!["there, and should not be".to_owned()],
        };
        let line = |name| {
            of_store(&name).into_iter().map(move |difference| format!("{name}: {difference}"))
        };
        names.into_iter().flat_map(line).collect()
    }
}

/// The store that a build makes of these copies.
pub(crate) fn built(copies: &[(usize, Copy)]) -> State {
    let mut state = State::new();
    let mut again: BTreeMap<usize, Vec<Copy>> = BTreeMap::new();
    for &(number, copy) in copies {
        if state.content.certs.contains_key(&cert(number).fingerprint()) {
            again.entry(number).or_default().push(copy);
        } else {
            state.import(number, copy);
        }
    }
    // Further copies are joined with each other before they are joined with the first one.
    for (number, copies) in again {
        let before = state.content.last_change;
        for copy in copies {
            state.import(number, copy);
        }
        state.content.last_change = state.content.last_change.min(before.next());
    }
    state
}
