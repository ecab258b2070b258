//! Paths of a walk as input of the readers.

use std::fs::File;
use std::io::{self, Read as _, Seek as _, SeekFrom};

use rustix::io::Errno;

use super::walk::WalkItem;
use crate::bundle::BUNDLED_MAX;
use crate::create::{Reading, Remark};
use crate::entry::{Entry, Node};
use crate::reading::{ChunkInput, Piece};

/// A path that is read on a worker thread.
pub(crate) struct PathInput {
    item: WalkItem,
    file: Option<File>,
    /// The place of the next bytes in the file.
    at: u64,
    /// Bytes up to here are stored in the file; all of them for a file that is too small to look
    /// for holes.
    stored_until: u64,
    has_attributes: bool,
    remark: Option<Remark>,
}

impl PathInput {
    /// The path of an item, which may already have its attributes.
    pub(crate) fn new(item: WalkItem, has_attributes: bool) -> Self {
        Self { item, file: None, at: 0, stored_until: 0, has_attributes, remark: None }
    }

    fn is_file(&self) -> bool {
        matches!(self.item.entry.node, Node::File { .. })
    }
}

impl ChunkInput for PathInput {
    fn bytes(&self) -> u64 {
        if let Node::File { size, .. } = self.item.entry.node { size } else { 0 }
    }

    fn open(&mut self) -> io::Result<()> {
        if !self.has_attributes
            && let Err(error) = self.item.read_attributes()
        {
            self.remark = Some(Remark::NoAttributes(error));
        }
        if self.is_file() {
            self.file = Some(self.item.open()?);
            let is_small = self.bytes() <= BUNDLED_MAX as u64;
            self.stored_until = if is_small { u64::MAX } else { 0 };
        }
        Ok(())
    }

