//! Designated revokers in a store. When the certificate of a revoker is added or removed, the
//! certificates that name the revoker are evaluated again, in the same transaction.
//!
//! A designated revocation depends on the certificate that it is in and on the primary key of the
//! revoker, which the fingerprint determines. Other changes of the revoker's certificate have no
//! effect. The table `revoker` maps a revoker to the certificates that name it.

use std::collections::{BTreeSet, HashMap};

use rusqlite::Connection;
use talaria_cert::merge::Stored;
use talaria_cert::{Cert, DesignatedRevocation, Fingerprint, Handle, Summary, Verdict};

use crate::change::{self, ChangeKind};
use crate::ledger::Ledger;
use crate::row::{self, RawRow};
use crate::{blob, find, meta};

/// The designated revocations of a certificate by revokers in the store, of any date.
pub(crate) fn designated(
    connection: &Connection,
    stored: &Stored,
    now: u32,
) -> rusqlite::Result<Vec<DesignatedRevocation>> {
    let mut found = Vec::new();
    for revoker in stored.cert.revokers(&stored.verdicts, now) {
        for by in revoker.fingerprints() {
            if let Some(body) = primary_key(connection, by)? {
                found.extend(stored.cert.revocations_by(by, &body));
            }
        }
    }
    Ok(found)
}

/// Applies the designated revocations by revokers in the store to the `summary` of `cert` at `now`,
/// in seconds since 1970. Returns whether all of them are known; only a ledger with a limit lacks
/// some.
pub(crate) fn ask(
    connection: &Connection,
    cert: &Cert,
    summary: &mut Summary,
    now: u32,
    ledger: &Ledger,
) -> rusqlite::Result<bool> {
    let look_up = |by| primary_key(connection, by);
    ask_with(summary, now, look_up, |by, body| ledger.designated(cert, by, body))
}

fn ask_with(
    summary: &mut Summary,
    now: u32,
    look_up: impl Fn(Fingerprint) -> rusqlite::Result<Option<Vec<u8>>>,
    mut made: impl FnMut(Fingerprint, &[u8]) -> Option<Vec<DesignatedRevocation>>,
) -> rusqlite::Result<bool> {
    if summary.revokers.is_empty() {
        return Ok(true);
    }
    let (mut failure, mut is_complete) = (None, true);
    let look_up = |by| {
        look_up(by).unwrap_or_else(|error| {
            failure = Some(error);
            None
        })
    };
    summary.ask_revokers(now, look_up, |by, body| {
        made(by, body).unwrap_or_else(|| {
            is_complete = false;
            Vec::new()
        })
    });
    failure.map_or(Ok(is_complete), Err)
}

/// Does what [`ask`] and [`follow`] will do when `planned` certificates are written, without
/// writing, and keeps the verdicts in `ledger`. Certificates without a number are new. Applies the
/// revocations to the summaries, and returns the certificates in the store that name a new one as
/// their revoker: if the ledger has a limit, the first of them.
pub(crate) fn rehearse(
    connection: &Connection,
    planned: &mut [(Option<i64>, &Cert, Summary)],
    now: u32,
    ledger: &mut Ledger,
) -> rusqlite::Result<Vec<(i64, Cert, Summary)>> {
    let new: HashMap<Fingerprint, &Cert> = planned
        .iter()
        .filter(|(id, ..)| id.is_none())
        .map(|&(_, cert, _)| (cert.fingerprint(), cert))
        .collect();
    let look_up = |by: Fingerprint| match new.get(&by) {
        Some(cert) => Ok(talaria_cert::first_packet(cert.as_bytes()).map(|key| key.body.to_vec())),
        None => primary_key(connection, by),
    };
    for (_, cert, summary) in planned.iter_mut() {
        ask_with(summary, now, look_up, |by, body| ledger.keep_designated(cert, by, body))?;
    }
    let mut followers = Vec::new();
    let mut bytes = 0;
    for id in naming(connection, new.keys().copied())? {
        if ledger.is_limited() && (followers.len() == PIECE || bytes >= PIECE_BYTES) {
            break;
        }
        let Some((cert, verdicts)) = blob::intact(connection, id)?.and_then(|blob| blob.decode())
        else {
            continue;
        };
        bytes += cert.as_bytes().len();
        let mut summary = evaluated(row::get(connection, id)?.as_ref(), &cert, &verdicts, now);
        ask_with(&mut summary, now, look_up, |by, body| ledger.keep_designated(&cert, by, body))?;
        followers.push((id, cert, summary));
    }
    Ok(followers)
}

