//! A disk that did not write a page, wrote it in the wrong place, or lets it rot.
//!
//! The store is closed and its file is changed: some of the pages that the last operation wrote get
//! back what they had before, or a page gets the content of another one, zeros, or a flipped bit.
//! Then the real store opens the file. Three rules must hold:
//!
//! 1. A check names damage, unless the content is as it was.
//! 2. If one page is lost, no certificate is given out that is not the last one.
//! 3. A rebuild hides nothing: a check afterwards names what is not as it was.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::fs;
use std::path::Path;

use talaria_cert::{Cert, Fingerprint, Tag, Verification};
use talaria_corpus::{CorpusProfile, Generate, certs};
use talaria_store::{
    Access, Binding, Depth, Event, Finding, Layout, Observation, Redaction, Remedy, Return, Store,
    StoreError,
};
use talaria_trust::tofu::Policy;

use crate::numbers::Numbers;
use crate::run::{NOW, temporary_folder};

/// Certificates in the store. Pages split at that many.
const CERTS: usize = 60;

/// The size of a page. The smaller it is, the fewer rows does a page have.
const PAGE: usize = 4096;

/// What happened to pages.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Rot {
    /// One or two of them have what they had before the last operation, which wrote others as well.
    Stale,
    /// It has the content of another page.
    Misplaced,
    /// It has only zeros.
    Zeros,
    /// One of its bits is flipped.
    Flipped,
}

/// The counts of a simulation.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
#[non_exhaustive]
pub struct PagesReport {
    /// Files that were opened.
    pub files: u64,
    /// Those in which a check named damage.
    pub named: u64,
    /// Those whose content was as before.
    pub without_effect: u64,
    /// Those that a rebuild made whole again.
    pub rebuilt: u64,
}

impl std::ops::AddAssign for PagesReport {
    fn add_assign(&mut self, other: Self) {
        self.files += other.files;
        self.named += other.named;
        self.without_effect += other.without_effect;
        self.rebuilt += other.rebuilt;
    }
}

/// A rule that did not hold.
#[derive(Debug)]
pub struct PagesFailure(String);

impl fmt::Display for PagesFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for PagesFailure {}

impl From<StoreError> for PagesFailure {
    fn from(error: StoreError) -> Self {
        Self(format!("{error:?}"))
    }
}

/// What readers see of a store.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
struct Seen {
    certs: BTreeMap<Fingerprint, Vec<u8>>,
    blocked: BTreeSet<Fingerprint>,
    redacted: BTreeSet<Fingerprint>,
    trust: BTreeMap<Fingerprint, u8>,
    policies: BTreeMap<(Vec<u8>, Fingerprint), u8>,
}

impl Seen {
    /// Everything, or the first error.
    fn of(store: &Store, names: &[Fingerprint]) -> Result<Self, StoreError> {
        let mut seen = Self::default();
        for &name in names {
            if let Some(stored) = store.get(name)? {
                seen.certs.insert(name, stored.cert.into_bytes());
            }
            if store.operator().is_blocked(name)? {
                seen.blocked.insert(name);
            }
            if store.operator().is_redacted(name)? {
                seen.redacted.insert(name);
            }
        }
        seen.trust.extend(store.web().ownertrusts()?);
        for Binding { fingerprint, email, policy, .. } in store.tofu().bindings()? {
            seen.policies.insert((email, fingerprint), policy as u8);
        }
        Ok(seen)
    }
}

/// A certificate without half of its signatures.
fn half(cert: &Cert) -> Cert {
    cert.retain(|at, packet| packet.tag != Tag::SIGNATURE || at % 2 == 1)
}

fn binding(cert: &Cert, policy: Policy) -> Option<Binding> {
    let user_id = cert.user_ids().next()?;
    Some(Binding {
        fingerprint: cert.fingerprint(),
        email: talaria_cert::address::gnupg_name(user_id),
        user_id: user_id.to_vec(),
        time: i64::from(NOW),
        policy,
        effective: None,
        conflict: None,
    })
}

