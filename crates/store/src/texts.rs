//! The full-text indexes while certificates are added.
//!
//! An addition to an index writes three pages for a few words, and leaves a segment of its own that
//! searches read and that has to be merged. So the texts of new certificates are added together.
//! Until then, a search compares their texts themselves, unless one is large. Entry `indexed` of
//! table `meta` has the highest number of a certificate whose text is in the indexes; if it is
//! missing, all are.

use rusqlite::Connection;
use talaria_cert::search_text;

use crate::blob;
use crate::derive::Failure;
use crate::meta::{self, Entry};
use crate::row::{ROW, ROWS_AFTER, RawRow};
use crate::schema::{self, TextIndex};

/// Numbers of certificates that an index may be behind, after each transaction.
const LATE_MAX: i64 = 64;

/// Bytes of the row of a certificate that may wait. Nearly all have some hundred; strangers can
/// make rows of megabytes.
const LATE_BYTES_MAX: usize = 4096;

/// The folded texts of the certificates that are not in the indexes yet, as one connection has read
/// them. They seldom change from one search to the next.
#[derive(Debug, Default)]
pub(crate) struct LateTexts(Vec<LateText>);

#[derive(Debug)]
struct LateText {
    id: i64,
    change: i64,
    /// `None` if the row cannot be read, or if the text is too long to be kept: some characters
    /// become eighteen when they are folded.
    text: Option<String>,
}

impl LateTexts {
    /// The certificates after number `until` whose text may match, or is not known.
    pub(crate) fn candidates(
        &mut self,
        connection: &Connection,
        until: i64,
        may_match: impl Fn(&str) -> bool,
    ) -> rusqlite::Result<Vec<i64>> {
        self.follow(connection, until)?;
        let is_one = |late: &&LateText| late.text.as_deref().is_none_or(&may_match);
        Ok(self.0.iter().filter(is_one).map(|late| late.id).collect())
    }

    /// Reads what has changed.
    fn follow(&mut self, connection: &Connection, until: i64) -> rusqlite::Result<()> {
        let mut before = std::mem::take(&mut self.0).into_iter().peekable();
        let mut changes =
            connection.prepare_cached("SELECT id, change FROM cert WHERE id > ?1 ORDER BY id")?;
        let mut rows = changes.query([until])?;
        while let Some(row) = rows.next()? {
            let (id, change) = (row.get(0)?, row.get(1)?);
            while before.next_if(|late| late.id < id).is_some() {}
            let known = before.next_if(|late| (late.id, late.change) == (id, change));
            let late = if let Some(known) = known {
                known
            } else {
                let raw = connection.prepare_cached(ROW)?.query_row([id], RawRow::read)?;
                let text = raw.summary().map(|summary| search_text(&summary));
                LateText { id, change, text: text.filter(|text| text.len() <= LATE_BYTES_MAX) }
            };
            self.0.push(late);
        }
        Ok(())
    }
}

/// Texts that a transaction adds to the full-text indexes or removes from them.
#[derive(Default)]
pub(crate) struct Texts {
    /// The first and the last of the certificates that are new in the store.
    new: Option<(i64, i64)>,
    /// Whether one of the written certificates is too large to be compared by each search.
    is_large: bool,
    remove: Vec<(i64, String)>,
    add: Vec<(i64, String)>,
}

impl Texts {
    /// Notes that a certificate is new. Its row is in table `cert`.
    pub(crate) fn note_new(&mut self, id: i64) {
        let first = self.new.map_or(id, |(first, _)| first);
        self.new = Some((first, id));
    }

    /// Notes the bytes of the row of a certificate.
    pub(crate) fn note_size(&mut self, bytes: usize) {
        self.is_large |= bytes > LATE_BYTES_MAX;
    }

    pub(crate) fn remove(&mut self, id: i64, text: String) {
        self.remove.push((id, text));
    }

    pub(crate) fn add(&mut self, id: i64, text: String) {
        self.add.push((id, text));
    }

