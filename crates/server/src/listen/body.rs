//! The body of a request: its length, its time and its memory.
//!
//! Only received bytes take room. If others need the room of a body that has stalled, the body
//! ends.

use std::time::Duration;

use bytes::Bytes;
use http_body_util::BodyExt as _;
use hyper::body::{Body as _, Incoming};
use tokio::time::Instant;

use crate::answer::Refusal;
use crate::budget::Room;
use crate::config::Http;

/// The memory for what has arrived of a body and is not yet added to it: hyper's buffer, or what
/// HTTP/2 receives ahead.
const AHEAD_BYTES: usize = 16 << 10;

/// The bytes up to which a body may stall until its time is over. Room for a longer body is taken
/// in steps of as many.
const SHORT_BYTES: usize = 64 << 10;

/// The announced length up to which a body that is not short takes room for all of it: what a
/// growing buffer leaves behind counts for no budget, and the allocator keeps it for a while.
const MODERATE_BYTES: usize = 1 << 20;

/// A body has stalled if it has not grown by a sixteenth within a tenth of its time. A body that
/// comes steadily never stalls: even its last sixteenth takes no more than a sixteenth of the time.
const GROWTH_SHARE: usize = 16;
const STALL_SHARE: u32 = 10;

/// The part of its time for which a body waits for room, if other bodies hold all. This is longer
/// than a tenth, so all bodies that stand still have stalled by then.
const WAIT_SHARE: u32 = 8;

/// Reads a body of at most the size that the settings allow, in time.
///
/// # Errors
///
/// [`Refusal::Busy`] if there is no room for the body, [`Refusal::Timeout`] if it takes too long,
/// or has stalled when somebody needs its room.
pub(super) async fn whole(
    http: &Http,
    room: &mut Room,
    body: Incoming,
    announced: Option<&http::HeaderValue>,
    time: Duration,
) -> Result<Bytes, Refusal> {
    if body.is_end_stream() {
        return Ok(Bytes::new());
    }
    // On its own, so that connections without a body do not keep the memory for one.
    Box::pin(read(http, room, body, announced, time)).await
}

async fn read(
    http: &Http,
    room: &mut Room,
    mut body: Incoming,
    announced: Option<&http::HeaderValue>,
    time: Duration,
) -> Result<Bytes, Refusal> {
    let max = http.body_bytes;
    let too_large =
        || Refusal::TooLarge(format!("the body of a request may have at most {max} bytes"));
    let announced = announced.and_then(|length| length.to_str().ok()?.parse::<u64>().ok());
    if announced.is_some_and(|length| length > max as u64) {
        return Err(too_large());
    }
    let announced = announced.and_then(|length| usize::try_from(length).ok());
    let most = announced.unwrap_or(max);
    let (total, wait) = (http.requests_bytes, time / WAIT_SHARE);
    room.grow(total, AHEAD_BYTES)?;
    let read = async {
        // A body that cannot be kept need not be sent.
        room.find(total, announced.unwrap_or(0), wait).await?;
        let mut bytes: Vec<u8> = Vec::new();
        let mut pace = Pace::new(Instant::now());
        loop {
            let frame = tokio::select! {
                biased;
                frame = body.frame() => frame,
                () = stalls(&pace, time, room) => return Err(Refusal::Timeout),
            };
            let Some(frame) = frame else { return Ok(Bytes::from(bytes)) };
            let frame = frame.map_err(|_| Refusal::BadRequest("the body was truncated".into()))?;
            let Ok(data) = frame.into_data() else { continue };
            let length = bytes.len() + data.len();
            if length > max {
                return Err(too_large());
            }
            pace.reaches(length, Instant::now());
            if length > bytes.capacity() {
                let capacity = capacity(length, most);
                room.grow_patiently(total, capacity - bytes.capacity(), wait).await?;
                bytes.reserve_exact(capacity - bytes.len());
                // The client could not send while there was no room.
                pace.resumes(Instant::now());
            }
            bytes.extend_from_slice(&data);
        }
    };
    tokio::time::timeout(time, read).await.unwrap_or(Err(Refusal::Timeout))
}

