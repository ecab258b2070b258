//! The data of a keyserver other than certificates: gossip peers, confirmed addresses, digests that
//! peers cannot deliver, and daily counts.

use std::borrow::Borrow;
use std::collections::BTreeMap;

use rusqlite::{Connection, OptionalExtension as _};
use talaria_cert::hex::Lower;
use talaria_cert::{Address, Fingerprint, Peer, Timestamp, View, sha256};

use crate::error::StoreError;
use crate::meta::{self, Entry};
use crate::store::{Row, Store};
use crate::{format, inventory, schema, sums};

/// Maximum number of unobtainable digests that are recorded, because peers can announce any number
/// of them: those that were recorded last. They take up to 40 MB.
pub const UNOBTAINABLE_MAX: i64 = 250_000;

/// Seconds for which the store remembers that links in mails have ended. No link may live longer.
pub const LINK_SECONDS_MAX: u32 = 30 * 86400;

/// The entry of `meta` that has the generation of the links for an address of a certificate.
fn link_entry(fingerprint: &[u8], email: &str) -> String {
    let digest = sha256(&[b"link", fingerprint, &[0], email.as_bytes()]);
    format!("link:{}", Lower(&digest[..16]))
}

/// Ends the links that were sent to an address about a certificate. An entry is the generation,
/// times 2^32, plus the time of its begin.
fn end_links(
    connection: &Connection,
    fingerprint: &[u8],
    email: &str,
    now: u32,
) -> rusqlite::Result<()> {
    meta::forget_links(connection, now.saturating_sub(LINK_SECONDS_MAX))?;
    let entry = link_entry(fingerprint, email);
    let generation = match meta::get::<i64>(connection, &entry)? {
        Entry::Good(_) | Entry::Missing => link_generation(connection, &entry)?.wrapping_add(1),
        // No link that was sent has the number of this second.
        Entry::Damaged => now,
    } & 0x7fff_ffff;
    meta::set(connection, &entry, i64::from(generation) << 32 | i64::from(now))
}

fn link_generation(connection: &Connection, entry: &str) -> rusqlite::Result<u32> {
    Ok(match meta::get::<i64>(connection, entry)? {
        Entry::Good(value) => u32::try_from(value >> 32).unwrap_or(0),
        Entry::Missing => 0,
        // No link has it, so all of them have ended.
        Entry::Damaged => u32::MAX,
    })
}

/// The entry of `meta` with the key for tokens of the server.
const SECRET: &str = "secret";

/// The columns of a [`Confirmation`].
/// The condition for a peer.
const BY_NAME: &str = "host = ?1 AND port = ?2";

pub(crate) const PUBLISHED: &str = "SELECT fingerprint, email, time, sum FROM published";

/// A row of table `published`.
#[derive(Debug)]
pub(crate) struct Confirmation {
    fingerprint: Vec<u8>,
    email: String,
    /// Whether the row is the one that was written. Otherwise the address does not count as
    /// confirmed.
    pub(crate) is_good: bool,
}

impl Confirmation {
    pub(crate) fn read(row: &rusqlite::Row<'_>) -> rusqlite::Result<Self> {
        let (fingerprint, email): (Vec<u8>, Vec<u8>) =
            (row.get(0)?, row.get_ref(1)?.as_bytes().unwrap_or_default().to_vec());
        let email = String::from_utf8_lossy(&email).into_owned();
        let time: Result<u32, _> = row.get(2);
        let is_good = match time {
            Ok(time) => sums::of_published(&fingerprint, &email, time) == row.get::<_, i64>(3)?,
            Err(_) => false,
        };
        Ok(Self { fingerprint, email, is_good })
    }

    /// The address, if it counts.
    fn address(&self) -> Option<Address> {
        if self.is_good { Address::of_mailbox(self.email.as_bytes()) } else { None }
    }

    /// The name in a finding.
    pub(crate) fn name(&self) -> String {
        format!("the confirmed address {}", self.email)
    }
}

/// A digest that a peer announced but did not deliver.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Unobtainable {
    /// Number of attempts.
    pub tries: u32,
    /// Time of the last attempt.
    pub time: Timestamp,
}

/// The record of an [`Unobtainable`] digest.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct GivenUp {
    /// [`Peer::name`] of the peer.
    pub peer: String,
    /// The view in which the peer announced the digest.
    pub view: View,
    /// The digest.
    pub digest: [u8; 16],
    /// The attempts.
    pub attempts: Unobtainable,
}

