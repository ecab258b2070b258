//! The packets in front of encrypted data.

use talaria_message::openpgp::Packet;
use talaria_message::openpgp::packet::{PKESK, SEIP, SKESK};
use talaria_message::openpgp::parse::{PacketParser, PacketParserResult, Parse as _};
use talaria_message::openpgp::serialize::MarshalInto as _;
use talaria_message::openpgp::types::SymmetricAlgorithm;
use talaria_message::{first_type, guarded};

use crate::status::field::key_id;

/// The parts of a message that are readable without a key.
#[derive(Default)]
pub(super) struct Head {
    /// The first packet has a known OpenPGP type.
    pub(super) known: bool,
    /// The message is encrypted.
    pub(super) encrypted: bool,
    /// The lines `ENC_TO` and `NEED_PASSPHRASE_SYM` for the wrapped session keys.
    pub(super) wrapped: Vec<String>,
    /// The line `DECRYPTION_INFO`, if the packets name the cipher.
    pub(super) info: Option<String>,
}

impl Head {
    pub(super) fn read(start: &[u8]) -> Self {
        guarded(|| Self::parse(start)).unwrap_or_default()
    }

    fn parse(start: &[u8]) -> Self {
        let mut head = Self { known: first_type(start).is_some_and(is_known), ..Self::default() };
        let mut cipher = None;
        let mut next = PacketParser::from_bytes(start);
        while let Ok(PacketParserResult::Some(parser)) = next {
            match &parser.packet {
                Packet::PKESK(pkesk) => head.wrapped.push(enc_to(pkesk)),
                Packet::SKESK(skesk) => {
                    let (line, own) = need_passphrase(skesk);
                    head.wrapped.push(line);
                    cipher = own;
                }
                Packet::Marker(_) | Packet::Padding(_) => {}
                Packet::SEIP(seip) => {
                    head.encrypted = true;
                    head.info = match seip {
                        SEIP::V2(seip) => Some((0, seip.symmetric_algo(), u8::from(seip.aead()))),
                        _ => cipher.map(|cipher| (2, cipher, 0)),
                    }
                    .map(|(mdc, cipher, aead)| {
                        format!("DECRYPTION_INFO {mdc} {} {aead}", u8::from(cipher))
                    });
                    break;
                }
                _ => break,
            }
            next = parser.next().map(|(_, next)| next);
        }
        head.encrypted |= !head.wrapped.is_empty();
        head
    }
}

fn enc_to(pkesk: &PKESK) -> String {
    let recipient = pkesk.recipient().map(|name| name.to_hex()).unwrap_or_default();
    let algorithm = u8::from(pkesk.pk_algo());
    format!("ENC_TO {} {algorithm} 0", key_id(&recipient))
}

/// The line for a passphrase, and the cipher of the message if the passphrase alone makes its key.
fn need_passphrase(skesk: &SKESK) -> (String, Option<SymmetricAlgorithm>) {
    let (cipher, s2k, own) = match skesk {
        SKESK::V4(skesk) => {
            let cipher = skesk.symmetric_algo();
            let own = matches!(skesk.esk(), Ok(None)).then_some(cipher);
            (cipher, skesk.s2k(), own)
        }
        SKESK::V6(skesk) => (skesk.symmetric_algo(), skesk.s2k(), None),
        _ => return ("NEED_PASSPHRASE_SYM 0 0 0".to_owned(), None),
    };
    let s2k = s2k.to_vec().unwrap_or_default();
    let (mode, hash) = match s2k[..] {
        [mode @ (0 | 1 | 3), hash, ..] => (mode, hash),
        [mode, ..] => (mode, 0),
        [] => (0, 0),
    };
    (format!("NEED_PASSPHRASE_SYM {} {mode} {hash}", u8::from(cipher)), own)
}

fn is_known(tag: u8) -> bool {
    matches!(tag, 1..=14 | 17..=21)
}
