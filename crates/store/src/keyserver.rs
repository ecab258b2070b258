//! What a keyserver keeps beside certificates: peers, user IDs that are not shown any more, addresses
//! that were confirmed, what peers have and cannot give, and counts by day.

use std::collections::BTreeMap;

use rusqlite::{Connection, OptionalExtension as _};
use talaria_cert::{Cert, Fingerprint, Tag, View};

use crate::{Store, StoreError, sums};

/// A gossip peer.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub struct Peer {
    /// Its name or address.
    pub host: String,
    /// The port of its gossip.
    pub port: u16,
    /// The port of its HKP, if it is another than what it says itself.
    pub http_port: Option<u16>,
    /// The data set to reconcile with it.
    pub view: View,
}

/// What is not kept of a certificate any more.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Redaction {
    /// All user IDs and attributes.
    All,
    /// The user ID or attribute whose body has this SHA-256 digest.
    One([u8; 32]),
}

impl Redaction {
    /// Names a user ID, given as the body of its packet.
    #[must_use]
    pub fn of(user_id: &[u8]) -> Self {
        Self::One(talaria_cert::user_id::digest(user_id))
    }

    fn stored(&self) -> &[u8] {
        match self {
            Self::All => &[],
            Self::One(digest) => digest,
        }
    }
}

