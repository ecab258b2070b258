//! Set reconciliation: between both roles, among many servers, and with SKS.

mod exchange;
mod peers;
mod simulation;
mod sks;
