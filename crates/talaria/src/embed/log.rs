//! The signed log, for programs in other languages.

use std::fs::{self, File};
use std::io::{BufReader, BufWriter, Write as _};
use std::path::Path;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use parking_lot::{Mutex, RwLock};
use talaria_disk::{NewFile, Readers};
use talaria_log::{
    Action, Change, Content, DataAction, EntryId, EpochKeys, FolderReplica, Follower, Honoured,
    Imported, KeyName, Log, LogError, LogFolder, Maker, MergeRule, NewCheckpointer, NodeKey,
    Operations, Pattern, ProofFiles, SessionReport, Signing, SnapshotFile, Standing, Target,
    Update, UpdateError, Value, WitnessFolder, read_note_key,
};
use talaria_log_net::{Event, NetError, NodePublic, NodeSecret, ServeOptions, Stop, Synced};
use talaria_message::openpgp::Fingerprint;
use talaria_message::{MessageError, Recipients, Rules, Secrets};

use crate::embed::call::{now, now_ms};
use crate::embed::input::{parse_all, secret_keys};
use crate::embed::key::SharedKey;
use crate::error::{Error, failed};
use crate::log_session::{
    NewGrant, NewLog, Revoked, chain_of, log_certificate, log_grant, log_revoke,
};

fn usage(text: &'static str) -> Error {
    MessageError::Usage(text).into()
}

/// A pattern of fields.
fn pattern(text: &str) -> Result<Pattern, Error> {
    Pattern::new(text).ok_or_else(|| usage("a pattern of fields has 1 to 256 bytes"))
}

/// A log in a folder. All threads of a program share it, and their commits share syncs. No other
/// process can open it meanwhile, unless it is served ([`SharedLog::serve`]).
pub struct SharedLog {
    log: Arc<LogFolder>,
    /// The keys that open encrypted values.
    keys: RwLock<Arc<EpochKeys>>,
}

/// A change in the history of an object.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct HistoryEntry {
    /// The identity of the entry.
    pub id: EntryId,
    /// The fingerprint of the author's certificate.
    pub author: String,
    /// The operation, one word.
    pub operation: &'static str,
    /// The field, if the change is about one. A pattern where encryption begins or ends.
    pub field: Option<String>,
    /// The new value, if there is one: for a creation, the name of the object. A commitment for a
    /// deletable value that is deleted, or not here, and the encrypted value with the reason if no
    /// key opens it.
    pub value: Option<Value>,
    /// The time that the author claims, in milliseconds since 1970.
    pub time_ms: u64,
    /// Whether the entry counts, one word: `counts`, `revoked`, `forked` or `grant-ended`.
    pub standing: &'static str,
}

impl HistoryEntry {
    /// `None` if the entry is no change of an object.
    fn of(log: &Log, keys: &EpochKeys, id: &EntryId) -> Option<Self> {
        let entry = log.entry(id)?;
        let Action::Data(DataAction { change, .. }) = &entry.action else { return None };
        let (field, value) = match change {
            Change::Create(name) => (None, Some(Value::String(name.clone()))),
            Change::Delete => (None, None),
            Change::Field(field, change) => {
                (Some(field.clone()), keys.revealed(log, id, change).value())
            }
            Change::Encrypt(fields, _) | Change::StopEncrypting(fields) => {
                (Some(fields.as_str().to_owned()), None)
            }
        };
        Some(Self {
            id: *id,
            author: entry.author().fingerprint().to_string(),
            operation: entry.action.name(),
            field,
            value,
            time_ms: entry.clock.ms(),
            standing: log.standing(id).map_or("", Standing::name),
        })
    }
}

/// A log that is served by threads of this process, until it is dropped or stopped.
pub struct LogNode {
    address: Option<String>,
    stop: Stop,
    thread: Mutex<Option<JoinHandle<Result<(), NetError>>>>,
}

