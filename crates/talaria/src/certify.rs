//! Certifying user IDs: confirming that user IDs belong to the holders of certificates.
//!
//! Everybody who trusts the certifier believes a certification. So talaria certifies only the user
//! IDs that the user has named exactly. A fingerprint stands for all user IDs of a certificate; an
//! address or a user ID stands for the user IDs that match exactly. A key ID, the fingerprint of a
//! subkey and a part of a name are not accepted here: other people can obtain or generate keys with
//! them.

use std::ops::ControlFlow;
use std::time::SystemTime;

use talaria_cert::{Address, Rules, UserIdContent, Validity, Verification};
use talaria_message::make::{self, CertifyOptions};
use talaria_message::openpgp::crypto::Signer;
use talaria_message::openpgp::packet::UserID;
use talaria_message::openpgp::serialize::MarshalInto as _;
use talaria_message::openpgp::{self, Packet};
use talaria_message::{KeyFault, MessageError, read_cert};
use talaria_store::{IngestOutcome, Order, Query, Row};

use crate::error::{Error, of_make};
use crate::parsed::described;
use crate::stores::Stores;

/// The maximum number of certificates examined for one name.
const CANDIDATES_MAX: usize = 50;

/// User IDs to certify.
#[derive(Clone, Debug)]
pub struct Certifiable {
    /// The certificate of the user IDs.
    pub cert: openpgp::Cert,
    /// The user IDs to certify, at least one.
    pub user_ids: Vec<UserID>,
    /// Other valid user IDs of the certificate, which are not to be certified.
    pub left_out: Vec<UserID>,
}

/// The result for a user ID that was to be certified.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Certified {
    /// The user ID has been certified now.
    Now,
    /// An equal certification existed before and is still valid.
    Before,
}

/// The result of certifying.
#[derive(Clone, Debug)]
pub struct CertifyOutcome {
    /// The certificate with the certifications.
    pub cert: openpgp::Cert,
    /// The result for each user ID.
    pub user_ids: Vec<(UserID, Certified)>,
    /// The date of the last new certification, which may be a second ahead of the clock.
    pub made: Option<SystemTime>,
}

/// The exact name of a certificate whose user IDs are to be certified.
enum Name {
    /// The fingerprint of the primary key.
    Fingerprint(Vec<u8>),
    /// A user ID, or the address in one.
    Text(Text),
}

/// The exact name of a user ID.
pub(crate) enum Text {
    /// The address of the user ID.
    Address(Address),
    /// The whole user ID.
    Whole(String),
}

impl Text {
    pub(crate) fn parse(text: &str) -> Self {
        if let Some(exact) = text.strip_prefix('=') {
            return Self::Whole(exact.to_owned());
        }
        text.parse().map_or_else(|_| Self::Whole(text.to_owned()), Self::Address)
    }

    pub(crate) fn names(&self, user_id: &UserID) -> bool {
        match self {
            Self::Address(address) => address.is_of(user_id.value()),
            Self::Whole(text) => user_id.value() == text.as_bytes(),
        }
    }

    fn query(&self) -> Query {
        match self {
            Self::Address(address) => Query::Email(address.clone()),
            Self::Whole(text) => Query::Exact(text.clone()),
        }
    }
}

impl Stores {
    /// The user IDs to certify of the certificate `name`: those in `user_ids`. If `user_ids` is
    /// empty, all valid user IDs if `name` is the fingerprint, otherwise the valid user IDs that
    /// match `name`.
    ///
    /// # Errors
    ///
    /// [`Error::NotFound`]; [`Error::Inexact`] for a partial match; [`Error::Ambiguous`];
    /// [`Error::Message`] if the certificate is revoked or has expired; [`Error::NoUserId`] if the
    /// certificate has no matching valid user ID; errors of reading the stores.
    pub fn certifiable(
        &self,
        name: &str,
        user_ids: &[String],
        rules: Rules,
        now: u32,
    ) -> Result<Certifiable, Error> {
        let name = self.exact_name(name, now)?;
        let (cert, valid) = match &name {
            Name::Fingerprint(bytes) => {
                let row = self.with_fingerprint(bytes, now)?;
                let cert = self.read_cert(&row)?;
                let valid = valid(&cert, &row, rules, now)?;
                (cert, valid)
            }
            Name::Text(text) => self.named(text, rules, now)?,
        };
        let fingerprint = cert.fingerprint().to_hex();
        let mut chosen: Vec<UserID> = Vec::new();
        if user_ids.is_empty() {
            chosen = match &name {
                Name::Fingerprint(_) => valid.clone(),
                Name::Text(text) => valid.iter().filter(|id| text.names(id)).cloned().collect(),
            };
            if chosen.is_empty() {
                return Err(Error::NoUserId { name: fingerprint, user_id: None });
            }
        }
        for wanted in user_ids {
            let text = Text::parse(wanted);
            let mut found = valid.iter().filter(|id| text.names(id)).peekable();
            if found.peek().is_none() {
                return Err(Error::NoUserId { name: fingerprint, user_id: Some(wanted.clone()) });
            }
            for user_id in found {
                if !chosen.contains(user_id) {
                    chosen.push(user_id.clone());
                }
            }
        }
        let left_out = valid.into_iter().filter(|id| !chosen.contains(id)).collect();
        Ok(Certifiable { cert, user_ids: chosen, left_out })
    }

