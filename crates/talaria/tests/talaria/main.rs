//! Tests of the base of the bindings, of keys of small order, and beside a running SKS.

mod embed;
mod sks;
mod small_order;
