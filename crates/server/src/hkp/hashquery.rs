//! `/pks/hashquery`: certificates by digest, for gossip peers.

use std::collections::HashSet;
use std::pin::pin;
use std::sync::Arc;

use bytes::Bytes;
use futures_util::stream::{self, StreamExt as _, TryStreamExt as _};
use http::Method;
use talaria_cert::{Fingerprint, View};
use talaria_recon::{Digest, HASHQUERY_DIGESTS_MAX, decode_hashquery};

use crate::answer::{Answer, Pieces, Refusal, ok, streamed};
use crate::config::Settings;
use crate::engine::{Digested, Engine, Judging};
use crate::metrics::{Metrics, count};
use crate::request::Request;
use crate::search;

/// Bytes of certificates in one answer to a hash query; the rest is left out and asked for again.
const HASHQUERY_BYTES: u64 = 16 << 20;

/// Digests that are looked up at once.
const DIGESTS: usize = 100;

/// Answers peers that have found out what they miss.
pub(crate) struct HashQueries {
    pub(crate) settings: Settings,
    pub(crate) engine: Engine,
    pub(crate) metrics: Arc<Metrics>,
}

impl HashQueries {
    /// Answers `/pks/hashquery`: certificates by digest, as the view of the peer that knows the
    /// digest has them. Each is sent once, and unknown digests are left out.
    pub(crate) async fn answer(&self, request: &Request) -> Result<Answer, Refusal> {
        if request.method() != Method::POST {
            return Err(Refusal::Method { method: request.method().to_string(), allow: "POST" });
        }
        let mut digests = decode_hashquery(&request.body).map_err(|error| {
            Refusal::BadRequest(format!(
                "not a list of at most {HASHQUERY_DIGESTS_MAX} digests: {error}"
            ))
        })?;
        let mut asked = HashSet::new();
        digests.retain(|digest| asked.insert(*digest));
        let (engine, metrics) = (self.engine.clone(), Arc::clone(&self.metrics));
        let network = self.settings.load().rates.limited(request);
        let reply = async move || reply(engine, &metrics, &digests).await;
        self.engine.long_for(network, reply).await
    }
}

/// The certificates are found first, then read and sent one after the other. One that has changed
/// since is sent as it is; if one is gone, the answer is cut off, and the peer asks again.
async fn reply(engine: Engine, metrics: &Metrics, digests: &[Digest]) -> Result<Answer, Refusal> {
    let (mut found, mut all, mut largest) = (Vec::with_capacity(digests.len()), 0, 0);
    let mut store = engine.reading().await?;
    'all: for some in digests.chunks(DIGESTS) {
        let some: Vec<[u8; 16]> = some.iter().map(|digest| digest.0).collect();
        for Digested { view, fingerprint, length } in store.by_digests(&some).await? {
            all += length;
            if all > HASHQUERY_BYTES && !found.is_empty() {
                break 'all;
            }
            largest = length.max(largest);
            found.push((view, fingerprint));
        }
    }
    drop(store);
    count(&metrics.certs_given, found.len());
    let start = u32::try_from(found.len()).unwrap_or(u32::MAX).to_be_bytes().to_vec();
    let certs = stream::iter(found).then(move |(view, name)| {
        let engine = engine.clone();
        async move { as_in_view(&engine, view, name).await }
    });
    let end = Ok(Bytes::from_static(b"\r\n"));
    let pieces = stream::iter([Ok(start.into())]).chain(certs).chain(stream::iter([end]));
    if all > search::WHOLE_BYTES {
        let largest = usize::try_from(largest).unwrap_or(usize::MAX);
        return Ok(streamed("pgp/keys", Pieces::new(largest, pieces)));
    }
    let mut pieces = pin!(pieces);
    let mut body = Vec::new();
    while let Some(piece) = pieces.try_next().await? {
        body.extend_from_slice(&piece);
    }
    Ok(ok("pgp/keys", body))
}

/// A certificate as a view has it, after its length.
async fn as_in_view(engine: &Engine, view: View, name: Fingerprint) -> Result<Bytes, Refusal> {
    let gone = || Refusal::NotFound("a certificate was deleted meanwhile".into());
    let mut store = engine.reading().await?;
    let row = store.row(name).await?.ok_or_else(gone)?;
    let stored = store.stored(&row, Judging::Stored).await?.ok_or_else(gone)?;
    let cert = match view {
        View::Sks => stored.cert,
        _ => view.cert(&stored.cert, &stored.verdicts).ok_or_else(gone)?,
    };
    let length = u32::try_from(cert.as_bytes().len()).unwrap_or(u32::MAX);
    let mut bytes = length.to_be_bytes().to_vec();
    bytes.extend_from_slice(cert.as_bytes());
    Ok(bytes.into())
}
