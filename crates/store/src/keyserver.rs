//! The data of a keyserver other than certificates: gossip peers, redacted user IDs, confirmed addresses, digests
//! that peers cannot deliver, and daily counts.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::time::Duration;

use rusqlite::backup::{Backup, StepResult};
use rusqlite::{Connection, OpenFlags, OptionalExtension as _};
use talaria_cert::{
    Address, Cert, Fingerprint, PacketRef, Tag, Timestamp, Verification, View, sha256,
};

use crate::journal::set_journal_mode;
use crate::place::{beside, put_in_place, refuse_leftovers, remove_database, set_aside};
use crate::{Row, Store, StoreError, aside, sums};

/// Number of pages that a backup copies between two progress calls.
const BACKUP_PAGES: i32 = 1024;

/// Maximum number of unobtainable digests that are recorded, because peers can announce any number of them.
const UNOBTAINABLE_MAX: i64 = 1_000_000;

/// A gossip peer.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub struct Peer {
    /// Host name or address of the peer.
    pub host: String,
    /// Gossip port of the peer.
    pub port: u16,
    /// HKP port of the peer, if it differs from the port that the peer announces.
    pub http_port: Option<u16>,
    /// The view to reconcile with the peer.
    pub view: View,
}

/// Seconds for which the store remembers that links in mails have ended. No link may live longer.
pub const LINK_SECONDS_MAX: u32 = 30 * 86400;

/// The entry of `meta` that has the generation of the links for an address of a certificate.
fn link_entry(fingerprint: &[u8], email: &str) -> String {
    let digest = sha256(&[b"link", fingerprint, &[0], email.as_bytes()]);
    let digits: String = digest[..16].iter().map(|byte| format!("{byte:02x}")).collect();
    format!("link:{digits}")
}

/// Ends the links that were sent to an address about a certificate. An entry is the generation, times 2^32, plus the time
/// of its begin.
fn end_links(
    connection: &Connection,
    fingerprint: &[u8],
    email: &str,
    now: u32,
) -> rusqlite::Result<()> {
    connection
        .prepare_cached(
            "DELETE FROM meta WHERE name >= 'link:' AND name < 'link;' \
             AND (value & 4294967295) < ?1",
        )?
        .execute([now.saturating_sub(LINK_SECONDS_MAX)])?;
    let entry = link_entry(fingerprint, email);
    let generation = link_generation(connection, &entry)?.wrapping_add(1) & 0x7fff_ffff;
    connection
        .prepare_cached("INSERT OR REPLACE INTO meta VALUES (?1, ?2)")?
        .execute((entry, i64::from(generation) << 32 | i64::from(now)))
        .map(drop)
}

fn link_generation(connection: &Connection, entry: &str) -> rusqlite::Result<u32> {
    let value: Option<i64> = connection
        .prepare_cached("SELECT value FROM meta WHERE name = ?1")?
        .query_row([entry], |row| row.get(0))
        .optional()?;
    Ok(value.map_or(0, |value| u32::try_from(value >> 32).unwrap_or(0)))
}

/// The user IDs of a certificate that are removed and no longer accepted.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Redaction {
    /// All user IDs and attributes.
    All,
    /// The user ID or attribute whose body has this SHA-256 digest.
    One([u8; 32]),
}

impl Redaction {
    /// The redaction of one user ID, given as the body of its packet.
    #[must_use]
    pub fn of(user_id: &[u8]) -> Self {
        Self::One(talaria_cert::user_id::digest(user_id))
    }

    /// The digest of the one user ID, as hexadecimal digits. `None` for all user IDs.
    #[must_use]
    pub fn digest_text(&self) -> Option<String> {
        match self {
            Self::All => None,
            Self::One(digest) => Some(digest.iter().map(|byte| format!("{byte:02x}")).collect()),
        }
    }

    fn stored(&self) -> &[u8] {
        match self {
            Self::All => &[],
            Self::One(digest) => digest,
        }
    }
}

/// The key of a record of an unobtainable digest: it belongs to the peer that did not deliver.
fn of_peer(peer: &str, digest: [u8; 16]) -> [u8; 16] {
    *sha256(&[b"unobtainable", peer.as_bytes(), &[0], &digest]).first_chunk().expect("32 octets")
}

/// The redacted user IDs of one certificate.
pub(crate) struct Redacted(Vec<Vec<u8>>);

