//! An answer on its way: in parts of a bounded size, each of which holds its room in memory until
//! it is written to the socket.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::{Buf, Bytes};
use hyper::body::{Body, Frame, SizeHint};
use parking_lot::Mutex;
use tokio::sync::{Notify, mpsc};
use tokio::time::Instant;

use crate::answer::{Pieces, Refusal};
use crate::budget::Room;
use crate::engine::Engine;
use crate::patient::{Activity, OpenRequest, STALL, Unsent};

/// Bytes that are handed over to be written at a time.
const PART_BYTES: usize = 16 << 10;

/// The body of an answer, with the memory and the counts that it holds.
pub(crate) struct Outgoing {
    source: Source,
    room: Option<Arc<Room>>,
    activity: Activity,
    /// `None` if the connection has no other requests.
    taking: Option<Arc<Taking>>,
    _request: Held,
}

/// The time since when an answer waits for its client, who takes no part of it.
#[derive(Debug, Default)]
struct Taking {
    since: Mutex<Option<Instant>>,
    /// Tells that it waits.
    waits: Notify,
}

tokio::task_local! {
    /// The answer of the task, if requests share the connection.
    static TAKING: Arc<Taking>;
}

/// Runs the task of a request that shares its connection with others. It ends early if the client
/// takes no part of the answer for [`STALL`].
pub(crate) async fn while_taken(stream: impl Future<Output = ()>) {
    let taking = Arc::new(Taking::default());
    let stream = TAKING.scope(Arc::clone(&taking), stream);
    tokio::select! {
        biased;
        () = stream => {}
        () = taking.stalls() => tracing::debug!("a client took no part of an answer for some time"),
    }
}

impl Taking {
    fn set(&self, since: Option<Instant>) {
        *self.since.lock() = since;
        if since.is_some() {
            self.waits.notify_one();
        }
    }

    fn since(&self) -> Option<Instant> {
        *self.since.lock()
    }

    /// Waits until the answer has waited for too long.
    async fn stalls(&self) {
        loop {
            match self.since() {
                Some(since) if since.elapsed() >= STALL => return,
                Some(since) => tokio::time::sleep_until(since + STALL).await,
                None => self.waits.notified().await,
            }
        }
    }
}

/// The count of a request that is not yet answered whole, and the room that it keeps until then.
pub(crate) type Held = (OpenRequest, Option<Room>);

enum Source {
    Whole(Bytes),
    /// Parts, and an empty one at the end.
    Pieces(mpsc::Receiver<Result<Bytes, io::Error>>),
    Ended,
}

/// A part of a body.
pub(crate) struct Piece {
    bytes: Bytes,
    _room: Option<Arc<Room>>,
    _unsent: Unsent,
}

impl Buf for Piece {
    fn remaining(&self) -> usize {
        self.bytes.remaining()
    }

    fn chunk(&self) -> &[u8] {
        self.bytes.chunk()
    }

    fn advance(&mut self, n: usize) {
        self.bytes.advance(n);
    }
}

impl Outgoing {
    /// A body that is in memory. Without room it must be a few words.
    pub(crate) fn whole(
        bytes: Bytes,
        room: Option<Room>,
        activity: Activity,
        request: Held,
    ) -> Self {
        Self::new(Source::Whole(bytes), room, activity, request)
    }

    /// A body that is made while it is sent. `room` is for the largest piece of it.
    pub(crate) fn pieces(
        engine: Engine,
        pieces: Pieces,
        room: Room,
        activity: Activity,
        request: Held,
    ) -> Self {
        let (parts, source) = mpsc::channel(1);
        tokio::spawn(make(engine, pieces, parts));
        Self::new(Source::Pieces(source), Some(room), activity, request)
    }

    fn new(source: Source, room: Option<Room>, activity: Activity, request: Held) -> Self {
        let taking = TAKING.try_with(Arc::clone).ok();
        Self { source, room: room.map(Arc::new), activity, taking, _request: request }
    }

    fn part(&self, bytes: Bytes) -> Frame<Piece> {
        let unsent = self.activity.sends(bytes.len());
        Frame::data(Piece { bytes, _room: self.room.clone(), _unsent: unsent })
    }
}

/// Makes one piece after the other, each in its turn, while somebody takes them.
async fn make(engine: Engine, mut pieces: Pieces, parts: mpsc::Sender<Result<Bytes, io::Error>>) {
    loop {
        let made = engine.long(async move || {
            let piece = pieces.next().await;
            Ok::<_, Refusal>((pieces, piece))
        });
        let piece = match made.await {
            Ok((rest, piece)) => {
                pieces = rest;
                piece
            }
            Err(refusal) => return cut_off(&parts, &refusal).await,
        };
        match piece {
            Ok(Some(mut bytes)) => {
                while !bytes.is_empty() {
                    let part = bytes.split_to(bytes.len().min(PART_BYTES));
                    if parts.send(Ok(part)).await.is_err() {
                        return;
                    }
                }
            }
            Ok(None) => {
                let _ = parts.send(Ok(Bytes::new())).await;
                return;
            }
            Err(refusal) => return cut_off(&parts, &refusal).await,
        }
    }
}

/// Ends the connection, so that nobody takes a part for the whole.
async fn cut_off(parts: &mpsc::Sender<Result<Bytes, io::Error>>, refusal: &Refusal) {
    tracing::warn!(%refusal, "an answer was cut off");
    let _ = parts.send(Err(io::Error::other(refusal.to_string()))).await;
}

impl Body for Outgoing {
    type Data = Piece;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Piece>, io::Error>>> {
        let polled = self.poll_part(cx);
        if let Some(taking) = &self.taking {
            // The part before was taken. This one waits, if it is there.
            taking.set(polled.is_ready().then(Instant::now));
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        match &self.source {
            Source::Whole(bytes) => bytes.is_empty(),
            Source::Ended => true,
            Source::Pieces(_) => false,
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.source {
            Source::Whole(bytes) => SizeHint::with_exact(bytes.len() as u64),
            Source::Ended => SizeHint::with_exact(0),
            Source::Pieces(_) => SizeHint::default(),
        }
    }
}

impl Outgoing {
    /// The next part, which waits for the client from then on.
    fn poll_part(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Piece>, io::Error>>> {
        match &mut self.source {
            Source::Whole(bytes) if bytes.is_empty() => Poll::Ready(None),
            Source::Whole(bytes) => {
                let part = bytes.split_to(bytes.len().min(PART_BYTES));
                Poll::Ready(Some(Ok(self.part(part))))
            }
            Source::Ended => Poll::Ready(None),
            Source::Pieces(parts) => match std::task::ready!(parts.poll_recv(cx)) {
                Some(Ok(part)) if part.is_empty() => {
                    self.source = Source::Ended;
                    Poll::Ready(None)
                }
                Some(Ok(part)) => Poll::Ready(Some(Ok(self.part(part)))),
                failed => {
                    self.source = Source::Ended;
                    // Without an end, the task that makes the pieces has panicked.
                    let error = failed.and_then(Result::err);
                    let error = error.unwrap_or_else(|| io::ErrorKind::BrokenPipe.into());
                    Poll::Ready(Some(Err(error)))
                }
            },
        }
    }
}
