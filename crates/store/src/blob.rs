//! The stored bytes of certificates, their verdicts, and the checksums over both. No other module reads or writes
//! tables `blob` and `checksum`. The checksum of a certificate is in its row of `blob`; certificates that were written before
//! format 8 have it in `checksum`, until they are written again.

use std::fmt;
use std::io::Read as _;
use std::sync::LazyLock;

use rayon::prelude::*;
use rusqlite::types::ValueRef;
use rusqlite::{Connection, OptionalExtension as _, Row};
use talaria_cert::merge::bytes_digest;
use talaria_cert::{Cert, KEY_BYTES_MAX, Tag, Verdict, View, first_packet};

use crate::{schema, sums};

/// The first octets of the SHA-256 of a certificate.
pub(crate) type BytesDigest = [u8; 16];

/// Number of certificates that get their checksums in one transaction after an upgrade, and their size, above which none is
/// added.
const SEAL_COUNT: usize = 10_000;
const SEAL_BYTES: usize = 64 << 20;

/// The columns of a [`Checksum`], from tables `blob` and `checksum`. A row that has one costs no look at `checksum`.
const CHECKSUM: &str = "coalesce(blob.digest, (SELECT digest FROM checksum WHERE cert = blob.id)), \
    coalesce(blob.sum, (SELECT sum FROM checksum WHERE cert = blob.id))";

/// A certificate as stored.
#[derive(Debug)]
pub(crate) struct Blob {
    pub(crate) id: i64,
    pub(crate) verdicts: Vec<u8>,
    pub(crate) bytes: Vec<u8>,
    checksum: Option<Checksum>,
}

/// The result of comparing a certificate with its checksum.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Integrity {
    /// The certificate and its verdicts are those that were written.
    Intact,
    /// There is no checksum.
    Unsealed,
    /// The certificate is the one that was written. Its verdicts or its checksum are not.
    Verdicts,
    /// The certificate is not the one that was written.
    Bytes,
}

#[derive(Clone, Debug, Eq, PartialEq)]
struct Checksum {
    digest: Vec<u8>,
    /// Over the id, the digest and the verdicts.
    sum: i64,
}

impl Checksum {
    fn new(id: i64, digest: &BytesDigest, verdicts: &[u8]) -> Self {
        let sum = sums::of(&[&id.to_be_bytes(), digest, verdicts]);
        Self { digest: digest.to_vec(), sum }
    }

    /// `None` unless there are both parts.
    fn read(digest: Option<Vec<u8>>, sum: Option<i64>) -> Option<Self> {
        Some(Self { digest: digest?, sum: sum? })
    }
}

impl Blob {
    fn read(row: &Row<'_>) -> rusqlite::Result<Self> {
        let checksum = Checksum::read(row.get(3)?, row.get(4)?);
        Ok(Self { id: row.get(0)?, verdicts: row.get(1)?, bytes: row.get(2)?, checksum })
    }

    /// Compares the certificate with its checksum.
    pub(crate) fn integrity(&self) -> Integrity {
        let Some(stored) = &self.checksum else { return Integrity::Unsealed };
        let actual = Checksum::new(self.id, &bytes_digest(&self.bytes), &self.verdicts);
        match (actual.digest == stored.digest, actual.sum == stored.sum) {
            (true, true) => Integrity::Intact,
            // If only the sum agrees, the digest in the checksum is damaged.
            (true, false) | (false, true) => Integrity::Verdicts,
            (false, false) => Integrity::Bytes,
        }
    }

    /// The digest of the certificate that was written.
    pub(crate) fn written_digest(&self) -> Option<BytesDigest> {
        self.checksum.as_ref()?.digest.as_slice().try_into().ok()
    }

    /// The certificate and its verdicts, without regard to the checksum. `None` if they cannot be read.
    pub(crate) fn decode(&self) -> Option<(Cert, Vec<Verdict>)> {
        let cert = Cert::from_canonical(self.bytes.clone()).ok()?;
        let verdicts = self.verdicts_on(&cert)?;
        Some((cert, verdicts))
    }

    /// As [`Self::decode`], without a copy of the octets.
    pub(crate) fn into_decoded(mut self) -> Option<(Cert, Vec<Verdict>)> {
        let cert = Cert::from_canonical(std::mem::take(&mut self.bytes)).ok()?;
        let verdicts = self.verdicts_on(&cert)?;
        Some((cert, verdicts))
    }

