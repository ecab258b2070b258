//! Temporary files without names.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};

/// A file without a name, in the folder for temporary files (`$TMPDIR`), that is gone with the
/// value. Its errors name the folder, which the user may not know of.
///
/// ```
/// use std::io::{Read as _, Seek as _, Write as _};
///
/// let mut file = talaria_disk::TemporaryFile::new()?;
/// file.write_all(b"a note")?;
/// file.rewind()?;
/// assert_eq!(std::io::read_to_string(&mut file)?, "a note");
/// # Ok::<_, std::io::Error>(())
/// ```
#[derive(Debug)]
pub struct TemporaryFile(File);

impl TemporaryFile {
    /// Makes a file. Nobody else can open it.
    ///
    /// # Errors
    ///
    /// Those of the folder.
    pub fn new() -> io::Result<Self> {
        tempfile::tempfile().map(Self).map_err(|error| named(&error))
    }
}

fn named(error: &io::Error) -> io::Error {
    let folder = std::env::temp_dir();
    let text = format!("the temporary file in {} (see $TMPDIR): {error}", folder.display());
    io::Error::new(error.kind(), text)
}

impl Read for TemporaryFile {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        self.0.read(buf).map_err(|error| named(&error))
    }
}

impl Write for TemporaryFile {
    fn write(&mut self, data: &[u8]) -> io::Result<usize> {
        self.0.write(data).map_err(|error| named(&error))
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Seek for TemporaryFile {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        self.0.seek(to).map_err(|error| named(&error))
    }
}
