//! Every target on its seeds, on changed seeds, and on the inputs that once were a finding. Fuzzing
//! with coverage is `fuzz/run`.

use std::fs;
use std::panic;
use std::path::{Path, PathBuf};

use rayon::prelude::*;
use talaria_fuzz::{seeds, targets};
use talaria_sim::Numbers;

/// Changed copies of each seed.
const CHANGED: usize = 10;

/// The simulator, which has the process for itself. `talaria-sim` runs it on other inputs.
const ALONE: &str = "power";

/// Bytes of an input, as `fuzz/run` has it.
const LENGTH_MAX: usize = 16_384;

/// A target, and an input of it.
type Input = (&'static str, fn(&[u8]), Vec<u8>);

fn files(folder: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files
}

/// An input with some bytes flipped, removed or repeated.
fn changed(bytes: &[u8], numbers: &mut Numbers) -> Vec<u8> {
    let mut changed = bytes.to_vec();
    for _ in 0..=numbers.below(4) {
        let at = numbers.below(changed.len());
        let end = (at + numbers.below(9)).min(changed.len());
        match numbers.below(3) {
            0 if !changed.is_empty() => changed[at] ^= 1 << numbers.below(8),
            1 => drop(changed.drain(at..end)),
            _ => {
                let again = changed[at..end].to_vec();
                changed.splice(at..at, again);
            }
        }
    }
    changed
}

#[test]
fn every_target_accepts_its_inputs() {
    // The simulator comes before all other users of SQLite.
    targets::power::run(&[]);
    let corpus = tempfile::tempdir().unwrap();
    seeds::write(corpus.path()).unwrap();
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures");
    let mut inputs: Vec<Input> = Vec::new();
    for (name, run) in targets::ALL {
        let seeds = files(&corpus.path().join(name));
        assert!(!seeds.is_empty(), "{name} has no seeds");
        for (number, file) in seeds.iter().chain(&files(&fixtures.join(name))).enumerate() {
            let bytes = fs::read(file).unwrap();
            let mut numbers = Numbers::new(number as u64);
            for _ in 0..if name == ALONE { 0 } else { CHANGED } {
                let mut changed = changed(&bytes, &mut numbers);
                changed.truncate(LENGTH_MAX);
                inputs.push((name, run, changed));
            }
            inputs.push((name, run, bytes));
        }
    }
    let is_good = |(_, run, bytes): &&Input| panic::catch_unwind(|| run(bytes)).is_ok();
    let (alone, together): (Vec<Input>, Vec<Input>) =
        inputs.into_iter().partition(|(name, ..)| *name == ALONE);
    let failed: Vec<&Input> = together.par_iter().filter(|input| !is_good(input)).collect();
    let failed: Vec<String> = alone
        .iter()
        .filter(|input| !is_good(input))
        .chain(failed)
        .map(|(name, _, bytes)| {
            let file = tempfile::Builder::new().prefix(name).tempfile().unwrap();
            fs::write(file.path(), bytes).unwrap();
            format!("fuzz/run 1 {name}, with the input {}", file.keep().unwrap().1.display())
        })
        .collect();
    let count = alone.len() + together.len();
    assert!(failed.is_empty(), "{} of {count}: {failed:#?}", failed.len());
}
