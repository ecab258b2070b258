//! The tables of a store.
//!
//! `docs/formats/store.md` describes each column. A test compares the document with the tables.

use std::borrow::Cow;

use rusqlite::{Connection, OptionalExtension as _};
use talaria_cert::{Handle, Terms, View, user_id};

use crate::format::{
    self, APPLICATION, CHECKSUM_FORMAT, FORMAT, ONE_ROW_FORMAT, OWNERS_FORMAT, STAMPED_FORMAT,
};
use crate::meta;

/// The tables that cannot be derived from other tables.
const AUTHORITATIVE: &str = "
CREATE TABLE meta (name TEXT PRIMARY KEY, value NOT NULL, sum INTEGER) WITHOUT ROWID;
CREATE TABLE blob (id INTEGER PRIMARY KEY, verdicts BLOB NOT NULL, bytes BLOB NOT NULL, \
digest BLOB, sum INTEGER, change INTEGER);
CREATE TABLE change (
    number INTEGER PRIMARY KEY, time INTEGER NOT NULL, cert INTEGER NOT NULL,
    kind INTEGER NOT NULL, sum INTEGER NOT NULL);
CREATE TABLE tombstone (
    fingerprint BLOB PRIMARY KEY, change INTEGER NOT NULL, blocked INTEGER NOT NULL,
    sum INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE ownertrust (
    fingerprint BLOB PRIMARY KEY, value INTEGER NOT NULL, sum INTEGER NOT NULL) WITHOUT ROWID;
";

/// The tables of a keyserver, new in format 2: decisions of the operator, and other recorded data.
pub(crate) const KEYSERVER: &str = "
CREATE TABLE peer (
    host TEXT, port INTEGER, http_port INTEGER NOT NULL, view INTEGER NOT NULL,
    sum INTEGER NOT NULL, PRIMARY KEY (host, port)) WITHOUT ROWID;
CREATE TABLE redaction (
    fingerprint BLOB, user_id BLOB, sum INTEGER NOT NULL,
    PRIMARY KEY (fingerprint, user_id)) WITHOUT ROWID;
CREATE TABLE published (
    fingerprint BLOB, email TEXT, time INTEGER NOT NULL, sum INTEGER NOT NULL,
    PRIMARY KEY (fingerprint, email)) WITHOUT ROWID;
CREATE TABLE tally (
    day INTEGER, name TEXT, count INTEGER NOT NULL, PRIMARY KEY (day, name)) WITHOUT ROWID;
";

/// Digests that peers announced and did not deliver, in the form of format 6.
pub(crate) const UNOBTAINABLE: &str = "
CREATE TABLE unobtainable (
    number INTEGER PRIMARY KEY, peer TEXT NOT NULL, view INTEGER NOT NULL, digest BLOB NOT NULL,
    tries INTEGER NOT NULL, time INTEGER NOT NULL, UNIQUE (peer, view, digest));
";

/// The same before format 6.
const UNOBTAINABLE_BEFORE: &str = "
CREATE TABLE unobtainable (
    view INTEGER, digest BLOB, tries INTEGER NOT NULL, time INTEGER NOT NULL,
    PRIMARY KEY (view, digest)) WITHOUT ROWID;
";

/// Observed bindings of addresses to keys, new in format 3.
pub(crate) const TOFU: &str = "
CREATE TABLE binding (
    email BLOB, fingerprint BLOB, user_id BLOB NOT NULL, time INTEGER NOT NULL,
    policy INTEGER NOT NULL, effective INTEGER NOT NULL, conflict BLOB, sum INTEGER NOT NULL,
    PRIMARY KEY (email, fingerprint)) WITHOUT ROWID;
CREATE TABLE verified (
    email BLOB, fingerprint BLOB, digest TEXT, origin TEXT, signed INTEGER NOT NULL,
    time INTEGER NOT NULL, PRIMARY KEY (email, fingerprint, digest, origin)) WITHOUT ROWID;
CREATE TABLE encrypted (
    email BLOB, fingerprint BLOB, time INTEGER, count INTEGER NOT NULL,
    PRIMARY KEY (email, fingerprint, time)) WITHOUT ROWID;
";

/// The web of trust, new in format 3. Empty in a store without ultimately trusted keys.
const TRUST: &str = "
CREATE TABLE trust (
    cert INTEGER PRIMARY KEY, start INTEGER NOT NULL, until INTEGER NOT NULL,
    standing BLOB NOT NULL);
CREATE INDEX trust_start ON trust (start);
CREATE INDEX trust_until ON trust (until);
CREATE TABLE introducer (handle INTEGER, cert INTEGER, PRIMARY KEY (handle, cert)) WITHOUT ROWID;
CREATE TABLE certifier (handle INTEGER, cert INTEGER, PRIMARY KEY (handle, cert)) WITHOUT ROWID;
";

/// Checksums of certificates and damaged bytes, new in format 5.
pub(crate) const CHECKSUM: &str = "
CREATE TABLE checksum (cert INTEGER PRIMARY KEY, digest BLOB NOT NULL, sum INTEGER NOT NULL);
CREATE TABLE set_aside (
    number INTEGER PRIMARY KEY, time INTEGER NOT NULL, fingerprint BLOB, bytes BLOB NOT NULL,
    sum INTEGER NOT NULL);
CREATE INDEX published_email ON published (email);
";

/// The digests by which peers identify certificates, by view.
const DIGEST: &str = "
CREATE TABLE digest (
    view INTEGER, digest BLOB, cert INTEGER, PRIMARY KEY (view, digest, cert)) WITHOUT ROWID;
";

/// The tables that can be rebuilt from the certificates.
const DERIVED: &str = "
CREATE TABLE cert (
    id INTEGER PRIMARY KEY, fingerprint BLOB NOT NULL, change INTEGER NOT NULL,
    verifier INTEGER NOT NULL, summary BLOB NOT NULL, sum INTEGER, former INTEGER);
CREATE TABLE fingerprint (handle INTEGER, cert INTEGER, PRIMARY KEY (handle, cert)) WITHOUT ROWID;
CREATE TABLE key (handle INTEGER, cert INTEGER, PRIMARY KEY (handle, cert)) WITHOUT ROWID;
CREATE TABLE address (handle INTEGER, cert INTEGER, PRIMARY KEY (handle, cert)) WITHOUT ROWID;
CREATE TABLE revoker (handle INTEGER, cert INTEGER, PRIMARY KEY (handle, cert)) WITHOUT ROWID;
";

/// The index of keygrips, which is optional.
const KEYGRIP: &str = "
CREATE TABLE keygrip (handle INTEGER, cert INTEGER, PRIMARY KEY (handle, cert)) WITHOUT ROWID;
";

/// The tables of postings, by name, in the order of [`lists`]. A store may be without that of
/// keygrips ([`keeps`]).
pub(crate) const POSTINGS: [&str; 5] = ["fingerprint", "key", "keygrip", "address", "revoker"];

/// The terms that go into [`POSTINGS`].
pub(crate) fn lists(terms: &Terms) -> [&[Handle]; 5] {
    [&terms.fingerprint, &terms.keys, &terms.keygrips, &terms.addresses, &terms.revokers]
}

/// Whether the store has a table of [`POSTINGS`].
pub(crate) fn keeps(connection: &Connection, table: &str) -> rusqlite::Result<bool> {
    Ok(table != "keygrip" || has_keygrips(connection)?)
}

/// Whether the store has the index of keygrips.
pub(crate) fn has_keygrips(connection: &Connection) -> rusqlite::Result<bool> {
    has_table(connection, "keygrip")
}

/// Creates the index of keygrips, empty.
pub(crate) fn create_keygrips(connection: &Connection) -> rusqlite::Result<()> {
    connection.execute_batch(KEYGRIP)
}

/// The optional indexes of a store.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Indexes {
    pub(crate) text: Vec<TextIndex>,
    pub(crate) keygrips: bool,
}

