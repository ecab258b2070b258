//! The file of a snapshot, which shows what a log was to those who have nothing else
//! (`docs/formats/log.md`, Snapshot).

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::io::{self, Read, Write};
use std::sync::Arc;

use talaria_cert::ErrorKind;

use crate::action::{Action, NAME_BYTES_MAX};
use crate::bytes::{Fields, Malformed, write_part};
use crate::certificate::Certificate;
use crate::clock::Clock;
use crate::commitment::Commitment;
use crate::deletable::Opening;
use crate::entry::Entry;
use crate::genesis::Genesis;
use crate::log::error::{GenesisError, UpdateError};
use crate::log::memory::Log;
use crate::log::update::one_object;
use crate::merge::Content;
use crate::name::{EntryId, KeyName, ObjectId};
use crate::record::{Signed, read_record};
use crate::refusal::Refusal;
use crate::snapshot::{EVIDENCE_MAX, Snapshot};
use crate::state::{ObjectInfo, State, StateHash};
use crate::value::{VALUE_BYTES_MAX, Value};

/// The start of the file of a snapshot.
pub const SNAPSHOT_MAGIC: [u8; 5] = *b"TLGT\x01";
/// Longest record in the file of a snapshot, in bytes.
const RECORD_BYTES_MAX: usize = 262_144;

/// The reason why a file does not show what a log was.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SnapshotError {
    /// The file cannot be read.
    #[error("it cannot be read")]
    Io(#[from] io::Error),
    /// The bytes are no snapshot, or are cut off.
    #[error("it is no snapshot of a log: {0}")]
    Malformed(#[from] Malformed),
    /// It is a snapshot of another log.
    #[error("it is a snapshot of the log {found}, not of {wanted}")]
    OtherLog {
        /// The log of the file.
        found: EntryId,
        /// The log that the caller expects.
        wanted: EntryId,
    },
    /// The genesis entry does not hold.
    #[error(transparent)]
    Genesis(#[from] GenesisError),
    /// An entry is not by an owner, or its signature does not hold.
    #[error("the entry {id} does not count: {refusal}")]
    Refused {
        /// The entry.
        id: EntryId,
        /// The reason.
        refusal: Box<Refusal>,
    },
    /// Fewer owners have signed than the log demands.
    #[error("{found} of the owners have signed it, and the log demands {needed}")]
    TooFew {
        /// The number of different owners.
        found: usize,
        /// The threshold.
        needed: u8,
    },
    /// The objects in the file are not the state that was signed.
    #[error("the objects in it are not those that the owners have signed")]
    State,
    /// A deletable value beside the state does not belong to it.
    #[error("a deletable value in it is not one that the state has")]
    Opening,
}

impl SnapshotError {
    /// The kind.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Io(_) => ErrorKind::Io,
            Self::Malformed(_) => ErrorKind::Malformed,
            Self::OtherLog { .. } => ErrorKind::Unexpected,
            Self::Genesis(_)
            | Self::Refused { .. }
            | Self::TooFew { .. }
            | Self::State
            | Self::Opening => ErrorKind::Unproven,
        }
    }

    /// The reason in one word.
    #[must_use]
    pub fn word(&self) -> &'static str {
        match self {
            Self::Io(_) => "io",
            Self::Malformed(_) => "malformed",
            Self::OtherLog { .. } => "other-log",
            Self::Genesis(_) => "genesis",
            Self::Refused { .. } => "refused",
            Self::TooFew { .. } => "too-few",
            Self::State => "state",
            Self::Opening => "opening",
        }
    }
}

