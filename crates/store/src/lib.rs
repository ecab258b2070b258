//! A set of OpenPGP certificates on disk: one write path, one query path, indexes that are derived
//! from the certificates, and a log of changes.
//!
//! The engine is SQLite; the layout of the file is described in `docs/formats/store.md`.

mod build;
mod check;
mod derive;
mod digests;
mod error;
mod flow;
mod ingest;
mod keyserver;
mod maintain;
mod query;
mod remake;
mod revoker;
mod schema;
mod select;
mod sorter;
mod store;
mod sums;
mod tofu;
mod trust;

pub use build::{BuildOptions, Builder, Built, Draft, Position, Step};
pub use check::{Depth, Finding, Report};
pub use error::StoreError;
pub use flow::Certifications;
pub use ingest::{ChangeKind, Outcome, Refusal};
pub use keyserver::{Peer, Redaction, Unobtainable};
pub use maintain::{Pages, Return, Tombstone};
pub use query::{Query, QueryError};
pub use schema::TextIndex;
pub use select::{Cursor, CursorError, Order, Selection};
pub use store::{Access, Layout, Row, Store, Stored};
pub use tofu::{Binding, CertIssuer, Event, Observation};
pub use trust::{Certifier, Certifiers, TrustReport, TrustView};
