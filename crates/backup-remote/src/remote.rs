//! Objects of a service.

use std::error::Error as _;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use futures::{StreamExt as _, TryStreamExt as _};
use opendal::{Buffer, EntryMode, Error, ErrorKind, Operator, services};
use parking_lot::{Mutex, MutexGuard};
use talaria_backup::{Backend, BackupError, Object};
use tokio::runtime::Runtime;

use crate::ahead::Ahead;
use crate::bounded::{Bounded, TooLarge};
use crate::url::{RepositoryUrl, Service};

/// For this many bytes, a request may take the time of a request without bytes once more.
const BYTES_PER_TIMEOUT: u64 = 4 << 20;
/// The wait before the second attempt; each further one waits twice as long.
const PAUSE: Duration = Duration::from_millis(250);
/// Folders that are listed at the same time, where a service lists only one.
const LISTINGS: usize = 8;
/// Characters of a text of a service in an error.
const SAID_CHARS_MAX: usize = 300;
/// The start of the names of unfinished objects.
const UNFINISHED: &str = ".tmp-";

type Result<T> = std::result::Result<T, BackupError>;

/// How a service creates an object that is not there.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Creates {
    /// The service decides, in one step (`If-None-Match: *`).
    Atomically,
    /// Under another name, which is changed after a look whether the name is free. Two writers of
    /// one name at the same moment can both succeed.
    ByRenaming,
}

/// A repository that a network leads to.
pub struct Remote {
    operator: Operator,
    runtime: Runtime,
    creates: Creates,
    name: String,
    timeout: Duration,
    attempts: u32,
    lists_at_once: bool,
    ahead: Mutex<Ahead>,
    /// Names of unfinished objects.
    unfinished: (u64, AtomicU64),
}

/// The outcome of a request that failed for good.
struct Failed {
    error: Error,
    /// The number of attempts before, whose effect is not known.
    before: u32,
}

impl Remote {
    /// Prepares connections to a repository. No request is sent.
    ///
    /// # Errors
    ///
    /// [`BackupError::Storage`] if the service refuses the settings or the system gives no thread.
    pub fn new(address: &RepositoryUrl) -> Result<Self> {
        let failed =
            |source: io::Error| BackupError::Storage { name: address.name().into(), source };
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .thread_name("remote")
            .enable_all()
            .build()
            .map_err(failed)?;
        let (operator, creates) = {
            let _inside = runtime.enter();
            let (operator, creates) =
                operator(address).map_err(|error| failed(io_error(&error)))?;
            let context = operator.context().with_http_transport(Bounded::transporter());
            (operator.with_context(context), creates)
        };
        let seed = std::collections::hash_map::RandomState::new();
        let unfinished = std::hash::BuildHasher::hash_one(&seed, address.name());
        Ok(Self {
            operator,
            runtime,
            creates,
            name: address.name().to_owned(),
            timeout: address.timeout,
            attempts: address.attempts,
            lists_at_once: address.lists_at_once,
            ahead: Mutex::default(),
            unfinished: (unfinished, AtomicU64::new(0)),
        })
    }

    /// The address of the repository.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Whether two writers of one name at the same moment cannot both succeed.
    #[must_use]
    pub fn creates_atomically(&self) -> bool {
        self.creates == Creates::Atomically
    }

    fn storage(&self, name: &str, source: io::Error) -> BackupError {
        BackupError::Storage { name: format!("{}: {name}", self.name), source }
    }

    fn failed(&self, name: &str, error: &Error) -> BackupError {
        match error.kind() {
            ErrorKind::NotFound => BackupError::Missing { name: name.into() },
            _ => self.storage(name, io_error(error)),
        }
    }

    /// How long a request with this many bytes may take.
    fn allowed(&self, bytes: u64) -> Duration {
        let tenths = 10 + 10 * bytes.min(1 << 32) / BYTES_PER_TIMEOUT;
        self.timeout * u32::try_from(tenths).expect("at most 2^14") / 10
    }

    /// Sends a request that moves `bytes` bytes, and sends it again while its error may pass.
    fn attempt<T, F>(&self, bytes: u64, call: impl Fn() -> F) -> std::result::Result<T, Failed>
    where
        F: Future<Output = std::result::Result<T, Error>>,
    {
        let allowed = self.allowed(bytes);
        let mut before = 0;
        loop {
            let answer =
                self.runtime.block_on(async { tokio::time::timeout(allowed, call()).await });
            let error = match answer {
                Ok(Ok(value)) => return Ok(value),
                Ok(Err(error)) => error,
                Err(_) => timed_out(allowed),
            };
            before += 1;
            if before >= self.attempts || !may_pass(&error) {
                return Err(Failed { error, before: before - 1 });
            }
            self.pause(before);
        }
    }

