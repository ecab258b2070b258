//! Peers that flood, drip, never read, or send what the log refuses. The node and its other peers
//! go on.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

use talaria_log::{
    Action, Change, DataAction, EntryId, FieldChange, HEADS_KEPT_MAX, ObjectId, Signing,
    SyncFrame as Frame, Value,
};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpSocket, TcpStream};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::pki_types::ServerName;

use super::kills::Process;
use super::site::{Person, Site, content, now_ms};
use crate::{CONNECTIONS_PER_KEY, NodeSecret, Stop, sync, tls};

/// A connection from another address of this machine, without a word.
async fn dial(address: &str) -> TcpStream {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind(SocketAddr::new(Ipv4Addr::new(127, 0, 0, 9).into(), 0)).unwrap();
    socket.connect(address.parse().unwrap()).await.unwrap()
}

/// A connection with a key.
async fn connect(address: &str, secret: &NodeSecret) -> TlsStream<TcpStream> {
    let connector = TlsConnector::from(tls::client(secret).unwrap());
    let name = ServerName::IpAddress(IpAddr::from([127, 0, 0, 1]).into());
    connector.connect(name, dial(address).await).await.unwrap()
}

fn frames(frames: &[Frame<'_>]) -> Vec<u8> {
    let mut bytes = Vec::new();
    frames.iter().for_each(|frame| frame.write(&mut bytes));
    bytes
}

/// Whether there is a want among the frames.
fn has_want(bytes: &[u8]) -> bool {
    let mut rest = bytes;
    while let Some((head, behind)) = rest.split_first_chunk::<5>() {
        if head[0] == 3 {
            return true;
        }
        let length = u32::from_be_bytes(head[1..].try_into().unwrap()) as usize;
        rest = behind.get(length..).unwrap_or_default();
    }
    false
}

/// The reason of the farewell at the end of some bytes: its number.
fn farewell(bytes: &[u8]) -> Option<u8> {
    let mut rest = bytes;
    let mut reason = None;
    while let Some((head, behind)) = rest.split_first_chunk::<5>() {
        let length = u32::from_be_bytes(head[1..].try_into().unwrap()) as usize;
        reason = (head[0] == 8).then(|| behind[0]);
        rest = behind.get(length..)?;
    }
    reason
}

/// Sends bytes, and others after an answer, and gives the number of the farewell.
async fn say(address: &str, secret: &NodeSecret, (first, then): (&[u8], &[u8])) -> Option<u8> {
    let mut stream = connect(address, secret).await;
    let _ = stream.write_all(first).await;
    if !then.is_empty() {
        // The node has said hello, has announced its heads, and wants what it has not.
        let mut answer = [0; 4096];
        let mut bytes = Vec::new();
        while !has_want(&bytes) {
            let count = stream.read(&mut answer).await.unwrap();
            assert!(count > 0);
            bytes.extend_from_slice(&answer[..count]);
        }
        let _ = stream.write_all(then).await;
    }
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer).await;
    farewell(&answer)
}

/// A site whose first node is a process, whose second key is that of a hostile peer, and whose
/// third is that of a good one.
fn site() -> (Site, Process) {
    let mut site = Site::new(3);
    let log = site.open(0);
    // More than the sockets of all connections hold.
    let texts: Vec<String> = (0..300).map(|n| format!("{n}{}", "x".repeat(60_000))).collect();
    site.owner.try_put(&log, &texts, Signing::Each);
    drop(log);
    site.copy_to(1);
    let node = Process::start(site.folder.path(), 0, "127.0.0.1:0", &[], None);
    (site, node)
}

/// A good peer gets the whole log.
fn is_served(site: &Site, node: &Process) {
    let folder = tempfile::tempdir().unwrap();
    let replica = talaria_log::FolderReplica::wanted(&folder.path().join("log"), site.log);
    let key = site.secrets[0].public();
    let done = sync(replica, &site.secrets[2], Some(key), &node.address, &Stop::default()).unwrap();
    done.result.unwrap();
    assert_eq!(content(&done.log.unwrap()).0, 304);
}

