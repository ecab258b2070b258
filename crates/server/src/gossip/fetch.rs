//! Fetching the certificates that an exchange found, by digest, in batches.

use std::io::{ErrorKind, Read as _};
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
use crate::intake::{Allowance, Lanes};
use crate::metrics::{Metrics, count};
use crate::network::Network;
use crate::submission::PacketsLeft;
use crate::turns::blocking;

/// Tries after which a digest is not asked for any more.
const TRIES: u32 = 3;

/// Seconds before the second try, and as much more before the third.
const PAUSE_S: u32 = 3600;

/// The time in which all requests of one exchange must begin, as a multiple of that for one answer.
const PATIENCE: u32 = 20;

/// Replies of full size that all peers together may have in memory. The share of a network is one
/// of them.
const REPLIES: usize = 4;

/// Replies of full size that one exchange may take, one after the other. The next exchange
/// continues.
const EXCHANGE_REPLIES: usize = 4;

/// Certificates that alone are larger than a reply may be. So many in one exchange are a failure of
/// the peer.
const OVERSIZED_MAX: usize = 2;

/// Bytes of a reply that are read at a time.
const PART_BYTES: usize = 64 << 10;

/// Bytes behind the certificates of a reply: an empty line.
const END_BYTES: usize = 2;

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
    /// The name of the peer.
    name: &'a Arc<str>,
    address: SocketAddr,
}

impl Source<'_> {
    fn url(&self) -> String {
        format!("http://{}/pks/hashquery", self.address)
    }
}

/// What the replies of one exchange have taken.
#[derive(Debug)]
struct Account {
    bytes: usize,
    bytes_max: usize,
    cpu: Allowance,
    /// Certificates that alone were larger than a reply may be.
    oversized: usize,
}

impl Account {
    fn has_bytes(&self) -> bool {
        self.bytes < self.bytes_max
    }

    fn many_bytes(&self, source: Source<'_>) -> GossipError {
        GossipError::ManyBytes { url: source.url(), max: self.bytes_max }
    }
}

/// The result of one request.
struct Asked {
    fetched: Fetched,
    /// The digests that are still missing.
    missing: Vec<Digest>,
    /// Whether the reply was larger than it may be. Only the certificates before the limit were
    /// read.
    is_cut: bool,
}

