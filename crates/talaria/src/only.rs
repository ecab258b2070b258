//! The one certificate that a name means.

use std::ops::ControlFlow;

use talaria_cert::user_id::{text, visible_text};
use talaria_store::{Order, Query, Row};

use crate::error::Error;
use crate::stores::Stores;

/// The maximum number of candidates in the error of an ambiguous name.
const CANDIDATES_MAX: usize = 10;

impl Stores {
    /// The only certificate that matches a query exactly: by key, or by a whole address or user ID.
    /// A partial match is never chosen: `alice` is in `malice@evil.example`, too.
    ///
    /// # Errors
    ///
    /// [`Error::Inexact`] with the partial matches; [`Error::Ambiguous`]; [`Error::NotFound`];
    /// errors of reading the stores.
    pub fn only(&self, query: &Query, now: u32) -> Result<Row, Error> {
        let mut found = match query.exact().map(|exact| self.few(&exact, now)) {
            None | Some(Err(Error::NotFound { .. })) => Vec::new(),
            Some(found) => found?,
        };
        match found.len() {
            1 => Ok(found.remove(0)),
            0 => Err(Error::Inexact {
                query: query.to_string(),
                candidates: self.few(query, now)?.iter().map(described).collect(),
            }),
            _ => Err(Error::Ambiguous {
                query: query.to_string(),
                candidates: found.iter().map(described).collect(),
            }),
        }
    }

    /// The certificates that match a query, at most one more than an error names.
    fn few(&self, query: &Query, now: u32) -> Result<Vec<Row>, Error> {
        let mut found = Vec::new();
        self.visit(std::slice::from_ref(query), Order::Insertion, now, |_, row| {
            found.push(row);
            let enough = found.len() > CANDIDATES_MAX;
            Ok(if enough { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
        })?;
        Ok(found)
    }
}

/// The description of a certificate in a list of candidates.
fn described(row: &Row) -> String {
    let name = row.summary.primary_user_id().unwrap_or_default();
    format!("{} {}", row.summary.fingerprint(), visible_text(&text(name)))
}
