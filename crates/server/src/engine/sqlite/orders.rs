//! Orders of operators and owners, carried out by the thread that writes.

use talaria_cert::merge::IngestOutcome;
use talaria_cert::{Fingerprint, Redaction, Rules, Timestamp};
use talaria_store::{Return, Store, StoreError};

use crate::clock;
use crate::engine::command::{Command, Outcome};
use crate::engine::facts::Note;
use crate::engine::order::{Conflict, Done, Intake, Order, Replacement, Since, Terms, Wish};
use crate::engine::row::Position;

/// Carries out all orders, or none if one of them does not hold.
pub(crate) fn carry_out(
    store: &mut Store,
    orders: Vec<Order>,
    terms: Terms,
) -> Result<Result<Vec<Done>, Conflict>, StoreError> {
    let Terms { limits, now } = terms;
    store.operator_mut().set_limits(limits);
    store
        .atomically(|store| {
            for order in &orders {
                if let Some(conflict) = conflict(store, order)? {
                    return Ok(Err(conflict));
                }
            }
            let mut done = Vec::with_capacity(orders.len());
            for Order { fingerprint, wish, .. } in orders {
                match one(store, fingerprint, wish, now.into())? {
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
    let has_changed = match since {
        Since::Position(Position::Sqlite(position)) => row.change > position.0,
        Since::Time(since) => {
            let changed = store.log().time_of(row.change)?;
            changed.is_none_or(|changed| changed.seconds() > since)
        }
    };
    Ok(has_changed.then_some(Conflict::Changed(fingerprint)))
}

fn one(
    store: &mut Store,
    fingerprint: Fingerprint,
    wish: Wish,
    now: Timestamp,
) -> Result<Result<Done, Conflict>, StoreError> {
    Ok(Ok(match wish {
        Wish::Command(wanted) => Done::Command(command(store, fingerprint, wanted, now)?),
        Wish::Withdraw => {
            let Some(row) = store.row(fingerprint)? else {
                return Ok(Err(Conflict::Missing(fingerprint)));
            };
            if store.current(row, Rules::Standard, now)?.summary.primary.revoked {
                store.operator_mut().redact(fingerprint, &[Redaction::All], now)?;
                return Ok(Ok(Done::Bared));
            }
            delete(store, fingerprint, Return::Blocked, now)?;
            Done::Withdrawn
        }
        Wish::Replace(replacement) => match replace(store, fingerprint, *replacement, now)? {
            Some(outcome) => Done::Replaced(outcome),
            None => return Ok(Err(Conflict::Changed(fingerprint))),
        },
        Wish::Publish { email, generation } => {
            if store.keyserver().link_generation(fingerprint, &email)? != generation {
                return Ok(Err(Conflict::Changed(fingerprint)));
            }
            store.keyserver_mut().publish(fingerprint, &email, now)?;
            Done::Published
        }
        Wish::Unpublish(email) => {
            if store.keyserver().published(fingerprint)?.contains(&email) {
                store.keyserver_mut().unpublish(fingerprint, &email, now)?;
            }
            Done::Unpublished
        }
    }))
}

/// Carries out what an operator says.
fn command(
    store: &mut Store,
    fingerprint: Fingerprint,
    command: Command,
    now: Timestamp,
) -> Result<Outcome, StoreError> {
    let is_here = store.row(fingerprint)?.is_some();
    let choose = |which, yes, no| if which { yes } else { no };
    Ok(match command {
        Command::Delete => {
            if is_here {
                delete(store, fingerprint, Return::Allowed, now)?;
            }
            choose(is_here, Outcome::Deleted, Outcome::NotHere)
        }
        Command::Block => {
            delete(store, fingerprint, Return::Blocked, now)?;
            choose(is_here, Outcome::DeletedAndBlocked, Outcome::Blocked)
        }
        Command::Unblock => {
            let was_blocked = store.operator_mut().unblock(&[fingerprint])? > 0;
            choose(was_blocked, Outcome::Unblocked, Outcome::NotBlocked)
        }
        Command::Redact(redactions) => {
            store.operator_mut().redact(fingerprint, &redactions, now)?;
            choose(is_here, Outcome::Redacted, Outcome::RedactedBefore)
        }
        Command::Unredact => {
            let was_redacted = store.operator_mut().unredact(fingerprint)? > 0;
            choose(was_redacted, Outcome::Unredacted, Outcome::NotRedacted)
        }
    })
}

/// Deletes a certificate with the confirmations of its addresses: if somebody uploads it again, its
/// owner must confirm them again.
fn delete(
    store: &mut Store,
    fingerprint: Fingerprint,
    back: Return,
    now: Timestamp,
) -> Result<(), StoreError> {
    for email in store.keyserver().published(fingerprint)? {
        store.keyserver_mut().unpublish(fingerprint, &email, now)?;
    }
    store.delete(&[fingerprint], back, now).map(drop)
}

/// Keeps or forgets something beside certificates. Returns how many records this is.
pub(crate) fn note(store: &mut Store, note: Note) -> Result<u64, StoreError> {
    let now = clock::now().into();
    let mut keyserver = store.keyserver_mut();
    Ok(match note {
        Note::InVain { peer, view, digests, tries } => {
            keyserver.mark_unobtainable(&peer, view, &digests, tries, now)?;
            digests.len() as u64
        }
        Note::NothingInVain { peer } => keyserver.forget_unobtainable(&peer)? as u64,
        Note::Counts(counts) => {
            keyserver.add_to_tally(clock::today(), &counts)?;
            counts.len() as u64
        }
        Note::Peer(peer) => {
            keyserver.add_peer(&peer)?;
            1
        }
        Note::NoPeer { host, port } => u64::from(keyserver.remove_peer(&host, port)?),
    })
}

/// Replaces a stored certificate. `None` if it has changed since the replacement was prepared.
fn replace(
    store: &mut Store,
    fingerprint: Fingerprint,
    replacement: Replacement,
    now: Timestamp,
) -> Result<Option<IngestOutcome>, StoreError> {
    let Replacement { intake: Intake::Sqlite(mut intake), gone } = replacement;
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
