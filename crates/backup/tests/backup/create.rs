//! Creating snapshots and checking repositories.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use talaria_backup::{
    BackupError, BackupProgress, BackupRun, Change, Checked, ContentParts, CreateOptions,
    EpochProfile, Extent, FileCounts, Heads, Keys, Kind, Listed, Node, ReadChunks as _, ReadData,
    Repository, State, Stream, Tree, heads,
};
use talaria_message::openpgp::Cert;

use crate::people::{NOW, Place, name, person, signer};
use crate::prune::{AT_ONCE, Hook, Hooked, forget, open, prune};

/// More than the tree of the test's files has. The folders above them change at any time, and the
/// tree with them.
const TREE_BYTES: u64 = 10_000;

/// Bytes that do not compress, the same for the same seed.
pub(crate) fn noise(seed: u64, length: usize) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()
    };
    let mut out: Vec<u8> = (0..length.div_ceil(8)).flat_map(|_| next()).collect();
    out.truncate(length);
    out
}

/// A folder with files of all kinds.
pub(crate) fn files(place: &Place) -> PathBuf {
    let root = place.path("../files");
    fs::create_dir_all(root.join("deep/er")).unwrap();
    fs::write(root.join("empty"), b"").unwrap();
    fs::write(root.join("small"), b"Meet me at noon.\n").unwrap();
    fs::write(root.join("deep/medium"), noise(1, 20_000)).unwrap();
    fs::write(root.join("deep/er/large"), noise(2, 9_000_000)).unwrap();
    fs::write(root.join("deep/text"), "all work and no play\n".repeat(100_000)).unwrap();
    symlink("nowhere", root.join("link")).unwrap();
    fs::hard_link(root.join("small"), root.join("the same")).unwrap();
    let sparse = fs::File::create(root.join("sparse")).unwrap();
    sparse.set_len(50_000_000).unwrap();
    fs::set_permissions(root.join("small"), fs::Permissions::from_mode(0o640)).unwrap();
    root.canonicalize().unwrap()
}

/// Backs up as a client at a time, with the state in a folder of this name.
pub(crate) fn back_up(
    repository: &Repository,
    keys: &Keys,
    client: &Cert,
    state: &Path,
    root: &Path,
    now: u32,
) -> Result<(BackupRun, Arc<BackupProgress>), BackupError> {
    let mut state = State::open(state, repository.id())?;
    let options = CreateOptions {
        paths: vec![root.to_owned()],
        host: b"alpha".to_vec(),
        threads: 2,
        ..CreateOptions::default()
    };
    let progress = Arc::new(BackupProgress::default());
    let client = Some((&name(client), signer(client)));
    let created = repository.create(keys, client, &mut state, &options, &progress, now)?;
    Ok((created, progress))
}

fn check(repository: &Repository, keys: &Keys) -> Checked {
    repository.check(keys, ReadData::All, &Heads::new(), &BackupProgress::default(), NOW).unwrap()
}

/// The content of a file of a snapshot.
pub(crate) fn content(
    repository: &Repository,
    keys: &Keys,
    listed: &Listed,
    path: &Path,
) -> Vec<u8> {
    let (reader, _) = repository.reader(keys, NOW).unwrap();
    let path = path.to_str().unwrap().trim_start_matches('/').as_bytes();
    let entry = Tree::new(&reader, listed.snapshot.root).get(path).unwrap().unwrap();
    let Node::File { content, .. } = entry.node else { panic!("{path:?} is no file") };
    let mut out = Vec::new();
    for part in ContentParts::new(&reader, content) {
        match part.unwrap() {
            Extent::Inline(bytes) => out.extend(bytes),
            Extent::Hole(length) => out.resize(out.len() + usize::try_from(length).unwrap(), 0),
            Extent::Data { id, offset, length } => {
                let chunk = reader.read(Kind::Data, &id).unwrap();
                let start = usize::try_from(offset).unwrap();
                out.extend(&chunk[start..start + usize::try_from(length).unwrap()]);
            }
            Extent::List { .. } => unreachable!("lists are resolved"),
        }
    }
    out
}

