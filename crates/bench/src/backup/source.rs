//! The files to back up, and the comparison after a restore.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::Path;
use std::process;

use crate::error::BenchError;

/// Files in a folder of the many files.
const FILES_PER_FOLDER: usize = 256;

/// Random bytes, fast and not for secrets.
pub(super) struct Noise(pub(super) u64);

impl Noise {
    pub(super) fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    pub(super) fn fill(&mut self, out: &mut [u8]) {
        for chunk in out.chunks_mut(8) {
            let bytes = self.next().to_le_bytes();
            chunk.copy_from_slice(&bytes[..chunk.len()]);
        }
    }
}

pub(crate) fn many_files(folder: &Path, files: usize) -> io::Result<()> {
    let mut noise = Noise(u64::from(process::id()) + 1);
    for number in 0..files {
        let folder = folder.join((number / FILES_PER_FOLDER).to_string());
        if number % FILES_PER_FOLDER == 0 {
            fs::create_dir_all(&folder)?;
        }
        fs::write(folder.join(number.to_string()), &noise.next().to_le_bytes()[3..4])?;
    }
    Ok(())
}

pub(super) fn one_file(folder: &Path, bytes: u64) -> io::Result<()> {
    fs::create_dir_all(folder)?;
    let mut file = File::create(folder.join("file"))?;
    let (mut noise, mut buffer) = (Noise(u64::from(process::id()) + 1), vec![0; 1 << 20]);
    let mut left = bytes;
    while left > 0 {
        noise.fill(&mut buffer);
        let length = buffer.len().min(usize::try_from(left).unwrap_or(usize::MAX));
        file.write_all(&buffer[..length])?;
        left -= length as u64;
    }
    Ok(())
}

/// The bytes of all files in a folder.
pub(super) fn bytes(folder: &Path) -> io::Result<u64> {
    let mut sum = 0;
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let meta = entry.metadata()?;
        sum += if meta.is_dir() { bytes(&entry.path())? } else { meta.len() };
    }
    Ok(sum)
}

/// The number of files in a folder, and their bytes.
pub(super) fn counts(folder: &Path) -> io::Result<(u64, u64)> {
    let (mut files, mut bytes) = (0, 0);
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let kind = entry.file_type()?;
        let (more, size) = if kind.is_dir() {
            counts(&entry.path())?
        } else if kind.is_file() {
            (1, entry.metadata()?.len())
        } else {
            (0, 0)
        };
        (files, bytes) = (files + more, bytes + size);
    }
    Ok((files, bytes))
}

/// Refuses a restore that is not what was backed up. Some programs restore the whole path below the
/// target.
pub(super) fn check_restored(
    source: &Path,
    target: &Path,
    program: &str,
) -> Result<(), BenchError> {
    let below = target.join(source.strip_prefix("/").unwrap_or(source));
    let restored = if below.is_dir() { below } else { target.to_owned() };
    match same(source, &restored) {
        Ok(true) => Ok(()),
        Ok(false) => Err(BenchError::Restored { program: program.to_owned() }),
        Err(error) => Err(BenchError::io("compare", &restored)(error)),
    }
}

/// Whether two folders have the same files with the same content.
fn same(a: &Path, b: &Path) -> io::Result<bool> {
    let names = |folder: &Path| -> io::Result<Vec<OsString>> {
        let mut names: Vec<_> =
            fs::read_dir(folder)?.map(|entry| Ok(entry?.file_name())).collect::<io::Result<_>>()?;
        names.sort();
        Ok(names)
    };
    let all = names(a)?;
    if all != names(b)? {
        return Ok(false);
    }
    for name in all {
        let (a, b) = (a.join(&name), b.join(&name));
        let is_same = if a.is_symlink() {
            b.is_symlink() && fs::read_link(&a)? == fs::read_link(&b)?
        } else if a.is_dir() {
            same(&a, &b)?
        } else {
            same_file(&a, &b)?
        };
        if !is_same {
            return Ok(false);
        }
    }
    Ok(true)
}

fn same_file(a: &Path, b: &Path) -> io::Result<bool> {
    const STEP: u64 = 1 << 20;
    let (mut a, mut b) = (File::open(a)?, File::open(b)?);
    let (mut left, mut right) = (Vec::new(), Vec::new());
    loop {
        left.clear();
        right.clear();
        Read::by_ref(&mut a).take(STEP).read_to_end(&mut left)?;
        Read::by_ref(&mut b).take(STEP).read_to_end(&mut right)?;
        if left != right || left.is_empty() {
            return Ok(left == right);
        }
    }
}
