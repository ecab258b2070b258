//! `inline-sign`, `inline-verify` and `inline-detach`: messages that are signed and not encrypted, and texts
//! with cleartext signatures.

use std::io::{self, BufReader, BufWriter, Chain, Cursor, Read, Seek, Write};
use std::time::SystemTime;

use sop::Password;
use sop::errors::Error;
use sop::ops::{self, InlineSignAs, Verification};
use talaria_message::{
    ArmorWriter, CLEARTEXT_HEAD, EncryptOptions, Input, Label, Limits, Literal, SigningKey, detach,
    pack, sign_cleartext, split_cleartext, verify_cleartext, verify_inline,
};

use crate::decrypt::READ_BYTES;
use crate::encrypt::WRITE_BYTES;
use crate::error::{self, Result};
use crate::material::{Certs, Keys, Sigs};
use crate::sign::Signers;
use crate::talaria::Talaria;
use crate::text;
use crate::verify::Acceptance;

/// Octets of content that are held in memory until a signature was found good; more goes to a file.
const HELD_BYTES_MAX: usize = 8 << 20;

type Data<'d> = Chain<Cursor<Vec<u8>>, BufReader<&'d mut (dyn Read + Send + Sync)>>;

/// The two forms of a signed message.
enum Signed<'d> {
    Message(Input<Data<'d>>),
    Text(Data<'d>),
}

impl<'d> Signed<'d> {
    /// Looks at the start of the input.
    fn new(data: &'d mut (dyn Read + Send + Sync)) -> Result<Self> {
        let mut head = Vec::new();
        (&mut *data).take(READ_BYTES as u64).read_to_end(&mut head)?;
        let is_text = is_cleartext(&head);
        let data = Cursor::new(head).chain(BufReader::with_capacity(READ_BYTES, data));
        if is_text {
            return Ok(Self::Text(data));
        }
        Ok(Self::Message(Input::new(data).map_err(error::of_message)?))
    }
}

/// Whether the first armored block is a text with a cleartext signature.
fn is_cleartext(head: &[u8]) -> bool {
    if head.first().is_none_or(|octet| octet & 0x80 != 0) {
        return false;
    }
    let mut lines = head.split(|&octet| octet == b'\n').map(<[u8]>::trim_ascii_end);
    lines.find(|line| line.starts_with(b"-----BEGIN PGP ")) == Some(CLEARTEXT_HEAD.as_bytes())
}

/// What a cleartext signature covers, with line ends of this system: no white space at the end of lines.
fn covered(text: &[u8]) -> Vec<u8> {
    let line = |line: &[u8]| {
        let end = line.iter().rposition(|octet| !matches!(octet, b' ' | b'\t' | b'\r'));
        line[..end.map_or(0, |last| last + 1)].to_vec()
    };
    text.split(|&octet| octet == b'\n').map(line).collect::<Vec<_>>().join(&b'\n')
}

pub(crate) struct InlineDetach<'s> {
    sop: &'s Talaria,
}

impl<'s> InlineDetach<'s> {
    pub(crate) fn new(sop: &'s Talaria) -> Self {
        Self { sop }
    }
}

impl<'s> ops::InlineDetach<'s, Sigs<'s>> for InlineDetach<'s> {
    fn message<'d>(
        self: Box<Self>,
        data: &'d mut (dyn Read + Send + Sync),
    ) -> Result<Box<dyn ops::Ready<Sigs<'s>> + 'd>>
    where
        's: 'd,
    {
        Ok(Box::new(DetachThis { sop: self.sop, data }))
    }
}

struct DetachThis<'s, 'd> {
    sop: &'s Talaria,
    data: &'d mut (dyn Read + Send + Sync),
}

impl<'s> ops::Ready<Sigs<'s>> for DetachThis<'s, '_> {
    fn to_writer(self: Box<Self>, sink: &mut (dyn Write + Send + Sync)) -> Result<Sigs<'s>> {
        let mut sink = BufWriter::with_capacity(WRITE_BYTES, sink);
        let signatures = match Signed::new(self.data)? {
            Signed::Message(mut message) => {
                detach(&mut message, &mut sink, Limits::default()).map_err(error::of_message)?
            }
            Signed::Text(mut data) => {
                let (text, signatures) = split_cleartext(&mut data).map_err(error::of_message)?;
                sink.write_all(&covered(&text))?;
                signatures
            }
        };
        sink.flush()?;
        Ok(Sigs::new(signatures, self.sop))
    }
}

type DynVerify<'s> = dyn ops::InlineVerify<'s, Talaria, Certs<'s>> + 's;

pub(crate) struct InlineVerify<'s> {
    sop: &'s Talaria,
    acceptance: Acceptance,
}

impl<'s> InlineVerify<'s> {
    pub(crate) fn new(sop: &'s Talaria) -> Self {
        Self { sop, acceptance: Acceptance::default() }
    }
}