#[test]
fn files_of_all_kinds_come_back_in_every_profile() {
    for profile in EpochProfile::ALL {
        let place = Place::new(profile);
        let root = files(&place);
        let (repository, keys) = place.open_as(&place.alice);
        let state = place.path("../state");
        let (created, progress) =
            back_up(&repository, &keys, &place.alice, &state, &root, NOW).unwrap();
        assert!(created.seen.unread.is_empty() && created.seen.changed.is_empty(), "{created:?}");
        assert!(progress.read_bytes.load(Ordering::Relaxed) < 20_000_000, "holes are not read");
        let (listed, _) = repository.snapshots(&keys, NOW).unwrap();
        for file in ["empty", "small", "deep/medium", "deep/er/large", "deep/text", "sparse"] {
            let path = root.join(file);
            assert!(
                content(&repository, &keys, &listed[0], &path) == fs::read(&path).unwrap(),
                "{file}"
            );
        }
        let checked = check(&repository, &keys);
        assert!(checked.problems.is_empty(), "{profile}: {checked:?}");
        assert!(checked.packs_read == checked.packs && checked.packs > 0);
        assert_eq!(checked.entries, created.snapshot.entries);
    }
}

#[test]
fn an_unchanged_file_is_not_read_again_and_a_changed_one_is() {
    let place = Place::new(EpochProfile::Rfc9580);
    let root = files(&place);
    // A file that changed a moment ago is read again: its next change could have the same time.
    std::thread::sleep(std::time::Duration::from_millis(100));
    let (repository, keys) = place.open_as(&place.alice);
    let state = place.path("../state");
    let run = |now| {
        let (created, progress) =
            back_up(&repository, &keys, &place.alice, &state, &root, now).unwrap();
        let read = progress.read_bytes.load(Ordering::Relaxed);
        (created, read, progress.new_bytes.load(Ordering::Relaxed))
    };
    let (first, ..) = run(NOW);
    let (second, read, new) = run(NOW + 1);
    assert_eq!(read, 0);
    assert!(new < TREE_BYTES, "{new}");
    assert_eq!((second.snapshot.number, second.snapshot.previous), (2, Some(first.id)));
    // Without a cache everything is read, and nothing is stored twice.
    fs::remove_dir_all(&state).unwrap();
    let (third, read, new) = run(NOW + 2);
    assert!(read > 10_000_000 && new < TREE_BYTES, "{read} {new}");
    assert_eq!(third.snapshot.number, 3);
    // A small change in a large file is a small change in the repository.
    let mut large = noise(2, 9_000_000);
    large.insert(4_000_000, 7);
    fs::write(root.join("deep/er/large"), &large).unwrap();
    let (fourth, _, new) = run(NOW + 3);
    assert!((1..5_000_000).contains(&new), "{new}");
    let (listed, _) = repository.snapshots(&keys, NOW + 3).unwrap();
    let newest = listed.iter().find(|listed| listed.id == fourth.id).unwrap();
    assert!(content(&repository, &keys, newest, &root.join("deep/er/large")) == large);
}

#[test]
fn chunks_of_a_missing_pack_are_stored_again() {
    let place = Place::new(EpochProfile::Rfc9580);
    let root = files(&place);
    std::thread::sleep(std::time::Duration::from_millis(100));
    let (repository, keys) = place.open_as(&place.alice);
    let state = place.path("../state");
    back_up(&repository, &keys, &place.alice, &state, &root, NOW).unwrap();
    fs::remove_dir_all(place.path("packs")).unwrap();
    let damaged = check(&repository, &keys);
    assert!(!damaged.problems.is_empty());
    let (created, _) = back_up(&repository, &keys, &place.alice, &state, &root, NOW + 1).unwrap();
    let (listed, _) = repository.snapshots(&keys, NOW + 1).unwrap();
    let newest = listed.iter().find(|listed| listed.id == created.id).unwrap();
    let large = root.join("deep/er/large");
    assert!(content(&repository, &keys, newest, &large) == fs::read(&large).unwrap());
}

#[test]
fn a_client_does_not_rely_on_chunks_of_another_client() {
    let place = Place::new(EpochProfile::Rfc9580);
    let root = files(&place);
    let carol = person("carol");
    let (mut repository, keys) = place.open_as(&place.alice);
    repository.change(&keys, &Change::AddClient(&carol), &mut signer(&place.alice), NOW).unwrap();
    let new = |client: &Cert, state: &str| {
        let (repository, keys) = place.open_as(client);
        let state = place.path(&format!("../{state}"));
        let (_, progress) = back_up(&repository, &keys, client, &state, &root, NOW).unwrap();
        progress.new_bytes.load(Ordering::Relaxed)
    };
    let first = new(&carol, "carol");
    let second = new(&place.alice, "alice");
    assert!(second > first - TREE_BYTES, "a stolen client could have stored something else");
    assert!(new(&carol, "carol") < TREE_BYTES);
    let (repository, keys) = place.open_as(&carol);
    let (listed, _) = repository.snapshots(&keys, NOW).unwrap();
    // The client of the second run wrote down what it saw of the first.
    let of_alice =
        listed.iter().find(|listed| listed.snapshot.client == Some(name(&place.alice))).unwrap();
    assert_eq!(of_alice.snapshot.heads.len(), 1);
    assert_eq!(heads(&listed).len(), 2);
    // A client reads no file.
    assert!(matches!(repository.reader(&keys, NOW), Err(BackupError::Refused(_))));
}