    fn read(&mut self, buffer: &mut [u8]) -> io::Result<Piece> {
        let Some(file) = &mut self.file else { return Ok(Piece::End) };
        if self.at == self.stored_until {
            let (data, end) = next_stored(file, self.at)?;
            self.stored_until = end;
            if data > self.at {
                let bytes = data - self.at;
                self.at = data;
                return Ok(Piece::Hole(bytes));
            }
        }
        let left = usize::try_from(self.stored_until - self.at).unwrap_or(usize::MAX);
        let room = buffer.len().min(left);
        loop {
            match file.read(&mut buffer[..room]) {
                Ok(0) => return Ok(Piece::End),
                Ok(n) => {
                    self.at += n as u64;
                    return Ok(Piece::Data(n));
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }

    fn close(&mut self) -> io::Result<()> {
        if let Some(file) = self.file.take()
            && self.item.has_changed(&file)?
        {
            self.remark.get_or_insert(Remark::Changed);
        }
        Ok(())
    }
}

impl Reading for PathInput {
    fn into_entry(self) -> (Entry, Option<Remark>) {
        (self.item.entry, self.remark)
    }

    fn path(&self) -> &[u8] {
        &self.item.entry.path
    }

    fn may_vanish(&self) -> bool {
        !self.item.is_named
    }
}

/// The next bytes from `at` on that the file stores: where they start, and where the next hole is.
/// At the end of the file, both are the end. The file is at the start of them afterwards.
fn next_stored(file: &mut File, at: u64) -> io::Result<(u64, u64)> {
    let seek = |to| rustix::fs::seek(&*file, to);
    // Before the search: a file that grows meanwhile does not seem to have a hole.
    let end = seek(rustix::fs::SeekFrom::End(0))?.max(at);
    let data = match seek(rustix::fs::SeekFrom::Data(at)) {
        Ok(data) => data,
        // There is nothing but a hole, or nothing at all.
        Err(Errno::NXIO) => return Ok((end, end)),
        // The file system does not tell holes.
        Err(Errno::INVAL | Errno::OPNOTSUPP) => {
            file.seek(SeekFrom::Start(at))?;
            return Ok((at, u64::MAX));
        }
        Err(error) => return Err(error.into()),
    };
    let hole = seek(rustix::fs::SeekFrom::Hole(data))?;
    file.seek(SeekFrom::Start(data))?;
    // A file that is being cut off is read until it ends.
    Ok((data, if hole > data { hole } else { u64::MAX }))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::MetadataExt as _;
    use std::path::{Path, PathBuf};
    use std::sync::atomic::Ordering::Relaxed;

    use super::*;
    use crate::chunks::ReadChunks as _;
    use crate::create::Created;
    use crate::entry::Extent;
    use crate::epoch::EpochProfile;
    use crate::files::cache::{Cache, CacheWriter, FileChange};
    use crate::files::tree::{Report, create_tree};
    use crate::files::walk::{Walk, WalkOptions};
    use crate::id::Kind;
    use crate::progress::BackupProgress;
    use crate::testing::{Place, REPOSITORY, noise};
    use crate::tree::{ContentParts, Tree};

    #[derive(Default)]
    struct Heard(Vec<String>);

    impl Report for Heard {
        fn stored(&mut self, _: &Entry, _: FileChange) {}

        fn unread(&mut self, path: &[u8], error: &io::Error) {
            self.0.push(format!("unread {}: {error}", String::from_utf8_lossy(path)));
        }

        fn socket(&mut self, path: &[u8]) {
            self.0.push(format!("socket {}", String::from_utf8_lossy(path)));
        }

        fn remark(&mut self, path: &[u8], remark: &Remark) {
            self.0.push(format!("{remark:?} {}", String::from_utf8_lossy(path)));
        }

        fn no_cache(&mut self, error: &io::Error) {
            self.0.push(format!("no cache: {error}"));
        }
    }

    /// A run over `root` with a cache in `cache`.
    fn run(
        place: &Place,
        root: &std::path::Path,
        cache: &std::path::Path,
    ) -> (Created, Vec<String>, std::sync::Arc<BackupProgress>) {
        let (sink, progress) = place.sink(place.present(), 2);
        let walk = Walk::new(&[root.into()], WalkOptions::default()).unwrap();
        let (mut known, next) =
            (Cache::open(cache, REPOSITORY), CacheWriter::create(cache, REPOSITORY).unwrap());
        let mut heard = Heard::default();
        let (created, next) = create_tree(walk, &mut known, Some(next), sink, &mut heard).unwrap();
        next.unwrap().finish().unwrap();
        (created, heard.0, progress)
    }

    /// Every file of a tree beneath `root` has the content that it has in the file system.
    fn check(place: &Place, created: &Created, root: &std::path::Path) -> usize {
        let source = place.source();
        let start = root.to_str().unwrap().trim_start_matches('/').to_owned();
        let mut files = 0;
        for entry in Tree::new(&source, created.root).entries() {
            let entry = entry.unwrap();
            let path = String::from_utf8(entry.path).unwrap();
            let Node::File { content, .. } = entry.node else { continue };
            assert!(path.starts_with(&start));
            let mut bytes = Vec::new();
            for part in ContentParts::new(&source, content) {
                match part.unwrap() {
                    Extent::Inline(data) => bytes.extend(data),
                    Extent::Hole(length) => {
                        bytes.resize(bytes.len() + usize::try_from(length).unwrap(), 0);
                    }
                    Extent::Data { id, offset, length } => {
                        let chunk = source.read(Kind::Data, &id).unwrap();
                        let at = |byte: u64| usize::try_from(byte).unwrap();
                        bytes.extend_from_slice(&chunk[at(offset)..at(offset + length)]);
                    }
                    Extent::List { .. } => unreachable!("lists are resolved"),
                }
            }
            assert!(bytes == fs::read(format!("/{path}")).unwrap(), "{path}");
            files += 1;
        }
        files
    }

    #[test]
    fn files_of_a_folder_are_read_once_and_again_when_they_change() {
        let folder = tempfile::tempdir().unwrap();
        let (root, cache) = (folder.path().join("data"), folder.path().join("cache"));
        for (n, bytes) in [0, 1, 600, 5000, 200_000, 3 << 20].into_iter().enumerate() {
            fs::create_dir_all(root.join(format!("{n}"))).unwrap();
            for copy in 0..9 {
                let content = noise(n as u64 * 10 + copy, bytes);
                fs::write(root.join(format!("{n}/{copy}")), content).unwrap();
            }
        }
        fs::hard_link(root.join("3/1"), root.join("3/1-again")).unwrap();
        std::os::unix::fs::symlink("nowhere", root.join("link")).unwrap();
        let sparse = File::create(root.join("sparse")).unwrap();
        std::os::unix::fs::FileExt::write_all_at(&sparse, &noise(99, 70_000), 2 << 20).unwrap();
        sparse.set_len(9 << 20).unwrap();
        // The last change is settled.
        std::thread::sleep(std::time::Duration::from_millis(120));
        let place = Place::new(EpochProfile::Rfc9580);
        let (created, heard, progress) = run(&place, &root, &cache);
        assert!(heard.is_empty(), "{heard:?}");
        // The further hard link has no content.
        assert_eq!(check(&place, &created, &root), 55);
        let read = progress.read_bytes.load(Relaxed);
        let holes = fs::metadata(root.join("sparse")).unwrap();
        if holes.blocks() * 512 < 1 << 20 {
            assert!(read < 9 * (1 + 600 + 5000 + 200_000 + (3 << 20)) + (1 << 20), "{read}");
        }
        // Nothing is read again.
        let (again, _, progress) = run(&place, &root, &cache);
        // Folders above may have changed.
        assert_eq!((again.counts, progress.read_bytes.load(Relaxed)), (created.counts, 0));
        // One changed file is read again.
        fs::write(root.join("3/5"), noise(1234, 5000)).unwrap();
        let (changed, _, progress) = run(&place, &root, &cache);
        assert_eq!(progress.read_bytes.load(Relaxed), 5000);
        assert_eq!(check(&place, &changed, &root), 55);
        // Without their pack, chunks do not count, whatever the cache says.
        place.backend.objects.lock().clear();
        let (whole, _, progress) = run(&place, &root, &cache);
        assert!(progress.read_bytes.load(Relaxed) >= read - 10_000);
        assert_eq!(check(&place, &whole, &root), 55);
    }

    #[test]
    fn unreadable_paths_are_reported_by_name() {
        let folder = tempfile::tempdir().unwrap();
        let (root, cache) = (folder.path().join("data"), folder.path().join("cache"));
        fs::create_dir(&root).unwrap();
        fs::write(root.join("a"), "a").unwrap();
        let _socket = std::os::unix::net::UnixListener::bind(root.join("s")).unwrap();
        let place = Place::new(EpochProfile::Rfc9580);
        let (created, heard, _) = run(&place, &root, &cache);
        assert!(
            matches!(&heard[..], [one] if one.starts_with("socket ") && one.ends_with("data/s"))
        );
        assert_eq!(created.counts.unread, 0);
    }

    /// What a run counts as unread and as vanished, if a path is removed after the walk over `named`
    /// saw it.
    fn vanish(named: &Path, removed: &[PathBuf]) -> (u64, u64, usize) {
        struct Unread(usize);
        impl crate::create::Listener<()> for Unread {
            fn stored(&mut self, _: &Entry, (): (), _: Option<Remark>) {}
            fn unread(&mut self, _: &[u8], _: io::Error) {
                self.0 += 1;
            }
        }
        let place = Place::new(EpochProfile::Rfc9580);
        let (sink, _) = place.sink(place.present(), 1);
        let items: Vec<_> =
            Walk::new(&[named.to_owned()], WalkOptions::default()).unwrap().collect();
        removed.iter().for_each(|path| fs::remove_file(path).unwrap());
        let mut creation = crate::create::Creation::new(sink);
        let mut heard = Unread(0);
        for item in items {
            if let crate::files::Walked::Item(item) = item {
                creation.read(PathInput::new(item, false), (), &mut heard).unwrap();
            }
        }
        let counts = creation.finish(&mut heard).unwrap().counts;
        (counts.unread, counts.vanished, heard.0)
    }

    #[test]
    fn files_that_are_deleted_meanwhile_are_no_failure_unless_they_are_many_or_named() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        let make = |count: usize| -> Vec<PathBuf> {
            let paths = (0..count).map(|number| root.join(number.to_string()));
            paths.inspect(|path| fs::write(path, "content").unwrap()).collect()
        };
        assert_eq!(vanish(root, &make(30)[..10]), (0, 10, 0));
        assert_eq!(vanish(root, &make(30)[..11]), (11, 0, 0));
        assert_eq!(vanish(root, &make(1500)[..15]), (0, 15, 0));
        let one = make(1);
        assert_eq!(vanish(&one[0], &one), (1, 0, 1));
    }
}