/// Writes the file of a snapshot up to its openings, which [`write_opening`] and [`end_openings`]
/// write.
pub(crate) fn write_start(
    out: &mut impl Write,
    genesis: &Signed,
    evidence: &[Signed],
    state: &State,
) -> io::Result<()> {
    let mut start = SNAPSHOT_MAGIC.to_vec();
    let record = |signed: &Signed, out: &mut Vec<u8>| {
        let bare = Signed { opening: None, ..signed.clone() };
        write_part(out, 4, &bare.to_record());
    };
    record(genesis, &mut start);
    let count = u16::try_from(evidence.len()).expect("at most 4,096 entries");
    start.extend(count.to_be_bytes());
    evidence.iter().for_each(|signed| record(signed, &mut start));
    start.extend((state.contents().count() as u64).to_be_bytes());
    out.write_all(&start)?;
    for (id, bytes) in state.contents() {
        out.write_all(&id.0)?;
        out.write_all(&(bytes.len() as u64).to_be_bytes())?;
        out.write_all(&bytes)?;
    }
    Ok(())
}

/// Writes an opening. They ascend by the hash of the commitment.
pub(crate) fn write_opening(out: &mut impl Write, opening: &Opening) -> io::Result<()> {
    let mut bytes = vec![1];
    opening.write(&mut bytes);
    out.write_all(&bytes)
}

/// Ends the openings, and the file.
pub(crate) fn end_openings(out: &mut impl Write) -> io::Result<()> {
    out.write_all(&[0])
}

/// A log as owners have signed it, from a file. It was checked when it was read: enough owners have
/// signed, and the objects are those that they have signed. It does not say what came later.
#[derive(Clone, Debug)]
pub struct SnapshotFile {
    log: EntryId,
    genesis: Genesis,
    entry: EntryId,
    clock: Clock,
    snapshot: Snapshot,
    signers: Vec<KeyName>,
    objects: BTreeMap<ObjectId, Object>,
    missing: u64,
}

#[derive(Clone, Debug)]
struct Object {
    named: Option<(String, KeyName)>,
    is_deleted: bool,
    fields: BTreeMap<String, Content>,
}

impl SnapshotFile {
    /// Reads a snapshot of the log `log`, and checks it. Memory is that of the state, whatever the
    /// file says.
    ///
    /// # Errors
    ///
    /// [`SnapshotError`].
    pub fn read(input: &mut impl Read, log: EntryId) -> Result<Self, SnapshotError> {
        let mut input = Input(input);
        if input.array()? != SNAPSHOT_MAGIC {
            return Err(Malformed::Field("start of a snapshot").into());
        }
        let genesis = input.record()?;
        if genesis.log() != log {
            return Err(SnapshotError::OtherLog { found: genesis.log(), wanted: log });
        }
        let mut agreement = Agreement::begin(&genesis)?;
        let count = u16::from_be_bytes(input.array()?);
        if !(1..=EVIDENCE_MAX).contains(&usize::from(count)) {
            return Err(Malformed::Field("number of records").into());
        }
        for _ in 0..count {
            agreement.add(&input.record()?)?;
        }
        let (entry, clock, snapshot, signers) = agreement.snapshot()?;
        let genesis = agreement.log.genesis().clone();
        let (objects, commitments) = read_objects(&mut input, &genesis, log, &snapshot)?;
        let values = read_openings(&mut input, &commitments)?;
        if input.part(1)?.is_empty() {
            let missing = (commitments.len() - values.len()) as u64;
            let objects = revealed(objects, &values);
            return Ok(Self { log, genesis, entry, clock, snapshot, signers, objects, missing });
        }
        Err(Malformed::Trailing.into())
    }

    /// The identity of the log.
    #[must_use]
    pub fn log(&self) -> EntryId {
        self.log
    }

    /// The content of the genesis entry.
    #[must_use]
    pub fn genesis(&self) -> &Genesis {
        &self.genesis
    }

    /// The entry of the snapshot.
    #[must_use]
    pub fn entry(&self) -> EntryId {
        self.entry
    }

    /// The clock of the entry: its author claims that it was then.
    #[must_use]
    pub fn clock(&self) -> Clock {
        self.clock
    }

    /// What the owners have signed.
    #[must_use]
    pub fn snapshot(&self) -> &Snapshot {
        &self.snapshot
    }

