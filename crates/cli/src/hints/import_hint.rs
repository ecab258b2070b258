//! The remedy for a certificate that is not in the store.

use crate::shell::shell_word;

/// A hint how to get a certificate that is not in the store.
pub(crate) fn import_hint(query: &str) -> String {
    let name = query.trim_start_matches('*');
    format!(
        "List all certificates: talaria list\nImport this one from a file: talaria import FILE\nOr from a keyserver: talaria \
         import --keyserver hkps://keys.openpgp.org {}",
        shell_word(name)
    )
}
