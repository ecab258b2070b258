//! Tests of repositories on a real folder.

mod people;
mod repository;
