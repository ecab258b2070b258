//! Messages: written and read again, tampered with, and those of RFC 9580.

mod common;
mod counts;
mod hostile;
mod make;
mod opening;
mod reading;
mod roundtrip;
mod tampering;
mod vectors;
