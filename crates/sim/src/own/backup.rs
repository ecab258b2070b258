//! Backups, under power cuts. The files that are backed up are in another folder, which loses
//! nothing.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock};

use talaria_backup::{
    Backend as _, BackupError, BackupProgress, CreateOptions, EpochProfile, Folder, Heads, Id,
    InitOptions, Keys, Listed, Patience, PruneOptions, ReadData, Repository, RestoreOptions,
    SnapshotName, State, Tree, restore,
};
use talaria_message::make::{GenerateOptions, Protection, generate};
use talaria_message::openpgp::{Cert, Fingerprint};
use talaria_message::{Rules, Secrets, SigningKey, decryption_keys, signing_key};
use tempfile::TempDir;

use super::scenario::{Done, Scenario, text};
use crate::disk::Files;
use crate::numbers::Numbers;
use crate::record::files_in;
use crate::run::NOW;

/// Alice, who owns the repository, reads and writes it.
static ALICE: LazyLock<Cert> = LazyLock::new(|| {
    let mut options = GenerateOptions::default();
    options.user_ids = vec!["Alice <alice@example.org>".to_owned()];
    generate(&options, &Protection::Unprotected, NOW - 86_400).expect("a key").cert
});

/// A repository, and the files that are backed up to it.
pub(super) struct Backup {
    files: TempDir,
    /// The snapshots that were acknowledged.
    made: Vec<Id>,
}

/// A repository that is open, with the state of this machine.
struct Opened {
    repository: Repository,
    keys: Keys,
    state: State,
}

impl Opened {
    fn listed(&self) -> Done<Vec<Listed>> {
        let (listed, unreadable) = self.repository.snapshots(&self.keys, NOW).map_err(text)?;
        if unreadable.is_empty() { Ok(listed) } else { Err(text(unreadable)) }
    }
}

impl Backup {
    /// The number of the last snapshot. The next operation forgets those before it.
    const SNAPSHOTS: usize = 3;

    pub(super) fn new() -> Done<Self> {
        Ok(Self { files: tempfile::tempdir().map_err(text)?, made: Vec::new() })
    }

    fn name() -> Fingerprint {
        ALICE.fingerprint()
    }

    fn signer() -> Done<SigningKey> {
        signing_key(&ALICE, Rules::default(), NOW, &mut |_, _| None).map_err(text)
    }

    fn folder(root: &Path) -> Arc<Folder> {
        Arc::new(Folder::new(root.join("repository")))
    }

    /// Makes the repository, unless it is there.
    fn init(root: &Path) -> Done {
        if matches!(Repository::id_in(&*Self::folder(root)), Err(BackupError::Missing { .. })) {
            let options = InitOptions {
                owner: &ALICE,
                readers: std::slice::from_ref(&ALICE),
                profile: EpochProfile::Rfc9580,
                signed: true,
            };
            let made = Repository::init(Self::folder(root), &options, &mut Self::signer()?, NOW);
            made.map_err(text)?;
        }
        let mut opened = Self::open(root)?;
        opened.state.remember(&Self::name(), 1, &Heads::new()).map_err(text)
    }

    fn open(root: &Path) -> Done<Opened> {
        let id = Repository::id_in(&*Self::folder(root)).map_err(text)?;
        let state = State::open(&root.join("state"), id).map_err(text)?;
        let opened = Repository::open(Self::folder(root), &state.expected, &mut |_| None, NOW);
        let mut repository = opened.map_err(text)?;
        repository.set_scratch(state.scratch());
        let keys = decryption_keys([&*ALICE], |_, _| None);
        let mut secrets = Secrets { keys, ..Secrets::default() };
        let keys = repository.unlock(&mut secrets, &[Self::name()]).map_err(text)?;
        Ok(Opened { repository, keys, state })
    }

    /// The files of a snapshot. Each snapshot has some that are like those before it.
    fn content(snapshot: u64) -> Files {
        let file = |number: u64| {
            let turn = if (snapshot + number).is_multiple_of(2) { snapshot } else { 0 };
            let mut numbers = Numbers::new(turn * 100 + number);
            let length = 200 + 900 * usize::try_from(number).expect("a small number");
            let content = (0..length).map(|_| numbers.draw().to_le_bytes()[0]).collect();
            (format!("file{number}"), content)
        };
        (0..5).map(file).collect()
    }

    fn source(&self) -> Done<PathBuf> {
        let path = self.files.path().canonicalize().map_err(text)?.join("files");
        fs::create_dir_all(&path).map_err(text)?;
        Ok(path)
    }

    /// Backs up the files of the next snapshot, as a run of the command does.
    fn create(&self, root: &Path) -> Done<Id> {
        let Opened { repository, keys, mut state } = Self::open(root)?;
        let (listed, _) = repository.snapshots(&keys, NOW).map_err(text)?;
        let listed = listed.iter().map(|listed| listed.snapshot.number);
        let seen = state.heads.values().map(|head| head.number);
        let next = listed.chain(seen).max().unwrap_or(0) + 1;
        let source = self.source()?;
        for (name, content) in Self::content(next) {
            fs::write(source.join(name), content).map_err(text)?;
        }
        // With more threads, the steps would be in another order each time.
        let options = CreateOptions { paths: vec![source], threads: 1, ..CreateOptions::default() };
        let client = Some((&Self::name(), Self::signer()?));
        let progress = Arc::new(BackupProgress::default());
        let run = repository.create(&keys, client, &mut state, &options, &progress, NOW);
        let run = run.map_err(text)?;
        if run.snapshot.number == next {
            return Ok(run.id);
        }
        Err(format!("the snapshot has the number {} instead of {next}", run.snapshot.number))
    }