    /// Certifies user IDs with the primary key of `by`, which `signer` unlocks, and writes the
    /// certifications to the store. A certification by `by` with the same content that is still
    /// valid is not repeated.
    ///
    /// # Errors
    ///
    /// The errors of `signer`; [`Error::KeyRefused`]; errors of writing the store.
    pub fn certify(
        &mut self,
        what: &Certifiable,
        by: &openpgp::Cert,
        says: &CertifyOptions,
        signer: impl FnOnce() -> Result<Box<dyn Signer>, Error>,
        now: u32,
    ) -> Result<CertifyOutcome, Error> {
        let certifying = by.fingerprint().to_hex();
        let (mut signer, mut locked) = (None, Some(signer));
        let mut made = None;
        let mut packets = Vec::new();
        let mut user_ids = Vec::new();
        for user_id in &what.user_ids {
            if make::is_certified(&what.cert, user_id, by, says, now) {
                user_ids.push((user_id.clone(), Certified::Before));
                continue;
            }
            let opened = match signer {
                None => locked.take().map(|unlock| unlock()).transpose()?,
                opened => opened,
            };
            let Some(mut opened) = opened else { break };
            let signature = make::certify(&what.cert, user_id, &mut *opened, says, now)
                .map_err(|error| of_make("use", &certifying, error))?;
            signer = Some(opened);
            made = made.max(signature.signature_creation_time());
            packets.push(Packet::from(user_id.clone()));
            packets.push(signature.into());
            user_ids.push((user_id.clone(), Certified::Now));
        }
        let refused = |source: openpgp::anyhow::Error| Error::KeyRefused {
            action: "certify",
            name: what.cert.fingerprint().to_hex(),
            source: source.into(),
        };
        let cert = what.cert.clone().insert_packets(packets).map_err(refused)?.0;
        let bytes = cert.to_vec().map_err(refused)?;
        let stored = talaria_cert::Cert::parse(&bytes);
        let stored = stored.map_err(|reason| refused(openpgp::anyhow::Error::new(reason)))?;
        let outcome = self.writable()?.ingest(vec![stored], Verification::Full, now.into())?;
        if let IngestOutcome::Refused(why) = outcome[0] {
            return Err(refused(openpgp::anyhow::Error::msg(why.to_string())));
        }
        Ok(CertifyOutcome { cert, user_ids, made })
    }

    /// Parses `name` as an exact name of a certificate.
    fn exact_name(&self, name: &str, now: u32) -> Result<Name, Error> {
        let query: Query = name.parse()?;
        match query {
            Query::Fingerprint(bytes) => return Ok(Name::Fingerprint(bytes)),
            Query::Exact(text) => return Ok(Name::Text(Text::Whole(text))),
            Query::Email(address) => return Ok(Name::Text(Text::Address(address))),
            Query::Text(_) => {
                let text = Text::parse(name);
                if self.rows(&text.query(), now)?.iter().any(|row| is_in(row, &text)) {
                    return Ok(Name::Text(text));
                }
            }
            _ => {}
        }
        let rows = self.rows(&query, now)?;
        if rows.is_empty() {
            return Err(Error::NotFound { query: query.to_string() });
        }
        Err(Error::Inexact { query: query.to_string(), candidates: self.described(&rows)? })
    }

