//! Queries: how users name certificates.

use talaria::store::{Query, QueryError};

/// Parses a user's name for a certificate.
pub(crate) fn parse_query(text: &str) -> Result<Query, String> {
    text.parse().map_err(|error: QueryError| error.why.to_owned())
}
