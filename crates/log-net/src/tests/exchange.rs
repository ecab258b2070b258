//! Nodes that do as they should.

use std::io::{Read as _, Write as _};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;
use talaria_log::{
    Action, Edit, Farewell, FolderReplica, Follower, Log, LogFolder, Signing, Update, Value,
    deletable,
};

use super::site::{Person, Site, content, now_ms, wait, wait_until_same};
use crate::{Event, NetError, Stop, sync};

fn texts(name: &str, count: usize) -> Vec<String> {
    (0..count).map(|number| format!("{name} {number}")).collect()
}

#[test]
fn a_new_node_gets_everything_by_one_exchange() {
    let mut site = Site::new(2);
    let log = site.open(0);
    site.owner.put(&log, &texts("each", 300));
    site.owner.try_put(&log, &texts("batch", 3000), Signing::Together);
    drop(log);
    let node = site.serve(0, &[]);
    let key = site.secrets[0].public();
    let done =
        sync(site.wanted(1), &site.secrets[1], Some(key), &node.address, &Stop::default()).unwrap();
    done.result.unwrap();
    let log = done.log.unwrap();
    assert_eq!((done.peer, done.report.added), (key, 3303));
    assert_eq!(content(&log), content(&node.log));
    assert_eq!(log.verify().unwrap().failed, []);
    // What the new node writes goes the other way, and nothing comes twice.
    site.owner.put(&log, &texts("new", 10));
    let replica = FolderReplica::new(Arc::clone(&log));
    let done = sync(replica, &site.secrets[1], None, &node.address, &Stop::default()).unwrap();
    done.result.unwrap();
    assert_eq!((done.report.added, done.report.sent, done.report.peer.added), (0, 10, 10));
    assert_eq!(content(&log), content(&node.log));
    node.end();
}

/// Each of three nodes knows one other; what one writes comes to all, and stays there when it is
/// opened again.
#[test]
fn nodes_stay_the_same_while_all_write() {
    let site = Site::new(3);
    site.copy_to(1);
    site.copy_to(2);
    let a = site.serve(0, &[]);
    let b = site.serve(1, std::slice::from_ref(&a.address));
    let c = site.serve(2, std::slice::from_ref(&b.address));
    let path = site.folder.path().join("owner.pgp");
    std::thread::scope(|scope| {
        for (name, node) in [("a", &a), ("b", &b), ("c", &c)] {
            let mut person = Person::read(&path);
            scope.spawn(move || {
                for text in texts(name, 100) {
                    person.put(&node.log, &[text]);
                }
            });
        }
    });
    wait_until_same(&[&a.log, &b.log, &c.log]);
    assert_eq!(content(&a.log).0, 304);
    let before = content(&c.log);
    for node in [a, b, c] {
        node.end();
    }
    assert_eq!(content(&LogFolder::open(&site.path(2)).unwrap()), before);
}

#[test]
fn a_key_that_is_not_published_gets_nothing_and_one_that_is_ended_no_more() {
    let mut site = Site::new(2);
    let node = site.serve(0, &[]);
    let key = site.secrets[0].public();
    // A stranger who knows the log and the key of the node.
    let folder = tempfile::tempdir().unwrap();
    let stranger = crate::NodeSecret::of_folder(folder.path()).unwrap();
    let replica = FolderReplica::wanted(&folder.path().join("log"), site.log);
    let done = sync(replica, &stranger, Some(key), &node.address, &Stop::default()).unwrap();
    let error = done.result.unwrap_err();
    assert_eq!(error.word(), "not-published");
    assert!(matches!(error, NetError::OwnNotPublished { .. }), "{error}");
    assert!(done.log.is_none() && !folder.path().join("log").exists());
    node.wait_for("the refusal is told", |event| {
        matches!(event, Event::Refused(_, Some(key), Farewell::NotPublished)
            if *key == stranger.public())
    });
    // The peer must have the key that the caller expects.
    let other = stranger.public();
    let address = &node.address;
    let done = sync(site.wanted(1), &site.secrets[1], Some(other), address, &Stop::default());
    assert_eq!(done.unwrap_err().word(), "other-key");
    // Without a log and without a key, the peer cannot be known.
    let done = sync(site.wanted(1), &site.secrets[1], None, address, &Stop::default()).unwrap();
    assert_eq!(done.result.unwrap_err().word(), "not-published");
    // A connection ends when the key of the peer is ended.
    site.owner.put(&node.log, &texts("x", 1));
    sync(site.wanted(1), &site.secrets[1], Some(key), address, &Stop::default()).unwrap();
    node.events.lock().clear();
    let peer = site.serve(1, std::slice::from_ref(address));
    node.wait_for("the peer connects", |event| matches!(event, Event::Opened(_)));
    let published = node.log.read(|log| {
        log.nodes().find(|(_, _, node, _)| node.key == site.secrets[1].public().0).unwrap().0
    });
    site.owner.act(&node.log, Action::EndNode(published.unwrap()));
    node.wait_for("the connection ends", |event| {
        matches!(event, Event::Closed(_, _, Some(NetError::NotPublished { .. })))
    });
    let ended = content(&node.log);
    site.owner.put(&node.log, &texts("secret", 1));
    node.wait_for("the peer is refused", |event| {
        matches!(event, Event::Refused(_, Some(key), Farewell::NotPublished)
            if *key == site.secrets[1].public())
    });
    assert!(content(&peer.log).0 <= ended.0);
    peer.end();
    node.end();
}

