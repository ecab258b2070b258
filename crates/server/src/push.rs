//! Passing uploads on to other keyservers by HKP, in the background.
//!
//! Only uploads are pushed. Certificates that come by gossip reach the other servers by gossip. A
//! queue has fingerprints; when it is a certificate's turn, the server pushes the form that it
//! serves then. Queues are in memory: certificates that still wait when the server ends are not
//! pushed.

use std::collections::{BTreeMap, HashSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use talaria_cert::{Fingerprint, ThirdParty, enarmor};
use tokio::runtime::Handle;
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::answer::Refusal;
use crate::config::{Config, Settings};
use crate::engine::Engine;
use crate::metrics::{Metrics, count};
use crate::news::{News, Newsroom};
use crate::search;

/// Certificates that wait for one target; of more, those that wait longest are left out.
const QUEUE_MAX: usize = 100_000;

/// Answers with an error of the target after which a certificate is left out.
const TRIES_MAX: u32 = 20;

/// The time between two tries while a target fails: twice as long each time.
const PAUSE_MIN: Duration = Duration::from_secs(1);
const PAUSE_MAX: Duration = Duration::from_secs(900);

/// The time limit of a target.
const TIMEOUT: Duration = Duration::from_secs(30);

/// The queue of one target.
#[derive(Debug)]
struct Target {
    queue: VecDeque<Fingerprint>,
    waiting: HashSet<Fingerprint>,
    /// The certificate that is under way, and how often the target answered it with an error.
    under_way: Option<Fingerprint>,
    tries: u32,
    /// Failures since the last success.
    failures: u32,
    not_before: Instant,
}

/// The result for one certificate.
#[derive(Debug)]
enum Delivery {
    Taken,
    /// There is nothing to give any more.
    Nothing,
    /// The target does not want it.
    Refused(u16),
    /// The target answered, but could not.
    Failed(u16),
    /// There was no answer.
    Unreachable(String),
}

/// Whether an upload with this header came from a target.
fn came_from(via: Option<&str>, target: &str) -> bool {
    let Some(authority) = authority(target) else { return false };
    let host = authority.rsplit_once(':').map_or(authority, |(host, _)| host);
    via.is_some_and(|via| {
        via.split(',')
            .filter_map(|hop| hop.split_whitespace().nth(1))
            .any(|by| by.eq_ignore_ascii_case(authority) || by.eq_ignore_ascii_case(host))
    })
}

/// Host and port of a URL.
fn authority(url: &str) -> Option<&str> {
    url.split_once("://")?.1.split('/').next()
}

impl Target {
    fn new() -> Self {
        Self {
            queue: VecDeque::new(),
            waiting: HashSet::new(),
            under_way: None,
            tries: 0,
            failures: 0,
            not_before: Instant::now(),
        }
    }

    fn push(&mut self, fingerprint: Fingerprint, target: &str) {
        if !self.waiting.insert(fingerprint) {
            return;
        }
        self.queue.push_back(fingerprint);
        if self.queue.len() > QUEUE_MAX
            && let Some(dropped) = self.queue.pop_front()
        {
            self.waiting.remove(&dropped);
            tracing::warn!(target, %dropped, "the push queue is full; a certificate was left out");
        }
    }

    /// The next certificate, if it is time for it.
    fn start(&mut self, now: Instant) -> Option<Fingerprint> {
        if self.under_way.is_some() || now < self.not_before {
            return None;
        }
        let next = self.queue.pop_front()?;
        // A change of the certificate after this point is pushed again.
        self.waiting.remove(&next);
        self.under_way = Some(next);
        Some(next)
    }

    /// Notes the result for the certificate that was under way.
    fn record_result(&mut self, delivery: &Delivery, target: &str, now: Instant) {
        let Some(fingerprint) = self.under_way.take() else { return };
        let again = match delivery {
            Delivery::Taken | Delivery::Nothing => false,
            Delivery::Refused(status) => {
                tracing::warn!(target, %fingerprint, status, "a push was refused");
                false
            }
            Delivery::Failed(status) => {
                self.tries += 1;
                tracing::warn!(target, %fingerprint, status, "a push failed");
                self.tries < TRIES_MAX
            }
            Delivery::Unreachable(error) => {
                tracing::warn!(target, error, waiting = self.queue.len() + 1, "no answer");
                true
            }
        };
        match delivery {
            Delivery::Failed(_) | Delivery::Unreachable(_) => {
                let pause = PAUSE_MIN.saturating_mul(1 << self.failures.min(16)).min(PAUSE_MAX);
                self.failures += 1;
                self.not_before = now + pause;
            }
            _ => self.failures = 0,
        }
        if again {
            if self.waiting.insert(fingerprint) {
                self.queue.push_front(fingerprint);
            }
        } else {
            self.tries = 0;
        }
    }
}

/// Pushes new certificates to the targets in the settings.
pub(crate) struct Pusher {
    pub(crate) settings: Settings,
    pub(crate) engine: Engine,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) news: Newsroom,
}

