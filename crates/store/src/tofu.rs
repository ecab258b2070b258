//! Observed bindings of addresses to certificates, and the user's decisions about them.

use std::borrow::Borrow;
use std::collections::BTreeMap;

use rusqlite::{Connection, OptionalExtension as _};
use talaria_cert::{
    Addressee, Cert, CertificationVerifier, Fingerprint, Key, KeyId, KeySetup, PacketRef,
    Signature, Tag, Verdict, kind,
};
use talaria_trust::tofu::{History, Policy, strictest};

use crate::error::StoreError;
use crate::store::Store;
use crate::{inventory, sums};

/// A binding of an address to a certificate.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Binding {
    /// The certificate, which need not be in the store.
    pub fingerprint: Fingerprint,
    /// The address in `GnuPG`'s form ([`talaria_cert::address::gnupg_name`]).
    pub email: Vec<u8>,
    /// The user ID that has the address.
    pub user_id: Vec<u8>,
    /// Time of the record, in seconds since 1970.
    pub time: i64,
    /// The user's decision.
    pub policy: Policy,
    /// The effective policy in the database from which the binding was imported; `None` if it must
    /// be computed.
    pub effective: Option<Policy>,
    /// A certificate with a known conflict, in the database from which the binding was imported.
    pub conflict: Option<Fingerprint>,
}

/// An observation of a binding.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Observation {
    /// The binding. A new binding is recorded; an existing one stays unchanged.
    pub binding: Binding,
    /// The observed event.
    pub event: Event,
}

/// An event that concerns a binding.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Event {
    /// A signature was verified. A signature counts only once, even if it is verified several
    /// times.
    Verified {
        /// The digest that was signed, in base64.
        digest: String,
        /// Origin of the signature: "unknown" if there is no information.
        origin: String,
        /// Creation time of the signature, in seconds since 1970.
        signed: i64,
        /// Time of the verification, in seconds since 1970.
        time: i64,
    },
    /// A message was encrypted at this time.
    Encrypted(i64),
    /// The binding was looked up.
    Seen,
}

/// The columns of a [`BindingRow`].
pub(crate) const BINDINGS: &str =
    "SELECT fingerprint, email, user_id, time, policy, effective, conflict, sum FROM binding";

/// A row of table `binding`, in its stored form.
#[derive(Debug)]
pub(crate) struct BindingRow {
    fingerprint: Vec<u8>,
    email: Vec<u8>,
    user_id: Vec<u8>,
    time: i64,
    policy: u8,
    effective: u8,
    conflict: Option<Vec<u8>>,
    /// Whether the row is the one that was written.
    pub(crate) is_good: bool,
}

impl BindingRow {
    pub(crate) fn read(row: &rusqlite::Row<'_>) -> rusqlite::Result<Self> {
        let number = |column| row.get::<_, u8>(column).ok();
        let (policy, effective) = (number(4), number(5));
        let mut read = Self {
            fingerprint: row.get(0)?,
            email: row.get(1)?,
            user_id: row.get(2)?,
            time: row.get(3)?,
            policy: policy.unwrap_or_default(),
            effective: effective.unwrap_or_default(),
            conflict: row.get(6)?,
            is_good: false,
        };
        let sum = Some(row.get::<_, i64>(7)?);
        read.is_good = policy.and(effective).map(|_| read.sum(read.policy)) == sum;
        Ok(read)
    }

    /// The checksum of the row with another decision.
    fn sum(&self, policy: u8) -> i64 {
        let Self { email, fingerprint, user_id, time, effective, conflict, .. } = self;
        let conflict = conflict.as_deref().unwrap_or_default();
        sums::of_binding((email, fingerprint, user_id), *time, (policy, *effective), conflict)
    }

    /// The binding. If the row is damaged, nobody knows the user's decision, and the binding counts
    /// as bad.
    fn binding(&self) -> Option<Binding> {
        let whole = |stored: &[u8]| {
            Fingerprint::from_stored(stored)
                .filter(|(_, rest)| rest.is_empty())
                .map(|(fingerprint, _)| fingerprint)
        };
        let (policy, effective) = if self.is_good {
            (Policy::from_number(self.policy)?, Policy::from_number(self.effective))
        } else {
            (Policy::Bad, None)
        };
        Some(Binding {
            fingerprint: whole(&self.fingerprint)?,
            user_id: self.user_id.clone(),
            time: self.time,
            policy,
            effective,
            conflict: self.conflict.as_deref().and_then(whole),
            email: self.email.clone(),
        })
    }

    /// The name in a finding.
    pub(crate) fn name(&self) -> String {
        format!("the TOFU binding of {}", String::from_utf8_lossy(&self.email))
    }
}

