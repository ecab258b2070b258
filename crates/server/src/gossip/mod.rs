//! Gossip: the sockets and timers around [`talaria_recon`], and fetching the certificates that an
//! exchange found.
//!
//! Each peer has a view, the data set that its software keeps; each view has a tree of its own. So
//! one server exchanges with SKS and with Hockeypuck at the same time.

pub(crate) mod error;
mod exchange;
mod fetch;
mod lane;
mod node;
pub(crate) mod peers;
mod software;
mod turns;

pub use peers::Origin;

pub(crate) use exchange::{greet, same_names};
pub(crate) use node::Gossip;
pub(crate) use peers::{Peers, known};
