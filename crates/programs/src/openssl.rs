//! How OpenSSL begins in a program of talaria.
//!
//! Sequoia begins OpenSSL before `main`, so that its parts are not freed while threads use them.
//! That reads the settings of the system and adds the names of all ciphers and digests, a fifth of
//! the time in which a program starts. Nobody here looks a cipher up by its name. So each program
//! begins OpenSSL itself before Sequoia does, without all that. Decision record 29 has the figures.
//!
//! This is for programs alone. The process of a library is of others, who may ask for names.

use std::ffi::{c_int, c_void};

/// See `OPENSSL_init_crypto(3)`.
const NO_LOAD_CRYPTO_STRINGS: u64 = 0x0000_0001;
const NO_ADD_ALL_CIPHERS: u64 = 0x0000_0010;
const NO_ADD_ALL_DIGESTS: u64 = 0x0000_0020;
const NO_LOAD_CONFIG: u64 = 0x0000_0080;
const NO_ATEXIT: u64 = 0x0008_0000;

// The crate links the library.
use openssl_sys as _;

#[expect(unsafe_code, reason = "a function of C, which openssl-sys does not declare")]
unsafe extern "C" {
    fn OPENSSL_init_crypto(options: u64, settings: *const c_void) -> c_int;
}

#[ctor::ctor(unsafe, priority = 101)]
fn begin() {
    let options = NO_LOAD_CRYPTO_STRINGS
        | NO_ADD_ALL_CIPHERS
        | NO_ADD_ALL_DIGESTS
        | NO_LOAD_CONFIG
        | NO_ATEXIT;
    // SAFETY: it takes no settings, and may be called at any time, from any thread. If it fails,
    // OpenSSL begins later as in any other program.
    #[expect(unsafe_code, reason = "a function of C")]
    let _ = unsafe { OPENSSL_init_crypto(options, std::ptr::null()) };
}
