//! Queries: how users name certificates.

use std::ops::ControlFlow;

use talaria::Stores;
use talaria::store::{Order, Query, QueryError, Row};

use crate::error::CliError;
use crate::render::printable;

/// Parses a user's name for a certificate.
pub(crate) fn parse_query(text: &str) -> Result<Query, String> {
    text.parse().map_err(|error: QueryError| error.why.to_owned())
}

/// The maximum number of candidates listed for an ambiguous query.
const CANDIDATES_MAX: usize = 10;

/// The only certificate that matches a query exactly: by key, or by a whole address or user ID. A
/// partial match is never chosen: `alice` is in `malice@evil.example`, too.
pub(crate) fn one_certificate(stores: &Stores, query: &Query, now: u32) -> Result<Row, CliError> {
    let mut found = match query.exact().map(|exact| rows(stores, &exact, now)) {
        None | Some(Err(talaria::Error::NotFound { .. })) => Vec::new(),
        Some(found) => found?,
    };
    match found.len() {
        1 => Ok(found.remove(0)),
        0 => Err(talaria::Error::Inexact {
            query: query.to_string(),
            candidates: rows(stores, query, now)?.iter().map(named).collect(),
        })?,
        _ => Err(talaria::Error::Ambiguous {
            query: query.to_string(),
            candidates: found.iter().map(named).collect(),
        })?,
    }
}

/// The certificates that match a query, at most as many as are shown.
fn rows(stores: &Stores, query: &Query, now: u32) -> Result<Vec<Row>, talaria::Error> {
    let mut found = Vec::new();
    stores.visit(std::slice::from_ref(query), Order::Insertion, now, |_, row| {
        found.push(row);
        let enough = found.len() > CANDIDATES_MAX;
        Ok(if enough { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
    })?;
    Ok(found)
}

/// The description of a certificate in a list of candidates.
fn named(row: &Row) -> String {
    let name = row.summary.primary_user_id().map(printable).unwrap_or_default();
    format!("{} {name}", row.summary.fingerprint())
}
