//! One lookup of each form that gpg knows, for a certificate that is there.

use std::path::Path;

use talaria_cert::{Address, Cert, Splitter};
use talaria_store::Query;

use crate::error::BenchError;

/// A lookup.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Lookup {
    /// The form, as it is called in a table.
    pub(crate) form: &'static str,
    /// The search as it is typed.
    pub(crate) text: String,
    /// Whether the lookup finds anything.
    pub(crate) hits: bool,
}

impl Lookup {
    fn new(form: &'static str, text: String) -> Self {
        Self { form, text, hits: true }
    }

    /// The search as the store takes it.
    pub(crate) fn query(&self) -> Query {
        self.text.parse().expect("a search that is made here is well formed")
    }
}

/// A lookup of each form for `cert`, and one that finds nothing; `None` if it lacks a subkey or an
/// e-mail address in plain letters.
pub(crate) fn of(cert: &Cert) -> Option<Vec<Lookup>> {
    let mut keys = cert.keys();
    let (primary, subkey) = (keys.next()?, keys.next()?);
    let grip = primary.keygrip()?;
    let text = cert.user_ids().find_map(|text| {
        let text = std::str::from_utf8(text).ok()?;
        let plain = text.is_ascii() && text.matches('<').count() == 1 && !text.contains('(');
        (plain && text.split_whitespace().count() == 3).then_some(text)
    })?;
    let email = Address::of_user_id(text.as_bytes())?.to_string();
    let (local, _) = email.split_once('@')?;
    let mut names = text.split_whitespace();
    let (first, last) = (names.next()?, names.next()?);
    let words = |name: &str| name.chars().all(char::is_alphanumeric) && name.len() >= 4;
    if !(words(first) && words(last) && local.len() >= 4) {
        return None;
    }
    let fingerprint = cert.fingerprint();
    let id = fingerprint.key_id();
    Some(vec![
        Lookup::new("fingerprint", fingerprint.to_string()),
        Lookup::new("key ID", id.to_string()),
        Lookup::new("short key ID", format!("{:08X}", id.short())),
        Lookup::new("subkey ID", subkey.fingerprint().key_id().to_string()),
        Lookup::new("&keygrip", format!("&{grip}")),
        Lookup::new("=exact user ID", format!("={text}")),
        Lookup::new("<address>", format!("<{email}>")),
        Lookup::new("@part of address", format!("@{local}")),
        Lookup::new("*substring", format!("*{}", last.to_lowercase())),
        Lookup::new("+words", format!("+{first} {last}")),
        Lookup {
            form: "fingerprint, none",
            text: "0123456789ABCDEF0123456789ABCDEF01234567".to_owned(),
            hits: false,
        },
    ])
}

/// Lookups for the certificate nearest to the middle of a keyring that has everything.
pub(crate) fn of_middle(certs: &[Cert], path: &Path) -> Result<Vec<Lookup>, BenchError> {
    let (before, after) = certs.split_at(certs.len() / 2);
    after
        .iter()
        .chain(before.iter().rev())
        .find_map(of)
        .ok_or_else(|| BenchError::Empty { path: path.to_owned() })
}

/// Reads the first `count` certificates of a keyring, or all.
pub(crate) fn read(path: &Path, count: Option<usize>) -> Result<Vec<Cert>, BenchError> {
    let file = std::fs::File::open(path).map_err(BenchError::io("open", path))?;
    let mut splitter = Splitter::new(file, talaria_cert::BATCH_BYTES);
    let mut certs = Vec::new();
    while let Some(batch) = splitter.next_batch().map_err(BenchError::io("read", path))? {
        certs.extend(batch.certs().filter_map(|(_, raw)| Cert::parse(raw).ok()));
        if count.is_some_and(|count| certs.len() >= count) {
            break;
        }
    }
    certs.truncate(count.unwrap_or(usize::MAX));
    Ok(certs)
}
