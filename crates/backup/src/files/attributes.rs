//! Extended attributes, access control lists among them.

use std::ffi::{CStr, CString};
use std::io;
use std::os::fd::{AsFd, AsRawFd as _};

use rustix::fs::{XattrFlags, lgetxattr, llistxattr, lsetxattr};
use rustix::io::Errno;

/// Names and values, sorted by name.
pub(super) type Attributes = Vec<(Vec<u8>, Vec<u8>)>;

/// All attributes of a file have at most this many bytes: its entry has to fit in a line.
const ATTRIBUTES_BYTES_MAX: usize = 2 << 20;

/// The path by which the kernel reaches a name in an open folder. Linux before 6.13 has no call for
/// attributes that takes both.
fn path_of(folder: impl AsFd, name: &CStr) -> CString {
    let mut path = format!("/proc/self/fd/{}/", folder.as_fd().as_raw_fd()).into_bytes();
    path.extend_from_slice(name.to_bytes());
    CString::new(path).expect("a name has no NUL")
}

/// The attributes of a name in a folder. Symbolic links are not followed.
pub(super) fn read(folder: impl AsFd, name: &CStr) -> io::Result<Attributes> {
    let path = path_of(folder, name);
    let list = match grown(|buffer| llistxattr(&path, buffer)) {
        Err(Errno::OPNOTSUPP) => return Ok(Vec::new()),
        list => list?,
    };
    let mut attributes = Vec::new();
    let mut bytes = 0;
    for name in list.split_inclusive(|byte| *byte == 0) {
        let name = CStr::from_bytes_with_nul(name).map_err(|_| Errno::INVAL)?;
        match grown(|buffer| lgetxattr(&path, name, buffer)) {
            Ok(value) => {
                bytes += name.count_bytes() + value.len();
                attributes.push((name.to_bytes().to_vec(), value));
            }
            // It was removed since.
            Err(Errno::NODATA) => {}
            Err(error) => return Err(error.into()),
        }
        if bytes > ATTRIBUTES_BYTES_MAX {
            let why = "the extended attributes have more than 2 MiB";
            return Err(io::Error::new(io::ErrorKind::InvalidData, why));
        }
    }
    attributes.sort_unstable();
    Ok(attributes)
}

/// Sets an attribute of a name in a folder. A symbolic link is not followed.
pub(super) fn set(
    folder: impl AsFd,
    name: &CStr,
    attribute: &[u8],
    value: &[u8],
) -> io::Result<()> {
    Ok(lsetxattr(path_of(folder, name), attribute, value, XattrFlags::empty())?)
}

/// Calls with larger and larger buffers until the result fits.
fn grown(
    mut call: impl FnMut(&mut [u8]) -> rustix::io::Result<usize>,
) -> rustix::io::Result<Vec<u8>> {
    let mut buffer = [0; 512];
    match call(&mut buffer) {
        Ok(length) => return Ok(buffer[..length].to_vec()),
        Err(Errno::RANGE) => {}
        Err(error) => return Err(error),
    }
    // The kernel allows 64 KiB for a list and for a value.
    let mut buffer = vec![0; 65_536];
    let length = call(&mut buffer)?;
    buffer.truncate(length);
    Ok(buffer)
}
