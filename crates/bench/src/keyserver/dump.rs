//! The dump that everything begins with, and certificates that are in none.

use std::path::{Path, PathBuf};

use talaria_cert::Cert;

use super::figures::float;
use crate::error::BenchError;
use crate::lookups::{self, Lookup};
use crate::measure;
use talaria_corpus::{CorpusProfile, Generate, certs, generate_files};

/// Certificates in one file, some more than keyservers write into one.
const FILE_CERTS: u64 = 10_000;

/// Certificates that are dumped into files; a smaller dump is the beginning of a larger one.
pub(super) struct Dump {
    profile: CorpusProfile,
    /// The number of certificates up to and with each group of files.
    files: Vec<(u64, Vec<PathBuf>)>,
}

impl Dump {
    /// Writes dumps of all these sizes into `folder`.
    pub(super) fn write(
        profile: &CorpusProfile,
        counts: &[u64],
        folder: &Path,
    ) -> Result<Self, BenchError> {
        let mut counts = counts.to_vec();
        counts.sort_unstable();
        counts.dedup();
        let mut files = Vec::new();
        let mut first = 0;
        for end in counts {
            let count = end - first;
            let set = Generate { first, count, profile: profile.clone(), ..Generate::default() };
            let prefix = folder.join(format!("dump-{end}"));
            let written = generate_files(&set, &prefix, count.div_ceil(FILE_CERTS));
            files.push((end, written.map_err(BenchError::io("write", &prefix))?));
            first = end;
        }
        Ok(Self { profile: profile.clone(), files })
    }

    /// The files of the dump of `count` certificates.
    pub(super) fn files(&self, count: u64) -> Vec<&Path> {
        let groups = self.files.iter().take_while(|(end, _)| *end <= count);
        groups.flat_map(|(_, files)| files).map(PathBuf::as_path).collect()
    }

    /// Bytes of the dump of `count` certificates.
    pub(super) fn bytes(&self, count: u64) -> Result<f64, BenchError> {
        self.files(count).into_iter().map(file_bytes).sum()
    }

    /// `count` certificates that are in no dump, from number `from` of these on.
    pub(super) fn others(&self, from: u64, count: u64) -> Vec<Cert> {
        let end = self.files.last().map_or(0, |(end, _)| *end);
        let profile = self.profile.clone();
        certs(&Generate { first: end + from, count, profile, ..Generate::default() })
    }

    /// Lookups for up to `wanted` certificates from all parts of the dump of `count`.
    pub(super) fn lookups(
        &self,
        count: u64,
        wanted: u64,
    ) -> Result<Vec<(Cert, Vec<Lookup>)>, BenchError> {
        let step = usize::try_from((count / wanted.max(1)).max(1)).unwrap_or(1);
        let mut all = Vec::new();
        for file in self.files(count) {
            let certs = lookups::read(file, None)?;
            let some = certs.into_iter().step_by(step);
            all.extend(some.filter_map(|cert| lookups::of(&cert).map(|lookups| (cert, lookups))));
        }
        if all.is_empty() {
            return Err(BenchError::Empty { path: "dump".into() });
        }
        // In an order that has nothing to do with that of the dump.
        let len = all.len();
        let mut order: Vec<usize> = (0..len).collect();
        order.sort_by_cached_key(|at| (at * 7_368_787) % 1_000_003);
        let mut all: Vec<Option<_>> = all.into_iter().map(Some).collect();
        Ok(order.into_iter().filter_map(|at| all[at].take()).collect())
    }
}

/// Bytes of a file.
pub(super) fn file_bytes(path: &Path) -> Result<f64, BenchError> {
    let data = std::fs::metadata(path).map_err(BenchError::io("read the size of", path))?;
    Ok(float(data.len()))
}

/// A build by talaria, as a program.
pub(super) fn build(program: &Path, store: &Path, files: &[&Path]) -> measure::ProgramRun {
    let run =
        measure::ProgramRun::new(program).arg("--quiet").arg("--store").arg(store).arg("build");
    run.args(files)
}

/// A build of a store for a keyserver, as `docs/keyserver.md` advises.
pub(super) fn build_for_serving(
    program: &Path,
    store: &Path,
    files: &[&Path],
) -> measure::ProgramRun {
    build(program, store, files).arg("--no-keygrips").arg("--page-size").arg("8")
}
