//! The frames of a connection of HTTP/2, counted below the library that handles them.
//!
//! The library handles SETTINGS, PING, PRIORITY, `WINDOW_UPDATE` and unknown frames, as many as
//! come. A client needs few of them beside its requests and the bytes that it takes, so more end
//! the connection.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Instant;

/// What a client that speaks HTTP/2 sends first (RFC 9113, section 3.4).
pub(super) const HTTP2_PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// Bytes of the head of a frame (RFC 9113, section 4.1).
const HEAD_BYTES: usize = 9;

/// The types of frames that are part of a request, and that of the one that ends a connection.
const DATA: u8 = 0;
const HEADERS: u8 = 1;
const GOAWAY: u8 = 7;
const CONTINUATION: u8 = 9;

/// The reason of a client that causes too much work (RFC 9113, section 7).
const ENHANCE_YOUR_CALM: u32 = 0xb;

/// Frames without a request that a client may send at once.
const FRAMES_MAX: usize = 500;

/// Of these, a request gives a client more, and so do bytes that it takes, since it says how many
/// it has taken, and time.
const FRAMES_OF_REQUEST: usize = 8;
const BYTES_OF_FRAME: usize = 1024;
const TIME_OF_FRAME: Duration = Duration::from_millis(50);

/// A stream of HTTP/2 that ends if its client sends too many frames without a request.
pub(super) struct Frames<S> {
    stream: S,
    reads: Scan,
    writes: Scan,
    /// Frames without a request that the client may send.
    left: usize,
    /// Bytes that the client has taken, and gives no frames for yet.
    taken: usize,
    since: Instant,
    /// The last stream that the client has begun.
    last_stream: u32,
    is_over: bool,
}

/// A place in a stream of frames.
#[derive(Debug, Default)]
struct Scan {
    head: [u8; HEAD_BYTES],
    /// Bytes of `head` that are there.
    length: usize,
    /// Bytes to the end of the frame.
    left: usize,
}

impl Scan {
    /// Goes on by some bytes, and shows each frame whose head is complete: its type and its stream.
    fn pass(&mut self, mut bytes: &[u8], mut frame: impl FnMut(u8, u32)) {
        loop {
            let skipped = self.left.min(bytes.len());
            self.left -= skipped;
            bytes = &bytes[skipped..];
            let more = bytes.len().min(HEAD_BYTES - self.length);
            if more == 0 {
                return;
            }
            self.head[self.length..][..more].copy_from_slice(&bytes[..more]);
            self.length += more;
            bytes = &bytes[more..];
            if self.length == HEAD_BYTES {
                let [a, b, c, kind, _, stream @ ..] = self.head;
                frame(kind, u32::from_be_bytes(stream) & u32::MAX >> 1);
                (self.length, self.left) = (0, u32::from_be_bytes([0, a, b, c]) as usize);
            }
        }
    }

    fn is_between_frames(&self) -> bool {
        self.length == 0 && self.left == 0
    }
}

impl<S> Frames<S> {
    pub(super) fn new(stream: S) -> Self {
        Self {
            stream,
            reads: Scan { left: HTTP2_PREFACE.len(), ..Scan::default() },
            writes: Scan::default(),
            left: FRAMES_MAX,
            taken: 0,
            since: Instant::now(),
            last_stream: 0,
            is_over: false,
        }
    }

    /// Counts the frames in bytes that have arrived. Returns whether there are too many.
    fn count(&mut self, bytes: &[u8]) -> bool {
        let Self { reads, left, last_stream, .. } = self;
        let (mut without_request, mut requests) = (0, 0);
        reads.pass(bytes, |kind, stream| match kind {
            DATA | CONTINUATION => {}
            HEADERS => {
                requests += 1;
                *last_stream = stream.max(*last_stream);
            }
            _ => without_request += 1,
        });
        *left = left.saturating_add(FRAMES_OF_REQUEST * requests).min(FRAMES_MAX);
        if without_request > *left {
            self.refill(Instant::now());
        }
        let is_over = without_request > self.left;
        self.left = self.left.saturating_sub(without_request);
        is_over
    }

    /// Adds the frames for time and for bytes.
    fn refill(&mut self, now: Instant) {
        let for_time =
            now.saturating_duration_since(self.since).as_millis() / TIME_OF_FRAME.as_millis();
        let for_time = usize::try_from(for_time).unwrap_or(FRAMES_MAX);
        let more = for_time.saturating_add(self.taken / BYTES_OF_FRAME);
        self.left = self.left.saturating_add(more).min(FRAMES_MAX);
        self.taken %= BYTES_OF_FRAME;
        if for_time > 0 {
            self.since = now;
        }
    }

    /// The frame that ends the connection.
    fn goaway(&self) -> [u8; HEAD_BYTES + 8] {
        let mut frame = [0; HEAD_BYTES + 8];
        (frame[2], frame[3]) = (8, GOAWAY);
        frame[HEAD_BYTES..][..4].copy_from_slice(&self.last_stream.to_be_bytes());
        frame[HEAD_BYTES + 4..].copy_from_slice(&ENHANCE_YOUR_CALM.to_be_bytes());
        frame
    }

