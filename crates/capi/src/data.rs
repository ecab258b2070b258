//! Bytes that come from C, and bytes that go there.

use std::mem::{ManuallyDrop, MaybeUninit};
use std::slice;

use talaria::message::MessageError;
use talaria::message::openpgp::Fingerprint;
use talaria::{Error, embed};

use crate::call::give_back;

/// Bytes that belong to the caller.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct talaria_bytes {
    /// Pointer to the first byte; may be null if there are none.
    pub data: *const u8,
    /// Number of bytes.
    pub len: usize,
}

/// Bytes returned by the library. They belong to the caller, who frees them with
/// talaria_buffer_free and does not change the fields.
#[repr(C)]
#[derive(Debug)]
pub struct talaria_buffer {
    /// Pointer to the first byte; never null, also if there are none.
    pub data: *mut u8,
    /// Number of bytes.
    pub len: usize,
    /// Capacity in bytes.
    pub capacity: usize,
}

impl From<Vec<u8>> for talaria_buffer {
    fn from(bytes: Vec<u8>) -> Self {
        let mut bytes = ManuallyDrop::new(bytes);
        Self { data: bytes.as_mut_ptr(), len: bytes.len(), capacity: bytes.capacity() }
    }
}

/// Frees the bytes and empties the buffer. A buffer with a null pointer, and null itself, are
/// ignored.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn talaria_buffer_free(buffer: Option<&mut talaria_buffer>) {
    let Some(buffer) = buffer.filter(|buffer| !buffer.data.is_null()) else { return };
    // SAFETY: the fields are those of a vector, from `talaria_buffer::from`; the null pointer left
    // behind says that they are used up.
    give_back(unsafe { Vec::from_raw_parts(buffer.data, buffer.len, buffer.capacity) });
    *buffer = talaria_buffer { data: std::ptr::null_mut(), len: 0, capacity: 0 };
}

/// An array of the caller.
///
/// # Safety
///
/// `data` is good for reading `len` values for as long as the result is used, or null.
pub(crate) unsafe fn array<'a, T>(data: *const T, len: usize) -> Result<&'a [T], Error> {
    if len == 0 {
        return Ok(&[]);
    }
    check(data, len)?;
    // SAFETY: as the caller promises; the length was checked.
    Ok(unsafe { slice::from_raw_parts(data, len) })
}

/// An output array of the caller.
///
/// # Safety
///
/// `data` is good for writing `len` values for as long as the result is used, or null, and nobody
/// else uses them.
pub(crate) unsafe fn places<'a, T>(
    data: *mut T,
    len: usize,
) -> Result<&'a mut [MaybeUninit<T>], Error> {
    if len == 0 {
        return Ok(&mut []);
    }
    check(data, len)?;
    // SAFETY: as the caller promises; the length was checked.
    Ok(unsafe { slice::from_raw_parts_mut(data.cast(), len) })
}

fn check<T>(data: *const T, len: usize) -> Result<(), Error> {
    let usage = |what| Err(Error::Message(MessageError::Usage(what)));
    if data.is_null() {
        return usage("a pointer is null");
    }
    if len.checked_mul(size_of::<T>()).is_none_or(|bytes| isize::try_from(bytes).is_err()) {
        return usage("a length is larger than memory");
    }
    Ok(())
}

impl talaria_bytes {
    /// # Safety
    ///
    /// As [`array`].
    pub(crate) unsafe fn get<'a>(self) -> Result<&'a [u8], Error> {
        // SAFETY: as the caller promises.
        unsafe { array(self.data, self.len) }
    }
}

/// An array of bytes of the caller.
///
/// # Safety
///
/// As [`array`], for the array and for all that is in it.
pub(crate) unsafe fn arrays<'a>(
    items: *const talaria_bytes,
    count: usize,
) -> Result<Vec<&'a [u8]>, Error> {
    // SAFETY: as the caller promises.
    unsafe { array(items, count)?.iter().map(|bytes| bytes.get()).collect() }
}

/// Fingerprints from the caller, in hexadecimal; `None` for a null pointer.
///
/// # Safety
///
/// As [`arrays`].
pub(crate) unsafe fn fingerprints(
    items: *const talaria_bytes,
    count: usize,
) -> Result<Option<Vec<Fingerprint>>, Error> {
    // SAFETY: as the caller promises.
    let texts = unsafe { arrays(items, count)? };
    let texts: Vec<_> = texts.into_iter().map(String::from_utf8_lossy).collect();
    // An empty array is a mistake, which accepts nothing.
    if items.is_null() { Ok(None) } else { embed::fingerprints(&texts).map(Some) }
}