/// Reads the redactions of `cert`.
pub(crate) fn redaction(connection: &Connection, cert: &Cert) -> rusqlite::Result<Redacted> {
    let digests = connection
        .prepare_cached("SELECT user_id FROM redaction WHERE fingerprint = ?1")?
        .query_map([cert.fingerprint().to_stored()], |row| row.get(0))?
        .collect::<rusqlite::Result<_>>()?;
    Ok(Redacted(digests))
}

impl Redacted {
    /// Whether a packet is redacted.
    fn names(&self, packet: PacketRef<'_>) -> bool {
        if self.0.is_empty() || !matches!(packet.tag, Tag::USER_ID | Tag::USER_ATTRIBUTE) {
            return false;
        }
        let digest = talaria_cert::user_id::digest(packet.body);
        self.0.iter().any(|gone| gone.is_empty() || **gone == digest)
    }

    /// Whether a certificate has a redacted packet.
    pub(crate) fn touches(&self, cert: &Cert) -> bool {
        !self.0.is_empty() && cert.packets().any(|packet| self.names(packet))
    }
}

/// A digest that peers announced but did not deliver.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Unobtainable {
    /// Number of attempts.
    pub tries: u32,
    /// Time of the last attempt.
    pub time: Timestamp,
}

/// Converts confirmed addresses to the form in which format 4 compares them. If two become equal, the one
/// confirmed last stays. Rows that are no longer an address are removed. Rows that fail their checksum stay
/// unchanged.
pub(crate) fn rename_published(connection: &Connection) -> rusqlite::Result<()> {
    let mut confirmed: BTreeMap<String, Vec<(u32, Vec<u8>, String)>> = BTreeMap::new();
    let mut delete =
        connection.prepare("DELETE FROM published WHERE fingerprint = ?1 AND email = ?2")?;
    let mut statement =
        connection.prepare("SELECT fingerprint, email, time, sum FROM published")?;
    let rows: Vec<(Vec<u8>, String, u32, i64)> = statement
        .query_map([], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?)))?
        .collect::<rusqlite::Result<_>>()?;
    for (fingerprint, email, time, sum) in rows {
        if sums::of_published(&fingerprint, &email, time) != sum {
            continue;
        }
        match Address::of_mailbox(email.as_bytes()) {
            Some(address) => {
                let entry = (time, fingerprint, email);
                confirmed.entry(address.to_string()).or_default().push(entry);
            }
            None => drop(delete.execute((fingerprint, email))?),
        }
    }
    let mut insert = connection.prepare("INSERT INTO published VALUES (?1, ?2, ?3, ?4)")?;
    for (address, entries) in confirmed {
        if entries.iter().all(|(.., email)| *email == address) {
            continue;
        }
        for (_, fingerprint, email) in &entries {
            delete.execute((fingerprint, email))?;
        }
        if let Some((time, fingerprint, _)) = entries.into_iter().max() {
            let sum = sums::of_published(&fingerprint, &address, time);
            insert.execute((fingerprint, address, time, sum))?;
        }
    }
    Ok(())
}

impl Store {
    /// The gossip peers, by name.
    ///
    /// # Errors
    ///
    /// [`StoreError::Damaged`] or [`StoreError::Engine`].
    pub fn peers(&self) -> Result<Vec<Peer>, StoreError> {
        self.run(|connection| {
            connection
                .prepare_cached("SELECT host, port, http_port, view FROM peer ORDER BY host, port")?
                .query_map([], |row| {
                    let http_port: u16 = row.get(2)?;
                    Ok(Peer {
                        host: row.get(0)?,
                        port: row.get(1)?,
                        http_port: (http_port > 0).then_some(http_port),
                        view: View::from_number(row.get(3)?).unwrap_or(View::Sks),
                    })
                })?
                .collect()
        })
    }

    /// Adds a gossip peer, or updates its data.
    ///
    /// # Errors
    ///
    /// [`StoreError::ReadOnly`] or any error of a write.
    pub fn add_peer(&mut self, peer: &Peer) -> Result<(), StoreError> {
        self.transaction(|connection, _| {
            let (http_port, view) = (peer.http_port.unwrap_or(0), peer.view.number());
            let sum = sums::of_peer(&peer.host, peer.port, http_port, view);
            connection
                .execute(
                    "INSERT OR REPLACE INTO peer VALUES (?1, ?2, ?3, ?4, ?5)",
                    (&peer.host, peer.port, http_port, view, sum),
                )
                .map(drop)
        })
    }