impl Indexes {
    /// Those that a store has, in the form of this format or of an older one.
    pub(crate) fn found(connection: &Connection) -> rusqlite::Result<Self> {
        let mut text = Vec::new();
        for index in TextIndex::ALL {
            if index.has_table(connection)? {
                text.push(index);
            }
        }
        Ok(Self { text, keygrips: has_keygrips(connection)? })
    }
}

/// A full-text index over user IDs. Each index is optional and can be added later.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum TextIndex {
    /// Whole words.
    Words,
    /// Runs of three characters: any substring.
    Trigrams,
}

impl TextIndex {
    /// All indexes.
    pub const ALL: [Self; 2] = [Self::Words, Self::Trigrams];

    /// The name of the index table.
    #[must_use]
    pub fn table(self) -> &'static str {
        match self {
            Self::Words => "words",
            Self::Trigrams => "trigrams",
        }
    }

    /// Creates the index table. Only postings are stored (`detail=none`): a match is a candidate,
    /// to be compared with the user IDs in the summary. The tokenizers change no character of a
    /// folded text.
    pub(crate) fn create(self, connection: &Connection) -> rusqlite::Result<()> {
        self.create_as(connection, self.table())
    }

    fn create_as(self, connection: &Connection, table: &str) -> rusqlite::Result<()> {
        let tokenizer = match self {
            Self::Words => "ascii",
            Self::Trigrams => "trigram case_sensitive 1",
        };
        connection.execute_batch(&format!(
            "CREATE VIRTUAL TABLE {table} USING fts5 \
             (text, content='', columnsize=0, detail=none, tokenize='{tokenizer}')"
        ))?;
        merge_seldom(connection, table)
    }

    /// The text in the index table for the folded user IDs of a certificate.
    pub(crate) fn content(self, folded: &str) -> Cow<'_, str> {
        match self {
            // To the tokenizer, every character that is not ASCII is a letter. In ASCII text it
            // finds the same words.
            Self::Words if !folded.is_ascii() => {
                let words: Vec<&str> = user_id::words_of_folded(folded).collect();
                user_id::shared_form(&words.join(" ")).into()
            }
            Self::Words => user_id::shared_form(folded).into(),
            Self::Trigrams => folded.into(),
        }
    }

    /// The first format in which the index has the words of this version.
    fn first_format(self) -> i64 {
        match self {
            Self::Words => ONE_ROW_FORMAT,
            Self::Trigrams => CHECKSUM_FORMAT,
        }
    }

    /// The name of an index that will take the place of this one, while it is filled.
    pub(crate) fn new_table(self) -> &'static str {
        match self {
            Self::Words => "words_new",
            Self::Trigrams => "trigrams_new",
        }
    }

    /// The name of the index that was replaced, until it is deleted.
    fn old_table(self) -> &'static str {
        match self {
            Self::Words => "words_old",
            Self::Trigrams => "trigrams_old",
        }
    }

    /// The entry of `meta` with the last certificate in [`Self::new_table`].
    fn filled_entry(self) -> &'static str {
        match self {
            Self::Words => "filled:words",
            Self::Trigrams => "filled:trigrams",
        }
    }

    /// The number of the last certificate in the index that is being filled. Writers change the
    /// texts of certificates up to this one in that index, too. `None` if none is being filled.
    pub(crate) fn filled_until(self, connection: &Connection) -> rusqlite::Result<Option<i64>> {
        Ok(meta::get(connection, self.filled_entry())?.good())
    }

    pub(crate) fn set_filled_until(
        self,
        connection: &Connection,
        last: i64,
    ) -> rusqlite::Result<()> {
        meta::set(connection, self.filled_entry(), last)
    }

    /// Makes an empty index beside this one.
    pub(crate) fn begin_anew(self, connection: &Connection) -> rusqlite::Result<()> {
        self.forget_new(connection)?;
        self.create_as(connection, self.new_table())?;
        self.set_filled_until(connection, 0)
    }

    /// Gives the index that was filled the name of this one.
    pub(crate) fn take_place(self, connection: &Connection) -> rusqlite::Result<()> {
        let (table, new, old) = (self.table(), self.new_table(), self.old_table());
        connection.execute_batch(&format!(
            "DROP TABLE IF EXISTS {old}; ALTER TABLE {table} RENAME TO {old}; \
             ALTER TABLE {new} RENAME TO {table};"
        ))?;
        meta::remove(connection, self.filled_entry())
    }

    /// Whether there is an index that was replaced and is not yet deleted.
    pub(crate) fn has_old(self, connection: &Connection) -> rusqlite::Result<bool> {
        has_table(connection, self.old_table())
    }

    /// Deletes some blocks of the index that was replaced, or the rest of it.
    pub(crate) fn drop_old(self, connection: &Connection, blocks: u32) -> rusqlite::Result<()> {
        let old = self.old_table();
        if !self.has_old(connection)? {
            return Ok(());
        }
        // The first ten numbers are those of the engine's own records.
        let deleted = connection.execute(
            &format!(
                "DELETE FROM {old}_data WHERE id IN \
                 (SELECT id FROM {old}_data WHERE id > 10 ORDER BY id DESC LIMIT ?1)"
            ),
            [blocks],
        )?;
        if deleted == 0 {
            connection.execute_batch(&format!("DROP TABLE {old}"))?;
        }
        Ok(())
    }

    /// Deletes the index that is being filled, and the one that was replaced.
    pub(crate) fn forget_new(self, connection: &Connection) -> rusqlite::Result<()> {
        for table in [self.new_table(), self.old_table()] {
            connection.execute_batch(&format!("DROP TABLE IF EXISTS {table}"))?;
        }
        meta::remove(connection, self.filled_entry())
    }

    /// Whether the store has the index with the words of this version.
    pub(crate) fn exists(self, connection: &Connection) -> rusqlite::Result<bool> {
        Ok(self.has_table(connection)? && self.is_of_this_version(connection)?)
    }

    /// Whether an index of the store has the words of this version.
    pub(crate) fn is_of_this_version(self, connection: &Connection) -> rusqlite::Result<bool> {
        Ok(format::of(connection)? >= self.first_format())
    }

    /// Whether the store has the index, in the form of this format or of an older one.
    pub(crate) fn has_table(self, connection: &Connection) -> rusqlite::Result<bool> {
        has_table(connection, self.table())
    }
}

