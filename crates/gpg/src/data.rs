//! The files that a detached signature is about.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Read};

use crate::code::Code;
use crate::descriptor;
use crate::digests::Digests;
use crate::progress::Progress;
use crate::session::Session;

/// The length of a line of text, in bytes, of which GnuPG hashes only a part.
const LINE_BYTES_MAX: usize = 19_995;

/// The number of bytes read at once.
const PIECE_BYTES: usize = 64 << 10;

/// Hashes files one after the other, as text with the line ends CR LF if `is_text`. Without names,
/// gpg takes the file that is named like that of the signature, and gpgv none.
///
/// # Errors
///
/// The reason why a file cannot be read, which was also written to the log.
pub(crate) fn hash_files(
    session: &Session,
    digests: &mut Digests,
    names: &[OsString],
    signature: Option<&OsStr>,
    is_text: bool,
) -> Result<(), Code> {
    let assumed: Vec<OsString> = if names.is_empty() {
        let is_alone =
            session.gpg.as_ref().is_none_or(|manner| manner.is_batch && manner.is_verifying);
        let file = signature.filter(|_| !is_alone).and_then(|name| beside(name, session.specials));
        file.filter(|file| File::open(file).is_ok()).map(OsString::from).into_iter().collect()
    } else {
        Vec::new()
    };
    if let Some(file) = assumed.first() {
        session.log.info(format!("assuming signed data in '{}'", file.to_string_lossy()));
    }
    let names = if names.is_empty() { &assumed[..] } else { names };
    if names.is_empty() {
        session.log.error("no signed data");
        return Err(Code::NoData);
    }
    for name in names {
        let shown = name.to_string_lossy();
        let shown = if name == "-" { "[stdin]" } else { &shown };
        let mut file = descriptor::open(name, session.specials).map_err(|error| {
            session.log.error(format!("can't open signed data '{shown}'"));
            Code::system(&error)
        })?;
        let mut progress = Progress::begin(session, Some(name), &file);
        let mut text = Text::default();
        let read = pieces(&mut file, |data| {
            progress.add(data.len());
            if is_text { text.update(digests, data) } else { digests.update(data) }
        });
        progress.end(session);
        if let Err(error) = read {
            // The digest is one of a part of the data.
            digests.is_cut = true;
            session.log.error(format!("{shown}: read error: {}", Code::system(&error).text()));
        }
        if text.is_cut {
            digests.is_cut = true;
            session
                .log
                .error(format!("can't handle text lines longer than {LINE_BYTES_MAX} characters"));
        }
    }
    Ok(())
}

/// The file that a signature in a file with this name is about, by the usual names, if it may be
/// read.
pub(crate) fn beside(name: &OsStr, specials: bool) -> Option<&str> {
    let name = Some(name).filter(|name| !descriptor::is_pipe(name, specials))?.to_str()?;
    let ends = [".sig", ".sign", ".asc"];
    let file = ends.iter().find_map(|end| name.strip_suffix(end)).filter(|file| !file.is_empty());
    file.filter(|file| rustix::fs::access(*file, rustix::fs::Access::READ_OK).is_ok())
}

fn pieces(file: &mut File, mut each: impl FnMut(&[u8])) -> io::Result<()> {
    let length = file.metadata().map_or(0, |meta| usize::try_from(meta.len()).unwrap_or(0));
    // One byte more finds the end of a small file with one read less.
    let mut buffer = vec![0; (length + 1).clamp(4096, PIECE_BYTES)];
    loop {
        match file.read(&mut buffer) {
            Ok(0) => return Ok(()),
            Ok(read) => each(&buffer[..read]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

/// Text whose line ends become CR LF. CRs at the end of a line, and of the text, are left out.
#[derive(Default)]
struct Text {
    /// The number of CRs that may be at the end of a line.
    returns: usize,
    line_bytes: usize,
    is_cut: bool,
}

impl Text {
    fn update(&mut self, digests: &mut Digests, data: &[u8]) {
        for line in data.split_inclusive(|&byte| byte == b'\n') {
            let (content, ended) = match line.strip_suffix(b"\n") {
                Some(content) => (content, true),
                None => (line, false),
            };
            let end = content.iter().rposition(|&byte| byte != b'\r').map_or(0, |last| last + 1);
            self.line_bytes += content.len();
            self.is_cut |= self.line_bytes >= LINE_BYTES_MAX - 1;
            if end > 0 {
                for _ in 0..std::mem::take(&mut self.returns) {
                    digests.update(b"\r");
                }
                digests.update(&content[..end]);
            }
            self.returns += content.len() - end;
            if ended {
                digests.update(b"\r\n");
                (self.returns, self.line_bytes) = (0, 0);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn line_ends_do_not_depend_on_the_pieces() {
        let text = b"one\r\ntwo\n\r\r\nthree \r x\r\r\nfour\r";
        let wanted = b"one\r\ntwo\r\n\r\nthree \r x\r\nfour";
        let digest =
            |digests: &Digests| digests.get(8).unwrap().finish().unwrap().as_bytes().to_vec();
        let mut whole = Digests::default();
        whole.enable(8);
        whole.update(wanted);
        for size in 1..text.len() {
            let mut digests = Digests::default();
            digests.enable(8);
            let mut state = Text::default();
            text.chunks(size).for_each(|piece| state.update(&mut digests, piece));
            assert_eq!(digest(&digests), digest(&whole), "pieces of {size} bytes");
        }
    }
}
