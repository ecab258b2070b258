//! Secret keys and stores of certificates.

use std::ffi::{CStr, CString, OsStr, c_char};
use std::mem::MaybeUninit;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use talaria::cert::{Gnupg, Rules};
use talaria::message::MessageError;
use talaria::{Error, embed};

use crate::call::{c_string, call, give_back, given, hand_out, talaria_status};
use crate::data::{arrays, places, talaria_buffer, talaria_bytes};

/// A secret key for signing.
pub struct talaria_key {
    key: embed::SharedKey,
    certificate: CString,
}

impl talaria_key {
    pub(crate) fn inner(&self) -> &embed::SharedKey {
        &self.key
    }
}

/// The rules by which certificates count, as described in docs/trust.md.
#[repr(C)]
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum talaria_policy {
    /// SHA-1 counts in self-signatures of before 2023-02-01 without a better one beside them.
    Standard = 0,
    /// No self-signature with SHA-1 counts.
    Strict = 1,
    /// The rules of GnuPG 2.2.
    Gnupg22 = 2,
    /// The rules of GnuPG 2.4.
    Gnupg24 = 3,
}

/// C may give any number where it says that it gives one of these.
pub(crate) fn rules(policy: u32) -> Result<Rules, Error> {
    match policy {
        0 => Ok(Rules::Standard),
        1 => Ok(Rules::Strict),
        2 => Ok(Rules::Gnupg(Gnupg::V2_2)),
        3 => Ok(Rules::Gnupg(Gnupg::V2_4)),
        _ => Err(MessageError::Usage("unknown policy").into()),
    }
}

/// Reads and unlocks the newest signing key of the single certificate in `key`, armored or not. A
/// passphrase with a null pointer means no passphrase; `policy` is one of talaria_policy.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn talaria_key_new(
    bytes: talaria_bytes,
    passphrase: talaria_bytes,
    policy: u32,
    key: Option<&mut MaybeUninit<Option<Box<talaria_key>>>>,
) -> talaria_status {
    call(|| {
        let place = given(key)?;
        let has_passphrase = !passphrase.data.is_null();
        // SAFETY: as the caller promises.
        let (bytes, passphrase) = unsafe { (bytes.get()?, passphrase.get()?) };
        let passphrase = has_passphrase.then_some(passphrase);
        let key = embed::SharedKey::from_bytes(bytes, passphrase, rules(policy)?)?;
        let certificate = c_string(key.certificate());
        hand_out(place, talaria_key { key, certificate });
        Ok(())
    })
}

/// Frees a key. Null is ignored.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn talaria_key_free(key: Option<Box<talaria_key>>) {
    give_back(key);
}

/// The fingerprint of the certificate of a key, in upper-case hexadecimal; valid as long as the
/// key. Null for null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn talaria_key_certificate(key: Option<&talaria_key>) -> *const c_char {
    key.map_or(std::ptr::null(), |key| key.certificate.as_ptr())
}

/// Makes a detached signature.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn talaria_sign(
    key: Option<&talaria_key>,
    data: talaria_bytes,
    signature: Option<&mut MaybeUninit<talaria_buffer>>,
) -> talaria_status {
    call(|| {
        let (key, place) = (given(key)?, given(signature)?);
        // SAFETY: as the caller promises.
        place.write(key.key.sign(unsafe { data.get()? })?.into());
        Ok(())
    })
}

/// Makes a detached signature on each of `count` data; `signatures` has the same length. All are
/// made, or none.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn talaria_sign_many(
    key: Option<&talaria_key>,
    data: *const talaria_bytes,
    count: usize,
    signatures: *mut talaria_buffer,
) -> talaria_status {
    call(|| {
        let key = given(key)?;
        // SAFETY: as the caller promises.
        let (data, places) = unsafe { (arrays(data, count)?, places(signatures, count)?) };
        for (place, signature) in places.iter_mut().zip(key.key.sign_many(&data)?) {
            place.write(signature.into());
        }
        Ok(())
    })
}

/// A store of certificates, or a keyring file. Changes by other programs are visible at once; a
/// keyring file is read once, when it is opened.
pub struct talaria_store(embed::Certificates);

impl talaria_store {
    pub(crate) fn inner(&self) -> &embed::Certificates {
        &self.0
    }
}

/// Opens a store for reading. Its certificates count by `policy`, one of talaria_policy.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn talaria_store_open(
    path: *const c_char,
    policy: u32,
    store: Option<&mut MaybeUninit<Option<Box<talaria_store>>>>,
) -> talaria_status {
    call(|| {
        let place = given(store)?;
        // SAFETY: as the caller promises.
        let path = Path::new(OsStr::from_bytes(unsafe { string(path)? }.to_bytes()));
        hand_out(place, talaria_store(embed::Certificates::open(path, rules(policy)?)?));
        Ok(())
    })
}

/// Closes a store. Null is ignored. A verifier made from the store keeps it open.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn talaria_store_free(store: Option<Box<talaria_store>>) {
    give_back(store);
}

/// Writes all certificates that match `query` to `certs`, concatenated, and their number to
/// `count`, which may be null. `query` is UTF-8, as on the command line: fingerprint, key ID,
/// =exact user ID,
/// <mail@address>, part of a user ID.
///
/// Anybody can make a certificate with any user ID. For encryption, use a fingerprint or
/// talaria_store_recipient.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn talaria_store_lookup(
    store: Option<&talaria_store>,
    query: *const c_char,
    certs: Option<&mut MaybeUninit<talaria_buffer>>,
    count: Option<&mut MaybeUninit<usize>>,
) -> talaria_status {
    call(|| {
        let (store, place) = (given(store)?, given(certs)?);
        // SAFETY: as the caller promises.
        let found = store.0.lookup(unsafe { text(query)? })?;
        place.write(found.concat().into());
        if let Some(count) = count {
            count.write(found.len());
        }
        Ok(())
    })
}

/// Writes the single certificate with the exact name `query` and an encryption key: a fingerprint,
/// a key ID, or the whole address or text of a user ID. A part of a name selects none.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn talaria_store_recipient(
    store: Option<&talaria_store>,
    query: *const c_char,
    cert: Option<&mut MaybeUninit<talaria_buffer>>,
) -> talaria_status {
    call(|| {
        let (store, place) = (given(store)?, given(cert)?);
        // SAFETY: as the caller promises.
        place.write(store.0.recipient(unsafe { text(query)? })?.into());
        Ok(())
    })
}

/// A string of the caller.
///
/// # Safety
///
/// `text` is null, or a byte that is zero ends it; it stays as it is as long as the result is used.
unsafe fn string<'a>(text: *const c_char) -> Result<&'a CStr, Error> {
    given((!text.is_null()).then_some(text))?;
    // SAFETY: as the caller promises.
    Ok(unsafe { CStr::from_ptr(text) })
}

/// # Safety
///
/// As [`string`].
unsafe fn text<'a>(text: *const c_char) -> Result<&'a str, Error> {
    // SAFETY: as the caller promises.
    let text = unsafe { string(text)? };
    text.to_str().map_err(|_| MessageError::Usage("a query is not UTF-8").into())
}
