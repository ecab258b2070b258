//! Records: entries with what proves them.

use std::borrow::Cow;
use std::ops::Range;
use std::sync::Arc;

use crate::bytes::{Fields, Malformed, count_u8, write_part};
use crate::deletable::Opening;
use crate::entry::{ENTRY_BYTES_MAX, Entry};
use crate::merkle::{self, Levels, PATH_MAX};
use crate::name::{ChainName, EntryId};
use crate::signature::StoredSignature;

/// Most entries of a batch.
pub const BATCH_MAX: usize = 65_536;
/// Longest record, in bytes.
pub const RECORD_BYTES_MAX: usize = 16 << 20;

const MAGIC: [u8; 5] = *b"TLGB\x01";

/// The statement that the author of a batch signs.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Statement {
    /// The log.
    pub log: EntryId,
    /// The chain.
    pub chain: ChainName,
    /// The sequence of the first entry.
    pub first: u64,
    /// The number of entries.
    pub count: u32,
    /// The entry before the first one.
    pub previous: EntryId,
    /// The root of the Merkle tree over the identities of the entries.
    pub root: [u8; 32],
}

impl Statement {
    /// The bytes that are signed.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(192);
        out.extend(MAGIC);
        out.extend(self.log.0);
        out.extend(self.chain.author.to_bytes());
        out.extend(self.chain.subkey.to_bytes());
        out.extend(self.chain.instance);
        out.extend(self.first.to_be_bytes());
        out.extend(self.count.to_be_bytes());
        out.extend(self.previous.0);
        out.extend(self.root);
        out
    }

    fn read(fields: &mut Fields<'_>) -> Result<Self, Malformed> {
        if fields.array()? != MAGIC {
            return Err(Malformed::Field("start of a statement"));
        }
        let log = fields.id()?;
        let chain = ChainName {
            author: fields.key("author")?,
            subkey: fields.key("key")?,
            instance: fields.array()?,
        };
        let (first, count) = (fields.u64()?, fields.u32()?);
        if count == 0 || count as usize > BATCH_MAX {
            return Err(Malformed::Field("number of entries"));
        }
        Ok(Self { log, chain, first, count, previous: fields.id()?, root: fields.array()? })
    }

    /// Whether the statement is about `entry`, and the path proves it.
    fn covers(&self, entry: &Entry, id: &EntryId, path: &AuditPath) -> bool {
        let at = entry.sequence.checked_sub(self.first).and_then(|at| usize::try_from(at).ok());
        self.log == entry.log
            && self.chain == entry.chain
            && (entry.sequence != self.first || entry.previous == self.previous)
            && at.is_some_and(|at| path.proves(id, at, self.count as usize, &self.root))
    }
}

/// A statement and its signature.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct SignedStatement {
    /// The statement.
    pub statement: Statement,
    /// The signature on its bytes.
    pub signature: StoredSignature,
}

/// The proof that the author made an entry.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Evidence {
    /// A signature of its own.
    Alone(StoredSignature),
    /// The signature on a batch, and the audit path of the entry.
    InBatch(Arc<SignedStatement>, AuditPath),
}

/// The proof that an entry is in the tree of a batch. Entries that were read or made as a whole
/// batch share its tree, and their hashes are looked up when somebody needs them.
#[derive(Clone, Debug)]
pub struct AuditPath(Path);

#[derive(Clone, Debug)]
enum Path {
    Hashes(Vec<[u8; 32]>),
    InTree(Arc<Levels>, usize),
}

impl AuditPath {
    /// The hashes, from the leaf to the root.
    #[must_use]
    pub fn hashes(&self) -> Cow<'_, [[u8; 32]]> {
        match &self.0 {
            Path::Hashes(hashes) => Cow::Borrowed(hashes),
            Path::InTree(tree, at) => Cow::Owned(tree.path(*at)),
        }
    }

    /// The same path without the tree.
    fn detached(&self) -> Self {
        self.hashes().into_owned().into()
    }

    /// Whether the path proves that `id` is leaf number `at` of `count` in the tree with this root.
    fn proves(&self, id: &EntryId, at: usize, count: usize, root: &[u8; 32]) -> bool {
        match &self.0 {
            Path::Hashes(hashes) => merkle::is_included(id, at, count, hashes, root),
            // The tree was hashed when it was made.
            Path::InTree(tree, place) => *place == at && tree.has(id, at, count, root),
        }
    }
}

impl PartialEq for AuditPath {
    fn eq(&self, other: &Self) -> bool {
        self.hashes() == other.hashes()
    }
}

