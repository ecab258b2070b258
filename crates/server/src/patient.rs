//! A connection that ends when its client makes no use of it: it is idle, stops in the midst of a
//! request, or takes its answer too slowly.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep};

/// Bytes of an answer that a client must take in a second, on average.
const PACE_BYTES_PER_S: u64 = 4096;

/// The time for which a client may take no byte of its answers.
pub(crate) const STALL: Duration = Duration::from_secs(5);

/// The most bytes that the server reads and discards when it closes a connection, and the time
/// since the last answer until it does so. If a socket is closed with unread bytes, the client's
/// system discards the answer.
const LINGER_BYTES: usize = 1 << 20;
const LINGER: Duration = Duration::from_secs(2);

/// The open requests and unsent answers of a connection.
///
/// For all that it asks for at once, a client gets the idle time, and the time that the answers
/// take at [`PACE_BYTES_PER_S`]. Bytes that it takes faster give no time for later ones, and time
/// in which the server has nothing to send does not count. So a client that keeps its connection
/// and reads well is not cut off, and one that has read well and then drips is.
#[derive(Clone, Debug)]
pub(crate) struct Activity(Arc<Mutex<Active>>);

#[derive(Debug)]
struct Active {
    /// The idle time of the connection.
    idle: Duration,
    /// The time within which the head of a request must arrive. `None` if requests share the
    /// connection, as in HTTP/2.
    head: Option<Duration>,
    /// The time when its first bytes arrived, while it is not complete.
    heard: Option<Instant>,
    /// Requests that are not yet answered whole.
    open: usize,
    /// The time since which there is no such request.
    idle_since: Instant,
    /// Bytes of answers that are not yet sent, and when they must be.
    unsent: usize,
    due: Instant,
    /// The time that the client has beyond that for bytes, when there are none to be sent.
    left: Duration,
}

/// A request that is being answered.
#[derive(Debug)]
pub(crate) struct OpenRequest(Activity);

/// A part of an answer that is to be sent.
#[derive(Debug)]
pub(crate) struct Unsent {
    activity: Activity,
    bytes: usize,
}

impl Activity {
    pub(crate) fn new(idle: Duration, head: Option<Duration>) -> Self {
        let now = Instant::now();
        let (heard, open, unsent) = (None, 0, 0);
        let active =
            Active { idle, head, heard, open, idle_since: now, unsent, due: now, left: idle };
        Self(Arc::new(Mutex::new(active)))
    }

    fn lock(&self) -> MutexGuard<'_, Active> {
        self.0.lock()
    }

    /// Counts a request, whose head has arrived, until it is answered.
    pub(crate) fn request(&self) -> OpenRequest {
        let mut active = self.lock();
        active.heard = None;
        if active.open == 0 {
            active.left = active.idle;
        }
        active.open += 1;
        drop(active);
        OpenRequest(self.clone())
    }

    /// Counts a part of an answer until it is sent. The client gets more time for it.
    pub(crate) fn sends(&self, bytes: usize) -> Unsent {
        let mut active = self.lock();
        if active.unsent == 0 {
            active.due = Instant::now() + active.left;
        }
        active.due += at_pace(bytes);
        active.unsent += bytes;
        drop(active);
        Unsent { activity: self.clone(), bytes }
    }

    /// Takes note of bytes that have arrived.
    fn hear(&self, now: Instant) {
        let mut active = self.lock();
        if active.open == 0 {
            active.heard.get_or_insert(now);
        }
    }

    /// The time since when no request is under way. `None` if one is, or an answer is not yet sent.
    pub(crate) fn idle_since(&self) -> Option<Instant> {
        let active = self.lock();
        (active.open == 0 && active.unsent == 0).then_some(active.idle_since)
    }

    /// The time by which the head that has begun to arrive must be complete.
    fn head_due(&self) -> Option<Instant> {
        self.lock().head_due()
    }

    /// The end of the connection if no further byte moves. `None` if the client makes no use of it.
    fn end(&self, now: Instant) -> Option<Instant> {
        let active = self.lock();
        let (idle, head) = (now + active.idle, active.head_due());
        let is_over = (active.open == 0 && now > active.idle_since + active.idle)
            || head.is_some_and(|due| now > due)
            || (active.unsent > 0 && now > active.due);
        (!is_over).then(|| head.map_or(idle, |due| due.min(idle)))
    }
}

