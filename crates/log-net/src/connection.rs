//! One connection: a session over a stream of bytes.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use talaria_log::{
    EntryId, Farewell, Fetching, FolderReplica, LogError, Mode, Session, SessionReport, SyncError,
    SyncFrame,
};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::sync::watch;
use tokio::task::block_in_place;

use crate::FAREWELL;
use crate::error::NetError;
use crate::key::NodePublic;

/// Bytes that are read at once.
const READ_BYTES: usize = 64 << 10;

/// What the sessions of a node share.
pub(crate) struct Shared {
    pub(crate) own: NodePublic,
    fetching: Fetching,
    sessions: AtomicU64,
    began: Instant,
    /// Changes when the log does.
    pub(crate) changed: watch::Sender<()>,
    pub(crate) stop: watch::Receiver<bool>,
}

impl Shared {
    pub(crate) fn new(own: NodePublic, stop: watch::Receiver<bool>) -> Self {
        Self {
            own,
            fetching: Fetching::default(),
            sessions: AtomicU64::new(0),
            began: Instant::now(),
            changed: watch::Sender::new(()),
            stop,
        }
    }

    fn now_ms(&self) -> u64 {
        u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    fn session(&self, log: EntryId, mode: Mode) -> Session {
        let number = self.sessions.fetch_add(1, Ordering::Relaxed);
        Session::new(log, number, mode, self.now_ms())
    }

    /// Returns when the node is to stop.
    pub(crate) async fn stopped(&self) {
        let mut stop = self.stop.clone();
        // Without a sender, nobody stops the node.
        if stop.wait_for(|stop| *stop).await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}

pub(crate) fn wall_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

/// Whether a peer with this key may exchange entries of the log.
fn may_exchange(replica: &FolderReplica, given: Option<NodePublic>, peer: NodePublic) -> bool {
    let is_published = |log: &std::sync::Arc<talaria_log::LogFolder>| {
        log.read(|log| log.node(&peer.0).is_some()).unwrap_or(false)
    };
    given == Some(peer) || replica.log().is_some_and(is_published)
}

/// Exchanges entries with the peer at the other end of `stream` until the session ends. `given` is
/// a key that may connect without being published.
pub(crate) async fn exchange(
    stream: impl AsyncRead + AsyncWrite,
    (peer, given): (NodePublic, Option<NodePublic>),
    replica: &mut FolderReplica,
    shared: &Shared,
    mode: Mode,
) -> (SessionReport, Result<(), NetError>) {
    if !may_exchange(replica, given, peer) {
        refuse(stream, Farewell::NotPublished).await;
        return (SessionReport::default(), Err(NetError::NotPublished { key: peer }));
    }
    let mut session = shared.session(replica.id(), mode);
    let mut changed = shared.changed.subscribe();
    let (mut reader, mut writer) = tokio::io::split(stream);
    let mut bytes = vec![0; READ_BYTES];
    let mut is_flushed = true;
    let result = loop {
        if session.is_over() {
            break Ok(());
        }
        if !may_exchange(replica, given, peer) {
            session.end(Farewell::NotPublished, "", &shared.fetching);
            break Err(NetError::NotPublished { key: peer });
        }
        let next_ms = session.next_ms(&shared.fetching);
        let pause = Duration::from_millis(next_ms.saturating_sub(shared.now_ms()));
        let has_output = !session.output().is_empty() || !is_flushed;
        let done = tokio::select! {
            read = reader.read(&mut bytes) => match read {
                Ok(0) => break Err(NetError::Closed),
                Ok(count) => block_in_place(|| {
                    let before = session.report().added;
                    let (now_ms, wall_ms) = (shared.now_ms(), wall_ms());
                    let bytes = &bytes[..count];
                    let done = session.receive(bytes, replica, &shared.fetching, now_ms, wall_ms);
                    if session.report().added > before {
                        shared.changed.send_replace(());
                    }
                    done
                }),
                Err(source) => break Err(NetError::Connection { source }),
            },
            written = push(&mut writer, session.output()), if has_output => match written {
                Ok(count) => {
                    session.sent(count, shared.now_ms());
                    is_flushed = count == 0;
                    advance(&mut session, replica, shared)
                }
                Err(source) => break Err(NetError::Connection { source }),
            },
            _ = changed.changed() => advance(&mut session, replica, shared),
            () = tokio::time::sleep(pause) => advance(&mut session, replica, shared),
            () = shared.stopped() => {
                session.end(Farewell::Stopping, "", &shared.fetching);
                Ok(())
            }
        };
        match done {
            Ok(()) => {}
            Err(SyncError::Bye { reason: Farewell::NotPublished, .. }) => {
                break Err(NetError::OwnNotPublished { key: shared.own });
            }
            Err(error) => break Err(error.into()),
        }
    };
    // What the session claimed is free for others, also if the connection was lost.
    session.end(Farewell::Failed, "", &shared.fetching);
    let lost = matches!(result, Err(NetError::Closed | NetError::Connection { .. }));
    if !lost {
        part(&mut reader, &mut writer, session.output()).await;
    }
    (session.report().clone(), result)
}

/// Sends some of the bytes, or what TLS still holds of those before.
async fn push(writer: &mut (impl AsyncWrite + Unpin), bytes: &[u8]) -> io::Result<usize> {
    if bytes.is_empty() {
        writer.flush().await?;
        return Ok(0);
    }
    writer.write(bytes).await
}

fn advance(
    session: &mut Session,
    replica: &mut FolderReplica,
    shared: &Shared,
) -> Result<(), SyncError<LogError>> {
    block_in_place(|| session.advance(replica, &shared.fetching, shared.now_ms()))
}

/// Says why there is no exchange, and nothing else: a stranger does not learn which log this is.
pub(crate) async fn refuse(stream: impl AsyncRead + AsyncWrite, reason: Farewell) {
    let mut farewell = Vec::new();
    SyncFrame::Bye(reason, String::new()).write(&mut farewell);
    let (mut reader, mut writer) = tokio::io::split(stream);
    part(&mut reader, &mut writer, &farewell).await;
}

/// Sends the last bytes, and ends the connection.
async fn part(
    reader: &mut (impl AsyncRead + Unpin),
    writer: &mut (impl AsyncWrite + Unpin),
    farewell: &[u8],
) {
    let _ = tokio::time::timeout(FAREWELL, async {
        writer.write_all(farewell).await?;
        writer.shutdown().await?;
        // The peer may still be sending. Its bytes must be read, or it never gets the farewell.
        let mut bytes = [0; 4096];
        while reader.read(&mut bytes).await? > 0 {}
        io::Result::Ok(())
    })
    .await;
}
