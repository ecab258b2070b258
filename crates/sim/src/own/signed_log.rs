//! A signed log in a folder, under power cuts.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use talaria_cert::sha256;
use talaria_log::{
    Certificate, Edit, EntryId, Genesis, LogError, LogFolder, Maker, NewCheckpointer, Signing,
    Update, Value, WitnessError, deletable, public_path, read_note_key, read_public_note_key,
};
use talaria_message::make::{GenerateOptions, KeyUses, Protection, generate};
use talaria_message::openpgp::Cert;
use talaria_message::openpgp::serialize::MarshalInto as _;
use talaria_message::{Rules, SigningKey, signing_key};

use super::scenario::{Done, Scenario, text};
use crate::record::files_in;
use crate::run::NOW;

/// Alice, who owns the log.
static ALICE: LazyLock<Cert> = LazyLock::new(|| {
    let mut options = GenerateOptions::default();
    options.user_ids = vec!["Alice <alice@example.org>".to_owned()];
    options.uses = KeyUses::Sign;
    generate(&options, &Protection::Unprotected, NOW - 86_400).expect("a key").cert
});

const NOW_MS: u64 = NOW as u64 * 1000;
/// A value that is put, deleted, and compacted away.
const SECRET: &str = "the secret that must vanish";

/// A log that one node writes.
#[derive(Default)]
pub(super) struct SignedLog {
    /// The entries that each operation has made.
    made: Vec<Vec<EntryId>>,
}

/// The reason why a log could not be made.
struct Why(String);

impl From<LogError> for Why {
    fn from(error: LogError) -> Self {
        Self(text(error))
    }
}

impl From<WitnessError> for Why {
    fn from(error: WitnessError) -> Self {
        Self(text(error))
    }
}

impl SignedLog {
    const OPERATIONS: usize = 7;
    /// The operation after which the secret is not on disk.
    const COMPACTION: usize = 5;

    fn folder(root: &Path) -> PathBuf {
        root.join("log")
    }

    fn key(root: &Path) -> PathBuf {
        root.join("checkpointer")
    }

    fn signer() -> Done<(Certificate, SigningKey)> {
        let key = signing_key(&ALICE, Rules::default(), NOW, &mut |_, _| None).map_err(text)?;
        let bytes = ALICE.to_vec().map_err(text)?;
        Ok((Certificate::minimal(&bytes).map_err(text)?, key))
    }

    /// Makes the log, unless it is there. Keys without a log are those of an attempt that failed.
    fn make(root: &Path) -> Done {
        if LogFolder::open(&Self::folder(root)).is_ok() {
            return Ok(());
        }
        for path in [Self::key(root), public_path(&Self::key(root))] {
            let _ = fs::remove_file(path);
        }
        Self::create(root)
    }

    fn create(root: &Path) -> Done {
        let (certificate, mut key) = Self::signer()?;
        let mut maker =
            Maker::new(&certificate, &mut key, [0; 16]).ok_or("the key is not Alice's")?;
        let path = Self::key(root);
        let new = NewCheckpointer { key: &path, witnesses: &[], cosigners: None, grace_s: None };
        let genesis = Genesis::new(vec![certificate.clone()], 1);
        let made = new.create_log(&Self::folder(root), genesis, |genesis| {
            maker.begin(genesis, NOW_MS).map_err(|error| Why(text(error)))
        });
        made.map(drop).map_err(|why| why.0)
    }

