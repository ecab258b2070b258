//! A buffer that holds output back until the caller decides to release it.
//!
//! Short content stays in memory. Longer content goes to a file, encrypted with a key that exists
//! only in memory. So content that is never released leaves nothing readable behind, whatever
//! becomes of the file.

use std::collections::VecDeque;
use std::io::{self, Read, Seek, SeekFrom, Write};

use zeroize::Zeroizing;

use crate::aead::AeadKey;
use crate::algorithm::{Aead, Cipher, TAG_BYTES};
use crate::error::{MessageError, Result};
use crate::framing::read_full;
use crate::random;

/// Storage for content that waits, encrypted.
pub trait Spool: Read + Write + Seek + Send {}
impl<T: Read + Write + Seek + Send> Spool for T {}

/// A function that creates the file for content that is too long for memory.
pub type MakeSpool<'a> = Box<dyn FnMut() -> io::Result<Box<dyn Spool>> + Send + 'a>;

/// The maximum number of bytes held in memory.
const MEMORY_BYTES: usize = 8 << 20;
/// The number of bytes under one authentication tag in the file.
const PIECE_BYTES: usize = 256 << 10;

/// A writer that holds its data back. When the caller releases the data, it becomes a reader.
pub struct Held<'a> {
    make: MakeSpool<'a>,
    /// The number of whole pieces that stay in memory if all of the data does.
    memory_pieces: usize,
    /// The data that is not in the file. All pieces but the last are whole.
    pieces: VecDeque<Zeroizing<Vec<u8>>>,
    sealed: Option<Sealed>,
}

impl<'a> Held<'a> {
    /// Holds up to 8 MiB in memory and the rest in the file that `make` creates.
    #[must_use]
    pub fn new(make: MakeSpool<'a>) -> Self {
        Self::with_memory(make, MEMORY_BYTES)
    }

    /// As [`Self::new`], with another limit on memory: a number of whole pieces.
    pub(crate) fn with_memory(make: MakeSpool<'a>, memory_bytes: usize) -> Self {
        let memory_pieces = memory_bytes / PIECE_BYTES;
        Self { make, memory_pieces, pieces: VecDeque::new(), sealed: None }
    }

    /// Releases the data as a reader that begins at the start.
    ///
    /// # Errors
    ///
    /// [`MessageError::Write`] if the file fails. Reading fails if the file was changed in the
    /// meantime.
    pub fn into_reader(mut self) -> Result<HeldReader> {
        if let Some(sealed) = &mut self.sealed {
            for piece in &mut self.pieces {
                sealed.add(piece)?;
            }
            self.pieces.clear();
            sealed.file.seek(SeekFrom::Start(0)).map_err(MessageError::write)?;
            (sealed.at, sealed.pieces) = (0, sealed.at);
        }
        let Self { mut pieces, sealed, .. } = self;
        Ok(HeldReader { piece: pieces.pop_front().unwrap_or_default(), at: 0, pieces, sealed })
    }

    /// Writes all data to `output`.
    ///
    /// # Errors
    ///
    /// The errors of [`Self::into_reader`], and [`MessageError::Write`].
    pub fn release(self, output: &mut (impl Write + ?Sized)) -> Result<()> {
        let mut held = self.into_reader()?;
        loop {
            output.write_all(held.rest()).map_err(MessageError::write)?;
            if !held.next_piece()? {
                return output.flush().map_err(MessageError::write);
            }
        }
    }

    /// An empty piece. If memory is full, all pieces move to the file.
    fn next_piece(&mut self) -> Result<Zeroizing<Vec<u8>>> {
        if self.sealed.is_none() && self.pieces.len() < self.memory_pieces {
            return Ok(Zeroizing::new(Vec::with_capacity(PIECE_BYTES)));
        }
        if self.sealed.is_none() {
            self.sealed = Some(Sealed::new((self.make)().map_err(MessageError::write)?)?);
        }
        let mut last = Zeroizing::default();
        if let Some(sealed) = &mut self.sealed {
            for mut piece in self.pieces.drain(..) {
                sealed.add(&mut piece)?;
                last = piece;
            }
        }
        last.clear();
        Ok(last)
    }
}

