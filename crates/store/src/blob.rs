//! The stored bytes of certificates, their verdicts, and the checksums over both. No other module
//! reads or writes tables `blob` and `checksum`. The checksum of a certificate is in its row of
//! `blob`; certificates that were written before format 8 have it in `checksum`, until they are
//! written again.
//!
//! A checksum beside its data does not show that a disk has lost a write: then the old row is
//! there, with the old checksum. So the row names the change that wrote it, and the row in `cert`
//! names it, too (`docs/decisions/0025-stale-pages.md`).

use std::cmp::Ordering;
use std::fmt;
use std::io::Read as _;
use std::sync::LazyLock;

use rusqlite::types::ValueRef;
use rusqlite::{Connection, OptionalExtension as _, Row};
use talaria_cert::merge::bytes_digest;
use talaria_cert::{Cert, KEY_BYTES_MAX, Tag, Verdict, View, first_packet};

use crate::meta::{self, Entry};
use crate::{format, sums};

/// The first bytes of the SHA-256 of a certificate.
pub(crate) type BytesDigest = [u8; 16];

/// The columns of a [`Checksum`], from tables `blob` and `checksum`. A row that has one costs no
/// look at `checksum`.
const CHECKSUM: &str = "coalesce(blob.digest, (SELECT digest FROM checksum WHERE cert = blob.id)), \
    coalesce(blob.sum, (SELECT sum FROM checksum WHERE cert = blob.id))";

/// The columns of a [`Claim`], from `{cert}`, a table like `cert`.
const CLAIM: &str = "{cert}.change, {cert}.former, {cert}.sum IS NOT NULL";

/// A certificate as stored.
#[derive(Debug)]
pub(crate) struct Blob {
    pub(crate) id: i64,
    pub(crate) verdicts: Vec<u8>,
    pub(crate) bytes: Vec<u8>,
    checksum: Option<Checksum>,
    /// The change that wrote the row. `None` if an older format wrote it.
    pub(crate) change: Option<i64>,
    /// `None` if the certificate has no row in `cert`, or if that was not read.
    claim: Option<Claim>,
}

/// What the row of a certificate in `cert` says of its row in `blob`.
#[derive(Clone, Copy, Debug)]
struct Claim {
    change: i64,
    /// The checksum of a row that names no change.
    former: Option<i64>,
    has_checksum: bool,
}

/// The result of comparing a certificate with its checksum and with its row in `cert`.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Integrity {
    /// The certificate and its verdicts are those that were written last.
    Intact,
    /// There is no checksum, or nothing says which certificate was written last.
    Unsealed,
    /// The certificate is the one that was written last. Its row in `cert` is not.
    Row,
    /// The certificate is the one that was written. Its verdicts or its checksum are not.
    Verdicts,
    /// The certificate is one that was replaced later: the disk has lost a write.
    Stale,
    /// The certificate is not the one that was written.
    Bytes,
}

impl Integrity {
    /// The finding for a certificate that only a copy repairs.
    pub(crate) fn finding(self) -> &'static str {
        match self {
            Self::Stale => STALE,
            Self::Bytes => BYTES_DAMAGED,
            Self::Intact | Self::Unsealed | Self::Row | Self::Verdicts => UNCONFIRMED,
        }
    }
}

/// The finding for a certificate without bytes.
pub(crate) const LOST: &str = "its bytes are missing";

/// The finding for a certificate whose bytes are not those that were written.
const BYTES_DAMAGED: &str = "its bytes do not match their checksum";

/// The finding for a certificate whose rows agree with each other, but not with the index that was
/// written with them.
pub(crate) const UNCONFIRMED: &str =
    "its digest is not in table digest: its bytes may be older than its last change";

/// The finding for a certificate that was replaced later.
const STALE: &str = "its bytes are older than its last change: the disk has lost a write";

#[derive(Clone, Debug, Eq, PartialEq)]
struct Checksum {
    digest: Vec<u8>,
    /// Over the id, the digest, the verdicts, and the change if there is one.
    sum: i64,
}

