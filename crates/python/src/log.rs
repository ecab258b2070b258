//! Signed logs.

use std::path::PathBuf;
use std::time::Duration;

use pyo3::IntoPyObjectExt as _;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyBytes, PyDict, PyFloat, PyInt, PyString};
use talaria::embed;
use talaria::log::{
    self, Content, Edit, Float, Honoured, NewCheckpointer, SessionReport, Signing, Unreadable,
    Update, Value,
};
use talaria::log_net::ServeOptions;

use crate::data::{Data, Passphrase};
use crate::error::{Raised, UsageError, work};
use crate::keys::Key;

/// The identity of an object, as a value.
#[pyclass(frozen, eq, hash)]
#[derive(Clone, Eq, Hash, PartialEq)]
pub(crate) struct ObjectId(log::ObjectId);

#[pymethods]
impl ObjectId {
    #[new]
    fn new(id: &str) -> PyResult<Self> {
        let wrong = || UsageError::new_err("an identity has 64 hexadecimal digits");
        id.parse().map(Self).map_err(|_| wrong())
    }

    fn __str__(&self) -> String {
        self.0.to_string()
    }

    fn __repr__(&self) -> String {
        format!("<talaria.ObjectId {}>", self.0)
    }
}

/// A value that no key here opens, with the reason.
#[pyclass(frozen, eq, hash)]
#[derive(Clone, Eq, Hash, PartialEq)]
pub(crate) struct Encrypted(log::Encrypted);

#[pymethods]
impl Encrypted {
    #[getter]
    fn epoch(&self) -> String {
        self.0.epoch.to_string()
    }

    #[getter]
    fn readers(&self) -> Option<usize> {
        match self.0.why {
            Some(Unreadable::NoKey { readers }) => Some(readers),
            _ => None,
        }
    }

    #[getter]
    fn reason(&self) -> Option<&'static str> {
        self.0.why.as_ref().map(Unreadable::kind)
    }

    fn __str__(&self) -> String {
        Value::Encrypted(self.0.clone()).to_string()
    }

    fn __repr__(&self) -> String {
        format!("<talaria.Encrypted {}>", self.reason().unwrap_or("value"))
    }
}

/// The value of a field on its way from Python.
struct Given(Value);

impl<'py> FromPyObject<'_, 'py> for Given {
    type Error = PyErr;

    fn extract(object: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        // True and False are integers in Python.
        let value = if object.is_instance_of::<PyBool>() {
            Value::Boolean(object.extract()?)
        } else if object.is_instance_of::<PyInt>() {
            let range = |_| UsageError::new_err("an integer of a log has 64 bits");
            Value::Integer(object.extract().map_err(range)?)
        } else if object.is_instance_of::<PyFloat>() {
            Value::Float(Float::new(object.extract()?))
        } else if object.is_instance_of::<PyString>() {
            Value::String(object.extract()?)
        } else if let Ok(id) = object.cast::<ObjectId>() {
            Value::Object(id.get().0)
        } else {
            Value::Bytes(object.extract::<Data>()?.as_ref().to_vec())
        };
        Ok(Self(value))
    }
}

fn value<'py>(py: Python<'py>, value: &Value) -> PyResult<Bound<'py, PyAny>> {
    match value {
        Value::String(text) => text.into_bound_py_any(py),
        Value::Integer(number) => number.into_bound_py_any(py),
        Value::Float(number) => number.get().into_bound_py_any(py),
        Value::Boolean(value) => value.into_bound_py_any(py),
        Value::Bytes(bytes) => Ok(PyBytes::new(py, bytes).into_any()),
        Value::Object(id) => ObjectId(*id).into_bound_py_any(py),
        // Deleted, or not here.
        Value::Committed(_) => Ok(py.None().into_bound(py)),
        Value::Encrypted(encrypted) => Encrypted(encrypted.clone()).into_bound_py_any(py),
    }
}

