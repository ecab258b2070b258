//! The keyserver, as its clients and peers meet it.

mod config;
mod gossip;
mod hkp;
mod owner;
mod pages;
mod push;
mod running;
mod site;
mod vks;
mod wkd;