impl Checksum {
    fn new(id: i64, digest: &BytesDigest, verdicts: &[u8], change: Option<i64>) -> Self {
        let change = change.map(i64::to_be_bytes);
        let change = change.as_ref().map_or(&[][..], |change| &change[..]);
        let sum = sums::of(&[&id.to_be_bytes(), digest, verdicts, change]);
        Self { digest: digest.to_vec(), sum }
    }

    /// `None` unless there are both parts.
    fn read(digest: Option<Vec<u8>>, sum: Option<i64>) -> Option<Self> {
        Some(Self { digest: digest?, sum: sum? })
    }
}

impl Blob {
    /// Reads the columns of [`select`].
    fn read(row: &Row<'_>) -> rusqlite::Result<Self> {
        let claim = row.get::<_, Option<i64>>(6)?.map(|change| {
            Ok::<_, rusqlite::Error>(Claim {
                change,
                former: row.get(7)?,
                has_checksum: row.get(8)?,
            })
        });
        Ok(Self { claim: claim.transpose()?, ..Self::read_alone(row)? })
    }

    /// The same without the row in `cert`.
    fn read_alone(row: &Row<'_>) -> rusqlite::Result<Self> {
        let checksum = Checksum::read(row.get(3)?, row.get(4)?);
        let (id, verdicts, bytes) = (row.get(0)?, row.get(1)?, row.get(2)?);
        Ok(Self { id, verdicts, bytes, checksum, change: row.get(5)?, claim: None })
    }

    /// Reads what the row in `cert` says, for [`Self::integrity`]. Returns whether there is one.
    pub(crate) fn read_claim(&mut self, connection: &Connection) -> rusqlite::Result<bool> {
        self.claim = connection
            .prepare_cached("SELECT change, former, sum IS NOT NULL FROM cert WHERE id = ?1")?
            .query_row([self.id], |row| {
                let (change, former, has_checksum) = row.try_into()?;
                Ok(Claim { change, former, has_checksum })
            })
            .optional()?;
        Ok(self.claim.is_some())
    }

    /// Compares the certificate with its checksum, and its row with the one in `cert`.
    pub(crate) fn integrity(&self) -> Integrity {
        let Some(stored) = &self.checksum else { return Integrity::Unsealed };
        let digest = bytes_digest(&self.bytes);
        let actual = Checksum::new(self.id, &digest, &self.verdicts, self.change);
        match (actual.digest == stored.digest, actual.sum == stored.sum) {
            (true, true) => self.version(stored.sum),
            // If only the sum agrees, the digest in the checksum is damaged.
            (true, false) | (false, true) => Integrity::Verdicts,
            (false, false) => Integrity::Bytes,
        }
    }

    fn version(&self, sum: i64) -> Integrity {
        match (self.claim, self.change) {
            (None, _) => Integrity::Intact,
            (Some(claim), Some(change)) => match change.cmp(&claim.change) {
                Ordering::Less => Integrity::Stale,
                Ordering::Equal => Integrity::Intact,
                Ordering::Greater => Integrity::Row,
            },
            (Some(claim), None) if !claim.has_checksum => Integrity::Unsealed,
            (Some(claim), None) if claim.former == Some(sum) => Integrity::Intact,
            (Some(_), None) => Integrity::Stale,
        }
    }

    /// As [`Self::integrity`], with what else is known: the last change of the certificate in the
    /// change log, and whether its row in `cert` agrees with its checksum. For a check or a repair.
    pub(crate) fn judged(&self, latest: Option<i64>, is_row_good: bool) -> Integrity {
        let found = self.integrity();
        let is_overtaken = |by: i64| latest.is_some_and(|latest| latest > by);
        match (found, self.change, self.claim) {
            (Integrity::Intact | Integrity::Row | Integrity::Stale, Some(change), _) => {
                if is_overtaken(change) {
                    Integrity::Stale
                } else if found == Integrity::Stale && !is_row_good && latest.is_some() {
                    Integrity::Row
                } else {
                    found
                }
            }
            (Integrity::Intact | Integrity::Stale, None, Some(_)) if !is_row_good => {
                Integrity::Unsealed
            }
            (Integrity::Intact, None, Some(claim)) if is_overtaken(claim.change) => {
                Integrity::Stale
            }
            (found, ..) => found,
        }
    }

