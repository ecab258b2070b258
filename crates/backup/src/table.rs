//! Tables of rows of one length, sorted by key. A table that grows goes to temporary files, so that
//! its memory has a limit: a repository of ten million chunks is read and written in 256 MiB.
//!
//! New rows are in memory. When they are many they become a sorted run in a file, of which memory
//! has the start of each page. Few runs are merged into one.

use std::sync::Arc;

use crate::error::Result;

/// Makes temporary files for tables that grow large.
pub trait Scratch: Send + Sync {
    /// An empty file, which is gone when it is dropped.
    ///
    /// # Errors
    ///
    /// Errors of the file system, with the name of the folder.
    fn create(&self) -> Result<Box<dyn ScratchFile>>;
}

/// A temporary file.
pub trait ScratchFile: Send + Sync {
    /// Appends bytes.
    ///
    /// # Errors
    ///
    /// Errors of the file system.
    fn append(&mut self, bytes: &[u8]) -> Result<()>;

    /// Fills `bytes` with those from `offset` on, which were appended.
    ///
    /// # Errors
    ///
    /// Errors of the file system.
    fn read_at(&self, offset: u64, bytes: &mut [u8]) -> Result<()>;
}

/// Temporary files in memory: tables have no limit then.
#[derive(Clone, Copy, Debug, Default)]
pub struct InMemory;

impl Scratch for InMemory {
    fn create(&self) -> Result<Box<dyn ScratchFile>> {
        Ok(Box::new(Vec::new()))
    }
}

impl ScratchFile for Vec<u8> {
    fn append(&mut self, bytes: &[u8]) -> Result<()> {
        self.extend_from_slice(bytes);
        Ok(())
    }

    fn read_at(&self, offset: u64, bytes: &mut [u8]) -> Result<()> {
        let offset = usize::try_from(offset).expect("it is in memory");
        bytes.copy_from_slice(&self[offset..offset + bytes.len()]);
        Ok(())
    }
}

/// The key of a row.
pub(crate) type Key = [u8; 16];

/// A row with its key. Rows are ordered by their keys first.
pub(crate) trait Keyed: Copy + Ord {
    fn key(&self) -> &Key;
}

/// A row that can be in a file.
pub(crate) trait Row: Keyed {
    /// The length of a row in a file. It divides [`PAGE`].
    const BYTES: usize;

    /// Appends the row to `bytes`.
    fn write(&self, bytes: &mut Vec<u8>);

    /// Reads a row that [`Self::write`] wrote.
    fn read(bytes: &[u8]) -> Self;
}

impl Keyed for Key {
    fn key(&self) -> &Key {
        self
    }
}

impl Row for Key {
    const BYTES: usize = 16;

    fn write(&self, bytes: &mut Vec<u8>) {
        bytes.extend_from_slice(self);
    }

    fn read(bytes: &[u8]) -> Self {
        bytes.try_into().expect("a row has this length")
    }
}

/// Bytes that are read at once to find a key.
const PAGE: usize = 4096;
/// Bytes that are read at once to merge runs.
const MERGE_BYTES: usize = 64 << 10;
/// Bytes of new rows in memory.
const NEW_BYTES: usize = 16 << 20;
/// Runs after which all are merged.
const RUNS_MAX: usize = 8;

/// A table of rows.
pub(crate) struct Table<T> {
    scratch: Arc<dyn Scratch>,
    new: Buckets<T>,
    new_max: usize,
    runs: Vec<Run>,
}

impl<T: Row> Table<T> {
    pub(crate) fn new(scratch: Arc<dyn Scratch>) -> Self {
        Self { scratch, new: Buckets::new(), new_max: NEW_BYTES / T::BYTES, runs: Vec::new() }
    }

    /// Keeps at most so many rows in memory, for tests.
    #[cfg(test)]
    pub(crate) fn with_new_max(scratch: Arc<dyn Scratch>, new_max: usize) -> Self {
        Self { new_max, ..Self::new(scratch) }
    }

    /// The rows with this key, in their order.
    pub(crate) fn find(&self, key: &Key) -> Result<Vec<T>> {
        let mut found: Vec<T> = self.new.find(key).copied().collect();
        for run in &self.runs {
            run.find(key, &mut found)?;
        }
        found.sort_unstable();
        found.dedup();
        Ok(found)
    }

    /// Whether a row has this key.
    pub(crate) fn contains(&self, key: &Key) -> Result<bool> {
        Ok(self.new.find(key).next().is_some() || !self.find(key)?.is_empty())
    }

    /// Adds a row. The same row twice is one.
    pub(crate) fn push(&mut self, row: T) -> Result<()> {
        self.new.push(row);
        if self.new.len >= self.new_max {
            self.spill()?;
            if self.runs.len() >= RUNS_MAX {
                self.merge()?;
            }
        }
        Ok(())
    }