impl LogNode {
    /// The address at which the node listens, as `IP:PORT`.
    #[must_use]
    pub fn address(&self) -> Option<&str> {
        self.address.as_deref()
    }

    /// Stops the node, and waits until it has ended.
    ///
    /// # Errors
    ///
    /// [`Error::Net`] if it ended before its time.
    pub fn stop(&self) -> Result<(), Error> {
        self.stop.stop();
        let thread = self.thread.lock().take();
        match thread.map(JoinHandle::join) {
            None | Some(Ok(Ok(()))) => Ok(()),
            Some(Ok(Err(error))) => Err(error.into()),
            Some(Err(_)) => Err(Error::Bug),
        }
    }
}

impl Drop for LogNode {
    fn drop(&mut self) {
        self.stop.stop();
    }
}

/// A reader of the changes of a log that this or another process writes.
pub struct LogWatcher {
    follower: Mutex<Follower>,
    /// The keys that open encrypted values.
    keys: EpochKeys,
}

/// Time between two looks at a log that is watched.
const LOOK: Duration = Duration::from_millis(50);

impl LogWatcher {
    /// Begins behind what is in the log in `folder` now. Encrypted values are opened with the
    /// secret keys in `keys`, each of which is unlocked with one of `key_passphrases`.
    ///
    /// # Errors
    ///
    /// [`Error::Log`]; [`Error::Message`] if an item of `keys` has no key.
    pub fn open<K: AsRef<[u8]>, P: AsRef<[u8]>>(
        folder: &Path,
        keys: &[K],
        key_passphrases: &[P],
    ) -> Result<Self, Error> {
        let keys = epoch_keys(keys, key_passphrases)?;
        Ok(Self { follower: Mutex::new(Follower::open(folder)?), keys })
    }

    /// The changes since the last call. Waits for one, for `timeout` at most.
    ///
    /// # Errors
    ///
    /// [`Error::Log`].
    pub fn changes(&self, timeout: Duration) -> Result<Vec<HistoryEntry>, Error> {
        let end = Instant::now() + timeout;
        let mut follower = self.follower.lock();
        loop {
            let came = follower.advance()?;
            let changes: Vec<HistoryEntry> = follower.read(|log| {
                came.iter().filter_map(|id| HistoryEntry::of(log, &self.keys, id)).collect()
            })?;
            let left = end.saturating_duration_since(Instant::now());
            if !changes.is_empty() || left.is_zero() {
                return Ok(changes);
            }
            std::thread::sleep(LOOK.min(left));
        }
    }
}

/// Figures of a log.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct LogFigures {
    /// The number of entries.
    pub entries: u64,
    /// The number of objects that are not deleted.
    pub objects: u64,
    /// The number of chains.
    pub chains: u64,
    /// The number of grants in force.
    pub grants: u64,
    /// The number of forks.
    pub forks: u64,
    /// The number of entries that the last valid checkpoint covers; 0 without one.
    pub covered: u64,
    /// The length of the log on disk in bytes.
    pub bytes: u64,
    /// The number of syncs since the log was opened.
    pub syncs: u64,
    /// The hash of the state. Equal on two nodes with the same entries.
    pub state: EntryId,
}

impl SharedLog {
    /// Makes a log in `folder`, which is empty or does not exist. The owners are the owner of `key`
    /// and those of the certificates in `owners`. `rules` are patterns of fields with the name of a
    /// merge rule; the first match counts. Without `checkpointer`, the log has no checkpoints.
    ///
    /// # Errors
    ///
    /// [`Error::Message`] for what is no pattern or rule; [`Error::LogThreshold`]; [`Error::Log`];
    /// [`Error::Witness`].
    pub fn create<B: AsRef<[u8]>>(
        folder: &Path,
        key: &SharedKey,
        owners: &[B],
        threshold: u8,
        rules: &[(String, String)],
        checkpointer: Option<NewCheckpointer<'_>>,
    ) -> Result<Self, Error> {
        let certs = std::iter::once(key.cert.clone()).chain(parse_all(owners)?);
        let owners = certs.map(|cert| log_certificate(&cert, now())).collect::<Result<_, _>>()?;
        let rule = |(fields, rule): &(String, String)| {
            let rule = MergeRule::from_name(rule).ok_or_else(|| {
                usage("a merge rule is last-writer, strict, set, counter or list")
            })?;
            Ok((pattern(fields)?, rule))
        };
        let rules = rules.iter().map(rule).collect::<Result<_, Error>>()?;
        let new = NewLog { owners, threshold, rules, checkpointer };
        let (log, _) = key.write(|maker| new.make(folder, maker, now_ms()))?;
        Ok(Self::of(log))
    }