    /// The checksum of the row, for the row in `cert`: `None` if this row names its change.
    pub(crate) fn former(&self) -> Option<i64> {
        match self.change {
            Some(_) => None,
            None => self.checksum.as_ref().map(|checksum| checksum.sum),
        }
    }

    /// The digest of the certificate that was written.
    pub(crate) fn written_digest(&self) -> Option<BytesDigest> {
        self.checksum.as_ref()?.digest.as_slice().try_into().ok()
    }

    /// The certificate and its verdicts, without regard to the checksum. `None` if they cannot be
    /// read.
    pub(crate) fn decode(&self) -> Option<(Cert, Vec<Verdict>)> {
        let cert = Cert::from_canonical(self.bytes.clone()).ok()?;
        let verdicts = self.verdicts_on(&cert)?;
        Some((cert, verdicts))
    }

    /// As [`Self::decode`], without a copy of the bytes.
    pub(crate) fn into_decoded(mut self) -> Option<(Cert, Vec<Verdict>)> {
        let cert = Cert::from_canonical(std::mem::take(&mut self.bytes)).ok()?;
        let verdicts = self.verdicts_on(&cert)?;
        Some((cert, verdicts))
    }

    /// The verdicts on the signatures of `cert`, without regard to the checksum. `None` if they are
    /// damaged.
    pub(crate) fn verdicts_on(&self, cert: &Cert) -> Option<Vec<Verdict>> {
        let verdicts: Option<Vec<_>> =
            self.verdicts.iter().map(|&number| Verdict::from_number(number)).collect();
        verdicts.filter(|verdicts| verdicts.len() == cert.signature_count())
    }
}

/// The statement for one certificate.
pub(crate) static BY_ID: LazyLock<String> = LazyLock::new(|| select("cert", "blob.id = ?1"));

/// The statements for the first two certificates that an index has under some handles, without
/// those that are too long.
pub(crate) static BY_KEY: LazyLock<String> = LazyLock::new(|| select_short("key"));
pub(crate) static BY_ADDRESS: LazyLock<String> = LazyLock::new(|| select_short("address"));

fn select_short(index: &str) -> String {
    format!(
        "SELECT blob.id, blob.verdicts, \
         CASE WHEN length(blob.bytes) <= ?3 THEN blob.bytes END, {CHECKSUM}, blob.change \
         FROM {index} LEFT JOIN blob ON blob.id = {index}.cert \
         WHERE {index}.handle BETWEEN ?1 AND ?2 LIMIT 2"
    )
}

/// Certificates with what `cert`, a table like `cert`, says of them.
fn select(cert: &str, condition: &str) -> String {
    let claim = CLAIM.replace("{cert}", cert);
    format!(
        "SELECT blob.id, blob.verdicts, blob.bytes, {CHECKSUM}, blob.change, {claim} \
         FROM blob LEFT JOIN {cert} ON {cert}.id = blob.id WHERE {condition}"
    )
}

/// A certificate as stored, damaged or not.
pub(crate) fn get(connection: &Connection, id: i64) -> rusqlite::Result<Option<Blob>> {
    read_one(connection, || {
        connection.prepare_cached(&BY_ID)?.query_row([id], Blob::read).optional()
    })
}

/// The certificate that [`BY_KEY`] or [`BY_ADDRESS`] finds under the handles from `first` to
/// `last`, damaged or not. `None` if there is another one, or if it has more than `bytes_max`
/// bytes; then it is not read. Whether it is the newest is not compared.
pub(crate) fn get_sole(
    connection: &Connection,
    statement: &str,
    (first, last): (i64, i64),
    bytes_max: u32,
) -> rusqlite::Result<Option<Blob>> {
    read_one(connection, || {
        let mut statement = connection.prepare_cached(statement)?;
        let mut rows = statement.query((first, last, bytes_max))?;
        let Some(row) = rows.next()? else { return Ok(None) };
        let is_short = row.get_ref(2)? != ValueRef::Null;
        let blob = if is_short { Some(Blob::read_alone(row)?) } else { None };
        let is_sole = rows.next()?.is_none();
        Ok(blob.filter(|_| is_sole))
    })
}

