//! Gives a build its identity, so that the programs know that they belong together.

use std::collections::BTreeSet;
use std::collections::hash_map::DefaultHasher;
use std::fs;
use std::hash::{Hash as _, Hasher as _};
use std::path::{Path, PathBuf};

/// What decides how the program is built, beside its source.
const VARIABLES: [&str; 4] = ["PROFILE", "TARGET", "OPT_LEVEL", "CARGO_PKG_VERSION"];

/// Crates that are no part of the programs: a change of theirs makes nothing new.
const OTHERS: [&str; 6] = ["capi", "fuzz", "needs", "python", "sim", "sop"];

fn main() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let crates = root.parent().filter(|crates| crates.join("programs").is_dir());
    let base = crates.and_then(Path::parent).unwrap_or(root);
    let mut files = BTreeSet::new();
    for part in crates.map_or_else(|| vec![root.to_owned()], folders) {
        println!("cargo::rerun-if-changed={}", part.join("src").display());
        collect(&part.join("src"), &mut files);
    }
    let lock = base.join("Cargo.lock");
    if lock.exists() {
        println!("cargo::rerun-if-changed={}", lock.display());
        files.insert(lock);
    }
    let mut hasher = DefaultHasher::new();
    for name in VARIABLES {
        std::env::var(name).ok().hash(&mut hasher);
    }
    for file in files {
        // Equal sources in another folder have the same identity, so that a build can be repeated.
        file.strip_prefix(base).unwrap_or(&file).hash(&mut hasher);
        fs::read(&file).ok().hash(&mut hasher);
    }
    println!("cargo::rustc-env=TALARIA_BUILD={:016x}", hasher.finish());
}

fn folders(parent: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(parent).into_iter().flatten().flatten();
    let is_part = |path: &Path| !OTHERS.iter().any(|other| path.ends_with(other));
    let paths = entries.map(|entry| entry.path());
    paths.filter(|path| path.join("src").is_dir() && is_part(path)).collect()
}

fn collect(folder: &Path, files: &mut BTreeSet<PathBuf>) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            collect(&path, files);
        } else if path.extension().is_some_and(|end| end == "rs") {
            files.insert(path);
        }
    }
}