impl Pusher {
    /// Pushes new certificates until the server shuts down.
    pub(crate) fn run(self, mut down: watch::Receiver<bool>) -> impl Future<Output = ()> + Send {
        // Before the first request is answered.
        let mut news = self.news.listen();
        async move {
            let agent = agent();
            let mut targets: BTreeMap<String, Target> = BTreeMap::new();
            let mut posts: JoinSet<(String, Delivery)> = JoinSet::new();
            loop {
                let due = targets
                    .values()
                    .filter(|target| target.under_way.is_none() && !target.queue.is_empty())
                    .map(|target| target.not_before)
                    .min();
                tokio::select! {
                    _ = down.wait_for(|down| *down) => break,
                    received = news.recv() => match received {
                        Ok(news) => enqueue(&mut targets, &self.settings.load(), &news),
                        Err(RecvError::Lagged(lost)) => {
                            tracing::warn!(lost, "uploads arrived faster than the push queue could record them");
                        }
                        Err(RecvError::Closed) => break,
                    },
                    Some(Ok((name, delivery))) = posts.join_next() => {
                        if matches!(delivery, Delivery::Taken) {
                            count(&self.metrics.pushed, 1);
                        }
                        if let Some(target) = targets.get_mut(&name) {
                            target.record_result(&delivery, &name, Instant::now());
                        }
                    }
                    () = tokio::time::sleep_until(due.unwrap_or_else(Instant::now)), if due.is_some() => {}
                }
                for (name, target) in &mut targets {
                    if let Some(fingerprint) = target.start(Instant::now()) {
                        let (agent, engine) = (agent.clone(), self.engine.clone());
                        let (name, config) = (name.clone(), self.settings.load_full());
                        let runtime = Handle::current();
                        posts.spawn_blocking(move || {
                            let keytext = runtime.block_on(keytext(&engine, &config, fingerprint));
                            let delivery = match keytext {
                                Ok(Some(keytext)) => {
                                    deliver(&agent, &config, &name, fingerprint, &keytext)
                                }
                                Ok(None) => Delivery::Nothing,
                                Err(refusal) => Delivery::Unreachable(refusal.to_string()),
                            };
                            (name, delivery)
                        });
                    }
                }
            }
            let left: usize = targets.values().map(|target| target.queue.len()).sum();
            if left > 0 {
                tracing::warn!(left, "not all certificates were pushed");
            }
        }
    }
}

/// Records new certificates for each target.
fn enqueue(targets: &mut BTreeMap<String, Target>, config: &Config, news: &News) {
    targets.retain(|name, target| target.under_way.is_some() || config.push.targets.contains(name));
    for name in &config.push.targets {
        if came_from(news.via.as_deref(), name) {
            continue;
        }
        let target = targets.entry(name.clone()).or_insert_with(Target::new);
        for &fingerprint in &news.fingerprints {
            target.push(fingerprint, name);
        }
    }
}

fn agent() -> ureq::Agent {
    ureq::Agent::config_builder()
        .timeout_global(Some(TIMEOUT))
        .http_status_as_error(false)
        .user_agent(concat!("talaria/", env!("CARGO_PKG_VERSION")))
        .build()
        .into()
}

/// Gives one certificate to a target.
fn deliver(
    agent: &ureq::Agent,
    config: &Config,
    target: &str,
    fingerprint: Fingerprint,
    keytext: &str,
) -> Delivery {
    let answer = agent
        .post(format!("{}/pks/add", target.trim_end_matches('/')))
        .header("Via", format!("1.1 {} (talaria)", config.server.hostname))
        .send_form([("keytext", keytext)]);
    match answer {
        Err(error) => Delivery::Unreachable(error.to_string()),
        Ok(answer) => match answer.status().as_u16() {
            status @ 200..=299 => {
                tracing::debug!(target, %fingerprint, status, "pushed");
                Delivery::Taken
            }
            status @ (408 | 429 | 500..) => Delivery::Failed(status),
            status => Delivery::Refused(status),
        },
    }
}

