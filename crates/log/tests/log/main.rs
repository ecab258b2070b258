//! Tests of the signed log, from the outside.

mod attacks;
mod checkpoints;
mod convergence;
mod deletion;
mod encryption;
mod files;
mod format;
mod index;
mod kills;
mod listeners;
mod merging;
mod nodes;
mod owners;
mod people;
mod reading;
mod small_order;
mod snapshots;
mod sync;
mod values;
