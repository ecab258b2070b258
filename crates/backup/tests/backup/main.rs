//! Tests of repositories on a real folder.

mod create;
mod people;
mod repository;
