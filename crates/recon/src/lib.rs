//! Set reconciliation as SKS and Hockeypuck speak it ("recon", gossip): two keyservers find the
//! certificates that they do not share, with little traffic.
//!
//! A server keeps the [`Digest`]s of its certificates in a [`PrefixTree`]. An [`Exchange`] compares
//! it with the tree of a peer and ends with the digests that the peer has and we have not; fetching
//! those certificates is another protocol, of which [`encode_hashquery`] and its siblings read and
//! write the bodies.
//!
//! There are no sockets here, no clock and no OpenPGP: bytes go into a [`Decoder`], messages into
//! the exchange, bytes for the peer come out of an [`Outbox`]. A caller that does not trust the
//! peer asks [`Exchange::admit`] before it reads a message whole.
//!
//! ```text
//! bytes --> Decoder --> GossipMessage --> Exchange::step --> Outbox --> bytes
//!                                         |
//!                                         +--> ExchangeOutcome
//! ```
//!
//! `docs/formats/recon.md` describes the protocol byte by byte.
//!
//! ```
//! use talaria_recon::{Decoder, Digest, Exchange, Outbox, ExchangeRole, Settings, PrefixTree};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! // We have two certificates, the peer has three.
//! let ours: PrefixTree = [1, 2].map(|n| Digest([n; 16])).into_iter().collect();
//! let theirs: PrefixTree = [1, 2, 3].map(|n| Digest([n; 16])).into_iter().collect();
//!
//! /// One end of a connection: what comes in, the state, and what is to go out.
//! struct End(Decoder, Option<Exchange>, Outbox);
//! let end = |role| {
//!     let mut outbox = Outbox::new();
//!     let exchange = Exchange::start(role, Settings::default(), 7, &mut outbox);
//!     End(Decoder::new(), Some(exchange), outbox)
//! };
//! let (mut here, mut there) = (end(ExchangeRole::Acceptor), end(ExchangeRole::Initiator));
//!
//! loop {
//!     let (sent, answered) = (here.2.take_due(), there.2.take_due());
//!     if sent.is_empty() && answered.is_empty() {
//!         break;
//!     }
//!     for (end, bytes, tree) in [(&mut here, answered, &ours), (&mut there, sent, &theirs)] {
//!         end.0.feed(&bytes);
//!         while let Some(message) = end.0.next_message()? {
//!             let Some(exchange) = end.1.take() else { break };
//!             end.1 = Some(exchange.step(message, tree, &mut end.2)?);
//!         }
//!     }
//! }
//! let outcome = here.1.and_then(Exchange::into_outcome).ok_or("it came to an end")?;
//! assert_eq!(outcome.wanted, [Digest([3; 16])]);
//! # Ok(())
//! # }
//! ```

mod decoder;
mod digest;
mod exchange;
mod field;
mod hashquery;
mod message;
mod poly;
mod prefix;
mod tree;

pub use decoder::{Decoder, Frame};
pub use digest::{Digest, DigestError};
pub use exchange::Exchange;
pub use exchange::bounds::{
    FULL_BELOW, OUTSTANDING_MAX, REPLY_DIGESTS_MAX, REQUESTS_MAX, SENT_DIGESTS_MAX,
};
pub use exchange::error::ExchangeError;
pub use exchange::greet::{ExchangeRole, FilterRule, Settings};
pub use exchange::outbox::Outbox;
pub use exchange::outcome::{Ending, ExchangeOutcome};
pub use field::{POINTS, Values, Zp};
pub use hashquery::{
    HASHQUERY_DIGESTS_MAX, decode_hashquery, decode_hashreply, encode_hashquery, encode_hashreply,
};
pub use message::{
    BIT_QUANTUM, DecodeError, GossipMessage, HANDSHAKE_BYTES_MAX, M_BAR, MESSAGE_BYTES_MAX,
    PeerConfig,
};
pub use poly::{Difference, reconcile};
pub use prefix::Prefix;
pub use tree::{Digests, LEAF_MAX, PrefixTree, Subtree};
