//! The C library `libtalaria`: pointers and lengths between C and `talaria::embed`, which does the
//! work.
//!
//! `include/talaria.h` is made from this file and says to C programs what holds. On this side:
//! pointers to arrays are looked at in `data.rs` and nowhere else, what fails leaves its outputs as
//! they were, and no panic leaves a function.
//!
//! # Safety
//!
//! The same for all functions, and said in the header: a pointer is null where that is allowed, or
//! good for what its type says, for the time of the call; a handle came from the function that
//! makes such, and is freed once, when nobody uses it any more.

#![allow(unsafe_code, reason = "C gives pointers, and wants names that are not mangled")]
#![allow(clippy::missing_safety_doc, reason = "it is the same for all, and above")]
#![allow(clippy::doc_markdown, reason = "comments become those of the header")]
#![allow(non_camel_case_types, reason = "they are names in C")]

mod call;
mod data;
mod keys;
mod messages;
mod signatures;

pub use call::{talaria_error_message, talaria_status};
pub use data::{talaria_buffer, talaria_buffer_free, talaria_bytes};
pub use keys::{
    talaria_key, talaria_key_certificate, talaria_key_free, talaria_key_new, talaria_policy,
    talaria_sign, talaria_sign_many, talaria_store, talaria_store_free, talaria_store_lookup,
    talaria_store_open, talaria_store_recipient,
};
pub use messages::{
    talaria_open, talaria_open_verified, talaria_opener, talaria_opener_free, talaria_opener_new,
    talaria_profile, talaria_seal, talaria_seal_signed, talaria_sealer, talaria_sealer_free,
    talaria_sealer_new, talaria_sealer_new_passphrase,
};
pub use signatures::{
    talaria_outcome, talaria_signed, talaria_verification, talaria_verifications_free,
    talaria_verifier, talaria_verifier_free, talaria_verifier_new_certs,
    talaria_verifier_new_store, talaria_verify, talaria_verify_many, talaria_verify_signers,
};

/// Handles are used by several threads at once.
const _: () = {
    const fn shared<T: Send + Sync>() {}
    shared::<talaria_sealer>();
    shared::<talaria_opener>();
    shared::<talaria_key>();
    shared::<talaria_store>();
    shared::<talaria_verifier>();
};