/// The summary of a certificate at `now`, in seconds since 1970. What its row knows of signatures by
/// subkeys is not verified again: a revoker may have many followers.
fn evaluated(row: Option<&RawRow>, cert: &Cert, verdicts: &[Verdict], now: u32) -> Summary {
    let known = row.filter(|row| row.has_judged()).and_then(RawRow::summary);
    match known.filter(|known| known.fingerprint() == cert.fingerprint()) {
        Some(known) => known.at_another_time(cert, verdicts, now),
        None => Summary::evaluate(cert, verdicts, now),
    }
}

/// The body of a primary key packet in the store.
fn primary_key(
    connection: &Connection,
    fingerprint: Fingerprint,
) -> rusqlite::Result<Option<Vec<u8>>> {
    let Some(found) = find::row(connection, fingerprint)? else { return Ok(None) };
    let found = blob::intact(connection, found.id)?;
    Ok(found.and_then(|blob| talaria_cert::first_packet(&blob.bytes).map(|key| key.body.to_vec())))
}

/// Whether any certificate in the store names a revoker.
pub(crate) fn are_any(connection: &Connection) -> rusqlite::Result<bool> {
    connection.prepare_cached("SELECT 1 FROM revoker LIMIT 1")?.exists([])
}

/// Candidates for certificates that name one of these keys as a revoker, looked up by handle.
pub(crate) fn naming(
    connection: &Connection,
    revokers: impl IntoIterator<Item = Fingerprint>,
) -> rusqlite::Result<BTreeSet<i64>> {
    let mut found = BTreeSet::new();
    let mut select = connection.prepare_cached("SELECT cert FROM revoker WHERE handle = ?1")?;
    for revoker in revokers {
        let handle = Handle::of_fingerprint(revoker).0.cast_signed();
        let mut rows = select.query([handle])?;
        while let Some(row) = rows.next()? {
            found.insert(row.get::<_, i64>(0)?);
        }
    }
    Ok(found)
}

/// Certificates that are evaluated again in one transaction while others wait for it, and their
/// bytes.
const PIECE: usize = 50;
const PIECE_BYTES: usize = 2 << 20;

/// Evaluates certificates again and stores their summaries. Returns those whose primary key changed
/// between revoked and not revoked.
pub(crate) fn renew(
    connection: &Connection,
    certs: impl IntoIterator<Item = i64>,
    now: u32,
    ledger: &Ledger,
) -> rusqlite::Result<Vec<i64>> {
    let mut turned = Vec::new();
    for id in certs {
        if let Renewed::Done { is_turned: true, .. } = renew_one(connection, id, now, ledger)? {
            turned.push(id);
        }
    }
    Ok(turned)
}

/// What came of evaluating a certificate again.
enum Renewed {
    Done {
        is_turned: bool,
        bytes: usize,
    },
    /// The ledger does not have what it takes.
    Unknown,
}

fn renew_one(
    connection: &Connection,
    id: i64,
    now: u32,
    ledger: &Ledger,
) -> rusqlite::Result<Renewed> {
    let row = row::get(connection, id)?;
    let blob = blob::intact(connection, id)?;
    let bytes = blob.as_ref().map_or(0, |blob| blob.bytes.len());
    let unchanged = Renewed::Done { is_turned: false, bytes };
    // A check reports certificates that cannot be read.
    let (Some(row), Some((cert, verdicts))) = (row, blob.and_then(|blob| blob.decode())) else {
        return Ok(unchanged);
    };
    let before = row.summary().filter(|before| before.fingerprint() == cert.fingerprint());
    let mut summary = evaluated(Some(&row), &cert, &verdicts, now);
    if !ask(connection, &cert, &mut summary, now, ledger)? {
        return Ok(Renewed::Unknown);
    }
    if before.as_ref() == Some(&summary) {
        return Ok(unchanged);
    }
    let renewed = RawRow::new(id, cert.fingerprint(), row.change, &summary);
    RawRow { verifier: row.verifier, former: row.former, ..renewed }.write(connection)?;
    let is_turned = before.is_none_or(|before| before.primary.revoked != summary.primary.revoked);
    Ok(Renewed::Done { is_turned, bytes })
}

/// The certificates that name a revoker.
pub(crate) fn all_naming(connection: &Connection) -> rusqlite::Result<Vec<i64>> {
    connection
        .prepare("SELECT DISTINCT cert FROM revoker ORDER BY cert")?
        .query_map([], |row| row.get(0))?
        .collect()
}

/// Evaluates all certificates again that name a revoker.
pub(crate) fn renew_all(connection: &Connection, now: u32) -> rusqlite::Result<()> {
    renew(connection, all_naming(connection)?, now, &Ledger::default()).map(drop)
}