/// The bindings of a store: what was observed, and what the user has decided.
#[derive(Debug)]
pub struct Tofu<S>(S);

impl Store {
    /// Trust on first use.
    #[must_use]
    pub fn tofu(&self) -> Tofu<&Self> {
        Tofu(self)
    }

    /// Trust on first use, for writing.
    #[must_use]
    pub fn tofu_mut(&mut self) -> Tofu<&mut Self> {
        Tofu(self)
    }
}

impl<S: Borrow<Store>> Tofu<S> {
    fn store(&self) -> &Store {
        self.0.borrow()
    }

    /// The recorded bindings of an address, by fingerprint.
    ///
    /// # Errors
    ///
    /// [`StoreError::Damaged`] or [`StoreError::Engine`].
    pub fn bindings_of(&self, email: &[u8]) -> Result<Vec<Binding>, StoreError> {
        self.read_bindings(&format!("{BINDINGS} WHERE email = ?1 ORDER BY fingerprint"), [email])
    }

    /// The recorded bindings of a certificate, by address.
    ///
    /// # Errors
    ///
    /// [`StoreError::Damaged`] or [`StoreError::Engine`].
    pub fn bindings_with(&self, fingerprint: Fingerprint) -> Result<Vec<Binding>, StoreError> {
        let sql = format!("{BINDINGS} WHERE fingerprint = ?1 ORDER BY email");
        self.read_bindings(&sql, [fingerprint.to_stored()])
    }

    /// The recorded bindings that the user has decided about, by address. Damaged ones are among
    /// them, since nobody knows what the user has decided about them.
    ///
    /// # Errors
    ///
    /// [`StoreError::Damaged`] or [`StoreError::Engine`].
    pub fn decisions(&self) -> Result<Vec<Binding>, StoreError> {
        let mut bindings = self.bindings()?;
        bindings.retain(|binding| binding.policy != Policy::Auto);
        Ok(bindings)
    }

    /// All recorded bindings, by address.
    ///
    /// # Errors
    ///
    /// [`StoreError::Damaged`] or [`StoreError::Engine`].
    pub fn bindings(&self) -> Result<Vec<Binding>, StoreError> {
        self.read_bindings(&format!("{BINDINGS} ORDER BY email, fingerprint"), [])
    }

    fn read_bindings(
        &self,
        sql: &str,
        parameters: impl rusqlite::Params,
    ) -> Result<Vec<Binding>, StoreError> {
        let rows: Vec<BindingRow> = self.store().run(|connection| {
            connection.prepare_cached(sql)?.query_map(parameters, BindingRow::read)?.collect()
        })?;
        rows.iter()
            .map(|row| {
                row.binding().ok_or_else(|| {
                    let name = String::from_utf8_lossy(&row.email);
                    self.store().damaged(format!("a row of table binding, of {name}"))
                })
            })
            .collect()
    }

    /// The observed events of a binding: signatures in the order of their verification, then the
    /// times of encryptions.
    ///
    /// # Errors
    ///
    /// [`StoreError::Damaged`] or [`StoreError::Engine`].
    pub fn events(&self, fingerprint: Fingerprint, email: &[u8]) -> Result<Vec<Event>, StoreError> {
        let stored = fingerprint.to_stored();
        self.store().run(|connection| {
            let mut events: Vec<Event> = connection
                .prepare_cached(
                    "SELECT digest, origin, signed, time FROM verified \
                     WHERE email = ?1 AND fingerprint = ?2 ORDER BY time, digest, origin",
                )?
                .query_map((email, &stored), |row| {
                    Ok(Event::Verified {
                        digest: row.get(0)?,
                        origin: row.get(1)?,
                        signed: row.get(2)?,
                        time: row.get(3)?,
                    })
                })?
                .collect::<rusqlite::Result<_>>()?;
            let encrypted: Vec<(i64, u32)> = connection
                .prepare_cached(
                    "SELECT time, count FROM encrypted \
                     WHERE email = ?1 AND fingerprint = ?2 ORDER BY time",
                )?
                .query_map((email, &stored), |row| Ok((row.get(0)?, row.get(1)?)))?
                .collect::<rusqlite::Result<_>>()?;
            for (time, count) in encrypted {
                events.extend(std::iter::repeat_n(Event::Encrypted(time), count as usize));
            }
            Ok(events)
        })
    }