    fn pause(&self, before: u32) {
        // Waiting belongs to the caller's thread: others go on.
        std::thread::sleep(PAUSE.saturating_mul(1 << (before - 1).min(6)).min(self.timeout));
    }

    fn is_there(&self, name: &str) -> Result<bool> {
        match self.attempt(0, || self.operator.stat(name)) {
            Ok(_) => Ok(true),
            Err(Failed { error, .. }) if error.kind() == ErrorKind::NotFound => Ok(false),
            Err(Failed { error, .. }) => Err(self.failed(name, &error)),
        }
    }

    fn create_atomically(&self, name: &str, body: &Buffer) -> Result<()> {
        let bytes = body.len() as u64;
        let write = || async {
            self.operator.write_with(name, body.clone()).if_not_exists(true).await.map(drop)
        };
        match self.attempt(bytes, write) {
            Ok(()) => Ok(()),
            Err(Failed { error, before }) if error.kind() == ErrorKind::ConditionNotMatch => {
                // An attempt whose answer was lost may have created it.
                if before > 0 && self.get(name, bytes)? == body.to_vec() {
                    return Ok(());
                }
                Err(BackupError::Exists { name: name.into() })
            }
            Err(Failed { error, .. }) => Err(self.failed(name, &error)),
        }
    }

    fn create_by_renaming(&self, name: &str, body: &Buffer) -> Result<()> {
        if self.is_there(name)? {
            return Err(BackupError::Exists { name: name.into() });
        }
        let bytes = body.len() as u64;
        let folder =
            name.rsplit_once('/').map_or(String::new(), |(folder, _)| format!("{folder}/"));
        let (seed, next) = &self.unfinished;
        let result = self.attempt(bytes, || {
            // A stalled attempt may still be writing to its own name.
            let number = next.fetch_add(1, Ordering::Relaxed);
            let unfinished = format!("{folder}{UNFINISHED}{seed:016x}-{number}");
            async move {
                self.operator.write(&unfinished, body.clone()).await?;
                // A server can take the start of an object for all of it when the connection ends.
                let stored = self.operator.stat(&unfinished).await?.content_length();
                if stored == bytes {
                    return Ok(unfinished);
                }
                let why = format!("the service stored {stored} of {bytes} bytes");
                Err(Error::new(ErrorKind::Unexpected, why).set_temporary())
            }
        });
        let unfinished = match result {
            Ok(unfinished) => unfinished,
            Err(Failed { error, .. }) => return Err(self.failed(name, &error)),
        };
        let remove = || {
            // Leftover parts do no harm: nothing reads them.
            let _ = self.attempt(0, || self.operator.delete(&unfinished));
        };
        if self.is_there(name)? {
            remove();
            return Err(BackupError::Exists { name: name.into() });
        }
        match self.attempt(0, || self.operator.rename(&unfinished, name)) {
            Ok(()) => Ok(()),
            // An attempt whose answer was lost may have renamed it.
            Err(Failed { error, before })
                if before > 0 && error.kind() == ErrorKind::NotFound && self.is_there(name)? =>
            {
                Ok(())
            }
            Err(Failed { error, .. }) => {
                remove();
                Err(self.failed(name, &error))
            }
        }
    }

    /// A range, shorter where the object ends.
    async fn range(&self, name: &str, start: u64, end: u64) -> std::result::Result<Buffer, Error> {
        match self.operator.read_with(name).range(start..end).await {
            Err(error)
                if matches!(error.kind(), ErrorKind::RangeNotSatisfied | ErrorKind::Unexpected) =>
            {
                let length = self.operator.stat(name).await?.content_length();
                if end <= length {
                    return Err(error);
                }
                if start >= length {
                    return Ok(Buffer::new());
                }
                self.operator.read_with(name).range(start..length).await
            }
            answer => answer,
        }
    }

    /// Everything below a folder, in the order of the names, from a service that lists so.
    fn list_flat(&self, folder: &str, each: &mut dyn FnMut(Object)) -> Result<()> {
        let path = format!("{folder}/");
        let (mut last, mut before) = (None::<String>, 0);
        loop {
            let allowed = self.allowed(0);
            let answer: std::result::Result<(), Error> = self.runtime.block_on(async {
                let late = |_| timed_out(allowed);
                let lister = self.operator.lister_with(&path).recursive(true);
                let lister = match &last {
                    Some(last) => lister.start_after(last),
                    None => lister,
                };
                let mut lister = tokio::time::timeout(allowed, lister).await.map_err(late)??;
                loop {
                    let entry = tokio::time::timeout(allowed, lister.try_next()).await;
                    let Some(entry) = entry.map_err(late)?? else { return Ok(()) };
                    if let Some(object) = object(&entry) {
                        each(object);
                        last = Some(entry.path().to_owned());
                        before = 0;
                    }
                }
            });
            let error = match answer {
                Ok(()) => return Ok(()),
                Err(error) => error,
            };
            before += 1;
            if error.kind() == ErrorKind::NotFound {
                return Ok(());
            }
            if before >= self.attempts || !may_pass(&error) {
                return Err(self.failed(folder, &error));
            }
            self.pause(before);
        }
    }

