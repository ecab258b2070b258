//! The limits of an exchange: numbers, bytes and times.

/// Most identities of heads that a session keeps for a peer.
pub const HEADS_KEPT_MAX: usize = 65_536;
/// Most identities in a want.
pub const WANT_MAX: usize = 65_536;
/// Most entries of one answer.
pub const LACKING_MAX: usize = 1 << 20;
/// Most entries whose deletable values are asked for at once.
pub const VALUES_MAX: usize = 8192;
/// Time before a peer that had no value is asked again, in milliseconds. It doubles up to
/// [`VALUES_MS_MAX`].
pub const VALUES_MS: u64 = 60_000;
/// The longest such time, in milliseconds.
pub const VALUES_MS_MAX: u64 = 3_600_000;
/// Bytes that are read for one piece of an answer.
pub const PIECE_BYTES: usize = 1 << 20;
/// The next piece is made when fewer bytes wait to be sent.
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
/// Time in which a peer must send 64 KiB or end its answer before others are asked for the same, in
/// milliseconds.
pub const LEASE_MS: u64 = 5_000;
/// Wants without a new entry, while announced entries are lacking, after which a session ends.
pub const FRUITLESS_MAX: u32 = 3;
/// Most frames in a second.
pub const FRAMES_MAX: u32 = 4_000;