    /// Removes a gossip peer. Returns whether there was one.
    ///
    /// # Errors
    ///
    /// [`StoreError::ReadOnly`] or any error of a write.
    pub fn remove_peer(&mut self, host: &str, port: u16) -> Result<bool, StoreError> {
        self.transaction(|connection, _| {
            connection
                .execute("DELETE FROM peer WHERE host = ?1 AND port = ?2", (host, port))
                .map(|rows| rows > 0)
        })
    }

    /// Removes user IDs of a certificate permanently, all or none: later copies lose them, too, and confirmed addresses are
    /// removed with them. The key, its revocations and its subkeys stay. Returns whether the certificate was in
    /// the store. The octets of the user IDs are overwritten gradually, or at once by [`Self::compact`].
    ///
    /// # Errors
    ///
    /// [`StoreError::ReadOnly`] or any error of a write; the store stays unchanged.
    pub fn redact(
        &mut self,
        fingerprint: Fingerprint,
        redactions: &[Redaction],
        now: Timestamp,
    ) -> Result<bool, StoreError> {
        let now = now.seconds();
        self.atomically(|store| {
            let stored = fingerprint.to_stored();
            store.transaction(|connection, _| {
                for redaction in redactions {
                    let user_id = redaction.stored();
                    let sum = sums::of(&[&stored, user_id]);
                    connection
                        .prepare_cached("INSERT OR REPLACE INTO redaction VALUES (?1, ?2, ?3)")?
                        .execute((&stored, user_id, sum))?;
                }
                aside::forget(connection, fingerprint)
            })?;
            let here = store.get(fingerprint)?;
            let is_here = here.is_some();
            let mut emails: Vec<Address> = Vec::new();
            if let Some(here) = here {
                // Ingesting the certificate again removes the redacted user IDs from the stored copy.
                let redacted = store.redacted(&here.cert)?;
                emails.extend(redacted.user_ids().filter_map(Address::of_user_id));
                store.ingest(vec![redacted], Verification::Full, now.into())?;
            }
            for email in store.published(fingerprint)? {
                if !emails.contains(&email) {
                    store.unpublish(fingerprint, &email, now.into())?;
                }
            }
            Ok(is_here)
        })
    }

    /// Allows redacted user IDs to come back. Returns the number of redactions.
    ///
    /// # Errors
    ///
    /// [`StoreError::ReadOnly`] or any error of a write.
    pub fn unredact(&mut self, fingerprint: Fingerprint) -> Result<u64, StoreError> {
        self.transaction(|connection, _| {
            connection
                .execute("DELETE FROM redaction WHERE fingerprint = ?1", [fingerprint.to_stored()])
                .map(|rows| rows as u64)
        })
    }

    /// All redactions, by fingerprint.
    ///
    /// # Errors
    ///
    /// [`StoreError::Damaged`] or [`StoreError::Engine`].
    pub fn redactions(&self) -> Result<Vec<(Fingerprint, Redaction)>, StoreError> {
        let rows: Vec<(Vec<u8>, Vec<u8>)> = self.run(|connection| {
            connection
                .prepare_cached(
                    "SELECT fingerprint, user_id FROM redaction ORDER BY fingerprint, user_id",
                )?
                .query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?
                .collect()
        })?;
        let damaged = || self.damaged("a row of table redaction");
        rows.into_iter()
            .map(|(stored, user_id)| {
                let (fingerprint, _) = Fingerprint::from_stored(&stored).ok_or_else(damaged)?;
                let redaction = match user_id.as_slice() {
                    [] => Redaction::All,
                    digest => Redaction::One(digest.try_into().map_err(|_| damaged())?),
                };
                Ok((fingerprint, redaction))
            })
            .collect()
    }

    /// Whether user IDs of a certificate are redacted.
    ///
    /// # Errors
    ///
    /// [`StoreError::Damaged`] or [`StoreError::Engine`].
    pub fn is_redacted(&self, fingerprint: Fingerprint) -> Result<bool, StoreError> {
        self.run(|connection| {
            connection
                .prepare_cached("SELECT count(*) FROM redaction WHERE fingerprint = ?1")?
                .query_row([fingerprint.to_stored()], |row| row.get::<_, i64>(0).map(|n| n > 0))
        })
    }

    pub(crate) fn has_redactions(&self) -> Result<bool, StoreError> {
        self.run(|connection| {
            connection
                .prepare_cached("SELECT EXISTS (SELECT 1 FROM redaction)")?
                .query_row([], |row| row.get(0))
        })
    }

