//! Certificates as answers of HKP, in armor, and the headers of both versions.

use http::header;
use talaria_cert::merge::bytes_digest;
use talaria_cert::{Cert, enarmor};

use crate::answer::{Answer, media, ok, with};

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

/// A certificate in armor, whose octets have this digest.
pub(crate) fn armored_one(cert: &Cert, digest: [u8; 16]) -> Answer {
    with_tag(in_armor(cert.as_bytes(), 1), digest)
}

fn in_armor(bytes: &[u8], count: usize) -> Answer {
    let answer = ok(media::ARMORED, enarmor(bytes));
    let answer = with(answer, header::CONTENT_DISPOSITION, "attachment; filename=openpgp.asc");
    with(answer, COUNT, &count.to_string())
}

/// Marks an answer that has only the first of the certificates that match.
pub(crate) fn marked(answer: Answer, more: bool) -> Answer {
    if more { with(answer, MORE, "true") } else { answer }
}

/// Adds an entity tag to an answer, so that a client need not fetch it twice. The served parts depend on other
/// certificates and on settings, too, so the tag is a digest of them.
pub(crate) fn tagged(answer: Answer, found: &[Cert]) -> Answer {
    match found {
        [one] => with_tag(answer, bytes_digest(one.as_bytes())),
        _ => with(answer, header::CACHE_CONTROL, "no-cache"),
    }
}

fn with_tag(answer: Answer, digest: [u8; 16]) -> Answer {
    let first = digest.first_chunk().expect("a digest has 16 octets");
    let tag = format!("\"{:016x}\"", u64::from_be_bytes(*first));
    with(with(answer, header::CACHE_CONTROL, "no-cache"), header::ETAG, &tag)
}
