//! The files of GnuPG and its neighbours: keybox, trust database, TOFU database, keyboxd,
//! ownertrust lists, certificate directories; and the listing of `gpg --with-colons`.
//!
//! Readers give out raw keyblocks, each with the place it was found in, and leave parsing to
//! [`talaria_cert`]. An old `pubring.gpg` needs no reader of its own: it is a stream of packets,
//! and the trust packets in it are dropped by [`talaria_cert::Cert::parse`].
//!
//! ```
//! use talaria_cert::{Cert, Summary, Verification, verdicts};
//! use talaria_gnupg::{Colons, Keybox, write_cert, write_keybox};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let now = 1_740_000_000;
//! # let certs = talaria_corpus::certs(&talaria_corpus::Generate { count: 2, ..Default::default() });
//! // GnuPG reads this file as its `pubring.kbx`.
//! let mut file = Vec::new();
//! let left_out = write_keybox(&mut file, &certs, now)?;
//! assert!(left_out.is_empty());
//!
//! let mut listing = Vec::new();
//! for item in Keybox::new(&file[..]) {
//!     let (_offset, keyblock) = item?;
//!     let cert = Cert::parse(&keyblock?)?;
//!     let verdicts = verdicts(&[&cert], Verification::Full).remove(0);
//!     let summary = Summary::evaluate(&cert, &verdicts, now);
//!     write_cert(&mut listing, &summary, &Colons::default(), now);
//! }
//! let listing = String::from_utf8(listing)?;
//! assert_eq!(listing.lines().filter(|line| line.starts_with("pub:")).count(), 2);
//! # Ok(())
//! # }
//! ```

mod certd;
mod colons;
mod dotlock;
mod error;
mod home;
mod keybox;
mod keybox_tables;
mod keyboxd;
mod ownertrust;
mod sqlite;
mod tofudb;
mod trustdb;
mod trustrecords;

pub use certd::{CertdReader, is_certd, read_certd, write_certd};
pub use colons::{
    Colons, NO_USER_ID, TofuStatistics, write_cert, write_cert_with_signatures,
    write_packets_with_signatures, write_signature,
};
pub use error::{GnupgError, LeftOut, LeftOutReason};
pub use home::{Home, Source, secret_keys};
pub use keybox::{BLOB_BYTES_MAX, GNUPG_BLOB_BYTES_MAX, Keybox, is_keybox, write_keybox};
pub use keybox_tables::{KeyboxEntry, KeyboxTables};
pub use keyboxd::{is_keyboxd, read_keyboxd};
pub use ownertrust::{is_ownertrust, read_ownertrust, write_ownertrust};
pub use tofudb::{
    IfExists, TOFU_ROWS_MAX, TOFU_TEXT_BYTES_MAX, TofuBinding, TofuDatabase, TofuPolicy,
    TofuSignature, is_tofudb, read_tofudb, write_tofudb,
};
pub use trustdb::{is_trustdb, read_trustdb};
pub use trustrecords::{TrustHead, TrustRecord, TrustRecords};