/// Makes a store with something in every table.
fn fill(store: &mut Store, all: &[Cert]) -> Result<(), StoreError> {
    let halves = all[..CERTS].iter().map(half).collect();
    store.ingest(halves, Verification::Full, NOW.into())?;
    let name = |at: usize| all[at].fingerprint();
    store.web_mut().set_ownertrust(&[(name(0), 6), (name(1), 4), (name(2), 3)], NOW.into())?;
    store.delete(&[name(3)], Return::Blocked, NOW.into())?;
    store.operator_mut().redact(name(4), &[Redaction::All], NOW.into())?;
    for (at, policy) in [(5, Policy::Good), (6, Policy::Bad), (7, Policy::Auto)] {
        let Some(binding) = binding(&all[at], policy) else { continue };
        let observation = Observation { binding, event: Event::Encrypted(i64::from(NOW)) };
        store.tofu_mut().observe(&[observation])?;
    }
    Ok(())
}

/// The operation whose pages are lost.
fn operate(store: &mut Store, all: &[Cert], numbers: &mut Numbers) -> Result<(), StoreError> {
    let first = 8 + numbers.below(CERTS - 12);
    let some = &all[first..first + 1 + numbers.below(3)];
    let names: Vec<Fingerprint> = some.iter().map(Cert::fingerprint).collect();
    match numbers.below(4) {
        // Certificates that grow, as by a revocation.
        0 | 1 => store.ingest(some.to_vec(), Verification::Full, NOW.into()).map(drop),
        2 => store.delete(&names, Return::Allowed, NOW.into()).map(drop),
        _ => store.ingest(all[CERTS..].to_vec(), Verification::Full, NOW.into()).map(drop),
    }
}

/// Runs the simulation of a seed: one store, one operation, and some files for each kind of rot.
///
/// # Errors
///
/// A rule that did not hold, with the pages.
pub fn run_pages(seed: u64, rots: &[Rot], files: usize) -> Result<PagesReport, PagesFailure> {
    let mut numbers = Numbers::new(seed);
    let profile = CorpusProfile::small();
    let all = certs(&Generate { seed: 15, first: 0, count: CERTS as u64 + 3, profile });
    let names: Vec<Fingerprint> = all.iter().map(Cert::fingerprint).collect();
    let (_folder, path) = temporary_folder().map_err(PagesFailure)?;
    let path = path.join("certs.db");
    let mut layout = Layout::default();
    layout.page_bytes = u32::try_from(PAGE).expect("a small page");
    fill(&mut Store::open_with(&path, Access::Create, &layout)?, &all)?;
    let read = || fs::read(&path).map_err(|error| PagesFailure(error.to_string()));
    let before = read()?;
    operate(&mut Store::open(&path, Access::Write)?, &all, &mut numbers)?;
    let after = read()?;
    let seen = Seen::of(&Store::open(&path, Access::Write)?, &names)?;
    let mut report = PagesReport::default();
    for &rot in rots {
        for number in 0..files {
            let (file, pages) = rotten(rot, &before, &after, number, &mut numbers);
            if pages.is_empty() {
                continue;
            }
            let damage = (rot, pages.len());
            report += open(&path, &file, &seen, &names, damage).map_err(|PagesFailure(what)| {
                PagesFailure(format!("{rot:?}, pages {pages:?} of {}: {what}", after.len() / PAGE))
            })?;
        }
    }
    Ok(report)
}

