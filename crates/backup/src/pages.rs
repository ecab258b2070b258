//! A buffer whose content is at the start of a page of memory, so that a storage can write it
//! without a copy.

/// The length of a page in bytes, for memory and for disks.
pub(crate) const PAGE: usize = 4096;

/// A buffer that is used again and again. It is filled with zeros once.
#[derive(Default)]
pub(crate) struct PageBuffer {
    bytes: Vec<u8>,
    /// Bytes before the content.
    before: usize,
}

impl PageBuffer {
    /// The start of the buffer, with room for `bytes` bytes of content. Its old content is still
    /// there.
    pub(crate) fn room(&mut self, bytes: usize) -> &mut [u8] {
        if self.bytes.len() < bytes + PAGE {
            self.bytes = vec![0; bytes + PAGE];
            self.before = self.bytes.as_ptr().align_offset(PAGE).min(PAGE);
        }
        &mut self.bytes[self.before..][..bytes]
    }

    /// The first `bytes` bytes of the content.
    pub(crate) fn content(&self, bytes: usize) -> &[u8] {
        &self.bytes[self.before..][..bytes]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn content_is_at_the_start_of_a_page() {
        let mut buffer = PageBuffer::default();
        for (n, bytes) in (0..).zip([10, 5000, 100, 1 << 20]) {
            buffer.room(bytes).fill(n);
            assert_eq!(buffer.content(bytes), vec![n; bytes]);
            assert_eq!(buffer.content(bytes).as_ptr().align_offset(PAGE), 0);
        }
    }
}
