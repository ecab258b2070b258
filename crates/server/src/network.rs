//! For whom a request counts.

use ipnet::IpNet;

/// The client.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub(crate) enum Network {
    Net(IpNet),
    /// Everybody who comes through an onion service.
    Onion,
}
