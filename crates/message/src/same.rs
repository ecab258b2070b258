//! Whether a file has the content of a signed message.

use std::io::{self, Write};

use aws_lc_rs::digest::{Context, SHA256};

use crate::content::Literal;
use crate::error::{MessageError, Result};
use crate::kind::MessageKind;
use crate::lines::Canonical;

/// The number of bytes of a file that are read at once.
const PIECE_BYTES: usize = 64 << 10;

/// The digests of content that is written here: of its bytes, and of its text with canonical line
/// ends.
#[derive(Clone)]
pub struct ContentDigest {
    bytes: Context,
    text: Context,
    lines: Canonical,
}

impl Default for ContentDigest {
    fn default() -> Self {
        let new = || Context::new(&SHA256);
        Self { bytes: new(), text: new(), lines: Canonical::default() }
    }
}

impl ContentDigest {
    /// Whether `file` has this content, which came out of a message of a kind with this metadata.
    /// In text, line ends do not matter. A text with a cleartext signature has no line end after
    /// its last line.
    ///
    /// # Errors
    ///
    /// [`MessageError::Read`].
    pub fn is_of(
        self,
        file: &mut (impl io::Read + ?Sized),
        kind: MessageKind,
        literal: &Literal,
    ) -> Result<bool> {
        let mut of_file = Self::default();
        let mut piece = vec![0; PIECE_BYTES];
        loop {
            match file.read(&mut piece).map_err(MessageError::read)? {
                0 => break,
                read => of_file.update(&piece[..read]),
            }
        }
        let mut ended = self.clone();
        ended.update(b"\n");
        let (file_bytes, file_text) = of_file.finish();
        let (bytes, text) = self.finish();
        Ok(file_bytes == bytes
            || literal.text && file_text == text
            || kind == MessageKind::SignedText && file_text == ended.finish().1)
    }

    fn update(&mut self, data: &[u8]) {
        let Self { bytes, text, lines } = self;
        bytes.update(data);
        lines.push(data, |part| text.update(part));
    }

    fn finish(self) -> (Vec<u8>, Vec<u8>) {
        let Self { bytes, mut text, mut lines } = self;
        lines.finish(|part| text.update(part));
        (bytes.finish().as_ref().to_vec(), text.finish().as_ref().to_vec())
    }
}

impl Write for ContentDigest {
    fn write(&mut self, data: &[u8]) -> io::Result<usize> {
        self.update(data);
        Ok(data.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_has_the_content_of_a_message_if_only_line_ends_of_text_differ() {
        use MessageKind::{Signed, SignedText};
        let rows: [(&str, &str, MessageKind, bool, bool); 11] = [
            ("a\nb\n", "a\nb\n", Signed, false, true),
            ("a\nb\n", "a\r\nb\r\n", Signed, false, false),
            ("a\nb\n", "a\r\nb\r\n", Signed, true, true),
            ("a\nb\n", "a\nb", Signed, true, false),
            ("a\nb", "a\nb\n", Signed, true, false),
            ("a\nb", "a\nb\n", SignedText, true, true),
            ("a\nb", "a\r\nb\r\n", SignedText, true, true),
            ("a\nb", "a\nb", SignedText, true, true),
            ("a\nb", "a\nb\n\n", SignedText, true, false),
            ("a\nb", "a \nb\n", SignedText, true, false),
            ("", "a", Signed, true, false),
        ];
        for (content, file, kind, text, same) in rows {
            let mut digest = ContentDigest::default();
            content.bytes().for_each(|byte| digest.update(&[byte]));
            let literal = Literal { text, ..Literal::default() };
            let found = digest.is_of(&mut file.as_bytes(), kind, &literal).unwrap();
            assert_eq!(found, same, "{content:?} {file:?} {kind:?}");
        }
    }
}