impl Eq for AuditPath {}

impl From<Vec<[u8; 32]>> for AuditPath {
    fn from(hashes: Vec<[u8; 32]>) -> Self {
        Self(Path::Hashes(hashes))
    }
}

/// An entry with its bytes and what proves it. Whether the proof holds is not known yet.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Signed {
    /// The entry.
    pub entry: Arc<Entry>,
    /// Its bytes.
    pub bytes: Vec<u8>,
    /// Its identity.
    pub id: EntryId,
    /// The proof.
    pub evidence: Evidence,
    /// The deletable value of the entry, if it came along.
    pub opening: Option<Opening>,
}

impl Signed {
    /// An entry with a signature of its own.
    #[must_use]
    pub fn alone(entry: Entry, signature: StoredSignature) -> Self {
        Unsigned::from(entry).with(Evidence::Alone(signature))
    }

    /// The bytes of the entry and of its deletable value.
    pub(crate) fn size(&self) -> usize {
        size(&self.bytes, self.opening.as_ref())
    }

    /// The log of the entry: for genesis, its own identity.
    #[must_use]
    pub fn log(&self) -> EntryId {
        if self.entry.log.is_none() { self.id } else { self.entry.log }
    }

    /// Whether the statement of the batch is about this entry. True for an entry with a signature
    /// of its own.
    pub(crate) fn is_covered(&self) -> bool {
        match &self.evidence {
            Evidence::Alone(_) => true,
            Evidence::InBatch(batch, path) => {
                !self.entry.log.is_none() && batch.statement.covers(&self.entry, &self.id, path)
            }
        }
    }

    /// Lets go of the tree of the batch, which can have 65,536 leaves, and keeps the hashes of the
    /// audit path.
    pub(crate) fn detach(&mut self) {
        if let Evidence::InBatch(_, path) = &mut self.evidence {
            *path = path.detached();
        }
    }

    /// The record of the entry alone: with the audit path if it is from a batch.
    #[must_use]
    pub fn to_record(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(self.size() + 128);
        write_openings(&mut out, std::slice::from_ref(self));
        match &self.evidence {
            Evidence::Alone(signature) => {
                out.push(1);
                write_part(&mut out, 4, &self.bytes);
                signature.write(&mut out);
            }
            Evidence::InBatch(batch, path) => {
                out.push(3);
                write_part(&mut out, 4, &self.bytes);
                out.extend(batch.statement.to_bytes());
                batch.signature.write(&mut out);
                let path = path.hashes();
                out.push(count_u8(path.len()));
                path.iter().for_each(|hash| out.extend(hash));
            }
        }
        out
    }
}

/// The entries of a batch with its signature. `None` if the statement is not about these entries.
#[must_use]
pub fn batch(statement: SignedStatement, entries: Vec<Entry>) -> Option<Vec<Signed>> {
    let tree = Tree::of(entries.into_iter().map(Unsigned::from).collect());
    tree.sign(statement)
}

/// An entry without a proof.
pub(crate) struct Unsigned {
    pub(crate) entry: Arc<Entry>,
    pub(crate) bytes: Vec<u8>,
    pub(crate) id: EntryId,
    pub(crate) opening: Option<Opening>,
}

impl From<Entry> for Unsigned {
    fn from(entry: Entry) -> Self {
        let bytes = entry.to_bytes();
        let id = EntryId::of(&bytes);
        Self { entry: Arc::new(entry), bytes, id, opening: None }
    }
}

impl Unsigned {
    /// The bytes of the entry and of its deletable value.
    pub(crate) fn size(&self) -> usize {
        size(&self.bytes, self.opening.as_ref())
    }

    fn read(bytes: &[u8]) -> Result<Self, Malformed> {
        let entry = Arc::new(Entry::read(bytes)?);
        Ok(Self { entry, bytes: bytes.to_vec(), id: EntryId::of(bytes), opening: None })
    }

    /// The entry with its proof.
    pub(crate) fn with(self, evidence: Evidence) -> Signed {
        let Self { entry, bytes, id, opening } = self;
        Signed { entry, bytes, id, evidence, opening }
    }
}

/// Entries in a row, as the leaves of the Merkle tree of a batch.
pub(crate) struct Tree {
    entries: Vec<Unsigned>,
    levels: Arc<Levels>,
}

impl Tree {
    pub(crate) fn of(entries: Vec<Unsigned>) -> Self {
        let ids = entries.iter().map(|entry| entry.id).collect();
        Self { entries, levels: Arc::new(Levels::of(ids)) }
    }

