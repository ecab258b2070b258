//! Line ends of text: carriage return and line feed in messages and digests (RFC 9580, sections
//! 5.2.4 and 5.9), a line feed elsewhere.

use std::io::{self, Read};

/// A converter to canonical line ends, carriage return and line feed, for text that arrives in
/// pieces.
#[derive(Clone, Default)]
pub(crate) struct Canonical {
    /// The last byte was a carriage return, which is not in the output yet.
    held_cr: bool,
}

impl Canonical {
    /// Takes `data` and passes the bytes that are certain to `out`.
    pub(crate) fn push(&mut self, data: &[u8], mut out: impl FnMut(&[u8])) {
        let mut rest = data;
        if self.held_cr && !rest.is_empty() {
            self.held_cr = false;
            if rest[0] == b'\n' {
                out(b"\r\n");
                rest = &rest[1..];
            } else {
                out(b"\r");
            }
        }
        while let Some(end) = rest.iter().position(|&byte| byte == b'\n') {
            let line = &rest[..end];
            out(line.strip_suffix(b"\r").unwrap_or(line));
            out(b"\r\n");
            rest = &rest[end + 1..];
        }
        if let Some(line) = rest.strip_suffix(b"\r") {
            self.held_cr = true;
            rest = line;
        }
        out(rest);
    }

    /// Passes on a final carriage return that was held back.
    pub(crate) fn finish(&mut self, mut out: impl FnMut(&[u8])) {
        if std::mem::take(&mut self.held_cr) {
            out(b"\r");
        }
    }
}

/// A converter from carriage return and line feed to a line feed, for text that arrives in pieces.
#[derive(Default)]
pub(crate) struct Native {
    /// The last byte was a carriage return, which is not in the output yet.
    held_cr: bool,
}

impl Native {
    /// Takes `data` and passes the bytes that are certain to `out`.
    pub(crate) fn push<E>(
        &mut self,
        data: &[u8],
        mut out: impl FnMut(&[u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut rest = data;
        if rest.is_empty() {
            return Ok(());
        }
        if std::mem::take(&mut self.held_cr) && rest[0] != b'\n' {
            out(b"\r")?;
        }
        if let Some(line) = rest.strip_suffix(b"\r") {
            self.held_cr = true;
            rest = line;
        }
        while let Some(end) = rest.windows(2).position(|pair| pair == b"\r\n") {
            out(&rest[..end])?;
            rest = &rest[end + 1..];
        }
        out(rest)
    }

    /// Passes on a final carriage return that was held back.
    pub(crate) fn finish<E>(
        &mut self,
        mut out: impl FnMut(&[u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        if std::mem::take(&mut self.held_cr) { out(b"\r") } else { Ok(()) }
    }
}

/// A reader that converts text to canonical line ends.
pub(crate) struct CanonicalReader<R> {
    input: R,
    lines: Canonical,
    piece: Vec<u8>,
    ready: Vec<u8>,
    at: usize,
    ended: bool,
}

/// The number of bytes converted at once.
const PIECE_BYTES: usize = 64 << 10;

impl<R: Read> CanonicalReader<R> {
    pub(crate) fn new(input: R) -> Self {
        let (piece, ready) = (vec![0; PIECE_BYTES], Vec::new());
        Self { input, lines: Canonical::default(), piece, ready, at: 0, ended: false }
    }
}

impl<R: Read> Read for CanonicalReader<R> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        while self.at == self.ready.len() && !self.ended {
            self.ready.clear();
            self.at = 0;
            let read = self.input.read(&mut self.piece)?;
            let ready = &mut self.ready;
            if read == 0 {
                self.ended = true;
                self.lines.finish(|text| ready.extend_from_slice(text));
            } else {
                self.lines.push(&self.piece[..read], |text| ready.extend_from_slice(text));
            }
        }
        let read = (&self.ready[self.at..]).read(buf)?;
        self.at += read;
        Ok(read)
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use proptest::prelude::*;

    use super::*;

    fn native(text: &[u8], piece: usize) -> Vec<u8> {
        let mut out = Vec::new();
        let mut lines = Native::default();
        let mut give = |text: &[u8]| {
            out.extend_from_slice(text);
            Ok::<(), Infallible>(())
        };
        for piece in text.chunks(piece) {
            let Ok(()) = lines.push(piece, &mut give);
        }
        let Ok(()) = lines.finish(&mut give);
        out
    }

    struct Pieces<'a>(std::slice::Chunks<'a, u8>);

    impl Read for Pieces<'_> {
        fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
            self.0.next().unwrap_or_default().read(buf)
        }
    }

    fn canonical(text: &[u8], piece: usize) -> Vec<u8> {
        let mut out = Vec::new();
        CanonicalReader::new(Pieces(text.chunks(piece))).read_to_end(&mut out).unwrap();
        out
    }

    proptest! {
        #[test]
        fn line_ends_equal_those_of_a_simple_replacement(
            text in proptest::collection::vec(prop_oneof![Just(b'\r'), Just(b'\n'), Just(b'a')], 0..40),
            piece in 1usize..5,
        ) {
            let string = String::from_utf8(text.clone()).unwrap();
            let unix = string.replace("\r\n", "\n");
            prop_assert_eq!(native(&text, piece), unix.as_bytes());
            let dos = unix.replace('\n', "\r\n");
            prop_assert_eq!(canonical(&text, piece), dos.as_bytes());
        }
    }
}