    /// The verdicts on the signatures of `cert`, without regard to the checksum. `None` if they are damaged.
    pub(crate) fn verdicts_on(&self, cert: &Cert) -> Option<Vec<Verdict>> {
        let verdicts: Option<Vec<_>> =
            self.verdicts.iter().map(|&number| Verdict::from_number(number)).collect();
        verdicts.filter(|verdicts| verdicts.len() == cert.signature_count())
    }
}

/// The statement for one certificate.
pub(crate) static BY_ID: LazyLock<String> =
    LazyLock::new(|| select("FROM blob WHERE blob.id = ?1"));

/// The statements for the first two certificates that an index has under some handles, without those that are too long.
pub(crate) static BY_KEY: LazyLock<String> = LazyLock::new(|| select_short("key"));
pub(crate) static BY_ADDRESS: LazyLock<String> = LazyLock::new(|| select_short("address"));

fn select_short(index: &str) -> String {
    format!(
        "SELECT blob.id, blob.verdicts, \
         CASE WHEN length(blob.bytes) <= ?3 THEN blob.bytes END, {CHECKSUM} \
         FROM {index} LEFT JOIN blob ON blob.id = {index}.cert \
         WHERE {index}.handle BETWEEN ?1 AND ?2 LIMIT 2"
    )
}

fn select(from: &str) -> String {
    format!("SELECT blob.id, blob.verdicts, blob.bytes, {CHECKSUM} {from}")
}

/// A certificate as stored, damaged or not.
pub(crate) fn get(connection: &Connection, id: i64) -> rusqlite::Result<Option<Blob>> {
    read_one(connection, || {
        connection.prepare_cached(&BY_ID)?.query_row([id], Blob::read).optional()
    })
}

/// The certificate that [`BY_KEY`] or [`BY_ADDRESS`] finds under the handles from `first` to `last`, damaged or not. `None` if
/// there is another one, or if it has more than `bytes_max` octets; then it is not read.
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
        let blob = if is_short { Some(Blob::read(row)?) } else { None };
        let is_sole = rows.next()?.is_none();
        Ok(blob.filter(|_| is_sole))
    })
}

fn read_one(
    connection: &Connection,
    read: impl Fn() -> rusqlite::Result<Option<Blob>>,
) -> rusqlite::Result<Option<Blob>> {
    let blob = read()?;
    // Its checksum may be where this connection does not look yet.
    if blob.as_ref().is_some_and(|blob| blob.checksum.is_none())
        && schema::leave_older_form(connection)?
    {
        return read();
    }
    Ok(blob)
}

/// A certificate whose bytes are those that were written. `None` if it is missing or damaged; a check reports it.
pub(crate) fn intact(connection: &Connection, id: i64) -> rusqlite::Result<Option<Blob>> {
    let Some(blob) = get(connection, id)? else { return Ok(None) };
    Ok(is_usable(connection, &blob)?.then_some(blob))
}

/// Whether a certificate may be read and merged: it agrees with its checksum, or did not get one yet since the store
/// was upgraded.
pub(crate) fn is_usable(connection: &Connection, blob: &Blob) -> rusqlite::Result<bool> {
    match blob.integrity() {
        Integrity::Intact => Ok(true),
        Integrity::Verdicts | Integrity::Bytes => Ok(false),
        Integrity::Unsealed => is_awaited(connection, blob.id),
    }
}

/// Whether a certificate is still the one that was read, as its checksum says.
pub(crate) fn is_current(connection: &Connection, blob: &Blob) -> rusqlite::Result<bool> {
    let stored = connection
        .prepare_cached(&format!("SELECT {CHECKSUM} FROM blob WHERE blob.id = ?1"))?
        .query_row([blob.id], |row| Ok(Checksum::read(row.get(0)?, row.get(1)?)))
        .optional()?;
    Ok(stored.flatten() == blob.checksum)
}

/// Whether a certificate without a checksum will still get one.
pub(crate) fn is_awaited(connection: &Connection, id: i64) -> rusqlite::Result<bool> {
    Ok(schema::format(connection)? < schema::CHECKSUM_FORMAT
        || sealed_until(connection)?.is_some_and(|last| id > last))
}

/// The next certificates after number `after`: at most `count`, and no further one after `bytes` octets. With a part,
/// only the certificates of this part.
pub(crate) fn batch(
    connection: &Connection,
    after: i64,
    (count, bytes): (usize, usize),
    part: Part,
) -> rusqlite::Result<Vec<Blob>> {
    schema::leave_older_form(connection)?;
    let mut statement = connection.prepare_cached(&select(&format!(
        "FROM blob WHERE blob.id > ?1 AND {} ORDER BY blob.id",
        part.condition("blob.id")
    )))?;
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

/// A part of all certificates: those whose id leaves the same remainder.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Part {
    number: u32,
    of: u32,
}

