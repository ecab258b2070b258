//! Parsing of certificates and keys from untrusted bytes into Sequoia's [`Cert`].
//!
//! This module is the only place that turns bytes into a [`Cert`]. Sequoia panics when it computes
//! the fingerprint of a key up to version 4 that is too long to be hashed (RFC 9580, section 5.5.4:
//! the length has two bytes). Anybody can append such a subkey to anybody's certificate. No
//! signature can bind the subkey, so this module skips it.

use std::borrow::Cow;

use openpgp::cert::CertParser;
use openpgp::packet::key::{KeyParts, KeyRole, PublicParts, UnspecifiedRole};
use openpgp::packet::{Key, Packet, Tag};
use openpgp::parse::{Dearmor, PacketParserBuilder, PacketParserResult, Parse as _};
use openpgp::serialize::MarshalInto as _;
use openpgp::{Cert, anyhow};
use sequoia_openpgp as openpgp;
use talaria_cert::{KEY_BYTES_MAX, PacketRef};

use crate::armor::unarmored;
use crate::error::{MessageError, Result};
use crate::framing;
use crate::guard::guarded;

/// Applies `look` to a key in the form in which stores have it; `None` for a kind of key that they do
/// not support.
pub fn with_stored<P: KeyParts, R: KeyRole, T>(
    key: &Key<P, R>,
    look: impl FnOnce(&talaria_cert::Key<'_>) -> T,
) -> Option<T> {
    let body = key.parts_as_public().role_as_primary().to_vec().ok()?;
    let packet = PacketRef { tag: talaria_cert::Tag::PUBLIC_KEY, body: &body };
    talaria_cert::Key::parse(packet).ok().map(|key| look(&key))
}

/// The certificates and keys in `bytes`: packets, or one or more armored blocks of packets. Data
/// between certificates that is no certificate gives an error at its position.
///
/// Keys that no signature can cover are skipped, together with their signatures and, for a primary
/// key, the whole certificate.
///
/// # Errors
///
/// [`MessageError::Malformed`] if there are neither packets nor an armored block.
pub fn read_certs(bytes: &[u8]) -> Result<Vec<openpgp::Result<Cert>>> {
    const NONE: MessageError =
        MessageError::Malformed("the input is neither a certificate nor a key");
    let packets = unarmored(bytes)?;
    let first = guarded(|| {
        let builder = PacketParserBuilder::from_bytes(&packets)?;
        builder.dearmor(Dearmor::Disabled).build()
    });
    let first = first.and_then(openpgp::Result::ok).ok_or(NONE)?;
    let packets = Packets { rest: Some(first), leaving: Leaving::Nothing };
    let mut parser = CertParser::from_iter(packets);
    let mut certs = Vec::new();
    loop {
        match guarded(|| parser.next()) {
            Some(Some(cert)) => certs.push(cert),
            Some(None) => return Ok(certs),
            // The state of the parser is unknown, so nothing behind this certificate is read.
            None => {
                certs.push(Err(anyhow::anyhow!("the certificate is malformed")));
                return Ok(certs);
            }
        }
    }
}

/// The first certificate in `bytes`, parsed like [`read_certs`] does.
///
/// # Errors
///
/// The parse error of the first certificate, or an error if there is no certificate.
pub fn read_cert(bytes: &[u8]) -> openpgp::Result<Cert> {
    let first = read_certs(bytes)?.into_iter().next();
    first.unwrap_or_else(|| Err(anyhow::anyhow!("no certificate found")))
}

/// The key in the body of a public key packet.
///
/// # Errors
///
/// [`MessageError::Malformed`] if that is not a key.
pub fn read_key(body: &[u8]) -> Result<Key<PublicParts, UnspecifiedRole>> {
    const NONE: MessageError = MessageError::Malformed("the packet is not a key");
    let mut packet = Vec::new();
    framing::write_packet(&mut packet, Tag::PublicKey.into(), body)?;
    // A certificate may have no more than its primary key.
    let cert = read_cert(&packet).map_err(|_| NONE)?;
    Ok(cert.primary_key().key().clone().role_into_unspecified())
}

/// A description of the unsupported certificate for which [`read_certs`] returned this error;
/// `None` if the error has another reason.
#[must_use]
pub fn unsupported_cert(error: &anyhow::Error) -> Option<&'static str> {
    let openpgp::Error::UnsupportedCert(_, packets) = error.downcast_ref()? else { return None };
    let Packet::Unknown(first) = packets.first()? else { return None };
    match first.body().first()? {
        2 | 3 => Some("a key of version 3, which is not supported"),
        5 => Some("a key of version 5 (LibrePGP), which is not supported"),
        _ => None,
    }
}

