//! Any bytes as the request of a client of a keyserver, or as the membership file of its operator.

/// Checks one input.
pub fn run(bytes: &[u8]) {
    talaria_server::fuzz::read(bytes);
}