impl<'s> ops::InlineVerify<'s, Talaria, Certs<'s>> for InlineVerify<'s> {
    fn not_before(mut self: Box<Self>, time: SystemTime) -> Box<DynVerify<'s>> {
        self.acceptance.not_before = Some(time);
        self
    }

    fn not_after(mut self: Box<Self>, time: SystemTime) -> Box<DynVerify<'s>> {
        self.acceptance.not_after = Some(time);
        self
    }

    fn certs(mut self: Box<Self>, certs: &Certs<'s>) -> Result<Box<DynVerify<'s>>> {
        self.acceptance.add(certs)?;
        Ok(self)
    }

    fn message<'d>(
        self: Box<Self>,
        data: &'d mut (dyn Read + Send + Sync),
    ) -> Result<Box<dyn ops::Ready<Vec<Verification>> + 'd>>
    where
        's: 'd,
    {
        if self.acceptance.is_empty() {
            return Err(Error::MissingArg);
        }
        Ok(Box::new(VerifyThis { verify: *self, data }))
    }
}

struct VerifyThis<'s, 'd> {
    verify: InlineVerify<'s>,
    data: &'d mut (dyn Read + Send + Sync),
}

impl ops::Ready<Vec<Verification>> for VerifyThis<'_, '_> {
    /// Nothing leaves before a signature of all of it was found good.
    fn to_writer(
        self: Box<Self>,
        sink: &mut (dyn Write + Send + Sync),
    ) -> Result<Vec<Verification>> {
        let InlineVerify { sop, acceptance } = &self.verify;
        let verifier = acceptance.verifier(sop);
        match Signed::new(self.data)? {
            Signed::Message(mut message) => {
                let mut held = tempfile::spooled_tempfile(HELD_BYTES_MAX);
                let (_, reports) =
                    verify_inline(&mut message, &mut held, &verifier, Limits::default())
                        .map_err(error::of_message)?;
                let verifications = acceptance.some_accepted(&reports)?;
                held.rewind()?;
                io::copy(&mut BufReader::with_capacity(WRITE_BYTES, held), sink)?;
                Ok(verifications)
            }
            Signed::Text(mut data) => {
                let (text, reports) =
                    verify_cleartext(&mut data, &verifier).map_err(error::of_message)?;
                let verifications = acceptance.some_accepted(&reports)?;
                sink.write_all(&covered(&text))?;
                sink.flush()?;
                Ok(verifications)
            }
        }
    }
}

type DynSign<'s> = dyn ops::InlineSign<'s, Talaria, Keys<'s>> + 's;

pub(crate) struct InlineSign<'s> {
    sop: &'s Talaria,
    armor: bool,
    mode: InlineSignAs,
    signers: Signers,
}

impl<'s> InlineSign<'s> {
    pub(crate) fn new(sop: &'s Talaria) -> Self {
        Self { sop, armor: true, mode: InlineSignAs::default(), signers: Signers::default() }
    }
}

impl<'s> ops::InlineSign<'s, Talaria, Keys<'s>> for InlineSign<'s> {
    fn no_armor(mut self: Box<Self>) -> Box<DynSign<'s>> {
        self.armor = false;
        self
    }

    fn mode(mut self: Box<Self>, mode: InlineSignAs) -> Box<DynSign<'s>> {
        self.mode = mode;
        self
    }

    fn keys(mut self: Box<Self>, keys: &Keys<'s>) -> Result<Box<DynSign<'s>>> {
        self.signers.add(keys);
        Ok(self)
    }

    fn with_key_password(mut self: Box<Self>, password: Password) -> Result<Box<DynSign<'s>>> {
        self.signers.passwords.add(&password);
        Ok(self)
    }

    fn data<'d>(
        self: Box<Self>,
        data: &'d mut (dyn Read + Send + Sync),
    ) -> Result<Box<dyn ops::Ready + 'd>>
    where
        's: 'd,
    {
        if self.signers.is_empty() {
            return Err(Error::MissingArg);
        }
        if self.mode == InlineSignAs::ClearSigned && !self.armor {
            return Err(Error::IncompatibleOptions);
        }
        let signers = self.signers.unlocked(self.sop)?;
        Ok(Box::new(SignThis { sign: *self, signers, data }))
    }
}

struct SignThis<'s, 'd> {
    sign: InlineSign<'s>,
    signers: Vec<SigningKey>,
    data: &'d mut (dyn Read + Send + Sync),
}

impl ops::Ready for SignThis<'_, '_> {
    fn to_writer(self: Box<Self>, sink: &mut (dyn Write + Send + Sync)) -> Result<()> {
        let Self { sign: InlineSign { sop, armor, mode, .. }, mut signers, data } = *self;
        let text = mode != InlineSignAs::Binary;
        let input = text::input(data, text);
        let mut sink = BufWriter::with_capacity(WRITE_BYTES, sink);
        let options = EncryptOptions {
            literal: Literal { text, ..Literal::default() },
            ..EncryptOptions::default()
        };
        let signed = if mode == InlineSignAs::ClearSigned {
            let mut input = BufReader::with_capacity(READ_BYTES, input);
            sign_cleartext(&mut input, &mut sink, &mut signers, sop.now)
        } else if armor {
            let mut armor =
                ArmorWriter::new(&mut sink, Label::Message).map_err(error::of_message)?;
            pack(input, &mut armor, &mut signers, &options, sop.now)
                .and_then(|()| armor.finish().map(drop))
        } else {
            pack(input, &mut sink, &mut signers, &options, sop.now)
        };
        signed.map_err(error::of_message)?;
        Ok(sink.flush()?)
    }
}
