//! Set reconciliation: between our own two roles, among many, and with SKS.

mod exchange;
mod peers;
mod simulation;
mod sks;
