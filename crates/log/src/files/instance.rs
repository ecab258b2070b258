//! The device instance of a folder: random, and new for a copy of the folder.

use std::fs;
use std::io::{self, Write as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use talaria_cert::sha256;
use talaria_disk::{NewFile, Readers};

use super::error::LogError;

const BYTES: usize = 40;

/// The instance of the folder. A missing file, or one that was copied here, is replaced with a new
/// instance.
pub(super) fn instance(folder: &Path) -> Result<[u8; 16], LogError> {
    let path = folder.join("instance");
    let io = |action| {
        let path = path.clone();
        move |source| LogError::Io { action, path, source }
    };
    match fs::read(&path) {
        Ok(bytes) => {
            let metadata = fs::metadata(&path).map_err(io("read"))?;
            if let Some(known) = bytes.first_chunk::<16>()
                && bytes == sealed(known, &metadata)
            {
                return Ok(*known);
            }
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(io("read")(error)),
    }
    let mut made = [0; 16];
    getrandom::fill(&mut made).map_err(|_| LogError::Random)?;
    // The numbers are those of a new file.
    let write = || {
        let mut file = NewFile::replacing(&path)?;
        let metadata = file.file().metadata()?;
        file.write_all(&sealed(&made, &metadata))?;
        file.keep(Readers::Usual)
    };
    write().map_err(io("write"))?;
    Ok(made)
}

/// The content of the file: the instance, the numbers of the file, and their hash.
fn sealed(instance: &[u8; 16], metadata: &fs::Metadata) -> Vec<u8> {
    let mut out = Vec::with_capacity(BYTES);
    out.extend(instance);
    out.extend(metadata.dev().to_be_bytes());
    out.extend(metadata.ino().to_be_bytes());
    let sum = sha256(&[&out]);
    out.extend(&sum[..8]);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_of_a_folder_gets_another_instance() {
        let (one, two) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let first = instance(one.path()).unwrap();
        assert_eq!(instance(one.path()).unwrap(), first);
        fs::copy(one.path().join("instance"), two.path().join("instance")).unwrap();
        let second = instance(two.path()).unwrap();
        assert_ne!(second, first);
        assert_eq!(instance(two.path()).unwrap(), second);
        // A file that is cut off is no instance.
        fs::write(one.path().join("instance"), &first[..]).unwrap();
        assert_ne!(instance(one.path()).unwrap(), first);
    }
}
