//! Any text as a search, and as a cursor.

#![no_main]

use talaria_store::{Cursor, Query};

libfuzzer_sys::fuzz_target!(|text: &str| {
    if let Ok(query) = text.parse::<Query>() {
        let printed = query.to_string();
        assert_eq!(printed.parse::<Query>().as_ref(), Ok(&query), "{printed:?}");
    }
    if let Ok(cursor) = text.parse::<Cursor>() {
        assert_eq!(cursor.to_string().parse::<Cursor>().as_ref(), Ok(&cursor));
    }
});
