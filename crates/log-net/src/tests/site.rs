//! A log with an owner, and nodes that serve it.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use parking_lot::Mutex;
use talaria_log::{
    Action, Certificate, Edit, EntryId, FolderReplica, Genesis, Log, LogFolder, Maker, NodeKey,
    Signing, Update, Value,
};
use talaria_message::make::{GenerateOptions, KeyUses, Protection, generate};
use talaria_message::openpgp::Cert;
use talaria_message::openpgp::serialize::MarshalInto as _;
use talaria_message::{Rules, SigningKey, read_cert, signing_key};

use crate::{Event, NetError, NodePublic, NodeSecret, ServeOptions, Stop, serve};

pub(crate) fn now_ms() -> u64 {
    u64::try_from(SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis()).unwrap()
}

fn now() -> u32 {
    u32::try_from(now_ms() / 1000).unwrap()
}

/// A person who signs entries.
pub(crate) struct Person {
    pub(crate) cert: Cert,
    pub(crate) certificate: Certificate,
    key: SigningKey,
}

impl Person {
    pub(crate) fn new(name: &str) -> Self {
        let mut options = GenerateOptions::default();
        options.user_ids = vec![format!("{name} <{name}@example.org>")];
        options.uses = KeyUses::Sign;
        Self::of(generate(&options, &Protection::Unprotected, now() - 100).unwrap().cert)
    }

    fn of(cert: Cert) -> Self {
        let key = signing_key(&cert, Rules::default(), now(), &mut |_, _| None).unwrap();
        let certificate = Certificate::minimal(&cert.to_vec().unwrap()).unwrap();
        Self { cert, certificate, key }
    }

    pub(crate) fn read(path: &Path) -> Self {
        Self::of(read_cert(&std::fs::read(path).unwrap()).unwrap())
    }

    pub(crate) fn save(&self, path: &Path) {
        std::fs::write(path, self.cert.as_tsk().to_vec().unwrap()).unwrap();
    }

    pub(crate) fn maker(&mut self, instance: [u8; 16]) -> Maker<'_> {
        Maker::new(&self.certificate, &mut self.key, instance).unwrap()
    }

    pub(crate) fn act(&mut self, log: &LogFolder, action: Action) -> EntryId {
        log.put_action(&mut self.maker(log.instance()), action, now_ms()).unwrap()
    }

    /// Sets a field of the object 1 to each of some texts.
    pub(crate) fn put(&mut self, log: &LogFolder, texts: &[String]) -> Vec<EntryId> {
        self.try_put(log, texts, Signing::Each)
    }

    pub(crate) fn try_put(
        &mut self,
        log: &LogFolder,
        texts: &[String],
        signing: Signing,
    ) -> Vec<EntryId> {
        let update = |text: &String| Update {
            object: "01".repeat(32),
            edit: Edit::Put("name".into(), Value::String(text.clone())),
        };
        let updates: Vec<Update> = texts.iter().map(update).collect();
        log.put(&mut self.maker(log.instance()), &updates, signing, now_ms()).unwrap()
    }

    /// Publishes the key of a node.
    pub(crate) fn publish(&mut self, log: &LogFolder, key: NodePublic, name: &str) -> EntryId {
        self.act(log, Action::PublishNode(NodeKey { key: key.0, name: name.into() }))
    }
}

/// A new log in a folder.
pub(crate) fn begin(folder: &Path, owner: &mut Person) -> LogFolder {
    let genesis = Genesis::new(vec![owner.certificate.clone()], 1);
    let genesis = owner.maker([0; 16]).begin(genesis, now_ms()).unwrap();
    LogFolder::create(folder, &genesis).unwrap()
}

/// A log of an owner, with some folders for nodes whose keys are published. The first one has the
/// log.
pub(crate) struct Site {
    pub(crate) folder: tempfile::TempDir,
    pub(crate) owner: Person,
    pub(crate) log: EntryId,
    pub(crate) secrets: Vec<NodeSecret>,
}

