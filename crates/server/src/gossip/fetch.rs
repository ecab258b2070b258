//! Fetching the certificates that an exchange found, by digest, in batches.

use std::io::Read as _;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use talaria_cert::{Cert, View};
use talaria_recon::{Digest, decode_hashreply, encode_hashquery};
use tokio::runtime::Handle;

use super::error::GossipError;
use super::peers::name;
use super::turns::GossipTurns;
use crate::answer::Refusal;
use crate::budget::{Budget, Room};
use crate::clock;
use crate::config::Settings;
use crate::engine::{Engine, InVain, IngestOutcome, Note, Peer};
use crate::intake::Lanes;
use crate::metrics::{Metrics, count};
use crate::network::Network;
use crate::turns::blocking;

/// Tries after which a digest is not asked for any more.
const TRIES: u32 = 3;

/// Seconds before the second try, and as much more before the third.
const PAUSE_S: u32 = 3600;

/// The time in which all requests of one exchange must begin, as a multiple of that for one answer.
const PATIENCE: u32 = 20;

/// Replies of full size that all peers together may have in memory. The share of a network is one of them.
const REPLIES: usize = 4;

/// Octets of a reply that are read at a time.
const PART_BYTES: usize = 64 << 10;

/// The fetched certificates.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Fetched {
    pub(crate) certs: usize,
    pub(crate) new: usize,
    pub(crate) updated: usize,
}

/// Fetches certificates from peers.
#[derive(Debug)]
pub(crate) struct Fetcher {
    pub(crate) settings: Settings,
    pub(crate) engine: Engine,
    pub(crate) lanes: Arc<Lanes>,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) turns: Arc<GossipTurns>,
    /// The memory of replies, until their certificates are added.
    pub(crate) memory: Budget,
}

/// Where a peer answers requests for certificates.
#[derive(Clone, Copy, Debug)]
struct Source<'a> {
    peer: &'a Peer,
    address: SocketAddr,
}

impl Fetcher {
    /// Fetches certificates and adds them. Returns the counts, the number of digests that are not requested any more,
    /// because earlier requests were in vain, and why the rest did not come.
    pub(crate) async fn all(
        &self,
        peer: &Peer,
        address: SocketAddr,
        wanted: Vec<Digest>,
    ) -> Result<(Fetched, usize, Option<GossipError>), GossipError> {
        let source = Source { peer, address };
        let mut fetched = Fetched::default();
        let count_all = wanted.len();
        let wanted = {
            let (engine, peer, view) = (self.engine.clone(), name(peer), peer.view);
            let runtime = Handle::current();
            blocking(move || runtime.block_on(promising(&engine, &peer, view, wanted))).await?
        };
        let given_up = count_all - wanted.len();
        let (chunk, patience) = {
            let gossip = &self.settings.load().gossip;
            (gossip.fetch_certs.max(1), Duration::from_secs(gossip.timeout_s) * PATIENCE)
        };
        let deadline = Instant::now() + patience;
        // The failure of the last batch. After two of them, the rest is left for the next exchange.
        let mut failure = None;
        for digests in wanted.chunks(chunk) {
            // The next exchange continues, and one that is running fetches what is left out here.
            if Instant::now() >= deadline {
                break;
            }
            let fetching = self.turns.fetch(&name(peer), digests);
            // Another exchange may have fetched some of them since this one compared.
            let lacking = self.lacking(peer.view, fetching.digests());
            if lacking.is_empty() {
                fetching.answered();
                continue;
            }
            match self.some(source, lacking, deadline, &mut fetched).await {
                Ok(()) => {
                    fetching.answered();
                    failure = None;
                }
                Err(error) => {
                    let is_last = failure.is_some() || matches!(error, GossipError::Store(_));
                    failure = Some(error);
                    if is_last {
                        break;
                    }
                }
            }
        }
        Ok((fetched, given_up, failure))
    }

    /// Fetches one batch, in requests that begin before the deadline, and counts what comes.
    async fn some(
        &self,
        source: Source<'_>,
        digests: Vec<Digest>,
        deadline: Instant,
        fetched: &mut Fetched,
    ) -> Result<(), GossipError> {
        let mut batches = vec![digests];
        while let Some(mut digests) = batches.pop()
            && Instant::now() < deadline
        {
            let (came, missing) = match self.ask(source, &digests).await {
                // It may be in halves what it is not as a whole.
                Err(GossipError::LargeReply { .. }) if digests.len() > 1 => {
                    let rest = digests.split_off(digests.len() / 2);
                    batches.extend([rest, digests]);
                    continue;
                }
                Err(GossipError::LargeReply { .. }) => (digests.len(), digests.clone()),
                asked => {
                    let (more, missing) = asked?;
                    fetched.certs += more.certs;
                    fetched.new += more.new;
                    fetched.updated += more.updated;
                    (more.certs, missing)
                }
            };
            if missing.is_empty() {
                continue;
            }
            // If the peer sent everything, some certificates differ from their digests or are refused here, and
            // that does not change. If it sent nothing, it may have them the next time. If it sent a part, its
            // answers may have a limit.
            let tries = if came >= digests.len() {
                TRIES
            } else if missing.len() == digests.len() {
                1
            } else {
                batches.push(missing);
                continue;
            };
            let missing: Vec<[u8; 16]> = missing.into_iter().map(|digest| digest.0).collect();
            let (peer, view) = (name(source.peer), source.peer.view);
            let in_vain = Note::InVain { peer, view, digests: missing, tries };
            self.engine.note(in_vain).await.map_err(Refusal::from)?;
        }
        Ok(())
    }

