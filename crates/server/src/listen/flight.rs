//! The bytes that a client sends in a TLS handshake: a bounded number, and those beyond the usual
//! ones take room in memory.
//!
//! The library for TLS keeps a message until it is complete, and one may have 64 KiB.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::budget::Room;
use crate::memory::Memory;
use crate::network::Network;

/// The most bytes of a handshake. Clients send 2 KiB, with a key exchange that resists quantum
/// computers.
const HANDSHAKE_BYTES: usize = 16 << 10;

/// The bytes that take no room: as many as each place for a connection has memory anyway.
const USUAL_BYTES: usize = 4 << 10;

/// A stream below TLS. Until its handshake is over, few bytes are read from it.
pub(super) struct Flight<S> {
    stream: S,
    /// `None` when the handshake is over.
    counted: Option<Counted>,
}

/// The bytes of a handshake so far.
struct Counted {
    memory: Arc<Memory>,
    payer: Network,
    bytes: usize,
    room: Option<Room>,
}

impl<S> Flight<S> {
    pub(super) fn new(stream: S, memory: Arc<Memory>, payer: Network) -> Self {
        Self { stream, counted: Some(Counted { memory, payer, bytes: 0, room: None }) }
    }

    /// From now on, any number of bytes is read, and none is counted.
    pub(super) fn ends(&mut self) {
        self.counted = None;
    }
}

impl Counted {
    /// Counts bytes that have arrived.
    fn add(&mut self, more: usize) -> io::Result<()> {
        let held = self.room.as_ref().map_or(0, Room::bytes);
        self.bytes += more;
        if self.bytes > HANDSHAKE_BYTES {
            return Err(io::Error::new(
                io::ErrorKind::InvalidData,
                "the TLS handshake is too long",
            ));
        }
        let wanted = self.bytes.saturating_sub(USUAL_BYTES);
        if wanted > held {
            let room = self.memory.for_handshake(self.payer, self.room.take(), wanted - held);
            self.room = Some(room.map_err(|_| io::ErrorKind::OutOfMemory)?);
        }
        Ok(())
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Flight<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        out: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = out.filled().len();
        ready!(Pin::new(&mut self.stream).poll_read(cx, out))?;
        if let Some(counted) = &mut self.counted {
            counted.add(out.filled().len() - before)?;
        }
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Flight<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(cx, bytes)
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
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    use super::*;
    use crate::metrics::Metrics;

    #[tokio::test]
    async fn a_handshake_is_bounded_and_what_follows_is_not() {
        let memory = Arc::new(Memory::new(Arc::new(Metrics::default())));
        let payer = Network::Onion;
        let (mut client, server) = tokio::io::duplex(1 << 20);
        client.write_all(&vec![1; 100 << 10]).await.unwrap();
        let mut flight = Flight::new(server, Arc::clone(&memory), payer);
        let mut part = [0; 1000];
        let read = async |flight: &mut Flight<_>, part: &mut [u8]| flight.read_exact(part).await;
        for _ in 0..HANDSHAKE_BYTES / part.len() {
            read(&mut flight, &mut part).await.unwrap();
        }
        let held = flight.counted.as_ref().unwrap().room.as_ref().unwrap().bytes();
        assert_eq!(held, 16 * part.len() - USUAL_BYTES);
        let error = read(&mut flight, &mut part).await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidData);
        flight.ends();
        flight.read_exact(&mut vec![0; 50 << 10]).await.unwrap();
    }
}
