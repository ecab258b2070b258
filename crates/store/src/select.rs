//! Finding certificates, by search or by walking through all of them.
//!
//! Indexes select candidates, and every candidate is compared with its summary. A collision of
//! handles therefore costs one comparison and never gives a wrong result.

use std::borrow::Cow;
use std::fmt;
use std::ops::ControlFlow;
use std::str::FromStr;

use rayon::prelude::*;
use rusqlite::OptionalExtension as _;
use talaria_cert::Query;
use talaria_cert::{
    Addressee, Fingerprint, Handle, Holding, KeyId, KeySummary, Matcher, Summary, UserIdContent,
    UserIdSummary, user_id,
};

use crate::blob::{self, Blob, Share};
use crate::error::StoreError;
use crate::number::{CertId, ChangeNumber};
use crate::row::{RawRow, columns};
use crate::schema::TextIndex;
use crate::store::{Row, Store};
use crate::{format, texts};
use talaria_cert::merge::Stored;

/// Number of rows that a cursor reads within one transaction.
const PAGE_ROWS: i64 = 1000;

/// Maximum number of search terms that are looked up in the index. The rarest terms leave so few
/// candidates that further terms would cost more than they save.
const TERMS_MAX: usize = 6;

/// Certificates that are read at a time if there is no index, and their size, above which none is
/// added.
const SCAN_CERTS: usize = 2000;
const SCAN_BYTES: usize = 16 << 20;

/// Number of certificates that are read to estimate how rare a term is.
const SAMPLE_ROWS: i64 = 24;

/// Number of certificates with a key ID that are looked at to find those whose primary key has it.
/// The index has these first, so the bound only concerns keys of version 3 and stores of an older
/// format.
const KEY_ID_LOOKS: i64 = 1000;

/// Certificates that are compared to name a signer, if the owner of its key is not here.
const HOLDER_LOOKS: usize = 50;

/// Maximum number of certificates with the same primary key ID that are returned.
const PRIMARY_KEYS_MAX: i64 = 8;

/// Maximum number of certificates that have a key as a subkey without a back signature. Anybody can
/// make such a certificate.
pub const HOLDERS_MAX: usize = 8;

/// The certificates whose primary key has a key ID, of which the two handles are given. The stored
/// fingerprint ends with the key ID up to version 4, and has it behind the version from 5 on. Those
/// of version 3 come last: anybody can make one with any key ID.
const PRIMARY_KEYS: &str = "SELECT cert.id FROM \
    (SELECT cert FROM key WHERE handle BETWEEN ?1 AND ?2 ORDER BY handle, cert LIMIT ?3) AS named \
    JOIN cert ON cert.id = named.cert \
    WHERE CASE WHEN substr(fingerprint, 1, 1) < x'05' THEN substr(fingerprint, -8) \
    ELSE substr(fingerprint, 2, 8) END = ?4 \
    ORDER BY substr(fingerprint, 1, 1) < x'04', cert.id LIMIT ?5";

/// A row, if its summary is not too long.
const SHORT_ROW: &str =
    concat!("SELECT ", columns!(), " FROM cert WHERE id = ?1 AND length(summary) <= ?2");

/// Bytes of the rows that a search with a bound reads, and so returns. Owners can have thousands of
/// user IDs.
const ROWS_BYTES_MAX: usize = 16 << 20;

/// The rest of the candidates that a search may look at, and of the bytes of their rows.
struct Budget {
    looks: usize,
    bytes: usize,
    /// Whether there were more candidates.
    is_exceeded: bool,
}

impl Budget {
    /// The budget of a search that may look at so many candidates, and at any number of bytes if at
    /// any number of these.
    fn of(looks: usize) -> Self {
        let bytes = if looks == usize::MAX { usize::MAX } else { ROWS_BYTES_MAX };
        Self { looks, bytes, is_exceeded: false }
    }

    /// Takes one look, if the budget is not used up.
    fn look(&mut self) -> ControlFlow<()> {
        if self.looks == 0 || self.bytes == 0 {
            self.is_exceeded = true;
            return ControlFlow::Break(());
        }
        self.looks -= 1;
        ControlFlow::Continue(())
    }

    /// Takes the bytes of a row that was read.
    fn read(&mut self, row: &Row) {
        self.bytes = self.bytes.saturating_sub(memory_of(&row.summary));
    }
}

/// The bytes that a summary takes in memory.
fn memory_of(summary: &Summary) -> usize {
    let texts = summary.user_ids.iter().map(|user_id| match &user_id.content {
        UserIdContent::Text(text) => text.len(),
        UserIdContent::Attribute { .. } => 0,
    });
    texts.sum::<usize>()
        + summary.user_ids.len() * size_of::<UserIdSummary>()
        + (1 + summary.subkeys.len()) * size_of::<KeySummary>()
}

/// The first two certificates with a key.
const WITH_KEY: &str = concat!(
    "SELECT ",
    columns!(),
    " FROM (SELECT cert FROM key WHERE handle BETWEEN ?1 AND ?2 ORDER BY handle, cert LIMIT 2) \
     AS named JOIN cert ON cert.id = named.cert"
);

