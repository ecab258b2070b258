//! KEYS, CERTS and SIGNATURES: what operations take and give.

use std::io::{Read, Write};

use sop::errors::Error;
use sop::plumbing::SopRef;
use sop::{Load, Save};
use talaria_message::openpgp::parse::{PacketParser, PacketParserResult, Parse as _};
use talaria_message::openpgp::serialize::MarshalInto as _;
use talaria_message::openpgp::{self, Cert, Packet};
use talaria_message::{ArmorReader, ArmorWriter, Label, keep_secrets_in_memory};
use zeroize::Zeroizing;

use crate::error::{self, Result};
use crate::talaria::Talaria;

/// Certificates with secret keys.
pub(crate) struct Keys<'s> {
    pub(crate) certs: Vec<Cert>,
    sop: &'s Talaria,
    source: Option<String>,
}

/// Certificates without secret keys.
#[expect(clippy::struct_field_names, reason = "as in Keys, which have certificates, too")]
pub(crate) struct Certs<'s> {
    pub(crate) certs: Vec<Cert>,
    sop: &'s Talaria,
    source: Option<String>,
}

/// Detached signatures.
pub(crate) struct Sigs<'s> {
    /// Signature packets.
    pub(crate) packets: Vec<u8>,
    sop: &'s Talaria,
    source: Option<String>,
}

impl<'s> Keys<'s> {
    pub(crate) fn new(certs: Vec<Cert>, sop: &'s Talaria) -> Self {
        Self { certs, sop, source: None }
    }
}

impl<'s> Certs<'s> {
    pub(crate) fn new(certs: Vec<Cert>, sop: &'s Talaria) -> Self {
        Self { certs, sop, source: None }
    }
}

impl<'s> Sigs<'s> {
    pub(crate) fn new(packets: Vec<u8>, sop: &'s Talaria) -> Self {
        Self { packets, sop, source: None }
    }
}

impl<'s> Load<'s, Talaria> for Keys<'s> {
    fn from_reader(
        sop: &'s Talaria,
        source: &mut (dyn Read + Send + Sync),
        name: Option<String>,
    ) -> Result<Self> {
        keep_secrets_in_memory();
        let certs = read_certs(source)?;
        if !certs.iter().all(Cert::is_tsk) {
            return Err(error::because(Error::BadData, "there is no secret key"));
        }
        Ok(Self { certs, sop, source: name })
    }

    fn source_name(&self) -> Option<&str> {
        self.source.as_deref()
    }
}

impl<'s> Load<'s, Talaria> for Certs<'s> {
    fn from_reader(
        sop: &'s Talaria,
        source: &mut (dyn Read + Send + Sync),
        name: Option<String>,
    ) -> Result<Self> {
        let certs = read_certs(source)?;
        if certs.iter().any(Cert::is_tsk) {
            return Err(error::because(Error::BadData, "there is a secret key where none belongs"));
        }
        Ok(Self { certs, sop, source: name })
    }

    fn source_name(&self) -> Option<&str> {
        self.source.as_deref()
    }
}

impl<'s> Load<'s, Talaria> for Sigs<'s> {
    fn from_reader(
        sop: &'s Talaria,
        source: &mut (dyn Read + Send + Sync),
        name: Option<String>,
    ) -> Result<Self> {
        let packets = read_packets(source)?;
        if !are_signatures(&packets) {
            return Err(error::because(Error::BadData, "there are no detached signatures"));
        }
        Ok(Self { packets, sop, source: name })
    }

    fn source_name(&self) -> Option<&str> {
        self.source.as_deref()
    }
}

impl Save for Keys<'_> {
    fn to_writer(&self, armored: bool, sink: &mut (dyn Write + Send + Sync)) -> Result<()> {
        let pieces = self.certs.iter().map(|cert| cert.as_tsk().to_vec());
        write_packets(pieces, armored.then_some(Label::PrivateKey), sink)
    }
}