    /// Writes the texts of certificates that are in the indexes. Those of new ones are added when
    /// they are enough.
    pub(crate) fn write(self, connection: &Connection) -> rusqlite::Result<()> {
        let mut until = indexed_until(connection)?;
        if let (Some((first, _)), i64::MAX) = (self.new, until) {
            until = first - 1;
            set_indexed_until(connection, until)?;
        }
        self.write_up_to(connection, until)?;
        let are_enough = self.new.is_some_and(|(_, last)| last - until >= LATE_MAX);
        if are_enough || self.is_large { add_late(connection).map(drop) } else { Ok(()) }
    }

    fn write_up_to(&self, connection: &Connection, until: i64) -> rusqlite::Result<()> {
        for index in TextIndex::ALL {
            if index.exists(connection)? {
                self.write_to(connection, index, index.table(), until)?;
            }
        }
        self.write_to_new(connection)
    }

    /// Writes only to indexes that are being filled: they will replace the others.
    pub(crate) fn write_to_new(&self, connection: &Connection) -> rusqlite::Result<()> {
        for index in TextIndex::ALL {
            if let Some(last) = index.filled_until(connection)? {
                self.write_to(connection, index, index.new_table(), last)?;
            }
        }
        Ok(())
    }

    /// Writes the texts of certificates up to the number `last` to a table with an index.
    fn write_to(
        &self,
        connection: &Connection,
        index: TextIndex,
        table: &str,
        last: i64,
    ) -> rusqlite::Result<()> {
        let has = |(id, text): &&(i64, String)| !text.is_empty() && *id <= last;
        let mut remove = connection.prepare_cached(&format!(
            "INSERT INTO {table} ({table}, rowid, text) VALUES ('delete', ?1, ?2)"
        ))?;
        for (id, text) in self.remove.iter().filter(has) {
            remove.execute((id, index.content(text)))?;
        }
        let mut add = connection
            .prepare_cached(&format!("INSERT INTO {table} (rowid, text) VALUES (?1, ?2)"))?;
        for (id, text) in self.add.iter().filter(has) {
            add.execute((id, index.content(text)))?;
        }
        Ok(())
    }
}

/// The highest number of a certificate whose text is in the indexes; `i64::MAX` if all are.
pub(crate) fn indexed_until(connection: &Connection) -> rusqlite::Result<i64> {
    Ok(match meta::get(connection, INDEXED)? {
        Entry::Good(until) => until,
        Entry::Missing => i64::MAX,
        // It is not lower than this after any transaction.
        Entry::Damaged => (blob::last_id(connection)? - LATE_MAX).max(0),
    })
}

/// The entry of `meta` with that number.
const INDEXED: &str = "indexed";

fn set_indexed_until(connection: &Connection, id: i64) -> rusqlite::Result<()> {
    meta::set(connection, INDEXED, id)
}

/// Adds all texts that are missing to the indexes. Returns how many there were.
pub(crate) fn add_late(connection: &Connection) -> rusqlite::Result<usize> {
    let until = indexed_until(connection)?;
    if until == i64::MAX {
        return Ok(0);
    }
    // A damaged table can have rows with higher numbers, which new certificates are yet to get.
    let (mut texts, last) = (Texts::default(), blob::last_id(connection)?);
    {
        let mut statement = connection.prepare_cached(ROWS_AFTER)?;
        let mut rows = statement.query([until])?;
        while let Some(row) = rows.next()? {
            let row = RawRow::read(row)?;
            if row.id > last {
                break;
            }
            // A row that cannot be read is that of a damaged certificate.
            texts.add(row.id, row.summary().map(|s| search_text(&s)).unwrap_or_default());
        }
    }
    set_indexed_until(connection, last)?;
    texts.write_up_to(connection, last)?;
    Ok(texts.add.len())
}