    /// The certificate whose primary key has this fingerprint. A subkey does not count: anybody can
    /// add other people's subkeys to a certificate.
    fn with_fingerprint(&self, bytes: &[u8], now: u32) -> Result<Row, Error> {
        let query = Query::Fingerprint(bytes.to_vec());
        let mut rows = self.rows(&query, now)?;
        if let Some(at) = rows.iter().position(|row| row.summary.fingerprint().as_bytes() == bytes)
        {
            return Ok(rows.swap_remove(at));
        }
        if rows.is_empty() {
            return Err(Error::NotFound { query: query.to_string() });
        }
        Err(Error::Inexact { query: query.to_string(), candidates: self.described(&rows)? })
    }

    /// The only certificate with a valid user ID that matches `text`, and all its valid user IDs.
    fn named(
        &self,
        text: &Text,
        rules: Rules,
        now: u32,
    ) -> Result<(openpgp::Cert, Vec<UserID>), Error> {
        let query = text.query();
        let mut found: Vec<(openpgp::Cert, Vec<UserID>)> = Vec::new();
        let mut refused = None;
        for row in self.rows(&query, now)? {
            if !is_in(&row, text) {
                continue;
            }
            let cert = self.read_cert(&row)?;
            match valid(&cert, &row, rules, now) {
                Ok(valid) if valid.iter().any(|id| text.names(id)) => found.push((cert, valid)),
                Ok(_) => {
                    let name = cert.fingerprint().to_hex();
                    refused = Some(Error::NoUserId { name, user_id: Some(query.to_string()) });
                }
                Err(error) => refused = Some(error),
            }
        }
        if found.len() > 1 {
            return Err(Error::Ambiguous {
                query: query.to_string(),
                candidates: found.iter().map(|(cert, _)| described(cert)).collect(),
            });
        }
        match (found.pop(), refused) {
            (Some(found), _) => Ok(found),
            (None, Some(error)) => Err(error),
            (None, None) => Err(Error::NotFound { query: query.to_string() }),
        }
    }

    /// The certificates that match `query`; an empty list if there is none.
    fn rows(&self, query: &Query, now: u32) -> Result<Vec<Row>, Error> {
        let mut rows = Vec::new();
        let visited = self.visit(std::slice::from_ref(query), Order::Insertion, now, |_, row| {
            rows.push(row);
            let full = rows.len() == CANDIDATES_MAX;
            Ok(if full { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
        });
        match visited {
            Ok(()) | Err(Error::NotFound { .. }) => Ok(rows),
            Err(error) => Err(error),
        }
    }

    fn read_cert(&self, row: &Row) -> Result<openpgp::Cert, Error> {
        let fingerprint = row.summary.fingerprint();
        let missing = || Error::NotFound { query: fingerprint.to_string() };
        let cert = self.cert(fingerprint)?.ok_or_else(missing)?;
        read_cert(cert.as_bytes()).map_err(|source| Error::KeyRefused {
            action: "read",
            name: fingerprint.to_string(),
            source: source.into(),
        })
    }

    fn described(&self, rows: &[Row]) -> Result<Vec<String>, Error> {
        rows.iter().map(|row| Ok(described(&self.read_cert(row)?))).collect()
    }
}

/// Whether a certificate has a user ID that matches `text`, valid or not.
fn is_in(row: &Row, text: &Text) -> bool {
    row.summary.user_ids.iter().any(|user_id| match &user_id.content {
        UserIdContent::Text(bytes) => text.names(&UserID::from(bytes.as_slice())),
        UserIdContent::Attribute { .. } => false,
    })
}

/// The user IDs of `cert` that are valid both for listings and for encryption.
fn valid(cert: &openpgp::Cert, row: &Row, rules: Rules, now: u32) -> Result<Vec<UserID>, Error> {
    let name = cert.fingerprint().to_hex();
    let unfit = |why| Error::Message(MessageError::Key { name: name.clone(), why });
    match row.summary.validity(now) {
        Validity::Revoked => return Err(unfit(KeyFault::Revoked)),
        Validity::Expired => return Err(unfit(KeyFault::Expired(None))),
        Validity::Invalid => return Err(unfit(KeyFault::Other("is not valid".into()))),
        Validity::Valid => {}
    }
    let mut valid =
        make::certifiable(cert, rules, now).map_err(|error| of_make("certify", &name, error))?;
    valid.retain(|user_id| {
        row.summary.user_ids.iter().any(|known| {
            known.validity(now) == Validity::Valid
                && matches!(&known.content, UserIdContent::Text(text) if text == user_id.value())
        })
    });
    Ok(valid)
}
