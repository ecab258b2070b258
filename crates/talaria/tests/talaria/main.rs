//! Tests of the base of the bindings, and beside a running SKS.

mod embed;
mod sks;
