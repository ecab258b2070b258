//! A set of OpenPGP certificates on disk, with one write path, one query path, indexes derived from
//! the certificates, and a change log.
//!
//! The engine is SQLite; the layout of the file is described in `docs/formats/store.md`.
//!
//! ```
//! use talaria_cert::{Armor, BATCH_BYTES, Cert, Splitter, Timestamp, Verification};
//! use talaria_store::{Access, IngestOutcome, Query, Store};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let ring = include_bytes!(concat!(
//!     env!("CARGO_MANIFEST_DIR"),
//!     "/../cert/tests/fixtures/alice-and-bob.asc"
//! ));
//! let mut certs = Vec::new();
//! let mut splitter = Splitter::new(Armor::new(&ring[..]), BATCH_BYTES);
//! while let Some(batch) = splitter.next_batch()? {
//!     for (_, raw) in batch.certs() {
//!         certs.push(Cert::parse(raw)?);
//!     }
//! }
//!
//! # let folder = tempfile::tempdir()?;
//! # let path = folder.path().join("certs.db");
//! let now = Timestamp::new(1_800_000_000);
//! let mut store = Store::open(&path, Access::Create)?;
//! // One transaction for all certificates and their indexes.
//! let outcomes = store.ingest(certs, Verification::Full, now)?;
//! assert_eq!(outcomes, [IngestOutcome::New, IngestOutcome::New]);
//!
//! let query: Query = "<bob@example.org>".parse()?;
//! let found = store.select(&query, 10)?;
//! assert_eq!(found.rows.len(), 1);
//! assert_eq!(found.rows[0].summary.primary_user_id(), Some(&b"Bob <bob@example.org>"[..]));
//! # Ok(())
//! # }
//! ```

mod aside;
mod backup;
mod blob;
mod build;
mod candidates;
mod change;
mod check;
mod comparisons;
mod connect;
mod damage;
mod derive;
mod digests;
mod error;
mod evidence;
mod file_kind;
mod find;
mod flow;
mod format;
mod ingest;
mod intake;
mod inventory;
mod journal;
mod keyserver;
mod ledger;
mod log;
mod maintain;
mod meta;
mod migrate;
mod number;
mod open;
mod open_files;
mod operator;
mod owner;
mod place;
mod redaction;
mod reindex;
mod remake;
mod revoker;
mod row;
mod schema;
mod seal;
mod second_name;
mod select;
mod snapshot;
mod sorter;
mod store;
mod sums;
mod texts;
mod tofu;
mod tombstone;
mod trust;
mod web;

pub use blob::Share;
pub use build::{BuildOptions, Builder, Built, Draft, Position, Step};
pub use candidates::Candidates;
pub use change::ChangeKind;
pub use check::{CheckReport, Depth, Finding, Remedy};
pub use comparisons::Comparisons;
pub use connect::Access;
pub use damage::{Damage, DamagedCert, Repair, Salvage, SetAside};
pub use digests::Digests;
pub use error::StoreError;
pub use file_kind::{FileKind, file_kind};
pub use flow::Certifications;
pub use format::FORMAT;
pub use intake::{Intake, Preparation};
pub use keyserver::{GivenUp, Keyserver, LINK_SECONDS_MAX, UNOBTAINABLE_MAX, Unobtainable};
pub use log::Log;
pub use maintain::{Compacted, Pages};
pub use number::{CertId, ChangeNumber};
pub use open::Layout;
pub use open_files::OpenFiles;
pub use operator::Operator;
pub use reindex::{ReindexProgress, ReindexStep};
pub use schema::TextIndex;
pub use second_name::SecondName;
pub use select::{Cursor, CursorError, HOLDERS_MAX, Order, Selection, Sole};
pub use snapshot::Snapshot;
pub use store::{LOG_BYTES, LogToSync, Row, Store};
pub use talaria_cert::merge::{IngestOutcome, IngestRefusal, Ingested, LeftOut, Stored};
pub use talaria_cert::{Peer, Query, QueryError, Redaction};
pub use tofu::{Binding, CertIssuer, Event, Observation, Tofu};
pub use tombstone::{Return, Tombstone};
pub use trust::certifiers::{Certifier, Certifiers};
pub use trust::evaluation::TrustReport;
pub use trust::view::TrustView;
pub use web::Web;