/// The certificates found by a search.
#[derive(Clone, Debug)]
pub struct Selection {
    /// The rows, up to the requested limit, in the order of their numbers in the store.
    pub rows: Vec<Row>,
    /// Whether there are more matches.
    pub more: bool,
}

/// The only certificate that an index has under a name.
#[derive(Clone, Debug)]
pub struct Sole {
    /// Its number in the store.
    pub id: CertId,
    /// The certificate, with its verdicts.
    pub stored: Stored,
    /// The digest of its bytes ([`talaria_cert::merge::bytes_digest`]). `None` if it has no
    /// checksum yet, since the store was upgraded.
    pub digest: Option<[u8; 16]>,
}

/// The order of a walk.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Order {
    /// By insertion; the fastest.
    #[default]
    Insertion,
    /// By fingerprint (its first 63 bits; equal ones by insertion).
    Key,
    /// By last change.
    Change,
}

/// A position in a walk. The walk can continue there after a restart or in another process.
///
/// Its text form is `i:NUMBER`, `k:HANDLE:NUMBER` or `c:NUMBER`.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Cursor {
    /// After the certificate with this number.
    Insertion(CertId),
    /// After this handle of a fingerprint; among equal handles, after the certificate with this
    /// number.
    Key(i64, CertId),
    /// After this change.
    Change(ChangeNumber),
}

impl Cursor {
    /// The position before the first certificate.
    #[must_use]
    pub fn start(order: Order) -> Self {
        match order {
            Order::Insertion => Self::Insertion(CertId::new(0)),
            Order::Key => Self::Key(-1, CertId::new(0)),
            Order::Change => Self::Change(ChangeNumber::START),
        }
    }

    /// The position after the certificate of `row`.
    #[must_use]
    pub fn behind(order: Order, row: &Row) -> Self {
        match order {
            Order::Insertion => Self::Insertion(row.id),
            Order::Key => {
                let handle = Handle::of_fingerprint(row.summary.fingerprint());
                Self::Key(handle.0.cast_signed(), row.id)
            }
            Order::Change => Self::Change(row.change),
        }
    }

    /// The order of the walk.
    #[must_use]
    pub fn order(&self) -> Order {
        match self {
            Self::Insertion(_) => Order::Insertion,
            Self::Key(..) => Order::Key,
            Self::Change(_) => Order::Change,
        }
    }

    /// Whether `other`, a cursor of the same order, is a later position.
    #[must_use]
    pub fn is_before(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Insertion(ours), Self::Insertion(theirs)) => ours < theirs,
            (Self::Change(ours), Self::Change(theirs)) => ours < theirs,
            (Self::Key(ours, id), Self::Key(theirs, other)) => (ours, id) < (theirs, other),
            _ => false,
        }
    }
}

impl fmt::Display for Cursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Insertion(id) => write!(f, "i:{}", id.get()),
            Self::Change(number) => write!(f, "c:{number}"),
            Self::Key(handle, id) => write!(f, "k:{handle}:{}", id.get()),
        }
    }
}

impl FromStr for Cursor {
    type Err = CursorError;

    fn from_str(text: &str) -> Result<Self, CursorError> {
        let error = || CursorError(text.to_owned());
        let number = |text: &str| text.parse::<i64>().map_err(|_| error());
        let (order, rest) = text.split_once(':').ok_or_else(error)?;
        match order {
            "i" => number(rest).map(CertId::new).map(Self::Insertion),
            "c" => rest.parse().map(Self::Change).map_err(|_| error()),
            "k" => {
                let (handle, id) = rest.split_once(':').ok_or_else(error)?;
                Ok(Self::Key(number(handle)?, CertId::new(number(id)?)))
            }
            _ => Err(error()),
        }
    }
}

/// The text is not a valid cursor.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error("{0:?} is not a cursor (i:NUMBER, k:HANDLE:NUMBER or c:NUMBER)")]
pub struct CursorError(String);

impl Store {
    /// The certificates that match `query`, at most `limit`.
    ///
    /// # Errors
    ///
    /// [`StoreError::Damaged`] or [`StoreError::Engine`].
    pub fn select(&self, query: &Query, limit: usize) -> Result<Selection, StoreError> {
        self.select_within(query, limit, usize::MAX)
    }

    /// The certificates that match `query`, at most `limit`. At most `looks` candidates from an
    /// index are compared, and at most some 16 MiB of their rows are read, which bounds the cost of
    /// searches by strangers. If that was not enough, [`Selection::more`] is set.
    ///
    /// # Errors
    ///
    /// [`StoreError::Damaged`] or [`StoreError::Engine`].
    pub fn select_within(
        &self,
        query: &Query,
        limit: usize,
        looks: usize,
    ) -> Result<Selection, StoreError> {
        let mut rows = Vec::new();
        let mut more = false;
        let exhausted = self.visit(query, looks, |row| {
            if rows.len() == limit {
                more = true;
                return ControlFlow::Break(());
            }
            rows.push(row);
            ControlFlow::Continue(())
        })?;
        Ok(Selection { rows, more: more || exhausted })
    }

