//! The exchange between nodes without sockets and clocks (`docs/formats/log-sync.md`).
//!
//! A [`Session`] is one side of one connection: octets from the peer go in, octets for the peer come out. A [`Replica`] is
//! the copy of the log, and [`Fetching`] is shared by the sessions of a node, so that it does not fetch the same
//! entries from several peers. The caller
//!
//! - gives octets to [`Session::receive`] as they come,
//! - sends [`Session::output`] and reports with [`Session::sent`],
//! - calls [`Session::advance`] after each change of the log, after [`Session::sent`], and at [`Session::next_ms`] at the latest,
//! - closes the connection when [`Session::is_over`] and the output is sent, or if it cannot be sent.
//!
//! All times are in milliseconds on one clock, which need not be that of the log's entries; `wall_ms` is the latter.
//!
//! ```
//! use talaria_log::{Fetching, MemoryReplica, Mode, Session};
//! # use talaria_log::{Certificate, Genesis, Maker};
//! # use talaria_message::make::{GenerateOptions, Protection, generate};
//! # use talaria_message::openpgp::serialize::MarshalInto as _;
//! # use talaria_message::{policy, signing_key};
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let now = 1_700_000_000;
//! # let cert = generate(&GenerateOptions::default(), &Protection::Unprotected, now)?.cert;
//! # let certificate = Certificate::minimal(&cert.to_vec()?)?;
//! # let mut key = signing_key(&cert, policy(), now, &mut |_, _| None)?;
//! # let mut maker = Maker::new(&certificate, &mut key, [0; 16]).ok_or("not her key")?;
//! # let genesis = maker.begin(Genesis::new(vec![certificate.clone()], 1), u64::from(now) * 1000)?;
//! let mut full = MemoryReplica::new(&genesis)?;
//! let mut empty = MemoryReplica::empty(genesis.id);
//! let (mut here, mut there) = (Fetching::default(), Fetching::default());
//!
//! let now_ms = u64::from(now) * 1000;
//! let mut one = Session::new(genesis.id, 1, Mode::Once, now_ms);
//! let mut other = Session::new(genesis.id, 1, Mode::Stay, now_ms);
//! while !one.is_over() {
//!     let octets = one.output().to_vec();
//!     one.sent(octets.len(), now_ms);
//!     other.receive(&octets, &mut full, &mut there, now_ms, now_ms)?;
//!     let octets = other.output().to_vec();
//!     other.sent(octets.len(), now_ms);
//!     one.receive(&octets, &mut empty, &mut here, now_ms, now_ms)?;
//! }
//! assert_eq!(one.report().added, 1);
//! assert_eq!(empty.log().ok_or("nothing came")?.heads(), [genesis.id]);
//! # Ok(())
//! # }
//! ```

mod frame;
pub(crate) mod replica;
mod session;

pub use frame::{ENTRIES_OCTETS_MAX, Farewell, Frame, Took};
pub use replica::{Fetching, MemoryReplica, Replica, Taken, begin, piece};
pub use session::{Mode, Session, SessionReport, SyncError};

/// Most identities of heads that a session keeps for a peer.
pub const HEADS_KEPT_MAX: usize = 65_536;
/// Most identities in a want.
pub const WANT_MAX: usize = 65_536;
/// Most entries of one answer.
pub const LACKING_MAX: usize = 1 << 20;
/// Most entries whose deletable values are asked for at once.
pub const VALUES_MAX: usize = 8192;
/// Time before a peer that had no value is asked again, in milliseconds. It doubles up to [`VALUES_MS_MAX`].
pub const VALUES_MS: u64 = 60_000;
/// The longest such time, in milliseconds.
pub const VALUES_MS_MAX: u64 = 3_600_000;
/// Octets that are read for one piece of an answer.
pub const PIECE_OCTETS: usize = 1 << 20;
/// The next piece is made when fewer octets wait to be sent.
pub const OUTPUT_LOW: usize = 64 << 10;
/// Time until the first frame, in milliseconds.
pub const HELLO_MS: u64 = 10_000;
/// Time for a frame, in milliseconds, without that for its length: a second for each 16 KiB.
pub const FRAME_MS: u64 = 30_000;
/// Time until the next frame of an answer, in milliseconds.
pub const ANSWER_MS: u64 = 30_000;
/// Time in which a peer must read something, in milliseconds.
pub const SEND_MS: u64 = 30_000;
/// Time without any frame, in milliseconds.
pub const IDLE_MS: u64 = 60_000;
/// Time after which a node says that it is alive, in milliseconds.
pub const ALIVE_MS: u64 = 20_000;
/// Time before a want is answered again when there is nothing new, in milliseconds.
pub const REPEAT_MS: u64 = 5_000;
/// Time between two announcements, in milliseconds.
pub const ANNOUNCE_MS: u64 = 5;
/// Time in which a peer must send 64 KiB or end its answer before others are asked for the same, in milliseconds.
pub const LEASE_MS: u64 = 5_000;
/// Wants without a new entry, while announced entries are lacking, after which a session ends.
pub const FRUITLESS_MAX: u32 = 3;
/// Most frames in a second.
pub const FRAMES_MAX: u32 = 4_000;