impl Part {
    /// All certificates.
    pub const ALL: Self = Self { number: 1, of: 1 };

    /// Part `number` of `of` parts, from 1. `None` if there is no such part.
    #[must_use]
    pub fn new(number: u32, of: u32) -> Option<Self> {
        (1..=of).contains(&number).then_some(Self { number, of })
    }

    /// Whether this is the first part, or all.
    pub(crate) fn is_first(self) -> bool {
        self.number == 1
    }

    /// The condition that a certificate belongs to the part, for a column with its id.
    pub(crate) fn condition(self, column: &str) -> String {
        if self == Self::ALL {
            return "1".to_owned();
        }
        format!("{column} % {} = {}", self.of, self.remainder())
    }

    /// Whether the part has the certificate.
    pub(crate) fn has(self, id: i64) -> bool {
        id % i64::from(self.of) == self.remainder()
    }

    fn remainder(self) -> i64 {
        i64::from(self.number % self.of)
    }
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.number, self.of)
    }
}

/// Whether the stored bytes are these. The certificate itself is not read into memory.
pub(crate) fn is_same(connection: &Connection, id: i64, bytes: &[u8]) -> rusqlite::Result<bool> {
    connection
        .prepare_cached("SELECT 1 FROM blob WHERE id = ?1 AND bytes = ?2")?
        .exists((id, bytes))
}

/// Length of a certificate in bytes. The certificate itself is not read.
pub(crate) fn length(connection: &Connection, id: i64) -> rusqlite::Result<i64> {
    connection
        .prepare_cached("SELECT length(bytes) FROM blob WHERE id = ?1")?
        .query_row([id], |row| row.get(0))
}

