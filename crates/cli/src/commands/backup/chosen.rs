//! The snapshots that a command means.

use talaria::backup::{Listed, counting};
use talaria::message::openpgp::Fingerprint;

use super::option::parse_fingerprint;

/// The client whose snapshots are meant.
#[derive(Clone, Debug, clap::Args)]
pub(super) struct ClientArgs {
    /// Only snapshots of the client with this fingerprint; needed for `latest` if there are several
    /// clients
    #[arg(long, value_name = "FINGERPRINT", value_parser = parse_fingerprint)]
    pub(super) client: Option<Fingerprint>,
}

impl ClientArgs {
    /// The snapshots that count and are of the client, if there is one.
    pub(super) fn of<'a>(&'a self, listed: &'a [Listed]) -> impl Iterator<Item = &'a Listed> {
        counting(listed, self.client.as_ref())
    }
}