/// A digest that peers announced and that could not be had.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Unobtainable {
    /// How often it was tried.
    pub tries: u32,
    /// When it was tried last, in seconds since 1970.
    pub time: u32,
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

    /// Adds a gossip peer, or changes what is known of it.
    ///
    /// # Errors
    ///
    /// [`StoreError::ReadOnly`] and what a write can meet.
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

    /// Takes a gossip peer out. Returns whether it was there.
    ///
    /// # Errors
    ///
    /// [`StoreError::ReadOnly`] and what a write can meet.
    pub fn remove_peer(&mut self, host: &str, port: u16) -> Result<bool, StoreError> {
        self.transaction(|connection, _| {
            connection
                .execute("DELETE FROM peer WHERE host = ?1 AND port = ?2", (host, port))
                .map(|rows| rows > 0)
        })
    }

    /// Takes user IDs of a certificate out, for good: they are left out of whatever comes later, too.
    /// The key, its revocations and its subkeys stay. Returns whether the certificate was there.
    ///
    /// # Errors
    ///
    /// [`StoreError::ReadOnly`] and what a write can meet.
    pub fn redact(
        &mut self,
        fingerprint: Fingerprint,
        redaction: &Redaction,
        now: u32,
    ) -> Result<bool, StoreError> {
        let stored = fingerprint.to_stored();
        let user_id = redaction.stored();
        let sum = sums::of(&[&stored, user_id]);
        self.transaction(|connection, _| {
            connection
                .execute(
                    "INSERT OR REPLACE INTO redaction VALUES (?1, ?2, ?3)",
                    (&stored, user_id, sum),
                )
                .map(drop)
        })?;
        let Some(here) = self.get(fingerprint)? else { return Ok(false) };
        let redacted = self.redacted(&here.cert)?;
        if redacted != here.cert {
            self.replace(redacted, now)?;
        }
        Ok(true)
    }

    /// Lets user IDs come back. Returns how many redactions there were.
    ///
    /// # Errors
    ///
    /// [`StoreError::ReadOnly`] and what a write can meet.
    pub fn unredact(&mut self, fingerprint: Fingerprint) -> Result<u64, StoreError> {
        self.transaction(|connection, _| {
            connection
                .execute("DELETE FROM redaction WHERE fingerprint = ?1", [fingerprint.to_stored()])
                .map(|rows| rows as u64)
        })
    }

    /// Whether user IDs of a certificate were taken out.
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

    /// `cert` without what is not to be kept of it.
    pub(crate) fn redacted(&self, cert: &Cert) -> Result<Cert, StoreError> {
        let gone: Vec<Vec<u8>> = self.run(|connection| {
            connection
                .prepare_cached("SELECT user_id FROM redaction WHERE fingerprint = ?1")?
                .query_map([cert.fingerprint().to_stored()], |row| row.get(0))?
                .collect()
        })?;
        if gone.is_empty() {
            return Ok(cert.clone());
        }
        Ok(cert.retain(|_, packet| {
            let names = matches!(packet.tag, Tag::USER_ID | Tag::USER_ATTRIBUTE);
            let digest = talaria_cert::user_id::digest(packet.body);
            !names || !gone.iter().any(|gone| gone.is_empty() || **gone == digest)
        }))
    }

    /// Records that the owner of a certificate confirmed an e-mail address.
    ///
    /// # Errors
    ///
    /// [`StoreError::ReadOnly`] and what a write can meet.
    pub fn publish(
        &mut self,
        fingerprint: Fingerprint,
        email: &str,
        now: u32,
    ) -> Result<(), StoreError> {
        let stored = fingerprint.to_stored();
        let sum = sums::of_published(&stored, email, now);
        self.transaction(|connection, _| {
            // An address leads to one certificate: the one confirmed last.
            connection.execute("DELETE FROM published WHERE email = ?1", [email])?;
            connection
                .execute(
                    "INSERT OR REPLACE INTO published VALUES (?1, ?2, ?3, ?4)",
                    (stored, email, now, sum),
                )
                .map(drop)
        })
    }

    /// Takes a confirmation back. Returns whether there was one.
    ///
    /// # Errors
    ///
    /// [`StoreError::ReadOnly`] and what a write can meet.
    pub fn unpublish(&mut self, fingerprint: Fingerprint, email: &str) -> Result<bool, StoreError> {
        self.transaction(|connection, _| {
            connection
                .execute(
                    "DELETE FROM published WHERE fingerprint = ?1 AND email = ?2",
                    (fingerprint.to_stored(), email),
                )
                .map(|rows| rows > 0)
        })
    }

    /// The e-mail addresses of a certificate that its owner confirmed.
    ///
    /// # Errors
    ///
    /// [`StoreError::Damaged`] or [`StoreError::Engine`].
    pub fn published(&self, fingerprint: Fingerprint) -> Result<Vec<String>, StoreError> {
        self.run(|connection| {
            connection
                .prepare_cached(
                    "SELECT email FROM published WHERE fingerprint = ?1 ORDER BY email",
                )?
                .query_map([fingerprint.to_stored()], |row| row.get(0))?
                .collect()
        })
    }

    /// Remembers digests that a peer has and could not give, or gave as something else.
    ///
    /// # Errors
    ///
    /// [`StoreError::ReadOnly`] and what a write can meet.
    pub fn mark_unobtainable(
        &mut self,
        view: View,
        digests: &[[u8; 16]],
        now: u32,
    ) -> Result<(), StoreError> {
        self.transaction(|connection, _| {
            let mut insert = connection.prepare_cached(
                "INSERT INTO unobtainable VALUES (?1, ?2, 1, ?3) \
                 ON CONFLICT DO UPDATE SET tries = tries + 1, time = ?3",
            )?;
            digests.iter().try_for_each(|d| insert.execute((view.number(), d, now)).map(drop))
        })
    }

    /// What is remembered of a digest that could not be had.
    ///
    /// # Errors
    ///
    /// [`StoreError::Damaged`] or [`StoreError::Engine`].
    pub fn unobtainable(
        &self,
        view: View,
        digest: [u8; 16],
    ) -> Result<Option<Unobtainable>, StoreError> {
        self.run(|connection| {
            connection
                .prepare_cached(
                    "SELECT tries, time FROM unobtainable WHERE view = ?1 AND digest = ?2",
                )?
                .query_row((view.number(), digest), |row| {
                    Ok(Unobtainable { tries: row.get(0)?, time: row.get(1)? })
                })
                .optional()
        })
    }

    /// Forgets what could not be had, so that it is asked for again. Returns how much it was.
    ///
    /// # Errors
    ///
    /// [`StoreError::ReadOnly`] and what a write can meet.
    pub fn forget_unobtainable(&mut self) -> Result<u64, StoreError> {
        self.transaction(|connection, _| {
            connection.execute("DELETE FROM unobtainable", []).map(|rows| rows as u64)
        })
    }

    /// Adds to counts of a day (days since 1970).
    ///
    /// # Errors
    ///
    /// [`StoreError::ReadOnly`] and what a write can meet.
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

    /// How many certificates were new, updated and deleted on each day (days since 1970) from
    /// `since` on, as far back as the change log reaches.
    ///
    /// # Errors
    ///
    /// [`StoreError::Damaged`] or [`StoreError::Engine`].
    pub fn changes_by_day(&self, since: u32) -> Result<Vec<(u32, [u64; 3])>, StoreError> {
        self.run(|connection| {
            connection
                .prepare_cached(
                    "SELECT time / 86400, sum(kind = 1), sum(kind = 2), sum(kind = 3) \
                     FROM change WHERE time >= ?1 * 86400 GROUP BY 1 ORDER BY 1",
                )?
                .query_map([since], |row| {
                    let count = |at| row.get::<_, i64>(at).map(i64::cast_unsigned);
                    Ok((row.get(0)?, [count(1)?, count(2)?, count(3)?]))
                })?
                .collect()
        })
    }

    /// A secret that belongs to the store, drawn at random when it is first asked for: for tokens that
    /// the server hands out and takes back.
    ///
    /// # Errors
    ///
    /// [`StoreError::ReadOnly`] and what a write can meet.
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

    /// Calls `each` with every change behind number `after`, in order: number, time, certificate and
    /// kind (1 new, 2 updated, 3 deleted).
    ///
    /// # Errors
    ///
    /// [`StoreError::Damaged`] or [`StoreError::Engine`].
    pub fn for_each_change(
        &self,
        after: i64,
        mut each: impl FnMut(i64, u32, i64, u8),
    ) -> Result<(), StoreError> {
        self.run(|connection| {
            let mut statement = connection.prepare_cached(
                "SELECT number, time, cert, kind FROM change WHERE number > ?1 ORDER BY number",
            )?;
            let mut rows = statement.query([after])?;
            while let Some(row) = rows.next()? {
                each(row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?);
            }
            Ok(())
        })
    }

    /// Copies the store to a new file while it is in use, as of one moment, and calls `progress` with
    /// pages done and pages in all.
    ///
    /// # Errors
    ///
    /// [`StoreError::Io`] if `target` exists; what a write can meet.
    pub fn backup(
        &self,
        target: &std::path::Path,
        mut progress: impl FnMut(u64, u64),
    ) -> Result<(), StoreError> {
        if target.exists() {
            let source = std::io::ErrorKind::AlreadyExists.into();
            return Err(StoreError::Io { action: "back up to", path: target.to_owned(), source });
        }
        let engine = |source| StoreError::engine(target, source);
        let partial = {
            let mut name = target.as_os_str().to_owned();
            name.push(".partial");
            std::path::PathBuf::from(name)
        };
        let _ = std::fs::remove_file(&partial);
        let copied = (|| {
            let mut out = Connection::open(&partial)?;
            let backup = rusqlite::backup::Backup::new(&self.connection, &mut out)?;
            loop {
                let step = backup.step(1024)?;
                let pages = backup.progress();
                let total = u64::try_from(pages.pagecount).unwrap_or(0);
                progress(total - u64::try_from(pages.remaining).unwrap_or(0), total);
                if step == rusqlite::backup::StepResult::Done {
                    break;
                }
            }
            drop(backup);
            out.execute_batch("PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL")
        })();
        let result = copied.map_err(engine).and_then(|()| {
            let moved = || -> std::io::Result<()> {
                std::fs::File::open(&partial)?.sync_all()?;
                std::fs::rename(&partial, target)
            };
            moved().map_err(|source| StoreError::Io {
                action: "back up to",
                path: target.to_owned(),
                source,
            })
        });
        if result.is_err() {
            let _ = std::fs::remove_file(&partial);
        }
        result
    }
}