    /// The owners who have signed, ascending.
    #[must_use]
    pub fn signers(&self) -> &[KeyName] {
        &self.signers
    }

    /// The number of commitments whose deletable value is not in the file.
    #[must_use]
    pub fn missing_values(&self) -> u64 {
        self.missing
    }

    /// The objects that are not deleted, in the order of their identities.
    pub fn objects(&self) -> impl Iterator<Item = ObjectInfo> {
        self.objects.iter().filter_map(|(id, object)| object.info(*id))
    }

    /// An object that is not deleted.
    #[must_use]
    pub fn object(&self, id: ObjectId) -> Option<ObjectInfo> {
        self.objects.get(&id)?.info(id)
    }

    /// The object with a name, or with an identity in hexadecimal digits.
    ///
    /// # Errors
    ///
    /// [`UpdateError::NoObject`]; [`UpdateError::Ambiguous`].
    pub fn find_object(&self, name: &str) -> Result<ObjectId, UpdateError> {
        let named = self.objects().filter_map(|object| match object.named {
            Some((found, creator)) if found == name => Some((object.id, creator)),
            _ => None,
        });
        one_object(named.collect(), name)
    }

    /// The content of a field of an object that is not deleted.
    #[must_use]
    pub fn field(&self, object: ObjectId, field: &str) -> Option<&Content> {
        let object = self.objects.get(&object).filter(|object| !object.is_deleted)?;
        object.fields.get(field)
    }

    /// The fields with their contents, of an object that is not deleted.
    pub fn fields(&self, object: ObjectId) -> impl Iterator<Item = (&str, &Content)> {
        let object = self.objects.get(&object).filter(|object| !object.is_deleted);
        let fields = object.into_iter().flat_map(|object| &object.fields);
        fields.map(|(name, content)| (name.as_str(), content))
    }
}

impl Object {
    /// Reads the bytes of an object.
    fn read(bytes: &[u8], genesis: &Genesis) -> Result<Self, Malformed> {
        let mut fields = Fields(bytes);
        let mut flag = || match fields.u8()? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(Malformed::Field("flag of an object")),
        };
        let (is_named, is_deleted) = (flag()?, flag()?);
        let name = |fields: &mut Fields<'_>, what| {
            let name = fields.text(NAME_BYTES_MAX, what)?;
            if name.is_empty() { Err(Malformed::Field(what)) } else { Ok(name) }
        };
        let named = if is_named {
            Some((name(&mut fields, "name of an object")?, fields.key("creator")?))
        } else {
            None
        };
        let mut all: BTreeMap<String, Content> = BTreeMap::new();
        while !fields.0.is_empty() {
            let field = name(&mut fields, "name of a field")?;
            if all.last_key_value().is_some_and(|(last, _)| *last >= field) {
                return Err(Malformed::Order("fields"));
            }
            let content = Content::read(genesis.rule(&field), &mut fields)?;
            all.insert(field, content);
        }
        Ok(Self { named, is_deleted, fields: all })
    }

    fn info(&self, id: ObjectId) -> Option<ObjectInfo> {
        let fields = self.fields.len();
        let is_there = !self.is_deleted && (fields > 0 || self.named.is_some());
        is_there.then(|| ObjectInfo { id, named: self.named.clone(), fields })
    }
}

type Objects = BTreeMap<ObjectId, Object>;

/// The objects of a state that has been signed, and their commitments.
fn read_objects(
    input: &mut Input<'_, impl Read>,
    genesis: &Genesis,
    log: EntryId,
    snapshot: &Snapshot,
) -> Result<(Objects, HashSet<Commitment>), SnapshotError> {
    let mut hash = StateHash::new(log);
    let mut objects = Objects::new();
    let mut commitments = HashSet::new();
    for _ in 0..u64::from_be_bytes(input.array()?) {
        let id = ObjectId(input.array()?);
        if objects.last_key_value().is_some_and(|(last, _)| *last >= id) {
            return Err(Malformed::Order("objects").into());
        }
        let length = u64::from_be_bytes(input.array()?);
        let bytes = input.whole_part(length)?;
        hash.add(id, &bytes);
        let object = Object::read(&bytes, genesis)?;
        for content in object.fields.values() {
            content.each_value(|value| {
                if let Value::Committed(commitment) = value {
                    commitments.insert(*commitment);
                }
            });
        }
        objects.insert(id, object);
    }
    if hash.finish() == snapshot.state {
        Ok((objects, commitments))
    } else {
        Err(SnapshotError::State)
    }
}

