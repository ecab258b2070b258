//! E-mail addresses in user IDs.
//!
//! A user ID may be written to imitate the address of another person. There is therefore one way to
//! read an address, `GnuPG`'s, and one way to compare addresses, [`Address`]. [`Address`] maps no
//! characters: a character that looks like another one, or that mail software drops, makes a
//! different address.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

use idna::uts46::{AsciiDenyList, DnsLength, Hyphens, Uts46};

/// Longest U-label of a domain, in bytes: 63 characters of at most 4 bytes.
const LABEL_BYTES_MAX: usize = 63 * 4;

/// An e-mail address in the form used for comparison.
///
/// ASCII letters are in lower case. A domain label that is a valid U-label (UTS 46,
/// non-transitional, with the checks of hyphens, joiners and text direction) is written as its
/// A-label, if converting it back gives the same label: `bücher.example` and
/// `xn--bcher-kva.example` are one domain. No character is mapped to another one, dropped, or taken
/// for a label separator. A label that would need such a mapping keeps its own bytes and is equal
/// only to itself. The part before the `@` keeps its bytes, except that ASCII letters are in lower
/// case.
///
/// The bytes need not be UTF-8, because user IDs need not be UTF-8.
#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Address {
    bytes: Box<[u8]>,
    /// Position of the `@`.
    at: usize,
}

/// The text is not an e-mail address.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error("{0:?} is not an e-mail address")]
pub struct AddressError(String);

impl Address {
    /// The address of a user ID, see [`mailbox`].
    #[must_use]
    pub fn of_user_id(user_id: &[u8]) -> Option<Self> {
        mailbox(user_id).map(Self::compared)
    }

    /// Reads an address that stands alone, under the rules for the text between the angle brackets
    /// of a user ID.
    #[must_use]
    pub fn of_mailbox(mailbox: &[u8]) -> Option<Self> {
        is_mailbox(mailbox).then(|| Self::compared(mailbox))
    }

    /// Brings a mailbox, which has one `@`, into the form used for comparison.
    fn compared(mailbox: &[u8]) -> Self {
        let mut bytes = mailbox.to_ascii_lowercase();
        let at = bytes.iter().position(|&byte| byte == b'@').unwrap_or_default();
        if !bytes[at..].is_ascii() {
            let domain = bytes.split_off(at + 1);
            bytes.extend(a_labels(&domain));
        }
        Self { bytes: bytes.into(), at }
    }

    /// The bytes of the address. [`Self::of_mailbox`] reads them as the same address.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The text of the address, if it is UTF-8.
    #[must_use]
    pub fn to_str(&self) -> Option<&str> {
        std::str::from_utf8(&self.bytes).ok()
    }

    /// The part before the `@`.
    #[must_use]
    pub fn local(&self) -> &[u8] {
        &self.bytes[..self.at]
    }

    /// The part after the `@`.
    #[must_use]
    pub fn domain(&self) -> &[u8] {
        &self.bytes[self.at + 1..]
    }

    /// Whether a user ID has this address.
    #[must_use]
    pub fn is_of(&self, user_id: &[u8]) -> bool {
        Self::of_user_id(user_id).is_some_and(|address| address == *self)
    }
}

impl FromStr for Address {
    type Err = AddressError;

    /// Reads an address that a user typed, with or without angle brackets.
    fn from_str(text: &str) -> Result<Self, AddressError> {
        let trimmed = text.trim();
        let inner = trimmed.strip_prefix('<').and_then(|rest| rest.strip_suffix('>'));
        let alone = inner.unwrap_or(trimmed);
        (!alone.contains('<'))
            .then(|| Self::of_mailbox(alone.as_bytes()))
            .flatten()
            .ok_or_else(|| AddressError(text.to_owned()))
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&String::from_utf8_lossy(&self.bytes))
    }
}

/// The identity in a user ID, in the form used for comparison: its [`Address`], or its whole text
/// if it has no address.
#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Addressee(Box<[u8]>);

impl Addressee {
    /// The identity in a user ID.
    #[must_use]
    pub fn of_user_id(user_id: &[u8]) -> Self {
        Self::of_gnupg_name(&gnupg_name(user_id))
    }

    /// The identity behind a name in `GnuPG`'s tofu.db, see [`gnupg_name`].
    #[must_use]
    pub fn of_gnupg_name(name: &[u8]) -> Self {
        Address::of_mailbox(name).map_or_else(|| Self(name.into()), Self::from)
    }