/// Segments of one level of a full-text index that are merged while certificates are added, a piece
/// with each commit. With the 4 of SQLite, each word is rewritten twice as often.
const AUTOMERGE: i64 = 16;

/// Segments of one level above which a commit merges all of them. With the 16 of SQLite, one of a
/// hundred uploads to a store of 200,000 certificates waited for a quarter of a second.
const CRISISMERGE: i64 = 64;

/// Segments of one level that are merged when nothing is added ([`crate::Operator::tidy`]).
const USERMERGE: i64 = 2;

/// Sets how often the segments of a full-text index are merged, unless it is set already.
pub(crate) fn merge_seldom(connection: &Connection, table: &str) -> rusqlite::Result<()> {
    let set: Option<i64> = connection
        .prepare_cached(&format!("SELECT v FROM {table}_config WHERE k = 'automerge'"))?
        .query_row([], |row| row.get(0))
        .optional()?;
    if set == Some(AUTOMERGE) {
        return Ok(());
    }
    let command = format!("INSERT INTO {table} ({table}, rank) VALUES (?1, ?2)");
    let mut command = connection.prepare(&command)?;
    for (option, value) in
        [("crisismerge", CRISISMERGE), ("usermerge", USERMERGE), ("automerge", AUTOMERGE)]
    {
        command.execute((option, value))?;
    }
    Ok(())
}

