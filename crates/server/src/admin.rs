//! Paths for an operator's programs: readiness and metrics.

use std::sync::Arc;

use talaria_cert::View;

use crate::answer::{Answer, Refusal, media, ok};
use crate::request::Request;
use crate::state::State;

/// Whether the store is at its place and can be read, and somebody writes to it.
pub(crate) fn ready(state: &Arc<State>) -> Result<Answer, Refusal> {
    if state.writer.has_ended() {
        return Err(Refusal::Unavailable("the server takes no more uploads".into()));
    }
    state.readers.check()?;
    let store = state.readers.get()?;
    store.last_change()?;
    Ok(ok(media::TEXT, "ready\n"))
}

/// Refuses requests that only operators may send.
pub(crate) fn operators_only(state: &State, request: &Request) -> Result<(), Refusal> {
    let config = state.config.load();
    let client = request.client.to_canonical();
    let via_onion = request.host().is_some_and(|host| host.contains(".onion"));
    if !via_onion && config.http.operators.iter().any(|net| net.contains(&client)) {
        return Ok(());
    }
    Err(Refusal::Forbidden("only operators of the server may see this".into()))
}

/// The figures of the moment: name, help, value.
#[expect(clippy::cast_precision_loss, reason = "figures for plots")]
pub(crate) fn gauges(state: &State) -> Result<Vec<(&'static str, &'static str, f64)>, Refusal> {
    let store = state.readers.get()?;
    let mut gauges = vec![
        ("certs", "Certificates in the store.", store.count()? as f64),
        ("last_change", "Number of the last change.", store.last_change()?.get() as f64),
        ("writes_waiting", "Uploads waiting for the disk.", state.writer.waiting() as f64),
        ("commits", "Transactions since the start.", state.writer.commits() as f64),
        ("uptime_seconds", "Seconds since the start.", state.started.elapsed().as_secs_f64()),
        ("resident_bytes", "Memory of the process.", resident_bytes() as f64),
    ];
    for view in state.trees.views() {
        let name = match view {
            View::Sks => "digests_sks",
            View::Hockeypuck23 => "digests_hockeypuck23",
        };
        let len = state.trees.with(view, talaria_recon::PrefixTree::len).unwrap_or(0);
        gauges.push((name, "Digests in the prefix tree of a view.", len as f64));
    }
    Ok(gauges)
}

/// Answers `/metrics`.
pub(crate) fn metrics(state: &Arc<State>, request: &Request) -> Result<Answer, Refusal> {
    operators_only(state, request)?;
    let body = state.metrics.prometheus(&gauges(state)?);
    Ok(ok("text/plain; version=0.0.4; charset=utf-8", body))
}

/// Bytes of this process that are in memory, 0 where the system does not tell.
pub(crate) fn resident_bytes() -> u64 {
    let pages = std::fs::read_to_string("/proc/self/statm").ok();
    let pages = pages.and_then(|text| text.split(' ').nth(1)?.parse::<u64>().ok());
    pages.unwrap_or(0) * 4096
}
