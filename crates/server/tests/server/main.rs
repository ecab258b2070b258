//! The keyserver, from the side of its clients and peers.

mod answers;
mod config;
mod gnupg;
mod gossip;
mod hkp;
mod mutations;
mod orders;
mod owner;
mod pages;
mod push;
mod site;
mod third_party;
mod vks;
mod wkd;