/// The content of a field: a value, or a list of values for strict fields, sets and lists.
fn content<'py>(py: Python<'py>, content: &Content) -> PyResult<Bound<'py, PyAny>> {
    let all = |values: Vec<&Value>| -> PyResult<Bound<'py, PyAny>> {
        let values = values.into_iter().map(|one| value(py, one)).collect::<PyResult<Vec<_>>>()?;
        values.into_bound_py_any(py)
    };
    match content {
        Content::LastWriter(one) => value(py, one),
        Content::Counter(sum) => sum.into_bound_py_any(py),
        Content::Strict(writes) => all(writes.values().flatten().collect()),
        Content::Set(elements) => all(elements.keys().collect()),
        Content::List(elements) => all(elements.iter().map(|(_, value)| value).collect()),
    }
}

/// The content of a field that may have none.
fn contained(py: Python<'_>, found: Option<Content>) -> PyResult<Option<Bound<'_, PyAny>>> {
    found.map(|found| content(py, &found)).transpose()
}

/// The fields of an object.
fn by_name(py: Python<'_>, found: Vec<(String, Content)>) -> PyResult<Bound<'_, PyDict>> {
    let fields = PyDict::new(py);
    for (name, found) in found {
        fields.set_item(name, content(py, &found)?)?;
    }
    Ok(fields)
}

/// The name, if it has one, and the identity of an object.
fn named(object: log::ObjectInfo) -> (Option<String>, ObjectId) {
    (object.named.map(|(name, _)| name), ObjectId(object.id))
}

fn texts(ids: &[log::EntryId]) -> Vec<String> {
    ids.iter().map(ToString::to_string).collect()
}

/// A signed log in a folder.
#[pyclass(frozen)]
pub(crate) struct Log(embed::SharedLog);

impl Log {
    /// Makes one edit of an object, and returns the identities of the new entries.
    fn edit(
        &self,
        py: Python<'_>,
        key: &Key,
        object: String,
        edit: Edit,
    ) -> Result<Vec<String>, Raised> {
        let updates = [Update { object, edit }];
        Ok(texts(&work(py, || self.0.put(&key.0, &updates, Signing::Each))?))
    }
}

#[pymethods]
impl Log {
    /// Makes a log in a folder that is empty or does not exist.
    #[staticmethod]
    #[pyo3(signature = (
        path, key, *, owners = Vec::new(), threshold = 1, rules = Vec::new(), checkpointer = None,
        witnesses = Vec::new(), cosigners = None, grace = None,
    ))]
    #[expect(clippy::too_many_arguments, reason = "most of them have names in Python")]
    fn create(
        py: Python<'_>,
        path: PathBuf,
        key: &Key,
        owners: Vec<Data>,
        threshold: u8,
        rules: Vec<(String, String)>,
        checkpointer: Option<PathBuf>,
        witnesses: Vec<PathBuf>,
        cosigners: Option<u8>,
        grace: Option<u32>,
    ) -> PyResult<Self> {
        let checkpointer = match &checkpointer {
            Some(key) => {
                Some(NewCheckpointer { key, witnesses: &witnesses, cosigners, grace_s: grace })
            }
            None if witnesses.is_empty() && cosigners.is_none() && grace.is_none() => None,
            None => {
                let text = "'witnesses', 'cosigners' and 'grace' need a 'checkpointer'";
                return Err(UsageError::new_err(text));
            }
        };
        let create =
            || embed::SharedLog::create(&path, &key.0, &owners, threshold, &rules, checkpointer);
        Ok(Self(work(py, create)?))
    }

    /// Opens the log in a folder.
    #[staticmethod]
    fn open(py: Python<'_>, path: PathBuf) -> Result<Self, Raised> {
        work(py, || embed::SharedLog::open(&path)).map(Self)
    }

    /// Makes a log in a folder from the export of another node.
    #[staticmethod]
    #[pyo3(signature = (path, file, *, expect = None))]
    fn receive(
        py: Python<'_>,
        path: PathBuf,
        file: PathBuf,
        expect: Option<&str>,
    ) -> Result<(Self, Import), Raised> {
        let (log, imported) = work(py, || embed::SharedLog::receive(&path, &file, expect))?;
        Ok((Self(log), Import(imported)))
    }

    /// The identity of the log.
    #[getter]
    fn id(&self) -> String {
        self.0.folder().id().to_string()
    }

    /// Opens encrypted values from now on with these secret keys.
    #[pyo3(signature = (keys, *, key_passphrases = Vec::new()))]
    fn unlock(
        &self,
        py: Python<'_>,
        keys: Vec<Data>,
        key_passphrases: Vec<Passphrase>,
    ) -> Result<(), Raised> {
        work(py, || self.0.unlock(&keys, &key_passphrases))
    }

    /// Encrypts values of fields from now on to certificates.
    #[pyo3(signature = (key, object, fields, *, to))]
    fn encrypt(
        &self,
        py: Python<'_>,
        key: &Key,
        object: &str,
        fields: &str,
        to: Vec<Data>,
    ) -> Result<String, Raised> {
        Ok(work(py, || self.0.encrypt(&key.0, object, fields, &to))?.to_string())
    }

    /// Encrypts values of fields no more.
    fn stop_encrypting(
        &self,
        py: Python<'_>,
        key: &Key,
        object: &str,
        fields: &str,
    ) -> Result<String, Raised> {
        Ok(work(py, || self.0.stop_encrypting(&key.0, object, fields))?.to_string())
    }

    /// Puts a value into a field, and returns the identities of the new entries.
    #[pyo3(signature = (key, object, field, value, *, deletable = false))]
    fn put(
        &self,
        py: Python<'_>,
        key: &Key,
        object: String,
        field: String,
        value: Given,
        deletable: bool,
    ) -> Result<Vec<String>, Raised> {
        let edit = if deletable {
            Edit::PutDeletable(field, work(py, || log::deletable(&value.0))?)
        } else {
            Edit::Put(field, value.0)
        };
        self.edit(py, key, object, edit)
    }

    /// Puts many values with one sync, all or none.
    #[pyo3(signature = (key, updates, *, batch = false))]
    fn put_many(
        &self,
        py: Python<'_>,
        key: &Key,
        updates: Vec<(String, String, Given)>,
        batch: bool,
    ) -> Result<Vec<String>, Raised> {
        let update =
            |(object, field, Given(value))| Update { object, edit: Edit::Put(field, value) };
        let updates: Vec<Update> = updates.into_iter().map(update).collect();
        let signing = if batch { Signing::Together } else { Signing::Each };
        Ok(texts(&work(py, || self.0.put(&key.0, &updates, signing))?))
    }

    /// Removes an object, the value of a field, or an element of a set or a list.
    #[pyo3(signature = (key, object, field = None, value = None))]
    fn remove(
        &self,
        py: Python<'_>,
        key: &Key,
        object: String,
        field: Option<String>,
        value: Option<Given>,
    ) -> PyResult<Vec<String>> {
        let edit = match (field, value) {
            (Some(field), value) => Edit::Remove(field, value.map(|value| value.0)),
            (None, None) => Edit::Delete,
            (None, Some(_)) => return Err(UsageError::new_err("a value needs its field")),
        };
        Ok(self.edit(py, key, object, edit)?)
    }

    /// Deletes the deletable values of a field for good.
    fn delete_values(
        &self,
        py: Python<'_>,
        key: &Key,
        object: String,
        field: String,
    ) -> Result<Vec<String>, Raised> {
        self.edit(py, key, object, Edit::DeleteValues(field))
    }

    /// Removes deleted values from disk, and returns their number.
    fn compact(&self, py: Python<'_>) -> Result<u64, Raised> {
        Ok(work(py, || self.0.folder().compact(|_| ()))?.values)
    }

    /// The content of a field.
    fn get<'py>(
        &self,
        py: Python<'py>,
        object: &str,
        field: &str,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        contained(py, work(py, || self.0.get(object, field))?)
    }

    /// The fields of an object with their contents.
    fn fields<'py>(&self, py: Python<'py>, object: &str) -> PyResult<Bound<'py, PyDict>> {
        by_name(py, work(py, || self.0.fields(object))?)
    }

    /// The objects: names, and identities.
    fn objects(&self, py: Python<'_>) -> Result<Vec<(Option<String>, ObjectId)>, Raised> {
        let objects = |log: &log::Log| log.state().objects().map(named).collect();
        work(py, || self.0.folder().read(objects))
    }

    /// The changes of an object or a field, in their order.
    #[pyo3(signature = (object, field = None))]
    fn history(
        &self,
        py: Python<'_>,
        object: &str,
        field: Option<&str>,
    ) -> Result<Vec<LogEntry>, Raised> {
        let found = work(py, || self.0.history(object, field))?;
        Ok(found.into_iter().map(LogEntry).collect())
    }

    /// Lets the owner of a certificate change objects.
    #[pyo3(signature = (key, cert, *, object = None, fields = "*", operations = "changes"))]
    fn grant(
        &self,
        py: Python<'_>,
        key: &Key,
        cert: Data,
        object: Option<&str>,
        fields: &str,
        operations: &str,
    ) -> Result<String, Raised> {
        let id = work(py, || self.0.grant(&key.0, cert.as_ref(), object, fields, operations))?;
        Ok(id.to_string())
    }

    /// Ends a grant or an author, and returns the identity of the revocation.
    #[pyo3(signature = (key, what, *, last = Vec::new(), all = false, stolen = None, reason = "none"))]
    #[expect(clippy::too_many_arguments, reason = "most of them have names in Python")]
    fn revoke(
        &self,
        py: Python<'_>,
        key: &Key,
        what: &str,
        last: Vec<String>,
        all: bool,
        stolen: Option<u64>,
        reason: &str,
    ) -> PyResult<String> {
        let id = |text: &String| text.parse::<log::EntryId>();
        let last = last.iter().map(id).collect::<Result<Vec<_>, _>>();
        let last = last.map_err(|error| UsageError::new_err(error.to_string()))?;
        let honoured = match (last.is_empty(), all, stolen) {
            (true, false, None) => Honoured::Known,
            (false, false, None) => Honoured::Last(last),
            (true, true, None) => Honoured::Nothing,
            (true, false, Some(time)) => Honoured::Before(time),
            _ => {
                let text = "only one of 'last', 'all' and 'stolen' can be given";
                return Err(UsageError::new_err(text));
            }
        };
        let revoked = work(py, || self.0.revoke(&key.0, what, &honoured, reason))?;
        Ok(revoked.entry.to_string())
    }

    /// Makes a checkpoint over all entries, and returns the identity of its entry.
    fn checkpoint(
        &self,
        py: Python<'_>,
        key: &Key,
        checkpointer: PathBuf,
    ) -> Result<String, Raised> {
        Ok(work(py, || self.0.checkpoint(&key.0, &checkpointer))?.to_string())
    }

    /// The request to witnesses for the last checkpoint.
    #[pyo3(signature = (*, old = None))]
    fn witness_request(&self, py: Python<'_>, old: Option<u64>) -> Result<String, Raised> {
        work(py, || self.0.witness_request(old))
    }

    /// Adds the cosignatures of a witness, and returns the identity of the entry.
    fn cosign(&self, py: Python<'_>, key: &Key, answer: &str) -> Result<String, Raised> {
        Ok(work(py, || self.0.cosign(&key.0, answer))?.to_string())
    }

    /// Agrees with a grant, a revocation, a choice or a snapshot of another owner.
    fn approve(&self, py: Python<'_>, key: &Key, entry: &str) -> Result<String, Raised> {
        Ok(work(py, || self.0.approve(&key.0, entry))?.to_string())
    }

    /// The entries of each fork.
    fn forks(&self, py: Python<'_>) -> Result<Vec<Vec<String>>, Raised> {
        let forks = work(py, || self.0.folder().read(log::Log::forks))?;
        Ok(forks.iter().map(|fork| texts(&fork.entries)).collect())
    }

    /// Chooses the branch with an entry after a fork.
    fn choose(&self, py: Python<'_>, key: &Key, entry: &str) -> Result<String, Raised> {
        Ok(work(py, || self.0.choose(&key.0, entry))?.to_string())
    }

    /// The public key of this node.
    fn node_key(&self, py: Python<'_>) -> Result<String, Raised> {
        Ok(work(py, || self.0.node_key())?.to_string())
    }

    /// Publishes the key of a node, and returns the identity of the entry.
    #[pyo3(signature = (key, node, *, name = ""))]
    fn publish_node(
        &self,
        py: Python<'_>,
        key: &Key,
        node: &str,
        name: &str,
    ) -> Result<String, Raised> {
        Ok(work(py, || self.0.publish_node(&key.0, node, name))?.to_string())
    }

    /// Ends the key of a node, and returns the identities of the entries.
    fn end_node(&self, py: Python<'_>, key: &Key, node: &str) -> Result<Vec<String>, Raised> {
        Ok(texts(&work(py, || self.0.end_node(&key.0, node))?))
    }

    /// Exchanges entries with another node, once.
    #[pyo3(signature = (address, *, peer_key = None))]
    fn sync(
        &self,
        py: Python<'_>,
        address: &str,
        peer_key: Option<&str>,
    ) -> Result<Exchange, Raised> {
        work(py, || self.0.sync(address, peer_key)).map(Exchange)
    }

    /// Makes a copy of a log in a folder, from another node.
    #[staticmethod]
    #[pyo3(signature = (path, address, *, expect, peer_key))]
    fn fetch(
        py: Python<'_>,
        path: PathBuf,
        address: &str,
        expect: &str,
        peer_key: &str,
    ) -> Result<(Self, Exchange), Raised> {
        let fetched = work(py, || embed::SharedLog::fetch(&path, address, expect, peer_key))?;
        Ok((Self(fetched.0), Exchange(fetched.1)))
    }

    /// Serves the log by threads of this process.
    #[pyo3(signature = (listen = None, *, peers = Vec::new(), nats = None))]
    fn serve(
        &self,
        py: Python<'_>,
        listen: Option<String>,
        peers: Vec<String>,
        nats: Option<String>,
    ) -> Result<LogNode, Raised> {
        work(py, || self.0.serve(ServeOptions { listen, peers, nats })).map(LogNode)
    }

    /// Writes all entries to a new file.
    fn export_file(&self, py: Python<'_>, file: PathBuf) -> Result<u64, Raised> {
        work(py, || self.0.export(&file))
    }

    /// Signs a snapshot, and returns its identity.
    fn snapshot(&self, py: Python<'_>, key: &Key) -> Result<String, Raised> {
        Ok(work(py, || self.0.snapshot(&key.0))?.to_string())
    }

    /// Writes the last snapshot that is in force to a new file, and returns its identity.
    fn export_snapshot(&self, py: Python<'_>, file: PathBuf) -> Result<String, Raised> {
        Ok(work(py, || self.0.export_snapshot(&file))?.to_string())
    }

    /// Takes the entries of an export of another node.
    fn import_file(&self, py: Python<'_>, file: PathBuf) -> Result<Import, Raised> {
        work(py, || self.0.import(&file)).map(Import)
    }

    /// Writes files that gpg and sq verify, and returns the number of signatures.
    fn export_pgp(&self, py: Python<'_>, folder: PathBuf) -> Result<u64, Raised> {
        Ok(work(py, || self.0.export_pgp(&folder))?.signatures)
    }

    /// Verifies the log again from its bytes on disk.
    fn verify(&self, py: Python<'_>) -> Result<LogCheck, Raised> {
        work(py, || self.0.folder().verify()).map(LogCheck)
    }

    /// Figures of the log.
    fn stats<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let found = work(py, || self.0.figures())?;
        let stats = PyDict::new(py);
        stats.set_item("log", self.id())?;
        stats.set_item("entries", found.entries)?;
        stats.set_item("objects", found.objects)?;
        stats.set_item("chains", found.chains)?;
        stats.set_item("grants", found.grants)?;
        stats.set_item("forked", found.forks)?;
        stats.set_item("covered", found.covered)?;
        stats.set_item("bytes", found.bytes)?;
        stats.set_item("syncs", found.syncs)?;
        stats.set_item("state", found.state.to_string())?;
        Ok(stats)
    }

    fn __repr__(&self) -> String {
        format!("<talaria.Log {}>", self.0.folder().path().display())
    }
}

