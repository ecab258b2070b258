//! The base of the language bindings: encrypting, decrypting, signing and verifying data in memory,
//! with keys and certificates that are given as bytes, armored or not; and signed logs.
//!
//! Unlike the library below it, this module reads the clock, does its own locking, and notices
//! changes of a store. So every value can be kept while the program runs, and all threads of the
//! program can use it.

mod call;
mod certificates;
mod input;
mod key;
mod log;
mod messages;
mod verifier;

pub use self::call::guarded;
pub use self::certificates::Certificates;
pub use self::input::fingerprints;
pub use self::key::SharedKey;
pub use self::log::{
    HistoryEntry, LogFigures, LogNode, LogWatcher, SharedLog, SharedSnapshot, witness_cosign,
};
pub use self::messages::{SharedOpener, seal_signed, sealer};
pub use self::verifier::{DocumentReport, SharedVerifier};
