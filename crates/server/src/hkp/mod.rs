//! The OpenPGP HTTP Keyserver Protocol. Version 1 is in `lookup`, `add`, `hashquery` and
//! `statistics`.

pub(crate) mod add;
mod answers;
pub(crate) mod hashquery;
mod index;
pub(crate) mod keytext;
pub(crate) mod lookup;
pub(crate) mod machine;
pub(crate) mod statistics;
pub(crate) mod v2;