/// The file of a store after some pages have rotted, and the numbers of these pages.
fn rotten(
    rot: Rot,
    before: &[u8],
    after: &[u8],
    number: usize,
    numbers: &mut Numbers,
) -> (Vec<u8>, Vec<usize>) {
    let page = |at: usize| at * PAGE..(at + 1) * PAGE;
    let count = after.len() / PAGE;
    let mut file = after.to_vec();
    if rot == Rot::Stale {
        let both = count.min(before.len() / PAGE);
        let written: Vec<usize> =
            (0..both).filter(|&at| before[page(at)] != after[page(at)]).collect();
        // Each page alone, and then pairs: a third witness says which version was written last.
        let mut lost = match written.get(number) {
            Some(&alone) => vec![alone],
            None => [0; 2].map(|_| written[numbers.below(written.len())]).to_vec(),
        };
        lost.dedup();
        for &at in &lost {
            file[page(at)].copy_from_slice(&before[page(at)]);
        }
        return (file, lost);
    }
    let at = 1 + numbers.below(count - 1);
    match rot {
        Rot::Misplaced => {
            let other = 1 + numbers.below(count - 1);
            file.copy_within(page(other), at * PAGE);
        }
        Rot::Zeros => file[page(at)].fill(0),
        Rot::Flipped | Rot::Stale => {
            file[at * PAGE + numbers.below(PAGE)] ^= 1 << numbers.below(8);
        }
    }
    (file, vec![at])
}

/// Opens a file and compares what it says with what was there.
fn open(
    path: &Path,
    file: &[u8],
    seen: &Seen,
    names: &[Fingerprint],
    (rot, pages): (Rot, usize),
) -> Result<PagesReport, PagesFailure> {
    for suffix in ["-wal", "-shm"] {
        let _ = fs::remove_file(path.with_extension(format!("db{suffix}")));
    }
    fs::write(path, file).map_err(|error| PagesFailure(error.to_string()))?;
    let mut report = PagesReport { files: 1, ..PagesReport::default() };
    // A file that cannot be opened or written has named its damage.
    let Ok(mut store) = Store::open(path, Access::Write) else {
        report.named += 1;
        return Ok(report);
    };
    let is_whole = |store: &Store| Seen::of(store, names).is_ok_and(|now| now == *seen);
    if pages == 1 {
        serves_only_the_last(&store, seen, names)?;
    }
    let found = store.check(Depth::Structure, |_| {});
    let is_clean = found.as_ref().is_ok_and(talaria_store::CheckReport::is_clean);
    if is_clean {
        if !is_whole(&store) {
            return Err(PagesFailure("a check finds nothing, and the content differs".into()));
        }
        report.without_effect += 1;
        return Ok(report);
    }
    report.named += 1;
    if store.rebuild(NOW.into()).is_err() {
        return Ok(report);
    }
    if pages == 1 {
        serves_only_the_last(&store, seen, names)
            .map_err(|PagesFailure(what)| PagesFailure(format!("after a rebuild: {what}")))?;
    }
    let again = store.check(Depth::Structure, |_| {});
    let is_clean = again.as_ref().is_ok_and(talaria_store::CheckReport::is_clean);
    if is_clean && !is_whole(&store) {
        return Err(PagesFailure(format!(
            "after a rebuild, a check finds nothing, and the content differs. Before: {found:?}"
        )));
    }
    let is_for_rebuild = |finding: &Finding| finding.remedy == Remedy::Rebuild;
    let is_left = again.as_ref().is_ok_and(|report| report.findings.iter().any(is_for_rebuild));
    // Trees that are out of order are for a backup.
    let is_torn = again
        .as_ref()
        .is_ok_and(|report| report.findings.iter().any(|finding| finding.object == "the file"));
    if rot == Rot::Stale && is_left && !is_torn {
        return Err(PagesFailure(format!(
            "a rebuild leaves what it should repair: {again:?}. Before: {found:?}"
        )));
    }
    report.rebuilt += u64::from(is_clean);
    Ok(report)
}

/// Reads all certificates in the ways of commands and of the keyserver.
fn serves_only_the_last(
    store: &Store,
    seen: &Seen,
    names: &[Fingerprint],
) -> Result<(), PagesFailure> {
    for &name in names {
        let wanted = seen.certs.get(&name);
        let query = talaria_store::Query::Fingerprint(name.as_bytes().to_vec());
        let by_row = store.get(name).ok().flatten();
        let alone = store.sole(&query, u32::MAX).ok().flatten().map(|sole| sole.stored);
        for found in [by_row, alone].into_iter().flatten() {
            if wanted.map(Vec::as_slice) != Some(found.cert.as_bytes()) {
                return Err(PagesFailure(format!("{name} is given out as it was before")));
            }
        }
    }
    Ok(())
}
