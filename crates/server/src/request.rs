//! A request, read whole.

use std::net::IpAddr;
use std::sync::OnceLock;

use bytes::Bytes;
use http::{Method, header};

/// The kind of socket over which a request came. What a client may do beyond others depends on it,
/// and never on a header that the client writes.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Via {
    Public,
    /// Of an onion service: all of its clients have the address of this machine.
    Onion,
    /// For operators.
    Operator,
}

/// A request with its body, and where it came from.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    pub(crate) parts: http::request::Parts,
    pub(crate) body: Bytes,
    pub(crate) via: Via,
    /// Whether it came over TLS to this server.
    pub(crate) secure: bool,
    /// The address of the client, also where a proxy stands between.
    pub(crate) client: IpAddr,
    /// The parameters of the query, once somebody has asked for them.
    query: OnceLock<Parameters>,
}

impl Request {
    /// A request whose body is not read yet.
    pub(crate) fn new(parts: http::request::Parts, via: Via, secure: bool, client: IpAddr) -> Self {
        Self { parts, body: Bytes::new(), via, secure, client, query: OnceLock::new() }
    }

    pub(crate) fn method(&self) -> &Method {
        &self.parts.method
    }

    /// The path as it was sent, percent-encoded.
    pub(crate) fn path(&self) -> &str {
        self.parts.uri.path()
    }

    /// The parameters of the query, the first of each name.
    pub(crate) fn query(&self) -> &Parameters {
        self.query.get_or_init(|| {
            Parameters::parse(self.parts.uri.query().unwrap_or_default().as_bytes())
        })
    }

    /// The fields of a form in the body.
    pub(crate) fn form(&self) -> Parameters {
        Parameters::parse(&self.body)
    }

    pub(crate) fn header(&self, name: header::HeaderName) -> Option<&str> {
        self.parts.headers.get(name)?.to_str().ok()
    }

    /// The name by which the server was asked.
    pub(crate) fn host(&self) -> Option<&str> {
        self.header(header::HOST)
            .or_else(|| self.parts.uri.authority().map(http::uri::Authority::as_str))
    }

    /// Whether the client is a browser, or wants a page for another reason.
    pub(crate) fn wants_page(&self) -> bool {
        self.header(header::ACCEPT).is_some_and(|accept| accept.contains("text/html"))
    }

    /// How much the client wants a media type, in thousandths: the header `Accept` (RFC 9110,
    /// section 12.5.1). `media` has no parameters, and parameters in the header other than the
    /// weight make no difference.
    pub(crate) fn wants(&self, media: &str) -> u16 {
        let Some(accept) = self.header(header::ACCEPT) else { return 1000 };
        let kind = media.split('/').next().unwrap_or_default();
        let mut best = (0, 0);
        for range in accept.split(',') {
            let mut parts = range.split(';').map(str::trim);
            let precision = match parts.next().unwrap_or_default() {
                range if range.eq_ignore_ascii_case(media) => 3,
                range if range.strip_suffix("/*").is_some_and(|r| r.eq_ignore_ascii_case(kind)) => {
                    2
                }
                "*/*" => 1,
                _ => continue,
            };
            let weight = parts.find_map(|part| part.strip_prefix("q=")?.parse::<f32>().ok());
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "0 to 1000"
            )]
            let weight = (weight.unwrap_or(1.0).clamp(0.0, 1.0) * 1000.0) as u16;
            best = best.max((precision, weight));
        }
        best.1
    }

    /// The keyserver that passed an upload on, if it says so: the header `Via` (RFC 9110, section
    /// 7.6.3).
    pub(crate) fn passed_on_by(&self) -> Option<String> {
        self.header(header::VIA).map(str::to_owned)
    }

    /// The media type of the body, without parameters, in lower case.
    pub(crate) fn media(&self) -> String {
        let media = self.header(header::CONTENT_TYPE).unwrap_or_default();
        media.split(';').next().unwrap_or_default().trim().to_ascii_lowercase()
    }
}

/// Fields of a form or a query that are read.
const FIELDS_MAX: usize = 64;

/// Names and values, decoded: the first ones, since each takes far more memory than its bytes.
#[derive(Clone, Debug, Default)]
pub(crate) struct Parameters(Vec<(String, String)>);

impl Parameters {
    pub(crate) fn parse(bytes: &[u8]) -> Self {
        Self(form_urlencoded::parse(bytes).into_owned().take(FIELDS_MAX).collect())
    }

    /// The first value of a name.
    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    /// All values of a name.
    pub(crate) fn all(&self, name: &str) -> impl Iterator<Item = &str> {
        self.0.iter().filter(move |(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    /// Whether a switch is on: `name=on`, as HKP has it.
    pub(crate) fn is_on(&self, name: &str) -> bool {
        self.get(name).is_some_and(|value| matches!(value, "on" | "yes" | "1" | "true"))
    }

    /// Whether `options` has `option` in its list.
    pub(crate) fn option(&self, option: &str) -> bool {
        self.get("options").is_some_and(|list| list.split(',').any(|part| part.trim() == option))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_most_precise_range_of_an_accept_header_counts() {
        let wants = |accept: Option<&str>, media: &str| {
            let mut request = http::Request::builder();
            if let Some(accept) = accept {
                request = request.header(header::ACCEPT, accept);
            }
            let (parts, ()) = request.body(()).unwrap().into_parts();
            Request::new(parts, Via::Public, false, [127, 0, 0, 1].into()).wants(media)
        };
        let pgp = "application/pgp";
        for (accept, weight) in [
            (None, 1000),
            (Some(""), 0),
            (Some("*/*"), 1000),
            (Some("application/*;q=0.5, */*"), 500),
            (Some("text/html, APPLICATION/PGP ; q=0.25, */*;q=0.9"), 250),
            (Some("application/pgp-keys;armor=no"), 0),
            (Some("application/pgp;x=1;q=0, application/*"), 0),
            (Some("application/pgp;q=NaN"), 0),
            (Some("application/pgp;q=7"), 1000),
        ] {
            assert_eq!(wants(accept, pgp), weight, "{accept:?}");
        }
    }
}
