//! Generated certificates, for tests and measurements: as many as are wanted, each valid, all of
//! them functions of a seed.

mod draw;
mod generate;
mod keys;
mod names;
mod profile;
mod writer;

pub use generate::{Generate, GeneratedCerts, certs, file_names, generate, generate_files};
pub use profile::CorpusProfile;