    /// Forgets all snapshots but the last one, and prunes.
    fn prune(root: &Path) -> Done {
        let opened = Self::open(root)?;
        let Opened { repository, keys, .. } = &opened;
        let listed = opened.listed()?;
        let last = listed.iter().map(|listed| listed.snapshot.number).max();
        let old = listed.iter().filter(|listed| Some(listed.snapshot.number) != last);
        let old: BTreeSet<SnapshotName> = old.map(SnapshotName::of).collect();
        if !old.is_empty() {
            let by = (&Self::name(), &mut Self::signer()?);
            repository.forget(keys, &old, by, NOW).map_err(text)?;
        }
        let patience = Patience { idle: 0, total: 0 };
        let options = PruneOptions { max_unused: 0, patience, ..PruneOptions::default() };
        let by = (&Self::name(), Self::signer()?);
        let pruned = repository.prune(keys, by, &options, &mut |_| Ok(0), &Arc::default(), NOW);
        let pruned = pruned.map_err(text)?;
        if pruned.kept.is_empty() { Ok(()) } else { Err(text(pruned)) }
    }

    /// Checks everything, and restores each snapshot.
    fn examine(&self, opened: &Opened) -> Done<BTreeSet<Id>> {
        let Opened { repository, keys, state } = opened;
        let progress = BackupProgress::default();
        let checked = repository.check(keys, ReadData::All, &state.heads, &progress, NOW);
        let checked = checked.map_err(text)?;
        if !checked.problems.is_empty() {
            return Err(format!("a check found {:?}", checked.problems));
        }
        let mut ids = BTreeSet::new();
        for listed in opened.listed()? {
            let number = listed.snapshot.number;
            let files = self.restore(opened, &listed)?;
            if files != Self::content(number) {
                return Err(format!("snapshot {number} has other files: {:?}", files.keys()));
            }
            ids.insert(listed.id);
        }
        Ok(ids)
    }

    fn restore(&self, opened: &Opened, listed: &Listed) -> Done<Files> {
        let (reader, _) = opened.repository.reader(&opened.keys, NOW).map_err(text)?;
        let target = tempfile::tempdir().map_err(text)?;
        let subfolder = self.source()?.into_os_string().into_encoded_bytes();
        let subfolder = subfolder[1..].to_vec();
        let options = RestoreOptions { subfolder, threads: 1, ..RestoreOptions::default() };
        let tree = Tree::new(&reader, listed.snapshot.root);
        let progress = BackupProgress::default();
        let report = restore(&tree, target.path(), &options, &progress, &|_, _| {});
        let report = report.map_err(text)?;
        if report.failed > 0 {
            return Err(text(report));
        }
        let files = files_in(target.path()).map_err(text)?.into_iter();
        files.map(|(name, path)| Ok((name, fs::read(path).map_err(text)?))).collect()
    }
}

impl Scenario for Backup {
    fn operations(&self) -> usize {
        Self::SNAPSHOTS + 2
    }

    fn operate(&mut self, root: &Path, number: usize) -> Done {
        match number {
            0 => Self::init(root),
            number if number <= Self::SNAPSHOTS => {
                let id = self.create(root)?;
                self.made.push(id);
                Ok(())
            }
            _ => Self::prune(root),
        }
    }

    /// What an interrupted `init` has left without a mark is deleted, as its error advises.
    fn recover(&self, root: &Path) -> Done {
        match Self::folder(root).get("talaria-backup", u64::MAX - 1) {
            Err(BackupError::Missing { .. }) => {
                let path = root.join("repository");
                if path.exists() { fs::remove_dir_all(path).map_err(text) } else { Ok(()) }
            }
            found => found.map(drop).map_err(text),
        }
    }

    fn look(&self, root: &Path, done: usize, is_running: bool) -> Done {
        if done == 0 {
            return Ok(());
        }
        let found = self.examine(&Self::open(root)?)?;
        let made = &self.made[..self.made.len().min(done - 1)];
        let (last, forgotten) = if done + usize::from(is_running) > Self::SNAPSHOTS + 1 {
            made.split_last().map_or((None, made), |(last, rest)| (Some(last), rest))
        } else {
            (None, &[][..])
        };
        let kept = if last.is_some() { &made[made.len() - 1..] } else { made };
        if let Some(lost) = kept.iter().find(|id| !found.contains(id)) {
            return Err(format!("the snapshot {lost} is lost"));
        }
        if done > Self::SNAPSHOTS + 1 && forgotten.iter().any(|id| found.contains(id)) {
            return Err("a forgotten snapshot is there".to_owned());
        }
        Ok(())
    }

    fn go_on(&self, root: &Path) -> Done {
        Self::init(root)?;
        let id = self.create(root)?;
        Self::prune(root)?;
        if self.examine(&Self::open(root)?)? == BTreeSet::from([id]) {
            return Ok(());
        }
        Err("a prune leaves other snapshots than the last one".to_owned())
    }
}