/// A log that is served, until it is stopped or forgotten.
#[pyclass(frozen)]
pub(crate) struct LogNode(embed::LogNode);

#[pymethods]
impl LogNode {
    #[getter]
    fn address(&self) -> Option<&str> {
        self.0.address()
    }

    /// Stops the node, and waits until it has ended.
    fn stop(&self, py: Python<'_>) -> Result<(), Raised> {
        work(py, || self.0.stop())
    }

    fn __enter__(this: Py<Self>) -> Py<Self> {
        this
    }

    fn __exit__(
        &self,
        py: Python<'_>,
        _kind: &Bound<'_, PyAny>,
        _error: &Bound<'_, PyAny>,
        _trace: &Bound<'_, PyAny>,
    ) -> Result<(), Raised> {
        self.stop(py)
    }

    fn __repr__(&self) -> String {
        format!("<talaria.LogNode {}>", self.0.address().unwrap_or("without an address"))
    }
}

/// What two nodes have exchanged. True if each has what the other one had.
#[pyclass(frozen)]
pub(crate) struct Exchange(SessionReport);

#[pymethods]
impl Exchange {
    #[getter]
    fn added(&self) -> u64 {
        self.0.added
    }

    #[getter]
    fn sent(&self) -> u64 {
        self.0.sent
    }