fn has_table(connection: &Connection, name: &str) -> rusqlite::Result<bool> {
    connection
        .prepare_cached("SELECT count(*) FROM sqlite_schema WHERE type = 'table' AND name = ?1")?
        .query_row([name], |row| row.get::<_, i64>(0).map(|n| n > 0))
}

/// Records the views for which a store keeps digests.
pub(crate) fn set_views(connection: &Connection, views: &[View]) -> rusqlite::Result<()> {
    let names: Vec<&str> = views.iter().map(|view| view.name()).collect();
    meta::set(connection, "views", names.join(" "))
}

/// Creates the tables of an empty store.
pub(crate) fn create(connection: &Connection, indexes: &Indexes) -> rusqlite::Result<()> {
    create_bare(connection)?;
    create_derived(connection, indexes)?;
    mark(connection)
}

/// Creates the derived tables.
pub(crate) fn create_derived(connection: &Connection, indexes: &Indexes) -> rusqlite::Result<()> {
    connection.execute_batch(DERIVED)?;
    connection.execute_batch(DIGEST)?;
    connection.execute_batch(TRUST)?;
    if indexes.keygrips {
        create_keygrips(connection)?;
    }
    indexes.text.iter().try_for_each(|index| index.create(connection))
}

/// Gives tables of an older format the columns of checksums. No row is written.
pub(crate) fn widen(connection: &Connection, from: i64) -> rusqlite::Result<()> {
    if from < ONE_ROW_FORMAT {
        connection.execute_batch(
            "ALTER TABLE blob ADD COLUMN digest BLOB; ALTER TABLE blob ADD COLUMN sum INTEGER;",
        )?;
    }
    if connection.prepare("SELECT verifier FROM cert").is_err() {
        // Before format 4. All rows are made again.
        connection
            .execute_batch("ALTER TABLE cert ADD COLUMN verifier INTEGER NOT NULL DEFAULT 0")?;
    }
    connection.execute_batch(
        "ALTER TABLE blob ADD COLUMN change INTEGER; ALTER TABLE cert ADD COLUMN sum INTEGER;
         ALTER TABLE cert ADD COLUMN former INTEGER; ALTER TABLE meta ADD COLUMN sum INTEGER;",
    )
}