/// The bytes for which a body of a length takes room. These are at most an eighth more, rounded up
/// to a step, so that a growing body is not copied too often. A short body takes at most twice its
/// length, and one with a moderate announced length takes room once for all of it. No body takes
/// more than `most`.
fn capacity(length: usize, most: usize) -> usize {
    let capacity = if length <= SHORT_BYTES {
        length.next_power_of_two()
    } else if most <= MODERATE_BYTES {
        most
    } else {
        length.saturating_add(length / 8).next_multiple_of(SHORT_BYTES)
    };
    capacity.min(most).max(length)
}

/// Waits until a body has stalled and somebody needs its room.
async fn stalls(pace: &Pace, time: Duration, room: &Room) {
    match pace.stalls_at(time) {
        Some(at) => tokio::time::sleep_until(at).await,
        None => std::future::pending().await,
    }
    room.wanted().await;
}

/// The progress of a body.
struct Pace {
    /// Its length when it had last grown by a sixteenth.
    length: usize,
    since: Instant,
}

impl Pace {
    fn new(now: Instant) -> Self {
        Self { length: 0, since: now }
    }

    /// Notes the length of the body.
    fn reaches(&mut self, length: usize, now: Instant) {
        if length > self.length && length - self.length >= self.length / GROWTH_SHARE {
            *self = Self { length, since: now };
        }
    }

    /// Notes that the body had no room to grow until now.
    fn resumes(&mut self, now: Instant) {
        self.since = now;
    }

    /// The time from which on the body has stalled, unless it grows. A short one never has.
    fn stalls_at(&self, time: Duration) -> Option<Instant> {
        (self.length > SHORT_BYTES).then(|| self.since + time / STALL_SHARE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TIME: Duration = Duration::from_secs(20);

    /// Whether a body stalls that reaches these lengths at these times in ms.
    fn has_stalled(steps: impl IntoIterator<Item = (u64, usize)>) -> bool {
        let start = Instant::now();
        let mut pace = Pace::new(start);
        steps.into_iter().any(|(ms, length)| {
            let now = start + Duration::from_millis(ms);
            let late = pace.stalls_at(TIME).is_some_and(|at| at < now);
            pace.reaches(length, now);
            late
        })
    }

    #[test]
    fn a_body_that_comes_steadily_never_stalls() {
        for bytes_per_s in [1 << 10, 5000, 64 << 10, 10 << 20] {
            let steps = (0..200).map(|n| (100 * n, usize::try_from(n).unwrap() * bytes_per_s / 10));
            assert!(!has_stalled(steps), "{bytes_per_s}");
        }
        // A short one may take a break.
        assert!(!has_stalled([(100, SHORT_BYTES), (19_000, SHORT_BYTES + 1)]));
    }

    #[test]
    fn a_body_that_comes_fast_and_then_drips_stalls() {
        let drip = |n: u64| (100 * n, (2 << 20) + 1000 * usize::try_from(n).unwrap());
        assert!(has_stalled((0..200).map(drip)));
        assert!(has_stalled([(100, SHORT_BYTES + 1), (2200, SHORT_BYTES + 1)]));
        assert!(!has_stalled([(100, SHORT_BYTES + 1), (2000, SHORT_BYTES + 1)]));
    }

    #[test]
    fn room_is_taken_for_little_more_than_was_received() {
        let max = 8 << 20;
        for length in (1..max).step_by(999) {
            let capacity = capacity(length, max);
            assert!((length..=max).contains(&capacity));
            assert!(capacity <= (2 * length).min(length + length / 8 + SHORT_BYTES), "{length}");
        }
        assert_eq!(capacity(20_000, 30_000), 30_000);
        assert_eq!(capacity(max, max), max);
        // A body without an end.
        assert_eq!(capacity(max, 10), max);
    }
}
