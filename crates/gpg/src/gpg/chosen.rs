//! Which key of a certificate GnuPG takes for a purpose.

use crate::keyblock::{KeyState, Keyblock};

/// GnuPG's flags about a certificate that was looked at.
const NO_KEY: u8 = 1;
const ALL_EXPIRED: u8 = 2;

/// The newest subkey for a purpose (in GnuPG's numbers) that may be used, or else the primary key,
/// and GnuPG's flags.
pub(crate) fn choose(keyblock: &Keyblock, purpose: u32, now: u32) -> (Option<&KeyState>, u8) {
    let mut newest: Option<&KeyState> = None;
    let (mut all, mut bad) = (0, 0);
    let mut subkeys: Vec<&KeyState> = keyblock.subkeys().iter().collect();
    subkeys.retain(|key| key.is_valid && key.usage & purpose != 0);
    for key in subkeys {
        all += 1;
        if key.is_revoked || key.has_expired {
            bad += 1;
        } else if key.created <= now && newest.is_none_or(|newest| key.created > newest.created) {
            newest = Some(key);
        }
    }
    let primary = keyblock.primary();
    let serves = primary.is_valid
        && primary.usage & purpose != 0
        && !primary.is_revoked
        && !primary.has_expired;
    let key = newest.or_else(|| Some(primary).filter(|_| serves));
    let flags = if all == bad { ALL_EXPIRED } else { 0 };
    (key, if key.is_none() { flags | NO_KEY } else { flags })
}
