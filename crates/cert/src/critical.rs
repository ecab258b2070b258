//! Critical subpackets (RFC 9580, section 5.2.3.7): subpackets that the reader of a signature must
//! understand. A signature with a critical subpacket that the reader does not understand does not
//! count.
//!
//! The list of understood subpackets is GnuPG's (`docs/gnupg.md` compares it with `gpgv` and `sq`),
//! plus the signer's user ID and the intended recipients. No other module decides about critical
//! subpackets.

use crate::fingerprint::Fingerprint;
use crate::signature::{Signature, Subpacket, Subpackets};

/// The object of a signature, and what its reader understands.
#[derive(Clone, Copy, Debug)]
pub enum Context<'c> {
    /// A part of a certificate. Subpackets in the unhashed area are ignored, since anybody may have
    /// put them there. A revocation counts whatever its critical subpackets are, unlike in GnuPG:
    /// it is safer to accept one revocation too many.
    Certificate,
    /// A document.
    Document {
        /// The names of notations that the caller understands.
        notations: &'c [String],
        /// The certificates whose key decrypted the document; empty if it was not encrypted.
        recipients: &'c [Fingerprint],
    },
}

/// A critical subpacket that is not understood, or whose condition is not met.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub enum Incomprehensible {
    /// A notation that the reader does not know.
    #[error("a critical notation is unknown")]
    Notation,
    /// The document is for other recipients.
    #[error("the signature is for other recipients")]
    Recipient,
    /// A subpacket of any other type.
    #[error("a critical subpacket (type {0}) is unknown")]
    Part(u8),
    /// A subpacket whose length does not fit, and which may be critical.
    #[error("its subpackets are malformed, and one of them may be critical")]
    Cut,
}

/// Notations that are understood in every context, as in GnuPG.
pub const KNOWN_NOTATIONS: [&str; 2] =
    ["preferred-email-encoding@pgp.com", "pka-address@gnupg.org"];

/// The notation of signatures on entries of a log (`docs/formats/log.md`). A signature with it is
/// on no document, and a signature without it is on no entry.
pub const LOG_NOTATION: &str = "log@talaria.example";

/// Whether a critical subpacket of this type is understood, whatever its content.
#[must_use]
pub fn is_known_subpacket(kind: u8) -> bool {
    matches!(
        kind,
        // Creation and expiry time, exportable, trust, its expression, revocable, key expiry.
        2..=7 | 9
        // Preferred ciphers, revoker, issuer.
        | 11 | 12 | 16
        // Preferred digests, compression, keyserver; primary user ID, policy, key flags.
        | 21 | 22 | 24..=27
        // Signer's user ID, reason for revocation, features, embedded signature, issuer, AEAD.
        | 28..=30 | 32..=34
        // Attested certifications.
        | 37
    )
}

impl Signature<'_> {
    /// Checks that the reader understands all critical subpackets of the signature.
    ///
    /// # Errors
    ///
    /// The first subpacket that is not understood. The signature then does not count.
    pub fn understood(&self, context: &Context<'_>) -> Result<(), Incomprehensible> {
        let unhashed: &[u8] = match context {
            Context::Certificate if self.revokes() => return Ok(()),
            Context::Certificate => &[],
            Context::Document { .. } => self.unhashed_area,
        };
        // One matching recipient is enough, if it is in the hashed area.
        let (mut for_some, mut for_us) = (false, false);
        for subpacket in Subpackets(self.hashed_area) {
            let Subpacket { kind, critical, body } = subpacket.ok_or(Incomprehensible::Cut)?;
            if kind == INTENDED_RECIPIENT {
                for_some |= critical;
                for_us |= names_recipient(body, context);
            } else if critical {
                self.known(kind, body, context)?;
            }
        }
        for subpacket in Subpackets(unhashed) {
            let Subpacket { kind, critical, body } = subpacket.ok_or(Incomprehensible::Cut)?;
            if critical {
                self.known(kind, body, context)?;
            }
        }
        if for_some && !for_us { Err(Incomprehensible::Recipient) } else { Ok(()) }
    }

    /// Whether the signature is on an entry of a log. Only the hashed area counts: anybody can add
    /// to the other.
    #[must_use]
    pub fn is_of_log(&self) -> bool {
        Subpackets(self.hashed_area).flatten().any(|subpacket| {
            subpacket.kind == NOTATION && notation(subpacket.body) == Some(LOG_NOTATION.as_bytes())
        })
    }

    fn known(&self, kind: u8, body: &[u8], context: &Context<'_>) -> Result<(), Incomprehensible> {
        match kind {
            _ if self.is_known(kind, body, context) => Ok(()),
            NOTATION => Err(Incomprehensible::Notation),
            _ => Err(Incomprehensible::Part(kind)),
        }
    }

    fn is_known(&self, kind: u8, body: &[u8], context: &Context<'_>) -> bool {
        match kind {
            _ if is_known_subpacket(kind) => true,
            NOTATION => notation(body).is_some_and(|name| {
                KNOWN_NOTATIONS.iter().any(|known| known.as_bytes() == name)
                    || matches!(context, Context::Document { notations, .. }
                        if notations.iter().any(|known| known.as_bytes() == name))
            }),
            // The only defined form of a key block.
            38 => body.first() == Some(&0),
            // RFC 9580 defines this preference, and talaria follows it. GnuPG reads no version 6
            // signatures.
            39 => self.version == 6,
            _ => false,
        }
    }
}

const NOTATION: u8 = 20;
const INTENDED_RECIPIENT: u8 = 35;

/// The name of a notation (RFC 9580, section 5.2.3.24). The body has four bytes of flags, the
/// lengths of the name and of the value, the name, and the value.
fn notation(body: &[u8]) -> Option<&[u8]> {
    let (_, rest) = body.split_first_chunk::<4>()?;
    let (length, rest) = rest.split_first_chunk::<2>()?;
    let (_, rest) = rest.split_first_chunk::<2>()?;
    rest.get(..usize::from(u16::from_be_bytes(*length)))
}

/// Whether an intended recipient (RFC 9580, section 5.2.3.36) is one of the certificates that the
/// document was decrypted for.
fn names_recipient(body: &[u8], context: &Context<'_>) -> bool {
    let Context::Document { recipients, .. } = context else { return false };
    body.split_first().is_some_and(|(&version, bytes)| {
        recipients.iter().any(|own| own.version() == version && own.as_bytes() == bytes)
    })
}