    /// Makes later searches fast: one run is searched instead of several.
    pub(crate) fn merge(&mut self) -> Result<()> {
        if self.runs.len() < 2 {
            return Ok(());
        }
        let mut run = RunWriter::new(&*self.scratch)?;
        let mut readers: Vec<RunReader<T>> = self.runs.iter().map(RunReader::new).collect();
        for reader in &mut readers {
            reader.advance()?;
        }
        let mut last = None;
        loop {
            let least = readers.iter_mut().filter(|reader| reader.row.is_some());
            let Some(least) = least.min_by_key(|reader| reader.row) else { break };
            let row = least.row;
            least.advance()?;
            if let Some(row) = row
                && last != Some(row)
            {
                run.push(&row)?;
                last = Some(row);
            }
        }
        drop(readers);
        self.runs = vec![run.finish()?];
        Ok(())
    }

    /// Moves the rows in memory to a run.
    fn spill(&mut self) -> Result<()> {
        let mut run = RunWriter::new(&*self.scratch)?;
        for row in std::mem::replace(&mut self.new, Buckets::new()).into_sorted() {
            run.push(&row)?;
        }
        self.runs.push(run.finish()?);
        Ok(())
    }

    /// The number of rows. A row that was added twice may count twice.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        let in_runs: u64 = self.runs.iter().map(|run| run.bytes / T::BYTES as u64).sum();
        self.new.len + usize::try_from(in_runs).unwrap()
    }

    /// Bytes of memory.
    #[cfg(test)]
    pub(crate) fn memory(&self) -> usize {
        let starts: usize = self.runs.iter().map(|run| run.starts.capacity()).sum();
        self.new.memory() + starts * size_of::<u64>()
    }
}

/// The first bytes of a key as a number with the same order.
fn start(key: &Key) -> u64 {
    u64::from_be_bytes(key[..8].try_into().expect("a key is longer"))
}

/// Sorted rows in a file.
struct Run {
    file: Box<dyn ScratchFile>,
    bytes: u64,
    /// The start of the first key of each page.
    starts: Vec<u64>,
}

impl Run {
    fn find<T: Row>(&self, key: &Key, found: &mut Vec<T>) -> Result<()> {
        let wanted = start(key);
        // Rows with the key may begin in the page before the first that starts with it.
        let first = self.starts.partition_point(|start| *start < wanted).saturating_sub(1);
        let pages = self.starts[first..].iter().take_while(|start| **start <= wanted).count();
        let mut page = [0; PAGE];
        for number in first..first + pages {
            let offset = (number * PAGE) as u64;
            let length = usize::try_from(self.bytes - offset).unwrap_or(PAGE).min(PAGE);
            let page = &mut page[..length];
            self.file.read_at(offset, page)?;
            let (mut low, mut high) = (0, length / T::BYTES);
            let row = |at: usize| T::read(&page[at * T::BYTES..(at + 1) * T::BYTES]);
            while low < high {
                let middle = usize::midpoint(low, high);
                if row(middle).key() < key { low = middle + 1 } else { high = middle }
            }
            let same = (low..length / T::BYTES).map(row).take_while(|row| row.key() == key);
            found.extend(same);
        }
        Ok(())
    }
}

/// A run in the making.
struct RunWriter {
    run: Run,
    waiting: Vec<u8>,
}

impl RunWriter {
    fn new(scratch: &dyn Scratch) -> Result<Self> {
        let run = Run { file: scratch.create()?, bytes: 0, starts: Vec::new() };
        Ok(Self { run, waiting: Vec::with_capacity(MERGE_BYTES) })
    }

    fn push<T: Row>(&mut self, row: &T) -> Result<()> {
        const { assert!(PAGE.is_multiple_of(T::BYTES), "no row is in two pages") };
        if self.run.bytes.is_multiple_of(PAGE as u64) {
            self.run.starts.push(start(row.key()));
        }
        row.write(&mut self.waiting);
        self.run.bytes += T::BYTES as u64;
        if self.waiting.len() >= MERGE_BYTES {
            self.run.file.append(&self.waiting)?;
            self.waiting.clear();
        }
        Ok(())
    }

    fn finish(mut self) -> Result<Run> {
        self.run.file.append(&self.waiting)?;
        self.run.starts.shrink_to_fit();
        Ok(self.run)
    }
}

/// The rows of a run, one after the other.
struct RunReader<'a, T> {
    run: &'a Run,
    offset: u64,
    bytes: Vec<u8>,
    at: usize,
    /// The current row.
    row: Option<T>,
}

impl<'a, T: Row> RunReader<'a, T> {
    fn new(run: &'a Run) -> Self {
        Self { run, offset: 0, bytes: Vec::new(), at: 0, row: None }
    }