    #[getter]
    fn waiting(&self) -> u64 {
        self.0.waiting + self.0.ahead
    }

    #[getter]
    fn lacking(&self) -> u64 {
        self.0.lacking
    }

    fn __bool__(&self) -> bool {
        self.0.is_complete()
    }
}

/// The changes of a log, as they come.
#[pyclass(frozen)]
pub(crate) struct LogWatcher(embed::LogWatcher);

#[pymethods]
impl LogWatcher {
    /// Begins behind what is in the log now.
    #[new]
    #[pyo3(signature = (path, *, keys = Vec::new(), key_passphrases = Vec::new()))]
    fn new(
        py: Python<'_>,
        path: PathBuf,
        keys: Vec<Data>,
        key_passphrases: Vec<Passphrase>,
    ) -> Result<Self, Raised> {
        work(py, || embed::LogWatcher::open(&path, &keys, &key_passphrases)).map(Self)
    }

    /// The changes since the last call.
    #[pyo3(signature = (timeout = 0.0))]
    fn changes(&self, py: Python<'_>, timeout: f64) -> PyResult<Vec<LogEntry>> {
        let wait = Duration::try_from_secs_f64(timeout);
        let wait = wait.map_err(|_| UsageError::new_err("a timeout is a number of seconds"))?;
        let changes = work(py, || self.0.changes(wait))?;
        Ok(changes.into_iter().map(LogEntry).collect())
    }
}