    /// Opens the log in `folder`.
    ///
    /// # Errors
    ///
    /// [`Error::Log`], for instance if another process has it open.
    pub fn open(folder: &Path) -> Result<Self, Error> {
        Ok(Self::of(LogFolder::open(folder)?))
    }

    /// Makes a log in `folder` from the export `file` of another node. With `expected`, only a log
    /// with this identity.
    ///
    /// # Errors
    ///
    /// [`Error::Log`]; [`Error::Io`]; [`Error::Message`] if `expected` is no identity.
    pub fn receive(
        folder: &Path,
        file: &Path,
        expected: Option<&str>,
    ) -> Result<(Self, Imported), Error> {
        let expected = expected.map(entry_id).transpose()?;
        let (mut input, name) = open(file)?;
        let (log, imported) = LogFolder::receive(folder, &mut input, &name, expected, now_ms())?;
        Ok((Self::of(log), imported))
    }

    fn of(log: impl Into<Arc<LogFolder>>) -> Self {
        Self { log: log.into(), keys: RwLock::default() }
    }

    /// Opens encrypted values from now on with the secret keys in `keys`, each of which is unlocked
    /// with one of `key_passphrases`.
    ///
    /// # Errors
    ///
    /// [`Error::Message`] if an item of `keys` has no key.
    pub fn unlock<K: AsRef<[u8]>, P: AsRef<[u8]>>(
        &self,
        keys: &[K],
        key_passphrases: &[P],
    ) -> Result<(), Error> {
        let keys = Arc::new(epoch_keys(keys, key_passphrases)?);
        *self.keys.write() = keys;
        Ok(())
    }

    fn keys(&self) -> Arc<EpochKeys> {
        Arc::clone(&self.keys.read())
    }

    /// Reads the log with the keys that open encrypted values.
    fn read<T>(
        &self,
        read: impl FnOnce(&Log, &EpochKeys) -> Result<T, UpdateError>,
    ) -> Result<T, Error> {
        let keys = self.keys();
        Ok(self.log.read(|log| read(log, &keys))?.map_err(LogError::from)?)
    }

    /// Encrypts values of the fields of `object` that match a pattern from now on, to the
    /// certificates in `readers` and to nobody else.
    ///
    /// # Errors
    ///
    /// [`Error::Message`] for a certificate without a key to encrypt to, and for no pattern;
    /// [`Error::Log`].
    pub fn encrypt<B: AsRef<[u8]>>(
        &self,
        key: &SharedKey,
        object: &str,
        fields: &str,
        readers: &[B],
    ) -> Result<EntryId, Error> {
        let fields = pattern(fields)?;
        let mut recipients = Recipients::default();
        for cert in &parse_all(readers)? {
            recipients.add(cert, Rules::default(), &mut |_| None, now())?;
        }
        key.write(|maker| {
            Ok(self.log.begin_epoch(maker, object, &fields, &recipients, now_ms())?)
        })
    }

    /// Encrypts values of the fields of `object` that match a pattern no more.
    ///
    /// # Errors
    ///
    /// [`Error::Message`] for no pattern; [`Error::Log`].
    pub fn stop_encrypting(
        &self,
        key: &SharedKey,
        object: &str,
        fields: &str,
    ) -> Result<EntryId, Error> {
        let fields = pattern(fields)?;
        key.write(|maker| Ok(self.log.stop_encrypting(maker, object, &fields, now_ms())?))
    }