impl Site {
    pub(crate) fn new(nodes: usize) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut owner = Person::new("olivia");
        let mut secrets = Vec::new();
        for number in 0..nodes {
            let path = folder.path().join(number.to_string());
            std::fs::create_dir(&path).unwrap();
            secrets.push(NodeSecret::of_folder(&path).unwrap());
        }
        let log = begin(&folder.path().join("0"), &mut owner);
        for (number, secret) in secrets.iter().enumerate() {
            owner.publish(&log, secret.public(), &format!("node {number}"));
        }
        owner.save(&folder.path().join("owner.pgp"));
        let id = log.id();
        Self { folder, owner, log: id, secrets }
    }

    pub(crate) fn path(&self, number: usize) -> PathBuf {
        self.folder.path().join(number.to_string())
    }

    pub(crate) fn open(&self, number: usize) -> Arc<LogFolder> {
        Arc::new(LogFolder::open(&self.path(number)).unwrap())
    }

    /// A copy of the log of node 0, for another node.
    pub(crate) fn copy_to(&self, number: usize) {
        let mut export = Vec::new();
        self.open(0).export(&mut export, Path::new("export")).unwrap();
        let path = self.path(number);
        LogFolder::receive(&path, &mut &export[..], "export", Some(self.log), now_ms()).unwrap();
    }

    pub(crate) fn wanted(&self, number: usize) -> FolderReplica {
        FolderReplica::wanted(&self.path(number), self.log)
    }

    /// Serves the log of a node.
    pub(crate) fn serve(&self, number: usize, peers: &[String]) -> Served {
        Served::begin(self.open(number), &self.secrets[number], peers, None)
    }

    /// Serves the log of a node that knows no peers, only a NATS server.
    pub(crate) fn serve_by(&self, number: usize, nats: &str) -> Served {
        Served::begin(self.open(number), &self.secrets[number], &[], Some(nats.to_owned()))
    }
}

/// A node that serves in threads of this process.
pub(crate) struct Served {
    pub(crate) log: Arc<LogFolder>,
    pub(crate) address: String,
    pub(crate) events: Arc<Mutex<Vec<Event>>>,
    stop: Stop,
    thread: Option<JoinHandle<Result<(), NetError>>>,
}

impl Served {
    pub(crate) fn begin(
        log: Arc<LogFolder>,
        secret: &NodeSecret,
        peers: &[String],
        nats: Option<String>,
    ) -> Self {
        let (send, receive) = mpsc::channel::<SocketAddr>();
        let events = Arc::new(Mutex::new(Vec::new()));
        let stop = Stop::default();
        let options =
            ServeOptions { listen: Some("127.0.0.1:0".into()), peers: peers.to_vec(), nats };
        let thread = {
            let (log, secret, stop) = (Arc::clone(&log), secret.clone(), stop.clone());
            let events = Arc::clone(&events);
            std::thread::spawn(move || {
                serve(log, &secret, &options, &stop, move |event| match event {
                    Event::Listening(address) => send.send(address).unwrap(),
                    other => events.lock().push(other),
                })
            })
        };
        let address = receive.recv().unwrap().to_string();
        Self { log, address, events, stop, thread: Some(thread) }
    }

    pub(crate) fn end(mut self) {
        self.stop.stop();
        self.thread.take().unwrap().join().unwrap().unwrap();
    }

    /// Waits until an event has come.
    pub(crate) fn wait_for(&self, what: &str, is_it: impl Fn(&Event) -> bool) {
        wait(what, || self.events.lock().iter().any(&is_it));
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        self.stop.stop();
    }
}

/// Waits until something holds, for two minutes at most.
pub(crate) fn wait(what: &str, holds: impl Fn() -> bool) {
    let began = Instant::now();
    while !holds() {
        assert!(began.elapsed() < Duration::from_secs(120), "{what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// The number of entries, and the hash of the state.
pub(crate) fn content(log: &LogFolder) -> (usize, [u8; 32]) {
    log.read(|log| (log.len(), Log::state_hash(log))).unwrap()
}

/// Waits until logs are the same.
pub(crate) fn wait_until_same(logs: &[&LogFolder]) {
    let heads = |log: &LogFolder| log.read(Log::heads).unwrap();
    wait("the logs do not become the same", || {
        logs.windows(2).all(|two| heads(two[0]) == heads(two[1]))
    });
    assert!(logs.windows(2).all(|two| content(two[0]) == content(two[1])));
}