    /// Requests certificates once and adds those that come. Returns the digests that are still missing.
    async fn ask(
        &self,
        source: Source<'_>,
        digests: &[Digest],
    ) -> Result<(Fetched, Vec<Digest>), GossipError> {
        let config = self.settings.load_full();
        let url = format!("http://{}/pks/hashquery", source.address);
        let payer = Network::Net(config.rates.net(source.address.ip()));
        let total = config.gossip.fetch_bytes.saturating_mul(REPLIES);
        let room = self.memory.take(total, payer, 1)?;
        let (asked, count_asked) = (encode_hashquery(digests), digests.len());
        let address = url.clone();
        let posted = tokio::task::spawn_blocking(move || {
            let (timeout_s, max) = (config.gossip.timeout_s, config.gossip.fetch_bytes);
            post(&address, &asked, timeout_s, Memory { room, total, max })
        });
        let failed = |what: String| GossipError::Fetch { url: url.clone(), what };
        let (bytes, room) = posted.await.map_err(|error| failed(error.to_string()))??;
        let certs = blocking(move || -> Result<Vec<Cert>, Refusal> {
            let raw = decode_hashreply(&bytes, count_asked).map_err(|error| {
                Refusal::Malformed(format!("the reply is not a list of certificates: {error}"))
            })?;
            // A certificate that cannot be read counts as missing from the reply.
            Ok(raw.into_iter().filter_map(|raw| Cert::parse(raw).ok()).collect())
        });
        let certs = certs.await.map_err(|refusal| failed(refusal.to_string()))?;
        let came = certs.len();
        count(&self.metrics.certs_fetched, came);
        let outcomes = self.lanes.add_from_peer(certs).await?;
        drop(room);
        self.engine.follow(None).await.map_err(Refusal::from)?;
        let missing = self.lacking(source.peer.view, digests);
        let count_of = |what| outcomes.iter().filter(|ingested| ingested.outcome == what).count();
        let (new, updated) = (count_of(IngestOutcome::New), count_of(IngestOutcome::Updated));
        Ok((Fetched { certs: came, new, updated }, missing))
    }

    /// Those of `digests` that the tree of the view does not have.
    fn lacking(&self, view: View, digests: &[Digest]) -> Vec<Digest> {
        let lacking = self.engine.with_tree(view, |tree| {
            digests.iter().filter(|digest| !tree.contains(digest)).copied().collect()
        });
        lacking.unwrap_or_else(|| digests.to_vec())
    }
}

/// The digests that are worth asking this peer for.
async fn promising(
    engine: &Engine,
    peer: &str,
    view: View,
    wanted: Vec<Digest>,
) -> Result<Vec<Digest>, Refusal> {
    let digests: Vec<[u8; 16]> = wanted.iter().map(|digest| digest.0).collect();
    let before = engine.reading().await?.in_vain(peer, view, &digests).await?;
    let now = clock::now();
    let is_promising = |before: InVain| {
        before.tries < TRIES && now.saturating_sub(before.time) >= before.tries * PAUSE_S
    };
    let wanted = wanted.into_iter().zip(before);
    let promising = wanted.filter(|(_, before)| before.is_none_or(is_promising));
    Ok(promising.map(|(digest, _)| digest).collect())
}

/// The memory for a reply.
struct Memory {
    room: Room,
    /// Octets for all replies.
    total: usize,
    /// Octets of this one, at most.
    max: usize,
}

/// Posts a body and reads the answer, within bounds.
fn post(
    url: &str,
    body: &[u8],
    timeout_s: u64,
    mut memory: Memory,
) -> Result<(Vec<u8>, Room), GossipError> {
    let agent: ureq::Agent = ureq::Agent::config_builder()
        .timeout_global(Some(Duration::from_secs(timeout_s * 5)))
        .timeout_connect(Some(Duration::from_secs(timeout_s)))
        .max_redirects(0)
        .build()
        .into();
    let failed = |what: String| GossipError::Fetch { url: url.to_owned(), what };
    let answer = agent.post(url).header("content-type", "sks/hashquery").send(body);
    let answer = answer.map_err(|error| failed(error.to_string()))?;
    let mut answer = answer.into_body().into_reader();
    let mut bytes = Vec::new();
    loop {
        let read = (&mut answer).take(PART_BYTES as u64).read_to_end(&mut bytes);
        let read = read.map_err(|error| failed(error.to_string()))?;
        if read == 0 {
            return Ok((bytes, memory.room));
        }
        if bytes.len() > memory.max {
            return Err(GossipError::LargeReply { url: url.to_owned(), max: memory.max });
        }
        memory.room.grow(memory.total, read)?;
    }
}
