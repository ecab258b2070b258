//! `talaria log serve`

use std::collections::HashMap;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant};

use talaria_log::{Farewell, SessionReport};
use talaria_log_net::{Event, Peer, ServeOptions, Stop};

use super::folder::open;
use super::node;
use crate::context::{Content, Context};
use crate::error::CliError;
use crate::progress::grouped;
use crate::render::{counted, printable};
use crate::services::networks;

/// Exchange entries with other nodes, all the time
///
/// Listens, and stays connected with the named peers; new entries go to all of them at once. Both
/// sides of a connection must be published: `talaria log node publish`. Other commands can use the
/// log meanwhile. SIGTERM and SIGINT stop the node.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Address to listen on
    #[arg(long, value_name = "HOST:PORT", required_unless_present_any = ["peers", "nats"])]
    listen: Option<String>,
    /// Peer to stay connected with (can be repeated)
    #[arg(long = "peer", value_name = "HOST:PORT")]
    peers: Vec<String>,
    /// NATS server with JetStream whose stream carries entries: nats://HOST:PORT, or tls:// and
    /// with USER:PASSWORD@
    #[arg(long, value_name = "URL", env = "TALARIA_LOG_NATS", hide_env_values = true)]
    nats: Option<String>,
}

/// Time between two reports about refused connections.
const REFUSED: Duration = Duration::from_secs(60);

pub(crate) fn run(args: &Args, folder: &Path, cx: &mut Context) -> Result<ExitCode, CliError> {
    let networks = networks()?;
    let log = Arc::new(open(folder, cx)?);
    let secret = node::secret(folder)?;
    let key = secret.public();
    if log.read(|log| log.node(&key.0).is_none())? {
        cx.status(format_args!(
            "The key of this node is not published, so no peer talks to it. Publish it: talaria log node publish {key}"
        ));
    }
    if !cx.json {
        cx.status(format_args!("Serving {}.", folder.display()));
    }
    let options = ServeOptions {
        listen: args.listen.clone(),
        peers: args.peers.clone(),
        nats: args.nats.clone(),
    };
    let stop = Stop::default();
    let asked = cx.stop_flag();
    let (send, events) = mpsc::channel();
    let served = {
        let (log, stop) = (Arc::clone(&log), stop.clone());
        std::thread::spawn(move || {
            let tell = move |event| {
                // The reader may have ended.
                let _ = send.send(event);
            };
            (networks.serve_log)(log, &secret, &options, &stop, Box::new(tell))
        })
    };
    let mut reporter = Reporter { unreachable: HashMap::new(), refused: (0, None) };
    loop {
        match events.recv_timeout(Duration::from_millis(100)) {
            Ok(event) => reporter.report(&event, cx)?,
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => break,
        }
        if asked.load(Ordering::Relaxed) {
            stop.stop();
        }
    }
    let result = served.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
    result?;
    Ok(ExitCode::SUCCESS)
}

/// Says what happens, and nothing twice.
struct Reporter {
    /// The last error of each address.
    unreachable: HashMap<String, String>,
    /// Refused connections since the last report, and its time.
    refused: (u64, Option<Instant>),
}

impl Reporter {
    fn report(&mut self, event: &Event, cx: &Context) -> Result<(), CliError> {
        let (json, text) = match event {
            Event::Listening(address) => (
                serde_json::json!({ "event": "listening", "address": address.to_string() }),
                format!("Listening at {address}."),
            ),
            Event::Opened(peer) => {
                self.unreachable.remove(&peer.address);
                (with_peer("opened", peer), format!("Connected with {}.", named(peer)))
            }
            Event::Closed(peer, report, error) => {
                let mut json = with_peer("closed", peer);
                json["added"] = report.added.into();
                json["sent"] = report.sent.into();
                json["reason"] = error.as_ref().map(talaria_log_net::NetError::word).into();
                let why = error.as_ref().map(|error| format!(": {}", talaria::describe(error)));
                let text = format!(
                    "Disconnected from {} ({}){}",
                    named(peer),
                    traffic(report),
                    why.unwrap_or_else(|| ".".into())
                );
                (json, text)
            }
            Event::Unreachable(address, error, _) => {
                let why = talaria::describe(error);
                let last = self.unreachable.insert(address.clone(), why.clone());
                if last.as_ref() == Some(&why) {
                    return Ok(());
                }
                let json = serde_json::json!({
                    "event": "unreachable", "address": address, "reason": error.word(),
                });
                (json, why)
            }
            Event::Streaming(address) => {
                self.unreachable.remove(address);
                let json = serde_json::json!({ "event": "streaming", "address": address });
                (json, format!("Using the stream of {address}."))
            }
            Event::Refused(address, key, reason) => {
                let (count, last) = &mut self.refused;
                *count += 1;
                if last.is_some_and(|last| last.elapsed() < REFUSED) {
                    return Ok(());
                }
                let key = key.map(|key| key.to_string());
                let json = serde_json::json!({
                    "event": "refused", "address": address.to_string(), "key": key,
                    "reason": reason.kind(), "connections": *count,
                });
                let why = match (reason, key) {
                    (Farewell::NotPublished, Some(key)) => {
                        format!("its key {key} is not published")
                    }
                    _ => "there are too many connections".to_owned(),
                };
                let more = match *count {
                    1 => String::new(),
                    count => format!(", and {} more", grouped(count - 1)),
                };
                (*count, *last) = (0, Some(Instant::now()));
                (json, format!("Refused {address}{more}: {why}."))
            }
            // Commands that use the log beside the node are no event for its operator.
            _ => return Ok(()),
        };
        if cx.json {
            cx.report(Content::Elsewhere, &json)?;
        } else {
            cx.status(format_args!("{text}"));
        }
        Ok(())
    }
}

fn with_peer(event: &str, peer: &Peer) -> serde_json::Value {
    serde_json::json!({
        "event": event, "address": peer.address, "key": peer.key.to_string(), "name": peer.name,
        "outgoing": peer.is_outgoing,
    })
}

fn named(peer: &Peer) -> String {
    match peer.name.as_str() {
        "" => peer.address.clone(),
        name => format!("{} ({})", printable(name.as_bytes()), peer.address),
    }
}

/// The entries that went over a connection, for people.
pub(super) fn traffic(report: &SessionReport) -> String {
    format!("{} received, {} sent", counted(report.added, "entry"), grouped(report.sent))
}
