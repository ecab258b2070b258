//! Items in frames: the form of an index (`docs/formats/log.md`, Index). A reader holds one frame
//! in memory, and looks at its bytes after their checksum.

use std::io::{self, Read, Write};

use crate::bytes::{Fields, Malformed};
use crate::name::EntryId;
use crate::segment::{FRAME_BYTES_MAX, FRAME_HEADER_BYTES, frame, frame_at};

/// The number of a segment that no log has. The frames of an index are bound to it.
const INDEX: u64 = u64::MAX;
/// The bytes after which a frame ends.
const FRAME_BYTES: usize = 1 << 20;

/// Writes items.
pub(crate) struct Writer<W> {
    out: W,
    log: EntryId,
    frames: u64,
    payload: Vec<u8>,
    failed: io::Result<()>,
}

impl<W: Write> Writer<W> {
    pub(crate) fn new(out: W, log: EntryId) -> Self {
        Self { out, log, frames: 0, payload: Vec::new(), failed: Ok(()) }
    }

    /// Writes an item. An error is kept for [`Self::finish`].
    pub(crate) fn item(&mut self, write: impl FnOnce(&mut Vec<u8>)) {
        write(&mut self.payload);
        if self.payload.len() >= FRAME_BYTES {
            self.flush();
        }
    }

    fn flush(&mut self) {
        if self.failed.is_ok() && !self.payload.is_empty() {
            let frame = frame(self.log, INDEX, self.frames, self.frames, &self.payload);
            self.failed = self.out.write_all(&frame);
            self.frames += 1;
        }
        self.payload.clear();
    }

    /// Writes what is left.
    ///
    /// # Errors
    ///
    /// The first error of the output.
    pub(crate) fn finish(mut self) -> io::Result<()> {
        self.flush();
        self.failed
    }
}

/// Reads items.
pub(crate) struct Reader<R> {
    input: R,
    log: EntryId,
    frames: u64,
    bytes: Vec<u8>,
    at: usize,
}

impl<R: Read> Reader<R> {
    pub(crate) fn new(input: R, log: EntryId) -> Self {
        Self { input, log, frames: 0, bytes: Vec::new(), at: 0 }
    }

    /// Reads an item.
    ///
    /// # Errors
    ///
    /// [`Malformed`] if there is none, or if the frame is not whole; the errors of `read`.
    pub(crate) fn item<T>(
        &mut self,
        read: impl FnOnce(&mut Fields<'_>) -> Result<T, Malformed>,
    ) -> Result<T, Malformed> {
        if self.at == self.bytes.len() {
            self.next_frame()?;
        }
        let mut fields = Fields(&self.bytes[self.at..]);
        let item = read(&mut fields)?;
        self.at = self.bytes.len() - fields.0.len();
        Ok(item)
    }

    /// Reads an item that is a number.
    ///
    /// # Errors
    ///
    /// As [`Self::item`].
    pub(crate) fn count(&mut self) -> Result<u64, Malformed> {
        self.item(|fields| fields.array().map(u64::from_be_bytes))
    }

    fn next_frame(&mut self) -> Result<(), Malformed> {
        let short = |_| Malformed::Short;
        self.bytes.resize(FRAME_HEADER_BYTES, 0);
        self.at = self.bytes.len();
        self.input.read_exact(&mut self.bytes).map_err(short)?;
        let length = self.bytes[4..8].iter().fold(0, |a, &byte| a << 8 | usize::from(byte));
        if length > FRAME_BYTES_MAX {
            return Err(Malformed::Field("length of a frame"));
        }
        self.bytes.resize(FRAME_HEADER_BYTES + length, 0);
        self.input.read_exact(&mut self.bytes[FRAME_HEADER_BYTES..]).map_err(short)?;
        let found = frame_at(&self.bytes, 0, self.log, INDEX);
        let follows = found.is_some_and(|frame| frame.number == self.frames);
        self.frames += 1;
        if follows { Ok(()) } else { Err(Malformed::Field("frame")) }
    }

    /// Ends reading. False if something follows the last item.
    pub(crate) fn finish(mut self) -> bool {
        self.at == self.bytes.len() && matches!(self.input.read(&mut [0]), Ok(0))
    }
}
