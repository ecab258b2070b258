//! Checking signatures.

use std::ffi::{CString, c_char};
use std::mem::MaybeUninit;
use std::ptr;

use talaria::Error;
use talaria::embed;
use talaria::message::{MessageError, Outcome, SignatureReport};

use crate::call::{c_string, call, give_back, given, hand_out, talaria_status};
use crate::data::{array, arrays, fingerprints, places, talaria_bytes};
use crate::keys::{rules, talaria_store};

/// Verifies detached signatures at the time of each call.
pub struct talaria_verifier(embed::SharedVerifier);

impl talaria_verifier {
    pub(crate) fn inner(&self) -> &embed::SharedVerifier {
        &self.0
    }
}

/// The result of checking a signature.
#[repr(C)]
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum talaria_outcome {
    /// The key made the signature over this data, and it counts.
    Good = 0,
    /// The key did not make the signature over this data.
    Bad = 1,
    /// No certificate with the key was found.
    NoKey = 2,
    /// The key made the signature, but it does not count; `why` has the reason.
    NotCounted = 3,
    /// The signature cannot be read or verified; `why` has the reason.
    Unchecked = 4,
    /// The user has called the certificate bad.
    Distrusted = 5,
}

/// The verification of a signature. Strings are UTF-8, or null if there is no text, and are freed
/// with talaria_verifications_free.
#[repr(C)]
#[derive(Debug)]
pub struct talaria_verification {
    /// The result.
    pub outcome: talaria_outcome,
    /// The claimed creation time of the signature, in seconds since 1970; 0 if it cannot be read.
    pub created: u32,
    /// The fingerprint of the certificate, in upper-case hexadecimal.
    pub certificate: *mut c_char,
    /// The fingerprint of the key of the certificate that made the signature.
    pub key: *mut c_char,
    /// The primary user ID at the time of the signature. It is a claim of the certificate, not
    /// a confirmed identity.
    pub user_id: *mut c_char,
    /// The reason why the signature does not count or cannot be checked.
    pub why: *mut c_char,
    /// The state of the key since then: expired or revoked.
    pub since: *mut c_char,
}

impl From<SignatureReport> for talaria_verification {
    fn from(report: SignatureReport) -> Self {
        let text =
            |text: Option<String>| text.map_or(ptr::null_mut(), |text| c_string(&text).into_raw());
        let outcome = match report.outcome {
            Outcome::Good => talaria_outcome::Good,
            Outcome::Bad => talaria_outcome::Bad,
            Outcome::NoKey => talaria_outcome::NoKey,
            Outcome::Distrusted => talaria_outcome::Distrusted,
            Outcome::NotCounted(_) => talaria_outcome::NotCounted,
            Outcome::Unchecked(_) => talaria_outcome::Unchecked,
        };
        let why = report.outcome.why();
        let (certificate, key, user_id) = match report.signer {
            Some(signer) => (Some(signer.certificate), Some(signer.key), signer.user_id),
            None => (None, None, None),
        };
        Self {
            outcome,
            created: report.created,
            certificate: text(certificate),
            key: text(key),
            user_id: text(user_id),
            why: text(why),
            since: text(report.since.map(|since| since.to_string())),
        }
    }
}

/// A detached signature, armored or not, and its data.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct talaria_signed {
    /// The signature.
    pub signature: talaria_bytes,
    /// The signed object.
    pub data: talaria_bytes,
}

/// Makes a verifier from certificates. Each of `certs` has one certificate or more, armored or not.
/// They count by `policy`, one of talaria_policy.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn talaria_verifier_new_certs(
    certs: *const talaria_bytes,
    certs_count: usize,
    policy: u32,
    verifier: Option<&mut MaybeUninit<Option<Box<talaria_verifier>>>>,
) -> talaria_status {
    call(|| {
        let place = given(verifier)?;
        // SAFETY: as the caller promises.
        let certs = unsafe { arrays(certs, certs_count)? };
        hand_out(
            place,
            talaria_verifier(embed::SharedVerifier::with_certs(&certs, rules(policy)?)?),
        );
        Ok(())
    })
}

