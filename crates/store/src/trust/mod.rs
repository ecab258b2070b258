//! The web of trust over the certificates of a store, updated whenever they change.
//!
//! The result for each certificate is a row of its own ([`Standing`]), with the span of time for
//! which it is true. It depends on the certificate and on the role of its issuers as introducers. A
//! change therefore recomputes only the certificates that it can affect, in the same transaction.
//! The signature of an introducer is verified when it is first needed, and its verdict is stored in
//! the row.
//!
//! A store without ultimately trusted keys has no web of trust. The web is created when the first
//! key becomes ultimately trusted.

pub(crate) mod certifiers;
pub(crate) mod evaluation;
mod issuer_index;
pub(crate) mod misfits;
mod node;
pub(crate) mod planned;
pub(crate) mod rehearsal;
pub(crate) mod rules;
mod ultimate;
pub(crate) mod view;
mod voices;

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use rusqlite::Connection;
use talaria_cert::{Cert, Fingerprint};
use talaria_trust::{Level, Rules, issuers};

use crate::ledger::Ledger;
use crate::trust::evaluation::{Evaluation, TrustReport, read};
use crate::trust::issuer_index::index_issuers;
use crate::trust::node::Node;
use crate::trust::ultimate::ultimates;
use crate::trust::voices::IssuerKey;
use crate::{find, owner};

/// Brings the web of trust to `now`, and creates it if keys are ultimately trusted. With `anew`,
/// recomputes it from the certificates alone.
pub(crate) fn update(
    connection: &Connection,
    anew: bool,
    now: u32,
    ledger: &Ledger,
) -> rusqlite::Result<TrustReport> {
    if rules::get(connection)?.is_none() {
        if ultimates(connection)?.is_empty() {
            return Ok(TrustReport::default());
        }
        rules::set(connection, Rules::default())?;
        return renew(connection, now, ledger);
    }
    if anew {
        let before = said(connection)?;
        let report = renew(connection, now, ledger)?;
        let after = said(connection)?;
        let differs = |id: &&i64| before.get(id) != after.get(id);
        let ids: BTreeSet<&i64> = before.keys().chain(after.keys()).collect();
        let changed = ids.into_iter().filter(differs).count() as u64;
        return Ok(TrustReport { changed, ..report });
    }
    let web = Evaluation::with(connection, now, ledger)?;
    web.map_or(Ok(TrustReport::default()), |web| web.recompute(BTreeSet::new()))
}

/// Records owner trust, and updates the web of trust.
pub(crate) fn set_owners(
    connection: &Connection,
    entries: &[(Fingerprint, u8)],
    now: u32,
    ledger: &Ledger,
) -> rusqlite::Result<TrustReport> {
    let mut changed = BTreeSet::new();
    for (fingerprint, value) in entries {
        owner::set(connection, &fingerprint.to_stored(), *value)?;
        changed.extend(find::id(connection, *fingerprint)?);
    }
    if rules::get(connection)?.is_none() {
        let own = |value: u8| Level::from_number(value) == Some(Level::Ultimate);
        if !entries.iter().any(|&(_, value)| own(value)) {
            return Ok(TrustReport::default());
        }
        rules::set(connection, Rules::default())?;
        return renew(connection, now, ledger);
    }
    Evaluation::with(connection, now, ledger)?
        .map_or(Ok(TrustReport::default()), |web| web.recompute(changed))
}

/// Whether the store has a web of trust.
pub(crate) fn is_kept(connection: &Connection) -> rusqlite::Result<bool> {
    rules::get(connection).map(|rules| rules.is_some())
}

/// Updates the web of trust after certificates changed, within a transaction.
pub(crate) fn follow(
    connection: &Connection,
    changed: impl IntoIterator<Item = i64>,
    now: u32,
    ledger: &Ledger,
) -> rusqlite::Result<()> {
    let Some(mut web) = Evaluation::with(connection, now, ledger)? else { return Ok(()) };
    let changed: BTreeSet<i64> = changed.into_iter().collect();
    for &id in &changed {
        if let Some((cert, _)) = read(connection, id, now)? {
            web.note_issuers(id, &cert)?;
        }
    }
    web.recompute(changed).map(drop)
}

/// Updates the web of trust after certificates were deleted, within a transaction.
pub(crate) fn forget(
    connection: &Connection,
    gone: &[(i64, Cert)],
    now: u32,
    ledger: &Ledger,
) -> rusqlite::Result<()> {
    let Some(mut web) = Evaluation::with(connection, now, ledger)? else { return Ok(()) };
    let mut delete =
        connection.prepare_cached("DELETE FROM certifier WHERE handle = ?1 AND cert = ?2")?;
    for (id, cert) in gone {
        web.keys.insert(*id, IssuerKey::of(cert.as_bytes()).map(Arc::new));
        for issuer in issuers(cert) {
            delete.execute((issuer.0.cast_signed(), id))?;
        }
    }
    web.recompute(gone.iter().map(|(id, _)| *id).collect()).map(drop)
}

/// The stored validity of user IDs, for all certificates with a standing.
fn said(connection: &Connection) -> rusqlite::Result<HashMap<i64, Vec<Level>>> {
    let mut rows = connection.prepare("SELECT cert, start, until, standing FROM trust")?;
    let said = rows.query_map([], |row| {
        let id = row.get(0)?;
        let span = (row.get(1)?, row.get(2)?);
        let node = Node::read(id, span, row.get_ref(3)?.as_bytes()?);
        let levels = node.and_then(|node| node.standing).map(|standing| standing.levels);
        Ok((id, levels.unwrap_or_default()))
    })?;
    let mut said = said.collect::<rusqlite::Result<HashMap<_, Vec<_>>>>()?;
    said.retain(|_, levels| levels.iter().any(|&level| level != Level::Unknown));
    Ok(said)
}

/// Creates the web of trust if the store has none yet but has ultimately trusted keys.
pub(crate) fn adopt(connection: &Connection, now: u32) -> rusqlite::Result<()> {
    if ultimates(connection)?.is_empty() {
        return Ok(());
    }
    rules::set(connection, Rules::default())?;
    renew(connection, now, &Ledger::default()).map(drop)
}

/// Recomputes the web of trust from the certificates alone, if the store has rules for it.
pub(crate) fn renew(
    connection: &Connection,
    now: u32,
    ledger: &Ledger,
) -> rusqlite::Result<TrustReport> {
    connection
        .execute_batch("DELETE FROM trust; DELETE FROM introducer; DELETE FROM certifier;")?;
    let Some(web) = Evaluation::with(connection, now, ledger)? else {
        return Ok(TrustReport::default());
    };
    index_issuers(connection, "certifier")?;
    let own = ultimates(connection)?;
    web.recompute(own)
}
