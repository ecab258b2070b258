//! The keyserver: sockets around pure code.
//!
//! A request is read whole (`listen`), given to its handler (`router`), and answered from one state
//! of the store (`engine`). Uploads are prepared side by side (`intake`), and one thread of the
//! engine commits them in groups. Gossip compares prefix trees in memory, which follow the log of
//! changes.
//!
//! ```
//! use std::io::{Read as _, Write as _};
//! use std::net::TcpStream;
//!
//! use talaria_server::{Config, Server};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let folder = tempfile::tempdir()?;
//! let mut config = Config::default();
//! config.http.listen = vec!["127.0.0.1:0".parse()?];
//! // The store is made if it is not there.
//! let server = Server::start(&folder.path().join("certs.db"), config, None)?;
//! let address = server.addresses()[0];
//! let handle = server.handle();
//! let thread = std::thread::spawn(move || server.run());
//!
//! let mut client = TcpStream::connect(address)?;
//! let request = "GET /pks/lookup?op=get&search=alice@example.org HTTP/1.1";
//! write!(client, "{request}\r\nHost: {address}\r\nConnection: close\r\n\r\n")?;
//! let mut answer = String::new();
//! client.read_to_string(&mut answer)?;
//! assert!(answer.starts_with("HTTP/1.1 404"), "{answer}");
//!
//! handle.shut_down();
//! thread.join().expect("the server does not panic")?;
//! # Ok(())
//! # }
//! ```
//!
//! # Files
//!
//! Each file uses files of lower lines and nothing else. `FOLDER/*` is a folder, drawn below. A
//! test compares the drawings with the files (`crates/cli/tests/cli/architecture.rs`).
//!
//! ```text
//! server, tools, fuzz
//!     put together what runs: a server, the commands of operators, a target of the fuzzer
//! listen/*
//!     sockets, deadlines, bounds of memory
//! router
//!     the handler of a path, its cost, the headers of every answer
//! hkp/*, vks, owner, wkd, admin/*
//!     handlers: a struct each, with just what it needs
//! page/*, uploads
//!     pages; uploads from the form to the report
//! admission, gossip/*, push, outgoing
//!     which uploads are taken; peers and other keyservers; answers on their way
//! intake, figures, tally, memory, gate, mail
//!     the way into the store; counts; the memory for requests and answers, and what they cost;
//!     mails to owners of addresses
//! addresses, metrics, budget, secret
//!     confirmed addresses, metrics, memory in one sum, secret keys in uploads
//! search, token, limiter, quota, operators, submission, conditional, descriptors, error, log
//!     what is found and given out; rules for requests and mails
//! answer, config, report, audit
//!     answers and refusals, settings; what operators ordered
//! engine/*
//!     the one interface to what is kept
//! clock, turns, network, request, patient, news, notify
//!     used by all
//! ```
//!
//! ```text
//! listen/mod
//!     from a socket to an answer
//! listen/frames
//!     frames of HTTP/2 that ask for nothing
//! listen/places, listen/client, listen/body, listen/flight
//!     the places for connections; whose connection it is; the body of a request; the handshake
//!     of TLS
//! ```
//!
//! ```text
//! hkp/lookup, hkp/add, hkp/v2
//!     version 1 and 2 of HKP
//! hkp/mod, hkp/answers, hkp/hashquery, hkp/index, hkp/keytext, hkp/machine, hkp/statistics
//!     parts of their answers
//! ```
//!
//! ```text
//! page/mod
//!     paths of pages
//! page/gather, page/failure
//!     what a page shows, read before; refusals
//! page/certificate, page/search, page/upload, page/suggest, page/statistics
//! page/operator, page/verify
//!     pure pages
//! page/parts, page/peers
//!     parts of several pages
//! page/frame
//!     the frame of all, and the client
//! page/language, page/timeline
//!     the language of the client; the time line
//! page/language/english, page/language/german, page/chart, page/text
//!     texts; charts; texts of strangers
//! page/texts, page/asset, page/number, page/qr
//!     what has no parts of its own
//! ```
//!
//! ```text
//! gossip/mod
//!     what others use
//! gossip/node
//!     exchanges with all peers, both ways
//! gossip/fetch
//!     the certificates that an exchange has found
//! gossip/error, gossip/software
//!     why nothing came of it; what a peer runs
//! gossip/exchange
//!     one exchange
//! gossip/lane, gossip/peers, gossip/turns
//!     the threads of exchanges; the list of peers; who may exchange now
//! ```
//!
//! ```text
//! admin/mod, admin/orders
//!     readiness and metrics; commands of operators
//! ```
//!
//! ```text
//! engine/mod
//!     the operations; another engine is one more variant
//! engine/sqlite/mod
//!     SQLite's part: nothing else knows `talaria_store`
//! engine/sqlite/writer
//!     the thread that writes
//! engine/sqlite/reader
//!     one state of the store
//! engine/sqlite/orders, engine/sqlite/convert
//!     orders in the thread that writes; types of the store to ours and back
//! engine/order, engine/facts
//!     changes of certificates; what is kept beside them
//! engine/row
//!     certificates
//! engine/sqlite/syncer, engine/sqlite/copier
//!     the threads that put commits on the disk, and copy the log into the database
//! engine/sqlite/certified, engine/sqlite/frequencies, engine/sqlite/trees
//!     verdicts, frequencies of words, trees
//! engine/command, engine/error, engine/sqlite/opaque
//!     commands, errors; opaque types
//! ```

mod addresses;
mod admin;
mod admission;
mod answer;
mod audit;
mod budget;
mod clock;
mod conditional;
mod config;
mod descriptors;
mod engine;
mod error;
mod figures;
#[doc(hidden)]
pub mod fuzz;
mod gate;
mod gossip;
mod hkp;
mod intake;
mod limiter;
mod listen;
mod log;
mod mail;
mod memory;
mod metrics;
mod network;
mod news;
mod notify;
mod operators;
mod outgoing;
mod owner;
mod page;
mod patient;
mod push;
mod quota;
mod report;
mod request;
mod router;
mod search;
mod secret;
mod server;
mod submission;
mod tally;
mod token;
mod tools;
mod turns;
mod uploads;
mod vks;
mod wkd;

pub use audit::{AuditEntry, AuditError, Author};
pub use config::{
    Config, ConfigError, Gossip, GossipPeer, Http, Identity, Log, Picture, Policy, Push, Rate,
    Rates, Vks, Wkd,
};
pub use engine::{Access, Command, GivenUp, KeptOut, Outcome, Peer};
pub use error::{PeerError, ServeError};
pub use gossip::Origin;
pub use log::{LogGuard, start_log};
pub use server::{Server, ServerHandle};
pub use tools::{Operator, Probed, Synced, peers, probe, sync};
