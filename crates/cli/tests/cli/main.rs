//! The `talaria` program as people use it, beside the programs of others.

mod address;
mod architecture;
mod bench;
mod bindings;
mod card;
mod certificates;
mod certify;
mod crash;
mod documents;
mod gnupg;
mod interruption;
mod keys;
mod keyserver;
mod keyserver_crash;
mod messages;
mod operator;
mod program;
mod reading;
mod revokers;
mod secrets;
mod status;
mod surroundings;
mod terminal;
mod trust;