    /// `cert` without its redacted user IDs.
    pub(crate) fn redacted(&self, cert: &Cert) -> Result<Cert, StoreError> {
        let gone = self.run(|connection| redaction(connection, cert))?;
        Ok(cert.retain(|_, packet| !gone.names(packet)))
    }

    /// The generation of the links that are sent to an address about a certificate. [`Self::publish`] and
    /// [`Self::unpublish`] begin a new one.
    ///
    /// # Errors
    ///
    /// [`StoreError::Damaged`] or [`StoreError::Engine`].
    pub fn link_generation(
        &self,
        fingerprint: Fingerprint,
        email: &Address,
    ) -> Result<u32, StoreError> {
        let entry = link_entry(&fingerprint.to_stored(), &email.to_string());
        self.run(|connection| link_generation(connection, &entry))
    }

    /// Records that the owner of a certificate confirmed an e-mail address. Links that were sent to it end.
    ///
    /// # Errors
    ///
    /// [`StoreError::ReadOnly`] or any error of a write.
    pub fn publish(
        &mut self,
        fingerprint: Fingerprint,
        email: &Address,
        now: Timestamp,
    ) -> Result<(), StoreError> {
        let now = now.seconds();
        let (stored, email) = (fingerprint.to_stored(), email.to_string());
        let sum = sums::of_published(&stored, &email, now);
        self.transaction(|connection, _| {
            end_links(connection, &stored, &email, now)?;
            // An address leads to only one certificate, the one confirmed last.
            connection.execute("DELETE FROM published WHERE email = ?1", [&email])?;
            connection
                .execute(
                    "INSERT OR REPLACE INTO published VALUES (?1, ?2, ?3, ?4)",
                    (stored, email, now, sum),
                )
                .map(drop)
        })
    }

    /// Removes a confirmation. Links that were sent to the address end. Returns whether there was a confirmation.
    ///
    /// # Errors
    ///
    /// [`StoreError::ReadOnly`] or any error of a write.
    pub fn unpublish(
        &mut self,
        fingerprint: Fingerprint,
        email: &Address,
        now: Timestamp,
    ) -> Result<bool, StoreError> {
        self.transaction(|connection, _| {
            let (stored, text) = (fingerprint.to_stored(), email.to_string());
            end_links(connection, &stored, &text, now.seconds())?;
            connection
                .execute(
                    "DELETE FROM published WHERE fingerprint = ?1 AND email = ?2",
                    (fingerprint.to_stored(), email.to_string()),
                )
                .map(|rows| rows > 0)
        })
    }

    /// The confirmed e-mail addresses of a certificate.
    ///
    /// # Errors
    ///
    /// [`StoreError::Damaged`] or [`StoreError::Engine`].
    pub fn published(&self, fingerprint: Fingerprint) -> Result<Vec<Address>, StoreError> {
        let texts: Vec<String> = self.run(|connection| {
            connection
                .prepare_cached(
                    "SELECT email FROM published WHERE fingerprint = ?1 ORDER BY email",
                )?
                .query_map([fingerprint.to_stored()], |row| row.get(0))?
                .collect()
        })?;
        let damaged = |text| self.damaged(format!("a row of table published, of {text}"));
        texts
            .iter()
            .map(|text| Address::of_mailbox(text.as_bytes()).ok_or_else(|| damaged(text)))
            .collect()
    }

    /// The certificate whose owner confirmed an e-mail address last. `None` if it is no longer in the store.
    ///
    /// # Errors
    ///
    /// [`StoreError::Damaged`] or [`StoreError::Engine`].
    pub fn confirmed(&self, email: &Address) -> Result<Option<Row>, StoreError> {
        let stored: Option<Vec<u8>> = self.run(|connection| {
            connection
                .prepare_cached(
                    "SELECT fingerprint FROM published WHERE email = ?1 ORDER BY time DESC LIMIT 1",
                )?
                .query_row([email.to_string()], |row| row.get(0))
                .optional()
        })?;
        let Some(stored) = stored else { return Ok(None) };
        match Fingerprint::from_stored(&stored) {
            Some((fingerprint, _)) => self.row(fingerprint),
            None => Err(self.damaged("a row of table published")),
        }
    }

