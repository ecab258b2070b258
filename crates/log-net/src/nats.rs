//! Entries of a log in a stream of a NATS server (`JetStream`), for more nodes than can all be
//! connected with each other.
//!
//! The stream only carries. What comes from it is offered to the log like what comes from a peer.
//! Its acknowledgements say nothing about what is on disk here. It may lose messages, or vanish:
//! then nodes fill it again, and peers fill the gaps.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use async_nats::jetstream::stream::{Config, RawMessageErrorKind, Stream};
use async_nats::jetstream::{self, Context};
use async_nats::{ConnectOptions, HeaderMap};
use bytes::Bytes;
use futures_util::StreamExt as _;
use talaria_log::{
    EntryId, FolderReplica, LogError, LogFolder, Replica as _, Signed, SyncFrame, Taken,
    read_record, to_records,
};
use tokio::task::block_in_place;
use tokio::time::{sleep, timeout};

use crate::connection::{Shared, wall_ms};
use crate::error::NetError;
use crate::{CONNECT, MESSAGE_BYTES, MESSAGE_BYTES_MAX};

/// Time between two looks at the stream without a reason.
const LOOK: Duration = Duration::from_secs(10);
/// Messages that are kept until they are looked at. They only wake the node, so that others may be
/// lost.
const WAKING: usize = 16;
/// Most entries of the stream that are remembered although the log has not admitted them.
const EARLY_MAX: usize = 65_536;

/// The URL of a server without the user and the password.
pub(crate) fn without_password(url: &str) -> String {
    let (scheme, rest) = url.split_once("://").unwrap_or(("nats", url));
    let host = rest.rsplit_once('@').map_or(rest, |(_, host)| host);
    format!("{scheme}://{host}")
}

/// What a node knows about the stream.
#[derive(Default)]
struct Carried {
    /// When the stream was made, in nanoseconds since 1970: another time is another stream.
    created: i128,
    /// The next message to read.
    next: u64,
    /// Whether the stream has an entry of the log with the proof that this node has, by its place.
    seen: Vec<bool>,
    /// Entries of the stream that the log has not admitted yet, and the hashes of their copies.
    early: HashMap<EntryId, EntryId>,
    /// All entries before this place are in the stream.
    published: u64,
}

/// The hash of a copy of an entry. The identity of an entry says nothing about its proof: whoever
/// may write to the stream can put a forged copy there, and nodes refuse it.
fn copy_hash(signed: &Signed) -> EntryId {
    EntryId::of(&signed.to_record())
}

impl Carried {
    /// Notes copies of entries. One that differs from what this node has does not count: it may be
    /// forged, or lack a value.
    fn see(
        &mut self,
        replica: &mut FolderReplica,
        copies: impl IntoIterator<Item = (EntryId, EntryId)>,
    ) -> Result<(), LogError> {
        let Some(log) = replica.log().cloned() else { return Ok(()) };
        let mut here = Vec::new();
        for (id, hash) in copies {
            match log.place(&id)? {
                Some(place) if self.has(place) => {}
                Some(place) => here.push((place, hash)),
                None if self.early.len() < EARLY_MAX => {
                    self.early.insert(id, hash);
                }
                None => {}
            }
        }
        // In their order on disk: neighbours are read together.
        here.sort_unstable();
        for (place, hash) in here {
            let ours = replica.read(&[place])?;
            if ours.first().is_some_and(|ours| copy_hash(ours) == hash) {
                self.see_place(place);
            }
        }
        Ok(())
    }

    fn has(&self, place: u64) -> bool {
        let place = usize::try_from(place).unwrap_or(usize::MAX);
        self.seen.get(place).copied().unwrap_or(false)
    }

    fn see_place(&mut self, place: u64) {
        let place = usize::try_from(place).unwrap_or(usize::MAX);
        if self.seen.len() <= place {
            self.seen.resize(place + 1, false);
        }
        self.seen[place] = true;
    }

    /// The places of the next entries before `end` that the stream does not have, for one message.
    fn missing(&mut self, replica: &mut FolderReplica, end: u64) -> Result<Vec<u64>, LogError> {
        // What was early may have been admitted.
        let early = std::mem::take(&mut self.early);
        self.see(replica, early)?;
        while self.published < end && self.has(self.published) {
            self.published += 1;
        }
        let missing = (self.published..end).filter(|&place| !self.has(place));
        Ok(missing.take(MESSAGE_BYTES / 64).collect())
    }
}

/// A message of the stream: records, as in a frame of the exchange.
fn read_message(payload: &[u8]) -> Option<Vec<Signed>> {
    if payload.len() > MESSAGE_BYTES_MAX {
        return None;
    }
    let SyncFrame::Entries(records) = SyncFrame::read(SyncFrame::ENTRIES, payload).ok()? else {
        return None;
    };
    let entries = records.into_iter().map(|record| read_record(record).ok());
    Some(entries.collect::<Option<Vec<_>>>()?.into_iter().flatten().collect())
}

/// The first of some entries as a message, and their number.
fn write_message(entries: &[Signed]) -> (Vec<u8>, usize) {
    // Entries of a batch that is cut need an audit path each.
    let mut bytes = 0;
    let fits = |signed: &&Signed| {
        bytes += signed.bytes.len() + 2048;
        bytes <= MESSAGE_BYTES
    };
    let count = entries.iter().take_while(fits).count().max(1);
    let mut records = Vec::new();
    to_records(&entries[..count], &mut records);
    let mut out = Vec::new();
    SyncFrame::Entries(records.iter().map(Vec::as_slice).collect()).write(&mut out);
    // The kind and the length of a frame are those of the message.
    (out.split_off(5), count)
}

