//! Parts that several pages have: the names, the state and the times of a certificate.

use maud::{Markup, html};
use talaria_cert::{Address, KeySummary, Summary, UserIdContent, UserIdSummary, Validity, user_id};

use super::frame::Visit;
use super::text::{day, foreign};
use super::texts::Texts;

/// The user IDs of a certificate that are shown: those that its owner has bound, and confirmed
/// where that is asked for; the primary one first.
pub(crate) fn names(
    visit: &Visit<'_>,
    summary: &Summary,
    confirmed: Option<&Vec<Address>>,
) -> Vec<UserIdSummary> {
    let only = visit.config.vks.only_confirmed;
    let is_confirmed = |email: &Address| confirmed.is_some_and(|all| all.contains(email));
    let mut names: Vec<_> = summary
        .user_ids
        .iter()
        .filter(|user_id| match &user_id.content {
            UserIdContent::Text(text) => {
                user_id.created > 0
                    && (!only
                        || Address::of_user_id(text).is_some_and(|email| is_confirmed(&email)))
            }
            UserIdContent::Attribute { .. } => false,
        })
        .cloned()
        .collect();
    names.sort_by_key(|user_id| !user_id.primary);
    names
}

/// The text of a user ID.
pub(crate) fn name(user_id: &UserIdSummary) -> std::borrow::Cow<'_, str> {
    match &user_id.content {
        UserIdContent::Text(text) => user_id::text(text),
        UserIdContent::Attribute { .. } => "".into(),
    }
}

/// Algorithm and times of a key, on a line.
pub(crate) fn facts(visit: &Visit<'_>, key: &KeySummary) -> Markup {
    let texts = visit.texts;
    html! {
        dl.facts {
            div { dt { (texts.algorithm) } dd { (talaria::algorithm(key)) } }
            div { dt { (texts.created) } dd { (day(key.created)) } }
            div {
                dt { (texts.expires) }
                dd { @if key.expires == 0 { (texts.never) } @else { (day(key.expires)) } }
            }
        }
    }
}

/// A state, in words and with a sign: never by colour alone.
pub(crate) fn badge(visit: &Visit<'_>, validity: Validity) -> Markup {
    let (class, sign) = match validity {
        // No check mark: it would be read as "the name is genuine", which nobody here knows.
        Validity::Valid => ("valid", "●"),
        Validity::Expired => ("expired", "◷"),
        Validity::Revoked => ("revoked", "✕"),
        Validity::Invalid => ("invalid", "?"),
    };
    html! {
        span class={ "badge " (class) } title=[(validity == Validity::Valid).then_some(visit.texts.valid_means)] {
            span aria-hidden="true" { (sign) } " " (visit.texts.validity(validity))
        }
    }
}

/// The state of a certificate. Nothing is known about one whose signatures cannot be checked here.
pub(crate) fn state(visit: &Visit<'_>, summary: &Summary, now: u32) -> Markup {
    if summary.primary.has_known_algorithm() {
        return badge(visit, summary.state(now));
    }
    html! {
        span.badge.unchecked title=(visit.texts.not_checked_means) {
            span aria-hidden="true" { "?" } " " (visit.texts.not_checked)
        }
    }
}

/// The sign alone.
pub(crate) fn confirmed_sign() -> Markup {
    html! { span.badge.confirmed aria-hidden="true" { "✓" } }
}

/// The sign of a user ID whose address was confirmed here. It names the address if the user ID
/// could be read as that of another one: if it has more than one `@`, or letters that look like
/// others.
pub(crate) fn confirmed(texts: &Texts, user_id: &UserIdSummary) -> Markup {
    let text = name(user_id);
    let is_clear = text.is_ascii() && text.matches('@').count() == 1;
    let address = Address::of_user_id(text.as_bytes()).filter(|_| !is_clear);
    html! {
        span.badge.confirmed title=(texts.confirmed_means) {
            span aria-hidden="true" { "✓" } " " (texts.address_confirmed)
            @if let Some(address) = address { ": " (foreign(&address.to_string())) }
        }
    }
}

/// Whether somebody who reads mail to the address of a user ID confirmed it on this server: it is
/// one of the `published` addresses of the certificate.
pub(crate) fn is_confirmed(user_id: &UserIdSummary, published: &[Address], now: u32) -> bool {
    let UserIdContent::Text(text) = &user_id.content else { return false };
    user_id.validity(now) == Validity::Valid
        && Address::of_user_id(text).is_some_and(|email| published.contains(&email))
}

/// The name of this server as GnuPG takes it.
pub(crate) fn keyserver(visit: &Visit<'_>) -> String {
    let plain = |host: &&str| {
        let good = |c: char| c.is_ascii_alphanumeric() || ".:-[]".contains(c);
        !host.is_empty() && host.chars().all(good)
    };
    let host = visit.request.host().filter(plain).unwrap_or("localhost:11371");
    let forwarded = http::HeaderName::from_static("x-forwarded-proto");
    let is_secure = visit.config.http.tls_certificate.is_some()
        || visit.request.header(forwarded) == Some("https");
    let has_port = host.rsplit_once(':').is_some_and(|(_, port)| !port.contains(']'));
    match (is_secure, has_port) {
        (true, _) => format!("hkps://{host}"),
        (false, true) => format!("hkp://{host}"),
        (false, false) => format!("hkp://{host}:80"),
    }
}