    fn wrote(&mut self, buffers: &[io::IoSlice<'_>], length: usize) {
        let mut left = length;
        for buffer in buffers {
            let part = &buffer[..left.min(buffer.len())];
            self.writes.pass(part, |_, _| {});
            left -= part.len();
        }
        self.taken = self.taken.saturating_add(length);
    }
}

impl<S: AsyncWrite + Unpin> Frames<S> {
    /// Says why the connection ends, if the client can read it now.
    fn say_why(&mut self, cx: &mut Context<'_>) {
        if self.writes.is_between_frames() {
            let frame = self.goaway();
            let _ = Pin::new(&mut self.stream).poll_write(cx, &frame);
            let _ = Pin::new(&mut self.stream).poll_flush(cx);
        }
        tracing::debug!("a client sent too many frames of HTTP/2 without a request");
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncRead for Frames<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        out: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = out.filled().len();
        // For the library, the client has closed its side.
        if self.is_over {
            return Poll::Ready(Ok(()));
        }
        ready!(Pin::new(&mut self.stream).poll_read(cx, out))?;
        if self.count(&out.filled()[before..]) {
            self.is_over = true;
            out.set_filled(before);
            self.say_why(cx);
        }
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Frames<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let length = ready!(Pin::new(&mut self.stream).poll_write(cx, bytes))?;
        self.wrote(&[io::IoSlice::new(bytes)], length);
        Poll::Ready(Ok(length))
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let length = ready!(Pin::new(&mut self.stream).poll_write_vectored(cx, bytes))?;
        self.wrote(bytes, length);
        Poll::Ready(Ok(length))
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(kind: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
        let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
        [&length[1..], &[kind, 0], &stream.to_be_bytes(), payload].concat()
    }

    /// Whether a connection with these frames is ended, bytes coming in pieces of this length.
    fn is_ended(frames: &mut Frames<()>, all: &[u8], piece: usize) -> bool {
        all.chunks(piece).filter(|piece| frames.count(piece)).count() > 0
    }

    fn begun() -> Frames<()> {
        let mut frames = Frames::new(());
        assert!(!frames.count(HTTP2_PREFACE));
        frames
    }

    #[test]
    fn only_frames_beyond_those_for_requests_and_bytes_end_a_connection() {
        let ping = frame(6, 0, &[7; 8]);
        let many = |count: usize| ping.repeat(count);
        assert!(!is_ended(&mut begun(), &many(FRAMES_MAX), 1000));
        assert!(is_ended(&mut begun(), &many(FRAMES_MAX + 100), 1000));
        for kind in [2, 3, 4, 8, 250] {
            assert!(is_ended(
                &mut begun(),
                &frame(kind, 0, &[0; 100]).repeat(FRAMES_MAX + 100),
                999
            ));
        }
        // A browser with many requests, and a download whose client says often what it has taken.
        let mut frames = begun();
        let request = |stream: u32| [frame(HEADERS, stream, &[1; 40]), many(4)].concat();
        let requests: Vec<u8> = (0..5000).flat_map(|n| request(2 * n + 1)).collect();
        assert!(!is_ended(&mut frames, &requests, 4096));
        assert_eq!(frames.goaway()[HEAD_BYTES..HEAD_BYTES + 4], 9999_u32.to_be_bytes());
        let update = frame(8, 1, &[0, 0, 4, 0]).repeat(20);
        for _ in 0..1000 {
            frames.wrote(
                &[io::IoSlice::new(&frame(DATA, 1, &vec![0; 20 << 10]))],
                (20 << 10) + HEAD_BYTES,
            );
            assert!(!is_ended(&mut frames, &update, 100));
        }
        // A connection that stays for hours pings now and then.
        let mut frames = begun();
        for _ in 0..10 {
            assert!(!is_ended(&mut frames, &many(FRAMES_MAX), 4096));
            frames.since -= 500 * TIME_OF_FRAME;
        }
    }

    #[test]
    fn any_pieces_give_the_same_frames() {
        for seed in 0..200 {
            let mut random = fastrand::Rng::with_seed(seed);
            let frames: Vec<(u8, u32, usize)> = (0..random.usize(1..30))
                .map(|_| (random.u8(..), random.u32(..1 << 31), random.usize(..300)))
                .collect();
            let all: Vec<u8> = frames
                .iter()
                .flat_map(|&(kind, stream, length)| frame(kind, stream, &vec![kind; length]))
                .collect();
            let (mut scan, mut seen) = (Scan::default(), Vec::new());
            for piece in all.chunks(random.usize(1..400)) {
                scan.pass(piece, |kind, stream| seen.push((kind, stream)));
            }
            let expected: Vec<_> = frames.iter().map(|&(kind, stream, _)| (kind, stream)).collect();
            assert_eq!(seen, expected, "seed {seed}");
            assert!(scan.is_between_frames(), "seed {seed}");
        }
    }
}
