//! `talaria-gpgv` beside GnuPG's gpgv, on the same inputs.

mod clients;
mod common;
mod detached;
mod inline;
mod keyrings;
mod keys;
mod mutated;
mod options;
