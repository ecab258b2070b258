//! Who is an operator.

use std::io::Read as _;

use crate::answer::Refusal;
use crate::config::Config;
use crate::request::{Request, Via};

/// Characters of a token of operators that are read.
const TOKEN_BYTES_MAX: u64 = 4096;

/// Refuses requests that only operators may send: those on an address for operators, from their
/// networks, and those with their token.
pub(crate) fn operators_only(config: &Config, request: &Request) -> Result<(), Refusal> {
    let client = request.client.to_canonical();
    let is_near = request.via == Via::Operator
        && config.http.operators.iter().any(|net| net.contains(&client));
    let is_ours = is_ours(request.host(), &config.server.hostname);
    if is_near && is_ours || has_token(config, request) {
        return Ok(());
    }
    if is_near {
        return Err(Refusal::Forbidden(
            "only operators may see this: use the IP address of this server, localhost or server.hostname as its name, or send the token"
                .into(),
        ));
    }
    Err(Refusal::Forbidden(
        "only operators may see this: use an address of http.operator_listen, or send their token"
            .into(),
    ))
}

/// Whether a client means this server: a browser can be led here under a name of somebody else,
/// whose page would read the answer.
fn is_ours(host: Option<&str>, hostname: &str) -> bool {
    let Some(host) = host else { return true };
    let name = match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|b| b.is_ascii_digit()) => name,
        _ => host,
    };
    let name = name.trim_start_matches('[').trim_end_matches(']');
    name.parse::<std::net::IpAddr>().is_ok()
        || name.eq_ignore_ascii_case("localhost")
        || name.eq_ignore_ascii_case(hostname)
}

/// Whether a request has the token of the operators, compared in constant time.
fn has_token(config: &Config, request: &Request) -> bool {
    let Some(path) = &config.http.operator_token_file else { return false };
    let said = request.header(http::header::AUTHORIZATION).unwrap_or_default();
    let Some(said) = said.strip_prefix("Bearer ") else { return false };
    let mut token = String::new();
    let read = std::fs::File::open(path)
        .and_then(|file| file.take(TOKEN_BYTES_MAX).read_to_string(&mut token));
    if let Err(error) = read {
        tracing::error!(%error, path = %path.display(), "cannot read the token of operators");
        return false;
    }
    let token = token.trim();
    !token.is_empty()
        && aws_lc_rs::constant_time::verify_slices_are_equal(token.as_bytes(), said.as_bytes())
            .is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_of_somebody_else_is_not_ours() {
        for ours in ["127.0.0.1:11372", "[::1]:1", "[::1]", "localhost", "Keys.Example.org:443"] {
            assert!(is_ours(Some(ours), "keys.example.org"), "{ours}");
        }
        for other in ["evil.example", "evil.example:11372", "localhost.evil.example", ""] {
            assert!(!is_ours(Some(other), "keys.example.org"), "{other}");
        }
        assert!(is_ours(None, "keys.example.org"));
    }
}
