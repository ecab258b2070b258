//! Encrypting and decrypting.

use std::mem::MaybeUninit;

use talaria::message::{self, MessageError, Profile};
use talaria::{Error, embed};

use crate::call::{call, give_back, given, hand_out, talaria_status};
use crate::data::{arrays, fingerprints, places, talaria_buffer, talaria_bytes};
use crate::keys::{rules, talaria_key, talaria_policy};
use crate::signatures::{talaria_verification, talaria_verifier};

/// The specification of messages.
#[repr(C)]
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum talaria_profile {
    /// The newest format that all recipients have announced; RFC 9580 if there is only a
    /// passphrase.
    Auto = 0,
    /// AEAD in version 2 packets.
    Rfc9580 = 1,
    /// CFB with a digest (MDC), which all programs read.
    Rfc4880 = 2,
    /// The AEAD packet of GnuPG.
    Librepgp = 3,
}

/// C may give any number where it says that it gives one of these.
fn profile(number: u32) -> Result<Option<Profile>, Error> {
    match number {
        0 => Ok(None),
        1 => Ok(Some(Profile::Rfc9580)),
        2 => Ok(Some(Profile::Rfc4880)),
        3 => Ok(Some(Profile::LibrePgp)),
        _ => Err(MessageError::Usage("unknown profile").into()),
    }
}

/// Encrypts many messages for the same recipients.
pub struct talaria_sealer(message::Sealer);

/// Makes a sealer for passphrases and certificates. Each of `certs` has one certificate or more,
/// armored or not; `profile` is one of talaria_profile, and `policy`, by which the certificates
/// count, one of talaria_policy. The call derives keys from passphrases and encrypts session keys,
/// once: 0.2 ms per key, 40 ms for a passphrase, or by default three passes of Argon2 over 64 MiB.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn talaria_sealer_new(
    passphrases: *const talaria_bytes,
    passphrases_count: usize,
    certs: *const talaria_bytes,
    certs_count: usize,
    profile: u32,
    policy: u32,
    sealer: Option<&mut MaybeUninit<Option<Box<talaria_sealer>>>>,
) -> talaria_status {
    call(|| {
        let place = given(sealer)?;
        // SAFETY: as the caller promises.
        let (passphrases, certs) =
            unsafe { (arrays(passphrases, passphrases_count)?, arrays(certs, certs_count)?) };
        let made = embed::sealer(&passphrases, &certs, self::profile(profile)?, rules(policy)?)?;
        hand_out(place, talaria_sealer(made));
        Ok(())
    })
}

/// Makes a sealer for one passphrase, which is not empty.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn talaria_sealer_new_passphrase(
    passphrase: talaria_bytes,
    profile: u32,
    sealer: Option<&mut MaybeUninit<Option<Box<talaria_sealer>>>>,
) -> talaria_status {
    let policy = talaria_policy::Standard as u32;
    // SAFETY: as the caller promises; the array is ours.
    unsafe {
        talaria_sealer_new(&raw const passphrase, 1, std::ptr::null(), 0, profile, policy, sealer)
    }
}

/// Frees a sealer. Null is ignored.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn talaria_sealer_free(sealer: Option<Box<talaria_sealer>>) {
    give_back(sealer);
}

/// Encrypts one message.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn talaria_seal(
    sealer: Option<&talaria_sealer>,
    plain: talaria_bytes,
    sealed: Option<&mut MaybeUninit<talaria_buffer>>,
) -> talaria_status {
    call(|| {
        let (sealer, place) = (given(sealer)?, given(sealed)?);
        // SAFETY: as the caller promises.
        place.write(sealer.0.seal(unsafe { plain.get()? })?.into());
        Ok(())
    })
}

/// Encrypts one message, signed with a key.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn talaria_seal_signed(
    sealer: Option<&talaria_sealer>,
    key: Option<&talaria_key>,
    plain: talaria_bytes,
    sealed: Option<&mut MaybeUninit<talaria_buffer>>,
) -> talaria_status {
    call(|| {
        let (sealer, key, place) = (given(sealer)?, given(key)?, given(sealed)?);
        // SAFETY: as the caller promises.
        let plain = unsafe { plain.get()? };
        place.write(embed::seal_signed(&sealer.0, plain, key.inner())?.into());
        Ok(())
    })
}

/// Decrypts many messages with the same keys and passphrases. It caches the session keys of the
/// latest thousand, so only the first message of a sealer costs time. It opens one message at a
/// time: use one opener per thread.
pub struct talaria_opener(embed::SharedOpener);

/// Makes an opener. Each of `keys` has one secret key or more, armored or not. Protected keys are
/// unlocked with one of `key_passphrases` when a message needs them.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn talaria_opener_new(
    passphrases: *const talaria_bytes,
    passphrases_count: usize,
    keys: *const talaria_bytes,
    keys_count: usize,
    key_passphrases: *const talaria_bytes,
    key_passphrases_count: usize,
    opener: Option<&mut MaybeUninit<Option<Box<talaria_opener>>>>,
) -> talaria_status {
    call(|| {
        let place = given(opener)?;
        // SAFETY: as the caller promises.
        let (passphrases, keys, key_passphrases) = unsafe {
            (
                arrays(passphrases, passphrases_count)?,
                arrays(keys, keys_count)?,
                arrays(key_passphrases, key_passphrases_count)?,
            )
        };
        let made = embed::SharedOpener::new(&passphrases, &keys, &key_passphrases)?;
        hand_out(place, talaria_opener(made));
        Ok(())
    })
}

/// Frees an opener. Null is ignored.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn talaria_opener_free(opener: Option<Box<talaria_opener>>) {
    give_back(opener);
}

/// Decrypts one message, armored or not, without checking its signatures. `plain` is written only
/// if no part of the message was changed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn talaria_open(
    opener: Option<&talaria_opener>,
    sealed: talaria_bytes,
    plain: Option<&mut MaybeUninit<talaria_buffer>>,
) -> talaria_status {
    call(|| {
        let (opener, place) = (given(opener)?, given(plain)?);
        // SAFETY: as the caller promises.
        place.write(opener.0.open(unsafe { sealed.get()? })?.into());
        Ok(())
    })
}

/// Decrypts one message and checks its signatures. `count` gets their number, and the first `room`
/// of them are written to `verifications`; 0 if the message is not signed. A message has at
/// most 128. A bad signature gives TALARIA_STATUS_NOT_ACCEPTED, and nothing is written. With `signers`
/// (fingerprints in hexadecimal), each of them must have made a good signature. Pass null and 0 to
/// accept any signer or none.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn talaria_open_verified(
    opener: Option<&talaria_opener>,
    sealed: talaria_bytes,
    verifier: Option<&talaria_verifier>,
    signers: *const talaria_bytes,
    signers_count: usize,
    plain: Option<&mut MaybeUninit<talaria_buffer>>,
    verifications: *mut talaria_verification,
    room: usize,
    count: Option<&mut MaybeUninit<usize>>,
) -> talaria_status {
    call(|| {
        let (opener, verifier) = (given(opener)?, given(verifier)?);
        let (place, count) = (given(plain)?, given(count)?);
        // SAFETY: as the caller promises.
        let (sealed, places) = unsafe { (sealed.get()?, places(verifications, room)?) };
        // SAFETY: as the caller promises.
        let signers = unsafe { fingerprints(signers, signers_count)? };
        let (plain, reports) =
            opener.0.open_verified(sealed, verifier.inner(), signers.as_deref())?;
        place.write(plain.into());
        count.write(reports.len());
        for (place, report) in places.iter_mut().zip(reports) {
            place.write(report.into());
        }
        Ok(())
    })
}
