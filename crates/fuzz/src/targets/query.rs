//! Any text as a search, and as a cursor.

use talaria_store::{Cursor, Query};

/// Checks one input.
pub fn run(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    if let Ok(query) = text.parse::<Query>() {
        let printed = query.to_string();
        assert_eq!(printed.parse::<Query>().as_ref(), Ok(&query), "{printed:?}");
    }
    if let Ok(cursor) = text.parse::<Cursor>() {
        assert_eq!(cursor.to_string().parse::<Cursor>().as_ref(), Ok(&cursor));
    }
}
