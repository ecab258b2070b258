//! The snapshots that a command means.

use talaria::message::openpgp::Fingerprint;
use talaria_backup::Listed;

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
    /// Whether a snapshot counts and is of the client, if there is one.
    pub(super) fn wants(&self, listed: &Listed) -> bool {
        listed.standing.counts()
            && self
                .client
                .as_ref()
                .is_none_or(|client| listed.snapshot.client.as_ref() == Some(client))
    }
}