    /// The certificate with a fingerprint, key ID or address, if the index has only one and that
    /// has at most `bytes_max` bytes. Its row is not read. `None` if there is more to look at, or
    /// nothing: [`Self::owners`] says which.
    ///
    /// # Errors
    ///
    /// [`StoreError::Damaged`] or [`StoreError::Engine`].
    pub fn sole(&self, query: &Query, bytes_max: u32) -> Result<Option<Sole>, StoreError> {
        let (statement, handles) = match query {
            Query::KeyId(id) => (&blob::BY_KEY, handles(*id)),
            Query::Fingerprint(bytes) => match key_id(bytes) {
                Some(id) => (&blob::BY_KEY, handles(id)),
                None => return Ok(None),
            },
            Query::Email(email) => {
                let handle = Handle::of_addressee(&Addressee::from(email.clone()));
                (&blob::BY_ADDRESS, (handle.0.cast_signed(), handle.0.cast_signed()))
            }
            _ => return Ok(None),
        };
        let blob =
            self.run(|connection| blob::get_sole(connection, statement, handles, bytes_max))?;
        let Some(blob) = blob else { return Ok(None) };
        let (id, digest) = (CertId::new(blob.id), blob.written_digest());
        let sole = Sole { id, digest, stored: self.decode_newest(blob)? };
        // Handles collide.
        Ok(Some(sole).filter(|sole| query.names(&sole.stored.cert)))
    }

    /// Decodes a certificate whose row in `cert` was not read, if it is the last version. That row
    /// is read once for each version.
    fn decode_newest(&self, mut blob: Blob) -> Result<Stored, StoreError> {
        if !(self.has_followed.get() && self.snapshots.get() > 0) {
            self.run(|connection| self.compared.follow(connection))?;
            self.has_followed.set(true);
        }
        if self.compared.knows(&blob) {
            return self.decode_blob(blob);
        }
        let id = blob.id;
        if !self.run(|connection| blob.read_claim(connection))?
            || !self.run(|connection| blob::is_usable(connection, &blob))?
        {
            return Err(self.damaged_cert(id)?);
        }
        self.compared.note(&blob);
        self.decode_blob(blob)
    }

    /// The certificates with a key: first those whose primary key it is, then those that have it as
    /// a subkey that has signed the primary key, at most `limit` of each. If it is no primary key
    /// here, then the first [`HOLDERS_MAX`] others follow, those that have bound it first: anybody
    /// can have somebody else's key as a subkey for encryption. The index has them in this order
    /// ([`Holding`]), so no number of others hides the owner.
    ///
    /// `query` is a fingerprint or key ID. At most `looks` certificates are looked at.
    ///
    /// # Errors
    ///
    /// [`StoreError::Damaged`] or [`StoreError::Engine`].
    pub fn owners(
        &self,
        query: &Query,
        limit: usize,
        looks: usize,
    ) -> Result<Selection, StoreError> {
        let key = match query {
            Query::KeyId(id) => *id,
            Query::Fingerprint(bytes) => match key_id(bytes) {
                Some(id) => id,
                None => return self.select_within(query, limit, looks),
            },
            _ => return self.select_within(query, limit, looks),
        };
        // Nearly all keys are in one certificate. Then there is nobody to come first.
        if limit > 0 && looks > 0 {
            let mut rows = self.first_with_key(key)?;
            if rows.len() < 2 {
                rows.retain(|row| names_key(query, row));
                return Ok(Selection { rows, more: false });
            }
        }
        let mut found = self.holders(key, looks.saturating_add(1))?;
        let is_cut = found.len() > looks;
        found.truncate(looks);
        let (mut rows, mut more, mut bytes_left) = (Vec::new(), false, ROWS_BYTES_MAX);
        let (mut owners, mut signed_back, mut others) = (0, 0, 0);
        for (id, holding) in found {
            let (count, room) = match holding {
                Holding::Primary => (&mut owners, limit),
                Holding::SignedBack => (&mut signed_back, limit),
                // The owner is known, so the others have only taken the key.
                Holding::Bound | Holding::Unbound if owners > 0 => break,
                Holding::Bound | Holding::Unbound => (&mut others, HOLDERS_MAX),
            };
            if *count == room || bytes_left == 0 {
                more = true;
                continue;
            }
            let row = self.row_by_id(CertId::new(id))?;
            bytes_left =
                bytes_left.saturating_sub(row.as_ref().map_or(0, |row| memory_of(&row.summary)));
            let row = row.filter(|row| names_key(query, row));
            *count += usize::from(row.is_some());
            rows.extend(row);
        }
        more |= is_cut && owners == 0 || rows.len() > limit;
        rows.truncate(limit);
        Ok(Selection { rows, more })
    }

