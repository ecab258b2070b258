//! `inline-sign`, `inline-verify` and `inline-detach`: messages that are signed and not encrypted,
//! and texts with cleartext signatures.

use std::io::{BufReader, BufWriter, Read, Write};
use std::time::SystemTime;

use sop::Password;
use sop::errors::Error;
use sop::ops::{self, InlineSignAs, Verification};
use talaria_message::{
    ArmorWriter, EncryptOptions, Held, Label, Literal, Message, MessageError, MessageKind,
    ReadLimits, ReadOptions, SigningKey, detach, pack, sign_cleartext, split_cleartext,
    verify_message,
};

use crate::buffer::{READ_BYTES, WRITE_BYTES, spool};
use crate::error::{self, Result};
use crate::material::{Certs, Keys, Sigs};
use crate::sign::Signers;
use crate::talaria::Talaria;
use crate::text;
use crate::verify::Acceptance;

/// The message in `data`, whose kind is known.
fn message(
    data: &mut (dyn Read + Send + Sync),
) -> Result<Message<BufReader<&mut (dyn Read + Send + Sync)>>> {
    Message::new(BufReader::with_capacity(READ_BYTES, data)).map_err(error::of_message)
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
        let message = message(self.data)?;
        let signatures = if message.kind() == MessageKind::SignedText {
            let signed = split_cleartext(&mut message.into_text()).map_err(error::of_message)?;
            sink.write_all(&signed.text)?;
            signed.signatures
        } else {
            let mut packets = message.into_packets().map_err(error::of_message)?;
            detach(&mut packets, &mut sink, ReadLimits::default()).map_err(error::of_message)?
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
        let mut held = Held::new(Box::new(spool));
        let mut options = ReadOptions::new(&spool);
        options.disposable = true;
        let received = verify_message(message(self.data)?, &mut held, &verifier, &options)
            .map_err(|error| match error {
                MessageError::OtherKind { found: MessageKind::Packed, .. } => {
                    error::because(Error::NoSignature, error)
                }
                error => error::of_message(error),
            })?;
        let verifications = acceptance.some_accepted(received.signatures())?;
        held.release(sink).map_err(error::of_message)?;
        Ok(verifications)
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
        let mut options = EncryptOptions::default();
        options.literal = Literal { text, ..Literal::default() };
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