/// A witness, which cosigns checkpoints of logs of others.
#[pyclass(frozen)]
pub(crate) struct Witness(log::WitnessFolder);

#[pymethods]
impl Witness {
    /// Makes a witness with a new key in a folder that does not exist.
    #[staticmethod]
    fn create(py: Python<'_>, path: PathBuf, name: &str) -> Result<Self, Raised> {
        work(py, || log::WitnessFolder::create(&path, name)).map(Self)
    }

    /// Opens the witness in a folder.
    #[staticmethod]
    fn open(py: Python<'_>, path: PathBuf) -> Result<Self, Raised> {
        work(py, || log::WitnessFolder::open(&path)).map(Self)
    }

    /// The public key.
    #[getter]
    fn key(&self) -> String {
        self.0.public().to_string()
    }

    /// Lets the witness cosign a log, and returns its origin.
    fn trust(&self, py: Python<'_>, checkpointer: PathBuf) -> Result<String, Raised> {
        work(py, || {
            let key = log::read_public_note_key(&checkpointer)?;
            self.0.trust(&key).map(|()| key.name)
        })
    }

    /// Cosigns the checkpoint of a request, and returns the answer.
    fn cosign(&self, py: Python<'_>, request: &str) -> Result<String, Raised> {
        work(py, || embed::witness_cosign(&self.0, request))
    }