    /// The numbers of the first certificates that have a key with a key ID, and how they hold it,
    /// the firmest way first. A store of an older format only knows which are primary keys.
    fn holders(&self, id: KeyId, most: usize) -> Result<Vec<(i64, Holding)>, StoreError> {
        if self.run(format::of)? < format::HOLDINGS_FORMAT {
            let owners = self.primary_keys(id)?;
            let mut others = self.with_key(id)?;
            others.retain(|other| !owners.contains(other));
            let owners = owners.into_iter().map(|id| (id, Holding::Primary));
            let others = others.into_iter().map(|id| (id, Holding::Unbound));
            return Ok(owners.chain(others).take(most).collect());
        }
        let (first, last) = handles(id);
        let most = i64::try_from(most).unwrap_or(i64::MAX);
        self.run(|connection| {
            connection
                .prepare_cached(
                    "SELECT cert, handle FROM key WHERE handle BETWEEN ?1 AND ?2 \
                     ORDER BY handle, cert LIMIT ?3",
                )?
                .query_map((first, last, most), |row| {
                    let handle: i64 = row.get(1)?;
                    Ok((row.get(0)?, Handle(handle.cast_unsigned()).holding()))
                })?
                .collect()
        })
    }

    /// The first two certificates that have a key with a key ID.
    fn first_with_key(&self, id: KeyId) -> Result<Vec<Row>, StoreError> {
        let raw: Vec<RawRow> = self.run(|connection| {
            connection.prepare_cached(WITH_KEY)?.query_map(handles(id), RawRow::read)?.collect()
        })?;
        raw.iter().map(|raw| self.decode(raw)).collect()
    }

    /// The numbers of the certificates whose primary key has a key ID, at most 8, however many have
    /// it as a subkey. Those of version 3 are among the first 1,000 certificates with it.
    pub(crate) fn primary_keys(&self, id: KeyId) -> Result<Vec<i64>, StoreError> {
        let (first, last) = handles(id);
        let arguments = (first, last, KEY_ID_LOOKS, id.0.to_be_bytes(), PRIMARY_KEYS_MAX);
        self.run(|connection| {
            connection
                .prepare_cached(PRIMARY_KEYS)?
                .query_map(arguments, |row| row.get(0))?
                .collect()
        })
    }

    /// Calls `found` with each certificate that matches `query`, until `found` breaks.
    ///
    /// # Errors
    ///
    /// [`StoreError::Damaged`] or [`StoreError::Engine`].
    pub fn for_each_match(
        &self,
        query: &Query,
        found: impl FnMut(Row) -> ControlFlow<()>,
    ) -> Result<(), StoreError> {
        self.visit(query, usize::MAX, found).map(drop)
    }

    /// Calls `found` with each certificate that matches `query`, and compares at most `looks`
    /// candidates and, if there is such a bound, some 16 MiB of their rows. Returns whether there
    /// were more candidates than that.
    fn visit(
        &self,
        query: &Query,
        looks: usize,
        mut found: impl FnMut(Row) -> ControlFlow<()>,
    ) -> Result<bool, StoreError> {
        let mut budget = Budget::of(looks);
        let matcher = query.matcher();
        let mut candidate = |id: i64| -> Result<ControlFlow<()>, StoreError> {
            if budget.look().is_break() {
                return Ok(ControlFlow::Break(()));
            }
            let Some(row) = self.row_by_id(CertId::new(id))? else {
                return Ok(ControlFlow::Continue(()));
            };
            budget.read(&row);
            Ok(if self.matches(&matcher, &row)? { found(row) } else { ControlFlow::Continue(()) })
        };
        let mut each = |ids: Vec<i64>| -> Result<(), StoreError> {
            for id in ids {
                if candidate(id)?.is_break() {
                    break;
                }
            }
            Ok(())
        };
        match query {
            Query::KeyId(id) => each(self.with_key(*id)?),
            Query::ShortKeyId(id) => {
                let low = u64::from(*id) << 32;
                each(self.postings("key", low, low | 0xffff_ffff)?)
            }
            Query::Fingerprint(bytes) => {
                let ids = match key_id(bytes) {
                    Some(id) => self.with_key(id)?,
                    None => self.version_3(bytes)?,
                };
                each(ids)
            }
            Query::Keygrip(_) if !self.has_keygrips()? => each(self.with_key_by_bytes(query)?),
            Query::Keygrip(grip) => {
                let handle = Handle::first_bytes(grip).0;
                each(self.postings("keygrip", handle, handle)?)
            }
            Query::Email(email) => {
                let handle = Handle::of_addressee(&Addressee::from(email.clone())).0;
                each(self.postings("address", handle, handle)?)
            }
            Query::Exact(text) => {
                let handle = Handle::of_addressee(&Addressee::of_user_id(text.as_bytes())).0;
                each(self.postings("address", handle, handle)?)
            }
            Query::Identity(part)
            | Query::EmailPart(part)
            | Query::EmailEnd(part)
            | Query::Substring(part)
            | Query::Text(part) => match self.trigrams(&user_id::folded(part))? {
                Some(terms) => {
                    let part = [vec![user_id::folded(part)]];
                    self.text_candidates(TextIndex::Trigrams, &terms, &part, candidate)
                }
                None => self.filter_all(&matcher, &mut budget, found),
            },
            Query::Words(_) | Query::Spelled(_) => {
                let words = spellings(query);
                if words.iter().flatten().any(|word| !is_word(word)) {
                    // No user ID has a word that is none.
                    Ok(())
                } else if !words.is_empty() && self.has_index(TextIndex::Words)? {
                    self.word_candidates(&words, candidate)
                } else {
                    self.filter_all(&matcher, &mut budget, found)
                }
            }
        }?;
        Ok(budget.is_exceeded)
    }