/// Makes a verifier with the certificates of a store, including certificates added later.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn talaria_verifier_new_store(
    store: Option<&talaria_store>,
    verifier: Option<&mut MaybeUninit<Option<Box<talaria_verifier>>>>,
) -> talaria_status {
    call(|| {
        let (store, place) = (given(store)?, given(verifier)?);
        hand_out(place, talaria_verifier(embed::SharedVerifier::with_store(store.inner())?));
        Ok(())
    })
}

/// Frees a verifier. Null is ignored.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn talaria_verifier_free(verifier: Option<Box<talaria_verifier>>) {
    give_back(verifier);
}

/// Verifies a detached signature, armored or not, or several concatenated ones. Faults of
/// signatures are in `verification`, and are not errors of the call. The result has the deciding
/// signature: the first bad one, else the first good one, else the first.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn talaria_verify(
    verifier: Option<&talaria_verifier>,
    signature: talaria_bytes,
    data: talaria_bytes,
    verification: Option<&mut MaybeUninit<talaria_verification>>,
) -> talaria_status {
    call(|| {
        let (verifier, place) = (given(verifier)?, given(verification)?);
        // SAFETY: as the caller promises.
        let (signature, data) = unsafe { (signature.get()?, data.get()?) };
        place.write(verifier.0.verify(signature, data, None)?.report.into());
        Ok(())
    })
}

/// Requires signers: TALARIA_STATUS_OK only if each of `signers` (fingerprints in hexadecimal) has
/// made a good signature on the data; TALARIA_STATUS_NOT_ACCEPTED otherwise.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn talaria_verify_signers(
    verifier: Option<&talaria_verifier>,
    signature: talaria_bytes,
    data: talaria_bytes,
    signers: *const talaria_bytes,
    signers_count: usize,
) -> talaria_status {
    call(|| {
        let verifier = given(verifier)?;
        // SAFETY: as the caller promises.
        let (signature, data) = unsafe { (signature.get()?, data.get()?) };
        // SAFETY: as the caller promises.
        let signers = unsafe { fingerprints(signers, signers_count)? }.unwrap_or_default();
        let checked = verifier.0.verify(signature, data, Some(&signers))?;
        checked.decision.map(drop).map_err(|why| MessageError::NotAccepted(why).into())
    })
}

/// Verifies `count` signatures on all cores, and Ed25519 signatures in batches. `verifications` has
/// the same length.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn talaria_verify_many(
    verifier: Option<&talaria_verifier>,
    items: *const talaria_signed,
    count: usize,
    verifications: *mut talaria_verification,
) -> talaria_status {
    call(|| {
        let verifier = given(verifier)?;
        // SAFETY: as the caller promises.
        let (items, places) = unsafe {
            let item = |item: &talaria_signed| Ok((item.signature.get()?, item.data.get()?));
            let items = array(items, count)?.iter().map(item);
            (items.collect::<Result<Vec<_>, Error>>()?, places(verifications, count)?)
        };
        for (place, report) in places.iter_mut().zip(verifier.0.verify_many(&items, None)?) {
            place.write(report.report.into());
        }
        Ok(())
    })
}

/// Frees the strings of `count` verifications; the array belongs to the caller. Null strings are
/// ignored, and all strings are null afterwards.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn talaria_verifications_free(
    verifications: *mut talaria_verification,
    count: usize,
) {
    // SAFETY: as the caller promises: they were written by a function above.
    let Ok(places) = (unsafe { places(verifications, count) }) else { return };
    for place in places {
        // SAFETY: as above; each string is taken out before it is freed.
        unsafe {
            let verification = place.assume_init_mut();
            for text in [
                &mut verification.certificate,
                &mut verification.key,
                &mut verification.user_id,
                &mut verification.why,
                &mut verification.since,
            ] {
                let text = std::mem::replace(text, ptr::null_mut());
                if !text.is_null() {
                    give_back(CString::from_raw(text));
                }
            }
        }
    }
}