#[test]
fn a_node_is_no_peer_of_itself_and_says_who_cannot_be_reached() {
    let site = Site::new(1);
    let node = site.serve(0, &[]);
    let done = sync(
        FolderReplica::new(Arc::clone(&node.log)),
        &site.secrets[0],
        None,
        &node.address,
        &Stop::default(),
    );
    assert_eq!(done.unwrap_err().word(), "own");
    let free = format!("127.0.0.1:{}", talaria_needs::free_port());
    let replica = FolderReplica::new(Arc::clone(&node.log));
    let done = sync(replica, &site.secrets[0], None, &free, &Stop::default());
    assert_eq!(done.unwrap_err().word(), "connect");
    // Something else listens there.
    let web = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = web.local_addr().unwrap().to_string();
    let thread = std::thread::spawn(move || {
        let (mut stream, _) = web.accept().unwrap();
        stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").unwrap();
        let _ = stream.read(&mut [0; 4096]);
    });
    let replica = FolderReplica::new(Arc::clone(&node.log));
    let done = sync(replica, &site.secrets[0], None, &address, &Stop::default());
    assert_eq!(done.unwrap_err().word(), "not-a-node");
    thread.join().unwrap();
    node.end();
}

/// A program that wants the log of a node that serves gets it, and its entries go on to the peers.
#[test]
fn a_node_lends_its_log_to_those_who_wait() {
    let mut site = Site::new(2);
    site.copy_to(1);
    let a = site.serve(0, &[]);
    let b = site.serve(1, std::slice::from_ref(&a.address));
    let heard = Arc::new(Mutex::new(0));
    let count = Arc::clone(&heard);
    a.log.after(talaria_log::Interest::default(), move |_| {
        *count.lock() += 1;
        std::ops::ControlFlow::Continue(())
    });
    for round in 0..5 {
        let log = LogFolder::open_when_free(&site.path(0), || {}).unwrap();
        site.owner.put(&log, &texts(&format!("round {round}"), 20));
        drop(log);
        // The node itself writes between.
        site.owner.put(&a.log, &texts("own", 1));
    }
    wait_until_same(&[&a.log, &b.log]);
    assert_eq!(content(&a.log).0, 3 + 5 * 21);
    // The thread that lends the log may still be telling what an append has left to it.
    wait("not every change is told", || *heard.lock() >= 5 * 21);
    assert!(a.log.read(|log| log.forks().is_empty()).unwrap());
    a.wait_for("it is told", |event| matches!(event, Event::Lent));
    b.end();
    a.end();
    assert_eq!(*heard.lock(), 5 * 21);
}

/// A compaction writes all segments anew. The node that has lent its log goes on, and so does a
/// reader.
#[test]
fn a_node_goes_on_after_a_compaction_by_another_program() {
    let mut site = Site::new(2);
    site.copy_to(1);
    let a = site.serve(0, &[]);
    let b = site.serve(1, std::slice::from_ref(&a.address));
    let mut reader = Follower::open(&site.path(0)).unwrap();
    let edit = |log: &LogFolder, owner: &mut Person, edit: Edit| {
        let update = Update { object: "01".repeat(32), edit };
        let mut maker = owner.maker(log.instance());
        log.put(&mut maker, &[update], Signing::Each, now_ms()).unwrap();
    };
    let secret = deletable(&Value::String("secret".into())).unwrap();
    edit(&a.log, &mut site.owner, Edit::PutDeletable("name".into(), secret));
    let first = site.owner.put(&a.log, &texts("before", 20));
    assert_eq!(reader.advance().unwrap().len(), 21);
    let log = LogFolder::open_when_free(&site.path(0), || {}).unwrap();
    edit(&log, &mut site.owner, Edit::DeleteValues("name".into()));
    assert_eq!(log.compact(|_| {}).unwrap().values, 1);
    drop(log);
    site.owner.put(&a.log, &texts("after", 20));
    wait_until_same(&[&a.log, &b.log]);
    for log in [&a.log, &b.log] {
        assert!(first.iter().all(|id| log.signed(id).unwrap().is_some()));
        assert_eq!(log.verify().unwrap().failed, []);
    }
    assert_eq!(reader.advance().unwrap().len(), 21);
    assert_eq!(reader.read(Log::state_hash).unwrap(), content(&a.log).1);
    a.end();
    b.end();
}