    /// Whether `row` really matches a search.
    fn matches(&self, matcher: &Matcher<'_>, row: &Row) -> Result<bool, StoreError> {
        let query = matcher.query();
        Ok(match query {
            Query::Fingerprint(_) | Query::KeyId(_) | Query::ShortKeyId(_) => names_key(query, row),
            // Summaries have no keygrips.
            Query::Keygrip(_) => {
                self.stored(row.id)?.is_some_and(|stored| query.names(&stored.cert))
            }
            _ => row.summary.texts().any(|text| matcher.names_text(text)),
        })
    }

    fn postings(&self, table: &str, low: u64, high: u64) -> Result<Vec<i64>, StoreError> {
        self.run(|connection| {
            connection
                .prepare_cached(&format!(
                    "SELECT cert FROM {table} WHERE handle BETWEEN ?1 AND ?2 ORDER BY cert"
                ))?
                .query_map((low.cast_signed(), high.cast_signed()), |row| row.get(0))?
                .collect()
        })
    }

    /// The certificates that have a key with a key ID.
    pub(crate) fn with_key(&self, id: KeyId) -> Result<Vec<i64>, StoreError> {
        let (first, last) = handles(id);
        self.postings("key", first.cast_unsigned(), last.cast_unsigned())
    }

    /// The certificates that have the key of `query`, found by reading all of them.
    fn with_key_by_bytes(&self, query: &Query) -> Result<Vec<i64>, StoreError> {
        let (mut found, mut after) = (Vec::new(), 0);
        loop {
            let size = (SCAN_CERTS, SCAN_BYTES);
            let blobs = self.run(|connection| blob::batch(connection, after, size, Share::ALL))?;
            let Some(last) = blobs.last() else { return Ok(found) };
            after = last.id;
            // A damaged certificate names no key.
            let has = |blob: Blob| {
                let (cert, _) = blob.decode()?;
                cert.keys().any(|key| query.names_key(&key)).then_some(blob.id)
            };
            found.par_extend(blobs.into_par_iter().filter_map(has));
        }
    }

    /// The version 3 certificates with this fingerprint, from which the key ID cannot be derived.
    fn version_3(&self, fingerprint: &[u8]) -> Result<Vec<i64>, StoreError> {
        let Ok(bytes) = fingerprint.try_into() else { return Ok(Vec::new()) };
        let handle = Handle::of_fingerprint(Fingerprint::V3(bytes, KeyId(0))).0;
        self.postings("fingerprint", handle, handle)
    }

    /// The trigrams for finding user IDs that contain `part`. `None` if the store has no trigram
    /// index or `part` is too short.
    fn trigrams(&self, part: &str) -> Result<Option<Vec<String>>, StoreError> {
        let characters: Vec<char> = part.chars().collect();
        if characters.len() < 3 || !self.has_index(TextIndex::Trigrams)? {
            return Ok(None);
        }
        let mut trigrams: Vec<String> = characters
            .windows(3)
            .map(|three| format!("\"{}\"", three.iter().collect::<String>().replace('"', "\"\"")))
            .collect();
        trigrams.sort_unstable();
        trigrams.dedup();
        Ok(Some(self.rarest(TextIndex::Trigrams, trigrams)?))
    }

    /// The certificates that have each of `words` in one of its spellings.
    fn word_candidates(
        &self,
        words: &[Vec<String>],
        candidate: impl FnMut(i64) -> Result<ControlFlow<()>, StoreError>,
    ) -> Result<(), StoreError> {
        let mut terms: Vec<String> = words.iter().map(|word| one_of(word)).collect();
        terms.sort_unstable();
        terms.dedup();
        let terms = self.rarest(TextIndex::Words, terms)?;
        self.text_candidates(TextIndex::Words, &terms, words, candidate)
    }

