//! The store, on the real engine in temporary directories.

mod address;
mod certificates;
mod common;
mod keyserver;
mod people;
mod trust;
mod wot;
