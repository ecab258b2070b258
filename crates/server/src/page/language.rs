//! The languages of the pages, and which of them a client gets.

mod english;
mod german;

pub(crate) use english::ENGLISH;
use german::GERMAN;

use http::header;

use super::texts::Texts;
use crate::request::Request;

/// The languages.
static ALL: [&Texts; 2] = [&ENGLISH, &GERMAN];

/// The texts for a request: the best accepted language, or else English.
pub(crate) fn of(request: &Request) -> &'static Texts {
    preferred(request.header(header::ACCEPT_LANGUAGE).unwrap_or_default())
}

/// RFC 9110, section 12.5.4, by the first part of the tags.
fn preferred(accept: &str) -> &'static Texts {
    let mut best: Option<(f32, &'static Texts)> = None;
    for range in accept.split(',').take(32) {
        let mut parts = range.split(';');
        let tag = parts.next().unwrap_or_default().trim();
        let language = tag.split('-').next().unwrap_or_default();
        let weight = parts
            .find_map(|part| part.trim().strip_prefix("q="))
            .map_or(1.0, |q| q.trim().parse::<f32>().unwrap_or(0.0));
        let texts = ALL.into_iter().find(|texts| texts.lang.eq_ignore_ascii_case(language));
        // Of equal ones the first, as it was written.
        if let Some(texts) = texts
            && weight > best.map_or(0.0, |(best, _)| best)
        {
            best = Some((weight, texts));
        }
    }
    best.map_or(&ENGLISH, |(_, texts)| texts)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_best_accepted_language_is_chosen() {
        let cases = [
            ("", "en"),
            ("de", "de"),
            ("de-AT, en;q=0.5", "de"),
            ("en-GB,en;q=0.9,de;q=0.8", "en"),
            ("fr, de;q=0.3", "de"),
            ("fr;q=0.9, *;q=0.1", "en"),
            ("en;q=0.2, DE;q=0.7", "de"),
            ("de;q=0", "en"),
            ("de;q=x", "en"),
        ];
        for (accept, expected) in cases {
            assert_eq!(preferred(accept).lang, expected, "{accept}");
        }
    }
}