/// Evaluates certificates again after their revokers were added or removed. Returns those that
/// changed between revoked and not revoked, and adds them to the change log. Certificates in
/// `written` already have a log entry. `last` is the number of the last change.
///
/// With a limit, only the first are evaluated now, and [`follow_later`] does the rest: strangers
/// can make any number of certificates that name somebody as their revoker.
pub(crate) fn follow(
    connection: &Connection,
    revokers: impl IntoIterator<Item = Fingerprint>,
    written: &[i64],
    last: &mut i64,
    now: u32,
    ledger: &Ledger,
) -> rusqlite::Result<Vec<i64>> {
    let turned = if ledger.is_limited() {
        let mut first = None;
        for revoker in revokers {
            if is_named(connection, revoker)? {
                let entry = leave_for_later(connection, revoker)?;
                first.get_or_insert(entry);
            }
        }
        match first {
            Some(entry) => next_piece(connection, (entry, 0), now, ledger)?,
            None => Vec::new(),
        }
    } else {
        renew(connection, naming(connection, revokers)?, now, ledger)?
    };
    log_turned(connection, &turned, written, last, now)?;
    Ok(turned)
}

/// Evaluates the next certificates that [`follow`] has left for later. Returns those that changed
/// between revoked and not revoked, or `None` if nothing is left.
pub(crate) fn follow_later(
    connection: &Connection,
    last: &mut i64,
    now: u32,
) -> rusqlite::Result<Option<Vec<i64>>> {
    let Some(entry) = meta::first_name(connection, FOLLOWED)? else { return Ok(None) };
    // From the first one, if it is not known where it was.
    let done = meta::get(connection, &entry)?.good().unwrap_or(0);
    let turned = next_piece(connection, (entry, done), now, &Ledger::default())?;
    log_turned(connection, &turned, &[], last, now)?;
    Ok(Some(turned))
}

/// The entries of `meta` with the revokers whose followers are evaluated again, by handle, and the
/// last one that was.
const FOLLOWED: &str = "followed:";

/// Whether [`follow`] has left any certificates for later.
pub(crate) fn are_followers_left(connection: &Connection) -> rusqlite::Result<bool> {
    meta::first_name(connection, FOLLOWED).map(|entry| entry.is_some())
}

/// Leaves all certificates that name a revoker for [`follow_later`]. Returns the entry that says
/// so.
pub(crate) fn leave_for_later(
    connection: &Connection,
    revoker: Fingerprint,
) -> rusqlite::Result<String> {
    let entry = format!("{FOLLOWED}{:016x}", Handle::of_fingerprint(revoker).0);
    meta::set(connection, &entry, 0)?;
    Ok(entry)
}

/// Whether any certificate in the store may name a key as its revoker.
fn is_named(connection: &Connection, revoker: Fingerprint) -> rusqlite::Result<bool> {
    connection
        .prepare_cached("SELECT 1 FROM revoker WHERE handle = ?1")?
        .exists([Handle::of_fingerprint(revoker).0.cast_signed()])
}

/// Evaluates the next certificates of an entry of [`FOLLOWED`], behind the last one that was.
fn next_piece(
    connection: &Connection,
    (entry, mut done): (String, i64),
    now: u32,
    ledger: &Ledger,
) -> rusqlite::Result<Vec<i64>> {
    let handle = u64::from_str_radix(entry.trim_start_matches(FOLLOWED), 16).unwrap_or(0);
    let ids: Vec<i64> = connection
        .prepare_cached("SELECT cert FROM revoker WHERE handle = ?1 AND cert > ?2 ORDER BY cert")?
        .query_map((handle.cast_signed(), done), |row| row.get(0))?
        .take(PIECE)
        .collect::<rusqlite::Result<_>>()?;
    let (mut turned, mut bytes_left) = (Vec::new(), PIECE_BYTES);
    let mut is_whole = ids.len() < PIECE;
    for id in ids {
        let Renewed::Done { is_turned, bytes } = renew_one(connection, id, now, ledger)? else {
            is_whole = false;
            break;
        };
        done = id;
        turned.extend(is_turned.then_some(id));
        bytes_left = bytes_left.saturating_sub(bytes);
        if bytes_left == 0 {
            is_whole = false;
            break;
        }
    }
    if is_whole {
        meta::remove(connection, &entry)?;
    } else {
        meta::set(connection, &entry, done)?;
    }
    Ok(turned)
}

fn log_turned(
    connection: &Connection,
    turned: &[i64],
    written: &[i64],
    last: &mut i64,
    now: u32,
) -> rusqlite::Result<()> {
    let written: BTreeSet<i64> = written.iter().copied().collect();
    for id in turned.iter().filter(|id| !written.contains(id)) {
        *last += 1;
        change::append(connection, *last, now, *id, ChangeKind::Updated)?;
        row::set_change(connection, *id, *last)?;
    }
    Ok(())
}