    /// The bytes of the identity.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

impl From<Address> for Addressee {
    fn from(address: Address) -> Self {
        Self(address.bytes)
    }
}

/// The address in a user ID, as written there: the text between the first `<` and the next `>`. A
/// user ID without `<` must be an address as a whole, under stricter rules. `None` if there is no
/// address.
///
/// The rules are those of `GnuPG` 2.2 and 2.4. In both, a byte 0 ends a user ID.
#[must_use]
pub fn mailbox(user_id: &[u8]) -> Option<&[u8]> {
    let user_id = until_zero(user_id);
    let Some(start) = position(user_id, b'<') else {
        return Some(user_id).filter(|alone| is_mailbox(alone) && is_plain(alone));
    };
    let rest = &user_id[start + 1..];
    position(rest, b'>').map(|end| &rest[..end]).filter(|inner| is_mailbox(inner))
}

/// The bytes by which `GnuPG` names a user ID in its tofu.db: the address in the user ID, or the
/// whole user ID if it has no address. ASCII letters are in lower case.
#[must_use]
pub fn gnupg_name(user_id: &[u8]) -> Vec<u8> {
    mailbox(user_id).unwrap_or_else(|| until_zero(user_id)).to_ascii_lowercase()
}

/// The form in which domains are compared, see [`Address`].
#[must_use]
pub fn compared_domain(domain: &str) -> String {
    let bytes = a_labels(domain.to_ascii_lowercase().as_bytes());
    String::from_utf8_lossy(&bytes).into_owned()
}

/// A domain with its A-labels written as U-labels. `None` if that changes nothing.
#[must_use]
pub fn unicode_domain(domain: &str) -> Option<String> {
    let labels = domain.split('.').map(|label| {
        let (found, valid) = uts46().to_unicode(label.as_bytes(), DENIED, HYPHENS);
        // A label that does not convert back belongs to another domain.
        if valid.is_ok() && a_label(found.as_bytes()).as_deref() == Some(label) {
            found
        } else {
            Cow::Borrowed(label)
        }
    });
    Some(labels.collect::<Vec<_>>().join(".")).filter(|found| found != domain)
}

/// ASCII characters that domain names cannot have: all except letters, digits and the hyphen.
const DENIED: AsciiDenyList = AsciiDenyList::STD3;

const HYPHENS: Hyphens = Hyphens::Check;

fn uts46() -> Uts46 {
    Uts46::new()
}

/// A domain in lower case, with U-labels replaced by A-labels.
fn a_labels(domain: &[u8]) -> Vec<u8> {
    let mut written = Vec::with_capacity(domain.len());
    for (at, label) in domain.split(|&byte| byte == b'.').enumerate() {
        if at > 0 {
            written.push(b'.');
        }
        match a_label(label) {
            Some(found) => written.extend(found.as_bytes()),
            None => written.extend(label),
        }
    }
    written
}

/// The A-label of a U-label. `None` for any other label.
fn a_label(label: &[u8]) -> Option<String> {
    let text = std::str::from_utf8(label).ok()?;
    if text.is_ascii() || text.len() > LABEL_BYTES_MAX {
        return None;
    }
    let found = uts46().to_ascii(label, DENIED, HYPHENS, DnsLength::Verify).ok()?;
    let (back, valid) = uts46().to_unicode(found.as_bytes(), DENIED, HYPHENS);
    (valid.is_ok() && back == text).then(|| found.into_owned())
}

fn position(bytes: &[u8], byte: u8) -> Option<usize> {
    bytes.iter().position(|&found| found == byte)
}

fn until_zero(bytes: &[u8]) -> &[u8] {
    position(bytes, 0).map_or(bytes, |end| &bytes[..end])
}

/// The part before the only `@`, and the part after it.
fn parts(mailbox: &[u8]) -> Option<(&[u8], &[u8])> {
    let mut parts = mailbox.split(|&byte| byte == b'@');
    let parts = (parts.next()?, parts.next()?, parts.next());
    parts.2.is_none().then_some((parts.0, parts.1))
}

fn has_two_dots(text: &[u8]) -> bool {
    text.windows(2).any(|pair| pair == b"..")
}

/// Whether the text is valid as an address between angle brackets.
fn is_mailbox(mailbox: &[u8]) -> bool {
    let Some((local, domain)) = parts(mailbox) else { return false };
    !local.is_empty()
        && !domain.is_empty()
        && !domain.ends_with(b".")
        && !has_two_dots(domain)
        && !mailbox.iter().any(|&byte| byte <= b' ' || byte == b'>')
}

/// Whether the address is plain enough to be recognized without angle brackets.
fn is_plain(mailbox: &[u8]) -> bool {
    let plain = |byte: &u8| *byte >= 0x80 || byte.is_ascii_alphanumeric() || b"_-.".contains(byte);
    let (local, domain) = parts(mailbox).unwrap_or_default();
    local.iter().all(|byte| plain(byte) || b"!#$%&'*+/=?^`{|}~".contains(byte))
        && domain.iter().all(plain)
        && !has_two_dots(mailbox)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn read(user_id: &str) -> Option<String> {
        Address::of_user_id(user_id.as_bytes()).map(|address| address.to_string())
    }

    #[test]
    fn addresses_in_user_ids_equal_those_of_gnupg() {
        let cases = [
            ("Alice <Alice@Example.ORG>", Some("alice@example.org")),
            ("alice@example.org", Some("alice@example.org")),
            ("Alice (work) <a+b@example.org>", Some("a+b@example.org")),
            ("Alice <alice@bank.example> <mallory@evil.example>", Some("alice@bank.example")),
            ("<alice@bank.example", None),
            ("Alice <alice at example.org> <a@example.org>", None),
            ("Alice <alice@bank@example.org>", None),
            ("Alice", None),
            ("<@example.org>", None),
            ("<alice@>", None),
            ("<alice@example.org.>", None),
            ("<alice@example..org>", None),
            ("<al..ice@example.org>", Some("al..ice@example.org")),
            ("al..ice@example.org", None),
            ("<al(x)ice@example.org>", Some("al(x)ice@example.org")),
            ("al(x)ice@example.org", None),
            ("< alice@example.org >", None),
            (" alice@example.org", None),
            ("<a<b@example.org>", Some("a<b@example.org")),
            ("alice@example.org\0<mallory@evil.example>", Some("alice@example.org")),
            ("Ünal <ünal@example.org>", Some("ünal@example.org")),
        ];
        for (user_id, expected) in cases {
            assert_eq!(read(user_id).as_deref(), expected, "{user_id}");
        }
    }

    #[test]
    fn a_user_id_without_an_address_is_named_by_its_text() {
        for (user_id, expected) in [
            ("Alice <Alice@Example.org>", "alice@example.org"),
            ("ALICE@example.org", "alice@example.org"),
            ("alice..b@example.org", "alice..b@example.org"),
            ("ALICE (x)@example.org", "alice (x)@example.org"),
            ("Alice <a@b@c> <x@y.z>", "alice <a@b@c> <x@y.z>"),
            ("Alice <alice@example.org.>", "alice <alice@example.org.>"),
            ("Example Host", "example host"),
            ("<a b@c.d>", "<a b@c.d>"),
            ("Ünal <ünal@bücher.example>", "ünal@bücher.example"),
        ] {
            assert_eq!(gnupg_name(user_id.as_bytes()), expected.as_bytes());
            let addressee = Addressee::of_user_id(user_id.as_bytes());
            assert_eq!(addressee, Addressee::of_gnupg_name(expected.as_bytes()), "{user_id}");
        }
    }

    #[test]
    fn unicode_and_punycode_domains_are_equal() {
        for (one, other) in [
            ("user@bücher.example", "user@xn--bcher-kva.example"),
            ("user@Bücher.EXAMPLE", "user@XN--Bcher-KVA.example"),
            ("user@straße.example", "user@xn--strae-oqa.example"),
            ("user@例え.example", "user@xn--r8jz45g.example"),
            ("user@a.bücher.例え", "user@a.xn--bcher-kva.xn--r8jz45g"),
        ] {
            assert_eq!(read(one), read(other));
            assert_eq!(read(one).unwrap(), other.to_ascii_lowercase());
            let domain = |text: &str| text.split_once('@').unwrap().1.to_ascii_lowercase();
            assert_eq!(compared_domain(&domain(one)), domain(other));
            assert_eq!(unicode_domain(&domain(other)), Some(domain(one)));
        }
        assert_eq!(unicode_domain("example.org"), None);
        assert_eq!(unicode_domain("xn--a.example"), None);
    }

    /// Pairs of different domains: a mapping such as that of browsers for typed addresses turns the
    /// first into the second.
    #[test]
    fn no_mapping_turns_one_domain_into_another() {
        for (attack, victim) in [
            ("support@ban\u{212a}.example", "support@bank.example"),
            ("support@ba\u{ad}nk.example", "support@bank.example"),
            ("support@bank\u{3002}example", "support@bank.example"),
            ("support@bank\u{ff0e}example", "support@bank.example"),
            ("support@\u{ff42}ank.example", "support@bank.example"),
            ("support@ban\u{200d}k.example", "support@bank.example"),
            ("support@bank\u{200b}.example", "support@bank.example"),
            ("\u{212a}im@bank.example", "kim@bank.example"),
            ("support@BÜCHER.example", "support@bücher.example"),
            ("support@bu\u{308}cher.example", "support@bücher.example"),
            ("support@b\u{fc}cher\u{ad}.example", "support@bücher.example"),
            ("support@stra\u{1e9e}e.example", "support@straße.example"),
            ("support@strasse.example", "support@straße.example"),
            ("support@b\u{430}nk.example", "support@bank.example"),
        ] {
            assert_ne!(read(attack), read(victim), "{attack}");
            assert!(read(attack).is_some(), "{attack}");
        }
    }

    #[test]
    fn bytes_that_are_not_utf_8_are_kept() {
        let latin = Address::of_user_id(b"Andr\xe9 <andr\xe9@caf\xe9.EXAMPLE>").unwrap();
        assert_eq!(latin.as_bytes(), b"andr\xe9@caf\xe9.example");
        assert_eq!(latin.to_str(), None);
        assert_ne!(
            Address::of_user_id("<andr\u{fffd}@caf\u{fffd}.example>".as_bytes()),
            Some(latin)
        );
    }

    #[test]
    fn typed_addresses_may_have_brackets() {
        let read = |text: &str| text.parse::<Address>().ok().map(|address| address.to_string());
        assert_eq!(read(" <A@b.org> ").as_deref(), Some("a@b.org"));
        assert_eq!(read("a@b.org").as_deref(), Some("a@b.org"));
        for wrong in ["Alice <a@b.org>", "<a@b.org", "a@b.org>", "b.org", "<<a@b.org>>", ""] {
            assert_eq!(read(wrong), None, "{wrong}");
        }
    }

    /// Bytes that are frequent in addresses.
    fn user_id() -> impl Strategy<Value = Vec<u8>> {
        let part = prop_oneof![
            Just(b"<".to_vec()),
            Just(b">".to_vec()),
            Just(b"@".to_vec()),
            Just(b".".to_vec()),
            "[a-zA-Z0-9-]{1,5}".prop_map(String::into_bytes),
            Just("bücher".as_bytes().to_vec()),
            Just(b"xn--bcher-kva".to_vec()),
            "\\PC{1,4}".prop_map(String::into_bytes),
            prop::collection::vec(any::<u8>(), 1..4),
        ];
        prop::collection::vec(part, 0..12).prop_map(|parts| parts.concat())
    }

    proptest! {
        #[test]
        fn an_address_written_and_read_again_is_equal(user_id in user_id()) {
            if let Some(address) = Address::of_user_id(&user_id) {
                prop_assert_eq!(Address::of_mailbox(address.as_bytes()), Some(address.clone()));
                let within = [b"<", address.as_bytes(), b">"].concat();
                prop_assert_eq!(Address::of_user_id(&within), Some(address.clone()));
                prop_assert_eq!(Addressee::from(address), Addressee::of_user_id(&user_id));
            }
            let name = gnupg_name(&user_id);
            prop_assert_eq!(Addressee::of_user_id(&user_id), Addressee::of_gnupg_name(&name));
        }

        #[test]
        fn the_case_of_ascii_letters_does_not_matter(user_id in user_id()) {
            let address = Address::of_user_id(&user_id);
            prop_assert_eq!(Address::of_user_id(&user_id.to_ascii_uppercase()), address.clone());
            prop_assert_eq!(Address::of_user_id(&user_id.to_ascii_lowercase()), address);
        }
    }
}
