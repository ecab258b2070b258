//! New user IDs.

use openpgp::Packet;
use openpgp::cert::ValidCert;
use openpgp::cert::amalgamation::ValidAmalgamation as _;
use openpgp::crypto::KeyPair;
use openpgp::packet::UserID;
use openpgp::packet::signature::SignatureBuilder;
use openpgp::packet::signature::subpacket::SubpacketTag;
use openpgp::types::{HashAlgorithm, RevocationStatus, SignatureType};
use sequoia_openpgp as openpgp;
use talaria_cert::Rules;

use crate::keys::AskForKey;
use crate::make::date::after;
use crate::make::error::{MakeError, Result};
use crate::make::primary::{primary, valid};
use crate::make::revoke::newest;

/// The maximum length of a user ID in bytes; GnuPG accepts no longer ones.
const USER_ID_BYTES_MAX: usize = 2048;

/// The subpackets of a user ID binding that concern the whole certificate, so that every binding
/// should have them.
const SHARED: [SubpacketTag; 9] = [
    SubpacketTag::KeyFlags,
    SubpacketTag::KeyExpirationTime,
    SubpacketTag::PreferredSymmetricAlgorithms,
    SubpacketTag::PreferredHashAlgorithms,
    SubpacketTag::PreferredCompressionAlgorithms,
    SubpacketTag::PreferredAEADCiphersuites,
    SubpacketTag::Reserved(34),
    SubpacketTag::KeyServerPreferences,
    SubpacketTag::Features,
];

/// The rank of a new user ID among several.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Rank {
    /// An additional user ID.
    #[default]
    Further,
    /// The primary user ID.
    Primary,
}

/// Adds a user ID to `cert` at `now`, in seconds since 1970. Returns the user ID and the signatures
/// that bind it.
///
/// # Errors
///
/// [`MakeError::UserId`] and [`MakeError::UserIdExists`]; [`MakeError::Revoked`] or
/// [`MakeError::Invalid`]; [`MakeError::NoSecret`]; [`MakeError::Locked`]; [`MakeError::Failed`].
pub fn add_user_id(
    cert: &openpgp::Cert,
    text: &str,
    rank: Rank,
    ask: &mut AskForKey<'_>,
    rules: Rules,
    now: u32,
) -> Result<Vec<Packet>> {
    if text.trim().is_empty() {
        return Err(MakeError::UserId("has no text"));
    }
    if text.len() > USER_ID_BYTES_MAX {
        return Err(MakeError::UserId("has at most 2048 bytes"));
    }
    if text.chars().any(char::is_control) {
        return Err(MakeError::UserId("has no control characters and no line ends"));
    }
    let user_id = UserID::from(text);
    let valid = valid(cert, rules, now)?;
    let is_revoked = |status| matches!(status, RevocationStatus::Revoked(_));
    if valid
        .userids()
        .any(|known| *known.userid() == user_id && !is_revoked(known.revocation_status()))
    {
        let name = cert.fingerprint().to_hex();
        return Err(MakeError::UserIdExists { name, user_id: text.to_owned() });
    }
    let mut signer = primary(cert, ask)?.0;
    build(&valid, user_id, rank, &mut signer, now).map_err(MakeError::failed)
}

fn build(
    valid: &ValidCert<'_>,
    user_id: UserID,
    rank: Rank,
    signer: &mut KeyPair,
    now: u32,
) -> openpgp::Result<Vec<Packet>> {
    let cert = valid.cert();
    let first = valid.primary_userid().ok();
    // A newer binding makes a revoked user ID valid again.
    let known = cert.userids().find(|known| *known.userid() == user_id);
    let mut before =
        known.and_then(|known| newest(known.self_signatures().chain(known.self_revocations())));
    let mut template = SignatureBuilder::new(SignatureType::PositiveCertification)
        .set_hash_algo(HashAlgorithm::SHA512);
    if let Some(first) = &first {
        for subpacket in first.binding_signature().hashed_area().iter() {
            if SHARED.contains(&subpacket.tag()) {
                template.hashed_area_mut().add(subpacket.clone())?;
            }
        }
    }
    if template.key_flags().is_none() && cert.primary_key().key().version() < 6 {
        // In this certificate the bindings of user IDs carry the key flags of the primary key.
        if let Some(flags) = valid.primary_key().key_flags() {
            template = template.set_key_flags(flags)?;
        }
    }
    // The newest user ID is primary unless another one is marked as primary.
    let renewed = match (rank, &first) {
        (Rank::Further, Some(first))
            if first.binding_signature().primary_userid() != Some(true) =>
        {
            let old = first.binding_signature();
            let builder = SignatureBuilder::from(old.clone())
                .set_hash_algo(HashAlgorithm::SHA512)
                .set_signature_creation_time(after(old.signature_creation_time(), now))?
                .set_primary_userid(true)?;
            Some(first.userid().bind(signer, cert, builder)?)
        }
        _ => None,
    };
    if rank == Rank::Primary {
        // Of several user IDs that are marked as primary, the newest one is.
        before = before.max(first.as_ref().and_then(|first| newest(first.self_signatures())));
        template = template.set_primary_userid(true)?;
    }
    template = template.set_signature_creation_time(after(before, now))?;
    let binding = user_id.bind(signer, cert, template)?;
    let mut packets = vec![Packet::from(user_id), binding.into()];
    packets.extend(renewed.map(Packet::from));
    Ok(packets)
}