/// A certificate as this server gives it out, in armor, but with all signatures of other keys: the
/// other keyserver may know their issuers.
async fn keytext(
    engine: &Engine,
    config: &Config,
    fingerprint: Fingerprint,
) -> Result<Option<String>, Refusal> {
    let mut config = config.clone();
    config.policy.third_party = ThirdParty::All;
    let mut store = engine.reading().await?;
    let Some(row) = store.row(fingerprint).await? else { return Ok(None) };
    let cert = search::served(&mut store, &row, &config).await?;
    Ok(cert.map(|cert| enarmor(cert.as_bytes())))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TARGET: &str = "http://keys.example:11371";

    fn fingerprint(n: u8) -> Fingerprint {
        Fingerprint::V4([n; 20])
    }

    #[test]
    fn a_certificate_is_not_pushed_back_to_its_source() {
        for via in ["1.1 keys.example", "1.1 KEYS.example:11371 (talaria), 1.1 proxy"] {
            assert!(came_from(Some(via), TARGET), "{via}");
        }
        for via in ["1.1 other.example", "1.1 keys.example:80", "keys.example", ""] {
            assert!(!came_from(Some(via), TARGET), "{via}");
        }
        assert!(!came_from(None, TARGET));
    }

    #[test]
    fn retries_of_a_failing_target_become_rarer() {
        let (mut target, mut now) = (Target::new(), Instant::now());
        now += PAUSE_MIN;
        target.push(fingerprint(1), TARGET);
        target.push(fingerprint(2), TARGET);
        target.push(fingerprint(1), TARGET);
        assert_eq!(target.queue.len(), 2);
        let mut pauses = Vec::new();
        for _ in 0..12 {
            assert_eq!(target.start(now), Some(fingerprint(1)));
            assert_eq!(target.start(now), None);
            target.record_result(&Delivery::Unreachable("refused".into()), TARGET, now);
            pauses.push((target.not_before - now).as_secs());
            assert_eq!(target.start(now), None);
            now = target.not_before;
        }
        assert_eq!(pauses, [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 900, 900]);
        assert_eq!(target.start(now), Some(fingerprint(1)));
        target.record_result(&Delivery::Taken, TARGET, now);
        assert_eq!(target.start(now), Some(fingerprint(2)));
        target.record_result(&Delivery::Unreachable(String::new()), TARGET, now);
        assert_eq!(target.not_before, now + PAUSE_MIN);
    }

    #[test]
    fn a_refused_certificate_does_not_block_the_queue() {
        let (mut target, mut now) = (Target::new(), Instant::now());
        target.push(fingerprint(1), TARGET);
        target.push(fingerprint(2), TARGET);
        let mut tries = 0;
        loop {
            now = now.max(target.not_before);
            if target.start(now) == Some(fingerprint(2)) {
                break;
            }
            tries += 1;
            target.record_result(&Delivery::Failed(500), TARGET, now);
        }
        assert_eq!(tries, TRIES_MAX);
        target.record_result(&Delivery::Refused(422), TARGET, now);
        assert_eq!(target.start(now), None);
    }

    #[test]
    fn a_certificate_that_changes_during_a_push_is_pushed_again() {
        let mut target = Target::new();
        let now = Instant::now();
        target.push(fingerprint(1), TARGET);
        assert_eq!(target.start(now), Some(fingerprint(1)));
        target.push(fingerprint(1), TARGET);
        target.record_result(&Delivery::Taken, TARGET, now);
        assert_eq!(target.start(now), Some(fingerprint(1)));
    }

    #[test]
    fn memory_is_bounded() {
        let mut target = Target::new();
        for n in 0..=u32::try_from(QUEUE_MAX).unwrap() + 10 {
            let mut bytes = [0; 20];
            bytes[..4].copy_from_slice(&n.to_be_bytes());
            target.push(Fingerprint::V4(bytes), TARGET);
        }
        assert_eq!((target.queue.len(), target.waiting.len()), (QUEUE_MAX, QUEUE_MAX));
    }
}
