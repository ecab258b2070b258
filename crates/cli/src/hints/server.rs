//! Remedies for a server that does not start.

use std::io;

use talaria_server::{ConfigError, ServeError};

use super::file::file_hint;
use super::store::store_hint;

/// The remedy for a server that does not start.
pub(crate) fn serve_hint(error: &ServeError) -> Option<String> {
    let hint = match error {
        ServeError::Config(error) => return config_hint(error),
        ServeError::Listen { source, .. } => match source.kind() {
            io::ErrorKind::AddrInUse => {
                "Another program listens on this address: `ss -ltnp` shows which. (An address of [::] also takes IPv4.) \
                 Choose another address with --listen."
            }
            io::ErrorKind::PermissionDenied => {
                "Ports below 1024 need a privilege: CAP_NET_BIND_SERVICE, or a proxy in front."
            }
            io::ErrorKind::AddrNotAvailable => "No interface of this machine has the address.",
            _ => return None,
        },
        ServeError::Store(cause) | ServeError::Writer(cause) => {
            return cause.downcast_ref().and_then(store_hint);
        }
        ServeError::Audit(error) => {
            return file_hint(&error.path.display().to_string(), &error.source);
        }
        ServeError::Peer(error) if error.has_hung_up => {
            "Check the host and its gossip port (11370, if you name none).\nThe peer answers only addresses that it knows: \
             its operator must add the address of this machine as one of its peers."
        }
        ServeError::Peer(_) => {
            "Check the host and its gossip port (11370, if you name none), and the network connection."
        }
        ServeError::Tls(_) | ServeError::Runtime(_) | ServeError::WriterPanicked => return None,
    };
    Some(hint.to_owned())
}

/// The remedy for the configuration of a server.
pub(crate) fn config_hint(error: &ConfigError) -> Option<String> {
    match error {
        ConfigError::Io { path, source } | ConfigError::File { path, source, .. } => {
            file_hint(&path.display().to_string(), source)
        }
        _ => Some("docs/server.toml has all settings with their defaults.".to_owned()),
    }
}
