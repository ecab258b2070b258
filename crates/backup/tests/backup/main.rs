//! Tests of repositories on a real folder and on a simulated storage.

mod copy;
mod create;
mod drill;
mod faults;
mod forget;
mod locked_out;
mod people;
mod promote;
mod prune;
mod repair;
mod repository;
mod sectors;