    fn __repr__(&self) -> String {
        format!("<talaria.Witness {}>", self.key())
    }
}

/// A log as owners have signed it, from a file.
#[pyclass(frozen)]
pub(crate) struct LogSnapshot(embed::SharedSnapshot);

#[pymethods]
impl LogSnapshot {
    #[new]
    fn new(py: Python<'_>, file: PathBuf, log: &str) -> Result<Self, Raised> {
        work(py, || embed::SharedSnapshot::open(&file, log)).map(Self)
    }

    /// The identity of the snapshot.
    #[getter]
    fn id(&self) -> String {
        self.0.file().entry().to_string()
    }

    /// The hash of the state.
    #[getter]
    fn state(&self) -> String {
        log::EntryId(self.0.file().snapshot().state).to_string()
    }

    /// The fingerprints of the owners who have signed.
    #[getter]
    fn signers(&self) -> Vec<String> {
        self.0.file().signers().iter().map(ToString::to_string).collect()
    }

    /// The content of a field.
    fn get<'py>(
        &self,
        py: Python<'py>,
        object: &str,
        field: &str,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        contained(py, work(py, || self.0.get(object, field))?)
    }

    /// The fields of an object with their contents.
    fn fields<'py>(&self, py: Python<'py>, object: &str) -> PyResult<Bound<'py, PyDict>> {
        by_name(py, work(py, || self.0.fields(object))?)
    }

    /// The objects: names, and identities.
    fn objects(&self) -> Vec<(Option<String>, ObjectId)> {
        self.0.file().objects().map(named).collect()
    }

    fn __repr__(&self) -> String {
        format!("<talaria.LogSnapshot {}>", self.0.file().entry())
    }
}

