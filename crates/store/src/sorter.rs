//! Sorts more rows than fit into memory: sorted runs go to a temporary file and are merged.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::fs::File;
use std::io::{self, BufReader, BufWriter, Read as _, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};

/// Sorts records of `N` bytes in byte order, with at most about `memory_bytes` of records in
/// memory.
pub(crate) struct Sorter<const N: usize> {
    records: Vec<[u8; N]>,
    records_max: usize,
    runs: Vec<File>,
    folder: PathBuf,
}

impl<const N: usize> Sorter<N> {
    /// Runs go to unnamed files in `folder`.
    pub(crate) fn new(folder: &Path, memory_bytes: usize) -> Self {
        let records_max = (memory_bytes / N).max(1);
        Self { records: Vec::new(), records_max, runs: Vec::new(), folder: folder.to_owned() }
    }

    pub(crate) fn push(&mut self, record: [u8; N]) -> io::Result<()> {
        if self.records.len() == self.records_max {
            self.spill()?;
        }
        self.records.push(record);
        Ok(())
    }

    fn spill(&mut self) -> io::Result<()> {
        self.records.sort_unstable();
        let mut run = BufWriter::with_capacity(1 << 20, tempfile::tempfile_in(&self.folder)?);
        self.records.iter().try_for_each(|record| run.write_all(record))?;
        self.records.clear();
        let mut run = run.into_inner().map_err(io::IntoInnerError::into_error)?;
        run.seek(SeekFrom::Start(0))?;
        self.runs.push(run);
        Ok(())
    }

    /// Calls `each` with all records in order, without duplicates.
    pub(crate) fn drain<E: From<io::Error>>(
        mut self,
        mut each: impl FnMut(&[u8; N]) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut last: Option<[u8; N]> = None;
        let mut once = |record: [u8; N]| {
            if last == Some(record) {
                return Ok(());
            }
            last = Some(record);
            each(&record)
        };
        if self.runs.is_empty() {
            self.records.sort_unstable();
            return self.records.into_iter().try_for_each(once);
        }
        self.spill()?;
        self.records = Vec::new();
        let mut readers: Vec<_> =
            self.runs.into_iter().map(|run| BufReader::with_capacity(1 << 18, run)).collect();
        let mut heap = BinaryHeap::with_capacity(readers.len());
        for (at, reader) in readers.iter_mut().enumerate() {
            heap.extend(next_record(reader)?.map(|record| Reverse((record, at))));
        }
        while let Some(Reverse((record, at))) = heap.pop() {
            heap.extend(next_record(&mut readers[at])?.map(|next| Reverse((next, at))));
            once(record)?;
        }
        Ok(())
    }
}

fn next_record<const N: usize>(reader: &mut BufReader<File>) -> io::Result<Option<[u8; N]>> {
    let mut record = [0; N];
    match reader.read_exact(&mut record) {
        Ok(()) => Ok(Some(record)),
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(None),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// With any amount of memory, the result is that of a set.
        #[test]
        fn the_sorter_gives_the_order_of_a_set(records: Vec<[u8; 4]>, memory in 1usize..200) {
            let folder = tempfile::tempdir().unwrap();
            let mut sorter = Sorter::new(folder.path(), memory);
            records.iter().try_for_each(|&record| sorter.push(record)).unwrap();
            let mut sorted = Vec::new();
            sorter.drain(|record| { sorted.push(*record); io::Result::Ok(()) }).unwrap();
            let expected: std::collections::BTreeSet<_> = records.into_iter().collect();
            prop_assert_eq!(sorted, expected.into_iter().collect::<Vec<_>>());
        }
    }
}