/// A proxy between two nodes that can be cut.
struct Wire {
    address: String,
    is_cut: Arc<AtomicBool>,
    open: Arc<Mutex<Vec<TcpStream>>>,
}

impl Wire {
    fn to(address: &str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let own = listener.local_addr().unwrap().to_string();
        let is_cut = Arc::new(AtomicBool::new(false));
        let open: Arc<Mutex<Vec<TcpStream>>> = Arc::default();
        let (cut, streams, to) = (Arc::clone(&is_cut), Arc::clone(&open), address.to_owned());
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let one = stream.unwrap();
                if cut.load(Ordering::SeqCst) {
                    continue;
                }
                let other = TcpStream::connect(&to).unwrap();
                for (mut from, mut to) in [
                    (one.try_clone().unwrap(), other.try_clone().unwrap()),
                    (other.try_clone().unwrap(), one.try_clone().unwrap()),
                ] {
                    std::thread::spawn(move || {
                        let _ = std::io::copy(&mut from, &mut to);
                        let _ = to.shutdown(Shutdown::Both);
                    });
                }
                streams.lock().extend([one, other]);
            }
        });
        Self { address: own, is_cut, open }
    }

    fn cut(&self) {
        self.is_cut.store(true, Ordering::SeqCst);
        for stream in self.open.lock().drain(..) {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }

    fn mend(&self) {
        self.is_cut.store(false, Ordering::SeqCst);
    }
}

#[test]
fn a_partition_of_three_nodes_heals() {
    let mut site = Site::new(3);
    site.copy_to(1);
    site.copy_to(2);
    let a = site.serve(0, &[]);
    let (ab, ac) = (Wire::to(&a.address), Wire::to(&a.address));
    let b = site.serve(1, std::slice::from_ref(&ab.address));
    let bc = Wire::to(&b.address);
    let c = site.serve(2, &[ac.address.clone(), bc.address.clone()]);
    site.owner.put(&a.log, &texts("together", 5));
    wait_until_same(&[&a.log, &b.log, &c.log]);
    // A is alone; B and C go on together.
    ab.cut();
    ac.cut();
    site.owner.put(&a.log, &texts("alone", 50));
    site.owner.put(&b.log, &texts("b", 50));
    wait_until_same(&[&b.log, &c.log]);
    site.owner.put(&c.log, &texts("c", 50));
    wait_until_same(&[&b.log, &c.log]);
    assert_eq!((content(&a.log).0, content(&b.log).0), (4 + 55, 4 + 105));
    // Only one of the wires comes back.
    ac.mend();
    wait_until_same(&[&a.log, &b.log, &c.log]);
    assert_eq!(content(&a.log).0, 4 + 155);
    for node in [c, b, a] {
        node.end();
    }
}

/// A node that tells two peers different stories: when these meet, both know it.
#[test]
fn two_stories_of_one_node_are_found_when_its_peers_meet() {
    let mut site = Site::new(3);
    site.copy_to(1);
    site.copy_to(2);
    let log = site.open(0);
    let instance = log.instance();
    let first = site.owner.put(&log, &texts("one story", 1));
    drop(log);
    let forked = {
        // The same place in the chain, behind the same entry.
        let log = LogFolder::open(&site.path(1)).unwrap();
        log.append(|log| {
            let mut maker = site.owner.maker(instance);
            let set = talaria_log::FieldChange::Set(Some(talaria_log::Value::Integer(2)));
            let action = Action::Data(talaria_log::DataAction {
                object: talaria_log::ObjectId([1; 32]),
                change: talaria_log::Change::Field("name".into(), set),
            });
            let made = maker.make(log, action, now_ms()).unwrap();
            let id = made.id;
            Ok::<_, talaria_log::LogError>((vec![made], id))
        })
        .unwrap()
    };
    let a = site.serve(0, &[]);
    let c = site.serve(2, std::slice::from_ref(&a.address));
    wait_until_same(&[&a.log, &c.log]);
    assert!(c.log.read(|log| log.entry(&first[0]).is_some() && log.forks().is_empty()).unwrap());
    a.end();
    // The peers meet.
    let b = site.serve(1, std::slice::from_ref(&c.address));
    wait_until_same(&[&b.log, &c.log]);
    for log in [&b.log, &c.log] {
        let forks = log.read(talaria_log::Log::forks).unwrap();
        assert_eq!(forks.len(), 1);
        assert!(forks[0].entries.contains(&first[0]) && forks[0].entries.contains(&forked));
        let counts =
            |id| log.read(|log| log.standing(id)).unwrap() == Some(talaria_log::Standing::Counts);
        assert!(!counts(&first[0]) && !counts(&forked));
    }
    wait("the connection stays", || {
        b.events.lock().iter().all(|event| !matches!(event, Event::Closed(..)))
    });
    b.end();
    c.end();
}