/// Renames the derived tables, except the full-text indexes and those of the web of trust: their
/// names get the suffix `_before`. Returns their former names.
pub(crate) fn set_derived_aside(connection: &Connection) -> rusqlite::Result<Vec<&'static str>> {
    let mut found = Vec::new();
    for table in ["cert", "digest"].into_iter().chain(POSTINGS) {
        let exists = connection
            .prepare_cached("SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name = ?1")?
            .exists([table])?;
        if exists {
            connection.execute_batch(&format!("ALTER TABLE {table} RENAME TO {table}_before"))?;
            found.push(table);
        }
    }
    Ok(found)
}

/// Drops the derived tables.
pub(crate) fn drop_derived(connection: &Connection) -> rusqlite::Result<()> {
    TextIndex::ALL.into_iter().try_for_each(|index| index.forget_new(connection))?;
    View::ALL.into_iter().try_for_each(|view| set_added_until(connection, view, None))?;
    let tables = ["cert", "digest", "trust", "introducer", "certifier"].into_iter().chain(POSTINGS);
    let tables = tables.chain(TextIndex::ALL.map(TextIndex::table));
    for table in tables {
        connection.execute_batch(&format!("DROP TABLE IF EXISTS {table}"))?;
    }
    Ok(())
}

/// Creates the tables of a bulk build, except those that are filled at the end.
pub(crate) fn create_bare(connection: &Connection) -> rusqlite::Result<()> {
    connection.execute_batch(AUTHORITATIVE)?;
    connection.execute_batch(KEYSERVER)?;
    connection.execute_batch(UNOBTAINABLE)?;
    connection.execute_batch(TOFU)?;
    connection.execute_batch(CHECKSUM)
}

/// Gives a new store the tables of an older format, to compare those of an older store.
pub(crate) fn make_older(connection: &Connection, format: i64) -> rusqlite::Result<()> {
    if format < STAMPED_FORMAT {
        connection.execute_batch(
            "ALTER TABLE blob DROP COLUMN change; ALTER TABLE cert DROP COLUMN former;
             ALTER TABLE cert DROP COLUMN sum; ALTER TABLE meta DROP COLUMN sum;",
        )?;
    }
    if format < ONE_ROW_FORMAT {
        connection.execute_batch(
            "ALTER TABLE blob DROP COLUMN sum; ALTER TABLE blob DROP COLUMN digest;",
        )?;
    }
    if format < OWNERS_FORMAT {
        connection.execute_batch("DROP TABLE unobtainable")?;
        connection.execute_batch(UNOBTAINABLE_BEFORE)?;
    }
    if format < CHECKSUM_FORMAT {
        connection.execute_batch(
            "DROP TABLE checksum; DROP TABLE set_aside; DROP INDEX published_email;",
        )?;
    }
    Ok(())
}

/// The views for which a store keeps digests, among them those that are being added. SKS is always
/// among them.
pub(crate) fn views(connection: &Connection) -> rusqlite::Result<Vec<View>> {
    let names: String = meta::get(connection, "views")?.good().unwrap_or_default();
    let named = |view: &View| *view == View::Sks || names.split(' ').any(|n| n == view.name());
    Ok(View::ALL.into_iter().filter(named).collect())
}