/// Carries entries between a log and its stream until the node stops or something fails. Calls
/// `connected` once.
pub(crate) async fn carry(
    log: &Arc<LogFolder>,
    shared: &Shared,
    url: &str,
    connected: impl FnOnce(),
) -> Result<(), NetError> {
    let failed =
        |source: async_nats::Error| NetError::Nats { address: without_password(url), source };
    let options = ConnectOptions::new().subscription_capacity(WAKING).name("talaria");
    let client = timeout(CONNECT, options.connect(url)).await;
    let client = client.map_err(|late| failed(late.into()))?.map_err(|e| failed(e.into()))?;
    let subject = format!("talaria.log.{}", log.id());
    let config = Config {
        name: format!("talaria-log-{}", log.id()),
        subjects: vec![subject.clone()],
        ..Config::default()
    };
    let mut waking = client.subscribe(subject.clone()).await.map_err(|e| failed(e.into()))?;
    let context = jetstream::new(client);
    let mut changed = shared.changed.subscribe();
    let mut carried = Carried::default();
    let mut connected = Some(connected);
    loop {
        // The stream is made again if it has vanished.
        let mut stream =
            context.get_or_create_stream(config.clone()).await.map_err(|e| failed(e.into()))?;
        let info = stream.info().await.map_err(|e| failed(e.into()))?;
        let (created, first, last) = (
            info.created.unix_timestamp_nanos(),
            info.state.first_sequence,
            info.state.last_sequence,
        );
        if carried.created != created || last.saturating_add(1) < carried.next {
            carried = Carried { created, ..Carried::default() };
        }
        if let Some(connected) = connected.take() {
            connected();
        }
        // The first message has the number 1, and an empty stream says 0.
        carried.next = carried.next.max(first).max(1);
        while carried.next <= last && !*shared.stop.borrow() {
            read(&stream, log, shared, &mut carried).await.map_err(failed)??;
        }
        publish((&context, &stream), &subject, log, shared, &mut carried)
            .await
            .map_err(failed)??;
        tokio::select! {
            woken = waking.next() => if woken.is_none() {
                return Err(NetError::Closed);
            },
            _ = changed.changed() => {}
            () = sleep(LOOK) => {}
            () = shared.stopped() => return Ok(()),
        }
    }
}

/// Reads the next message.
async fn read(
    stream: &Stream,
    log: &Arc<LogFolder>,
    shared: &Shared,
    carried: &mut Carried,
) -> Result<Result<(), LogError>, async_nats::Error> {
    let message = match stream.get_raw_message(carried.next).await {
        Ok(message) => Some(message),
        Err(error) if error.kind() == RawMessageErrorKind::NoMessageFound => None,
        Err(error) => return Err(error.into()),
    };
    carried.next = carried.next.saturating_add(1);
    // Anybody who may write to the stream can put other things into it.
    let entries = message.and_then(|message| read_message(&message.payload)).unwrap_or_default();
    if entries.is_empty() {
        return Ok(Ok(()));
    }
    Ok(block_in_place(|| {
        let copies: Vec<(EntryId, EntryId)> =
            entries.iter().map(|signed| (signed.id, copy_hash(signed))).collect();
        let mut replica = FolderReplica::new(Arc::clone(log));
        let Taken { added, .. } = replica.take(entries, wall_ms())?;
        if added > 0 {
            shared.changed.send_replace(());
        }
        if added == copies.len() as u64 {
            // Each copy is now that of this node, and need not be read again to be compared.
            for (id, _) in &copies {
                if let Some(place) = log.place(id)? {
                    carried.see_place(place);
                }
            }
            return Ok(());
        }
        carried.see(&mut replica, copies)
    }))
}

/// Writes what the stream lacks and this node has on disk.
async fn publish(
    (context, stream): (&Context, &Stream),
    subject: &str,
    log: &Arc<LogFolder>,
    shared: &Shared,
    carried: &mut Carried,
) -> Result<Result<(), LogError>, async_nats::Error> {
    let mut replica = FolderReplica::new(Arc::clone(log));
    while !*shared.stop.borrow() {
        let piece = block_in_place(|| {
            let places = carried.missing(&mut replica, log.durable())?;
            if places.is_empty() {
                return Ok(None);
            }
            let entries = replica.read(&places)?;
            let (message, count) = write_message(&entries);
            Ok(Some((message, places[..count].to_vec())))
        });
        let (message, places) = match piece {
            Ok(Some(piece)) => piece,
            Ok(None) => break,
            Err(error) => return Ok(Err(error)),
        };
        let message = Bytes::from(message);
        let mut headers = HeaderMap::new();
        // The server drops a message that another node has just written.
        headers.insert("Nats-Msg-Id", EntryId::of(&message).to_string());
        let publish =
            |headers| context.publish_with_headers(subject.to_owned(), headers, message.clone());
        let written = publish(headers).await?.await?;
        if written.duplicate {
            // Somebody may have written another message under its name.
            let first = stream.get_raw_message(written.sequence).await;
            if first.map_or(true, |first| first.payload != message) {
                publish(HeaderMap::new()).await?.await?;
            }
        }
        places.into_iter().for_each(|place| carried.see_place(place));
    }
    Ok(Ok(()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passwords_are_not_shown() {
        for (url, shown) in [
            ("nats://user:pass@host:4222", "nats://host:4222"),
            ("host:4222", "nats://host:4222"),
            ("tls://token@host", "tls://host"),
        ] {
            assert_eq!(without_password(url), shown);
        }
    }

    #[test]
    fn what_is_no_message_is_left_out() {
        for bytes in [&b""[..], b"hello", &[0, 0, 0, 1, 2], &vec![0; MESSAGE_BYTES_MAX + 1]] {
            assert!(read_message(bytes).unwrap_or_default().is_empty());
        }
    }
}