impl Write for Held<'_> {
    fn write(&mut self, data: &[u8]) -> io::Result<usize> {
        if self.pieces.is_empty() {
            // Little data is not worth a whole piece.
            self.pieces.push_back(Zeroizing::default());
        }
        if self.pieces.back().is_some_and(|piece| piece.len() == PIECE_BYTES) {
            let piece = self.next_piece()?;
            self.pieces.push_back(piece);
        }
        let Some(piece) = self.pieces.back_mut() else { return Ok(0) };
        let written = data.len().min(PIECE_BYTES - piece.len());
        piece.extend_from_slice(&data[..written]);
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A file of encrypted pieces, each with its length and tag.
struct Sealed {
    file: Box<dyn Spool>,
    key: AeadKey,
    /// The index of the next piece.
    at: u64,
    /// The number of pieces, after all are written.
    pieces: u64,
}

impl Sealed {
    fn new(file: Box<dyn Spool>) -> Result<Self> {
        let mut key = Zeroizing::new([0; 32]);
        random::fill(&mut *key)?;
        let key = AeadKey::new(Aead::Gcm, Cipher::Aes256, &*key)?;
        Ok(Self { file, key, at: 0, pieces: 0 })
    }

    /// The nonce of the current piece: its index, because the key is used for this file only.
    fn nonce(&self) -> [u8; 12] {
        let mut nonce = [0; 12];
        nonce[4..].copy_from_slice(&self.at.to_be_bytes());
        nonce
    }

    /// Encrypts a piece in place and writes it.
    fn add(&mut self, piece: &mut [u8]) -> Result<()> {
        let length = u32::try_from(piece.len()).unwrap_or(u32::MAX).to_be_bytes();
        let tag = self.key.seal(&self.nonce(), &length, piece)?;
        for part in [&length[..], piece, &tag] {
            self.file.write_all(part).map_err(MessageError::write)?;
        }
        self.at += 1;
        Ok(())
    }

    /// Reads the next piece; `false` after the last one.
    fn next(&mut self, piece: &mut Vec<u8>) -> Result<bool> {
        const SHORT: MessageError = MessageError::Tampered("a temporary file became shorter");
        piece.clear();
        if self.at == self.pieces {
            return Ok(false);
        }
        let mut length = [0; 4];
        if read_full(&mut self.file, &mut length)? < length.len() {
            return Err(SHORT);
        }
        let bytes = (u32::from_be_bytes(length) as usize).min(PIECE_BYTES);
        piece.resize(bytes + TAG_BYTES, 0);
        if read_full(&mut self.file, piece)? < piece.len() {
            return Err(SHORT);
        }
        let nonce = self.nonce();
        let (data, tag) = piece.split_at_mut(bytes);
        self.key.open(&nonce, &length, data, tag)?;
        piece.truncate(bytes);
        self.at += 1;
        Ok(true)
    }
}

/// The released content, as a stream.
pub struct HeldReader {
    piece: Zeroizing<Vec<u8>>,
    at: usize,
    /// The next pieces, if all of the data is in memory.
    pieces: VecDeque<Zeroizing<Vec<u8>>>,
    sealed: Option<Sealed>,
}

impl HeldReader {
    fn rest(&self) -> &[u8] {
        &self.piece[self.at..]
    }

    /// Goes to the next piece; `false` after the last one.
    fn next_piece(&mut self) -> Result<bool> {
        self.at = 0;
        if let Some(sealed) = &mut self.sealed {
            return sealed.next(&mut self.piece);
        }
        let next = self.pieces.pop_front();
        let is_there = next.is_some();
        self.piece = next.unwrap_or_default();
        Ok(is_there)
    }
}

impl Read for HeldReader {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        while self.rest().is_empty() {
            if !self.next_piece()? {
                return Ok(0);
            }
        }
        let read = self.rest().read(buf)?;
        self.at += read;
        Ok(read)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;
    use std::sync::Arc;

    use parking_lot::Mutex;

    use super::*;

    /// A file whose bytes the test can see.
    #[derive(Clone, Default)]
    struct Open(Arc<Mutex<Cursor<Vec<u8>>>>);

    impl Read for Open {
        fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
            self.0.lock().read(buf)
        }
    }

    impl Write for Open {
        fn write(&mut self, data: &[u8]) -> io::Result<usize> {
            self.0.lock().write(data)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    impl Seek for Open {
        fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
            self.0.lock().seek(to)
        }
    }

    fn held(file: &Open, memory: usize, content: &[u8]) -> Held<'static> {
        let file = file.clone();
        let mut held = Held::with_memory(Box::new(move || Ok(Box::new(file.clone()))), memory);
        content.chunks(99_999).for_each(|part| held.write_all(part).unwrap());
        held
    }

    #[test]
    fn held_content_of_any_length_reads_back() {
        for length in [0, 1, 1000, PIECE_BYTES, 3 * PIECE_BYTES, 4 * PIECE_BYTES + 1] {
            let content: Vec<u8> =
                (0..length).map(|at| u8::try_from(at * 7 % 251).unwrap()).collect();
            for memory in [0, 1000, 10 * PIECE_BYTES] {
                let mut out = Vec::new();
                held(&Open::default(), memory, &content).release(&mut out).unwrap();
                assert!(out == content, "{length} bytes, {memory} in memory");
                let mut out = Vec::new();
                let reader = held(&Open::default(), memory, &content).into_reader();
                reader.unwrap().read_to_end(&mut out).unwrap();
                assert!(out == content, "{length} bytes, {memory} in memory, as a stream");
            }
        }
    }

    #[test]
    fn the_temporary_file_is_encrypted_and_authenticated() {
        let file = Open::default();
        let content = b"attack at dawn. ".repeat(100_000);
        let held_back = held(&file, 1000, &content);
        let on_disk = |file: &Open| file.0.lock().get_ref().clone();
        assert!(on_disk(&file).len() > content.len() / 2);
        assert!(!on_disk(&file).windows(6).any(|part| part == b"attack"));
        let mut reader = held_back.into_reader().unwrap();
        file.0.lock().get_mut()[PIECE_BYTES * 2] ^= 1;
        let mut out = Vec::new();
        assert!(reader.read_to_end(&mut out).is_err());
        assert!(content.starts_with(&out), "what came before is what was written");
    }
}
