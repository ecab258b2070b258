//! Input that has to be text: UTF-8, checked on its way.

use std::io::{self, Read};

/// The input is not UTF-8.
#[derive(Debug)]
pub(crate) struct NotText;

impl NotText {
    /// Whether this made reading fail.
    pub(crate) fn caused(error: &io::Error) -> bool {
        matches!(error.get_ref(), Some(inner) if inner.is::<Self>())
    }
}

impl std::fmt::Display for NotText {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("the data are not UTF-8 text")
    }
}

impl std::error::Error for NotText {}

/// Gives what `inner` gives, and fails where that is not UTF-8.
pub(crate) struct Utf8<R> {
    inner: R,
    /// The start of a character that has not come completely.
    open: Vec<u8>,
}

impl<R> Utf8<R> {
    pub(crate) fn new(inner: R) -> Self {
        Self { inner, open: Vec::new() }
    }

    fn check(&mut self, mut data: &[u8]) -> Result<(), NotText> {
        while !self.open.is_empty()
            && let Some((&byte, rest)) = data.split_first()
        {
            self.open.push(byte);
            data = rest;
            match std::str::from_utf8(&self.open) {
                Ok(_) => self.open.clear(),
                Err(error) if error.error_len().is_none() => {}
                Err(_) => return Err(NotText),
            }
        }
        match std::str::from_utf8(data) {
            Ok(_) => Ok(()),
            Err(error) if error.error_len().is_none() => {
                self.open.extend_from_slice(&data[error.valid_up_to()..]);
                Ok(())
            }
            Err(_) => Err(NotText),
        }
    }
}

impl<R: Read> Read for Utf8<R> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let read = self.inner.read(buf)?;
        let ended = read == 0 && !buf.is_empty();
        if ended && !self.open.is_empty() || self.check(&buf[..read]).is_err() {
            return Err(io::Error::new(io::ErrorKind::InvalidData, NotText));
        }
        Ok(read)
    }
}

/// The input, checked if it has to be text.
pub(crate) fn input<'a>(
    data: &'a mut (dyn Read + Send + Sync),
    text: bool,
) -> Box<dyn Read + Send + 'a> {
    if text { Box::new(Utf8::new(data)) } else { Box::new(data) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A reader that returns one byte at a time.
    struct Slowly<'a>(&'a [u8]);

    impl Read for Slowly<'_> {
        fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
            let wanted = buf.len().min(1);
            self.0.read(&mut buf[..wanted])
        }
    }

    fn is_text(data: &[u8]) -> bool {
        let whole = io::copy(&mut Utf8::new(data), &mut io::sink()).is_ok();
        let slowly = io::copy(&mut Utf8::new(Slowly(data)), &mut io::sink()).is_ok();
        assert_eq!(whole, slowly);
        whole
    }

    #[test]
    fn characters_may_be_split_between_reads_but_must_be_complete() {
        assert!(is_text(b""));
        assert!(is_text("Grüße, 世界 🦀".as_bytes()));
        assert!(!is_text(b"Gr\xfc\xdfe"));
        assert!(!is_text(&"🦀".as_bytes()[..3]));
        assert!(!is_text(b"\xed\xa0\x80"));
    }
}