/// The entry of `meta` with the last certificate whose digest of a view that is being added is
/// there.
fn added_entry(view: View) -> String {
    format!("view:{}", view.name())
}

/// The number of the last certificate whose digest is there, of a view that is being added. `None`
/// if it is not.
pub(crate) fn added_until(connection: &Connection, view: View) -> rusqlite::Result<Option<i64>> {
    Ok(meta::get(connection, &added_entry(view))?.good())
}

/// Records how far the digests of a view are there; `None` for all.
pub(crate) fn set_added_until(
    connection: &Connection,
    view: View,
    last: Option<i64>,
) -> rusqlite::Result<()> {
    match last {
        Some(last) => meta::set(connection, &added_entry(view), last),
        None => meta::remove(connection, &added_entry(view)),
    }
}

/// The views that are being added. Writers keep their digests; those of other certificates may be
/// missing.
pub(crate) fn incomplete_views(connection: &Connection) -> rusqlite::Result<Vec<View>> {
    let mut incomplete = Vec::new();
    for view in View::ALL {
        if added_until(connection, view)?.is_some() {
            incomplete.push(view);
        }
    }
    Ok(incomplete)
}

/// The views of which the digests of all certificates are there.
pub(crate) fn complete_views(connection: &Connection) -> rusqlite::Result<Vec<View>> {
    let incomplete = incomplete_views(connection)?;
    let mut views = views(connection)?;
    views.retain(|view| !incomplete.contains(view));
    Ok(views)
}

/// Marks the file as a store of the current format.
pub(crate) fn mark(connection: &Connection) -> rusqlite::Result<()> {
    connection.execute_batch(&format!(
        "PRAGMA application_id = {APPLICATION}; PRAGMA user_version = {FORMAT};"
    ))?;
    meta::set_first(connection, "store", random_digits(connection, 16)?)
}

/// So many random bytes, in hexadecimal digits.
pub(crate) fn random_digits(connection: &Connection, bytes: u8) -> rusqlite::Result<String> {
    connection.query_row("SELECT lower(hex(randomblob(?1)))", [bytes], |row| row.get(0))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// The terms of `index` for folded texts, read from the index itself.
    fn terms(index: TextIndex, texts: &[String]) -> BTreeSet<String> {
        let connection = Connection::open_in_memory().unwrap();
        index.create(&connection).unwrap();
        let table = index.table();
        let sql = format!("INSERT INTO {table} (rowid, text) VALUES (?1, ?2)");
        for (id, text) in (1_i64..).zip(texts) {
            connection.prepare_cached(&sql).unwrap().execute((id, index.content(text))).unwrap();
        }
        let sql = format!("CREATE VIRTUAL TABLE terms USING fts5vocab({table}, row)");
        connection.execute_batch(&sql).unwrap();
        let mut statement = connection.prepare("SELECT term FROM terms").unwrap();
        statement.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect()
    }

    #[test]
    fn the_tokenizers_leave_every_character_as_it_is() {
        // The others have few characters that fold, and take a minute.
        let planes = talaria_needs::short_or_full(vec![0, 1, 14], (0..=16).collect());
        for plane in planes {
            let characters = (plane << 16..(plane + 1) << 16).filter_map(char::from_u32);
            let texts: Vec<String> =
                characters.map(|c| user_id::folded(&format!("a{c}b {c}"))).collect();
            let words = texts.iter().flat_map(|text| user_id::words(text));
            let expected: BTreeSet<String> =
                words.map(|word| user_id::shared_form(&word)).collect();
            assert!(terms(TextIndex::Words, &texts) == expected, "words, plane {plane}");
            let trigrams = texts.iter().flat_map(|text| {
                // SQLite replaces these two in the texts of queries as well.
                let text = text.replace(['\u{fffe}', '\u{ffff}'], "\u{fffd}");
                let characters: Vec<char> = text.chars().collect();
                characters.windows(3).map(String::from_iter).collect::<Vec<_>>()
            });
            let expected: BTreeSet<String> = trigrams.collect();
            assert!(terms(TextIndex::Trigrams, &texts) == expected, "trigrams, plane {plane}");
        }
    }
}