/// Converts confirmed addresses to the form in which format 4 compares them. If two become equal,
/// the one confirmed last stays. Rows that are no longer an address are removed. Rows that fail
/// their checksum stay unchanged.
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

/// The columns of a peer.
pub(crate) const PEERS: &str = "SELECT host, port, http_port, view, sum FROM peer";

/// Reads a row of table `peer`: its name for a finding, and the peer unless the row is damaged.
pub(crate) fn read_peer(row: &rusqlite::Row<'_>) -> rusqlite::Result<(String, Option<Peer>)> {
    let (host, port): (String, i64) = (row.get(0)?, row.get(1)?);
    let name = format!("the peer {host}:{port}");
    let number = |column| row.get::<_, u16>(column).ok();
    let read = || {
        let (port, http_port, view) = (number(1)?, number(2)?, row.get::<_, u8>(3).ok()?);
        let is_good = sums::of_peer(&host, port, http_port, view) == row.get::<_, i64>(4).ok()?;
        is_good.then(|| Peer {
            host: host.clone(),
            port,
            http_port: (http_port > 0).then_some(http_port),
            view: View::from_number(view).unwrap_or(View::Sks),
        })
    };
    Ok((name, read()))
}

fn forget_unobtainable(connection: &Connection, peer: &str) -> rusqlite::Result<usize> {
    connection.execute("DELETE FROM unobtainable WHERE peer = ?1", [peer])
}

/// What a keyserver keeps beside certificates.
#[derive(Debug)]
pub struct Keyserver<S>(S);

impl Store {
    /// The data of a keyserver.
    #[must_use]
    pub fn keyserver(&self) -> Keyserver<&Self> {
        Keyserver(self)
    }

    /// The data of a keyserver, for writing.
    #[must_use]
    pub fn keyserver_mut(&mut self) -> Keyserver<&mut Self> {
        Keyserver(self)
    }
}

impl<S: Borrow<Store>> Keyserver<S> {
    fn store(&self) -> &Store {
        self.0.borrow()
    }

    /// The gossip peers, by name.
    ///
    /// # Errors
    ///
    /// [`StoreError::Damaged`] or [`StoreError::Engine`].
    pub fn peers(&self) -> Result<Vec<Peer>, StoreError> {
        self.store().run(|connection| {
            let peers = connection
                .prepare_cached(&format!("{PEERS} ORDER BY host, port"))?
                .query_map([], read_peer)?
                .collect::<rusqlite::Result<Vec<_>>>()?;
            // Nobody gossips with a peer that the operator may not have named. A check reports it.
            Ok(peers.into_iter().filter_map(|(_, peer)| peer).collect())
        })
    }

