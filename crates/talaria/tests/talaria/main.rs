//! Tests of backup repositories, of the base of the bindings, of recipients and signers, of the judge
//! of certificates, of keys of small order, and beside a running SKS.

mod backup;
mod embed;
mod judge;
mod people;
mod sks;
mod small_order;
