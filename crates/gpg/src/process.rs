//! A message: its packets, and which of its signatures are checked over which data.
//!
//! The order of packets is judged as GnuPG 2.2 judges it: detached signatures; signatures before
//! the data, as in PGP 2; one-pass signatures, data, as many signatures; a signed text and its
//! signatures. All else is refused.

use std::cell::Cell;
use std::ffi::{OsStr, OsString};
use std::io::{self, BufRead, BufReader, Read};
use std::rc::Rc;

use crate::armor::Armor;
use crate::check::{Setting, check};
use crate::code::{Code, Exit};
use crate::compressed;
use crate::data;
use crate::digests::Digests;
use crate::framing::{self, Body, Header, Length, tag};
use crate::keyring::Keyrings;
use crate::output::Output;
use crate::session::Session;
use crate::signature::{SIGNATURE_BYTES_MAX, SignaturePacket, Unreadable};
use crate::status::Field;
use crate::text::printable;

/// The maximum nesting of compressed packets, as in GnuPG.
const DEPTH_MAX: usize = 32;

/// The maximum number of packets of a message that are kept. GnuPG has no limit.
const NODES_MAX: usize = 1024;

/// The maximum ratio of content to compressed message, for content beyond [`FREE_BYTES`]. GnuPG has
/// no limit.
const EXPANSION_MAX: u64 = 1100;

/// The number of bytes of content that any message may have.
const FREE_BYTES: u64 = 256 << 20;

/// The number of bytes of content processed at once.
const PIECE_BYTES: usize = 64 << 10;

/// The number of bytes of a signed text that GnuPG reads before it reports the text.
const READ_AHEAD_BYTES: usize = 63 << 10;

/// The bytes of a message.
pub(crate) enum Source<'a, R> {
    /// Armored text.
    Armored(Armor<'a, R>),
    /// Packets.
    Packets(R),
    /// Packets in a compressed packet.
    Nested(&'a mut dyn Read),
}

impl<R: BufRead> Source<'_, R> {
    /// Whether a checksum was wrong. Then nothing more counts.
    fn has_failed(&self) -> bool {
        matches!(self, Self::Armored(armor) if armor.has_failed())
    }
}

impl<R: BufRead> Read for Source<'_, R> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Armored(armor) => armor.read(out),
            Self::Packets(input) => input.read(out),
            Self::Nested(input) => input.read(out),
        }
    }
}

/// A packet that is kept, as far as it matters for what follows.
enum Node {
    /// A one-pass signature with this digest.
    OnePass(u8),
    /// A signature.
    Signature(Rc<SignaturePacket>),
    /// The place of the content.
    Content,
    /// The start of a signed text.
    SignedText,
}

/// What the messages of a run share.
pub(crate) struct Processor<'a> {
    /// The options and outputs.
    pub(crate) session: &'a Session,
    /// The keyrings.
    pub(crate) keyrings: Keyrings,
    /// The files that a detached signature is about; none for a message with its content.
    pub(crate) data: &'a [OsString],
    /// The name of the file with the signature.
    pub(crate) name: Option<&'a OsStr>,
    /// The content, held back.
    pub(crate) output: Output,
    /// A message without a signature is an error.
    pub(crate) needs_signature: bool,
    /// Damaged compressed data was reported.
    has_failed_to_uncompress: bool,
    /// The bytes that were read of compressed packets outside of any other.
    compressed_bytes: Rc<Cell<u64>>,
    /// There was a signature, or an announcement of one.
    is_signed: bool,
}

/// A reader that counts, if it has a counter.
struct Counted<R> {
    reader: R,
    count: Option<Rc<Cell<u64>>>,
}

impl<R: Read> Read for Counted<R> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let read = self.reader.read(out)?;
        if let Some(count) = &self.count {
            count.set(count.get() + read as u64);
        }
        Ok(read)
    }
}

/// The packets of one level of nesting.
#[derive(Default)]
struct Level {
    depth: usize,
    nodes: Vec<Node>,
    digests: Option<Digests>,
    /// The last packet that is not a signature is the content.
    has_data: bool,
    has_signature: bool,
}