    /// The generation of the links that are sent to an address about a certificate.
    /// [`Self::publish`] and [`Self::unpublish`] begin a new one.
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
        self.store().run(|connection| link_generation(connection, &entry))
    }

    /// The confirmed e-mail addresses of a certificate.
    ///
    /// # Errors
    ///
    /// [`StoreError::Damaged`] or [`StoreError::Engine`].
    pub fn published(&self, fingerprint: Fingerprint) -> Result<Vec<Address>, StoreError> {
        let confirmations = self.store().run(|connection| {
            connection
                .prepare_cached(&format!("{PUBLISHED} WHERE fingerprint = ?1 ORDER BY email"))?
                .query_map([fingerprint.to_stored()], Confirmation::read)?
                .collect::<rusqlite::Result<Vec<_>>>()
        })?;
        Ok(confirmations.iter().filter_map(Confirmation::address).collect())
    }

    /// The certificate whose owner confirmed an e-mail address last. `None` if it is no longer in
    /// the store.
    ///
    /// # Errors
    ///
    /// [`StoreError::Damaged`] or [`StoreError::Engine`].
    pub fn confirmed(&self, email: &Address) -> Result<Option<Row>, StoreError> {
        let confirmations = self.store().run(|connection| {
            connection
                .prepare_cached(&format!("{PUBLISHED} WHERE email = ?1 ORDER BY time DESC"))?
                .query_map([email.to_string()], Confirmation::read)?
                .collect::<rusqlite::Result<Vec<_>>>()
        })?;
        let last = confirmations.iter().find(|confirmation| confirmation.is_good);
        match last.and_then(|last| Fingerprint::from_stored(&last.fingerprint)) {
            Some((fingerprint, _)) => self.store().row(fingerprint),
            None => Ok(None),
        }
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
        self.store().run(|connection| {
            connection
                .prepare_cached(
                    "SELECT tries, time FROM unobtainable \
                     WHERE peer = ?1 AND view = ?2 AND digest = ?3",
                )?
                .query_row((peer, view.number(), digest), |row| {
                    let time = Timestamp::new(row.get(1)?);
                    Ok(Unobtainable { tries: row.get(0)?, time })
                })
                .optional()
        })
    }

    /// Calls `visit` with each unobtainable digest, by peer, if the certificate has not come from
    /// elsewhere since. A store of an older format has none that it can name.
    ///
    /// # Errors
    ///
    /// [`StoreError::Damaged`] or [`StoreError::Engine`], and those of `visit`.
    pub fn for_each_given_up<E: From<StoreError>>(
        &self,
        mut visit: impl FnMut(GivenUp) -> Result<(), E>,
    ) -> Result<(), E> {
        let store = self.store();
        let engine = |source| StoreError::engine(store.path(), source);
        if store.run(format::of)? < format::OWNERS_FORMAT {
            return Ok(());
        }
        let mut statement = store
            .connection
            .prepare_cached(
                "SELECT peer, view, digest, tries, time FROM unobtainable \
                 WHERE NOT EXISTS (SELECT 1 FROM digest AS here \
                     WHERE here.view = unobtainable.view AND here.digest = unobtainable.digest) \
                 ORDER BY peer, view, digest",
            )
            .map_err(engine)?;
        let mut rows = statement.query([]).map_err(engine)?;
        let read = |row: &rusqlite::Row<'_>| -> rusqlite::Result<Option<GivenUp>> {
            let Some(view) = View::from_number(row.get(1)?) else { return Ok(None) };
            let attempts = Unobtainable { tries: row.get(3)?, time: Timestamp::new(row.get(4)?) };
            Ok(Some(GivenUp { peer: row.get(0)?, view, digest: row.get(2)?, attempts }))
        };
        while let Some(row) = rows.next().map_err(engine)? {
            if let Some(given_up) = read(row).map_err(engine)? {
                visit(given_up)?;
            }
        }
        Ok(())
    }

    /// Number of unobtainable digests, without those of certificates that have come from elsewhere
    /// since.
    ///
    /// # Errors
    ///
    /// [`StoreError::Damaged`] or [`StoreError::Engine`].
    pub fn unobtainable_count(&self) -> Result<u64, StoreError> {
        self.store()
            .run(|connection| {
                connection
                    .prepare_cached(
                        "SELECT count(*) FROM unobtainable \
                         WHERE NOT EXISTS (SELECT 1 FROM digest AS here \
                             WHERE here.view = unobtainable.view \
                             AND here.digest = unobtainable.digest)",
                    )?
                    .query_row([], |row| row.get::<_, i64>(0))
            })
            .map(i64::cast_unsigned)
    }

    /// The counts since a day (days since 1970), by day and name.
    ///
    /// # Errors
    ///
    /// [`StoreError::Damaged`] or [`StoreError::Engine`].
    pub fn tally(&self, since: u32) -> Result<BTreeMap<(u32, String), u64>, StoreError> {
        self.store().run(|connection| {
            connection
                .prepare_cached("SELECT day, name, count FROM tally WHERE day >= ?1")?
                .query_map([since], |row| {
                    Ok(((row.get(0)?, row.get(1)?), row.get::<_, i64>(2)?.cast_unsigned()))
                })?
                .collect()
        })
    }
}

impl Keyserver<&mut Store> {
    /// Adds a gossip peer, or updates its data.
    ///
    /// # Errors
    ///
    /// [`StoreError::ReadOnly`] or any error of a write.
    pub fn add_peer(&mut self, peer: &Peer) -> Result<(), StoreError> {
        self.0.transaction(|connection, _| {
            let (http_port, view) = (peer.http_port.unwrap_or(0), peer.view.number());
            let sum = sums::of_peer(&peer.host, peer.port, http_port, view);
            inventory::remove(connection, "peer", BY_NAME, (&peer.host, peer.port))?;
            let row = (&peer.host, peer.port, http_port, view, sum);
            inventory::add(connection, "peer", 5, row)
        })
    }