    /// The folder of the log, for what needs neither a key nor the time.
    #[must_use]
    pub fn folder(&self) -> &LogFolder {
        &self.log
    }

    /// Writes updates by the owner of `key` with one sync, all or none, and returns the identities
    /// of the entries. They are on disk when this returns.
    ///
    /// # Errors
    ///
    /// [`Error::LogUpdate`], and [`Error::Log`].
    pub fn put(
        &self,
        key: &SharedKey,
        updates: &[Update],
        signing: Signing,
    ) -> Result<Vec<EntryId>, Error> {
        key.write(|maker| {
            let put = self.log.put_with(maker, updates, signing, now_ms(), &self.keys());
            put.map_err(|error| match error.at {
                Some(at) if updates.len() > 1 => {
                    Error::LogUpdate { number: at, source: Box::new(error.error) }
                }
                _ => error.error.into(),
            })
        })
    }

    /// Lets the owner of the certificate `cert` change `object`, or all objects, and the fields
    /// that match the pattern. `operations` is `all`, `changes`, `fields`, `objects` or `readers`.
    ///
    /// # Errors
    ///
    /// [`Error::Message`] if `cert` is not one certificate, or a text is none of these;
    /// [`Error::LogAlgorithm`]; [`Error::Log`].
    pub fn grant(
        &self,
        key: &SharedKey,
        cert: &[u8],
        object: Option<&str>,
        fields: &str,
        operations: &str,
    ) -> Result<EntryId, Error> {
        let operations = match operations {
            "all" => Operations::ALL,
            "changes" => Operations::CHANGES,
            "fields" => Operations::FIELDS,
            "objects" => Operations::OBJECTS,
            "readers" => Operations::READERS,
            _ => return Err(usage("operations are all, changes, fields, objects or readers")),
        };
        let certs = parse_all(&[cert])?;
        let [cert] = &certs[..] else { return Err(usage("a grant is for one certificate")) };
        let grant = NewGrant {
            certificate: log_certificate(cert, now())?,
            object,
            fields: pattern(fields)?,
            operations,
            ends_ms: 0,
        };
        Ok(key.write(|maker| grant.put(&self.log, maker, now_ms()))?.0)
    }

    /// Ends a grant, by its identity, or an author, by the fingerprint of the certificate.
    /// `honoured` says what counts of it. The reason is `none`, `superseded`, `compromised` or
    /// `retired`.
    ///
    /// # Errors
    ///
    /// [`Error::Message`] if `what` is neither, or the reason is no other; [`Error::Log`].
    pub fn revoke(
        &self,
        key: &SharedKey,
        what: &str,
        honoured: &Honoured,
        reason: &str,
    ) -> Result<Revoked, Error> {
        let reasons = ["none", "superseded", "compromised", "retired"];
        let Some((reason, _)) = (0..).zip(reasons).find(|(_, name)| *name == reason) else {
            return Err(usage("a reason is none, superseded, compromised or retired"));
        };
        let target = if let Some(grant) = self.log.read(|log| log_grant(log, what))? {
            Target::Grant(grant)
        } else {
            let name: Result<Fingerprint, _> = what.parse();
            let name = name.ok().and_then(|name| KeyName::of_openpgp(&name));
            Target::Author(name.ok_or_else(|| {
                usage("name a grant by its identity, or an author by the fingerprint")
            })?)
        };
        key.write(|maker| log_revoke(&self.log, maker, target, honoured, reason, now_ms()))
    }

