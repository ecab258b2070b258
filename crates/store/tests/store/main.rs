//! The store, on the real engine in temporary directories.

mod address;
mod certificates;
mod common;
mod damage;
mod decisions;
mod formats;
mod holding;
mod intake;
mod interface;
mod keyserver;
mod merge;
mod people;
mod place;
mod reindex;
mod search;
mod stale;
mod trust;
mod wot;
