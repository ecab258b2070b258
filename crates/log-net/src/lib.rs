//! Nodes of a log exchange entries over TLS (`docs/formats/log-sync.md`).
//!
//! [`serve`] keeps a log open, listens, and stays connected with peers and a NATS server. [`sync`]
//! exchanges once. The protocol is [`talaria_log::Session`]; this crate has the sockets, the keys
//! of nodes and the limits on connections.
//!
//! A peer is never trusted: what it sends is offered to the log like an import. Its key decides
//! only whether it may connect. The keys are in the log (`talaria log node publish`).
//!
//! ```
//! use std::sync::{Arc, mpsc};
//!
//! use talaria_log::{Action, Certificate, FolderReplica, Genesis, LogFolder, Maker, NodeKey};
//! use talaria_log_net::{Event, NodeSecret, ServeOptions, Stop, serve, sync};
//! use talaria_message::make::{GenerateOptions, Protection, generate};
//! use talaria_message::openpgp::serialize::MarshalInto as _;
//! use talaria_message::{Rules, signing_key};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let folder = tempfile::tempdir()?;
//! # let (here, there) = (folder.path().join("here"), folder.path().join("there"));
//! let now = u32::try_from(std::time::UNIX_EPOCH.elapsed()?.as_secs())?;
//! let now_ms = u64::from(now) * 1000;
//! let cert = generate(&GenerateOptions::default(), &Protection::Unprotected, now)?.cert;
//! let certificate = Certificate::minimal(&cert.to_vec()?)?;
//! let mut key = signing_key(&cert, Rules::default(), now, &mut |_, _| None)?;
//!
//! // Each node has a key in its folder.
//! std::fs::create_dir(&here)?;
//! std::fs::create_dir(&there)?;
//! let (our_secret, their_secret) = (NodeSecret::of_folder(&here)?, NodeSecret::of_folder(&there)?);
//!
//! // Alice owns a log, and publishes the keys of both nodes in it.
//! let genesis = Genesis::new(vec![certificate.clone()], 1);
//! let mut maker = Maker::new(&certificate, &mut key, [0; 16]).ok_or("not her key")?;
//! let genesis = maker.begin(genesis, now_ms)?;
//! let log = Arc::new(LogFolder::create(&here, &genesis)?);
//! for (secret, name) in [(&our_secret, "here"), (&their_secret, "there")] {
//!     let mut maker = Maker::new(&certificate, &mut key, log.instance()).ok_or("not her key")?;
//!     let node = NodeKey { key: secret.public().0, name: name.to_owned() };
//!     log.put_action(&mut maker, Action::PublishNode(node), now_ms)?;
//! }
//!
//! // The first node serves the log on a port that is free.
//! let (send, receive) = mpsc::channel();
//! let (id, public, stop) = (log.id(), our_secret.public(), Stop::default());
//! let node = std::thread::spawn({
//!     let stop = stop.clone();
//!     let options = ServeOptions { listen: Some("127.0.0.1:0".to_owned()), ..Default::default() };
//!     move || {
//!         serve(log, &our_secret, &options, &stop, move |event| {
//!             if let Event::Listening(address) = event {
//!                 let _ = send.send(address.to_string());
//!             }
//!         })
//!     }
//! });
//!
//! // The second node knows only the identity of the log and the key of the first node. It gets all entries.
//! let wanted = FolderReplica::wanted(&there, id);
//! let synced = sync(wanted, &their_secret, Some(public), &receive.recv()?, &stop)?;
//! synced.result?;
//! let copy = synced.log.ok_or("nothing came")?;
//! assert_eq!(copy.read(|log| log.len())?, 3);
//!
//! stop.stop();
//! node.join().expect("the node does not panic")?;
//! # Ok(())
//! # }
//! ```

mod connection;
mod error;
mod key;
mod nats;
mod node;
#[cfg(test)]
mod tests;
mod tls;

pub use error::NetError;
pub use key::{KeyError, NodePublic, NodeSecret};
pub use node::{Event, Peer, ServeOptions, Stop, Synced, serve, sync};

use std::time::Duration;

/// Most connections whose keys are not known yet.
pub const HANDSHAKES_MAX: usize = 64;
/// Most of them from one IPv4 address, or one IPv6 network of 64 bits.
pub const HANDSHAKES_PER_NETWORK: usize = 8;
/// Most connections of a node.
pub const CONNECTIONS_MAX: usize = 64;
/// Most connections with one key.
pub const CONNECTIONS_PER_KEY: usize = 4;
/// Bytes of entries in a message of a NATS stream. Servers allow 1 MiB by default.
pub const MESSAGE_BYTES: usize = 256 << 10;
/// Longest message of a NATS stream that is read, in bytes.
pub const MESSAGE_BYTES_MAX: usize = 1 << 20;
/// Time for a connection and its TLS handshake.
pub const CONNECT: Duration = Duration::from_secs(10);
/// Time for the last bytes of a connection.
pub const FAREWELL: Duration = Duration::from_secs(3);
/// Time before a node connects to a peer again. It doubles with each failure, up to [`RETRY_MAX`].
pub const RETRY_MIN: Duration = Duration::from_millis(500);
/// Longest time before a node connects to a peer again.
pub const RETRY_MAX: Duration = Duration::from_secs(60);
