//! Memory of large repositories. A repository is filled with indexes of chunks that nobody stored,
//! and with packs that have a length and no content; then a file is backed up and restored.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use talaria_backup::{
    EpochProfile, Folder, Id, IndexedPack, InitOptions, Kind, ObjectHash, PackedChunk, Repository,
};
use talaria_message::make::{GenerateOptions, Protection, generate};
use talaria_message::openpgp::serialize::MarshalInto as _;
use talaria_message::{Rules, signing_key};

use super::options::BackupOptions;
use super::source::{Noise, check_restored, one_file};
use crate::error::BenchError;
use crate::measure::{Cost, ProgramRun};
use crate::table::{Cell, Table};

/// Chunks in a pack, and packs in an index: what a backup of large files writes.
const PACK_CHUNKS: u64 = 16;
const INDEX_PACKS: u64 = 256;
/// Bytes of a chunk on average, and of the file that is backed up.
const CHUNK_BYTES: u32 = 1 << 20;
const FILE_BYTES: u64 = 100_000_000;

/// The limit of the memory that a process may write to, in bytes: with its stacks, and with what it
/// never touches.
const LIMIT: u64 = 256 << 20;

pub(super) fn run(options: &BackupOptions, folder: &Path) -> Result<Table, BenchError> {
    let source = folder.join("file");
    one_file(&source, FILE_BYTES).map_err(BenchError::io("write", &source))?;
    let columns = [
        "chunks",
        "first run peak MB",
        "first run CPU s",
        "restore peak MB",
        "restore CPU s",
        "check peak MB",
        "check CPU s",
    ];
    let mut table = Table::new("Memory of a backup by the size of the repository", &columns);
    table.note(format!(
        "A file of {FILE_BYTES} bytes is backed up to and restored from a repository with so many chunks of {CHUNK_BYTES} bytes; then the \
         repository is checked without reading packs. Peak of anonymous memory; every process runs with a limit of {} MiB of memory that \
         it can write to (`prlimit --data`).",
        LIMIT >> 20
    ));
    for &chunks in &options.chunks {
        let work = folder.join(format!("chunks-{chunks}"));
        fs::create_dir_all(&work).map_err(BenchError::io("make", &work))?;
        let key = fill(&work, chunks)?;
        let talaria = |command| limited(options, &work, &key, command);
        let first = talaria("create").arg(&source).measure()?;
        let target = work.join("restored");
        let restore = talaria("restore")
            .args(["latest", "--target"])
            .arg(&target)
            .arg("--path")
            .arg(&source)
            .measure()?;
        check_restored(&source, &target, "talaria")?;
        let check = talaria("check").measure()?;
        let mut row = vec![Cell::from(chunks)];
        row.extend([first, restore, check].iter().flat_map(|cost: &Cost| {
            [Cell::from(cost.peak_anonymous_bytes / 1_000_000), Cell::from(cost.cpu_s())]
        }));
        table.push(row);
        fs::remove_dir_all(&work).map_err(BenchError::io("remove", &work))?;
    }
    Ok(table)
}

/// talaria with a limit on its memory.
fn limited(options: &BackupOptions, work: &Path, key: &Path, command: &str) -> ProgramRun {
    let setting = |name: &str, value: &Path| format!("{name}={}", value.display());
    ProgramRun::new("prlimit")
        .arg(format!("--data={LIMIT}"))
        .arg("env")
        .arg(setting("HOME", work))
        .arg("TALARIA_CONFIG=")
        .arg(setting("XDG_DATA_HOME", &work.join("data")))
        .arg(&options.program)
        .args(["-q", "backup", "--repo"])
        .arg(work.join("repository"))
        .args([command, "--key-file"])
        .arg(key)
}

/// Makes a repository with so many chunks, and returns the file with the owner's key.
fn fill(work: &Path, chunks: u64) -> Result<PathBuf, BenchError> {
    let failed = |what: &str| {
        let what = what.to_owned();
        move |error: &dyn std::fmt::Display| BenchError::Prepare { what, why: error.to_string() }
    };
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    let now = now.map_or(0, |now| u32::try_from(now.as_secs()).unwrap_or(u32::MAX));
    let mut person = GenerateOptions::default();
    person.user_ids = vec!["Backup <backup@example.org>".into()];
    let owner = generate(&person, &Protection::Unprotected, now - 60);
    let owner = owner.map_err(|error| failed("a key")(&error))?.cert;
    let key = work.join("owner.pgp");
    let secret = owner.as_tsk().to_vec().map_err(|error| failed("a key")(&error))?;
    fs::write(&key, secret).map_err(BenchError::io("write", &key))?;
    let signer = signing_key(&owner, Rules::default(), now, &mut |_, _| None);
    let mut signer = signer.map_err(|error| failed("a key")(&error))?;
    let root = work.join("repository");
    let init = InitOptions {
        owner: &owner,
        readers: std::slice::from_ref(&owner),
        profile: EpochProfile::Rfc9580,
        signed: true,
    };
    let repository = Repository::init(Arc::new(Folder::new(&root)), &init, &mut signer, now);
    let repository = repository.map_err(|error| failed("a repository")(&error))?;
    let mut noise = Noise(chunks | 1);
    let mut random = || {
        let mut bytes = [0; 32];
        noise.fill(&mut bytes);
        bytes
    };
    let bytes = PACK_CHUNKS * u64::from(CHUNK_BYTES + 512) + 8192;
    let mut left = chunks;
    while left > 0 {
        let mut packs = Vec::new();
        while left > 0 && packs.len() < usize::try_from(INDEX_PACKS).unwrap_or(usize::MAX) {
            let mut count = 0;
            let chunks = std::iter::from_fn(|| {
                (count < PACK_CHUNKS.min(left)).then(|| {
                    count += 1;
                    PackedChunk {
                        kind: Kind::Data,
                        id: Id(random()),
                        offset: 512 + (count - 1) * u64::from(CHUNK_BYTES + 512),
                        stored: CHUNK_BYTES,
                        plain: CHUNK_BYTES,
                        compressed: false,
                    }
                })
            });
            let chunks: Vec<PackedChunk> = chunks.collect();
            left -= chunks.len() as u64;
            let hash = ObjectHash(random());
            let name = hash.to_string();
            let path = root.join("packs").join(&name[..2]);
            fs::create_dir_all(&path).map_err(BenchError::io("make", &path))?;
            let path = path.join(name);
            let pack = File::create(&path).and_then(|pack| pack.set_len(bytes));
            pack.map_err(BenchError::io("write", &path))?;
            packs.push(IndexedPack { hash, bytes, chunks });
        }
        let written = repository.write_index(&packs, Some(&mut signer), now);
        written.map_err(|error| failed("an index")(&error))?;
    }
    Ok(key)
}