fn read_one(
    connection: &Connection,
    read: impl Fn() -> rusqlite::Result<Option<Blob>>,
) -> rusqlite::Result<Option<Blob>> {
    let blob = read()?;
    // Its checksum and its change may be where this connection does not look yet.
    if blob.as_ref().is_some_and(|blob| blob.checksum.is_none() || blob.change.is_none())
        && format::leave_older_form(connection)?
    {
        return read();
    }
    Ok(blob)
}

/// A certificate whose bytes are those that were written. `None` if it is missing or damaged; a
/// check reports it.
pub(crate) fn intact(connection: &Connection, id: i64) -> rusqlite::Result<Option<Blob>> {
    let Some(blob) = get(connection, id)? else { return Ok(None) };
    Ok(is_usable(connection, &blob)?.then_some(blob))
}

/// Whether a certificate may be read and merged: it agrees with its checksum, or did not get one
/// yet since the store was upgraded.
pub(crate) fn is_usable(connection: &Connection, blob: &Blob) -> rusqlite::Result<bool> {
    match blob.integrity() {
        Integrity::Intact | Integrity::Row => Ok(true),
        Integrity::Verdicts | Integrity::Stale | Integrity::Bytes => Ok(false),
        Integrity::Unsealed => is_awaited(connection, blob),
    }
}

/// Whether a certificate is still the one that was read, as its checksum says.
pub(crate) fn is_current(connection: &Connection, blob: &Blob) -> rusqlite::Result<bool> {
    let stored = connection
        .prepare_cached(&format!("SELECT {CHECKSUM}, blob.change FROM blob WHERE blob.id = ?1"))?
        .query_row([blob.id], |row| {
            Ok((Checksum::read(row.get(0)?, row.get(1)?), row.get::<_, Option<i64>>(2)?))
        })
        .optional()?;
    let (checksum, change) = stored.unwrap_or_default();
    Ok((&checksum, change) == (&blob.checksum, blob.change))
}

/// Whether a certificate without a checksum, or without one of its row in `cert`, will still get
/// it.
pub(crate) fn is_awaited(connection: &Connection, blob: &Blob) -> rusqlite::Result<bool> {
    let first = match blob.checksum {
        None => format::CHECKSUM_FORMAT,
        Some(_) => format::STAMPED_FORMAT,
    };
    Ok(format::of(connection)? < first || is_unsealed_yet(connection, blob.id)?)
}

/// Whether a row of `cert` without a checksum will still get it.
pub(crate) fn is_row_awaited(connection: &Connection, id: i64) -> rusqlite::Result<bool> {
    Ok(format::of(connection)? < format::STAMPED_FORMAT || is_unsealed_yet(connection, id)?)
}

/// Whether an upgrade has yet to write the checksums of a certificate.
fn is_unsealed_yet(connection: &Connection, id: i64) -> rusqlite::Result<bool> {
    Ok(sealed_until(connection)?.is_some_and(|last| id > last))
}

/// The next certificates after number `after`: at most `count`, and no further one after `bytes`
/// bytes. With a part, only the certificates of this part.
pub(crate) fn batch(
    connection: &Connection,
    after: i64,
    (count, bytes): (usize, usize),
    part: Share,
) -> rusqlite::Result<Vec<Blob>> {
    format::leave_older_form(connection)?;
    batch_beside(connection, "cert", after, (count, bytes), part)
}

/// The same, with a table that has the rows of `cert` meanwhile.
pub(crate) fn batch_beside(
    connection: &Connection,
    cert: &str,
    after: i64,
    (count, bytes): (usize, usize),
    part: Share,
) -> rusqlite::Result<Vec<Blob>> {
    let condition = format!("blob.id > ?1 AND {} ORDER BY blob.id", part.condition("blob.id"));
    let mut statement = connection.prepare_cached(&select(cert, &condition))?;
    let mut rows = statement.query([after])?;
    let (mut blobs, mut total) = (Vec::new(), 0);
    while blobs.len() < count
        && total < bytes
        && let Some(row) = rows.next()?
    {
        let blob = Blob::read(row)?;
        total += blob.bytes.len();
        blobs.push(blob);
    }
    Ok(blobs)
}

