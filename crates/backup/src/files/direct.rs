//! Writing large objects past the page cache. The kernel does not copy them, and they do not push
//! out the pages of other programs.

use std::io::{self, Write};
use std::os::fd::AsFd;

use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};

use crate::pages::PAGE;

/// The length in bytes from which on this pays.
const BYTES_MIN: usize = 1 << 20;

/// Writes the start of `bytes` to an empty file past the page cache, if they are large and at the
/// start of a page. Returns how many bytes are written: 0 where the file system cannot do it, and
/// never more than the full pages. The caller writes the rest, and syncs.
///
/// # Errors
///
/// Errors of writing.
pub(super) fn write_start<F: AsFd + Write>(file: &mut F, bytes: &[u8]) -> io::Result<usize> {
    let pages = bytes.len() - bytes.len() % PAGE;
    if bytes.len() < BYTES_MIN || bytes.as_ptr().align_offset(PAGE) != 0 {
        return Ok(0);
    }
    let flags = fcntl_getfl(&*file)?;
    if fcntl_setfl(&*file, flags | OFlags::DIRECT).is_err() {
        return Ok(0);
    }
    let mut written = 0;
    let result = loop {
        // After a write that ends within a page the rest is not for this.
        if written == pages || !written.is_multiple_of(PAGE) {
            break Ok(written);
        }
        match file.write(&bytes[written..pages]) {
            Ok(0) => break Ok(written),
            Ok(n) => written += n,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            // Other sizes of blocks.
            Err(error) if error.kind() == io::ErrorKind::InvalidInput => break Ok(written),
            Err(error) => break Err(error),
        }
    };
    fcntl_setfl(&*file, flags)?;
    result
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pages::PageBuffer;

    #[test]
    fn direct_writes_read_back_equal() {
        for place in [std::env::temp_dir(), "/dev/shm".into(), env!("CARGO_MANIFEST_DIR").into()] {
            for bytes in [0, 100, BYTES_MIN - 1, BYTES_MIN, BYTES_MIN + 1, 3 * BYTES_MIN + PAGE + 7]
            {
                let Ok(mut file) = tempfile::NamedTempFile::new_in(&place) else { continue };
                let mut buffer = PageBuffer::default();
                let noise = crate::testing::noise(bytes as u64, bytes);
                buffer.room(bytes).copy_from_slice(&noise);
                let content = buffer.content(bytes);
                let written = write_start(file.as_file_mut(), content).unwrap();
                assert!(written <= bytes && written.is_multiple_of(PAGE), "{written} of {bytes}");
                file.write_all(&content[written..]).unwrap();
                assert_eq!(std::fs::read(file.path()).unwrap(), noise);
                // Bytes that are at no start of a page go the usual way.
                if bytes > 0 {
                    let mut other = tempfile::tempfile_in(&place).unwrap();
                    assert_eq!(write_start(&mut other, &content[1..]).unwrap(), 0);
                }
            }
        }
    }
}
