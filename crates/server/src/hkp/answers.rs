//! Certificates as answers of HKP, in armor and without, and the headers of both versions.

use std::sync::Arc;

use bytes::Bytes;
use http::header;
use talaria_cert::merge::bytes_digest;
use talaria_cert::{Cert, enarmor};

use crate::answer::{Answer, Refusal, media, ok, streamed, with};
use crate::config::Config;
use crate::engine::{Engine, Reading, Row};
use crate::memory::{Account, holding};
use crate::request::Request;
use crate::search;

/// The number of certificates in an answer.
pub(crate) const COUNT: header::HeaderName = header::HeaderName::from_static("x-hkp-results-count");

/// Says that more certificates match than the answer has.
const MORE: header::HeaderName = header::HeaderName::from_static("x-hkp-results-more");

/// Certificates in armor. Legacy clients get no others.
pub(crate) fn armored(found: &[Cert]) -> Answer {
    if let [one] = found {
        return armored_one(one, bytes_digest(one.as_bytes()));
    }
    let length = found.iter().map(|cert| cert.as_bytes().len()).sum();
    let mut bytes = Vec::with_capacity(length);
    found.iter().for_each(|cert| bytes.extend_from_slice(cert.as_bytes()));
    tagged(in_armor(&bytes, found.len()), found)
}

/// A certificate in armor, whose bytes have this digest.
pub(crate) fn armored_one(cert: &Cert, digest: [u8; 16]) -> Answer {
    with_tag(in_armor(cert.as_bytes(), 1), digest)
}

fn in_armor(bytes: &[u8], count: usize) -> Answer {
    let answer = ok(media::ARMORED, enarmor(bytes));
    let answer = with(answer, header::CONTENT_DISPOSITION, "attachment; filename=openpgp.asc");
    with(answer, COUNT, &count.to_string())
}

/// The media type of certificates without armor that the client wants: that of
/// draft-ietf-openpgp-hkp-01, or that of earlier drafts.
pub(crate) fn binary_media(request: &Request) -> &'static str {
    let is_for_earlier = request.wants(media::ARMORED) > request.wants(media::BINARY);
    if is_for_earlier { media::BINARY_BEFORE } else { media::BINARY }
}

/// The certificates of `rows` without armor. Many are read and sent one after the other.
///
/// # Errors
///
/// [`Refusal::NotFound`] if none of them is given out.
pub(crate) async fn binary(
    engine: &Engine,
    store: &mut Reading,
    rows: &[Row],
    config: &Arc<Config>,
    account: &Account,
    media: &'static str,
) -> Result<Answer, Refusal> {
    let answer = answer_without_armor(engine, store, rows, config, account, media).await?;
    let answer = with(answer, header::VARY, "Accept");
    Ok(with(answer, header::CONTENT_DISPOSITION, "attachment; filename=openpgp.pgp"))
}

async fn answer_without_armor(
    engine: &Engine,
    store: &mut Reading,
    rows: &[Row],
    config: &Arc<Config>,
    account: &Account,
    media: &'static str,
) -> Result<Answer, Refusal> {
    let (all, largest) = search::lengths(store, rows).await?;
    if rows.len() > 1 && all > search::WHOLE_BYTES {
        let write = |cert: Option<&Cert>| {
            cert.map_or_else(Bytes::new, |cert| Bytes::copy_from_slice(cert.as_bytes()))
        };
        let largest = usize::try_from(largest).unwrap_or(usize::MAX);
        let room = account.for_pieces(largest)?;
        let pieces = search::pieces(engine, rows, largest, config, write).await?;
        let answer = with(streamed(media, pieces), header::CACHE_CONTROL, "no-cache");
        return Ok(holding(answer, room));
    }
    let room = account.for_certs(all)?;
    let found = search::found(store, rows, config).await?;
    if found.is_empty() {
        return Err(Refusal::NotFound("no certificate was found".into()));
    }
    let bytes: Vec<u8> = found.iter().flat_map(Cert::as_bytes).copied().collect();
    Ok(holding(tagged(ok(media, bytes), &found), room))
}

/// Marks an answer that has only the first of the certificates that match.
pub(crate) fn marked(answer: Answer, more: bool) -> Answer {
    if more { with(answer, MORE, "true") } else { answer }
}

/// Adds an entity tag to an answer, so that a client need not fetch it twice. The served parts
/// depend on other certificates and on settings, too, so the tag is a digest of them.
fn tagged(answer: Answer, found: &[Cert]) -> Answer {
    match found {
        [one] => with_tag(answer, bytes_digest(one.as_bytes())),
        _ => with(answer, header::CACHE_CONTROL, "no-cache"),
    }
}

fn with_tag(answer: Answer, digest: [u8; 16]) -> Answer {
    let first = digest.first_chunk().expect("a digest has 16 bytes");
    let tag = format!("\"{:016x}\"", u64::from_be_bytes(*first));
    with(with(answer, header::CACHE_CONTROL, "no-cache"), header::ETAG, &tag)
}