    pub(crate) fn root(&self) -> [u8; 32] {
        self.levels.root()
    }

    /// The entries with their proofs. `None` if the statement is not about this tree.
    pub(crate) fn sign(self, statement: SignedStatement) -> Option<Vec<Signed>> {
        let of = &statement.statement;
        if self.entries.len() != of.count as usize || self.root() != of.root {
            return None;
        }
        let batch = Arc::new(statement);
        let path = |at| AuditPath(Path::InTree(Arc::clone(&self.levels), at));
        let signed = self.entries.into_iter().enumerate();
        let signed = signed.map(|(at, e)| e.with(Evidence::InBatch(Arc::clone(&batch), path(at))));
        Some(signed.collect())
    }
}

/// The kind of a record that begins with deletable values.
const OPENINGS: u8 = 4;

fn size(bytes: &[u8], opening: Option<&Opening>) -> usize {
    bytes.len() + opening.map_or(0, Opening::record_bytes)
}

/// Writes the deletable values of the entries of a record, if there are any.
fn write_openings(out: &mut Vec<u8>, entries: &[Signed]) {
    let openings: Vec<(u32, &Opening)> =
        (0..).zip(entries).filter_map(|(at, one)| Some((at, one.opening.as_ref()?))).collect();
    if openings.is_empty() {
        return;
    }
    out.push(OPENINGS);
    // A batch has at most 65,536 entries.
    out.extend(u32::try_from(openings.len()).unwrap_or(u32::MAX).to_be_bytes());
    for (place, opening) in openings {
        out.extend(place.to_be_bytes());
        opening.write(out);
    }
}

/// Reads the deletable values of a record that begins with them, each with the place of its entry.
fn read_openings(fields: &mut Fields<'_>) -> Result<Vec<(usize, Opening)>, Malformed> {
    fields.u8()?;
    let count = fields.u32()?;
    if count == 0 || count as usize > BATCH_MAX {
        return Err(Malformed::Field("number of deletable values"));
    }
    let mut openings: Vec<(usize, Opening)> = Vec::new();
    for _ in 0..count {
        let place = fields.u32()? as usize;
        if openings.last().is_some_and(|(before, _)| *before >= place) {
            return Err(Malformed::Order("deletable values"));
        }
        openings.push((place, Opening::read(fields)?));
    }
    Ok(openings)
}

/// The record of whole batches, and of single entries where a batch is not whole or only one entry.
/// Appends one record after the other to `records`.
pub fn to_records(entries: &[Signed], records: &mut Vec<Vec<u8>>) {
    let mut rest = entries;
    while let Some(first) = rest.first() {
        let run = run_of_batch(rest);
        rest = &rest[run.len()..];
        match &first.evidence {
            Evidence::InBatch(batch, _) if is_record(batch, run) => {
                let bytes: usize = run.iter().map(|signed| signed.size() + 4).sum();
                let mut out = Vec::with_capacity(bytes + 512);
                write_openings(&mut out, run);
                out.push(2);
                out.extend(batch.statement.to_bytes());
                batch.signature.write(&mut out);
                out.extend(batch.statement.count.to_be_bytes());
                run.iter().for_each(|signed| write_part(&mut out, 4, &signed.bytes));
                records.push(out);
            }
            _ => records.extend(run.iter().map(Signed::to_record)),
        }
    }
}

/// The first of some entries, with those behind it that have the same statement and follow it in
/// the chain. At least one.
fn run_of_batch(entries: &[Signed]) -> &[Signed] {
    let Evidence::InBatch(batch, _) = &entries[0].evidence else { return &entries[..1] };
    let follows = |(at, signed): (u64, &Signed)| {
        matches!(&signed.evidence, Evidence::InBatch(other, _) if Arc::ptr_eq(other, batch) || other == batch)
            && entries[0].entry.sequence.checked_add(at) == Some(signed.entry.sequence)
    };
    let count = (0..).zip(entries).take_while(|&place| follows(place)).count();
    &entries[..count.max(1)]
}

/// Whether a run of a batch is the whole of it, and becomes one record.
fn is_record(batch: &SignedStatement, run: &[Signed]) -> bool {
    run.len() > 1
        && run.len() == batch.statement.count as usize
        && run[0].entry.sequence == batch.statement.first
        && together(run.iter().map(Signed::size)) == run.len()
}

