//! `armor` and `dearmor`

use std::io::{self, BufRead as _, BufReader, BufWriter, Cursor, Read, Write};

use sop::errors::Error;
use sop::ops::{self, ArmorLabel};
use talaria_message::openpgp::packet::Tag;
use talaria_message::openpgp::packet::header::{BodyLength, Header};
use talaria_message::openpgp::parse::Parse as _;
use talaria_message::{ArmorInput, ArmorWriter, Label};

use crate::buffer::{READ_BYTES, WRITE_BYTES};
use crate::error::{self, Result};

pub(crate) struct Armor;

impl<'s> ops::Armor<'s> for Armor {
    /// The draft has no labels any more.
    fn label(self: Box<Self>, _: ArmorLabel) -> Box<dyn ops::Armor<'s> + 's> {
        self
    }

    fn data<'d>(
        self: Box<Self>,
        data: &'d mut (dyn Read + Send + Sync),
    ) -> Result<Box<dyn ops::Ready + 'd>>
    where
        's: 'd,
    {
        Ok(Box::new(ArmorThis(data)))
    }
}

struct ArmorThis<'d>(&'d mut (dyn Read + Send + Sync));

impl ops::Ready for ArmorThis<'_> {
    fn to_writer(self: Box<Self>, sink: &mut (dyn Write + Send + Sync)) -> Result<()> {
        let mut head = Vec::new();
        (&mut *self.0).take(READ_BYTES as u64).read_to_end(&mut head)?;
        let label = label(&head)?;
        let mut input = Cursor::new(head).chain(self.0);
        let mut sink = BufWriter::with_capacity(WRITE_BYTES, sink);
        match label {
            Some(label) => {
                let mut armor = ArmorWriter::new(&mut sink, label).map_err(error::of_message)?;
                io::copy(&mut input, &mut armor)?;
                armor.finish().map_err(error::of_message)?;
            }
            None => drop(io::copy(&mut input, &mut sink)?),
        }
        Ok(sink.flush()?)
    }
}

/// The kind of data that starts with `head`; `None` if it is armored already.
fn label(head: &[u8]) -> Result<Option<Label>> {
    let bad = |why: &str| Err(error::because(Error::BadData, why));
    if head.trim_ascii_start().starts_with(b"-----BEGIN PGP ") {
        return Ok(None);
    }
    let mut rest = Cursor::new(head);
    let Ok(first) = Header::from_reader(&mut rest) else {
        return bad("the data are not OpenPGP data");
    };
    Ok(Some(match first.ctb().tag() {
        Tag::PublicKey => Label::PublicKey,
        Tag::SecretKey => Label::PrivateKey,
        // Signatures alone are detached ones; in front of something they belong to a message.
        Tag::Signature if only_signatures(head) => Label::Signature,
        Tag::Signature
        | Tag::PKESK
        | Tag::SKESK
        | Tag::OnePassSig
        | Tag::CompressedData
        | Tag::Literal
        | Tag::SEIP
        | Tag::SED
        | Tag::AED
        | Tag::Marker
        | Tag::Padding => Label::Message,
        _ => return bad("its first packet cannot start OpenPGP data"),
    }))
}

fn only_signatures(head: &[u8]) -> bool {
    let mut rest = head;
    while !rest.is_empty() {
        let mut reader = Cursor::new(rest);
        let Ok(header) = Header::from_reader(&mut reader) else { return true };
        if header.ctb().tag() != Tag::Signature {
            return false;
        }
        let BodyLength::Full(length) = header.length() else { return true };
        let start = usize::try_from(reader.position()).unwrap_or(usize::MAX);
        rest = rest.get(start.saturating_add(*length as usize)..).unwrap_or_default();
    }
    true
}

pub(crate) struct Dearmor;

impl<'s> ops::Dearmor<'s> for Dearmor {
    fn data<'d>(
        self: Box<Self>,
        data: &'d mut (dyn Read + Send + Sync),
    ) -> Result<Box<dyn ops::Ready + 'd>>
    where
        's: 'd,
    {
        Ok(Box::new(DearmorThis(data)))
    }
}

struct DearmorThis<'d>(&'d mut (dyn Read + Send + Sync));

impl ops::Ready for DearmorThis<'_> {
    fn to_writer(self: Box<Self>, sink: &mut (dyn Write + Send + Sync)) -> Result<()> {
        let mut input = BufReader::with_capacity(READ_BYTES, self.0);
        if input.fill_buf()?.is_empty() {
            return Err(error::because(Error::BadData, "the input is empty"));
        }
        let mut input = ArmorInput::new(input).map_err(error::of_message)?;
        if input.label() == Some("PGP SIGNED MESSAGE") {
            let why = "a text with a cleartext signature is not ASCII armor";
            return Err(error::because(Error::BadData, why));
        }
        let mut sink = BufWriter::with_capacity(WRITE_BYTES, sink);
        io::copy(&mut input, &mut sink).map_err(bad_armor)?;
        Ok(sink.flush()?)
    }
}

/// Damage in armor comes as an error of reading.
fn bad_armor(error: io::Error) -> Error {
    match error.downcast::<talaria_message::MessageError>() {
        Ok(ours) => error::of_message(ours),
        Err(error) => Error::IoError(error),
    }
}
