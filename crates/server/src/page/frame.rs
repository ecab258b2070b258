//! The client of a page, and the frame of every page: head, navigation, foot.

use std::sync::Arc;

use http::header;
use maud::{DOCTYPE, Markup, html};

use super::asset;
use super::language;
use super::texts::Texts;
use crate::answer::{Answer, media, ok, with};
use crate::config::Config;
use crate::request::Request;

/// The client of a page, and data that all pages need.
pub(crate) struct Visit<'a> {
    pub(crate) request: &'a Request,
    pub(crate) texts: &'static Texts,
    pub(crate) config: Arc<Config>,
}

impl<'a> Visit<'a> {
    pub(crate) fn new(request: &'a Request, config: Arc<Config>) -> Self {
        Self { request, texts: language::of(request), config }
    }

    /// A page as an answer.
    pub(crate) fn page(&self, title: &str, body: &Markup) -> Answer {
        let page = page(self, title, body).into_string();
        let answer = with(ok(media::HTML, page), header::CONTENT_LANGUAGE, self.texts.lang);
        let answer = with(answer, header::CACHE_CONTROL, "no-cache");
        with(answer, header::VARY, "Accept, Accept-Language")
    }
}

/// A page in its frame.
fn page(visit: &Visit<'_>, title: &str, body: &Markup) -> Markup {
    let (texts, identity) = (visit.texts, &visit.config.server);
    let path = visit.request.path();
    let links = [
        ("/", texts.nav_search),
        ("/upload", texts.nav_upload),
        ("/statistics", texts.nav_statistics),
        ("/peers", texts.nav_peers),
    ];
    html! {
        (DOCTYPE)
        html lang=(texts.lang) {
            head {
                meta charset="utf-8";
                title { (title) " – " (identity.hostname) }
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                link rel="icon" type="image/svg+xml" href=(asset::address("favicon.svg"));
                link rel="stylesheet" href=(asset::address("style.css"));
                @if !identity.colour.is_empty() {
                    link rel="stylesheet" href=(asset::colour_address(&identity.colour));
                }
                script src=(asset::address("script.js")) defer {}
            }
            body {
                a.skip href="#content" { (texts.skip) }
                header.top {
                    div.inner {
                        a.brand href="/" {
                            @if let Some(picture) = &identity.picture {
                                img src=(asset::picture_address(picture)) alt="" height="28";
                            } @else {
                                svg viewBox="0 0 32 32" width="28" height="28" aria-hidden="true" {
                                    rect width="32" height="32" rx="7" {}
                                    circle cx="11.5" cy="16" r="5" {}
                                    path d="M16.5 16H27M22 16v5M26 16v4" {}
                                }
                            }
                            span { (identity.hostname) }
                        }
                        nav aria-label=(texts.nav_label) {
                            ul {
                                @for (address, name) in links {
                                    li {
                                        a href=(address) aria-current=[(path == address).then_some("page")] {
                                            (name)
                                        }
                                    }
                                }
                            }
                        }
                    }
                }
                main #content tabindex="-1" { (body) }
                footer {
                    div.inner {
                        p { (texts.footer) }
                        @if visit.config.vks.enabled {
                            p { a href="/vks/manage" { (texts.nav_manage) } }
                        }
                        @if !identity.imprint.is_empty() || !identity.privacy.is_empty() {
                            p {
                                @if !identity.imprint.is_empty() {
                                    a href="/imprint" { (texts.imprint) }
                                }
                                @if !identity.imprint.is_empty() && !identity.privacy.is_empty() {
                                    " · "
                                }
                                @if !identity.privacy.is_empty() {
                                    a href="/privacy" { (texts.privacy) }
                                }
                            }
                        }
                        p {
                            (texts.software) " talaria " (env!("CARGO_PKG_VERSION"))
                            @if !identity.contact.is_empty() {
                                " · " (texts.contact) " " (contact(&identity.contact))
                            }
                        }
                    }
                }
            }
        }
    }
}

/// A page with a text of the operator: paragraphs, with links where a word is an address of the web
/// or of mail.
pub(super) fn operator_text(visit: &Visit<'_>, title: &str, text: &str) -> Answer {
    let text = text.replace("\r\n", "\n");
    let paragraphs = text.split("\n\n").map(str::trim).filter(|paragraph| !paragraph.is_empty());
    let body = html! {
        h1 { (title) }
        @for paragraph in paragraphs {
            p {
                @for (at, line) in paragraph.lines().enumerate() {
                    @if at > 0 { br; }
                    @for (at, word) in line.split(' ').enumerate() {
                        @if at > 0 { " " }
                        (contact(word))
                    }
                }
            }
        }
    };
    visit.page(title, &body)
}

/// The contact of the operator: a link if it is an address of a known kind.
pub(super) fn contact(contact: &str) -> Markup {
    let contact = contact.strip_prefix("mailto:").unwrap_or(contact);
    let target = if contact.starts_with("https://") || contact.starts_with("http://") {
        Some(contact.to_owned())
    } else {
        let is_mail = contact.split_once('@').is_some_and(|(local, domain)| {
            !local.is_empty() && !domain.is_empty() && !contact.contains(char::is_whitespace)
        });
        is_mail.then(|| format!("mailto:{contact}"))
    };
    html! {
        @if let Some(target) = target { a href=(target) { (contact) } } @else { (contact) }
    }
}

#[cfg(test)]
mod tests {
    use super::contact;

    #[test]
    fn a_contact_is_an_address_a_url_or_a_text() {
        for given in ["op@example.org", "mailto:op@example.org"] {
            let link = "<a href=\"mailto:op@example.org\">op@example.org</a>";
            assert_eq!(contact(given).into_string(), link);
        }
        let url = "<a href=\"https://example.org\">https://example.org</a>";
        assert_eq!(contact("https://example.org").into_string(), url);
        assert_eq!(contact("ask at the desk").into_string(), "ask at the desk");
        let escaped = contact("https://x/\"><script>").into_string();
        assert!(!escaped.contains("<script") && !escaped.contains("\"><"), "{escaped}");
    }
}