    /// Calls a function with the open log and Alice, as a command does.
    fn with<T>(root: &Path, act: impl FnOnce(&LogFolder, &mut Maker<'_>) -> Done<T>) -> Done<T> {
        let log = LogFolder::open(&Self::folder(root)).map_err(text)?;
        let (certificate, mut key) = Self::signer()?;
        let maker = Maker::new(&certificate, &mut key, log.instance());
        act(&log, &mut maker.ok_or("the key is not Alice's")?)
    }

    fn put(log: &LogFolder, maker: &mut Maker<'_>, edits: Vec<Edit>) -> Done<Vec<EntryId>> {
        let update = |edit| Update { object: "thing".to_owned(), edit };
        let updates: Vec<Update> = edits.into_iter().map(update).collect();
        log.put(maker, &updates, Signing::Together, NOW_MS).map_err(text)
    }

    /// Values of some length, so that a group has several sectors.
    fn values(first: usize) -> Vec<Edit> {
        let value = |number: usize| {
            let value = Value::String(format!("{number} ").repeat(100 + number * 7));
            Edit::Put(format!("field-{}", number % 4), value)
        };
        (first..first + 5).map(value).collect()
    }

    fn is_on_disk(root: &Path, secret: &str) -> Done<bool> {
        for path in files_in(&Self::folder(root)).map_err(text)?.into_values() {
            let bytes = fs::read(path).map_err(text)?;
            // What is behind the last frame of a segment is zeros.
            let end = bytes.chunks(4096).rposition(|block| block.iter().any(|byte| *byte != 0));
            let used = &bytes[..bytes.len().min(end.map_or(0, |end| (end + 1) * 4096))];
            if used.windows(secret.len()).any(|part| part == secret.as_bytes()) {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

impl Scenario for SignedLog {
    fn operations(&self) -> usize {
        Self::OPERATIONS
    }

    fn operate(&mut self, root: &Path, number: usize) -> Done {
        if number == 0 {
            Self::make(root)?;
        }
        let made = Self::with(root, |log, maker| match number {
            0 => Ok(vec![log.id()]),
            1 | 6 => Self::put(log, maker, Self::values(number * 10)),
            2 => {
                let value = deletable(&Value::String(SECRET.to_owned())).map_err(text)?;
                let mut edits = Self::values(20);
                edits.push(Edit::PutDeletable("secret".to_owned(), value));
                let made = Self::put(log, maker, edits)?;
                log.write_index().map_err(text)?;
                Ok(made)
            }
            3 => {
                let key = read_note_key(&Self::key(root)).map_err(text)?;
                Ok(vec![log.put_checkpoint(maker, &key, NOW_MS).map_err(text)?])
            }
            4 => {
                let made = Self::put(log, maker, Self::values(40))?;
                log.write_index().map_err(text)?;
                Ok(made)
            }
            _ => {
                let is_there = log.read(|log| {
                    let thing = log.find_object("thing");
                    thing.is_ok_and(|thing| log.state().field(thing, "secret").is_some())
                });
                let mut made = Vec::new();
                if is_there.map_err(text)? {
                    made = Self::put(log, maker, vec![Edit::DeleteValues("secret".to_owned())])?;
                }
                log.compact(|_| ()).map_err(text)?;
                Ok(made)
            }
        })?;
        self.made.truncate(number);
        self.made.push(made);
        Ok(())
    }

    /// The file with the instance of a log names its own inode. Here it stays the same file.
    fn arrive(&self, root: &Path) -> Done {
        let path = Self::folder(root).join("instance");
        let Ok(bytes) = fs::read(&path) else { return Ok(()) };
        if bytes.len() == 40 && bytes[32..] == sha256(&[&bytes[..32]])[..8] {
            let metadata = fs::metadata(&path).map_err(text)?;
            let mut sealed = bytes[..16].to_vec();
            sealed.extend(metadata.dev().to_be_bytes());
            sealed.extend(metadata.ino().to_be_bytes());
            let sum = sha256(&[&sealed]);
            sealed.extend(&sum[..8]);
            fs::write(&path, sealed).map_err(text)?;
        }
        Ok(())
    }

    fn look(&self, root: &Path, done: usize, _: bool) -> Done {
        let log = match LogFolder::open(&Self::folder(root)) {
            Err(LogError::NotALog { .. }) if done == 0 => return Ok(()),
            log => log.map_err(text)?,
        };
        let made: Vec<EntryId> = self.made.iter().take(done).flatten().copied().collect();
        let lost = log.read(|log| made.iter().copied().find(|id| log.entry(id).is_none()));
        if let Some(lost) = lost.map_err(text)? {
            return Err(format!("the entry {lost} is lost"));
        }
        for id in &made {
            if log.signed(id).map_err(text)?.is_none() {
                return Err(format!("the entry {id} is not on disk"));
            }
        }
        if !log.read(|log| log.forks().is_empty()).map_err(text)? {
            return Err("the log has forks".to_owned());
        }
        let verified = log.verify().map_err(text)?;
        if !verified.failed.is_empty() {
            return Err(format!("entries fail: {:?}", verified.failed));
        }
        // Without its key, a log has no checkpoints for ever.
        let key = read_note_key(&Self::key(root)).map_err(text)?;
        let public = read_public_note_key(&public_path(&Self::key(root))).map_err(text)?;
        if key.public() != public {
            return Err("the public key of the checkpointer is another one".to_owned());
        }
        if done > Self::COMPACTION && Self::is_on_disk(root, SECRET)? {
            return Err("a deleted value is on disk after the compaction".to_owned());
        }
        Ok(())
    }

    fn go_on(&self, root: &Path) -> Done {
        Self::make(root)?;
        let made = Self::with(root, |log, maker| {
            let made = Self::put(log, maker, Self::values(60))?;
            log.compact(|_| ()).map_err(text)?;
            Ok(made)
        })?;
        Self::with(root, |log, _| {
            let (lost, forks) = log
                .read(|log| {
                    let acknowledged = made.iter().find(|id| log.entry(id).is_none());
                    (acknowledged.copied(), log.forks())
                })
                .map_err(text)?;
            match lost {
                Some(lost) => Err(format!("the next entry {lost} is lost")),
                None if forks.is_empty() => Ok(()),
                None => Err(format!("the log has forks: {forks:?}")),
            }
        })
    }
}