/// Why a packet was not read.
enum Skipped {
    /// Reading goes on behind it.
    Unknown,
    /// Reading ends.
    Invalid,
    /// Reading ends, and the packet does not count.
    Ended,
}

impl<'a> Processor<'a> {
    /// A processor for the first of these files, with the others as its data.
    pub(crate) fn new(session: &'a Session, keyrings: Keyrings, files: &'a [OsString]) -> Self {
        let (name, data) = match files.split_first() {
            Some((name, data)) => (Some(name.as_os_str()), data),
            None => (None, &[][..]),
        };
        Self {
            session,
            keyrings,
            data,
            name,
            output: Output::new(session),
            needs_signature: true,
            has_failed_to_uncompress: false,
            compressed_bytes: Rc::default(),
            is_signed: false,
        }
    }
}

impl Processor<'_> {
    /// Processes a message. The error is GnuPG's; it was not reported yet.
    ///
    /// # Errors
    ///
    /// [`Exit`] after a bad signature.
    pub(crate) fn message<R: BufRead>(
        &mut self,
        source: &mut Source<'_, R>,
    ) -> Result<Result<(), Code>, Exit> {
        self.level(source, 1).map(|(result, _)| result)
    }

    /// Processes the packets of one level. The second value is whether one was a signature.
    fn level<R: BufRead>(
        &mut self,
        source: &mut Source<'_, R>,
        depth: usize,
    ) -> Result<(Result<(), Code>, bool), Exit> {
        let session = self.session;
        if depth > DEPTH_MAX {
            session.log.error("input data with too deeply nested packets");
            session.status.line("UNEXPECTED 1");
            return Ok((Err(Code::BadData), false));
        }
        let mut level = Level { depth, ..Level::default() };
        let mut result = self.packets(source, &mut level)?;
        self.judge(&mut level)?;
        if result.is_ok() && !level.has_signature && self.needs_signature {
            session.status.line("NODATA 4");
            session.log.error("no signature found");
            result = Err(Code::NoData);
        }
        Ok((result, level.has_signature))
    }

    /// Reads packets up to the end.
    fn packets<R: BufRead>(
        &mut self,
        source: &mut Source<'_, R>,
        level: &mut Level,
    ) -> Result<Result<(), Code>, Exit> {
        let session = self.session;
        let mut any = false;
        loop {
            let header = match framing::header(source) {
                Ok(header) => header,
                Err(error) => {
                    let name = self.name.map_or("[stdin]".into(), OsStr::to_string_lossy);
                    let error = Code::system(&error);
                    session.log.error(format!("{name}: read error: {}", error.text()));
                    Header::End
                }
            };
            let (tag, length) = match header {
                Header::Packet(tag, length) => (tag, length),
                Header::Invalid(why) => {
                    session.log.error(why);
                    any = true;
                    session.status.line("NODATA 3");
                    break;
                }
                Header::End => {
                    if let Source::Armored(armor) = source
                        && let Some(digests) = armor.signed_text()
                    {
                        any = true;
                        if self.signed_text(armor, level, &digests)? {
                            continue;
                        }
                    }
                    break;
                }
            };
            let had_any = std::mem::replace(&mut any, true);
            if level.nodes.len() >= NODES_MAX {
                session.log.error(format!("the message has more than {NODES_MAX} packets"));
                level.nodes.clear();
                return Ok(Err(Code::BadData));
            }
            match self.packet(source, level, tag, length)? {
                Ok(Ok(())) => {}
                Ok(Err(Skipped::Unknown)) => continue,
                Ok(Err(Skipped::Ended)) => {
                    any = had_any;
                    break;
                }
                Ok(Err(Skipped::Invalid)) => {
                    session.status.line("NODATA 3");
                    break;
                }
                Err(code) => return Ok(Err(code)),
            }
            if !matches!(tag, tag::SIGNATURE | tag::MDC) {
                level.has_data = tag == tag::LITERAL;
            }
        }
        if !any {
            session.status.line("NODATA 2");
            return Ok(Err(Code::Empty));
        }
        Ok(Ok(()))
    }

    /// Processes one packet.
    fn packet<R: BufRead>(
        &mut self,
        source: &mut Source<'_, R>,
        level: &mut Level,
        tag: u8,
        length: Length,
    ) -> Result<Result<Result<(), Skipped>, Code>, Exit> {
        let session = self.session;
        self.is_signed |= matches!(tag, tag::SIGNATURE | tag::ONE_PASS);
        if tag != tag::SIGNATURE && source.has_failed() {
            let _ = Body::new(source, length).skip();
            return Ok(Ok(Err(Skipped::Unknown)));
        }
        let invalid = |why: &str| {
            session.log.error(why);
            Ok(Ok(Err(Skipped::Invalid)))
        };
        match tag {
            tag::SIGNATURE => {
                let (body, is_truncated) = small(source, length, SIGNATURE_BYTES_MAX);
                let read = SignaturePacket::parse(body, is_truncated);
                let is_behind_text =
                    level.nodes.iter().any(|node| matches!(node, Node::SignedText));
                match read {
                    // The checksum of the armor, which follows directly, is wrong.
                    Ok(_) if source.has_failed() && is_behind_text => Ok(Ok(Err(Skipped::Invalid))),
                    Ok(_) if source.has_failed() => Ok(Ok(Err(Skipped::Unknown))),
                    Ok(signature) => {
                        signature.flaws().iter().for_each(|flaw| session.log.error(flaw));
                        level.has_signature = true;
                        level.nodes.push(Node::Signature(Rc::new(signature)));
                        Ok(Ok(Ok(())))
                    }
                    Err(Unreadable::Truncated) => Ok(Ok(Err(Skipped::Invalid))),
                    Err(Unreadable::Ended(area)) => {
                        session
                            .log
                            .error(format!("premature eof while reading {area} signature data"));
                        Ok(Ok(Err(Skipped::Ended)))
                    }
                    Err(Unreadable::Malformed(why)) => invalid(&why),
                }
            }
            tag::ONE_PASS => {
                let (body, _) = small(source, length, 64);
                match body[..] {
                    [3, _, digest, ..] if body.len() >= 13 => {
                        level.nodes.push(Node::OnePass(digest));
                        Ok(Ok(Ok(())))
                    }
                    [other, ..] if body.len() >= 13 => {
                        invalid(&format!("onepass_sig with unknown version {other}"))
                    }
                    _ => invalid("packet(4) too short"),
                }
            }
            tag::MARKER => match small(source, length, 4).0[..] {
                [b'P', b'G', b'P'] => Ok(Ok(Ok(()))),
                _ => invalid("invalid marker packet"),
            },
            tag::LITERAL => {
                if matches!(length, Length::Definite(..6)) {
                    let Length::Definite(bytes) = length else { return invalid("") };
                    return invalid(&format!("packet(11) too short ({bytes})"));
                }
                self.literal(source, level, length)?;
                Ok(Ok(Ok(())))
            }
            tag::COMPRESSED => Ok(self.compressed(source, level, length)?.map(Ok)),
            // Keys, user IDs and encrypted data.
            1 | 3 | 5 | 6 | 9 | 13 | 17 | 18 | 20 => {
                session.status.line("UNEXPECTED 0");
                Ok(Err(Code::Unexpected))
            }
            tag::CONTROL => Ok(Ok(Err(Skipped::Invalid))),
            7 | 12 | 14 | 16 | tag::MDC | 61 => {
                let _ = Body::new(source, length).skip();
                Ok(Ok(Ok(())))
            }
            _ => {
                let _ = Body::new(source, length).skip();
                Ok(Ok(Err(Skipped::Unknown)))
            }
        }
    }

    /// Processes a compressed packet.
    fn compressed<R: BufRead>(
        &mut self,
        source: &mut Source<'_, R>,
        level: &mut Level,
        length: Length,
    ) -> Result<Result<(), Code>, Exit> {
        let session = self.session;
        let mut body = Body::new(source, length);
        let algorithm = framing::byte(&mut body).ok().flatten().unwrap_or(0xff);
        let depth = level.depth + 1;
        let count = (level.depth == 1).then(|| Rc::clone(&self.compressed_bytes));
        let counted = Counted { reader: &mut body, count };
        let inner = BufReader::with_capacity(PIECE_BYTES, counted);
        let Some(mut plain) = compressed::reader(algorithm, inner) else {
            let code = Code::Compression;
            session.log.error(format!("uncompressing failed: {}", code.text()));
            return Ok(Err(code));
        };
        let mut buffered = BufReader::with_capacity(PIECE_BYTES, &mut plain);
        let mut nested: Source<'_, &[u8]> = Source::Nested(&mut buffered);
        let (result, has_signature) = self.level(&mut nested, depth)?;
        drop(plain);
        let _ = body.skip();
        level.has_signature |= result.is_ok() && has_signature;
        if let Err(code) = &result
            && !(*code == Code::BadData && self.has_failed_to_uncompress)
        {
            self.has_failed_to_uncompress |= *code == Code::BadData;
            session.log.error(format!("uncompressing failed: {}", code.text()));
        }
        Ok(result)
    }

    /// Processes the content of a message.
    fn literal<R: BufRead>(
        &mut self,
        source: &mut Source<'_, R>,
        level: &mut Level,
        length: Length,
    ) -> Result<(), Exit> {
        let session = self.session;
        let mut body = Body::new(source, length);
        let mut next = || framing::byte(&mut body).ok().flatten().unwrap_or(0xff);
        let (mode, name_bytes) = (next(), next());
        let name: Vec<u8> = (0..name_bytes).map(|_| next()).collect();
        let date = u32::from_be_bytes([next(), next(), next(), next()]);
        self.name_content(&name);
        let mut digests = Digests::default();
        level.nodes.iter().for_each(|node| match node {
            Node::OnePass(digest) => digests.enable(*digest),
            Node::Signature(signature) => digests.enable(signature.digest),
            _ => {}
        });
        if self.is_second() {
            digests.is_cut = true;
            let _ = body.skip();
        } else {
            if self.output.is_wanted() {
                let before = format!("{mode:X} {date} ");
                session.status.bytes("PLAINTEXT", &before, &name, Field::Word);
                if let Length::Definite(_) = length {
                    session.status.line(&format!("PLAINTEXT_LENGTH {}", body.left()));
                }
            }
            self.output.begin(session, self.is_signed);
            let is_text = matches!(mode, b't' | b'u');
            let mut buffer = vec![0; PIECE_BYTES];
            let mut given = 0;
            loop {
                let read = match body.read(&mut buffer) {
                    Ok(read) => read,
                    Err(error) => return self.cannot_uncompress(&error),
                };
                given += read as u64;
                if level.depth > 1
                    && given > FREE_BYTES
                    && given / EXPANSION_MAX > self.compressed_bytes.get()
                {
                    let why = format!(
                        "the content is more than {EXPANSION_MAX} times as large as the message"
                    );
                    return self.cannot_uncompress(&io::Error::other(why));
                }
                if read == 0 {
                    break;
                }
                let piece = &buffer[..read];
                digests.update(piece);
                if is_text && self.output.is_wanted() {
                    let text: Vec<u8> =
                        piece.iter().copied().filter(|&byte| byte != b'\r').collect();
                    self.output.write(session, &text);
                } else {
                    self.output.write(session, piece);
                }
            }
            if body.is_truncated() {
                digests.is_cut = true;
                let left = body.left();
                session.log.error(format!("problem reading source ({left} bytes remaining)"));
            }
        }
        if !session.log.has_errors() {
            self.output.end();
        }
        level.digests = Some(digests);
        level.nodes.push(Node::Content);
        Ok(())
    }

    /// Processes a signed text up to its signatures. `false` if it is not the first content:
    /// GnuPG then reads nothing behind it.
    fn signed_text<R: BufRead>(
        &mut self,
        armor: &mut Armor<'_, R>,
        level: &mut Level,
        named: &[u8],
    ) -> Result<bool, Exit> {
        // Whatever was before it is complete.
        self.judge(level)?;
        let session = self.session;
        let mut digests = Digests::default();
        named.iter().for_each(|&digest| digests.enable(digest));
        level.nodes.push(Node::SignedText);
        let is_second = session.literals.get() > 0;
        if is_second {
            self.announce_text();
            level.has_data = true;
            level.nodes.push(Node::Content);
            return Ok(false);
        }
        let mut line = Vec::new();
        let (mut is_first, mut bytes, mut is_announced) = (true, 0, false);
        loop {
            let (is_line, is_long) = match armor.text_line(&mut line) {
                Ok(read) => read,
                Err(error) => {
                    digests.is_cut = true;
                    let error = Code::system(&error);
                    session.log.error(format!("read error: {}", error.text()));
                    break;
                }
            };
            if !is_line {
                break;
            }
            // GnuPG reads ahead before it reports the content.
            bytes += line.len();
            if !is_announced && bytes > READ_AHEAD_BYTES {
                self.announce_text();
                is_announced = true;
            }
            digests.is_cut |= is_long;
            // The line end of the last line belongs to the head of the signature.
            if !std::mem::take(&mut is_first) {
                digests.update(b"\r\n");
            }
            let content = line.strip_suffix(b"\n").unwrap_or(&line);
            digests.update(content.strip_suffix(b"\r").unwrap_or(content));
            self.output.write(session, &line);
        }
        if armor.is_text_cut() {
            session.log.error("block_filter: 1st length byte missing");
            return Ok(true);
        }
        if armor.is_bad() {
            session.status.line("BADARMOR");
            return Err(Exit(1));
        }
        if !is_announced {
            self.announce_text();
        }
        self.output.begin(session, true);
        level.has_data = true;
        level.digests = Some(digests);
        level.nodes.push(Node::Content);
        Ok(true)
    }

    /// Reports the start of a signed text.
    fn announce_text(&self) {
        self.name_content(&[]);
        if !self.is_second() && self.output.is_wanted() {
            self.session.status.line("PLAINTEXT 74 0 ");
        }
    }

    /// Counts content, and reports a second one, which is refused.
    fn is_second(&self) -> bool {
        let session = self.session;
        session.literals.set(session.literals.get() + 1);
        if session.literals.get() == 1 {
            return false;
        }
        session.log.info("WARNING: multiple plaintexts seen");
        session.status.line("ERROR proc_pkt.plaintext 89_BAD_DATA");
        session.log.count_error();
        session.log.error(format!("handle plaintext failed: {}", Code::Unexpected.text()));
        true
    }

    fn name_content(&self, name: &[u8]) {
        if name == b"_CONSOLE" {
            self.session.log.info("Note: sender requested \"for-your-eyes-only\"");
        } else {
            self.session.chat(|| format!("original file name='{}'", printable(name)));
        }
    }

    fn cannot_uncompress(&self, error: &io::Error) -> Result<(), Exit> {
        self.session.log.error(format!("Fatal: uncompressing failed: {error}"));
        Err(Exit(2))
    }

    /// Checks the signatures of the packets that were read, and forgets these.
    fn judge(&mut self, level: &mut Level) -> Result<(), Exit> {
        let result = self.judge_nodes(level);
        level.nodes.clear();
        level.has_data = false;
        result
    }

    fn judge_nodes(&mut self, level: &mut Level) -> Result<(), Exit> {
        let session = self.session;
        let signatures: Vec<Rc<SignaturePacket>> = level
            .nodes
            .iter()
            .filter_map(|node| match node {
                Node::Signature(signature) => Some(Rc::clone(signature)),
                _ => None,
            })
            .collect();
        let root = level.nodes.iter().find(|node| !matches!(node, Node::Content));
        match root {
            None => return Ok(()),
            Some(Node::SignedText) if !level.has_data => {
                session.log.error("cleartext signature without data");
                return Ok(());
            }
            Some(Node::SignedText | Node::OnePass(_)) if level.has_data => {
                if !self.data.is_empty() {
                    session.log.error("not a detached signature");
                    return Ok(());
                }
            }
            Some(Node::OnePass(_)) => {
                if !self.hash_data(level, &signatures, false) {
                    return Ok(());
                }
            }
            Some(Node::Signature(first)) => {
                let others = &signatures[1..];
                let is_other = |other: &Rc<SignaturePacket>| {
                    other.class != first.class || level.has_data && other.digest != first.digest
                };
                let only_first = others.iter().any(is_other);
                if only_first {
                    session.log.info(
                        "WARNING: multiple signatures detected.  Only the first will be checked.",
                    );
                }
                let checked = if only_first { &signatures[..1] } else { &signatures[..] };
                if !matches!(first.class, 0 | 1) {
                    session
                        .log
                        .info(format!("standalone signature of class 0x{:02x}", first.class));
                } else if !level.has_data {
                    if !crate::algorithm::is_known_digest(first.digest) {
                        let text = Code::Digest;
                        session.log.error(format!("can't hash datafile: {}", text.text()));
                        return Ok(());
                    }
                    let is_text = first.class == 1;
                    let checked = checked.to_vec();
                    if !self.hash_data(level, &checked, is_text) {
                        return Ok(());
                    }
                    return self.check_all(level, &checked);
                } else if !self.data.is_empty() {
                    session.log.error("not a detached signature");
                    return Ok(());
                } else if !session.quiet {
                    session.log.info("old style (PGP 2.x) signature");
                }
                let checked = checked.to_vec();
                return self.check_all(level, &checked);
            }
            Some(Node::Content | Node::SignedText) => return Ok(()),
        }
        self.check_all(level, &signatures)
    }

    /// Hashes the files with the data; `false` if that fails.
    fn hash_data(
        &self,
        level: &mut Level,
        signatures: &[Rc<SignaturePacket>],
        is_text: bool,
    ) -> bool {
        let mut digests = Digests::default();
        signatures.iter().for_each(|signature| digests.enable(signature.digest));
        let hashed = data::hash_files(self.session, &mut digests, self.data, self.name, is_text);
        if let Err(code) = &hashed {
            self.session.log.error(format!("can't hash datafile: {}", code.text()));
        }
        level.digests = Some(digests);
        hashed.is_ok()
    }

    /// Checks signatures, if the order of the packets is one of those that are allowed.
    fn check_all(&mut self, level: &Level, signatures: &[Rc<SignaturePacket>]) -> Result<(), Exit> {
        let session = self.session;
        for signature in signatures {
            if !self.is_unambiguous(level) {
                session.log.error("can't handle this ambiguous signature data");
                continue;
            }
            let has_content = level.nodes.iter().any(|node| !matches!(node, Node::Signature(_)));
            let is_verifying = session.gpg.as_ref().is_none_or(|manner| manner.is_verifying);
            let setting = Setting {
                name: self.name.filter(|_| is_verifying),
                is_detached: !self.data.is_empty(),
                has_content,
                digests: level.digests.as_ref(),
            };
            check(session, &mut self.keyrings, signature, &setting)?;
        }
        Ok(())
    }

    /// Whether the order of the packets is one of those that are allowed.
    fn is_unambiguous(&self, level: &Level) -> bool {
        let is_signature = |node: &&Node| matches!(node, Node::Signature(_));
        let count = |nodes: &[Node]| nodes.iter().take_while(is_signature).count();
        match &level.nodes[..] {
            [Node::Signature(_), ..] => {
                let first = count(&level.nodes);
                matches!(level.nodes[first..], [] | [Node::Content])
            }
            nodes @ [Node::OnePass(_), ..] => {
                let announced =
                    nodes.iter().take_while(|node| matches!(node, Node::OnePass(_))).count();
                let [Node::Content, rest @ ..] = &nodes[announced..] else { return false };
                let signatures = count(rest);
                if signatures != 0 && signatures != announced {
                    self.session.log.info(
                        "number of one-pass packets does not match number of signature packets",
                    );
                }
                signatures == announced
            }
            [Node::SignedText, Node::Content, rest @ ..] => {
                !rest.is_empty() && count(rest) == rest.len()
            }
            _ => false,
        }
    }
}

/// Reads the body of a short packet, and whether it was cut off.
fn small(source: &mut dyn Read, length: Length, limit: u64) -> (Vec<u8>, bool) {
    let mut body = Body::new(source, length);
    let bytes = body.read_small(limit).unwrap_or_default();
    let is_truncated = body.is_truncated();
    (bytes, is_truncated)
}
