//! Temporary files without a name: they are gone when the process ends, however it ends.

use std::io::{self, Write as _};
use std::os::unix::fs::FileExt as _;
use std::path::PathBuf;

use talaria_disk::WrittenFile;

use crate::error::{BackupError, Result};
use crate::table::{Scratch, ScratchFile};

/// A folder for temporary files.
#[derive(Clone, Debug)]
pub struct ScratchFolder(PathBuf);

impl ScratchFolder {
    /// Temporary files in `folder`, which must exist.
    #[must_use]
    pub fn new(folder: impl Into<PathBuf>) -> Self {
        Self(folder.into())
    }

    fn failed(&self) -> impl Fn(io::Error) -> BackupError {
        let path = format!("a temporary file in {}", self.0.display());
        move |source| BackupError::File { path: path.clone(), source }
    }
}

impl Scratch for ScratchFolder {
    fn create(&self) -> Result<Box<dyn ScratchFile>> {
        let file = WrittenFile::temporary(&self.0).map_err(self.failed())?;
        Ok(Box::new(Unnamed { file, folder: self.clone() }))
    }
}

struct Unnamed {
    file: WrittenFile,
    folder: ScratchFolder,
}

impl ScratchFile for Unnamed {
    fn append(&mut self, bytes: &[u8]) -> Result<()> {
        self.file.write_all(bytes).map_err(self.folder.failed())
    }

    fn read_at(&self, offset: u64, bytes: &mut [u8]) -> Result<()> {
        self.file.file().read_exact_at(bytes, offset).map_err(self.folder.failed())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_temporary_file_gives_back_what_was_appended_and_has_no_name() {
        let folder = tempfile::tempdir().unwrap();
        let mut file = ScratchFolder::new(folder.path()).create().unwrap();
        file.append(b"first").unwrap();
        let mut bytes = [0; 3];
        file.read_at(2, &mut bytes).unwrap();
        assert_eq!(bytes, *b"rst");
        file.append(b" second").unwrap();
        let mut bytes = [0; 8];
        file.read_at(4, &mut bytes).unwrap();
        assert_eq!(bytes, *b"t second");
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
        let past_end = file.read_at(5, &mut bytes).unwrap_err().to_string();
        assert!(past_end.contains(&folder.path().display().to_string()), "{past_end}");
        let missing = ScratchFolder::new(folder.path().join("none")).create();
        assert!(missing.is_err_and(|error| error.to_string().contains("/none")));
    }
}
