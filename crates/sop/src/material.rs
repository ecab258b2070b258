//! KEYS, CERTS and SIGNATURES: what operations take and give.

use std::io::{Read, Write};

use sop::errors::Error;
use sop::plumbing::SopRef;
use sop::{Load, Save};
use talaria_message::openpgp::serialize::MarshalInto as _;
use talaria_message::openpgp::{self, Cert};
use talaria_message::{ArmorWriter, Label, keep_secrets_in_memory, read_signatures, unarmored};
use zeroize::Zeroizing;

use crate::error::{self, Result, say};
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
            return Err(error::because(Error::BadData, "no secret key found"));
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
            return Err(error::because(
                Error::BadData,
                "found a secret key where only certificates are allowed",
            ));
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
        let packets = read_signatures(source).map_err(error::of_message)?;
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
    let mut raw = Zeroizing::new(Vec::new());
    source.read_to_end(&mut raw)?;
    Ok(unarmored(&raw).map_err(error::of_message)?.into_owned())
}

/// At least one certificate. Those of versions that are not known are passed over.
fn read_certs(source: &mut (dyn Read + Send + Sync)) -> Result<Vec<Cert>> {
    let packets = Zeroizing::new(read_packets(source)?);
    let mut certs = Vec::new();
    for cert in talaria_message::read_certs(&packets).map_err(error::of_message)? {
        match cert {
            Ok(cert) => certs.push(cert),
            Err(why) if is_unsupported(why.downcast_ref()) => say(format_args!("{why}")),
            Err(why) => return Err(error::because(Error::BadData, why)),
        }
    }
    if certs.is_empty() {
        return Err(error::because(Error::BadData, "no certificate found"));
    }
    Ok(certs)
}

fn is_unsupported(error: Option<&openpgp::Error>) -> bool {
    matches!(error, Some(openpgp::Error::UnsupportedCert(..)))
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