#[test]
fn a_flipped_bit_in_any_object_is_found_and_named() {
    let place = Place::new(EpochProfile::Rfc9580);
    let root = files(&place);
    let (repository, keys) = place.open_as(&place.alice);
    back_up(&repository, &keys, &place.alice, &place.path("../state"), &root, NOW).unwrap();
    assert!(check(&repository, &keys).problems.is_empty());
    let mut objects = Vec::new();
    for folder in ["packs", "indexes", "snapshots"] {
        objects.extend(repository.backend().list(folder).unwrap());
    }
    assert!(objects.len() >= 3);
    for object in objects {
        let path = place.path(&object.name);
        let good = fs::read(&path).unwrap();
        for at in [0, 1, good.len() / 3, good.len() / 2, good.len() - 20, good.len() - 1] {
            let mut bad = good.clone();
            bad[at] ^= 0x10;
            fs::write(&path, &bad).unwrap();
            let checked = check(&repository, &keys);
            let named = checked.problems.iter().any(|problem| problem.object == object.name);
            assert!(named, "{} byte {at}: {checked:?}", object.name);
        }
        fs::write(&path, &good[..good.len() / 2]).unwrap();
        assert!(!check(&repository, &keys).problems.is_empty(), "{} truncated", object.name);
        fs::remove_file(&path).unwrap();
        let checked = check(&repository, &keys);
        // Only whoever knows the head can tell that the newest snapshot is missing.
        assert_eq!(
            checked.problems.is_empty(),
            object.name.starts_with("snapshots/"),
            "{checked:?}"
        );
        fs::write(&path, &good).unwrap();
    }
    assert!(check(&repository, &keys).problems.is_empty());
}

/// A file that is in several packs, all of which are gone.
#[test]
fn each_pack_that_a_file_lacks_is_named() {
    let place = Place::new(EpochProfile::Rfc9580);
    let root = files(&place);
    fs::write(root.join("huge"), noise(8, 40_000_000)).unwrap();
    let (repository, keys) = place.open_as(&place.alice);
    let state = place.path("../state");
    back_up(&repository, &keys, &place.alice, &state, &root, NOW).unwrap();
    let backend = repository.backend();
    let mut packs: Vec<_> =
        backend.list("packs").unwrap().into_iter().map(|pack| (pack.bytes, pack.name)).collect();
    packs.sort();
    // The full ones; the tree is in the last, which is not full.
    let lost: Vec<_> = packs.iter().rev().take(2).map(|(_, name)| name.clone()).collect();
    lost.iter().for_each(|name| backend.delete(name).unwrap());
    let checked = check(&repository, &keys);
    let named = |object: &String| checked.problems.iter().any(|problem| problem.object == *object);
    assert!(lost.iter().all(named), "{lost:?} {checked:?}");
}

#[test]
fn damage_touches_only_the_files_that_check_names() {
    let place = Place::new(EpochProfile::Rfc9580);
    let root = files(&place);
    let (repository, keys) = place.open_as(&place.alice);
    let state = place.path("../state");
    back_up(&repository, &keys, &place.alice, &state, &root, NOW).unwrap();
    fs::write(root.join("new"), noise(9, 2_000_000)).unwrap();
    let before: Vec<_> = repository.backend().list("packs").unwrap();
    back_up(&repository, &keys, &place.alice, &state, &root, NOW + 1).unwrap();
    let after = repository.backend().list("packs").unwrap();
    let added = after.iter().find(|pack| !before.contains(pack)).unwrap();
    let path = place.path(&added.name);
    let mut bytes = fs::read(&path).unwrap();
    // In the first AEAD chunks is the content of the new file.
    bytes[100_000] ^= 1;
    fs::write(&path, bytes).unwrap();
    let checked = check(&repository, &keys);
    let named: Vec<_> = checked.problems.iter().map(|problem| &problem.object).collect();
    assert!(named.iter().any(|object| object.ends_with("files/new")), "{named:?}");
    assert!(!named.iter().any(|object| object.contains("deep")), "{named:?}");
    let (listed, _) = repository.snapshots(&keys, NOW + 1).unwrap();
    let large = root.join("deep/er/large");
    assert!(content(&repository, &keys, &listed[0], &large) == fs::read(&large).unwrap());
}