    /// Makes a checkpoint over all entries that are here, with the key of the checkpointer in the
    /// file `checkpointer`.
    ///
    /// # Errors
    ///
    /// [`Error::Witness`] if the file has no such key; [`Error::Log`].
    pub fn checkpoint(&self, key: &SharedKey, checkpointer: &Path) -> Result<EntryId, Error> {
        let checkpointer = read_note_key(checkpointer)?;
        key.write(|maker| Ok(self.log.put_checkpoint(maker, &checkpointer, now_ms())?))
    }

    /// The request to witnesses for the last checkpoint. `old` is the number of entries in the
    /// checkpoint that the witness cosigned last: by default, that of the last one that enough
    /// witnesses have cosigned.
    ///
    /// # Errors
    ///
    /// [`Error::Message`] if the log has no checkpoint, or the last one has fewer entries than
    /// `old`; [`Error::Log`].
    pub fn witness_request(&self, old: Option<u64>) -> Result<String, Error> {
        let request = self.log.read(|log| {
            log.last_checkpoint().and_then(|last| log.witness_request_from(&last.entry, old))
        })?;
        let request = request.ok_or_else(|| usage("no checkpoint of the log has as many entries"));
        Ok(request?.to_string())
    }

    /// Adds the cosignatures in the answer of a witness to the checkpoint for which they hold.
    ///
    /// # Errors
    ///
    /// [`Error::Message`] if they hold for no checkpoint; [`Error::Log`].
    pub fn cosign(&self, key: &SharedKey, answer: &str) -> Result<EntryId, Error> {
        let found = self.log.read(|log| log.find_cosigned(answer))?;
        let none = "the answer has no cosignature by a witness of this log on a checkpoint of it";
        let action = Action::Cosign(found.ok_or_else(|| usage(none))?);
        key.write(|maker| Ok(self.log.put_action(maker, action, now_ms())?))
    }

    /// Agrees with a grant, a revocation, a choice or a snapshot of another owner.
    ///
    /// # Errors
    ///
    /// [`Error::Message`] if `entry` is no identity; [`Error::Log`].
    pub fn approve(&self, key: &SharedKey, entry: &str) -> Result<EntryId, Error> {
        let action = Action::Approve(entry_id(entry)?);
        key.write(|maker| Ok(self.log.put_action(maker, action, now_ms())?))
    }

    /// Chooses the branch with an entry after a fork.
    ///
    /// # Errors
    ///
    /// [`Error::Message`] if `entry` is no identity; [`Error::Log`].
    pub fn choose(&self, key: &SharedKey, entry: &str) -> Result<EntryId, Error> {
        let action = Action::Choose(entry_id(entry)?);
        key.write(|maker| Ok(self.log.put_action(maker, action, now_ms())?))
    }

    /// The public key of this node, which is made if there is none.
    ///
    /// # Errors
    ///
    /// [`Error::NodeKey`].
    pub fn node_key(&self) -> Result<NodePublic, Error> {
        Ok(NodeSecret::of_folder(self.log.path())?.public())
    }

    /// Publishes the key of a node, which may exchange entries from then on.
    ///
    /// # Errors
    ///
    /// [`Error::Message`] if `node` is no key; [`Error::Log`].
    pub fn publish_node(&self, key: &SharedKey, node: &str, name: &str) -> Result<EntryId, Error> {
        let node = NodeKey { key: node_public(node)?.0, name: name.to_owned() };
        let action = Action::PublishNode(node);
        key.write(|maker| Ok(self.log.put_action(maker, action, now_ms())?))
    }

    /// Ends the key of a node. Returns the identities of the entries: a key can be published more
    /// than once.
    ///
    /// # Errors
    ///
    /// [`Error::Message`] if `node` is no key; [`Error::Log`].
    pub fn end_node(&self, key: &SharedKey, node: &str) -> Result<Vec<EntryId>, Error> {
        let node = node_public(node)?;
        let open: Vec<EntryId> = self.log.read(|log| {
            let nodes = log.nodes().filter(|(_, _, known, may)| *may && known.key == node.0);
            nodes.map(|(id, ..)| id).collect()
        })?;
        key.write(|maker| {
            let end = |id| Ok(self.log.put_action(maker, Action::EndNode(id), now_ms())?);
            open.into_iter().map(end).collect()
        })
    }