/// The deletable values beside a state, by their commitments.
fn read_openings(
    input: &mut Input<'_, impl Read>,
    wanted: &HashSet<Commitment>,
) -> Result<HashMap<Commitment, Option<Value>>, SnapshotError> {
    let mut values = HashMap::new();
    let mut last = None;
    loop {
        match input.array()? {
            [0] => return Ok(values),
            [1] => {}
            _ => return Err(Malformed::Field("whether an opening follows").into()),
        }
        let salt: [u8; 32] = input.array()?;
        let length = u32::from_be_bytes(input.array()?);
        if length as usize > VALUE_BYTES_MAX {
            let (found, limit) = (u64::from(length), VALUE_BYTES_MAX as u64);
            return Err(Malformed::Limit { what: "deletable value", found, limit }.into());
        }
        let bytes = input.whole_part(u64::from(length))?;
        let mut written = salt.to_vec();
        write_part(&mut written, 4, &bytes);
        let opening = Opening::read(&mut Fields(&written))?;
        let commitment = opening.commitment();
        if last.is_some_and(|last| last >= commitment.hash) {
            return Err(Malformed::Order("deletable values").into());
        }
        last = Some(commitment.hash);
        if !wanted.contains(&commitment) {
            return Err(SnapshotError::Opening);
        }
        values.insert(commitment, opening.value());
    }
}

/// The objects with their deletable values.
fn revealed(mut objects: Objects, values: &HashMap<Commitment, Option<Value>>) -> Objects {
    let reveal = |value: Value| match &value {
        Value::Committed(commitment) => match values.get(commitment) {
            Some(Some(known)) => known.clone(),
            _ => value,
        },
        _ => value,
    };
    if !values.is_empty() {
        for object in objects.values_mut() {
            let fields = std::mem::take(&mut object.fields).into_iter();
            object.fields = fields.map(|(name, content)| (name, content.map(reveal))).collect();
        }
    }
    objects
}

/// What owners have agreed to, by entries that come each behind those that it needs.
struct Agreement {
    /// The log with its genesis alone.
    log: Log,
    decisions: HashMap<EntryId, Decision>,
    snapshot: Option<EntryId>,
}

/// A grant to an owner, or a snapshot, and the owners who agree.
struct Decision {
    entry: Arc<Entry>,
    agreed: BTreeSet<KeyName>,
}

impl Agreement {
    fn begin(genesis: &Signed) -> Result<Self, GenesisError> {
        Ok(Self { log: Log::begin(genesis)?, decisions: HashMap::new(), snapshot: None })
    }

    fn needed(&self) -> usize {
        usize::from(self.log.genesis().threshold)
    }

    /// Takes an entry by an owner.
    fn add(&mut self, signed: &Signed) -> Result<(), SnapshotError> {
        let refused =
            |refusal| SnapshotError::Refused { id: signed.id, refusal: Box::new(refusal) };
        let (entry, author) = (&signed.entry, signed.entry.author());
        if signed.log() != self.log.id() || !signed.is_covered() {
            let other = signed.log() != self.log.id();
            return Err(refused(if other { Refusal::OtherLog } else { Refusal::Batch }));
        }
        let certificate = self.certificate(entry).map_err(refused)?;
        let key = self.log.key_of(certificate, &entry.chain).map_err(refused)?;
        self.log.check(signed, &key).map_err(refused)?;
        match &entry.action {
            Action::Approve(id) => {
                let decision = self.decisions.get_mut(id);
                let decision = decision.ok_or(Refusal::Reference("the approved entry"));
                decision.map_err(refused)?.agreed.insert(author);
                return Ok(());
            }
            Action::Grant(grant) if self.log.is_owner(&grant.author()) => {}
            Action::Snapshot(_) if self.snapshot.is_none() => self.snapshot = Some(signed.id),
            _ => return Err(Malformed::Field("operation in a snapshot").into()),
        }
        let decision = Decision { entry: Arc::clone(entry), agreed: BTreeSet::from([author]) };
        self.decisions.entry(signed.id).or_insert(decision);
        Ok(())
    }

