//! Revocations.

use openpgp::cert::{CertRevocationBuilder, SubkeyRevocationBuilder, UserIDRevocationBuilder};
use openpgp::crypto::{KeyPair, Signer};
use openpgp::packet::key::{PublicParts, SubordinateRole};
use openpgp::packet::{Key, Signature, UserID};
use openpgp::types::ReasonForRevocation;
use sequoia_openpgp as openpgp;

use crate::keys::AskForKey;
use crate::make::date::after;
use crate::make::error::{MakeError, Result};
use crate::make::primary::primary;

/// The object to revoke.
#[derive(Clone, Copy, Debug, Default)]
pub enum Revoked<'c> {
    /// The certificate, and with it all of its keys.
    #[default]
    Certificate,
    /// One of its user IDs.
    UserId(&'c UserID),
    /// One of its subkeys.
    Subkey(&'c Key<PublicParts, SubordinateRole>),
}

/// Reasons for a revocation (RFC 9580, section 5.2.3.31).
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum RevocationReason {
    /// No reason. Earlier signatures do not count any more.
    #[default]
    Unspecified,
    /// There is a new key. Earlier signatures still count.
    Superseded,
    /// Somebody else has the secret key. Earlier signatures do not count any more.
    Compromised,
    /// The key or user ID is not used any more. Earlier signatures still count.
    Retired,
}

/// A revocation of `cert` or of a part of it, by its primary key. `message` is a reason in words.
///
/// # Errors
///
/// [`MakeError::NoSecret`]; [`MakeError::Locked`]; [`MakeError::Failed`].
pub fn revoke(
    cert: &openpgp::Cert,
    what: Revoked<'_>,
    reason: RevocationReason,
    message: &str,
    ask: &mut AskForKey<'_>,
    now: u32,
) -> Result<Signature> {
    let mut signer = primary(cert, ask)?.0;
    build(cert, what, reason, message, &mut signer, now).map_err(MakeError::failed)
}

fn build(
    cert: &openpgp::Cert,
    what: Revoked<'_>,
    reason: RevocationReason,
    message: &str,
    signer: &mut KeyPair,
    now: u32,
) -> openpgp::Result<Signature> {
    use ReasonForRevocation as Code;
    let code = match (reason, what) {
        (RevocationReason::Unspecified, _) => Code::Unspecified,
        (RevocationReason::Superseded, _) => Code::KeySuperseded,
        (RevocationReason::Compromised, _) => Code::KeyCompromised,
        (RevocationReason::Retired, Revoked::UserId(_)) => Code::UIDRetired,
        (RevocationReason::Retired, _) => Code::KeyRetired,
    };
    let message = message.as_bytes();
    let signer: &mut dyn Signer = signer;
    // A revocation counts only if it is dated at least one second after the revoked signature.
    match what {
        Revoked::Certificate => {
            let primary = cert.primary_key();
            let direct = primary.self_signatures();
            let user_ids = cert.userids().flat_map(|user_id| user_id.self_signatures());
            let made = after(newest(direct.chain(user_ids)), now);
            CertRevocationBuilder::new()
                .set_signature_creation_time(made)?
                .set_reason_for_revocation(code, message)?
                .build(signer, cert, None)
        }
        Revoked::UserId(user_id) => {
            let bound = cert.userids().find(|known| known.userid() == user_id);
            let made = after(bound.and_then(|bound| newest(bound.self_signatures())), now);
            UserIDRevocationBuilder::new()
                .set_signature_creation_time(made)?
                .set_reason_for_revocation(code, message)?
                .build(signer, cert, user_id, None)
        }
        Revoked::Subkey(subkey) => {
            let name = subkey.fingerprint();
            let bound = cert.keys().subkeys().find(|known| known.key().fingerprint() == name);
            let made = after(bound.and_then(|bound| newest(bound.self_signatures())), now);
            SubkeyRevocationBuilder::new()
                .set_signature_creation_time(made)?
                .set_reason_for_revocation(code, message)?
                .build(signer, cert, subkey, None)
        }
    }
}

/// The creation time of the newest of `signatures`.
pub(super) fn newest<'s>(
    signatures: impl Iterator<Item = &'s Signature>,
) -> Option<std::time::SystemTime> {
    signatures.filter_map(|signature| signature.signature_creation_time()).max()
}