    /// Records digests that `peer` announced but did not deliver, or delivered as another certificate. Other peers may
    /// have them. `tries` is added to the number of attempts for each digest. Beyond a million records, the oldest are
    /// removed.
    ///
    /// # Errors
    ///
    /// [`StoreError::ReadOnly`] or any error of a write.
    pub fn mark_unobtainable(
        &mut self,
        peer: &str,
        view: View,
        digests: &[[u8; 16]],
        tries: u32,
        now: Timestamp,
    ) -> Result<(), StoreError> {
        let now = now.seconds();
        self.transaction(|connection, _| {
            let mut insert = connection.prepare_cached(
                "INSERT INTO unobtainable VALUES (?1, ?2, ?3, ?4) \
                 ON CONFLICT DO UPDATE SET tries = tries + ?3, time = ?4",
            )?;
            let view = view.number();
            digests
                .iter()
                .map(|&digest| of_peer(peer, digest))
                .try_for_each(|digest| insert.execute((view, digest, tries, now)).map(drop))?;
            let count: i64 =
                connection.query_row("SELECT count(*) FROM unobtainable", [], |row| row.get(0))?;
            if count > UNOBTAINABLE_MAX {
                connection.execute(
                    "DELETE FROM unobtainable WHERE (view, digest) IN \
                     (SELECT view, digest FROM unobtainable ORDER BY time LIMIT ?1)",
                    [count - UNOBTAINABLE_MAX + UNOBTAINABLE_MAX / 10],
                )?;
            }
            Ok(())
        })
    }

    /// The record of a digest that `peer` announced and did not deliver.
    ///
    /// # Errors
    ///
    /// [`StoreError::Damaged`] or [`StoreError::Engine`].
    pub fn unobtainable(
        &self,
        peer: &str,
        view: View,
        digest: [u8; 16],
    ) -> Result<Option<Unobtainable>, StoreError> {
        self.run(|connection| {
            connection
                .prepare_cached(
                    "SELECT tries, time FROM unobtainable WHERE view = ?1 AND digest = ?2",
                )?
                .query_row((view.number(), of_peer(peer, digest)), |row| {
                    let time = Timestamp::new(row.get(1)?);
                    Ok(Unobtainable { tries: row.get(0)?, time })
                })
                .optional()
        })
    }

    /// Number of unobtainable digests.
    ///
    /// # Errors
    ///
    /// [`StoreError::Damaged`] or [`StoreError::Engine`].
    pub fn unobtainable_count(&self) -> Result<u64, StoreError> {
        self.run(|connection| {
            connection
                .prepare_cached("SELECT count(*) FROM unobtainable")?
                .query_row([], |row| row.get::<_, i64>(0))
        })
        .map(i64::cast_unsigned)
    }

    /// Removes all records of unobtainable digests, so that they are requested again. Returns the number of
    /// records.
    ///
    /// # Errors
    ///
    /// [`StoreError::ReadOnly`] or any error of a write.
    pub fn forget_unobtainable(&mut self) -> Result<u64, StoreError> {
        self.transaction(|connection, _| {
            connection.execute("DELETE FROM unobtainable", []).map(|rows| rows as u64)
        })
    }

    /// Adds to the counts of a day (days since 1970).
    ///
    /// # Errors
    ///
    /// [`StoreError::ReadOnly`] or any error of a write.
    pub fn add_to_tally(&mut self, day: u32, counts: &[(String, u64)]) -> Result<(), StoreError> {
        self.transaction(|connection, _| {
            let mut insert = connection.prepare_cached(
                "INSERT INTO tally VALUES (?1, ?2, ?3) \
                 ON CONFLICT DO UPDATE SET count = count + ?3",
            )?;
            counts
                .iter()
                .try_for_each(|(name, n)| insert.execute((day, name, n.cast_signed())).map(drop))
        })
    }

    /// The counts since a day (days since 1970), by day and name.
    ///
    /// # Errors
    ///
    /// [`StoreError::Damaged`] or [`StoreError::Engine`].
    pub fn tally(&self, since: u32) -> Result<BTreeMap<(u32, String), u64>, StoreError> {
        self.run(|connection| {
            connection
                .prepare_cached("SELECT day, name, count FROM tally WHERE day >= ?1")?
                .query_map([since], |row| {
                    Ok(((row.get(0)?, row.get(1)?), row.get::<_, i64>(2)?.cast_unsigned()))
                })?
                .collect()
        })
    }

    /// A secret of the store for tokens that the server issues and accepts. It is generated randomly on first use.
    ///
    /// # Errors
    ///
    /// [`StoreError::ReadOnly`] or any error of a write.
    pub fn secret(&mut self) -> Result<Vec<u8>, StoreError> {
        self.transaction(|connection, _| {
            connection.execute(
                "INSERT OR IGNORE INTO meta VALUES ('secret', lower(hex(randomblob(32))))",
                [],
            )?;
            connection.query_row("SELECT value FROM meta WHERE name = 'secret'", [], |row| {
                row.get::<_, String>(0).map(String::into_bytes)
            })
        })
    }