/// How gpg takes a file with secret keys, and decrypts a file.
const GPG: &str = r#"
export GNUPGHOME=$PWD
chmod 700 .
gpg="gpg -q --batch --no-tty --trust-model always"
take() { $gpg --import "$1"; }
decrypt() { $gpg -d "$1" 2>/dev/null; }
"#;

/// The same for sq 0.27, which wants a file for each key.
const SQ: &str = r#"
keys=
take() {
    mkdir "split-$(basename "$1")"
    sq keyring split -p "split-$(basename "$1")/key" "$1"
    for key in "split-$(basename "$1")"/*; do keys="$keys --recipient-key $key"; done
}
decrypt() { sq decrypt $keys "$1" 2>/dev/null; }
"#;

#[test]
fn a_whole_file_is_recovered_without_talaria() {
    let tools =
        [(EpochProfile::Rfc4880, GPG), (EpochProfile::LibrePgp, GPG), (EpochProfile::Rfc4880, SQ)];
    for (profile, tool) in tools {
        let place = Place::new(profile);
        let root = files(&place);
        let (repository, keys) = place.open_as(&place.alice);
        let state = place.path("../state");
        let (created, _) = back_up(&repository, &keys, &place.alice, &state, &root, NOW).unwrap();
        let home = tempfile::Builder::new().prefix("gpg").tempdir_in("/tmp").unwrap();
        let secret = home.path().join("alice.key");
        let tsk = talaria_message::openpgp::serialize::SerializeInto::to_vec(&place.alice.as_tsk());
        fs::write(&secret, tsk.unwrap()).unwrap();
        // The steps of docs/formats/backup.md, in a shell.
        let script = format!(
            r#"
set -e
{tool}
take alice.key
for k in {repository}/keys/1/*.pgp; do decrypt "$k" > epoch.key; take epoch.key; done
decrypt {repository}/snapshots/{id} > snapshot
for i in {repository}/indexes/*; do decrypt "$i"; done > all
mkdir chunks
for p in {repository}/packs/*/*; do decrypt "$p" | tar x -C chunks; done
for z in chunks/*.zst; do zstd -q -d --rm "$z"; done
root=$(sed -n 's/^root [0-9]* //p' snapshot)
grep ' {path}$' chunks/$root > entry
cut -d ' ' -f 7 entry | tr , '\n' | while IFS=: read id offset length; do
    case $id in
    \**) cat chunks/${{id#?}} ;;
    *) echo $id:$offset:$length ;;
    esac
done | while IFS=: read id offset length; do
    tail -c +$((offset + 1)) chunks/$id | head -c $length
done > recovered
"#,
            repository = place.path("").display(),
            id = created.id,
            path = root.join("deep/er/large").display().to_string().trim_start_matches('/'),
        );
        let output =
            Command::new("sh").args(["-c", &script]).current_dir(home.path()).output().unwrap();
        assert!(output.status.success(), "{profile}: {output:?}");
        let recovered = fs::read(home.path().join("recovered")).unwrap();
        assert!(
            recovered == fs::read(root.join("deep/er/large")).unwrap(),
            "{profile}: {output:?}"
        );
        let _ =
            Command::new("gpgconf").args(["--kill", "all"]).env("GNUPGHOME", home.path()).status();
    }
}

/// All files in a folder, with their lengths.
pub(crate) fn listing(folder: &Path) -> Vec<(PathBuf, u64)> {
    let mut all = Vec::new();
    let mut open = vec![folder.to_owned()];
    while let Some(folder) = open.pop() {
        for entry in fs::read_dir(folder).into_iter().flatten() {
            let path = entry.unwrap().path();
            let meta = fs::symlink_metadata(&path).unwrap();
            if meta.is_dir() {
                open.push(path);
            } else {
                all.push((path, meta.len()));
            }
        }
    }
    all.sort();
    all
}

#[test]
fn a_dry_run_writes_nothing_and_counts_what_a_run_stores() {
    let place = Place::new(EpochProfile::Rfc9580);
    let root = files(&place);
    // The last change is settled.
    std::thread::sleep(std::time::Duration::from_millis(120));
    let (repository, keys) = place.open_as(&place.alice);
    let state = place.path("../state");
    let dry = |now| {
        let state = State::open(&state, repository.id()).unwrap();
        let options =
            CreateOptions { paths: vec![root.clone()], threads: 2, ..CreateOptions::default() };
        let progress = Arc::new(BackupProgress::default());
        let client = Some((&name(&place.alice), signer(&place.alice)));
        let seen = repository.try_create(&keys, client, &state, &options, &progress, now).unwrap();
        (
            seen,
            progress.new_chunks.load(Ordering::Relaxed),
            progress.new_bytes.load(Ordering::Relaxed),
        )
    };
    // The folder of the state is made by whoever opens the repository.
    State::open(&state, repository.id()).unwrap();
    let before = (listing(&place.path("")), listing(&state));
    let (seen, chunks, bytes) = dry(NOW);
    assert_eq!((listing(&place.path("")), listing(&state)), before);
    let (created, progress) =
        back_up(&repository, &keys, &place.alice, &state, &root, NOW).unwrap();
    assert_eq!((seen.entries, seen.bytes), (created.seen.entries, created.seen.bytes));
    assert_eq!(seen.files, FileCounts { new: 6, changed: 0, unchanged: 0 });
    assert_eq!(seen.files, created.seen.files);
    // The tree has the times of folders above, which can change between the two.
    assert_eq!(chunks, progress.new_chunks.load(Ordering::Relaxed));
    assert!(bytes.abs_diff(progress.new_bytes.load(Ordering::Relaxed)) < 100);

    fs::write(root.join("small"), b"Meet me at nine.\n").unwrap();
    fs::write(root.join("more"), noise(7, 5000)).unwrap();
    let before = (listing(&place.path("")), listing(&state));
    let (seen, chunks, bytes) = dry(NOW + 1);
    assert_eq!((listing(&place.path("")), listing(&state)), before);
    assert_eq!(seen.files, FileCounts { new: 1, changed: 1, unchanged: 5 });
    assert!(
        (1..10).contains(&chunks) && (5000..5000 + TREE_BYTES).contains(&bytes),
        "{chunks} {bytes}"
    );
    // A repository in which the client may not write is refused as for a run.
    let bob = person("bob");
    let state = State::open(&state, repository.id()).unwrap();
    let refused = repository.try_create(
        &keys,
        Some((&name(&bob), signer(&bob))),
        &state,
        &CreateOptions::default(),
        &Arc::new(BackupProgress::default()),
        NOW,
    );
    assert!(matches!(refused, Err(BackupError::Refused(_))));
}

#[test]
fn a_file_whose_change_is_too_new_is_changed_and_not_new_for_the_next_run() {
    let place = Place::new(EpochProfile::None);
    let root = place.path("../files");
    fs::create_dir_all(&root).unwrap();
    let (repository, keys) = place.open_as(&place.alice);
    let state = place.path("../state");
    fs::write(root.join("file"), b"just now").unwrap();
    back_up(&repository, &keys, &place.alice, &state, &root, NOW).unwrap();
    let (run, _) = back_up(&repository, &keys, &place.alice, &state, &root, NOW + 1).unwrap();
    assert_eq!(run.seen.files.new, 0, "{:?}", run.seen.files);
    assert_eq!(run.seen.files.changed + run.seen.files.unchanged, 1);
}

/// A stream that fails at its end.
struct Broken(std::io::Cursor<Vec<u8>>);

impl std::io::Read for Broken {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        match self.0.read(buffer)? {
            0 => Err(std::io::Error::other("the line went dead")),
            n => Ok(n),
        }
    }
}

#[test]
fn a_stream_becomes_the_only_file_of_a_snapshot() {
    let place = Place::new(EpochProfile::Rfc9580);
    let (repository, keys) = place.open_as(&place.alice);
    let state = place.path("../state");
    let root = files(&place);
    // The cache of the files is that of the last run of files, whatever else is backed up.
    std::thread::sleep(std::time::Duration::from_millis(120));
    back_up(&repository, &keys, &place.alice, &state, &root, NOW).unwrap();
    let stream = |name: &str, input: Box<dyn std::io::Read + Send>, now| {
        let mut state = State::open(&state, repository.id()).unwrap();
        let options = CreateOptions { threads: 2, ..CreateOptions::default() };
        let stream = Stream::new(name.as_bytes(), input)?;
        let progress = Arc::new(BackupProgress::default());
        let client = Some((&name_of(&place), signer(&place.alice)));
        let run = repository.create_from(
            &keys,
            client,
            &mut state,
            (&options, stream),
            &progress,
            now,
        )?;
        Ok::<_, BackupError>((run, progress.new_bytes.load(Ordering::Relaxed)))
    };
    let cursor = |bytes: &[u8]| Box::new(std::io::Cursor::new(bytes.to_vec()));
    let dump = noise(5, 6_000_000);
    let (run, _) = stream("/dumps/db.sql", cursor(&dump), NOW + 1).unwrap();
    assert_eq!((run.seen.entries, run.snapshot.bytes), (2, 6_000_000));
    assert_eq!(run.snapshot.paths, [b"/dumps/db.sql".to_vec()].into());
    // A part of a later dump is known.
    let (again, new) =
        stream("dumps/db.sql", cursor(&[&dump[..], b"tail"].concat()), NOW + 2).unwrap();
    assert!(new < 4_000_000, "{new}");
    assert_eq!(again.snapshot.previous, Some(run.id));
    stream("empty", cursor(b""), NOW + 3).unwrap();
    let (listed, _) = repository.snapshots(&keys, NOW + 4).unwrap();
    let read = |at: usize, path: &str| content(&repository, &keys, &listed[at], Path::new(path));
    assert!(read(1, "/dumps/db.sql") == dump);
    assert!(read(2, "/dumps/db.sql") == [&dump[..], b"tail"].concat());
    assert!(read(3, "/empty").is_empty());
    let (run, _) = back_up(&repository, &keys, &place.alice, &state, &root, NOW + 4).unwrap();
    assert_eq!(run.seen.files, FileCounts { new: 0, changed: 0, unchanged: 6 });
    // Of a stream that fails there is no snapshot.
    let before = repository.snapshots(&keys, NOW + 5).unwrap().0.len();
    let broken = Box::new(Broken(std::io::Cursor::new(noise(6, 3_000_000))));
    let failed = stream("db.sql", broken, NOW + 5);
    assert!(matches!(failed, Err(BackupError::File { .. })), "{failed:?}");
    assert_eq!(repository.snapshots(&keys, NOW + 5).unwrap().0.len(), before);
    for refused in ["", "/", "a/../b", "a//b", "./a"] {
        let refused = stream(refused, cursor(b""), NOW + 5);
        assert!(matches!(refused, Err(BackupError::Refused(_))), "{refused:?}");
    }
    assert!(check(&repository, &keys).problems.is_empty());
}

/// A stream cannot be read again, and a snapshot that lacks a part must not stay.
#[test]
fn a_stream_whose_packs_are_pruned_leaves_no_snapshot() {
    let place = Arc::new(Place::new(EpochProfile::Rfc9580));
    let dump = noise(8, 3_000_000);
    let back_up = |repository: &Repository, keys: &Keys, now| {
        let mut state = State::open(&place.path("../state"), repository.id())?;
        let options = CreateOptions { threads: 2, ..CreateOptions::default() };
        let stream = Stream::new(b"db.sql", Box::new(std::io::Cursor::new(dump.clone())))?;
        let client = Some((&name_of(&place), signer(&place.alice)));
        let progress = Arc::default();
        repository.create_from(keys, client, &mut state, (&options, stream), &progress, now)
    };
    let (repository, keys) = place.open_as(&place.alice);
    let first = back_up(&repository, &keys, NOW).unwrap().id;
    forget(&repository, &keys, &[first], &place.alice);
    let hooked = Arc::new(Hooked::new(&place));
    let other = Arc::clone(&place);
    let hook: Hook = Box::new(move || {
        let (repository, keys) = other.open_as(&other.alice);
        let pruned = prune(&repository, &keys, &other.alice, &AT_ONCE).unwrap();
        assert!(pruned.deleted_packs > 0);
    });
    *hooked.before_put.lock().unwrap() = Some(("prepared/", hook));
    let (broken, broken_keys) = open(hooked, &place.alice);
    let refused = back_up(&broken, &broken_keys, NOW + 1);
    let said = refused.unwrap_err().to_string();
    assert!(said.contains("cannot be read again"), "{said}");
    assert!(repository.snapshots(&keys, NOW + 2).unwrap().0.is_empty());
    back_up(&repository, &keys, NOW + 3).unwrap();
    assert!(check(&repository, &keys).problems.is_empty());
}

fn name_of(place: &Place) -> talaria_message::openpgp::Fingerprint {
    name(&place.alice)
}