/// Fills an empty full-text index from the summaries.
pub(crate) fn fill_text(connection: &Connection, index: TextIndex) -> Result<(), Failure> {
    let table = index.table();
    // Segments are merged once at the end instead of repeatedly. The engine keeps its default of
    // one megabyte of postings in memory: more no longer fit into the processor's caches, which
    // doubles the time.
    let command = format!("INSERT INTO {table} ({table}, rank) VALUES ('automerge', 0)");
    connection.execute(&command, [])?;
    {
        let mut insert =
            connection.prepare(&format!("INSERT INTO {table} (rowid, text) VALUES (?1, ?2)"))?;
        let mut statement = connection.prepare(ROWS_AFTER)?;
        let mut rows = statement.query([0])?;
        while let Some(row) = rows.next()? {
            let row = RawRow::read(row)?;
            // A row that cannot be read is that of a damaged certificate, which a check reports.
            let Some(summary) = row.summary() else { continue };
            let text = talaria_cert::search_text(&summary);
            if !text.is_empty() {
                insert.execute((row.id, index.content(&text)))?;
            }
        }
    }
    connection.execute(&format!("INSERT INTO {table} ({table}) VALUES ('optimize')"), [])?;
    Ok(schema::merge_seldom(connection, table)?)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use talaria_cert::{Cert, Query, Verification, user_id};

    use super::*;
    use crate::{Depth, Return, Store, TextIndex};

    const NOW: u32 = 1_760_000_000;

    /// The certificates after number `until`, whose texts are not in the indexes.
    fn late_ids(connection: &Connection, until: i64) -> rusqlite::Result<Vec<i64>> {
        LateTexts::default().candidates(connection, until, |_| true)
    }

    /// The rows of an index, as pairs of a term and a certificate.
    fn postings(store: &Store, index: TextIndex) -> Vec<(String, i64)> {
        let table = index.table();
        let connection = &store.connection;
        let sql =
            format!("CREATE VIRTUAL TABLE temp.seen USING fts5vocab(main, {table}, instance)");
        connection.execute_batch(&sql).unwrap();
        let all = connection
            .prepare("SELECT term, doc FROM temp.seen ORDER BY term, doc")
            .unwrap()
            .query_map([], |row| Ok((row.get(0)?, row.get(1)?)))
            .unwrap()
            .map(Result::unwrap)
            .collect();
        connection.execute_batch("DROP TABLE temp.seen").unwrap();
        all
    }

    /// Whether each certificate is found by each of its words, and by a part of its name.
    fn all_are_found(store: &Store, certs: &[Cert]) {
        for cert in certs {
            let text = std::str::from_utf8(cert.user_ids().next().unwrap()).unwrap().to_owned();
            let part = text.chars().skip(1).take(7).collect();
            for query in [Query::Words(user_id::words(&text).collect()), Query::Substring(part)] {
                let found = store.select(&query, usize::MAX).unwrap().rows;
                let ids: Vec<_> = found.iter().map(|row| row.id).collect();
                assert!(ids.is_sorted_by(|a, b| a < b), "{ids:?}");
                let has = |row: &crate::Row| row.summary.fingerprint() == cert.fingerprint();
                assert!(found.iter().any(has), "{query:?}");
            }
        }
    }

    /// A certificate with many user IDs that nobody has signed.
    fn with_many_names(cert: &Cert) -> Cert {
        let mut raw = cert.as_bytes().to_vec();
        for number in 0..500 {
            let text = format!("Name {number:03} <name{number:03}@many.example>");
            raw.extend_from_slice(&[0xcd, u8::try_from(text.len()).unwrap()]);
            raw.extend_from_slice(text.as_bytes());
        }
        Cert::parse(&raw).unwrap()
    }

    #[test]
    fn a_large_certificate_does_not_wait_to_be_compared_by_each_search() {
        let made = talaria_corpus::Generate { count: 6, ..talaria_corpus::Generate::default() };
        let certs = talaria_corpus::certs(&made);
        let mut store = Store::in_memory(Path::new("memory")).unwrap();
        let mut add = |cert: Cert| {
            store.ingest(vec![cert], Verification::Full, NOW.into()).unwrap();
            let connection = &store.connection;
            late_ids(connection, indexed_until(connection).unwrap()).unwrap().len()
        };
        assert_eq!((add(certs[0].clone()), add(certs[1].clone())), (1, 2));
        assert_eq!(add(with_many_names(&certs[2])), 0);
        assert_eq!((add(certs[3].clone()), add(certs[4].clone())), (1, 2));
        // One that grows while it waits.
        assert_eq!(add(with_many_names(&certs[4])), 0);
        let many = Query::Words(vec!["name499".into()]);
        assert_eq!(store.select(&many, 9).unwrap().rows.len(), 2);
        assert!(store.check(Depth::Signatures, |_| ()).unwrap().is_clean());
    }

    #[test]
    fn a_text_that_grows_when_it_is_folded_is_found_and_not_kept() {
        let made = talaria_corpus::Generate { count: 2, ..talaria_corpus::Generate::default() };
        let certs = talaria_corpus::certs(&made);
        let mut store = Store::in_memory(Path::new("memory")).unwrap();
        // One character of three bytes, and eighteen characters when it is folded.
        let name = format!("Grown {}", "\u{fdfa} ".repeat(400));
        let mut raw = certs[0].as_bytes().to_vec();
        let length = u16::try_from(name.len() - 192).unwrap() + 0xc000;
        raw.push(0xcd);
        raw.extend(length.to_be_bytes());
        raw.extend_from_slice(name.as_bytes());
        let cert = Cert::parse(&raw).unwrap();
        let all = vec![cert.clone(), certs[1].clone()];
        store.ingest(all, Verification::Full, NOW.into()).unwrap();
        let until = indexed_until(&store.connection).unwrap();
        assert_eq!(late_ids(&store.connection, until).unwrap(), [1, 2]);
        for query in [Query::Words(vec!["grown".into()]), Query::Substring("grow".into())] {
            let found = store.select(&query, 9).unwrap().rows;
            let found: Vec<_> = found.iter().map(|row| row.summary.fingerprint()).collect();
            assert_eq!(found, [cert.fingerprint()]);
        }
        let texts = store.late_texts.borrow();
        let kept: Vec<bool> = texts.0.iter().map(|late| late.text.is_some()).collect();
        assert_eq!(kept, [false, true]);
    }

    #[test]
    fn certificates_are_found_before_and_after_their_texts_are_in_the_indexes() {
        let made = talaria_corpus::Generate { count: 150, ..talaria_corpus::Generate::default() };
        let certs: Vec<Cert> =
            talaria_corpus::certs(&made).into_iter().filter(|c| c.user_ids().count() > 0).collect();
        let mut store = Store::in_memory(Path::new("memory")).unwrap();
        let mut most = 0;
        for (at, cert) in certs.iter().enumerate() {
            store.ingest(vec![cert.clone()], Verification::Full, NOW.into()).unwrap();
            let until = indexed_until(&store.connection).unwrap();
            let behind = i64::try_from(at).unwrap() + 1 - until;
            assert!((0..LATE_MAX).contains(&behind), "{behind}");
            most = most.max(behind);
            assert!(postings(&store, TextIndex::Words).iter().all(|(_, id)| *id <= until));
            if at % 40 == 39 {
                all_are_found(&store, &certs[..=at]);
            }
        }
        assert_eq!(most, LATE_MAX - 1);
        // Some of each kind are deleted.
        let gone: Vec<_> = certs.iter().step_by(7).map(Cert::fingerprint).collect();
        store.delete(&gone, Return::Allowed, NOW.into()).unwrap();
        let rest: Vec<Cert> =
            certs.iter().filter(|cert| !gone.contains(&cert.fingerprint())).cloned().collect();
        all_are_found(&store, &rest);
        assert!(store.check(Depth::Signatures, |_| ()).unwrap().is_clean());
        let before = store.operator_mut().tidy().unwrap();
        assert!(before);
        all_are_found(&store, &rest);
        assert!(
            late_ids(&store.connection, indexed_until(&store.connection).unwrap())
                .unwrap()
                .is_empty()
        );
        assert!(store.check(Depth::Signatures, |_| ()).unwrap().is_clean());
        // A store that got all at once has the same indexes.
        let mut whole = Store::in_memory(Path::new("memory")).unwrap();
        whole.ingest(certs.clone(), Verification::Full, NOW.into()).unwrap();
        whole.delete(&gone, Return::Allowed, NOW.into()).unwrap();
        for index in TextIndex::ALL {
            assert_eq!(postings(&store, index), postings(&whole, index));
        }
    }
}
