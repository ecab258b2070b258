//! Answers of a service are bounded before anything parses or shows them, because nobody vouches
//! for a service.

use futures::TryStreamExt as _;
use http::header::RANGE;
use http::{Method, Request, Response};
use opendal::raw::oio::ReadStream as _;
use opendal::{Buffer, Error, ErrorKind, HttpBody, HttpTransport, HttpTransporter};

/// Bytes of one answer with names of objects. WebDAV lists a folder in one answer, with about 1 KiB
/// for each object.
pub(crate) const LISTING_BYTES_MAX: u64 = 64 << 20;
/// Bytes of a refusal that are read.
const REFUSAL_BYTES_MAX: usize = 16 << 10;

/// HTTP with bounded answers.
pub(crate) struct Bounded(HttpTransporter);

impl Bounded {
    /// The transport for all requests to services.
    pub(crate) fn transporter() -> HttpTransporter {
        opendal::install_default();
        HttpTransporter::new(Self(HttpTransporter::default()))
    }
}

impl HttpTransport for Bounded {
    async fn fetch(&self, request: Request<Buffer>) -> Result<Response<HttpBody>, Error> {
        let is_content = *request.method() == Method::GET && !lists(&request);
        let range = range_bytes(&request);
        let answer = self.0.fetch(request).await?;
        if !answer.status().is_success() {
            return refusal(answer).await;
        }
        // Whoever asks for a whole object counts its bytes.
        let limit = if is_content { range } else { Some(LISTING_BYTES_MAX) };
        Ok(match limit {
            Some(limit) => answer.map(|body| bounded(body, limit)),
            None => answer,
        })
    }
}

/// Whether a request to S3 lists objects.
fn lists(request: &Request<Buffer>) -> bool {
    let query = request.uri().query().unwrap_or_default();
    query.split('&').any(|part| part.starts_with("list-type="))
}

/// The bytes of the range that a request asks for; `None` for a whole object.
fn range_bytes(request: &Request<Buffer>) -> Option<u64> {
    let range = request.headers().get(RANGE)?.to_str().ok()?;
    let (start, end) = range.strip_prefix("bytes=")?.split_once('-')?;
    end.parse::<u64>().ok()?.checked_sub(start.parse().ok()?)?.checked_add(1)
}

fn bounded(body: HttpBody, limit: u64) -> HttpBody {
    body.map_inner(|stream| {
        let mut bytes = 0;
        Box::new(stream.and_then(move |part| {
            bytes += part.len() as u64;
            std::future::ready(if bytes > limit { Err(too_large(limit)) } else { Ok(part) })
        }))
    })
}

/// The start of a refusal, which says enough.
async fn refusal(answer: Response<HttpBody>) -> Result<Response<HttpBody>, Error> {
    let (parts, mut body) = answer.into_parts();
    let mut start = Vec::new();
    while start.len() < REFUSAL_BYTES_MAX {
        let part = body.read().await?;
        if part.is_empty() {
            break;
        }
        start.extend(part.to_vec());
    }
    start.truncate(REFUSAL_BYTES_MAX);
    let start = futures::stream::iter([Ok(Buffer::from(start))]);
    Ok(Response::from_parts(parts, HttpBody::new(start, None)))
}

fn too_large(limit: u64) -> Error {
    let why = format!("the answer has more than {limit} bytes");
    Error::new(ErrorKind::Unexpected, why).set_source(TooLarge)
}

/// The service sends more than it may. Another attempt would not help.
#[derive(Debug, thiserror::Error)]
#[error("the answer is too large")]
pub(crate) struct TooLarge;
