//! Search terms for certificates: the forms that gpg accepts, parsed once.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

use crate::address::{self, Address};
use crate::cert::Cert;
use crate::fingerprint::{Fingerprint, KeyId};
use crate::hex::{self, Upper};
use crate::key::Key;
use crate::user_id;

/// A well-formed search.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Query {
    /// The fingerprint of a primary key or subkey: 16, 20 or 32 bytes.
    Fingerprint(Vec<u8>),
    /// A 64-bit key ID.
    KeyId(KeyId),
    /// The low 32 bits of a key ID.
    ShortKeyId(u32),
    /// `&` and 40 digits: a keygrip.
    Keygrip([u8; 20]),
    /// `=text`: a whole user ID.
    Exact(String),
    /// `<mail@address>`: a whole e-mail address.
    Email(Address),
    /// A whole user ID or a whole e-mail address, without regard to case in any script
    /// ([`user_id::caseless`]).
    Identity(String),
    /// `@part`: a part of an e-mail address as written in the user ID, in lower case.
    ///
    /// Here and in [`Self::EmailEnd`], only ASCII letters are folded, as in `GnuPG`. A part that
    /// ends within a character of several code points is not found.
    EmailPart(String),
    /// `.end`: the end of an e-mail address.
    EmailEnd(String),
    /// `*text`: a part of a user ID, [folded](user_id::folded).
    Substring(String),
    /// Any other text, as typed. It finds user IDs that contain the text. For a search that
    /// identifies one key or user ID, see [`Query::exact`].
    Text(String),
    /// `+words`: user IDs that contain all of the words, as [`user_id::words`] makes them.
    Words(Vec<String>),
    /// User IDs that contain each of the words in one of its spellings, as [`user_id::spellings`]
    /// makes them.
    Spelled(Vec<Vec<String>>),
}

/// Why a text is not a valid search.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error("{text:?} is not a valid search: {why}")]
pub struct QueryError {
    /// The given text.
    pub text: String,
    /// Description of the problem.
    pub why: &'static str,
}

impl Query {
    /// Whether one of the keys or user IDs of a certificate matches this search.
    #[must_use]
    pub fn names(&self, cert: &Cert) -> bool {
        let matcher = self.matcher();
        cert.keys().any(|key| self.names_key(&key))
            || cert.user_ids().any(|text| matcher.names_text(text))
    }

    /// Whether a user ID matches this search. Always `false` for searches by key. For many user
    /// IDs, see [`Self::matcher`].
    #[must_use]
    pub fn names_text(&self, text: &[u8]) -> bool {
        self.matcher().names_text(text)
    }

    /// This search, prepared for comparisons with many user IDs.
    #[must_use]
    pub fn matcher(&self) -> Matcher<'_> {
        let wanted = match self {
            Self::Identity(identity) => user_id::caseless(identity),
            // A substring of the folded text, as the index of folded texts finds it.
            Self::EmailPart(part)
            | Self::EmailEnd(part)
            | Self::Substring(part)
            | Self::Text(part) => user_id::folded(part),
            _ => String::new(),
        };
        Matcher { query: self, wanted }
    }

    /// The strict form of this search, for selecting certificates instead of finding them: a key, a
    /// whole address or a whole user ID. `None` for a search by a part.
    #[must_use]
    pub fn exact(&self) -> Option<Self> {
        match self {
            Self::Text(text) => Some(match text.parse() {
                Ok(address) => Self::Email(address),
                Err(_) => Self::Exact(text.clone()),
            }),
            Self::EmailPart(_)
            | Self::EmailEnd(_)
            | Self::Substring(_)
            | Self::Words(_)
            | Self::Spelled(_) => None,
            Self::Fingerprint(_)
            | Self::KeyId(_)
            | Self::ShortKeyId(_)
            | Self::Keygrip(_)
            | Self::Exact(_)
            | Self::Email(_)
            | Self::Identity(_) => Some(self.clone()),
        }
    }

    /// Whether a key matches this search. Always `false` for searches by user ID.
    #[must_use]
    pub fn names_key(&self, key: &Key<'_>) -> bool {
        match self {
            Self::Keygrip(grip) => key.keygrip().is_some_and(|keygrip| keygrip.0 == *grip),
            Self::Fingerprint(_) | Self::KeyId(_) | Self::ShortKeyId(_) => {
                self.names_fingerprint(key.fingerprint())
            }
            _ => false,
        }
    }

    /// Whether a key with this fingerprint matches a search by fingerprint or key ID. Always
    /// `false` for other searches.
    #[must_use]
    pub fn names_fingerprint(&self, fingerprint: Fingerprint) -> bool {
        match self {
            Self::Fingerprint(bytes) => fingerprint.as_bytes() == bytes.as_slice(),
            Self::KeyId(id) => fingerprint.key_id() == *id,
            Self::ShortKeyId(id) => fingerprint.key_id().short() == *id,
            _ => false,
        }
    }
}