    /// The statistics of a binding: signatures and encryptions.
    ///
    /// # Errors
    ///
    /// [`StoreError::Damaged`] or [`StoreError::Engine`].
    pub fn history(
        &self,
        fingerprint: Fingerprint,
        email: &[u8],
    ) -> Result<(History, History), StoreError> {
        let time = |time: i64| u32::try_from(time).unwrap_or_default();
        let (mut verified, mut encrypted) = (Vec::new(), Vec::new());
        for event in self.events(fingerprint, email)? {
            match event {
                Event::Verified { time: at, .. } => verified.push(time(at)),
                Event::Encrypted(at) => encrypted.push(time(at)),
                Event::Seen => {}
            }
        }
        Ok((History::of(verified), History::of(encrypted)))
    }
}

impl Tofu<&mut Store> {
    /// Records bindings and replaces existing ones, all or none. The user's decision holds for
    /// every spelling of the address that is recorded with the certificate.
    ///
    /// # Errors
    ///
    /// [`StoreError::ReadOnly`] or any error of a write; the store stays unchanged.
    pub fn set_bindings(&mut self, bindings: &[Binding]) -> Result<(), StoreError> {
        let mut all = Vec::new();
        for binding in bindings {
            let addressee = Addressee::of_gnupg_name(&binding.email);
            let recorded = self.bindings_with(binding.fingerprint)?.into_iter();
            let others = recorded.filter(|other| {
                other.email != binding.email && Addressee::of_gnupg_name(&other.email) == addressee
            });
            all.extend(others.map(|other| Binding { policy: binding.policy, ..other }));
        }
        // The given bindings come last, since they may be among the others.
        all.extend_from_slice(bindings);
        self.0.transaction(|connection, _| {
            all.iter().try_for_each(|binding| put(connection, binding, true))
        })
    }

    /// Merges the bindings of another database, all or none. The user's decisions in this store
    /// stay, and events that both databases have count once.
    ///
    /// # Errors
    ///
    /// As [`Self::set_bindings`].
    pub fn join_bindings(&mut self, bindings: &[(Binding, Vec<Event>)]) -> Result<(), StoreError> {
        self.0.transaction(|connection, _| {
            for (binding, events) in bindings {
                let fingerprint = binding.fingerprint.to_stored();
                let ours = connection
                    .prepare_cached(&format!("{BINDINGS} WHERE email = ?1 AND fingerprint = ?2"))?
                    .query_row((&binding.email, &fingerprint), BindingRow::read)
                    .optional()?;
                // A damaged row stays for a check.
                let is_decided =
                    ours.is_some_and(|row| !row.is_good || row.policy != Policy::Auto as u8);
                put(connection, binding, !is_decided)?;
                let mut encrypted: BTreeMap<i64, u32> = BTreeMap::new();
                for event in events {
                    match event {
                        Event::Encrypted(time) => *encrypted.entry(*time).or_default() += 1,
                        event => note(connection, binding, event)?,
                    }
                }
                for (time, count) in encrypted {
                    connection
                        .prepare_cached(
                            "INSERT INTO encrypted VALUES (?1, ?2, ?3, ?4) \
                             ON CONFLICT DO UPDATE SET count = max(count, excluded.count)",
                        )?
                        .execute((&binding.email, &fingerprint, time, count))?;
                }
            }
            Ok(())
        })
    }

    /// Records observations, all or none. Existing bindings stay unchanged.
    ///
    /// # Errors
    ///
    /// As [`Self::set_bindings`].
    pub fn observe(&mut self, observations: &[Observation]) -> Result<(), StoreError> {
        self.0.transaction(|connection, _| {
            observations.iter().try_for_each(|Observation { binding, event }| {
                put(connection, binding, false)?;
                note(connection, binding, event)
            })
        })
    }
}

fn note(connection: &Connection, binding: &Binding, event: &Event) -> rusqlite::Result<()> {
    let (email, fingerprint) = (&binding.email, binding.fingerprint.to_stored());
    match event {
        Event::Verified { digest, origin, signed, time } => {
            let known = connection
                .prepare_cached(
                    "SELECT 1 FROM verified WHERE email = ?1 AND fingerprint = ?2 \
                     AND digest = ?3 AND signed = ?4",
                )?
                .exists((email, &fingerprint, digest, signed))?;
            if known {
                return Ok(());
            }
            connection
                .prepare_cached("INSERT OR IGNORE INTO verified VALUES (?1, ?2, ?3, ?4, ?5, ?6)")?
                .execute((email, fingerprint, digest, origin, signed, time))?;
        }
        Event::Encrypted(time) => {
            connection
                .prepare_cached(
                    "INSERT INTO encrypted VALUES (?1, ?2, ?3, 1) \
                     ON CONFLICT DO UPDATE SET count = count + 1",
                )?
                .execute((email, fingerprint, time))?;
        }
        Event::Seen => {}
    }
    Ok(())
}

