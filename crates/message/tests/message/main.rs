//! Messages: round trips, tampering, and the test vectors of RFC 9580.

mod buffered;
mod common;
mod counts;
mod hostile;
mod make;
mod opening;
mod ranges;
mod reading;
mod roundtrip;
mod tampering;
mod vectors;
mod versions;
mod weak;
mod wrapping;