impl Active {
    fn head_due(&self) -> Option<Instant> {
        Some(self.heard? + self.head?)
    }
}

/// The time that a client may take for bytes.
fn at_pace(bytes: usize) -> Duration {
    Duration::from_millis((bytes as u64).saturating_mul(1000) / PACE_BYTES_PER_S)
}

impl Drop for OpenRequest {
    fn drop(&mut self) {
        let mut active = self.0.lock();
        active.open -= 1;
        if active.open == 0 {
            active.idle_since = Instant::now();
        }
    }
}

impl Drop for Unsent {
    fn drop(&mut self) {
        let mut active = self.activity.lock();
        let now = Instant::now();
        active.unsent -= self.bytes;
        active.due = active.due.min(now + active.idle + at_pace(active.unsent));
        if active.unsent == 0 {
            active.left = active.due.saturating_duration_since(now);
        }
    }
}

/// A stream with the patience of this server.
pub(crate) struct Patient<S> {
    stream: S,
    idle: Duration,
    activity: Activity,
    deadline: Pin<Box<Sleep>>,
    /// Whether the deadline is that of a head, and not of the connection.
    awaits_head: bool,
    /// Bytes that may still be thrown away, once the last answer was sent.
    lingers: Option<usize>,
    /// The time since when the client has taken no byte, if it should take some.
    blocked: Option<Instant>,
}

impl<S> Patient<S> {
    pub(crate) fn new(stream: S, activity: Activity) -> Self {
        let idle = activity.lock().idle;
        let deadline = Box::pin(tokio::time::sleep(idle));
        Self { stream, idle, activity, deadline, awaits_head: false, lingers: None, blocked: None }
    }

    /// Returns the result of the stream. If the stream is not ready, it checks the deadline.
    fn watched<T>(
        &mut self,
        cx: &mut Context<'_>,
        poll: Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        if poll.is_ready() {
            let now = Instant::now();
            // Bytes may move, but nothing is asked (HTTP/2 has pings), or the answer is dripped
            // away.
            let Some(next) = self.activity.end(now) else {
                return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
            };
            // Setting a timer costs; a second's precision is enough. The time to linger does not
            // start again.
            let is_late = next.duration_since(self.deadline.deadline()) > Duration::from_secs(1);
            if is_late && self.lingers.is_none() {
                self.deadline.as_mut().reset(next);
            }
            return poll;
        }
        match self.deadline.as_mut().poll(cx) {
            Poll::Ready(()) => Poll::Ready(Err(io::ErrorKind::TimedOut.into())),
            Poll::Pending => Poll::Pending,
        }
    }
}

impl<S> Patient<S> {
    /// Returns the result of a write to the stream, as [`Self::watched`] does. A write may wait for
    /// [`STALL`].
    fn written<T>(
        &mut self,
        cx: &mut Context<'_>,
        poll: Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        if poll.is_ready() {
            self.blocked = None;
        } else {
            let due = *self.blocked.get_or_insert_with(Instant::now) + STALL;
            if due < self.deadline.deadline() {
                self.deadline.as_mut().reset(due);
            }
        }
        self.watched(cx, poll)
    }
}