    /// The certificates that match a search for words, if they are at most `count`, and the row of
    /// none has more than `bytes_max` bytes. `None` if there is more to look at, if it is another
    /// search, or if there is no index of words.
    ///
    /// # Errors
    ///
    /// [`StoreError::Damaged`] or [`StoreError::Engine`].
    pub fn few(
        &self,
        query: &Query,
        count: usize,
        bytes_max: u32,
    ) -> Result<Option<Vec<Row>>, StoreError> {
        let words = spellings(query);
        let are_words = !words.is_empty() && words.iter().flatten().all(|word| is_word(word));
        if !are_words || !self.has_index(TextIndex::Words)? {
            return Ok(None);
        }
        let mut ids = Vec::new();
        self.word_candidates(&words, |id| {
            ids.push(id);
            Ok(if ids.len() > count { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
        })?;
        if ids.len() > count {
            return Ok(None);
        }
        let matcher = query.matcher();
        let mut rows = Vec::with_capacity(ids.len());
        for id in ids {
            let raw = self.run(|connection| {
                connection
                    .prepare_cached(SHORT_ROW)?
                    .query_row((id, bytes_max), RawRow::read)
                    .optional()
            })?;
            let Some(raw) = raw else { return Ok(None) };
            let row = self.decode(&raw)?;
            if self.matches(&matcher, &row)? {
                rows.push(row);
            }
        }
        Ok(Some(rows))
    }

    /// The number of certificates that the index of words has under a word, in any spelling; `max`
    /// if there are more. `None` if it is not one folded word, or if there is no such index.
    ///
    /// # Errors
    ///
    /// [`StoreError::Engine`].
    pub fn word_frequency(&self, word: &str, max: u32) -> Result<Option<u32>, StoreError> {
        if !is_word(word) || !self.has_index(TextIndex::Words)? {
            return Ok(None);
        }
        self.run(|connection| {
            connection
                .prepare_cached(
                    "SELECT count(*) FROM (SELECT 1 FROM words WHERE words MATCH ?1 LIMIT ?2)",
                )?
                .query_row((one_of(&[word.to_owned()]), max), |row| row.get(0))
                .map(Some)
        })
    }

    /// The [`TERMS_MAX`] rarest of `terms`, if there are more. The comparison of candidates checks
    /// the other terms. The cost of the intersection does not depend on the order of the terms: it
    /// skips from each list to the next certificate of the others, so it costs about as much as the
    /// shortest list.
    ///
    /// Certificate numbers do not depend on names. The number of the [`SAMPLE_ROWS`]th certificate
    /// with a term therefore shows how rare the term is, without counting all of its certificates.
    fn rarest(&self, index: TextIndex, terms: Vec<String>) -> Result<Vec<String>, StoreError> {
        if terms.len() <= TERMS_MAX {
            return Ok(terms);
        }
        let table = index.table();
        let mut statement = self
            .connection
            .prepare_cached(&format!(
                "SELECT rowid FROM {table} WHERE {table} MATCH ?1 ORDER BY rowid LIMIT 1 OFFSET ?2"
            ))
            .map_err(|source| StoreError::engine(&self.path, source))?;
        let mut sampled = Vec::with_capacity(terms.len());
        for term in terms {
            let reached: Option<i64> = statement
                .query_row((&term, SAMPLE_ROWS - 1), |row| row.get(0))
                .optional()
                .map_err(|source| StoreError::engine(&self.path, source))?;
            sampled.push((reached.unwrap_or(i64::MAX), term));
        }
        sampled.sort_unstable();
        Ok(sampled.into_iter().rev().take(TERMS_MAX).map(|(_, term)| term).collect())
    }

    /// The certificates that an index has under all of `terms`, and those that are not in it yet
    /// and have one of each of `texts` in their folded user IDs.
    fn text_candidates(
        &self,
        index: TextIndex,
        terms: &[String],
        texts: &[Vec<String>],
        mut candidate: impl FnMut(i64) -> Result<ControlFlow<()>, StoreError>,
    ) -> Result<(), StoreError> {
        let table = index.table();
        let engine = |source| StoreError::engine(&self.path, source);
        let until = self.run(texts::indexed_until)?;
        let mut statement = self
            .connection
            .prepare_cached(&format!(
                "SELECT rowid FROM {table} WHERE {table} MATCH ?1 ORDER BY rowid"
            ))
            .map_err(engine)?;
        let mut ids = statement.query([terms.join(" AND ")]).map_err(engine)?;
        while let Some(row) = ids.next().map_err(engine)? {
            let id = row.get(0).map_err(engine)?;
            if id > until {
                // They were added meanwhile, and come below.
                break;
            }
            if candidate(id)?.is_break() {
                return Ok(());
            }
        }
        let may_match =
            |text: &str| texts.iter().all(|texts| texts.iter().any(|part| text.contains(part)));
        let late = {
            // `candidate` may begin another search.
            let mut texts = self.late_texts.borrow_mut();
            self.run(|connection| texts.candidates(connection, until, may_match))?
        };
        for id in late {
            if candidate(id)?.is_break() {
                break;
            }
        }
        Ok(())
    }

    /// Compares every certificate, for searches without an index.
    fn filter_all(
        &self,
        matcher: &Matcher<'_>,
        budget: &mut Budget,
        mut found: impl FnMut(Row) -> ControlFlow<()>,
    ) -> Result<(), StoreError> {
        self.walk(&mut Cursor::start(Order::Insertion), |row| {
            budget.look()?;
            budget.read(&row);
            if row.summary.texts().any(|text| matcher.names_text(text)) {
                return found(row);
            }
            ControlFlow::Continue(())
        })
    }

    /// Walks from `cursor` to the end, or until `visit` breaks. `cursor` is then after the last
    /// visited certificate.
    ///
    /// A walk reads pages of a thousand rows, each as a snapshot. A certificate that changes during
    /// a walk is visited once, except in order of changes. A walk blocks no writer.
    ///
    /// # Errors
    ///
    /// [`StoreError::Damaged`] or [`StoreError::Engine`].
    pub fn walk(
        &self,
        cursor: &mut Cursor,
        mut visit: impl FnMut(Row) -> ControlFlow<()>,
    ) -> Result<(), StoreError> {
        let engine = |source| StoreError::engine(&self.path, source);
        loop {
            let sql = match cursor {
                Cursor::Insertion(_) => {
                    concat!("SELECT ", columns!(), " FROM cert WHERE id > ?1 ORDER BY id LIMIT ?2")
                }
                Cursor::Key(..) => concat!(
                    "SELECT ",
                    columns!(),
                    ", handle FROM fingerprint JOIN cert ON cert.id = fingerprint.cert \
                     WHERE (handle, fingerprint.cert) > (?1, ?3) \
                     ORDER BY handle, fingerprint.cert LIMIT ?2"
                ),
                Cursor::Change(_) => concat!(
                    "SELECT ",
                    columns!(),
                    " FROM change JOIN cert ON cert.id = change.cert \
                     AND cert.change = change.number \
                     WHERE change.number > ?1 ORDER BY change.number LIMIT ?2"
                ),
            };
            let mut statement = self.connection.prepare_cached(sql).map_err(engine)?;
            let mut rows = match cursor {
                Cursor::Insertion(id) => statement.query((id.get(), PAGE_ROWS)),
                Cursor::Change(number) => statement.query((number.get(), PAGE_ROWS)),
                Cursor::Key(handle, id) => statement.query((*handle, PAGE_ROWS, id.get())),
            }
            .map_err(engine)?;
            let mut read = 0;
            while let Some(row) = rows.next().map_err(engine)? {
                let raw = RawRow::read(row).map_err(engine)?;
                read += 1;
                match cursor {
                    Cursor::Insertion(id) => *id = CertId::new(raw.id),
                    Cursor::Key(handle, id) => {
                        (*handle, *id) = (row.get(7).map_err(engine)?, CertId::new(raw.id));
                    }
                    Cursor::Change(number) => *number = ChangeNumber::new(raw.change),
                }
                self.check_frozen()?;
                if visit(self.decode(&raw)?).is_break() {
                    return Ok(());
                }
            }
            if read < PAGE_ROWS {
                return Ok(());
            }
        }
    }

    /// The certificate whose primary key or subkey has the key ID `id`, for naming the signer. If
    /// there are several, the owner's comes first, as in [`Self::owners`].
    ///
    /// # Errors
    ///
    /// [`StoreError::Damaged`] or [`StoreError::Engine`].
    pub fn holder(&self, id: KeyId) -> Result<Option<Summary>, StoreError> {
        let found = self.owners(&Query::KeyId(id), 1, HOLDER_LOOKS)?;
        Ok(found.rows.into_iter().next().map(|row| row.summary))
    }
}

/// Whether a fingerprint or key ID is that of a key in the certificate of `row`.
fn names_key(query: &Query, row: &Row) -> bool {
    row.summary.keys().any(|key| query.names_fingerprint(key.fingerprint))
}

/// The first and the last handle of a key ID, as the index has them.
fn handles(id: KeyId) -> (i64, i64) {
    let handle = |holding| Handle::of_key(id, holding).0.cast_signed();
    (handle(Holding::Primary), handle(Holding::Unbound))
}

/// The words of a search, each in the spellings that it may have. None in other searches.
fn spellings(query: &Query) -> Cow<'_, [Vec<String>]> {
    match query {
        Query::Words(words) => words.iter().map(|word| vec![word.clone()]).collect(),
        Query::Spelled(words) => words.into(),
        _ => Cow::default(),
    }
}

/// The expression of the index of words for a word in one of its spellings.
fn one_of(spellings: &[String]) -> String {
    let mut forms: Vec<String> =
        spellings.iter().map(|spelling| user_id::shared_form(spelling)).collect();
    forms.sort_unstable();
    forms.dedup();
    format!("(\"{}\")", forms.join("\" OR \""))
}

/// Whether a text is one folded word. Such a word needs no escape in an expression.
fn is_word(text: &str) -> bool {
    user_id::words(text).eq([text])
}

/// The key ID derived from a fingerprint. `None` in version 3.
fn key_id(fingerprint: &[u8]) -> Option<KeyId> {
    let bytes = match fingerprint.len() {
        20 => &fingerprint[12..],
        32 => &fingerprint[..8],
        _ => return None,
    };
    Some(KeyId(bytes.iter().fold(0, |id, &byte| id << 8 | u64::from(byte))))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use rusqlite::StatementStatus;
    use talaria_cert::merge::bytes_digest;
    use talaria_cert::{Cert, Verification};

    use super::*;
    use crate::blob;
    use crate::row::ROW;

    /// A certificate that has the primary key of somebody else as a subkey, as anybody can make
    /// one.
    fn adopter(key: &[u8], number: u32) -> Cert {
        let mut primary = vec![4, 0x30, 0, 0, 0, 1, 4, 0, 0xc0];
        primary.extend([0x55; 123]);
        primary.extend(number.to_be_bytes());
        primary.extend([0, 17, 1, 0, 1]);
        let packet = |tag: u8, body: &[u8]| {
            let length = u32::try_from(body.len()).unwrap().to_be_bytes();
            [&[0xc0 | tag, 255], &length[..], body].concat()
        };
        Cert::parse(&[packet(6, &primary), packet(14, key)].concat()).unwrap()
    }

    #[test]
    fn no_number_of_adopters_hides_the_owner_of_a_key() {
        let mut store = Store::in_memory(Path::new("memory")).unwrap();
        let made = talaria_corpus::Generate { count: 1, ..talaria_corpus::Generate::default() };
        let owner = talaria_corpus::certs(&made).remove(0);
        let key = owner.packets().next().unwrap().body;
        let adopters: Vec<Cert> = (0..20_001).map(|number| adopter(key, number)).collect();
        let now = 1_760_000_000_u32;
        store.ingest(adopters, Verification::Full, now.into()).unwrap();
        store.ingest(vec![owner.clone()], Verification::Full, now.into()).unwrap();
        let (fingerprint, id) = (owner.fingerprint(), owner.fingerprint().key_id());
        assert_eq!(store.with_key(id).unwrap().len(), 20_002);
        for query in [Query::KeyId(id), Query::Fingerprint(fingerprint.as_bytes().to_vec())] {
            let found = store.owners(&query, 10, 50).unwrap();
            let found: Vec<Fingerprint> =
                found.rows.iter().map(|row| row.summary.fingerprint()).collect();
            assert_eq!(found, [fingerprint]);
        }
        assert_eq!(store.holder(id).unwrap().unwrap().fingerprint(), fingerprint);
        // The look-up reads as many rows as its bound allows, and not all of them.
        let statement = store.connection.prepare_cached(PRIMARY_KEYS).unwrap();
        statement.reset_status(StatementStatus::VmStep);
        drop(statement);
        assert_eq!(store.primary_keys(id).unwrap(), [20_002]);
        let statement = store.connection.prepare_cached(PRIMARY_KEYS).unwrap();
        let steps = statement.get_status(StatementStatus::VmStep);
        assert!(i64::from(steps) < 50 * KEY_ID_LOOKS, "{steps}");
        assert_eq!(statement.get_status(StatementStatus::FullscanStep), 0);
    }

    /// The statements of look-ups are planned once, whatever values they are asked for, and read
    /// each row once.
    #[test]
    fn look_ups_plan_nothing_again_and_read_each_row_once() {
        let mut store = Store::in_memory(Path::new("memory")).unwrap();
        let made = talaria_corpus::Generate { count: 5, ..talaria_corpus::Generate::default() };
        let certs = talaria_corpus::certs(&made);
        store.ingest(certs.clone(), Verification::Full, 1_760_000_000_u32.into()).unwrap();
        let runs = store.connection.prepare_cached(ROW).unwrap().get_status(StatementStatus::Run);
        for fingerprint in certs.iter().map(talaria_cert::Cert::fingerprint) {
            for query in [
                Query::Fingerprint(fingerprint.as_bytes().to_vec()),
                Query::KeyId(fingerprint.key_id()),
            ] {
                let found = store.owners(&query, 10, 10).unwrap();
                assert_eq!(found.rows.len(), 1);
                let stored = store.stored(found.rows[0].id).unwrap().unwrap();
                let length = u32::try_from(stored.cert.as_bytes().len()).unwrap();
                let sole = store.sole(&query, length).unwrap().unwrap();
                let digest = bytes_digest(stored.cert.as_bytes());
                assert_eq!((sole.id, sole.digest), (found.rows[0].id, Some(digest)));
                assert_eq!(sole.stored.cert, stored.cert);
                // A longer one is not read.
                assert!(store.sole(&query, length - 1).unwrap().is_none());
            }
        }
        for statement in [WITH_KEY, &blob::BY_ID, &blob::BY_KEY] {
            let statement = store.connection.prepare_cached(statement).unwrap();
            assert!(statement.get_status(StatementStatus::Run) >= 5);
            assert_eq!(statement.get_status(StatementStatus::RePrepare), 0);
        }
        // The rows came with the index, and none was read again.
        let again = store.connection.prepare_cached(ROW).unwrap();
        assert_eq!(again.get_status(StatementStatus::Run), runs);
    }
}
