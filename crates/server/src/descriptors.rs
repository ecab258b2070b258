//! The limit on open files and connections of the process.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::config::Http;

/// Descriptors that are kept for the store, gossip, and whatever else is not a connection.
const RESERVE: usize = 256;

/// Asks the system for as many descriptors as it gives, and sees to it that connections leave some
/// for the store: without them, nobody is answered at all.
pub(crate) fn fit(http: &mut Http) {
    let limit = getrlimit(Resource::Nofile);
    let wanted = Rlimit { current: limit.maximum, maximum: limit.maximum };
    let limit = if setrlimit(Resource::Nofile, wanted).is_ok() { wanted } else { limit };
    let Some(files) = limit.current.and_then(|files| usize::try_from(files).ok()) else { return };
    let connections = fitting(files, http.listen.len().max(1));
    if connections < http.connections {
        tracing::warn!(files, connections, "fewer connections: the limit of open files is low");
        http.connections = connections;
    }
}

/// Connections for each of `listeners`.
fn fitting(files: usize, listeners: usize) -> usize {
    (files.saturating_sub(RESERVE).max(files / 2) / listeners).max(1)
}

#[cfg(test)]
mod tests {
    use super::fitting;

    #[test]
    fn connections_leave_file_descriptors_for_the_store() {
        assert_eq!([1024, 20_000, 256, 1].map(|files| fitting(files, 1)), [768, 19_744, 128, 1]);
        assert_eq!(fitting(1024, 2), 384);
    }
}