impl Save for Certs<'_> {
    fn to_writer(&self, armored: bool, sink: &mut (dyn Write + Send + Sync)) -> Result<()> {
        let pieces = self.certs.iter().map(openpgp::serialize::MarshalInto::to_vec);
        write_packets(pieces, armored.then_some(Label::PublicKey), sink)
    }
}

impl Save for Sigs<'_> {
    fn to_writer(&self, armored: bool, sink: &mut (dyn Write + Send + Sync)) -> Result<()> {
        let pieces = std::iter::once(Ok(self.packets.clone()));
        write_packets(pieces, armored.then_some(Label::Signature), sink)
    }
}

impl<'s> SopRef<'s, Talaria> for Keys<'s> {
    fn sop(&self) -> &'s Talaria {
        self.sop
    }
}

impl<'s> SopRef<'s, Talaria> for Certs<'s> {
    fn sop(&self) -> &'s Talaria {
        self.sop
    }
}

impl<'s> SopRef<'s, Talaria> for Sigs<'s> {
    fn sop(&self) -> &'s Talaria {
        self.sop
    }
}

/// Packets, out of one or more armored blocks if they are in armor.
fn read_packets(source: &mut (dyn Read + Send + Sync)) -> Result<Vec<u8>> {
    let mut raw = Vec::new();
    source.read_to_end(&mut raw)?;
    if raw.first().is_some_and(|octet| octet & 0x80 != 0) {
        return Ok(raw);
    }
    let mut rest = &raw[..];
    let mut packets = Vec::new();
    loop {
        match ArmorReader::new(&mut rest) {
            Ok(mut armor) => {
                armor
                    .read_to_end(&mut packets)
                    .map_err(|why| error::because(Error::BadData, why))?;
            }
            Err(_) if !packets.is_empty() => return Ok(packets),
            Err(why) => return Err(error::of_message(why)),
        }
    }
}

/// At least one certificate. Those of versions that are not known are passed over.
fn read_certs(source: &mut (dyn Read + Send + Sync)) -> Result<Vec<Cert>> {
    let packets = Zeroizing::new(read_packets(source)?);
    let mut certs = Vec::new();
    for cert in talaria_message::read_certs(&packets).map_err(error::of_message)? {
        match cert {
            Ok(cert) => certs.push(cert),
            Err(why) if is_unsupported(why.downcast_ref()) => eprintln!("{why}"),
            Err(why) => return Err(error::because(Error::BadData, why)),
        }
    }
    if certs.is_empty() {
        return Err(error::because(Error::BadData, "there is no certificate"));
    }
    Ok(certs)
}

fn is_unsupported(error: Option<&openpgp::Error>) -> bool {
    matches!(error, Some(openpgp::Error::UnsupportedCert(..)))
}

fn are_signatures(packets: &[u8]) -> bool {
    let Ok(mut parser) = PacketParser::from_bytes(packets) else { return false };
    while let PacketParserResult::Some(packet) = parser {
        let Ok((packet, rest)) = packet.next() else { return false };
        let is_signature = match &packet {
            Packet::Signature(_) | Packet::Marker(_) | Packet::Padding(_) => true,
            Packet::Unknown(unknown) => unknown.tag() == openpgp::packet::Tag::Signature,
            _ => false,
        };
        if !is_signature {
            return false;
        }
        parser = rest;
    }
    !packets.is_empty()
}

fn write_packets(
    pieces: impl Iterator<Item = openpgp::Result<Vec<u8>>>,
    label: Option<Label>,
    sink: &mut (dyn Write + Send + Sync),
) -> Result<()> {
    let packets = pieces.collect::<openpgp::Result<Vec<_>>>().map_err(error::unspecified)?.concat();
    if let Some(label) = label {
        let mut armor = ArmorWriter::new(sink, label).map_err(error::of_message)?;
        armor.write_all(&packets)?;
        armor.finish().map_err(error::of_message)?;
    } else {
        sink.write_all(&packets)?;
        sink.flush()?;
    }
    Ok(())
}