/// The result of importing entries. True if all of them are in the log.
#[pyclass(frozen)]
pub(crate) struct Import(log::Imported);

#[pymethods]
impl Import {
    #[getter]
    fn added(&self) -> u64 {
        self.0.added
    }

    #[getter]
    fn known(&self) -> u64 {
        self.0.known
    }

    #[getter]
    fn waiting(&self) -> u64 {
        self.0.waiting + self.0.ahead
    }

    #[getter]
    fn refused(&self) -> Vec<(String, String)> {
        let refused = self.0.refused.iter();
        refused.map(|(id, refusal)| (id.to_string(), refusal.to_string())).collect()
    }

    fn __bool__(&self) -> bool {
        self.0.is_complete()
    }
}

/// The result of verifying a log. True if nothing fails.
#[pyclass(frozen)]
pub(crate) struct LogCheck(log::Verified);

#[pymethods]
impl LogCheck {
    #[getter]
    fn entries(&self) -> u64 {
        self.0.entries
    }

    #[getter]
    fn failed(&self) -> Vec<(String, String)> {
        self.0.failed.iter().map(|(id, why)| (id.to_string(), why.clone())).collect()
    }

    #[getter]
    fn state(&self) -> String {
        log::EntryId(self.0.state_hash).to_string()
    }

    fn __bool__(&self) -> bool {
        self.0.failed.is_empty()
    }
}

/// A change in the history of an object.
#[pyclass(frozen)]
pub(crate) struct LogEntry(embed::HistoryEntry);

#[pymethods]
impl LogEntry {
    #[getter]
    fn id(&self) -> String {
        self.0.id.to_string()
    }

    #[getter]
    fn author(&self) -> &str {
        &self.0.author
    }

    #[getter]
    fn operation(&self) -> &'static str {
        self.0.operation
    }

    #[getter]
    fn field(&self) -> Option<&str> {
        self.0.field.as_deref()
    }

    #[getter]
    fn value<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        self.0.value.as_ref().map(|one| value(py, one)).transpose()
    }

    #[getter]
    fn time_ms(&self) -> u64 {
        self.0.time_ms
    }

    #[getter]
    fn standing(&self) -> &'static str {
        self.0.standing
    }

    fn __repr__(&self) -> String {
        format!("<talaria.LogEntry {} {}>", self.0.operation, self.0.id)
    }
}
