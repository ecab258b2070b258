//! Files that pages load: style, script, icon. Their addresses have a version, so that browsers
//! keep them until they change.

use http::header;
use talaria_cert::merge::bytes_digest;

use crate::answer::{Answer, Refusal, media, ok, with};
use crate::config::{Identity, Picture};
use crate::request::Request;

const STYLE: &str = include_str!("style.css");
const SCRIPT: &str = include_str!("script.js");
const ICON: &str = include_str!("favicon.svg");

/// The rules for crawlers: they must not fetch certificates.
const ROBOTS: &str = "User-agent: *\nDisallow: /pks/\nDisallow: /certificate/\nDisallow: /suggest\n\
    Disallow: /operator\nAllow: /\n";

/// The version of all assets: FNV-1a over their content.
const VERSION: u64 = {
    let mut hash = 0xcbf2_9ce4_8422_2325;
    let all = [STYLE.as_bytes(), SCRIPT.as_bytes(), ICON.as_bytes()];
    let mut file = 0;
    while file < all.len() {
        let mut at = 0;
        while at < all[file].len() {
            hash = (hash ^ all[file][at] as u64).wrapping_mul(0x0100_0000_01b3);
            at += 1;
        }
        file += 1;
    }
    hash
};

/// The address of a file, with its version.
pub(crate) fn address(name: &str) -> String {
    format!("/static/{name}?v={VERSION:016x}")
}

/// The address of the style with the operator's colour. The query has the colour, so that browsers
/// keep it until it changes.
pub(crate) fn colour_address(colour: &str) -> String {
    format!("/static/colour.css?v={}", colour.trim_start_matches('#'))
}

/// The address of the operator's picture, with a version of its own.
pub(crate) fn picture_address(picture: &Picture) -> String {
    let [a, b, c, d, ..] = bytes_digest(&picture.bytes);
    format!("/static/logo?v={:08x}", u32::from_be_bytes([a, b, c, d]))
}

/// The style with the operator's colour. On a dark ground it is lighter.
fn colour(colour: &str) -> String {
    format!(
        ":root {{ --accent: {colour}; --accent-strong: color-mix(in srgb, {colour} 80%, black); }}\n\
         @media (prefers-color-scheme: dark) {{ :root {{ --accent: color-mix(in srgb, {colour} 55%, white); \
         --accent-strong: color-mix(in srgb, {colour} 40%, white); }} }}\n"
    )
}

/// Answers the paths of files; `None` if there is no such file.
pub(crate) fn answer(request: &Request, identity: &Identity) -> Option<Result<Answer, Refusal>> {
    const DAY: &str = "public, max-age=86400";
    match request.path() {
        "/static/logo" => {
            let picture = identity.picture.as_ref()?;
            let answer = ok(picture.media, picture.bytes.clone());
            return Some(Ok(with(answer, header::CACHE_CONTROL, DAY)));
        }
        "/static/colour.css" if !identity.colour.is_empty() => {
            let answer = ok(media::CSS, colour(&identity.colour));
            return Some(Ok(with(answer, header::CACHE_CONTROL, DAY)));
        }
        _ => {}
    }
    let (media, body) = match request.path() {
        "/static/style.css" => (media::CSS, STYLE),
        "/static/script.js" => (media::SCRIPT, SCRIPT),
        "/static/favicon.svg" | "/favicon.svg" | "/favicon.ico" => (media::SVG, ICON),
        "/robots.txt" => (media::TEXT, ROBOTS),
        _ => return None,
    };
    // A request with this version may be cached for ever, any other for a day.
    let current = format!("v={VERSION:016x}");
    let kept = if request.parts.uri.query() == Some(&current) {
        "public, max-age=31536000, immutable"
    } else {
        DAY
    };
    Some(Ok(with(ok(media, body), header::CACHE_CONTROL, kept)))
}