/// Records a binding. One that is recorded already stays, or is replaced.
fn put(connection: &Connection, binding: &Binding, replaces: bool) -> rusqlite::Result<()> {
    let Binding { fingerprint, email, user_id, time, policy, effective, conflict } = binding;
    let (fingerprint, policy) = (fingerprint.to_stored(), *policy as u8);
    let effective = effective.map_or(0, |policy| policy as u8);
    let conflict = conflict.map(|conflict| conflict.to_stored());
    let sum = sums::of_binding(
        (email, &fingerprint, user_id),
        *time,
        (policy, effective),
        conflict.as_deref().unwrap_or_default(),
    );
    if replaces {
        let condition = "email = ?1 AND fingerprint = ?2";
        inventory::remove(connection, "binding", condition, (email, &fingerprint))?;
    }
    let row = (email, fingerprint, user_id, time, policy, effective, conflict, sum);
    inventory::add(connection, "binding", 8, row)
}

/// Merges the decisions about different spellings of one address, which format 4 treats as equal:
/// the strictest decision then holds for all of them. Rows that fail their checksum stay unchanged.
pub(crate) fn join_decisions(connection: &Connection) -> rusqlite::Result<()> {
    let mut rows: BTreeMap<(Vec<u8>, Addressee), Vec<BindingRow>> = BTreeMap::new();
    let mut statement = connection.prepare(BINDINGS)?;
    for row in statement.query_map([], BindingRow::read)? {
        let row = row?;
        if row.is_good {
            let addressee = Addressee::of_gnupg_name(&row.email);
            rows.entry((row.fingerprint.clone(), addressee)).or_default().push(row);
        }
    }
    let mut update = connection.prepare(
        "UPDATE binding SET policy = ?1, sum = ?2 WHERE email = ?3 AND fingerprint = ?4",
    )?;
    for names in rows.values().filter(|names| names.len() > 1) {
        let policies = names.iter().filter_map(|row| Policy::from_number(row.policy));
        let policy = strictest(policies) as u8;
        for row in names.iter().filter(|row| row.policy != policy) {
            update.execute((policy, row.sum(policy), &row.email, &row.fingerprint))?;
        }
    }
    Ok(())
}

/// A possible issuer of certifications, prepared for verification.
pub struct CertIssuer {
    cert: Cert,
    setup: KeySetup,
}

impl CertIssuer {
    /// Prepares the certificate of the issuer.
    #[must_use]
    pub fn new(cert: Cert) -> Self {
        Self { cert, setup: KeySetup::default() }
    }

    /// The key ID of the issuer's primary key.
    #[must_use]
    pub fn key_id(&self) -> KeyId {
        self.cert.fingerprint().key_id()
    }

    /// Whether the issuer made a signature on a component of `cert`.
    #[must_use]
    pub fn made(&self, cert: &Cert, component: PacketRef<'_>, signature: &[u8]) -> bool {
        let Some(Ok(key)) = self.cert.packets().next().map(Key::parse) else { return false };
        // The equal packet in `cert`, which has the lifetime of `cert`.
        let Some(component) = cert.packets().find(|packet| *packet == component) else {
            return false;
        };
        CertificationVerifier::new(cert).is_some_and(|mut certified| {
            certified.by(&key, &self.setup, component, signature) == Verdict::Good
        })
    }

    /// Whether the issuer certified the first user ID of `cert` with the identity `addressee`.
    /// Revoked certifications count too: `GnuPG` requires no more, and does not even verify the
    /// signature.
    #[must_use]
    pub fn has_certified(&self, cert: &Cert, addressee: &Addressee) -> bool {
        let Some(Ok(key)) = self.cert.packets().next().map(Key::parse) else { return false };
        let id = self.cert.fingerprint().key_id();
        let user_id = |packet: &PacketRef<'_>| {
            packet.tag == Tag::USER_ID && Addressee::of_user_id(packet.body) == *addressee
        };
        let mut packets = cert.packets().skip_while(|packet| !user_id(packet));
        let Some(component) = packets.next() else { return false };
        let mut certified = None;
        packets.take_while(|packet| packet.tag == Tag::SIGNATURE).any(|packet| {
            let names = Signature::parse(packet.body).is_some_and(|signature| {
                kind::CERTIFICATION.contains(&signature.kind) && signature.names(id)
            });
            if !names {
                return false;
            }
            let certified = certified.get_or_insert_with(|| CertificationVerifier::new(cert));
            let verdict = certified
                .as_mut()
                .map(|certified| certified.by(&key, &self.setup, component, packet.body));
            verdict == Some(Verdict::Good)
        })
    }
}