    /// The certificate of the owner who has written an entry: that in genesis, or in the grant that
    /// the entry names.
    fn certificate(&self, entry: &Entry) -> Result<&Certificate, Refusal> {
        let author = entry.author();
        let owner = self.log.genesis().owners.iter().find(|owner| owner.name() == author);
        let owner = owner.ok_or(Refusal::Stranger(author))?;
        if entry.grant.is_none() {
            return Ok(owner);
        }
        let decision = self.decisions.get(&entry.grant).ok_or(Refusal::UnknownGrant)?;
        match &decision.entry.action {
            Action::Grant(grant) if grant.author() != author => Err(Refusal::OtherGrant),
            Action::Grant(_) if decision.agreed.len() < self.needed() => {
                Err(Refusal::GrantNotInForce)
            }
            Action::Grant(grant) => Ok(&grant.certificate),
            _ => Err(Refusal::UnknownGrant),
        }
    }

    /// The snapshot with the owners who have signed it, if they are enough.
    fn snapshot(&self) -> Result<(EntryId, Clock, Snapshot, Vec<KeyName>), SnapshotError> {
        let found = self.snapshot.and_then(|id| Some((id, self.decisions.get(&id)?)));
        let Some((id, Decision { entry, agreed })) = found else {
            return Err(Malformed::Field("records without a snapshot").into());
        };
        let Action::Snapshot(snapshot) = &entry.action else {
            return Err(Malformed::Field("operation in a snapshot").into());
        };
        if agreed.len() < self.needed() {
            let needed = self.log.genesis().threshold;
            return Err(SnapshotError::TooFew { found: agreed.len(), needed });
        }
        Ok((id, entry.clock, *snapshot, agreed.iter().copied().collect()))
    }
}

/// The bytes of a file, which may say anything.
struct Input<'a, R>(&'a mut R);

impl<R: Read> Input<'_, R> {
    /// Bytes up to a length; fewer at the end of the file.
    fn part(&mut self, length: u64) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        self.0.by_ref().take(length).read_to_end(&mut bytes)?;
        Ok(bytes)
    }

    fn whole_part(&mut self, length: u64) -> Result<Vec<u8>, SnapshotError> {
        let bytes = self.part(length)?;
        if bytes.len() as u64 == length { Ok(bytes) } else { Err(Malformed::Short.into()) }
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], SnapshotError> {
        let mut bytes = [0; N];
        match self.0.read_exact(&mut bytes) {
            Ok(()) => Ok(bytes),
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                Err(Malformed::Short.into())
            }
            Err(error) => Err(error.into()),
        }
    }

    /// A record of one entry.
    fn record(&mut self) -> Result<Signed, SnapshotError> {
        let length = u32::from_be_bytes(self.array()?);
        if length as usize > RECORD_BYTES_MAX {
            let (found, limit) = (u64::from(length), RECORD_BYTES_MAX as u64);
            return Err(Malformed::Limit { what: "record", found, limit }.into());
        }
        let bytes = self.whole_part(u64::from(length))?;
        match read_record(&bytes)?.as_slice() {
            [signed] if signed.opening.is_none() => Ok(signed.clone()),
            _ => Err(Malformed::Field("record in a snapshot").into()),
        }
    }
}