#[tokio::test(flavor = "multi_thread")]
async fn connections_that_show_no_key_keep_nobody_out() {
    let (site, node) = site();
    let mut silent = Vec::new();
    for _ in 0..300 {
        silent.push(dial(&node.address).await);
    }
    tokio::task::spawn_blocking(move || {
        is_served(&site, &node);
        drop((site, node));
    })
    .await
    .unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_protocol_does_not_allow_ends_the_connection() {
    let (mut site, node) = site();
    let hello = Frame::Hello(site.log);
    let said = |frame: Frame<'static>| frames(&[hello.clone(), frame]);
    let mut garbage = frames(std::slice::from_ref(&hello));
    garbage.extend(b"GET / HTTP/1.1\r\n\r\n");
    let forged = forged(&mut site);
    let announced = Frame::Heads { number: 1, is_last: true, ids: vec![EntryId([7; 32])] };
    let wanted = frames(&[hello.clone(), announced.clone()]);
    let entries = frames(&[Frame::Entries(vec![&forged])]);
    let unwanted = [&wanted[..], &entries].concat();
    let none: &[u8] = &[];
    let end = said(Frame::End { more: false });
    let other = frames(&[Frame::Hello(EntryId([1; 32]))]);
    let cases = [
        ((&garbage[..], none), 5),
        ((&end, none), 5),
        ((&unwanted, none), 5),
        ((&other, none), 2),
        ((&wanted, &entries), 4),
    ];
    for (bytes, reason) in cases {
        assert_eq!(say(&node.address, &site.secrets[1], bytes).await, Some(reason));
    }
    tokio::task::spawn_blocking(move || {
        is_served(&site, &node);
        drop((site, node));
    })
    .await
    .unwrap();
}

/// An entry of the owner behind all that the node has, signed by somebody else.
fn forged(site: &mut Site) -> Vec<u8> {
    let log = site.open(1);
    let set = FieldChange::Set(Some(Value::Integer(1)));
    let change = Change::Field("name".into(), set);
    let action = Action::Data(DataAction { object: ObjectId([1; 32]), change });
    let chain = site.owner.maker(log.instance()).chain;
    let entry = log.read(|log| log.draft(chain, action, now_ms())).unwrap().unwrap();
    let mut mallory = Person::new("mallory");
    let mut maker = mallory.maker(log.instance());
    maker.chain = chain;
    maker.sign(entry, log.id(), now_ms()).unwrap().to_record()
}

/// A stranger with a key of their own learns that it is refused, and nothing about the log.
#[tokio::test(flavor = "multi_thread")]
async fn a_stranger_does_not_learn_which_log_it_is() {
    let (site, node) = site();
    let folder = tempfile::tempdir().unwrap();
    let stranger = NodeSecret::of_folder(folder.path()).unwrap();
    let mut stream = connect(&node.address, &stranger).await;
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer).await;
    assert_eq!(answer, [8, 0, 0, 0, 1, 1]);
    drop((site, node));
}

/// Peers with a published key that never read, and announce what nobody has: each connection costs
/// at most what the format says.
#[tokio::test(flavor = "multi_thread")]
async fn a_peer_that_never_reads_costs_bounded_memory() {
    let (site, node) = site();
    let before = node.peak();
    let mut open = Vec::new();
    for _ in 0..CONNECTIONS_PER_KEY + 2 {
        let mut stream = connect(&node.address, &site.secrets[1]).await;
        let mut bytes = frames(&[Frame::Hello(site.log)]);
        let ids = (0..HEADS_KEPT_MAX as u64).map(|n| EntryId::of(&n.to_be_bytes()));
        let ids: Vec<EntryId> = ids.collect();
        for ids in ids.chunks(8192) {
            Frame::Heads { number: 1, is_last: false, ids: ids.to_vec() }.write(&mut bytes);
        }
        Frame::Want { is_last: true, ids: vec![] }.write(&mut bytes);
        // The connections that are too many are closed.
        let _ = stream.write_all(&bytes).await;
        // A frame that never ends.
        let _ = stream.write_all(&[4, 0, 0x3f, 0, 0]).await;
        let _ = stream.write_all(&vec![0; 3 << 20]).await;
        open.push(stream);
    }
    tokio::time::sleep(Duration::from_secs(1)).await;
    tokio::task::spawn_blocking(move || {
        is_served(&site, &node);
        let grown = node.peak().saturating_sub(before);
        // The good peer is one more.
        let bound = (CONNECTIONS_PER_KEY as u64 + 1) * (24 << 20);
        assert!(grown < bound, "{grown}");
        drop((site, node));
    })
    .await
    .unwrap();
    drop(open);
}

/// One byte now and then holds nobody up.
#[tokio::test(flavor = "multi_thread")]
async fn a_peer_that_drips_holds_nobody_up() {
    let (site, node) = site();
    let mut stream = connect(&node.address, &site.secrets[1]).await;
    stream.write_all(&frames(&[Frame::Hello(site.log)])).await.unwrap();
    let drip = tokio::spawn(async move {
        while stream.write_all(&[4]).await.is_ok() && stream.flush().await.is_ok() {
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    });
    tokio::task::spawn_blocking(move || {
        is_served(&site, &node);
        drop((site, node));
    })
    .await
    .unwrap();
    drip.abort();
}