    /// Exchanges entries with the node at `address`, once. `peer` is the key that it must have,
    /// which need not be published.
    ///
    /// # Errors
    ///
    /// [`Error::Net`]. What came before stays.
    pub fn sync(&self, address: &str, peer: Option<&str>) -> Result<SessionReport, Error> {
        let replica = FolderReplica::new(Arc::clone(&self.log));
        Ok(exchange(self.log.path(), replica, address, peer)?.report)
    }

    /// Makes a copy of the log `wanted` in `folder`, from the node at `address` that has the key
    /// `peer`.
    ///
    /// # Errors
    ///
    /// [`Error::Net`]; [`Error::Message`] if `wanted` or `peer` is none. What came before stays.
    pub fn fetch(
        folder: &Path,
        address: &str,
        wanted: &str,
        peer: &str,
    ) -> Result<(Self, SessionReport), Error> {
        let replica = FolderReplica::wanted(folder, entry_id(wanted)?);
        let Synced { report, log, .. } = exchange(folder, replica, address, Some(peer))?;
        Ok((Self::of(log.ok_or(NetError::Closed)?), report))
    }

    /// Serves the log by threads of this process. Other processes can use the log meanwhile.
    /// Returns when the node listens.
    ///
    /// # Errors
    ///
    /// [`Error::Net`]; [`Error::NodeKey`]; [`Error::Message`] if there is no address and no peer.
    pub fn serve(&self, options: ServeOptions) -> Result<LogNode, Error> {
        if options.listen.is_none() && options.peers.is_empty() && options.nats.is_none() {
            return Err(usage("a node needs an address to listen at, a peer or a NATS server"));
        }
        let secret = NodeSecret::of_folder(self.log.path())?;
        let (log, stop) = (Arc::clone(&self.log), Stop::default());
        let (send, listening) = std::sync::mpsc::channel();
        let waits = options.listen.is_some();
        let thread = {
            let stop = stop.clone();
            std::thread::spawn(move || {
                talaria_log_net::serve(log, &secret, &options, &stop, move |event| {
                    if let Event::Listening(address) = event {
                        // Nobody waits any more if the node was stopped.
                        let _ = send.send(address.to_string());
                    }
                })
            })
        };
        // Without an address, the thread that sends it has ended.
        let address = if waits { listening.recv().ok() } else { None };
        let node = LogNode { address, stop, thread: Mutex::new(Some(thread)) };
        if waits && node.address.is_none() {
            node.stop()?;
        }
        Ok(node)
    }

    /// The content of a field; `None` if it has none.
    ///
    /// # Errors
    ///
    /// [`Error::Log`] if there is no such object, or several.
    pub fn get(&self, object: &str, field: &str) -> Result<Option<Content>, Error> {
        self.read(|log, keys| Ok(keys.field(log, log.find_object(object)?, field)))
    }

    /// The fields of an object with their contents.
    ///
    /// # Errors
    ///
    /// [`Error::Log`] if there is no such object, or several.
    pub fn fields(&self, object: &str) -> Result<Vec<(String, Content)>, Error> {
        self.read(|log, keys| {
            let id = log.find_object(object)?;
            log.state().object(id).ok_or_else(|| UpdateError::NoObject(object.to_owned()))?;
            Ok(keys.fields(log, id))
        })
    }

    /// The changes of an object, or of one field of it, in the order of the merge rules.
    ///
    /// # Errors
    ///
    /// [`Error::Log`] if there is no such object, or several.
    pub fn history(&self, object: &str, field: Option<&str>) -> Result<Vec<HistoryEntry>, Error> {
        self.read(|log, keys| {
            let history = log.history(log.find_object(object)?, field).into_iter();
            Ok(history.filter_map(|(id, _)| HistoryEntry::of(log, keys, &id)).collect())
        })
    }

