//! The exchange between nodes without sockets and clocks (`docs/formats/log-sync.md`).
//!
//! A [`Session`] is one side of one connection: bytes from the peer go in, bytes for the peer come
//! out. A [`Replica`] is the copy of the log, and [`Fetching`] is shared by the sessions of a node,
//! so that it does not fetch the same entries from several peers. The caller
//!
//! - gives bytes to [`Session::receive`] as they come,
//! - sends [`Session::output`] and reports with [`Session::sent`],
//! - calls [`Session::advance`] after each change of the log, after [`Session::sent`], and at
//!   [`Session::next_ms`] at the latest,
//! - closes the connection when [`Session::is_over`] and the output is sent, or if it cannot be
//!   sent.
//!
//! All times are in milliseconds on one clock, which need not be that of the log's entries;
//! `wall_ms` is the latter.
//!
//! ```
//! use talaria_log::{Fetching, MemoryReplica, Mode, Session};
//! # use talaria_log::{Certificate, Genesis, Maker};
//! # use talaria_message::make::{GenerateOptions, Protection, generate};
//! # use talaria_message::openpgp::serialize::MarshalInto as _;
//! # use talaria_message::{Rules, signing_key};
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let now = 1_700_000_000;
//! # let cert = generate(&GenerateOptions::default(), &Protection::Unprotected, now)?.cert;
//! # let certificate = Certificate::minimal(&cert.to_vec()?)?;
//! # let mut key = signing_key(&cert, Rules::default(), now, &mut |_, _| None)?;
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
//!     let bytes = one.output().to_vec();
//!     one.sent(bytes.len(), now_ms);
//!     other.receive(&bytes, &mut full, &mut there, now_ms, now_ms)?;
//!     let bytes = other.output().to_vec();
//!     other.sent(bytes.len(), now_ms);
//!     one.receive(&bytes, &mut empty, &mut here, now_ms, now_ms)?;
//! }
//! assert_eq!(one.report().added, 1);
//! assert_eq!(empty.log().ok_or("nothing came")?.heads(), [genesis.id]);
//! # Ok(())
//! # }
//! ```

mod frame;
pub(crate) mod limits;
mod open;
pub(crate) mod replica;
mod report;
mod session;

pub use frame::{ENTRIES_BYTES_MAX, Farewell, Frame, Took};
pub use limits::{
    ALIVE_MS, ANNOUNCE_MS, ANSWER_MS, FRAME_MS, FRAMES_MAX, FRUITLESS_MAX, HEADS_KEPT_MAX,
    HELLO_MS, IDLE_MS, LACKING_MAX, LEASE_MS, OUTPUT_LOW, PIECE_BYTES, REPEAT_MS, SEND_MS,
    VALUES_MAX, VALUES_MS, VALUES_MS_MAX, WANT_MAX,
};
pub use replica::{Fetching, MemoryReplica, Replica, Taken, begin, piece};
pub use report::{SessionReport, SyncError};
pub use session::{Mode, Session};
