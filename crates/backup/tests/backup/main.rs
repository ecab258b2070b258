//! Tests of repositories on a real folder.

mod create;
mod forget;
mod people;
mod prune;
mod repository;
