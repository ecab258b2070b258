//! OpenPGP messages, as streams: encrypt, decrypt, sign, verify, pack.
//!
//! This crate is pure: readers, writers, keys, certificates, times and limits are arguments, and
//! nothing here opens a file or reads a clock. The code for speed is in this crate: the framing,
//! the parallel pipeline, and the chunks in it. AWS-LC and OpenSSL do the arithmetic. Keys and S2K
//! come from Sequoia; what a certificate may be used for comes from [`talaria_cert::Judge`].
//!
//! ```
//! use talaria_message::openpgp::cert::CertBuilder;
//! use talaria_message::{Decryptor, Encryptor};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let now = u32::try_from(std::time::UNIX_EPOCH.elapsed()?.as_secs())?;
//! let (alice, _) = CertBuilder::general_purpose(Some("<alice@example.org>")).generate()?;
//! let (bob, _) = CertBuilder::general_purpose(Some("<bob@example.org>")).generate()?;
//!
//! let mut sealed = Vec::new();
//! Encryptor::new(now).to(&bob)?.sign(&alice)?.armor().write(&b"attack at dawn"[..], &mut sealed)?;
//!
//! // There is no output unless Alice has signed the message.
//! let decryptor = Decryptor::new(now).key(&bob).signed_by(&[&alice]);
//! let (mut content, received) = decryptor.into_reader(&sealed[..])?;
//! assert_eq!(std::io::read_to_string(&mut content)?, "attack at dawn");
//! assert!(received.signatures()[0].is_good());
//! # Ok(())
//! # }
//! ```

mod accept;
mod aead;
mod algorithm;
mod armor;
mod buffered;
mod certs;
mod cfb;
mod chunked;
mod cleartext;
mod compression;
mod content;
mod decrypt;
mod decryptor;
mod encrypt;
mod encryptor;
mod error;
mod framing;
mod guard;
mod held;
mod inline;
mod inspect;
mod judged;
mod kdf;
mod keys;
mod kind;
mod lines;
pub mod make;
mod memory;
mod packets;
mod password;
mod pipeline;
mod policy;
mod preferences;
mod random;
mod range;
mod read;
mod recognise;
mod same;
mod sealer;
mod secrets;
mod sign;
mod unsupported;
mod verify;

pub use accept::{Acceptance, ExpectedSigner, Facts, NotAccepted, Unsigned};
pub use algorithm::{Aead, ChunkSize, Cipher};
pub use armor::{ArmorInput, ArmorReader, ArmorWriter, Label, unarmored};
pub use buffered::encrypt_buffered;
pub use certs::{read_cert, read_certs, read_key, unsupported_cert, with_stored};
pub use cleartext::{
    CLEARTEXT_BYTES_MAX, SignedText, sign_cleartext, split_cleartext, verify_cleartext,
};
pub use compression::Compression;
pub use content::Literal;
pub use decrypt::{Again, DecryptOptions, Decrypted, Opened, Release, decrypt};
pub use decryptor::Decryptor;
pub use encrypt::{EncryptOptions, Encrypted, Naming, Profile, Recipients, encrypt, pack};
pub use encryptor::Encryptor;
pub use error::{Bound, Cost, KeyFault, MessageError};
pub use guard::guarded;
pub use held::{Held, HeldReader, MakeSpool, Spool};
pub use inline::{detach, verify_inline};
pub use inspect::{PacketInfo, first_type, inspect};
pub use judged::{FindRevoker, Usable, judge, judge_of, usable, usable_by, verified};
pub use keys::{AskForKey, decryption_keys, signing_key, unlock};
pub use kind::MessageKind;
pub use memory::keep_secrets_in_memory;
pub use packets::ReadLimits;
pub use range::{RangeOpener, literal_start};
pub use read::{
    Parts, ReadOptions, Received, Reopen, Spools, read_message, read_signatures, signatures,
    verify_message,
};
pub use recognise::{Message, Recognised};
pub use same::ContentDigest;
pub use sealer::{Opener, Sealer};
pub use secrets::{DecryptionKey, Elsewhere, HIDDEN_RECIPIENT, OpenedBy, Secrets};
pub use sign::{SigningKey, sign_detached};
pub use verify::report::{Issuer, NotCounted, Outcome, SignatureReport, Signer};
pub use verify::{CLOCK_SKEW_S, Distrust, Lookup, Verifier, lookup_in};

pub use sequoia_openpgp as openpgp;
pub use talaria_cert::{Fingerprint, KeyId, Purpose, Rules};