    /// Removes a gossip peer, and the records of what it did not deliver. Returns whether there was
    /// one.
    ///
    /// # Errors
    ///
    /// [`StoreError::ReadOnly`] or any error of a write.
    pub fn remove_peer(&mut self, host: &str, port: u16) -> Result<bool, StoreError> {
        self.0.transaction(|connection, _| {
            forget_unobtainable(connection, &Peer::name(host, port))?;
            Ok(inventory::remove(connection, "peer", BY_NAME, (host, port))? > 0)
        })
    }

    /// Records that the owner of a certificate confirmed an e-mail address. Links that were sent to
    /// it end.
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
        self.0.transaction(|connection, _| {
            end_links(connection, &stored, &email, now)?;
            // An address leads to only one certificate, the one confirmed last.
            inventory::remove(connection, "published", "email = ?1", [&email])?;
            inventory::add(connection, "published", 4, (stored, email, now, sum))
        })
    }

    /// Removes a confirmation. Links that were sent to the address end. Returns whether there was a
    /// confirmation.
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
        self.0.transaction(|connection, _| {
            let (stored, text) = (fingerprint.to_stored(), email.to_string());
            end_links(connection, &stored, &text, now.seconds())?;
            let condition = "fingerprint = ?1 AND email = ?2";
            Ok(inventory::remove(connection, "published", condition, (stored, text))? > 0)
        })
    }

    /// Records digests that `peer`, a [`Peer::name`], announced but did not deliver, or delivered
    /// as another certificate. Other peers may have them. `tries` is added to the number of
    /// attempts for each digest. The last 250,000 records are kept.
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
        let (view, now) = (view.number(), now.seconds());
        self.0.transaction(|connection, _| {
            // Each record gets the next number, so that those with low numbers are old and the
            // numbers bound their count.
            let mut insert = connection.prepare_cached(
                "INSERT INTO unobtainable (peer, view, digest, tries, time) \
                 VALUES (?1, ?2, ?3, ?4, ?5) ON CONFLICT (peer, view, digest) DO UPDATE SET \
                 number = (SELECT max(number) + 1 FROM unobtainable), tries = tries + ?4, time = ?5",
            )?;
            for digest in digests {
                insert.execute((peer, view, digest, tries, now))?;
            }
            connection
                .prepare_cached(
                    "DELETE FROM unobtainable \
                     WHERE number <= (SELECT max(number) FROM unobtainable) - ?1",
                )?
                .execute([UNOBTAINABLE_MAX])
                .map(drop)
        })
    }

    /// Removes the records of the digests that `peer`, a [`Peer::name`], did not deliver, so that
    /// it is asked for them again. Returns the number of records.
    ///
    /// # Errors
    ///
    /// [`StoreError::ReadOnly`] or any error of a write.
    pub fn forget_unobtainable(&mut self, peer: &str) -> Result<usize, StoreError> {
        self.0.transaction(|connection, _| forget_unobtainable(connection, peer))
    }

    /// Adds to the counts of a day (days since 1970).
    ///
    /// # Errors
    ///
    /// [`StoreError::ReadOnly`] or any error of a write.
    pub fn add_to_tally(&mut self, day: u32, counts: &[(String, u64)]) -> Result<(), StoreError> {
        self.0.transaction(|connection, _| {
            let mut insert = connection.prepare_cached(
                "INSERT INTO tally VALUES (?1, ?2, ?3) \
                 ON CONFLICT DO UPDATE SET count = count + ?3",
            )?;
            counts
                .iter()
                .try_for_each(|(name, n)| insert.execute((day, name, n.cast_signed())).map(drop))
        })
    }

    /// A secret of the store for tokens that the server issues and accepts. It is generated
    /// randomly on first use.
    ///
    /// # Errors
    ///
    /// [`StoreError::ReadOnly`] or any error of a write.
    pub fn secret(&mut self) -> Result<Vec<u8>, StoreError> {
        self.0.transaction(|connection, _| {
            if let Entry::Good(secret) = meta::get::<String>(connection, SECRET)? {
                return Ok(secret.into_bytes());
            }
            // Without a good one, all tokens end.
            let secret = schema::random_digits(connection, 32)?;
            meta::set(connection, SECRET, secret.clone())?;
            Ok(secret.into_bytes())
        })
    }
}
