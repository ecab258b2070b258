//! Certificates as answers of HKP, in armor, and the headers of both versions.

use http::header;
use talaria_cert::{Cert, enarmor, sha256};

use crate::answer::{Answer, media, ok, with};

/// The number of certificates in an answer.
pub(crate) const COUNT: header::HeaderName = header::HeaderName::from_static("x-hkp-results-count");

/// Says that more certificates match than the answer has.
const MORE: header::HeaderName = header::HeaderName::from_static("x-hkp-results-more");

/// Certificates in armor. Legacy clients get no others.
pub(crate) fn armored(found: &[Cert]) -> Answer {
    let length = found.iter().map(|cert| cert.as_bytes().len()).sum();
    let mut bytes = Vec::with_capacity(length);
    found.iter().for_each(|cert| bytes.extend_from_slice(cert.as_bytes()));
    let answer = ok(media::ARMORED, enarmor(&bytes));
    let answer = with(answer, header::CONTENT_DISPOSITION, "attachment; filename=openpgp.asc");
    let answer = with(answer, COUNT, &found.len().to_string());
    tagged(answer, found)
}

/// Marks an answer that has only the first of the certificates that match.
pub(crate) fn marked(answer: Answer, more: bool) -> Answer {
    if more { with(answer, MORE, "true") } else { answer }
}

/// Adds an entity tag to an answer, so that a client need not fetch it twice. The served parts depend on other
/// certificates and on settings, too, so the tag is a digest of them.
pub(crate) fn tagged(answer: Answer, found: &[Cert]) -> Answer {
    let answer = with(answer, header::CACHE_CONTROL, "no-cache");
    match found {
        [one] => {
            let digest = sha256(&[one.as_bytes()]);
            let first = digest.first_chunk().expect("a SHA-256 has 32 octets");
            let tag = format!("\"{:016x}\"", u64::from_be_bytes(*first));
            with(answer, header::ETAG, &tag)
        }
        _ => answer,
    }
}
