//! The keyserver: sockets around pure code.
//!
//! A request is read whole (`listen`), given to its handler (`router`), and answered from one state of the store (`engine`).
//! Uploads are prepared side by side (`intake`), and one thread of the engine commits them in groups. Gossip compares prefix
//! trees in memory, which follow the log of changes. `ARCHITECTURE.md` draws which file uses which.

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