    /// Copies the store to a new file while it is in use, as a snapshot of one moment. Calls `progress` with the
    /// number of copied pages and of all pages. Other processes can go on writing; their changes stay in the log
    /// beside the store until the copy is done.
    ///
    /// The copy appears at `target` when it is complete. Until then its name has `.partial` appended.
    ///
    /// # Errors
    ///
    /// [`StoreError::Io`] if `target` exists, or any error of a write.
    pub fn backup(&self, target: &Path, progress: impl FnMut(u64, u64)) -> Result<(), StoreError> {
        if target.exists() {
            let source = io::Error::new(io::ErrorKind::AlreadyExists, "it already exists");
            return Err(StoreError::Io { action: "back up to", path: target.to_owned(), source });
        }
        refuse_leftovers(target)?;
        self.copy_to(target, progress, || Ok(()))
    }

    /// Puts a copy of this store, which is a backup, at `target`. A store that is there is renamed to `aside` with its log, damaged
    /// or not, when the copy is complete.
    ///
    /// # Errors
    ///
    /// [`StoreError::Busy`] if another process uses the store at `target`; any error of a write. The store at `target`, if there
    /// was one, is there or at `aside`.
    pub fn restore(
        &self,
        target: &Path,
        aside: &Path,
        progress: impl FnMut(u64, u64),
    ) -> Result<(), StoreError> {
        if !target.exists() {
            return self.backup(target, progress);
        }
        refuse_if_used(target)?;
        self.copy_to(target, progress, || {
            refuse_if_used(target)?;
            set_aside(target, aside)
        })
    }

    /// Copies the store to `target`, whose name `free_name` makes free when the copy is complete.
    fn copy_to(
        &self,
        target: &Path,
        progress: impl FnMut(u64, u64),
        free_name: impl FnOnce() -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        let new = beside(target, ".partial");
        // Removes the files of an interrupted copy.
        let _ = remove_database(&new);
        // Without a snapshot, a page written by another process would start the copy again.
        let snapshot = self.snapshot()?;
        let copied = copy(&snapshot.connection, &new, progress);
        drop(snapshot);
        let moved = copied
            .map_err(|source| StoreError::engine(target, source))
            .and_then(|()| free_name())
            .and_then(|()| put_in_place(&new, target));
        let _ = remove_database(&new);
        moved
    }
}

/// Refuses a store that another process has open. Whether a damaged one is in use cannot be known.
fn refuse_if_used(path: &Path) -> Result<(), StoreError> {
    let flags = OpenFlags::SQLITE_OPEN_NO_MUTEX | OpenFlags::SQLITE_OPEN_READ_WRITE;
    let leave_log = || -> rusqlite::Result<String> {
        let connection = Connection::open_with_flags(path, flags)?;
        connection.busy_timeout(Duration::ZERO)?;
        // Nobody else may use the store while it gives up its log.
        set_journal_mode(&connection, "DELETE")
    };
    match leave_log() {
        Ok(mode) if mode == "wal" => Err(StoreError::Busy { path: path.to_owned() }),
        Ok(_) => Ok(()),
        Err(error) => match StoreError::engine(path, error) {
            busy @ StoreError::Busy { .. } => Err(busy),
            _ => Ok(()),
        },
    }
}

/// Copies all pages of a database into a new file.
fn copy(
    connection: &Connection,
    new: &Path,
    mut progress: impl FnMut(u64, u64),
) -> rusqlite::Result<()> {
    connection.query_row("SELECT count(*) FROM meta", [], |_| Ok(()))?;
    let mut out = Connection::open(new)?;
    // The file is synced once, when it is complete.
    out.execute_batch("PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF")?;
    {
        let backup = Backup::new(connection, &mut out)?;
        loop {
            let step = backup.step(BACKUP_PAGES)?;
            let pages = backup.progress();
            let count = |pages: i32| u64::try_from(pages).unwrap_or(0);
            progress(count(pages.pagecount - pages.remaining), count(pages.pagecount));
            match step {
                StepResult::Done => break,
                StepResult::More => {}
                // This is not expected: readers of a write-ahead log block no process and wait for none.
                _ => std::thread::sleep(Duration::from_millis(10)),
            }
        }
    }
    set_journal_mode(&out, "WAL").map(drop)
}
