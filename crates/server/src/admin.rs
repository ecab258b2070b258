//! Paths for an operator's programs: readiness and metrics.

pub(crate) mod orders;

use std::io::Read as _;
use std::sync::Arc;

use talaria_cert::View;

use crate::answer::{Answer, Refusal, media, ok};
use crate::config::Config;
use crate::figures;
use crate::request::{Request, Via};
use crate::state::State;

/// Whether the store is at its place and can be read, and somebody writes to it.
pub(crate) fn ready(state: &Arc<State>) -> Result<Answer, Refusal> {
    if state.writer.has_ended() {
        return Err(Refusal::Unavailable(
            "the server has stopped writing to its store; see its log".into(),
        ));
    }
    state.readers.check()?;
    let store = state.readers.get()?;
    store.last_change()?;
    Ok(ok(media::TEXT, "ready\n"))
}

/// Characters of a token of operators that are read.
const TOKEN_BYTES_MAX: u64 = 4096;

/// Refuses requests that only operators may send: those on an address for operators, from their
/// networks, and those with their token.
pub(crate) fn operators_only(state: &State, request: &Request) -> Result<(), Refusal> {
    let config = state.config.load();
    let client = request.client.to_canonical();
    let is_near = request.via == Via::Operator
        && config.http.operators.iter().any(|net| net.contains(&client))
        && is_ours(request.host(), &config.server.hostname);
    if is_near || has_token(&config, request) {
        return Ok(());
    }
    Err(Refusal::Forbidden(
        "only operators may see this: use an address of http.operator_listen, or send their token"
            .into(),
    ))
}

/// Whether a client means this server: a browser can be led here under a name of somebody else, whose
/// page would read the answer.
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

/// The figures of the moment: name, help, value.
#[expect(clippy::cast_precision_loss, reason = "figures for plots")]
fn gauges(state: &State) -> Result<Vec<(&'static str, &'static str, f64)>, Refusal> {
    let store = state.readers.get()?;
    let mut gauges = vec![
        ("certs", "Certificates in the store.", figures::certs_now(state)? as f64),
        ("last_change", "Number of the last change.", store.last_change()?.get() as f64),
        ("writes_waiting", "Uploads waiting for the disk.", state.writer.waiting() as f64),
        ("commits", "Transactions since the start.", state.writer.commits() as f64),
        (
            "gossip_unobtainable",
            "Certificates that a peer announced and did not deliver.",
            store.unobtainable_count()? as f64,
        ),
        ("uptime_seconds", "Seconds since the start.", state.started.elapsed().as_secs_f64()),
        ("resident_bytes", "Memory of the process.", resident_bytes() as f64),
        (
            "request_bytes",
            "Memory of requests that are being read or answered.",
            state.memory.requests.taken() as f64,
        ),
        (
            "answer_bytes",
            "Memory of answers that are not yet sent.",
            (state.memory.answers.taken() + state.memory.small_answers.taken()) as f64,
        ),
    ];
    for view in state.trees.views() {
        let name = match view {
            View::Sks => "digests_sks",
            View::Hockeypuck21 => "digests_hockeypuck21",
            View::Hockeypuck23 => "digests_hockeypuck23",
        };
        let len = state.trees.with(view, talaria_recon::PrefixTree::len).unwrap_or(0);
        gauges.push((name, "Digests in the prefix tree of a view.", len as f64));
    }
    Ok(gauges)
}

/// Answers `/metrics`.
pub(crate) async fn metrics(state: &Arc<State>, request: &Request) -> Result<Answer, Refusal> {
    operators_only(state, request)?;
    let reading = Arc::clone(state);
    let body = move || Ok(reading.metrics.prometheus(&gauges(&reading)?));
    let body = state.turns.run(body).await?;
    Ok(ok("text/plain; version=0.0.4; charset=utf-8", body))
}

/// Bytes of this process that are in memory, 0 where the system does not tell.
pub(crate) fn resident_bytes() -> u64 {
    let pages = std::fs::read_to_string("/proc/self/statm").ok();
    let pages = pages.and_then(|text| text.split(' ').nth(1)?.parse::<u64>().ok());
    pages.unwrap_or(0) * 4096
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
