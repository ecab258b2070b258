//! The addresses in certificates: which of them were confirmed, which can be, and which certificate
//! is found by one.

use std::collections::{BTreeMap, HashMap};

use serde::Serialize;
use talaria_cert::{Address, Fingerprint, Summary, UserIdContent, Validity};

use crate::answer::Refusal;
use crate::clock;
use crate::config::Config;
use crate::engine::{EngineError, Reading, Row};
use crate::token::{Token, Tokens};

/// Addresses that one request asks mails for.
pub(crate) const ADDRESSES_MAX: usize = 50;

/// Bytes of an address (RFC 5321, section 4.5.3.1, with some room).
const ADDRESS_BYTES_MAX: usize = 320;

/// Facts about an address in a certificate.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Status {
    /// It is not confirmed, and the certificate is not found by it.
    Unpublished,
    /// The certificate is found by it.
    Published,
    /// Its user ID or the whole certificate is revoked.
    Revoked,
    /// A mail is on its way.
    Pending,
}

/// Facts about the addresses in a certificate.
pub(crate) type Statuses = BTreeMap<Address, Status>;

/// An address that somebody typed, or pasted with the name before it.
pub(crate) fn address(text: &str) -> Result<Address, Refusal> {
    let text = text.trim();
    let address = text.parse().ok().or_else(|| Address::of_user_id(text.as_bytes()));
    address
        .filter(is_mailable)
        .ok_or_else(|| Refusal::BadRequest("the text is not an e-mail address".into()))
}

/// Whether mail to the address surely goes to this address. A mail server may map a domain that is
/// not ASCII to another.
fn is_mailable(address: &Address) -> bool {
    address.as_bytes().len() <= ADDRESS_BYTES_MAX
        && address.domain().is_ascii()
        && address.to_str().is_some()
}

/// The certificate that is found by an address: the one that was confirmed for it, as long as the
/// user ID is not revoked. Strangers may put the address into certificates of theirs; these are
/// passed over, however many there are.
pub(crate) async fn holder(store: &mut Reading, email: &Address) -> Result<Option<Row>, Refusal> {
    let Some(row) = store.confirmed(email).await? else { return Ok(None) };
    let now = clock::now();
    let valid = row.summary.user_ids.iter().any(|user_id| match &user_id.content {
        UserIdContent::Text(text) => user_id.validity(now) == Validity::Valid && email.is_of(text),
        UserIdContent::Attribute { .. } => false,
    });
    Ok(valid.then_some(row))
}

/// Facts about the addresses in a certificate at `now`.
pub(crate) fn statuses(summary: &Summary, published: &[Address], now: u32) -> Statuses {
    let mut statuses = Statuses::new();
    let revoked = summary.state(now) == Validity::Revoked;
    for user_id in &summary.user_ids {
        let UserIdContent::Text(text) = &user_id.content else { continue };
        let Some(email) = Address::of_user_id(text).filter(is_mailable) else { continue };
        let status = match user_id.validity(now) {
            Validity::Revoked => Status::Revoked,
            Validity::Valid if revoked => Status::Revoked,
            Validity::Valid if published.contains(&email) => Status::Published,
            Validity::Valid => Status::Unpublished,
            Validity::Invalid | Validity::Expired => continue,
        };
        // Two user IDs can have one address; one that is revoked does not speak for the other.
        let known = statuses.entry(email).or_insert(status);
        if *known == Status::Revoked {
            *known = status;
        }
    }
    statuses
}

/// [`statuses`] of a certificate in the store; `None` if it is not there.
pub(crate) async fn statuses_in(
    store: &mut Reading,
    fingerprint: Fingerprint,
) -> Result<Option<Statuses>, EngineError> {
    let Some(row) = store.row(fingerprint).await? else { return Ok(None) };
    let facts = store.facts_of(fingerprint).await?;
    Ok(Some(statuses(&row.summary, &facts.published, clock::now())))
}

/// The confirmed addresses of certificates.
pub(crate) async fn confirmed(
    store: &mut Reading,
    names: Vec<Fingerprint>,
) -> Result<HashMap<Fingerprint, Vec<Address>>, EngineError> {
    let facts = store.facts(&names).await?.into_iter().map(|facts| facts.published);
    Ok(names.into_iter().zip(facts).collect())
}

/// The addresses of an uploaded certificate that can be confirmed, and a token to ask for the
/// mails. `None` if there are none.
pub(crate) fn confirmable(
    tokens: &Tokens,
    config: &Config,
    summary: &Summary,
    published: &[Address],
) -> Option<(String, Vec<Address>)> {
    if !config.vks.enabled {
        return None;
    }
    let all = statuses(summary, published, clock::now());
    let all = all.into_iter().filter(|(_, status)| *status == Status::Unpublished);
    let emails: Vec<Address> = all.map(|(email, _)| email).take(ADDRESSES_MAX).collect();
    if emails.is_empty() {
        return None;
    }
    Some((tokens.seal(&Token::Upload(summary.fingerprint())), emails))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_compared_in_lower_case_and_bounded() {
        assert_eq!(address(" Alice@Example.ORG ").unwrap().to_string(), "alice@example.org");
        assert_eq!(address("Alice <alice@example.org>").unwrap().to_string(), "alice@example.org");
        for wrong in ["", "alice", "a b@example.org", "@example.org", "support@ban\u{212a}.example"]
        {
            assert!(address(wrong).is_err(), "{wrong}");
        }
        assert!(address(&format!("{}@example.org", "x".repeat(400))).is_err());
    }
}