/// A share of all certificates: those whose id leaves the same remainder.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Share {
    number: u32,
    of: u32,
}

impl Share {
    /// All certificates.
    pub const ALL: Self = Self { number: 1, of: 1 };

    /// Share `number` of `of` shares, from 1. `None` if there is no such share.
    #[must_use]
    pub fn new(number: u32, of: u32) -> Option<Self> {
        (1..=of).contains(&number).then_some(Self { number, of })
    }

    /// Whether this is the first share, or all.
    pub(crate) fn is_first(self) -> bool {
        self.number == 1
    }

    /// The condition that a certificate belongs to the share, for a column with its id.
    pub(crate) fn condition(self, column: &str) -> String {
        if self == Self::ALL {
            return "1".to_owned();
        }
        format!("{column} % {} = {}", self.of, self.remainder())
    }

    /// Whether the share has the certificate.
    pub(crate) fn has(self, id: i64) -> bool {
        id % i64::from(self.of) == self.remainder()
    }

    fn remainder(self) -> i64 {
        i64::from(self.number % self.of)
    }
}

impl fmt::Display for Share {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.number, self.of)
    }
}

/// Whether the stored bytes are these, and those of the last `change`. The certificate itself is
/// not read into memory.
pub(crate) fn is_same(
    connection: &Connection,
    id: i64,
    bytes: &[u8],
    change: i64,
) -> rusqlite::Result<bool> {
    connection
        .prepare_cached(
            "SELECT 1 FROM blob WHERE id = ?1 AND bytes = ?2 AND ifnull(change, ?3) = ?3",
        )?
        .exists((id, bytes, change))
}

/// Whether there is a certificate with this number, damaged or not.
pub(crate) fn exists(connection: &Connection, id: i64) -> rusqlite::Result<bool> {
    connection.prepare_cached("SELECT 1 FROM blob WHERE id = ?1")?.exists([id])
}

/// Length of a certificate in bytes. The certificate itself is not read.
pub(crate) fn length(connection: &Connection, id: i64) -> rusqlite::Result<i64> {
    connection
        .prepare_cached("SELECT length(bytes) FROM blob WHERE id = ?1")?
        .query_row([id], |row| row.get(0))
}

/// The body of the first packet of a certificate, its primary key. No more of it is read, and
/// nothing is compared with the checksum: the key says itself what its fingerprint is. `None` if
/// there is none that can be read.
pub(crate) fn primary_key(connection: &Connection, id: i64) -> rusqlite::Result<Option<Vec<u8>>> {
    /// Bytes that most keys fit into.
    const FIRST: usize = 1024;
    let mut bytes = match connection.blob_open("main", "blob", "bytes", id, true) {
        Err(rusqlite::Error::SqliteFailure(error, _))
            if error.code == rusqlite::ErrorCode::Unknown =>
        {
            return Ok(None);
        }
        bytes => bytes?,
    };
    let mut head = Vec::new();
    for most in [FIRST, KEY_BYTES_MAX + FIRST] {
        let more = (most - head.len()) as u64;
        if (&mut bytes).take(more).read_to_end(&mut head).is_err() {
            return Ok(None);
        }
        if let Some(packet) = first_packet(&head) {
            return Ok((packet.tag == Tag::PUBLIC_KEY).then(|| packet.body.to_vec()));
        }
    }
    Ok(None)
}

/// The number of the last certificate; 0 if there is none.
pub(crate) fn highest_id(connection: &Connection) -> rusqlite::Result<i64> {
    connection
        .prepare_cached("SELECT coalesce(max(id), 0) FROM blob")?
        .query_row([], |row| row.get(0))
}

/// The highest certificate number ever assigned. Numbers are never reused, so that a cursor never
/// skips a certificate.
pub(crate) fn last_id(connection: &Connection) -> rusqlite::Result<i64> {
    let retired = match meta::get(connection, RETIRED)? {
        Entry::Good(id) => id,
        // A lower number would give numbers again. The log has the last one, unless a compaction
        // has dropped it.
        Entry::Damaged => last_logged(connection)?,
        Entry::Missing => {
            let seen = last_logged(connection)?;
            meta::set(connection, RETIRED, seen)?;
            seen
        }
    };
    Ok(retired.max(highest_id(connection)?))
}