    /// Everything below a folder, from a service that lists one folder at a time.
    fn list_folders(&self, folder: &str, each: &mut dyn FnMut(Object)) -> Result<()> {
        let mut open = vec![format!("{folder}/")];
        while !open.is_empty() {
            let batch = open.split_off(open.len().saturating_sub(LISTINGS));
            let listed = self.attempt(0, || {
                let list = |path: &String| {
                    let path = path.clone();
                    async move {
                        match self.operator.list(&path).await {
                            Err(error) if error.kind() == ErrorKind::NotFound => Ok(Vec::new()),
                            listed => listed.map(|entries| {
                                entries.into_iter().filter(|entry| entry.path() != path).collect()
                            }),
                        }
                    }
                };
                let lists = futures::stream::iter(batch.iter().map(list).collect::<Vec<_>>());
                lists.buffer_unordered(LISTINGS).try_collect::<Vec<Vec<_>>>()
            });
            let listed = listed.map_err(|failed| self.failed(folder, &failed.error))?;
            for entry in listed.into_iter().flatten() {
                if entry.metadata().mode() == EntryMode::DIR {
                    open.push(entry.path().to_owned());
                } else if let Some(object) = object(&entry) {
                    each(object);
                }
            }
        }
        Ok(())
    }

    fn ahead(&self) -> MutexGuard<'_, Ahead> {
        self.ahead.lock()
    }
}

impl Backend for Remote {
    fn put(&self, name: &str, parts: &[&[u8]]) -> Result<()> {
        let body = Buffer::from(parts.concat());
        match self.creates {
            Creates::Atomically => self.create_atomically(name, &body),
            Creates::ByRenaming => self.create_by_renaming(name, &body),
        }
    }

    /// A service answers when it has stored an object: there is nothing left to wait for.
    fn sync(&self) -> Result<()> {
        Ok(())
    }

    fn get(&self, name: &str, limit: u64) -> Result<Vec<u8>> {
        let late = |_| timed_out(self.timeout);
        let read = || async {
            let reader = self.operator.reader(name).await?;
            let mut stream = reader.into_stream(..).await?;
            let mut bytes = Vec::new();
            // A stalled answer is noticed long before the time for all bytes is over.
            while let Some(part) =
                tokio::time::timeout(self.timeout, stream.try_next()).await.map_err(late)??
            {
                bytes.extend_from_slice(&part.to_bytes());
                if bytes.len() as u64 > limit {
                    break;
                }
            }
            Ok(bytes)
        };
        let bytes = self.attempt(limit, read).map_err(|failed| self.failed(name, &failed.error))?;
        if bytes.len() as u64 > limit {
            let why = format!("it has more than {limit} bytes");
            return Err(BackupError::Damaged { name: name.into(), why });
        }
        Ok(bytes)
    }

    fn get_range(&self, name: &str, offset: u64, length: u64) -> Result<Vec<u8>> {
        let range = {
            let mut ahead = self.ahead();
            if let Some(bytes) = ahead.get(name, offset, length) {
                ahead.ended(name, offset.saturating_add(length));
                return Ok(bytes);
            }
            ahead.plan(name, offset, length)
        };
        let read = || self.range(name, range.start, range.end);
        let bytes = self.attempt(range.end - range.start, read);
        let bytes = bytes.map_err(|failed| self.failed(name, &failed.error))?.to_vec();
        Ok(self.ahead().note(name, offset, length, bytes))
    }

    fn list_each(&self, folder: &str, each: &mut dyn FnMut(Object)) -> Result<()> {
        if self.operator.info().capability().list_with_recursive {
            self.list_flat(folder, each)
        } else {
            self.list_folders(folder, each)
        }
    }

    fn lists_at_once(&self) -> bool {
        self.lists_at_once
    }

    fn delete(&self, name: &str) -> Result<()> {
        self.ahead().forget(name);
        match self.attempt(0, || self.operator.delete(name)) {
            Ok(()) => Ok(()),
            Err(Failed { error, .. }) if error.kind() == ErrorKind::NotFound => Ok(()),
            Err(Failed { error, .. }) => Err(self.failed(name, &error)),
        }
    }
}

