//! The store, on the real engine in temporary directories.

mod certificates;
mod common;
mod keyserver;
mod people;
mod trust;
mod wot;
