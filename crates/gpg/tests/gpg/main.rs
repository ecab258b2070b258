//! `talaria-gpgv` and `talaria-gpg` beside GnuPG's gpgv and gpg, on the same inputs.

mod calls;
mod clients;
mod common;
mod decrypt;
mod detached;
mod encrypt;
mod handover;
mod inline;
mod keyrings;
mod keys;
mod lists;
mod mutated;
mod options;
mod passphrase;
mod sign;
mod trust;