/// A search, prepared once for comparisons with many user IDs.
#[derive(Clone, Debug)]
pub struct Matcher<'a> {
    query: &'a Query,
    /// The text of the search in the form in which user IDs are compared with it. Empty if they are
    /// not.
    wanted: String,
}

impl<'a> Matcher<'a> {
    /// The search.
    #[must_use]
    pub fn query(&self) -> &'a Query {
        self.query
    }

    /// Whether a user ID matches the search. Always `false` for searches by key.
    #[must_use]
    pub fn names_text(&self, text: &[u8]) -> bool {
        let folded = || user_id::folded(&user_id::text(text));
        let contains_wanted = || folded().contains(&self.wanted);
        match self.query {
            Query::Exact(exact) => user_id::text(text) == exact.as_str(),
            Query::Email(email) => email.is_of(text),
            Query::Identity(_) => {
                let is_wanted = |text| user_id::caseless(&user_id::text(text)) == self.wanted;
                is_wanted(text) || address::mailbox(text).is_some_and(is_wanted)
            }
            Query::EmailPart(part) => mailbox(text).is_some_and(|mailbox| {
                mailbox.windows(part.len().max(1)).any(|window| window == part.as_bytes())
                    && contains_wanted()
            }),
            Query::EmailEnd(end) => {
                mailbox(text).is_some_and(|m| m.ends_with(end.as_bytes())) && contains_wanted()
            }
            Query::Substring(_) | Query::Text(_) => contains_wanted(),
            Query::Words(wanted) => {
                let text = folded();
                let words: Vec<&str> = user_id::words_of_folded(&text).collect();
                wanted.iter().all(|word| words.contains(&word.as_str()))
            }
            Query::Spelled(wanted) => {
                let text = folded();
                let words: Vec<&str> = user_id::words_of_folded(&text).collect();
                let has = |word: &String| words.contains(&word.as_str());
                wanted.iter().all(|spellings| spellings.iter().any(has))
            }
            Query::Fingerprint(_) | Query::KeyId(_) | Query::ShortKeyId(_) | Query::Keygrip(_) => {
                false
            }
        }
    }
}

impl FromStr for Query {
    type Err = QueryError;

    fn from_str(text: &str) -> Result<Self, QueryError> {
        let error = |why| QueryError { text: text.to_owned(), why };
        let trimmed = text.trim();
        let rest = || -> Result<String, QueryError> {
            let rest = &trimmed[1..];
            if rest.trim().is_empty() {
                Err(error("the search text is empty"))
            } else {
                Ok(rest.into())
            }
        };
        Ok(match trimmed.as_bytes().first() {
            None => return Err(error("it is empty")),
            Some(b'=') => Self::Exact(rest()?),
            Some(b'<') => {
                let inner = rest()?;
                let inner = inner.trim_matches(|c: char| c == '>' || c.is_ascii_whitespace());
                let address = Address::of_mailbox(inner.as_bytes());
                Self::Email(address.ok_or_else(|| error("it is not an e-mail address"))?)
            }
            Some(b'@') => Self::EmailPart(rest()?.to_ascii_lowercase()),
            Some(b'.') => Self::EmailEnd(rest()?.to_ascii_lowercase()),
            Some(b'*') => {
                // Folding turns a diacritic on its own into a blank.
                let part = user_id::folded(&rest()?);
                let part = part.trim_end();
                if part.trim_start().is_empty() {
                    return Err(error(NOTHING_LEFT));
                }
                Self::Substring(part.to_owned())
            }
            Some(b'+') => {
                let words: Vec<String> = user_id::words(&rest()?).collect();
                if words.is_empty() {
                    return Err(error("it contains no word"));
                }
                Self::Words(words)
            }
            Some(b'&') => match hex::array(&rest()?) {
                Some(keygrip) => Self::Keygrip(keygrip),
                None => return Err(error("a keygrip has 40 hexadecimal digits")),
            },
            Some(_) => match identifier(trimmed) {
                Some(query) => query,
                None if trimmed.len() > 2
                    && trimmed.strip_prefix("0x").and_then(hex::bytes).is_some() =>
                {
                    return Err(error("a key ID has 8 or 16 digits, a fingerprint 32, 40 or 64"));
                }
                None if user_id::folded(trimmed).trim().is_empty() => {
                    return Err(error(NOTHING_LEFT));
                }
                None => Self::Text(trimmed.to_owned()),
            },
        })
    }
}

/// Why a text cannot be searched.
const NOTHING_LEFT: &str = "without diacritics and invisible characters, it is empty";

/// The address in a user ID as written there, in lower case.
fn mailbox(user_id: &[u8]) -> Option<Vec<u8>> {
    address::mailbox(user_id).map(<[u8]>::to_ascii_lowercase)
}