    fn advance(&mut self) -> Result<()> {
        if self.at == self.bytes.len() {
            let left = usize::try_from(self.run.bytes - self.offset).unwrap_or(MERGE_BYTES);
            self.bytes.resize(left.min(MERGE_BYTES), 0);
            self.run.file.read_at(self.offset, &mut self.bytes)?;
            self.offset += self.bytes.len() as u64;
            self.at = 0;
        }
        self.row = None;
        if let Some(row) = self.bytes.get(self.at..self.at + T::BYTES) {
            self.row = Some(T::read(row));
            self.at += T::BYTES;
        }
        Ok(())
    }
}

/// The number of buckets.
const BUCKETS: usize = 4096;

/// Rows in memory, in buckets by the first bits of the key.
pub(crate) struct Buckets<T> {
    buckets: Vec<Bucket<T>>,
    len: usize,
}

/// Sorted rows, then new ones in no order: few, so that searching them costs little.
struct Bucket<T> {
    rows: Vec<T>,
    sorted: usize,
}

impl<T: Keyed> Buckets<T> {
    pub(crate) fn new() -> Self {
        let buckets = (0..BUCKETS).map(|_| Bucket { rows: Vec::new(), sorted: 0 });
        Self { buckets: buckets.collect(), len: 0 }
    }

    fn number(key: &Key) -> usize {
        usize::from(u16::from_be_bytes([key[0], key[1]]) >> 4)
    }

    /// The rows with this key.
    pub(crate) fn find<'a>(&'a self, key: &'a Key) -> impl Iterator<Item = &'a T> {
        let Bucket { rows, sorted } = &self.buckets[Self::number(key)];
        let (old, new) = rows.split_at(*sorted);
        let old = &old[old.partition_point(|row| row.key() < key)..];
        let old = old.iter().take_while(move |row| row.key() == key);
        old.chain(new.iter().filter(move |row| row.key() == key))
    }

    pub(crate) fn push(&mut self, row: T) {
        self.len += 1;
        let Bucket { rows, sorted } = &mut self.buckets[Self::number(row.key())];
        if rows.len() == rows.capacity() {
            // Doubling would waste half of the memory.
            rows.reserve_exact(rows.len() / 8 + 4);
        }
        rows.push(row);
        // The sort finds the sorted part and merges: each row is moved some 16 times in all.
        if rows.len() - *sorted > 32 + *sorted / 16 {
            rows.sort();
            *sorted = rows.len();
        }
    }

    /// All rows, in their order.
    fn into_sorted(self) -> impl Iterator<Item = T> {
        self.buckets.into_iter().flat_map(|mut bucket| {
            bucket.rows.sort();
            bucket.rows
        })
    }

    /// Bytes of memory.
    #[cfg(test)]
    fn memory(&self) -> usize {
        let rows: usize = self.buckets.iter().map(|bucket| bucket.rows.capacity()).sum();
        rows * size_of::<T>() + BUCKETS * size_of::<Bucket<T>>()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    /// Keys of which many have the same start.
    fn key() -> impl Strategy<Value = Key> {
        (0..3_u8, any::<u8>(), 0..4_u8).prop_map(|(first, middle, last)| {
            let mut key = [first.wrapping_mul(127); 16];
            (key[7], key[15]) = (middle & 3, last);
            key
        })
    }

    proptest! {
        #[test]
        fn a_table_in_files_has_the_rows_that_were_added(
            keys in proptest::collection::vec(key(), 0..400),
            new_max in 1..40_usize,
            merges in any::<bool>(),
        ) {
            let mut table = Table::with_new_max(Arc::new(InMemory), new_max);
            let mut model = BTreeSet::new();
            for key in &keys {
                prop_assert_eq!(table.contains(key).unwrap(), !model.insert(*key));
                table.push(*key).unwrap();
            }
            if merges {
                table.merge().unwrap();
            }
            for key in &model {
                prop_assert_eq!(table.find(key).unwrap(), vec![*key]);
            }
            prop_assert!(!table.contains(&[9; 16]).unwrap());
        }
    }

    /// Runs have many pages, and the memory of the table does not grow with the rows.
    #[test]
    fn a_large_table_is_found_in_files_and_takes_little_memory() {
        let mut table = Table::with_new_max(Arc::new(InMemory), 10_000);
        let mut bytes = blake3::Hasher::new().finalize_xof();
        let mut keys = vec![[0; 16]; 300_000];
        keys.iter_mut().for_each(|key| bytes.fill(key));
        keys.iter().for_each(|key| table.push(*key).unwrap());
        table.merge().unwrap();
        assert_eq!((table.len(), table.runs.len()), (300_000, 1));
        for key in &keys {
            assert!(table.contains(key).unwrap());
            let mut other = *key;
            other[15] ^= 1;
            assert!(!table.contains(&other).unwrap());
        }
        // A start of 8 bytes for each page of 256 keys; buckets without rows; the capacity of new
        // rows.
        assert!(table.memory() < 300_000 / 256 * 8 + (1 << 20), "{}", table.memory());
    }
}