    /// Writes all entries to a new file, and returns their number.
    ///
    /// # Errors
    ///
    /// [`Error::Io`] if there is a file of this name, or it cannot be written; [`Error::Log`].
    pub fn export(&self, file: &Path) -> Result<u64, Error> {
        Ok(write_new(file, |out| self.log.export(out, file))?.entries)
    }

    /// Signs a snapshot of all that this node has, and returns its identity. Only owners do this.
    ///
    /// # Errors
    ///
    /// [`Error::Log`].
    pub fn snapshot(&self, key: &SharedKey) -> Result<EntryId, Error> {
        key.write(|maker| Ok(self.log.put_snapshot(maker, now_ms())?))
    }

    /// Writes the last snapshot that is in force to a new file, and returns its identity.
    ///
    /// # Errors
    ///
    /// [`Error::Io`] if there is a file of this name, or it cannot be written; [`Error::Log`] if no
    /// snapshot is in force.
    pub fn export_snapshot(&self, file: &Path) -> Result<EntryId, Error> {
        let snapshots = self.log.read(Log::snapshots)?;
        let last = snapshots.iter().rev().find(|snapshot| snapshot.is_in_force);
        // The last one says why it is not.
        let id = last.or(snapshots.last()).map_or(EntryId::NONE, |snapshot| snapshot.entry);
        write_new(file, |out| self.log.write_snapshot(&id, out, file))?;
        Ok(id)
    }

    /// Takes the entries of an export of another node.
    ///
    /// # Errors
    ///
    /// [`Error::Io`]; [`Error::Log`]. Entries that were taken before stay.
    pub fn import(&self, file: &Path) -> Result<Imported, Error> {
        let (mut input, name) = open(file)?;
        Ok(self.log.import(&mut input, &name, now_ms())?)
    }

    /// Writes files that gpg and sq verify, into a folder that is empty or does not exist.
    ///
    /// # Errors
    ///
    /// [`Error::Io`]; [`Error::Log`].
    pub fn export_pgp(&self, folder: &Path) -> Result<ProofFiles, Error> {
        let failed = |source| failed("make", folder, source);
        fs::create_dir_all(folder).map_err(failed)?;
        if fs::read_dir(folder).map_err(failed)?.next().is_some() {
            return Err(LogError::Occupied { path: folder.to_owned() }.into());
        }
        Ok(self.log.export_pgp(folder)?)
    }

    /// Figures of the log.
    ///
    /// # Errors
    ///
    /// [`Error::Log`].
    pub fn figures(&self) -> Result<LogFigures, Error> {
        let (bytes, syncs) = (self.log.bytes(), self.log.syncs());
        Ok(self.log.read(|log| LogFigures {
            entries: log.len() as u64,
            objects: log.state().objects().count() as u64,
            chains: log.chains().count() as u64,
            grants: log.grants().filter(|(_, _, in_force)| *in_force).count() as u64,
            forks: log.forks().len() as u64,
            covered: log.last_valid_checkpoint().map_or(0, |last| last.head.size),
            bytes,
            syncs,
            state: EntryId(log.state_hash()),
        })?)
    }
}

/// The file of a snapshot, checked. It needs no log.
pub struct SharedSnapshot(SnapshotFile);

impl SharedSnapshot {
    /// Reads a file, which must be a snapshot of the log `log`, and checks who has signed it.
    ///
    /// # Errors
    ///
    /// [`Error::Io`]; [`Error::Log`] if enough owners have not signed what is in the file.
    pub fn open(file: &Path, log: &str) -> Result<Self, Error> {
        let log = entry_id(log)?;
        let (mut input, name) = open(file)?;
        let read = SnapshotFile::read(&mut input, log);
        Ok(Self(read.map_err(|source| LogError::Snapshot { name, source })?))
    }

    /// The snapshot.
    #[must_use]
    pub fn file(&self) -> &SnapshotFile {
        &self.0
    }

