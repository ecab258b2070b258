//! Dumps, under power cuts.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::atomic::AtomicBool;

use md5::{Digest as _, Md5};
use talaria::{DumpOptions, Extent, Monitor, Signatures, Stores, dump};
use talaria_cert::Verification;
use talaria_cert::hex::Lower;
use talaria_store::Access;
use tempfile::TempDir;

use super::scenario::{Done, Scenario, files_of, text};
use crate::disk::Files;
use crate::model::MAIN;
use crate::operation::cert;
use crate::run::NOW;

/// Dumps of a store that grows. The store is in another folder, which loses nothing.
pub(super) struct Dump {
    folder: TempDir,
}

impl Dump {
    pub(super) fn new() -> Done<Self> {
        Ok(Self { folder: tempfile::tempdir().map_err(text)? })
    }

    /// The certificates in the store at each operation, which are also its changes.
    const COUNTS: [usize; 3] = [4, 7, 9];
    const FOLDER: &str = "dump/";
    const STATE: &str = "talaria-dump.txt";
    const METADATA: &str = "metadata-sks-dump.txt";

    fn stores(&self, access: Access) -> Done<Stores> {
        Stores::open(&[self.folder.path().join(MAIN)], access, NOW).map_err(text)
    }

    fn extent(number: usize) -> Extent {
        if number == 1 { Extent::Increment } else { Extent::Whole }
    }

    fn dump(&self, root: &Path, extent: Extent, per_file: usize) -> Done {
        let mut options = DumpOptions::new(root.join(Self::FOLDER), NOW);
        options.extent = extent;
        options.per_file = per_file;
        options.signatures = Signatures::All;
        let stop = AtomicBool::new(false);
        let monitor = &mut Monitor { report: &mut |_| {}, stop: &stop };
        dump(&self.stores(Access::Read)?, &options, monitor).map(drop).map_err(text)
    }

    /// The files of the dump, by name.
    fn files(root: &Path) -> Done<Files> {
        let files = files_of(root)?.into_iter();
        let name = |name: String| name.strip_prefix(Self::FOLDER).map(str::to_owned);
        let named = files.map(|(path, content)| {
            name(path.clone()).map(|name| (name, content)).ok_or(format!("{path} is there"))
        });
        named.collect()
    }

    /// The position where the dump ends: the changes that it has.
    fn position(files: &Files) -> Done<Option<usize>> {
        let Some(state) = files.get(Self::STATE) else { return Ok(None) };
        let state = String::from_utf8_lossy(state);
        let number = state.trim().rsplit(':').next().and_then(|number| number.parse().ok());
        number.map(Some).ok_or(format!("the position is {state:?}"))
    }
}

impl Scenario for Dump {
    fn operations(&self) -> usize {
        Self::COUNTS.len()
    }

    fn operate(&mut self, root: &Path, number: usize) -> Done {
        let certs = (0..Self::COUNTS[number]).map(|number| cert(number).clone()).collect();
        let mut stores = self.stores(Access::Create)?;
        let store = stores.writable().map_err(text)?;
        store.ingest(certs, Verification::Full, NOW.into()).map_err(text)?;
        drop(stores);
        self.dump(root, Self::extent(number), [2, 2, 4][number])
    }

    fn look(&self, root: &Path, done: usize, is_running: bool) -> Done {
        let files = Self::files(root)?;
        let position = Self::position(&files)?;
        let before = done.checked_sub(1).map(|done| Self::COUNTS[done]);
        // After a fault, the same operation may be done a second time.
        let running = Self::COUNTS.get(done).filter(|_| is_running);
        let may_be_replaced = running.is_some_and(|running| {
            position == Some(*running) || position.is_none() && Self::extent(done) == Extent::Whole
        });
        if position != before && !may_be_replaced {
            return Err(format!("the dump ends at {position:?} instead of {before:?}"));
        }
        let mut found = BTreeSet::new();
        let is_keyring = |(name, _): &(&String, &Vec<u8>)| {
            Path::new(name.as_str()).extension().is_some_and(|end| end == "pgp")
        };
        for (name, content) in files.iter().filter(is_keyring) {
            let mut rest = &content[..];
            while !rest.is_empty() {
                let known = (0..Self::COUNTS[2]).find(|&at| rest.starts_with(cert(at).as_bytes()));
                let known = known.ok_or_else(|| format!("{name} is incomplete"))?;
                rest = &rest[cert(known).as_bytes().len()..];
                found.insert(known);
            }
        }
        let Some(position) = position else { return Ok(()) };
        if let Some(lost) = (0..position).find(|at| !found.contains(at)) {
            return Err(format!("the dump ends at {position}, but has no certificate {lost}"));
        }
        let metadata = files.get(Self::METADATA).ok_or("no metadata")?;
        let metadata = String::from_utf8_lossy(metadata);
        let listed: BTreeMap<&str, &str> = metadata
            .lines()
            .filter_map(|line| line.split_once("  "))
            .map(|(a, b)| (b, a))
            .collect();
        for (name, digest) in &listed {
            let content = files.get(*name).ok_or_else(|| format!("{name} is missing"))?;
            let actual = Lower(&Md5::digest(content)).to_string();
            if actual != **digest {
                return Err(format!("{name} has another digest than the metadata say"));
            }
        }
        let mut expected: BTreeSet<&str> = listed.into_keys().collect();
        expected.extend([Self::STATE, Self::METADATA]);
        if !is_running && !expected.iter().copied().eq(files.keys().map(String::as_str)) {
            return Err(format!("the files are {:?} instead of {expected:?}", files.keys()));
        }
        Ok(())
    }

    fn go_on(&self, root: &Path) -> Done {
        let is_there = Self::position(&Self::files(root)?)?.is_some();
        self.dump(root, if is_there { Extent::Increment } else { Extent::Whole }, 2)?;
        let position = Self::position(&Self::files(root)?)?;
        if position != Some(Self::COUNTS[2]) {
            return Err(format!("the dump ends at {position:?}"));
        }
        // Files of an increment that was cut off can be left.
        self.look(root, Self::COUNTS.len() - 1, true)
    }
}
