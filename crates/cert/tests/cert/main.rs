//! Tests of the public interface with real certificates and signatures.

mod collision;
mod common;
mod ed448;
mod exponents;
mod limits;
mod strangers;
mod view;