/// The number of the first entries, by their bytes and those of their deletable values, that one
/// record can hold as a batch. At least 1, if there is one.
pub(crate) fn together(bytes: impl IntoIterator<Item = usize>) -> usize {
    let (mut sum, mut count) = (0, 0);
    for bytes in bytes.into_iter().take(BATCH_MAX) {
        sum += bytes + 4;
        if sum >= BATCH_BYTES_MAX && count > 0 {
            break;
        }
        count += 1;
    }
    count
}

/// Longest entries of a batch that become one record, in bytes: a record fits into a frame.
pub(crate) const BATCH_BYTES_MAX: usize = 3 << 20;

/// The places of the entries in the bytes of a record.
pub(crate) fn places(bytes: &[u8]) -> Result<Vec<Range<usize>>, Malformed> {
    let mut fields = Fields(bytes);
    if bytes.first() == Some(&OPENINGS) {
        read_openings(&mut fields)?;
    }
    let next = |fields: &mut Fields<'_>| {
        let entry = fields.part(4, ENTRY_BYTES_MAX, "entry")?;
        let end = bytes.len() - fields.0.len();
        Ok(end - entry.len()..end)
    };
    if fields.u8()? != 2 {
        return Ok(vec![next(&mut fields)?]);
    }
    let count = Statement::read(&mut fields)?.count;
    StoredSignature::read(&mut fields)?;
    fields.u32()?;
    (0..count).map(|_| next(&mut fields)).collect()
}

/// The entries of a record.
///
/// # Errors
///
/// [`Malformed`] if the bytes are no record, or if a statement is not about the entries beside it.
pub fn read_record(bytes: &[u8]) -> Result<Vec<Signed>, Malformed> {
    let mut fields = Fields(bytes);
    let openings = match bytes.first() {
        Some(&OPENINGS) => read_openings(&mut fields)?,
        _ => Vec::new(),
    };
    let mut entries = read_entries(fields)?;
    for (place, opening) in openings {
        let signed = entries.get_mut(place).filter(|signed| signed.entry.commitment().is_some());
        signed.ok_or(Malformed::Field("place of a deletable value"))?.opening = Some(opening);
    }
    Ok(entries)
}

/// The entries of a record, without deletable values.
fn read_entries(mut fields: Fields<'_>) -> Result<Vec<Signed>, Malformed> {
    match fields.u8()? {
        1 => {
            let entry = fields.part(4, ENTRY_BYTES_MAX, "entry")?;
            let signature = StoredSignature::read(&mut fields)?;
            fields.end()?;
            Ok(vec![Unsigned::read(entry)?.with(Evidence::Alone(signature))])
        }
        2 => {
            let statement = Statement::read(&mut fields)?;
            let signature = StoredSignature::read(&mut fields)?;
            if fields.u32()? != statement.count {
                return Err(Malformed::Field("number of entries"));
            }
            // The count is at most 65,536, and each entry has more bytes than this.
            let mut entries =
                Vec::with_capacity((statement.count as usize).min(fields.0.len() / 64));
            for _ in 0..statement.count {
                let bytes = fields.part(4, ENTRY_BYTES_MAX, "entry")?;
                entries.push(Unsigned::read(bytes)?);
            }
            fields.end()?;
            let signed = Tree::of(entries).sign(SignedStatement { statement, signature });
            signed.ok_or(Malformed::Field("root of a batch"))
        }
        3 => {
            let entry = fields.part(4, ENTRY_BYTES_MAX, "entry")?;
            let statement = Statement::read(&mut fields)?;
            let signature = StoredSignature::read(&mut fields)?;
            let count = usize::from(fields.u8()?);
            if count > PATH_MAX {
                return Err(Malformed::Field("audit path"));
            }
            let path = (0..count).map(|_| fields.array()).collect::<Result<Vec<_>, _>>()?;
            fields.end()?;
            let batch = Arc::new(SignedStatement { statement, signature });
            Ok(vec![Unsigned::read(entry)?.with(Evidence::InBatch(batch, path.into()))])
        }
        _ => Err(Malformed::Field("kind of a record")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What waits is counted by the bytes of entries, so it must not keep trees.
    #[test]
    fn a_detached_path_proves_the_same_without_the_tree() {
        let ids: Vec<EntryId> = (0..5).map(|number| EntryId([number; 32])).collect();
        let tree = Arc::new(Levels::of(ids.clone()));
        let path = AuditPath(Path::InTree(Arc::clone(&tree), 3));
        let detached = path.detached();
        assert_eq!(detached, path);
        drop(path);
        assert_eq!(Arc::strong_count(&tree), 1);
        for (at, id) in ids.iter().enumerate() {
            assert_eq!(detached.proves(id, at, 5, &tree.root()), at == 3);
        }
    }
}
