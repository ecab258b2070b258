//! Answers, and the errors that become one.

use bytes::Bytes;
use futures_util::stream::{BoxStream, Stream, StreamExt as _, TryStreamExt as _};
use http::header::{self, HeaderValue};
use http::{Response, StatusCode};
use talaria_cert::TooCostly;

use crate::engine::error::EngineError;
use crate::turns::TurnError;

/// An answer with its body, or with the function that makes the body.
pub(crate) type Answer = Response<Content>;

/// The body of an answer.
#[derive(Debug)]
pub(crate) enum Content {
    Whole(Bytes),
    /// Made while it is sent, since it may be large.
    Pieces(Pieces),
}

impl Content {
    /// The length in bytes, if it is known before all was made.
    pub(crate) fn length(&self) -> Option<usize> {
        match self {
            Self::Whole(bytes) => Some(bytes.len()),
            Self::Pieces(_) => None,
        }
    }
}

impl<T: Into<Bytes>> From<T> for Content {
    fn from(bytes: T) -> Self {
        Self::Whole(bytes.into())
    }
}

/// The pieces of a body, made one after the other, each from a snapshot of the store of its own:
/// none is held while a client takes its time.
pub(crate) struct Pieces {
    made: BoxStream<'static, Result<Bytes, Refusal>>,
    /// Bytes of the largest piece.
    largest: usize,
}

impl Pieces {
    pub(crate) fn new(
        largest: usize,
        made: impl Stream<Item = Result<Bytes, Refusal>> + Send + 'static,
    ) -> Self {
        Self { made: made.boxed(), largest }
    }

    /// The next piece, `None` at the end.
    pub(crate) async fn next(&mut self) -> Result<Option<Bytes>, Refusal> {
        self.made.try_next().await
    }

    pub(crate) fn largest(&self) -> usize {
        self.largest
    }
}

impl std::fmt::Debug for Pieces {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("Pieces").field("largest", &self.largest).finish_non_exhaustive()
    }
}

/// Media types.
pub(crate) mod media {
    pub(crate) const ARMORED: &str = "application/pgp-keys";
    pub(crate) const BINARY: &str = "application/pgp";
    /// The name of [`BINARY`] in drafts before draft-ietf-openpgp-hkp-01.
    pub(crate) const BINARY_BEFORE: &str = "application/pgp-keys;armor=no";
    pub(crate) const JSON: &str = "application/json";
    pub(crate) const TEXT: &str = "text/plain; charset=utf-8";
    pub(crate) const HTML: &str = "text/html; charset=utf-8";
    pub(crate) const BYTES: &str = "application/octet-stream";
    pub(crate) const SVG: &str = "image/svg+xml";
    pub(crate) const CSS: &str = "text/css; charset=utf-8";
    pub(crate) const SCRIPT: &str = "text/javascript; charset=utf-8";
}

/// Why a request gets no other answer.
#[derive(Clone, Debug, thiserror::Error)]
pub(crate) enum Refusal {
    /// The request makes no sense.
    #[error("{0}")]
    BadRequest(String),
    /// There is no such thing.
    #[error("{0}")]
    NotFound(String),
    /// There is something, and it is not given out or done here.
    #[error("{0}")]
    Forbidden(String),
    /// The submission is malformed.
    #[error("{0}")]
    Malformed(String),
    /// A secret key was sent, which nobody else should have.
    #[error(
        "this is a secret key: it was not kept, but it has left your computer; send only the public \
         certificate (gpg --armor --export ADDRESS), and make a new key if somebody else could read it"
    )]
    SecretKey,
    /// The method is not for this path.
    #[error("method {method} is not allowed here; allowed: {allow}")]
    Method { method: String, allow: &'static str },
    /// The method could be for this path, but is not here.
    #[error("not allowed here (allowed: {allow}): {why}")]
    Closed { allow: &'static str, why: &'static str },
    /// Too much was sent or would have to be given.
    #[error("{0}")]
    TooLarge(String),
    /// Verifying what was sent would take too much CPU time.
    #[error("{0} for one request; send fewer certificates at once")]
    TooCostly(TooCostly),
    /// The path and the query are too long.
    #[error("the path and the query of a request may have at most {max} bytes")]
    LongTarget { max: usize },
    /// Too often.
    #[error("too many requests from your network; try again in {seconds} s")]
    TooMany { seconds: u64 },
    /// It is not done by this server.
    #[error("{0}")]
    NotImplemented(String),
    /// Not now.
    #[error("{0}")]
    Unavailable(String),
    /// Others take the memory or the turns of the server.
    #[error("the server is busy; try again later")]
    Busy,
    /// The request did not arrive in time.
    #[error("the request did not arrive in time")]
    Timeout,
    /// The store failed.
    #[error("{}", of_store(.0))]
    Store(EngineError),
}

/// The failure of the store in words, without paths of this machine. The log has the cause.
fn of_store(error: &EngineError) -> &'static str {
    match error {
        EngineError::Full(_) => {
            "nothing was stored, because this server has no room left on its disk; searches still work"
        }
        EngineError::Failed(_) => {
            "the storage of this server failed: its copy is damaged, or its disk has a fault; other keyservers may have the \
             certificate, and the operator finds the cause in the log"
        }
        _ => "the store of this server is temporarily unavailable",
    }
}