/// The body of the first packet of a certificate, its primary key. No more of it is read, and nothing is compared with the
/// checksum: the key says itself what its fingerprint is. `None` if there is none that can be read.
pub(crate) fn primary_key(connection: &Connection, id: i64) -> rusqlite::Result<Option<Vec<u8>>> {
    /// Octets that most keys fit into.
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

/// The highest certificate number ever assigned. Numbers are never reused, so that a cursor never skips a
/// certificate.
pub(crate) fn last_id(connection: &Connection) -> rusqlite::Result<i64> {
    let number = |sql: &str| connection.prepare_cached(sql)?.query_row([], |row| row.get(0));
    let retired: Option<i64> = number("SELECT max(value) FROM meta WHERE name = 'retired'")?;
    let retired = if let Some(id) = retired {
        id
    } else {
        let seen: Option<i64> = number("SELECT max(cert) FROM change")?;
        let seen = seen.unwrap_or(0);
        set_retired(connection, seen)?;
        seen
    };
    Ok(retired.max(highest_id(connection)?))
}

/// Deletes a certificate and records its number as used.
pub(crate) fn retire(connection: &Connection, id: i64) -> rusqlite::Result<()> {
    let highest = last_id(connection)?;
    delete(connection, id)?;
    if id == highest { set_retired(connection, id) } else { Ok(()) }
}

fn set_retired(connection: &Connection, id: i64) -> rusqlite::Result<()> {
    connection
        .prepare_cached("INSERT OR REPLACE INTO meta VALUES ('retired', ?1)")?
        .execute([id])
        .map(drop)
}

/// Adds a certificate with its checksum.
pub(crate) fn insert(
    connection: &Connection,
    id: i64,
    verdicts: &[u8],
    bytes: &[u8],
    digest: &BytesDigest,
) -> rusqlite::Result<()> {
    let Checksum { digest, sum } = Checksum::new(id, digest, verdicts);
    connection
        .prepare_cached("INSERT INTO blob VALUES (?1, ?2, ?3, ?4, ?5)")?
        .execute((id, verdicts, bytes, digest, sum))
        .map(drop)
}

/// Overwrites a certificate and its checksum.
pub(crate) fn update(
    connection: &Connection,
    id: i64,
    verdicts: &[u8],
    bytes: &[u8],
    digest: &BytesDigest,
) -> rusqlite::Result<()> {
    let Checksum { digest, sum } = Checksum::new(id, digest, verdicts);
    connection
        .prepare_cached(
            "UPDATE blob SET verdicts = ?2, bytes = ?3, digest = ?4, sum = ?5 WHERE id = ?1",
        )?
        .execute((id, verdicts, bytes, digest, sum))?;
    delete_former_checksum(connection, id)
}

/// Overwrites the verdicts on a certificate, and its checksum.
pub(crate) fn update_verdicts(
    connection: &Connection,
    id: i64,
    verdicts: &[u8],
    digest: &BytesDigest,
) -> rusqlite::Result<()> {
    let Checksum { digest, sum } = Checksum::new(id, digest, verdicts);
    connection
        .prepare_cached("UPDATE blob SET verdicts = ?2, digest = ?3, sum = ?4 WHERE id = ?1")?
        .execute((id, verdicts, digest, sum))?;
    delete_former_checksum(connection, id)
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

/// The highest id up to which certificates have checksums, while an upgrade writes them. `None` if all have one.
pub(crate) fn sealed_until(connection: &Connection) -> rusqlite::Result<Option<i64>> {
    connection
        .prepare_cached("SELECT value FROM meta WHERE name = 'sealed'")?
        .query_row([], |row| row.get(0))
        .optional()
}

/// Records how far an upgrade has written checksums; `None` for all.
pub(crate) fn set_sealed_until(connection: &Connection, id: Option<i64>) -> rusqlite::Result<()> {
    match id {
        Some(id) => connection
            .prepare_cached("INSERT OR REPLACE INTO meta VALUES ('sealed', ?1)")?
            .execute([id]),
        None => connection.prepare_cached("DELETE FROM meta WHERE name = 'sealed'")?.execute([]),
    }
    .map(drop)
}

/// Writes checksums for the next certificates after an upgrade, within a transaction of the caller. A certificate whose
/// stored digest does not confirm its bytes gets none, and counts as damaged from then on.
pub(crate) fn seal_next(connection: &Connection) -> rusqlite::Result<()> {
    let Some(after) = sealed_until(connection)? else { return Ok(()) };
    let blobs = batch(connection, after, (SEAL_COUNT, SEAL_BYTES), Part::ALL)?;
    let last = blobs.last().map(|blob| blob.id);
    let digests: Vec<Option<([u8; 16], BytesDigest)>> = blobs
        .par_iter()
        .map(|blob| {
            let (cert, _) = blob.decode()?;
            Some((cert.sks_digest(), bytes_digest(&blob.bytes)))
        })
        .collect();
    for (blob, digests) in blobs.iter().zip(digests) {
        if let Some((sks_digest, digest)) = digests
            && blob.checksum.is_none()
            && is_confirmed(connection, "digest", blob.id, &sks_digest)?
        {
            // In a table of its own: to write all rows of `blob` again would take far longer.
            let Checksum { digest, sum } = Checksum::new(blob.id, &digest, &blob.verdicts);
            connection
                .prepare_cached("INSERT INTO checksum VALUES (?1, ?2, ?3)")?
                .execute((blob.id, digest, sum))?;
        }
    }
    set_sealed_until(connection, last)
}

/// Whether `table`, a table of digests, has the digest of a certificate. If it does, the bytes are those that were
/// written, since the two were written together.
pub(crate) fn is_confirmed(
    connection: &Connection,
    table: &str,
    id: i64,
    sks_digest: &[u8; 16],
) -> rusqlite::Result<bool> {
    connection
        .prepare_cached(&format!(
            "SELECT 1 FROM {table} WHERE view = ?1 AND digest = ?2 AND cert = ?3"
        ))?
        .exists((View::Sks.number(), sks_digest, id))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Store;
    use talaria_bench::Generate;
    use talaria_cert::{Verification, packets};

    /// A key packet with a modulus of so many octets.
    fn rsa(octets: u16) -> Vec<u8> {
        let mut body = vec![4, 0, 0, 0, 1, 1];
        body.extend((octets * 8).to_be_bytes());
        body.extend(vec![0xff; usize::from(octets)]);
        body.extend([0, 2, 3]);
        let length = u32::try_from(body.len()).unwrap().to_be_bytes();
        [&[0xc6, 255], &length[..], &body].concat()
    }

    #[test]
    fn the_primary_key_is_read_without_the_rest() {
        let mut store = Store::in_memory(std::path::Path::new("memory")).unwrap();
        let mut certs = talaria_bench::certs(&Generate { count: 30, ..Generate::default() });
        certs.extend([1000, 1020, 1200, 2048].map(|octets| Cert::parse(&rsa(octets)).unwrap()));
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