impl<S: AsyncRead + Unpin> Patient<S> {
    /// Reads until the client closes its side, within bounds.
    fn poll_linger(&mut self, cx: &mut Context<'_>, mut left: usize) -> Poll<()> {
        let mut scratch = [0; 4096];
        loop {
            let mut buffer = ReadBuf::new(&mut scratch);
            match Pin::new(&mut self.stream).poll_read(cx, &mut buffer) {
                Poll::Ready(Ok(())) if !buffer.filled().is_empty() && left > 0 => {
                    left = left.saturating_sub(buffer.filled().len());
                    self.lingers = Some(left);
                }
                Poll::Ready(_) => return Poll::Ready(()),
                Poll::Pending => return self.deadline.as_mut().poll(cx),
            }
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Patient<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        out: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = out.filled().len();
        let poll = Pin::new(&mut self.stream).poll_read(cx, out);
        if out.filled().len() > before {
            self.activity.hear(Instant::now());
        }
        // Most heads arrive in one piece, and need no timer.
        if poll.is_pending() && self.lingers.is_none() {
            let due = self.activity.head_due();
            let end = match due {
                Some(due) => (due < self.deadline.deadline()).then_some(due),
                // The head is complete, and what follows it has its own time.
                None => self.awaits_head.then(|| Instant::now() + self.idle),
            };
            if let Some(end) = end {
                self.deadline.as_mut().reset(end);
                self.awaits_head = due.is_some();
            }
        }
        self.watched(cx, poll)
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for Patient<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let poll = Pin::new(&mut self.stream).poll_write(cx, bytes);
        self.written(cx, poll)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let poll = Pin::new(&mut self.stream).poll_write_vectored(cx, bytes);
        self.written(cx, poll)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let poll = Pin::new(&mut self.stream).poll_flush(cx);
        self.written(cx, poll)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let left = if let Some(left) = self.lingers {
            left
        } else {
            let poll = Pin::new(&mut self.stream).poll_shutdown(cx);
            std::task::ready!(self.watched(cx, poll))?;
            let end = self.activity.lock().idle_since + LINGER.min(self.idle);
            self.deadline.as_mut().reset(end);
            self.lingers = Some(LINGER_BYTES);
            LINGER_BYTES
        };
        self.poll_linger(cx, left).map(Ok)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const IDLE: Duration = Duration::from_secs(60);

    impl Activity {
        fn is_over(&self, now: Instant) -> bool {
            self.end(now).is_none()
        }
    }

    fn at(s: u64) -> Instant {
        Instant::now() + Duration::from_secs(s)
    }

    #[test]
    fn a_connection_is_idle_without_requests_and_slow_with_old_answers() {
        let activity = Activity::new(IDLE, None);
        assert!(!activity.is_over(at(59)) && activity.is_over(at(61)));
        let request = activity.request();
        assert!(!activity.is_over(at(1000)));
        // 40 KiB take ten seconds beyond the idle time.
        let (first, second) = (activity.sends(20 << 10), activity.sends(20 << 10));
        assert!(!activity.is_over(at(69)) && activity.is_over(at(71)));
        drop(first);
        // 20 KiB are left.
        assert!(!activity.is_over(at(64)) && activity.is_over(at(66)));
        drop(second);
        assert!(!activity.is_over(at(1000)));
        drop(request);
        assert!(activity.is_over(at(61)));
    }

    #[test]
    fn the_head_of_a_request_has_its_own_time_once_it_has_begun() {
        let activity = Activity::new(IDLE, Some(Duration::from_secs(20)));
        assert!(!activity.is_over(at(59)));
        activity.hear(at(0));
        // Further bytes give no more time.
        activity.hear(at(15));
        assert!(!activity.is_over(at(19)) && activity.is_over(at(21)));
        let request = activity.request();
        // These belong to its body.
        activity.hear(at(0));
        assert!(!activity.is_over(at(1000)));
        drop(request);
        assert!(!activity.is_over(at(59)) && activity.is_over(at(61)));
    }

    #[test]
    fn bytes_that_were_taken_fast_give_no_time_for_later_ones() {
        let activity = Activity::new(IDLE, None);
        let _request = activity.request();
        // Always a part is on its way, as with HTTP/2. 160 MiB take eleven hours at the pace.
        let mut last = activity.sends(16 << 10);
        for _ in 0..10_000 {
            last = activity.sends(16 << 10);
        }
        assert!(!activity.is_over(at(63)) && activity.is_over(at(70)));
        drop(last);
        assert!(!activity.is_over(at(1000)));
    }

    #[test]
    fn the_parts_of_an_answer_have_the_idle_time_once() {
        let ms = Duration::from_millis;
        let activity = Activity::new(ms(400), None);
        let request = activity.request();
        // Each part takes 100 ms at the pace.
        let part = activity.sends(410);
        assert!(!activity.is_over(Instant::now() + ms(450)));
        std::thread::sleep(ms(350));
        drop(part);
        let part = activity.sends(410);
        assert!(!activity.is_over(Instant::now() + ms(50)));
        assert!(activity.is_over(Instant::now() + ms(300)));
        drop((part, request));
        // Another answer.
        let _request = activity.request();
        let _part = activity.sends(410);
        assert!(!activity.is_over(Instant::now() + ms(450)));
        assert!(activity.is_over(Instant::now() + ms(550)));
    }
}
