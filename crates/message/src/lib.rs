//! OpenPGP messages, as streams: encrypt, decrypt, sign, verify, pack.
//!
//! Pure: readers, writers, keys, certificates, times and bounds are arguments; nothing here opens a file or
//! reads a clock. What is fast is ours: the framing, the pipeline over all cores, and the chunks that it
//! moves. Arithmetic is done by AWS-LC and OpenSSL; keys, S2K and policy are Sequoia's.

mod aead;
mod algorithm;
mod armor;
mod certs;
mod cfb;
mod chunked;
mod cleartext;
mod content;
mod decrypt;
mod encrypt;
mod error;
mod framing;
mod inline;
mod inspect;
mod kdf;
mod keys;
mod lines;
pub mod make;
mod memory;
mod packets;
mod password;
mod pipeline;
mod random;
mod sealer;
mod secrets;
mod sign;
mod verify;

pub use algorithm::{Aead, ChunkSize, Cipher};
pub use armor::{ArmorReader, ArmorWriter, Input, Label};
pub use certs::{read_cert, read_certs};
pub use cleartext::{CLEARTEXT_HEAD, sign_cleartext, split_cleartext, verify_cleartext};
pub use content::{Compression, Literal};
pub use decrypt::{DecryptOptions, Decrypted, Release, Spool, decrypt};
pub use encrypt::{EncryptOptions, Encrypted, Profile, Recipients, encrypt, pack};
pub use error::MessageError;
pub use inline::{detach, verify_inline};
pub use inspect::{PacketInfo, first_type, inspect};
pub use keys::{AskForKey, decryption_keys, signing_key, unlock};
pub use memory::keep_secrets_in_memory;
pub use packets::Limits;
pub use sealer::{Opener, Sealer};
pub use secrets::{DecryptionKey, Elsewhere, OpenedBy, Secrets};
pub use sign::{SigningKey, sign_detached};
pub use verify::{Discount, Issuer, Lookup, Outcome, SignatureReport, Signer, Verifier};

pub use sequoia_openpgp as openpgp;
