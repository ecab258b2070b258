//! Whether a certificate is that of the address it names.
//!
//! Facts and a time go in, verdicts and the reasons for them come out. Nothing here opens a file or reads a
//! clock. [`evaluate`] is the web of trust as `GnuPG` understands it.

pub mod flow;
mod level;
mod pgp;
mod scope;
mod subject;
pub mod tofu;

pub use level::Level;
pub use pgp::{Introducer, Issuer, Rules, Standing, certifiers, evaluate};
pub use scope::Scope;
pub use subject::{Certification, Subject, SubjectId, issuers};
