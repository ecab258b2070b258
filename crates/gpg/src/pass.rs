//! A pipe between two threads: what one writes, the other reads.

use std::io::{self, Read, Write};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

/// The number of pieces that wait.
const PIECES: usize = 2;

/// The end that writes. Without [`Self::finish`], the reader sees an error at the end.
pub(crate) struct PassWriter(SyncSender<Option<Vec<u8>>>);

/// The end that reads.
pub(crate) struct PassReader {
    pieces: Receiver<Option<Vec<u8>>>,
    piece: Vec<u8>,
    at: usize,
    is_finished: bool,
}

/// Makes a pipe.
pub(crate) fn pass() -> (PassWriter, PassReader) {
    let (sender, pieces) = sync_channel(PIECES);
    (PassWriter(sender), PassReader { pieces, piece: Vec::new(), at: 0, is_finished: false })
}

impl PassWriter {
    /// Says that everything was written.
    pub(crate) fn finish(self) {
        // Nobody may want to know.
        let _ = self.0.send(None);
    }
}

impl Write for PassWriter {
    fn write(&mut self, data: &[u8]) -> io::Result<usize> {
        if !data.is_empty() {
            let sent = self.0.send(Some(data.to_vec()));
            sent.map_err(|_| io::ErrorKind::BrokenPipe)?;
        }
        Ok(data.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl PassReader {
    /// Waits until there is something to read. `false` if nothing comes any more, for whatever
    /// reason.
    pub(crate) fn wait(&mut self) -> bool {
        while self.at == self.piece.len() && !self.is_finished {
            match self.pieces.recv() {
                Ok(Some(piece)) => (self.piece, self.at) = (piece, 0),
                Ok(None) => self.is_finished = true,
                Err(_) => return false,
            }
        }
        self.at < self.piece.len()
    }
}

impl Read for PassReader {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        if !self.wait() {
            return if self.is_finished { Ok(0) } else { Err(io::ErrorKind::BrokenPipe.into()) };
        }
        let rest = &self.piece[self.at..];
        let read = rest.len().min(out.len());
        out[..read].copy_from_slice(&rest[..read]);
        self.at += read;
        Ok(read)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_and_an_end_without_a_word_is_an_error() {
        for is_finished in [true, false] {
            let (mut writer, mut reader) = pass();
            let thread = std::thread::spawn(move || {
                for number in 0..100_u8 {
                    writer.write_all(&vec![number; usize::from(number)]).unwrap();
                }
                if is_finished {
                    writer.finish();
                }
            });
            let mut all = Vec::new();
            assert_eq!(reader.read_to_end(&mut all).is_ok(), is_finished);
            assert_eq!(all.len(), (0..100).sum());
            assert!(all.is_sorted());
            thread.join().unwrap();
        }
    }

    #[test]
    fn a_writer_ends_without_a_reader() {
        let (mut writer, reader) = pass();
        drop(reader);
        assert_eq!(writer.write(b"x").unwrap_err().kind(), io::ErrorKind::BrokenPipe);
    }
}
