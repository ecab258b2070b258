//! Comparing the stored web of trust with one that is computed from the certificates alone.

use std::collections::{BTreeSet, HashMap};

use rusqlite::Connection;
use talaria_trust::Level;

use crate::trust::evaluation::Evaluation;
use crate::trust::issuer_index::each_with_issuers;
use crate::trust::node::Node;
use crate::trust::ultimate::ultimates;

/// The certificates whose stored standing differs from one that is recomputed from the certificates
/// alone. The time of the comparison is the latest start of a stored span.
pub(crate) fn misfits(connection: &Connection) -> rusqlite::Result<Vec<i64>> {
    let stored: HashMap<i64, Option<Node>> = connection
        .prepare("SELECT cert, start, until, standing FROM trust")?
        .query_map([], |row| {
            let id = row.get(0)?;
            Ok((id, Node::read(id, (row.get(1)?, row.get(2)?), row.get_ref(3)?.as_bytes()?)))
        })?
        .collect::<rusqlite::Result<_>>()?;
    let standings = stored.values().flatten().filter_map(|node| node.standing.as_ref());
    let now = standings.map(|standing| standing.holds.from).max().unwrap_or(0);
    let mut misfits: BTreeSet<i64> =
        stored.iter().filter(|(_, node)| node.is_none()).map(|(id, _)| *id).collect();
    let Some(mut web) = Evaluation::of(connection, now)? else {
        return Ok(stored.into_keys().collect());
    };
    web.from_nothing = true;
    web.spread(ultimates(connection)?)?;
    let says_nothing = |node: &Node| {
        let levels = node.standing.as_ref().map_or(&[][..], |standing| &standing.levels[..]);
        node.introducer().is_none() && levels.iter().all(|&level| level == Level::Unknown)
    };
    let said = |node: &Node| node.standing.clone().map(|s| (s.levels, s.introducer));
    let nobody = Node::default();
    for id in stored.keys().chain(web.nodes.keys()).copied() {
        let ours = web.nodes.get(&id).unwrap_or(&nobody);
        let theirs = stored.get(&id).and_then(Option::as_ref).unwrap_or(&nobody);
        let fits = said(ours) == said(theirs) || says_nothing(ours) && says_nothing(theirs);
        if !fits {
            misfits.insert(id);
        }
    }
    let mut known =
        connection.prepare("SELECT 1 FROM introducer WHERE handle = ?1 AND cert = ?2")?;
    for (&id, key) in &web.keys {
        let Some(key) = key else { continue };
        let introduces = web.nodes.get(&id).is_some_and(|node| node.introducer().is_some());
        if introduces != known.exists((key.id.0.cast_signed(), id))? {
            misfits.insert(id);
        }
    }
    // Additional rows are harmless: they only add certificates to evaluate.
    let mut known =
        connection.prepare("SELECT 1 FROM certifier WHERE handle = ?1 AND cert = ?2")?;
    each_with_issuers(connection, |id, issuers| {
        for issuer in issuers {
            if !known.exists((issuer.0.cast_signed(), id))? {
                misfits.insert(id);
            }
        }
        Ok(())
    })?;
    Ok(misfits.into_iter().collect())
}