/// The entry of `meta` with the highest number that was given to a certificate which is gone.
const RETIRED: &str = "retired";

/// The highest number of a certificate in the change log.
fn last_logged(connection: &Connection) -> rusqlite::Result<i64> {
    connection
        .prepare_cached("SELECT coalesce(max(cert), 0) FROM change")?
        .query_row([], |row| row.get(0))
}

/// Deletes a certificate and records its number as used.
pub(crate) fn retire(connection: &Connection, id: i64) -> rusqlite::Result<()> {
    let highest = last_id(connection)?;
    delete(connection, id)?;
    if id == highest { meta::set(connection, RETIRED, id) } else { Ok(()) }
}

/// A version of a certificate: the change that wrote it, and the digest of its bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Version<'d> {
    pub(crate) change: i64,
    pub(crate) digest: &'d BytesDigest,
}

/// Adds a certificate with its checksum.
pub(crate) fn insert(
    connection: &Connection,
    id: i64,
    verdicts: &[u8],
    bytes: &[u8],
    Version { change, digest }: Version<'_>,
) -> rusqlite::Result<()> {
    let Checksum { digest, sum } = Checksum::new(id, digest, verdicts, Some(change));
    connection
        .prepare_cached("INSERT INTO blob VALUES (?1, ?2, ?3, ?4, ?5, ?6)")?
        .execute((id, verdicts, bytes, digest, sum, change))
        .map(drop)
}

/// Writes a certificate in the place of one that is damaged or missing.
pub(crate) fn replace(
    connection: &Connection,
    id: i64,
    verdicts: &[u8],
    bytes: &[u8],
    version: Version<'_>,
) -> rusqlite::Result<()> {
    delete(connection, id)?;
    insert(connection, id, verdicts, bytes, version)
}

/// Overwrites a certificate and its checksum. The row in `cert` must get the same change.
pub(crate) fn update(
    connection: &Connection,
    id: i64,
    verdicts: &[u8],
    bytes: &[u8],
    Version { change, digest }: Version<'_>,
) -> rusqlite::Result<()> {
    let Checksum { digest, sum } = Checksum::new(id, digest, verdicts, Some(change));
    connection
        .prepare_cached(
            "UPDATE blob SET verdicts = ?2, bytes = ?3, digest = ?4, sum = ?5, change = ?6 \
             WHERE id = ?1",
        )?
        .execute((id, verdicts, bytes, digest, sum, change))?;
    delete_former_checksum(connection, id)
}

/// Overwrites the verdicts on a certificate, and its checksum. The row in `cert` must get the same
/// change.
pub(crate) fn update_verdicts(
    connection: &Connection,
    id: i64,
    verdicts: &[u8],
    Version { change, digest }: Version<'_>,
) -> rusqlite::Result<()> {
    let Checksum { digest, sum } = Checksum::new(id, digest, verdicts, Some(change));
    connection
        .prepare_cached(
            "UPDATE blob SET verdicts = ?2, digest = ?3, sum = ?4, change = ?5 WHERE id = ?1",
        )?
        .execute((id, verdicts, digest, sum, change))?;
    delete_former_checksum(connection, id)
}

/// Notes a change of a certificate that leaves its bytes and verdicts as they are. The row in
/// `cert` must get it, too. A damaged certificate stays damaged.
pub(crate) fn set_change(connection: &Connection, id: i64, change: i64) -> rusqlite::Result<()> {
    let Some(blob) = intact(connection, id)? else { return Ok(()) };
    let digest = &bytes_digest(&blob.bytes);
    update_verdicts(connection, id, &blob.verdicts, Version { change, digest })
}

/// Removes a certificate and its checksum.
pub(crate) fn delete(connection: &Connection, id: i64) -> rusqlite::Result<()> {
    connection.prepare_cached("DELETE FROM blob WHERE id = ?1")?.execute([id])?;
    delete_former_checksum(connection, id)
}