impl From<EngineError> for Refusal {
    fn from(error: EngineError) -> Self {
        match error {
            EngineError::TooCostly(cost) => Self::TooCostly(cost),
            EngineError::TooLong(cause) => Self::TooLarge(cause.to_string()),
            EngineError::Closed => Self::Unavailable("the server is shutting down".into()),
            other => Self::Store(other),
        }
    }
}

impl From<TurnError> for Refusal {
    fn from(error: TurnError) -> Self {
        match error {
            TurnError::Busy => Self::Busy,
            TurnError::Failed => Self::Unavailable("the request failed inside the server".into()),
        }
    }
}

impl Refusal {
    pub(crate) fn status(&self) -> StatusCode {
        match self {
            Self::BadRequest(_) => StatusCode::BAD_REQUEST,
            Self::NotFound(_) => StatusCode::NOT_FOUND,
            Self::Forbidden(_) => StatusCode::FORBIDDEN,
            Self::Malformed(_) | Self::SecretKey => StatusCode::UNPROCESSABLE_ENTITY,
            Self::Method { .. } | Self::Closed { .. } => StatusCode::METHOD_NOT_ALLOWED,
            Self::TooLarge(_) | Self::TooCostly(_) => StatusCode::PAYLOAD_TOO_LARGE,
            Self::LongTarget { .. } => StatusCode::URI_TOO_LONG,
            Self::TooMany { .. } => StatusCode::TOO_MANY_REQUESTS,
            Self::NotImplemented(_) => StatusCode::NOT_IMPLEMENTED,
            Self::Unavailable(_) | Self::Busy => StatusCode::SERVICE_UNAVAILABLE,
            Self::Timeout => StatusCode::REQUEST_TIMEOUT,
            Self::Store(EngineError::Full(_)) => StatusCode::INSUFFICIENT_STORAGE,
            Self::Store(EngineError::Unavailable(_)) => StatusCode::SERVICE_UNAVAILABLE,
            Self::Store(_) => StatusCode::INTERNAL_SERVER_ERROR,
        }
    }

    /// Headers that go with it.
    pub(crate) fn decorate(&self, mut answer: Answer) -> Answer {
        let headers = answer.headers_mut();
        match self {
            Self::Method { allow, .. } | Self::Closed { allow, .. } => {
                headers.insert(header::ALLOW, HeaderValue::from_static(allow));
            }
            Self::TooMany { seconds } => {
                headers.insert(header::RETRY_AFTER, HeaderValue::from(*seconds));
            }
            Self::Unavailable(_) | Self::Busy => {
                headers.insert(header::RETRY_AFTER, HeaderValue::from(30));
            }
            Self::Store(error) => tracing::error!(%error, "a request failed"),
            _ => {}
        }
        answer
    }

    /// The answer as plain text, for programs.
    pub(crate) fn text(&self) -> Answer {
        self.decorate(answer(self.status(), media::TEXT, format!("{self}\n")))
    }

    /// As JSON.
    pub(crate) fn json(&self) -> Answer {
        let body = serde_json::json!({ "error": self.to_string() }).to_string();
        self.decorate(answer(self.status(), media::JSON, body))
    }
}

/// An answer with a body.
pub(crate) fn answer(status: StatusCode, media: &'static str, body: impl Into<Bytes>) -> Answer {
    let mut answer = Response::new(Content::Whole(body.into()));
    *answer.status_mut() = status;
    answer.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(media));
    answer
}

/// An answer whose body is made while it is sent.
pub(crate) fn streamed(media: &'static str, pieces: Pieces) -> Answer {
    let mut answer = ok(media, Bytes::new());
    *answer.body_mut() = Content::Pieces(pieces);
    answer
}

/// An answer with the requested data.
pub(crate) fn ok(media: &'static str, body: impl Into<Bytes>) -> Answer {
    answer(StatusCode::OK, media, body)
}

/// JSON of a value that can be written as such.
pub(crate) fn json(value: &impl serde::Serialize) -> Answer {
    ok(media::JSON, serde_json::to_vec(value).expect("a value of ours"))
}

/// Adds a header.
pub(crate) fn with(mut answer: Answer, name: header::HeaderName, value: &str) -> Answer {
    if let Ok(value) = HeaderValue::from_str(value) {
        answer.headers_mut().insert(name, value);
    }
    answer
}

/// Lets programs in browsers read the answer.
pub(crate) fn open_to_all(answer: Answer) -> Answer {
    with(answer, header::ACCESS_CONTROL_ALLOW_ORIGIN, "*")
}

/// An answer to OPTIONS.
pub(crate) fn options(allow: &'static str) -> Answer {
    let answer = with(answer(StatusCode::OK, media::TEXT, Bytes::new()), header::ALLOW, allow);
    let answer = with(answer, header::ACCESS_CONTROL_ALLOW_METHODS, allow);
    with(answer, header::ACCESS_CONTROL_ALLOW_HEADERS, "Content-Type")
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[test]
    fn only_a_passing_failure_of_the_store_is_called_temporary() {
        let cause = || Arc::new(std::io::Error::other("/var/lib/talaria/certs.db")) as _;
        for (error, status, word) in [
            (EngineError::Failed(cause()), 500, "damaged"),
            (EngineError::Full(cause()), 507, "searches still work"),
            (EngineError::Unavailable(cause()), 503, "temporarily"),
        ] {
            let refusal = Refusal::from(error);
            let text = refusal.to_string();
            assert_eq!(refusal.status().as_u16(), status);
            assert!(text.contains(word) && !text.contains("/var"), "{text}");
            assert_eq!(text.contains("temporarily"), status == 503, "{text}");
        }
    }
}