    /// The content of a field; `None` if it has none.
    ///
    /// # Errors
    ///
    /// [`Error::Log`] if there is no such object, or several.
    pub fn get(&self, object: &str, field: &str) -> Result<Option<Content>, Error> {
        let object = self.0.find_object(object).map_err(LogError::from)?;
        Ok(self.0.field(object, field).cloned())
    }

    /// The fields of an object with their contents.
    ///
    /// # Errors
    ///
    /// [`Error::Log`] if there is no such object, or several.
    pub fn fields(&self, object: &str) -> Result<Vec<(String, Content)>, Error> {
        let id = self.0.find_object(object).map_err(LogError::from)?;
        let absent = || LogError::from(UpdateError::NoObject(object.to_owned()));
        self.0.object(id).ok_or_else(absent)?;
        let fields = self.0.fields(id);
        Ok(fields.map(|(name, content)| (name.to_owned(), content.clone())).collect())
    }
}

impl SharedKey {
    /// Writes entries of a log with the key.
    fn write<T>(&self, write: impl FnOnce(&mut Maker<'_>) -> Result<T, Error>) -> Result<T, Error> {
        let mut key = self.signing.lock();
        let chain = chain_of(&self.cert, &key)?;
        write(&mut Maker { chain, key: &mut key })
    }
}

/// Cosigns the checkpoint of a request, and returns the answer. The witness remembers the
/// checkpoint, on disk, before this returns.
///
/// # Errors
///
/// [`Error::Witness`] if the checkpoint does not follow the one that the witness cosigned last.
pub fn witness_cosign(witness: &WitnessFolder, request: &str) -> Result<String, Error> {
    Ok(witness.cosign(request, "the request", now_ms() / 1000)?.to_string())
}

/// The keys of epochs that secret keys open.
fn epoch_keys<K: AsRef<[u8]>, P: AsRef<[u8]>>(
    keys: &[K],
    key_passphrases: &[P],
) -> Result<EpochKeys, Error> {
    let keys = secret_keys(keys, key_passphrases)?;
    Ok(EpochKeys::new(Secrets { keys, ..Secrets::default() }))
}

fn node_public(text: &str) -> Result<NodePublic, Error> {
    text.parse().map_err(|_| usage("the key of a node has 64 hexadecimal digits"))
}

/// Exchanges entries of the log in `folder` once.
fn exchange(
    folder: &Path,
    replica: FolderReplica,
    address: &str,
    peer: Option<&str>,
) -> Result<Synced, Error> {
    let peer = peer.map(node_public).transpose()?;
    fs::create_dir_all(folder).map_err(|source| failed("make", folder, source))?;
    let secret = NodeSecret::of_folder(folder)?;
    let mut synced = talaria_log_net::sync(replica, &secret, peer, address, &Stop::default())?;
    std::mem::replace(&mut synced.result, Ok(()))?;
    Ok(synced)
}

fn entry_id(text: &str) -> Result<EntryId, Error> {
    text.parse().map_err(|_| usage("an identity has 64 hexadecimal digits"))
}

/// An opened file, and its name.
fn open(file: &Path) -> Result<(BufReader<File>, String), Error> {
    let opened = File::open(file).map_err(|source| failed("open", file, source))?;
    Ok((BufReader::new(opened), file.display().to_string()))
}

/// Writes a file that does not exist. It appears when it is whole.
fn write_new<T>(
    file: &Path,
    write: impl FnOnce(&mut BufWriter<&File>) -> Result<T, LogError>,
) -> Result<T, Error> {
    let failed = |source| failed("write", file, source);
    let new = NewFile::beginning(file).map_err(failed)?;
    let mut out = BufWriter::new(new.file());
    let written = write(&mut out)?;
    out.flush().map_err(failed)?;
    drop(out);
    new.keep(Readers::Usual).map_err(failed)?;
    Ok(written)
}