fn operator(address: &RepositoryUrl) -> std::result::Result<(Operator, Creates), Error> {
    let root = &address.root;
    Ok(match &address.service {
        Service::S3 { bucket, endpoint, region, keys } => {
            // The service compares the bytes with the checksum. Buckets with object lock want one,
            // and this one is known to all services.
            let s3 = services::S3::default().checksum_algorithm("md5");
            let s3 = s3.bucket(bucket).region(region).root(root);
            let s3 = if let Some(endpoint) = endpoint { s3.endpoint(endpoint) } else { s3 };
            // Otherwise from ~/.aws, or what the machine has at AWS.
            let s3 = match keys {
                Some(keys) => {
                    let s3 = s3.access_key_id(&keys.id).secret_access_key(&keys.secret);
                    s3.session_token(keys.token.as_deref().unwrap_or_default())
                }
                None => s3,
            };
            (Operator::new(s3)?, Creates::Atomically)
        }
        Service::Sftp { endpoint, user, key } => {
            let sftp = services::Sftp::default().endpoint(endpoint).root(root);
            let sftp = sftp.user(user.as_deref().unwrap_or_default());
            let sftp = sftp.key(key.as_deref().unwrap_or_default());
            (Operator::new(sftp)?, Creates::ByRenaming)
        }
        Service::WebDav { endpoint, user, password } => {
            let dav = services::Webdav::default().endpoint(endpoint).root(root);
            let dav = dav.username(user.as_deref().unwrap_or_default());
            let dav = dav.password(password.as_deref().unwrap_or_default());
            (Operator::new(dav)?, Creates::ByRenaming)
        }
    })
}

/// A listed object; `None` for a folder or an unfinished object.
fn object(entry: &opendal::Entry) -> Option<Object> {
    let is_object = entry.metadata().mode() == EntryMode::FILE;
    let is_finished = !entry.name().starts_with(UNFINISHED);
    let bytes = entry.metadata().content_length();
    (is_object && is_finished).then(|| Object { name: entry.path().to_owned(), bytes })
}

fn timed_out(after: Duration) -> Error {
    let why = format!("no answer within {} s", after.as_secs());
    let source = io::Error::new(io::ErrorKind::TimedOut, why.clone());
    Error::new(ErrorKind::Unexpected, why).set_source(source).set_temporary()
}

/// Whether another attempt may succeed.
fn may_pass(error: &Error) -> bool {
    let is_passing = error.is_temporary()
        || matches!(error.kind(), ErrorKind::Unexpected | ErrorKind::RateLimited);
    let is_too_large = error.source().is_some_and(<dyn std::error::Error>::is::<TooLarge>);
    is_passing && !is_too_large && refused_certificate(error).is_none()
}

/// Why the certificate of the service was not accepted, if that is the error.
fn refused_certificate(error: &Error) -> Option<String> {
    let mut last = error.source()?;
    while let Some(inner) = last.source() {
        last = inner;
    }
    let why = last.to_string();
    Some(why.strip_prefix("invalid peer certificate: ")?.to_owned())
}

/// A text of a service, which can be anything of any length: one line, cut to a length that says
/// enough.
fn in_short(text: &str) -> String {
    let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
    match words.char_indices().nth(SAID_CHARS_MAX) {
        Some((end, _)) => format!("{}…", &words[..end]),
        None => words,
    }
}

/// The error in short: the message of the service or of the system.
fn io_error(error: &Error) -> io::Error {
    let (mut kind, mut said) = (None, error.message().to_owned());
    let mut source = error.source();
    while let Some(inner) = source {
        if let Some(io) = inner.downcast_ref::<io::Error>() {
            kind = kind.or(Some(io.kind()));
        }
        let text = inner.to_string();
        // Most errors repeat those inside.
        if !said.contains(&text) {
            said = format!("{said}: {text}");
        }
        source = inner.source();
    }
    said = in_short(&said);
    if let Some(why) = refused_certificate(error) {
        let why = in_short(&why);
        said = format!(
            "the certificate of the service is not accepted: {why}; the system must trust who issued it, or SSL_CERT_FILE names a file \
             with the issuer's certificate"
        );
    }
    if said.is_empty() {
        // The service gave no reason.
        said = error.kind().to_string();
    }
    let kind = match error.kind() {
        ErrorKind::PermissionDenied => io::ErrorKind::PermissionDenied,
        ErrorKind::NotFound => io::ErrorKind::NotFound,
        ErrorKind::ConfigInvalid => io::ErrorKind::InvalidInput,
        ErrorKind::RateLimited => io::ErrorKind::ResourceBusy,
        ErrorKind::Unsupported => io::ErrorKind::Unsupported,
        _ => kind.unwrap_or(io::ErrorKind::Other),
    };
    io::Error::new(kind, said)
}
