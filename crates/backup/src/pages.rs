//! A buffer whose content is at the start of a page of memory, so that a storage can write it without a copy.

/// The length of a page in octets, for memory and for disks.
pub(crate) const PAGE: usize = 4096;

/// A buffer that is used again and again.
#[derive(Default)]
pub(crate) struct PageBuffer {
    octets: Vec<u8>,
    /// Octets before the content.
    before: usize,
}

impl PageBuffer {
    /// Empties the buffer, for content of at most `bytes` octets that is appended to the result. If it gets longer, it need not
    /// be at the start of a page.
    pub(crate) fn fill(&mut self, bytes: usize) -> &mut Vec<u8> {
        self.octets.clear();
        self.octets.reserve(bytes + PAGE);
        self.before = self.octets.as_ptr().align_offset(PAGE).min(PAGE);
        self.octets.resize(self.before, 0);
        &mut self.octets
    }

    /// What was appended.
    pub(crate) fn content(&self) -> &[u8] {
        &self.octets[self.before..]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn content_is_at_the_start_of_a_page() {
        let mut buffer = PageBuffer::default();
        assert_eq!(buffer.content(), b"");
        for bytes in [10, 5000, 100, 1 << 20] {
            buffer.fill(bytes).extend(std::iter::repeat_n(7, bytes));
            assert_eq!(buffer.content(), vec![7; bytes]);
            assert_eq!(buffer.content().as_ptr().align_offset(PAGE), 0);
        }
    }
}