/// A key ID or fingerprint, with or without `0x`, grouping of digits, and a trailing `!`.
fn identifier(text: &str) -> Option<Query> {
    let digits = text.strip_suffix('!').unwrap_or(text);
    let (prefixed, digits) = match digits.strip_prefix("0x").or_else(|| digits.strip_prefix("0X")) {
        Some(digits) => (true, digits),
        None => (false, digits),
    };
    let joined = if digits.contains(' ') {
        Cow::Owned(digits.replace(' ', ""))
    } else {
        Cow::Borrowed(digits)
    };
    if joined.len() != digits.len() && joined.len() < 32 {
        return None;
    }
    let bytes = hex::bytes(&joined)?;
    match bytes.len() {
        4 => Some(Query::ShortKeyId(u32::from_be_bytes(bytes.try_into().ok()?))),
        8 => Some(Query::KeyId(KeyId(u64::from_be_bytes(bytes.try_into().ok()?)))),
        16 | 20 | 32 => Some(Query::Fingerprint(bytes)),
        // Like gpg, accepts a leading zero before an ID.
        _ if prefixed => None,
        _ => None,
    }
}

impl fmt::Display for Query {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fingerprint(bytes) => Upper(bytes).fmt(f),
            Self::KeyId(id) => write!(f, "0x{id}"),
            Self::ShortKeyId(id) => write!(f, "0x{id:08X}"),
            Self::Keygrip(bytes) => {
                f.write_str("&")?;
                Upper(bytes).fmt(f)
            }
            Self::Exact(text) | Self::Identity(text) => write!(f, "={text}"),
            Self::Email(text) => write!(f, "<{text}>"),
            Self::EmailPart(text) => write!(f, "@{text}"),
            Self::EmailEnd(text) => write!(f, ".{text}"),
            Self::Substring(text) => write!(f, "*{text}"),
            Self::Text(text) => f.write_str(text),
            Self::Words(words) => write!(f, "+{}", words.join(" ")),
            Self::Spelled(words) => {
                let words: Vec<String> = words.iter().map(|word| word.join("|")).collect();
                write!(f, "+{}", words.join(" "))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn every_search_form_of_gpg_is_recognised() {
        let cases = [
            ("DEADBEEF", Query::ShortKeyId(0xdead_beef)),
            ("0xdeadbeef", Query::ShortKeyId(0xdead_beef)),
            ("0x00000000DEADBEEF!", Query::KeyId(KeyId(0xdead_beef))),
            ("=Alice <a@b>", Query::Exact("Alice <a@b>".into())),
            ("<A@B.org>", Query::Email("a@b.org".parse().unwrap())),
            ("< a@b.org> >", Query::Email("a@b.org".parse().unwrap())),
            ("@b.org", Query::EmailPart("b.org".into())),
            (".org", Query::EmailEnd("org".into())),
            ("*Ali", Query::Substring("ali".into())),
            ("Alice", Query::Text("Alice".into())),
            ("+Alice smith", Query::Words(vec!["alice".into(), "smith".into()])),
            ("beef cafe", Query::Text("beef cafe".into())),
            ("+İz", Query::Words(vec!["iz".into()])),
            ("+हिन्दी", Query::Words(vec!["हिन्दी".into()])),
            ("*STRAẞE", Query::Substring("strasse".into())),
        ];
        for (text, expected) in cases {
            assert_eq!(text.parse::<Query>().as_ref(), Ok(&expected), "{text}");
        }
        let grouped = "0123 4567 89AB CDEF 0123  4567 89AB CDEF 0123 4567";
        assert!(matches!(grouped.parse(), Ok(Query::Fingerprint(bytes)) if bytes.len() == 20));
        for bad in [
            "", "  ", "=", "*", "<", "< >", "+ - ", "&1234", "0x123456", "\u{301}", "´",
            "*\u{301}", "*´", "+\u{301}",
        ] {
            assert!(bad.parse::<Query>().is_err(), "{bad:?}");
        }
    }

    #[test]
    fn a_long_search_matches_the_whole_text_only() {
        let long = "\u{fdfa}".repeat(50_000);
        for query in [Query::Identity(long.clone()), Query::Substring(long.clone())] {
            let matcher = query.matcher();
            assert!(matcher.names_text(long.as_bytes()));
            assert!(!matcher.names_text(&long.as_bytes()[3..]));
            assert!((0..20_000).all(|n| !matcher.names_text(format!("user {n}").as_bytes())));
        }
    }

    proptest! {
        /// The text form of a search is read back as the same search.
        #[test]
        fn searches_read_back(text in "\\PC{1,40}") {
            if let Ok(query) = text.parse::<Query>() {
                prop_assert_eq!(query.to_string().parse::<Query>().unwrap(), query);
            }
        }
    }
}
