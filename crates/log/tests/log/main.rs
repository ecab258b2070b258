//! Tests of the signed log, from the outside.

mod attacks;
mod convergence;
mod files;
mod format;
mod kills;
mod merging;
mod nodes;
mod owners;
mod people;
mod small_order;
mod sync;
