//! Certificates as answers of HKP, in armor, and the headers of both versions.

use http::header;
use talaria_cert::{enarmor, sha256};

use crate::answer::{Answer, media, ok, with};
use crate::search::Found;

/// The number of certificates in an answer.
pub(crate) const COUNT: header::HeaderName = header::HeaderName::from_static("x-hkp-results-count");

/// Says that more certificates match than the answer has.
const MORE: header::HeaderName = header::HeaderName::from_static("x-hkp-results-more");

/// Certificates in armor. Legacy clients get no others.
pub(crate) fn armored(found: &[Found]) -> Answer {
    let length = found.iter().map(|found| found.cert.as_bytes().len()).sum();
    let mut bytes = Vec::with_capacity(length);
    found.iter().for_each(|found| bytes.extend_from_slice(found.cert.as_bytes()));
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
pub(crate) fn tagged(answer: Answer, found: &[Found]) -> Answer {
    let answer = with(answer, header::CACHE_CONTROL, "no-cache");
    match found {
        [one] => {
            let digest = sha256(&[one.cert.as_bytes()]);
            let digits: String = digest[..8].iter().map(|byte| format!("{byte:02x}")).collect();
            let tag = format!("\"{digits}\"");
            with(answer, header::ETAG, &tag)
        }
        _ => answer,
    }
}
