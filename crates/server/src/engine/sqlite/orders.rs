//! Orders of operators and owners, carried out by the thread that writes.

use talaria_cert::Fingerprint;
use talaria_store::{IngestOutcome, Redaction, Return, Store, StoreError};

use crate::clock;
use crate::engine::order::{Conflict, Done, Order, Replacement, Wish};

/// Carries out all orders, or none if one of them does not hold.
pub(crate) fn carry_out(
    store: &mut Store,
    orders: Vec<Order>,
) -> Result<Result<Vec<Done>, Conflict>, StoreError> {
    store
        .atomically(|store| {
            for order in &orders {
                if let Some(conflict) = conflict(store, order)? {
                    return Ok(Err(conflict));
                }
            }
            let mut done = Vec::with_capacity(orders.len());
            for Order { fingerprint, wish, .. } in orders {
                match one(store, fingerprint, wish)? {
                    Ok(outcome) => done.push(outcome),
                    Err(conflict) => return Err(Stopped::Conflict(conflict)),
                }
            }
            Ok(Ok(done))
        })
        .or_else(|stopped| match stopped {
            Stopped::Conflict(conflict) => Ok(Err(conflict)),
            Stopped::Error(error) => Err(error),
        })
}

/// Why a transaction was taken back.
enum Stopped {
    Conflict(Conflict),
    Error(StoreError),
}

impl From<StoreError> for Stopped {
    fn from(error: StoreError) -> Self {
        Self::Error(error)
    }
}

/// Whether an order does not hold.
fn conflict(store: &Store, order: &Order) -> Result<Option<Conflict>, StoreError> {
    let Some(since) = order.unless_changed_since else { return Ok(None) };
    let fingerprint = order.fingerprint;
    let Some(row) = store.row(fingerprint)? else {
        return Ok(Some(Conflict::Missing(fingerprint)));
    };
    let changed = store.log().time_of(row.change)?;
    let is_stale = changed.is_none_or(|changed| changed.seconds() > since);
    Ok(is_stale.then_some(Conflict::Changed(fingerprint)))
}

fn one(
    store: &mut Store,
    fingerprint: Fingerprint,
    wish: Wish,
) -> Result<Result<Done, Conflict>, StoreError> {
    let now = clock::now().into();
    Ok(Ok(match wish {
        Wish::Command(command) => Done::Command(command.carry_out(store, fingerprint, now)?),
        Wish::Withdraw => {
            let Some(row) = store.row(fingerprint)? else {
                return Ok(Err(Conflict::Missing(fingerprint)));
            };
            if store.current(row, now)?.summary.primary.revoked {
                store.operator_mut().redact(fingerprint, &[Redaction::All], now)?;
                return Ok(Ok(Done::Bared));
            }
            for email in store.keyserver().published(fingerprint)? {
                store.keyserver_mut().unpublish(fingerprint, &email, now)?;
            }
            store.delete(&[fingerprint], Return::Blocked, now)?;
            Done::Withdrawn
        }
        Wish::Replace(replacement) => match replace(store, fingerprint, *replacement)? {
            Some(outcome) => Done::Replaced(outcome),
            None => return Ok(Err(Conflict::Changed(fingerprint))),
        },
    }))
}

/// Replaces a stored certificate. `None` if it has changed since the replacement was prepared.
fn replace(
    store: &mut Store,
    fingerprint: Fingerprint,
    replacement: Replacement,
) -> Result<Option<IngestOutcome>, StoreError> {
    let Replacement { mut intake, gone } = replacement;
    let now = clock::now().into();
    store.write(std::slice::from_mut(&mut intake), usize::MAX, now)?;
    if !intake.is_written() {
        return Ok(None);
    }
    let outcome = intake.into_ingested().first().map(|ingested| ingested.outcome);
    if !matches!(outcome, Some(IngestOutcome::Refused(_))) && !gone.is_empty() {
        store.operator_mut().redact(fingerprint, &gone, now)?;
    }
    Ok(outcome)
}