/// `cert` without subkeys that no signature can cover. For certificates that the caller parsed
/// without this module.
pub(crate) fn sound(cert: &Cert) -> Cow<'_, Cert> {
    if cert.keys().subkeys().any(|key| is_oversized(key.key())) {
        Cow::Owned(cert.clone().retain_subkeys(|key| !is_oversized(key.key())))
    } else {
        Cow::Borrowed(cert)
    }
}

fn is_oversized<P: KeyParts, R: KeyRole>(key: &Key<P, R>) -> bool {
    // The hashed bytes: version, creation time, algorithm, key material.
    key.version() < 6 && 6 + key.mpis().serialized_len() > KEY_BYTES_MAX
}

/// The packets to skip after a key that was skipped.
#[derive(Clone, Copy, Eq, PartialEq)]
enum Leaving {
    Nothing,
    /// The signatures on the skipped subkey.
    Signatures,
    /// The rest of the certificate of the skipped primary key.
    Certificate,
}

/// The packets of certificates, without keys that no signature can cover and the packets that
/// belong to these keys.
struct Packets<'a> {
    rest: Option<PacketParserResult<'a>>,
    leaving: Leaving,
}

impl Packets<'_> {
    fn next_of_all(&mut self) -> Option<openpgp::Result<Packet>> {
        let Some(PacketParserResult::Some(mut parser)) = self.rest.take() else { return None };
        // A signature that cannot be parsed must stay whole.
        if let Packet::Unknown(_) = parser.packet
            && let Err(error) = parser.buffer_unread_content()
        {
            return Some(Err(error));
        }
        Some(parser.next().map(|(packet, rest)| {
            self.rest = Some(rest);
            readable(packet)
        }))
    }

    fn is_left_aside(&mut self, packet: &Packet) -> bool {
        let oversized = match packet {
            Packet::PublicKey(key) => is_oversized(key),
            Packet::PublicSubkey(key) => is_oversized(key),
            Packet::SecretKey(key) => is_oversized(key),
            Packet::SecretSubkey(key) => is_oversized(key),
            _ => false,
        };
        self.leaving = match packet.tag() {
            Tag::PublicKey | Tag::SecretKey if oversized => Leaving::Certificate,
            Tag::PublicKey | Tag::SecretKey => Leaving::Nothing,
            _ if self.leaving == Leaving::Certificate => Leaving::Certificate,
            Tag::PublicSubkey | Tag::SecretSubkey if oversized => Leaving::Signatures,
            Tag::Signature | Tag::Marker | Tag::Trust | Tag::Padding => self.leaving,
            _ => Leaving::Nothing,
        };
        self.leaving != Leaving::Nothing
    }
}

/// `packet` in a form that Sequoia can parse. Sequoia rejects a whole signature with a malformed
/// unhashed area, where anybody can write.
fn readable(packet: Packet) -> Packet {
    let Packet::Unknown(unknown) = &packet else { return packet };
    if unknown.tag() != Tag::Signature {
        return packet;
    }
    let plain = talaria_cert::plain_signature(unknown.body());
    let signature = plain.and_then(|body| openpgp::packet::Signature::from_bytes(&body).ok());
    signature.map_or(packet, Packet::from)
}

impl Iterator for Packets<'_> {
    type Item = openpgp::Result<Packet>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let packet = self.next_of_all()?;
            if !packet.as_ref().is_ok_and(|packet| self.is_left_aside(packet)) {
                return Some(packet);
            }
        }
    }
}