/// Removes the checksum that a certificate has in table `checksum`.
fn delete_former_checksum(connection: &Connection, id: i64) -> rusqlite::Result<()> {
    connection.prepare_cached("DELETE FROM checksum WHERE cert = ?1")?.execute([id]).map(drop)
}

/// The highest id up to which certificates have checksums, while an upgrade writes them. `None` if
/// all have one.
pub(crate) fn sealed_until(connection: &Connection) -> rusqlite::Result<Option<i64>> {
    Ok(meta::get(connection, SEALED)?.good())
}

const SEALED: &str = "sealed";

/// Records how far an upgrade has written checksums; `None` for all.
pub(crate) fn set_sealed_until(connection: &Connection, id: Option<i64>) -> rusqlite::Result<()> {
    match id {
        Some(id) => meta::set(connection, SEALED, id),
        None => meta::remove(connection, SEALED),
    }
}

/// Writes a checksum for a certificate that has none, in an upgrade, and returns it. `None` if its
/// checksum says that it is damaged.
pub(crate) fn seal(
    connection: &Connection,
    blob: &Blob,
    digest: &BytesDigest,
) -> rusqlite::Result<Option<i64>> {
    let actual = Checksum::new(blob.id, digest, &blob.verdicts, None);
    if let Some(stored) = &blob.checksum {
        return Ok((*stored == actual).then_some(actual.sum));
    }
    // In a table of its own: to write all rows of `blob` again would take far longer.
    connection.prepare_cached("INSERT INTO checksum VALUES (?1, ?2, ?3)")?.execute((
        blob.id,
        actual.digest,
        actual.sum,
    ))?;
    Ok(Some(actual.sum))
}

/// Whether `table`, a table of digests, has the digest of a certificate. If it does, the bytes are
/// those that were written, since the two were written together. If it does not, the disk has lost
/// a write: of the digest alone, or of all other rows of the last change.
pub(crate) fn is_confirmed(
    connection: &Connection,
    table: &str,
    id: i64,
    sks_digest: &[u8; 16],
) -> rusqlite::Result<bool> {
    let found = connection
        .prepare_cached(&format!(
            "SELECT 1 FROM {table} WHERE view = ?1 AND digest = ?2 AND cert = ?3"
        ))?
        .exists((View::Sks.number(), sks_digest, id));
    // A page that cannot be read confirms nothing.
    if is_unreadable(&found) { Ok(false) } else { found }
}

/// Whether a statement came to a page that cannot be read.
pub(crate) fn is_unreadable<T>(result: &rusqlite::Result<T>) -> bool {
    let code = result.as_ref().err().and_then(rusqlite::Error::sqlite_error_code);
    code == Some(rusqlite::ErrorCode::DatabaseCorrupt)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Store;
    use talaria_cert::{Verification, packets};
    use talaria_corpus::Generate;

    /// A key packet with a modulus of so many bytes.
    fn rsa(bytes: u16) -> Vec<u8> {
        let mut body = vec![4, 0, 0, 0, 1, 1];
        body.extend((bytes * 8).to_be_bytes());
        body.extend(vec![0xff; usize::from(bytes)]);
        body.extend([0, 2, 3]);
        let length = u32::try_from(body.len()).unwrap().to_be_bytes();
        [&[0xc6, 255], &length[..], &body].concat()
    }

    #[test]
    fn the_primary_key_is_read_without_the_rest() {
        let mut store = Store::in_memory(std::path::Path::new("memory")).unwrap();
        let mut certs = talaria_corpus::certs(&Generate { count: 30, ..Generate::default() });
        certs.extend([1000, 1020, 1200, 2048].map(|bytes| Cert::parse(&rsa(bytes)).unwrap()));
        store.ingest(certs.clone(), Verification::Full, 1_740_000_000.into()).unwrap();
        for cert in &certs {
            let id = store.row(cert.fingerprint()).unwrap().unwrap().id.get();
            let read = store.run(|connection| primary_key(connection, id)).unwrap();
            let expected = packets(cert.as_bytes()).next().unwrap().unwrap().body.to_vec();
            assert_eq!(read, Some(expected));
        }
        assert_eq!(store.run(|connection| primary_key(connection, 1_000_000)).unwrap(), None);
    }
}