impl Fetcher {
    /// Fetches certificates and adds them. Returns the counts, the number of digests that are not
    /// requested any more, because earlier requests were in vain, and why the rest did not come.
    pub(crate) async fn all(
        &self,
        peer: &Peer,
        address: SocketAddr,
        wanted: Vec<Digest>,
    ) -> Result<(Fetched, usize, Option<GossipError>), GossipError> {
        let source = Source { peer, name: &name(peer).into(), address };
        let mut fetched = Fetched::default();
        let count_all = wanted.len();
        let wanted = {
            let (engine, peer, view) = (self.engine.clone(), name(peer), peer.view);
            let runtime = Handle::current();
            blocking(move || runtime.block_on(promising(&engine, &peer, view, wanted))).await?
        };
        let given_up = count_all - wanted.len();
        let (chunk, patience, mut account) = {
            let config = self.settings.load();
            let gossip = &config.gossip;
            let account = Account {
                bytes: 0,
                bytes_max: gossip.fetch_bytes.saturating_mul(EXCHANGE_REPLIES),
                cpu: Allowance::new(config.policy.upload_cpu()),
                oversized: 0,
            };
            let patience = Duration::from_secs(gossip.timeout_s) * PATIENCE;
            (gossip.fetch_certs.max(1), patience, account)
        };
        let deadline = Instant::now() + patience;
        // The failure of the last batch. After two of them, or one that is final, the rest is left
        // for the next exchange.
        let mut failure = None;
        for digests in wanted.chunks(chunk) {
            // The next exchange continues, and one that is running fetches what is left out here.
            if Instant::now() >= deadline {
                break;
            }
            if !account.has_bytes() {
                failure = Some(account.many_bytes(source));
                break;
            }
            let fetching = self.turns.fetch(source.name, digests);
            // Another exchange may have fetched some of them since this one compared.
            let lacking = self.lacking(peer.view, fetching.digests());
            if lacking.is_empty() {
                fetching.answered();
                continue;
            }
            match self.some(source, lacking, deadline, &mut account, &mut fetched).await {
                Ok(()) => {
                    fetching.answered();
                    failure = None;
                }
                Err(error) => {
                    let is_last = failure.is_some() || error.is_final();
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
        account: &mut Account,
        fetched: &mut Fetched,
    ) -> Result<(), GossipError> {
        let mut batches = vec![digests];
        // Whether some of the digests came.
        let mut has_come = false;
        while let Some(mut digests) = batches.pop()
            && Instant::now() < deadline
        {
            let Asked { fetched: more, missing, is_cut } =
                self.ask(source, &digests, account).await?;
            fetched.certs += more.certs;
            fetched.new += more.new;
            fetched.updated += more.updated;
            let is_in_vain = missing.len() == digests.len();
            let is_oversized = is_cut && is_in_vain && digests.len() == 1;
            account.oversized += usize::from(is_oversized);
            has_come |= !is_in_vain;
            let is_complete = missing.is_empty() && batches.is_empty();
            let failure = if account.cpu.is_exceeded() {
                Some(GossipError::TooCostly { url: source.url() })
            } else if !account.has_bytes() && !is_complete {
                if has_come {
                    // The next exchange has less to fetch.
                    return Err(account.many_bytes(source));
                }
                Some(account.many_bytes(source))
            } else {
                None
            };
            // If the peer sent everything, some certificates differ from their digests or are
            // refused here, and that does not change. If it sent nothing, it may have them the next
            // time. If it sent a part, its answers may have a limit.
            let tries = if is_oversized {
                TRIES
            } else if failure.is_some() {
                // The same digests must not end the next exchange, too. They are asked for after an
                // hour.
                1
            } else if is_cut && is_in_vain {
                // It may be in halves what it is not as a whole.
                let rest = digests.split_off(digests.len() / 2);
                batches.extend([rest, digests]);
                continue;
            } else if more.certs >= digests.len() {
                TRIES
            } else if is_in_vain {
                1
            } else {
                batches.push(missing);
                continue;
            };
            if !missing.is_empty() {
                let digests = missing.into_iter().map(|digest| digest.0).collect();
                let (peer, view) = (source.name.to_string(), source.peer.view);
                let in_vain = Note::InVain { peer, view, digests, tries };
                self.engine.note(in_vain).await.map_err(Refusal::from)?;
            }
            if let Some(failure) = failure {
                return Err(failure);
            }
            if account.oversized >= OVERSIZED_MAX {
                let max = self.settings.load().gossip.fetch_bytes;
                return Err(GossipError::LargeReply { url: source.url(), max });
            }
        }
        Ok(())
    }

    /// Requests certificates once and adds those that come.
    async fn ask(
        &self,
        source: Source<'_>,
        digests: &[Digest],
        account: &mut Account,
    ) -> Result<Asked, GossipError> {
        let config = self.settings.load_full();
        let url = source.url();
        let payer = Network::Net(config.rates.net(source.address.ip()));
        let total = config.gossip.fetch_bytes.saturating_mul(REPLIES);
        let (max, timeout_s) = (config.gossip.fetch_bytes, config.gossip.timeout_s);
        let room = self.memory.take(total, payer, 1)?;
        let (asked, count_asked) = (encode_hashquery(digests), digests.len());
        let address = url.clone();
        let posted = tokio::task::spawn_blocking(move || {
            let mut reply = Reply::new(Memory { room, total, max }, count_asked);
            let posted = reply.post(&address, &asked, timeout_s);
            (reply, posted)
        });
        let failed = |what: String| GossipError::Fetch { url: url.clone(), what };
        let (reply, posted) = posted.await.map_err(|error| failed(error.to_string()))?;
        account.bytes = account.bytes.saturating_add(reply.bytes.len());
        posted?;
        let (bytes, is_cut, room) = reply.into_parts();
        let certs = blocking(move || -> Result<Vec<Cert>, Refusal> {
            let raw = decode_hashreply(&bytes, count_asked).map_err(|error| {
                Refusal::Malformed(format!("the reply is not a list of certificates: {error}"))
            })?;
            // A certificate that cannot be read, or has too many packets, counts as missing from
            // the reply. It keeps no other certificate away: the peer may have it from somebody
            // else.
            let parse = |raw: &[u8]| {
                PacketsLeft::of(raw.len()).take(raw).ok()?;
                Cert::parse(raw).ok()
            };
            Ok(raw.into_iter().filter_map(parse).collect())
        });
        let certs = certs.await.map_err(|refusal| failed(refusal.to_string()))?;
        let came = certs.len();
        count(&self.metrics.certs_fetched, came);
        let outcomes = self.lanes.add_from_peer(source.name, certs, &mut account.cpu).await?;
        drop(room);
        self.engine.follow(None).await.map_err(Refusal::from)?;
        let missing = self.lacking(source.peer.view, digests);
        let count_of = |what| outcomes.iter().filter(|ingested| ingested.outcome == what).count();
        let (new, updated) = (count_of(IngestOutcome::New), count_of(IngestOutcome::Updated));
        Ok(Asked { fetched: Fetched { certs: came, new, updated }, missing, is_cut })
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
#[derive(Debug)]
struct Memory {
    room: Room,
    /// Bytes for all replies.
    total: usize,
    /// Bytes of this one, at most.
    max: usize,
}

/// A reply as far as it has come: the number of certificates, then each with its length before it.
#[derive(Debug)]
struct Reply {
    bytes: Vec<u8>,
    memory: Memory,
    /// The number of certificates that were asked for.
    count_asked: usize,
    /// The number of certificates that came whole, and the bytes up to the last of them.
    whole: u32,
    whole_bytes: usize,
    is_cut: bool,
}

/// Whether the next bytes of a reply are worth reading.
enum Next {
    Read,
    /// It is no list of certificates, whatever comes.
    Malformed,
    /// The next certificate goes beyond the limit.
    Large,
}

impl Reply {
    fn new(memory: Memory, count_asked: usize) -> Self {
        let (bytes, whole_bytes) = (Vec::new(), size_of::<u32>());
        Self { bytes, memory, count_asked, whole: 0, whole_bytes, is_cut: false }
    }

    /// Posts a body and reads the reply, within bounds. An endless one ends where it breaks the
    /// form or the limit. What is malformed is read up to there.
    fn post(&mut self, url: &str, body: &[u8], timeout_s: u64) -> Result<(), GossipError> {
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
        let mut part = vec![0; PART_BYTES];
        loop {
            // One byte beyond the limit tells whether there is more.
            let left = self.memory.max.saturating_sub(self.bytes.len());
            let wanted = left.clamp(1, PART_BYTES);
            let read = match answer.read(&mut part[..wanted]) {
                Ok(0) => return Ok(()),
                Ok(read) => read,
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) => return Err(failed(error.to_string())),
            };
            let next = if left == 0 { Next::Large } else { self.take(&part[..read])? };
            match next {
                Next::Read => {}
                Next::Malformed => return Ok(()),
                Next::Large => {
                    self.is_cut = true;
                    return Ok(());
                }
            }
        }
    }

    /// Takes bytes, in memory that was counted before.
    fn take(&mut self, part: &[u8]) -> Result<Next, Refusal> {
        let (length, capacity) = (self.bytes.len(), self.bytes.capacity());
        if part.len() > capacity - length {
            // It grows by half, so that it is seldom moved.
            let wanted = (capacity + (capacity / 2).max(PART_BYTES)).min(self.memory.max);
            self.memory.room.grow(self.memory.total, wanted - capacity)?;
            self.bytes.reserve_exact(wanted - length);
        }
        self.bytes.extend_from_slice(part);
        Ok(self.advance())
    }

    /// Finds the certificates that have come.
    fn advance(&mut self) -> Next {
        let int = |at: usize| {
            let bytes = self.bytes.get(at..)?.first_chunk::<4>().copied();
            bytes.map(u32::from_be_bytes)
        };
        let Some(count) = int(0) else { return Next::Read };
        if count as usize > self.count_asked {
            return Next::Malformed;
        }
        while self.whole < count {
            let Some(length) = int(self.whole_bytes) else { return Next::Read };
            let end = (self.whole_bytes + size_of::<u32>()).saturating_add(length as usize);
            if end > self.memory.max {
                return Next::Large;
            }
            if end > self.bytes.len() {
                return Next::Read;
            }
            self.whole += 1;
            self.whole_bytes = end;
        }
        if self.bytes.len() > self.whole_bytes + END_BYTES { Next::Malformed } else { Next::Read }
    }

    /// The certificates that have come whole if some were left out, or all of the reply, whether
    /// some were left out, and the memory.
    fn into_parts(mut self) -> (Vec<u8>, bool, Room) {
        if self.is_cut {
            self.bytes.resize(self.whole_bytes, 0);
            self.bytes[..size_of::<u32>()].copy_from_slice(&self.whole.to_be_bytes());
        }
        (self.bytes, self.is_cut, self.memory.room)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAX: usize = 300_000;

    fn reply(budget: &Budget, count_asked: usize) -> Reply {
        let payer = Network::Net(std::net::IpAddr::from([192, 0, 2, 1]).into());
        let room = budget.take(4 * MAX, payer, 1).unwrap();
        Reply::new(Memory { room, total: 4 * MAX, max: MAX }, count_asked)
    }

    /// A list with this number, and certificates of these bytes.
    fn list(number: u32, certs: &[&[u8]]) -> Vec<u8> {
        let mut list = number.to_be_bytes().to_vec();
        for cert in certs {
            list.extend(u32::try_from(cert.len()).unwrap().to_be_bytes());
            list.extend(*cert);
        }
        list
    }

    #[test]
    fn the_memory_of_a_reply_is_taken_before_it_is_used() {
        let budget = Budget::default();
        let mut reply = reply(&budget, 1);
        let list = list(1, &[&vec![7; MAX - 8]]);
        for part in list.chunks(1000) {
            assert!(matches!(reply.take(part), Ok(Next::Read)));
            assert!(reply.bytes.capacity() <= budget.taken(), "{}", reply.bytes.capacity());
        }
        assert!(budget.taken() <= MAX + 1);
        let (bytes, is_cut, room) = reply.into_parts();
        assert!(bytes == list && !is_cut);
        drop(room);
        assert_eq!(budget.taken(), 0);
    }

    #[test]
    fn a_reply_above_the_limit_is_cut_behind_a_certificate() {
        let budget = Budget::default();
        let mut reply = reply(&budget, 9);
        let mut large = list(3, &[b"one", b"two", &vec![0; MAX]]);
        large.truncate(100);
        assert!(matches!(reply.take(&large), Ok(Next::Large)));
        reply.is_cut = true;
        assert_eq!(reply.into_parts().0, list(2, &[b"one", b"two"]));
    }

    #[test]
    fn a_reply_that_breaks_the_form_is_not_read_on() {
        let budget = Budget::default();
        let next = |bytes: &[u8]| reply(&budget, 2).take(bytes).unwrap();
        assert!(matches!(next(&list(3, &[])), Next::Malformed));
        assert!(matches!(next(&[0; 100]), Next::Malformed));
        let whole = list(2, &[b"one", b""]);
        assert!(matches!(next(&[&whole[..], b"\r\n"].concat()), Next::Read));
        assert!(matches!(next(&[&whole[..], b"\r\n\0"].concat()), Next::Malformed));
        assert!(matches!(next(&whole[..7]), Next::Read));
    }
}
