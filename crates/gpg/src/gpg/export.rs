//! `--export`: certificates of the keyrings without what is only for their owner.

use std::ffi::OsString;
use std::io::{IsTerminal as _, Write as _};

use talaria_cert::{Fingerprint, Key, PacketRef, Signature, Tag, enarmor};

use crate::code::{Code, Exit};
use crate::descriptor;
use crate::framing::{self, Header, Length};
use crate::gpg::handover::Reason;
use crate::gpg::list::Chosen;
use crate::gpg::start::Started;

/// Packets with comments, which older releases of GnuPG made.
const COMMENTS: [u8; 2] = [16, 61];

/// The class of a revoker that is nobody's business.
const SENSITIVE: u8 = 0x40;

/// The certificates of an export.
pub(crate) struct Export {
    content: Vec<u8>,
    exported: Vec<Fingerprint>,
}

impl Export {
    /// Finds the certificates that `words` name, or all.
    ///
    /// # Errors
    ///
    /// [`Reason`] if the real gpg must export them.
    pub(crate) fn find(started: &Started, words: &[OsString]) -> Result<Self, Reason> {
        let needs = |what: &str| Reason::Undone(format!("an export {what}"));
        let settings = &started.settings;
        let is_shown = settings.output.is_none() && std::io::stdout().is_terminal();
        if is_shown && !settings.armor || settings.verbose > 0 {
            return Err(needs("to a terminal, or with texts"));
        }
        let chosen = Chosen::find(started, words).map_err(needs)?;
        let (mut content, mut exported) = (Vec::new(), Vec::new());
        for raw in chosen.certs() {
            let raw = &raw.ok_or_else(|| needs("of a damaged keyring"))?;
            let first = talaria_cert::first_packet(raw).and_then(|packet| Key::parse(packet).ok());
            let first = first.ok_or_else(|| needs("of such a key"))?;
            exported.push(first.fingerprint());
            add(&mut content, raw).ok_or_else(|| needs("of packets in another form"))?;
        }
        Ok(Self { content, exported })
    }

    /// Writes the certificates.
    ///
    /// # Errors
    ///
    /// [`Exit`] with 2 if that fails.
    pub(crate) fn write(self, started: &Started) -> Result<(), Exit> {
        let Started { session, settings, .. } = started;
        started.begin();
        let armored = settings.armor.then(|| enarmor(&self.content).into_bytes());
        let content = armored.unwrap_or(self.content);
        let name = settings.output.clone().unwrap_or_else(|| "-".into());
        let count = self.exported.len();
        let written = if count == 0 {
            Ok(())
        } else {
            descriptor::create(&name, session.specials)
                .and_then(|mut file| file.write_all(&content).and_then(|()| file.flush()))
        };
        for fingerprint in &self.exported {
            session.status.line(&format!("EXPORTED {fingerprint}"));
        }
        session.status.line(&format!("EXPORT_RES {count} 0 {count}"));
        if let Err(error) = written {
            let (name, why) = (name.to_string_lossy(), Code::system(&error));
            session.log.error(format!("error writing to '{name}': {}", why.text()));
            return Err(Exit(2));
        }
        if count == 0 {
            session.log.info("WARNING: nothing exported");
        }
        Ok(())
    }
}

/// Adds the packets of a certificate that are for others; `None` if GnuPG would write one in
/// another form.
fn add(out: &mut Vec<u8>, raw: &[u8]) -> Option<()> {
    const NEW_FORMAT: u8 = 0x40;
    let mut rest = raw;
    while !rest.is_empty() {
        let mut behind = rest;
        let Header::Packet(tag, Length::Definite(bytes)) = framing::header(&mut behind).ok()?
        else {
            return None;
        };
        let body = behind.get(..usize::try_from(bytes).ok()?)?;
        let end = rest.len() - behind.len() + body.len();
        // Only types above 15 need the newer form.
        if rest[0] & NEW_FORMAT != 0 && tag < 16 {
            return None;
        }
        let packet = PacketRef { tag: Tag(tag), body };
        let is_left_out = packet.tag == Tag::TRUST
            || COMMENTS.contains(&tag)
            || packet.tag == Tag::SIGNATURE && is_private(body);
        if !is_left_out {
            out.extend_from_slice(&rest[..end]);
        }
        rest = &rest[end..];
    }
    Some(())
}

/// Whether a signature is only for its maker.
fn is_private(body: &[u8]) -> bool {
    const REVOKER: u8 = 12;
    let names_secretly =
        crate::signature::SignaturePacket::parse(body.to_vec(), false).is_ok_and(|signature| {
            let mut revokers = signature.hashed(REVOKER);
            revokers.any(|found| found.body.first().is_some_and(|class| class & SENSITIVE != 0))
        });
    names_secretly || Signature::parse(body).is_some_and(|signature| !signature.exportable)
}
