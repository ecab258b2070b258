//! The targets, each a property of any bytes.

pub mod address;
pub mod armor;
pub mod compressed;
pub mod decrypt;
pub mod index;
pub mod judged;
pub mod keybox;
pub mod keyboxd;
pub mod keyring;
pub mod keyserver;
pub mod limits;
pub mod log;
pub mod pack;
pub mod power;
pub mod pubring;
pub mod query;
pub mod recon;
pub mod salvage;
pub mod signed;
pub mod stored;
pub mod summary;
pub mod tree;
pub mod trust;
pub mod verify;
pub mod web;
pub mod wrapped;

/// A target: its name, and the function that checks one input.
pub type Target = (&'static str, fn(&[u8]));

/// All targets.
pub const ALL: [Target; 26] = [
    ("address", address::run),
    ("armor", armor::run),
    ("compressed", compressed::run),
    ("decrypt", decrypt::run),
    ("index", index::run),
    ("judged", judged::run),
    ("keybox", keybox::run),
    ("keyboxd", keyboxd::run),
    ("keyring", keyring::run),
    ("keyserver", keyserver::run),
    ("limits", limits::run),
    ("log", log::run),
    ("pack", pack::run),
    ("power", power::run),
    ("pubring", pubring::run),
    ("query", query::run),
    ("recon", recon::run),
    ("salvage", salvage::run),
    ("signed", signed::run),
    ("stored", stored::run),
    ("summary", summary::run),
    ("tree", tree::run),
    ("trust", trust::run),
    ("verify", verify::run),
    ("web", web::run),
    ("wrapped", wrapped::run),
];
