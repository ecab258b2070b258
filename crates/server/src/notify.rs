//! Messages to the service manager (`sd_notify`): that the server is ready, alive, or going down.

use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::net::{SocketAddr, UnixDatagram};

/// Sends a message to the socket in `NOTIFY_SOCKET`, if there is one. The server does not depend on
/// its manager, so errors are only logged.
pub(crate) fn say(message: &str) {
    let Some(name) = std::env::var_os("NOTIFY_SOCKET").filter(|name| !name.is_empty()) else {
        return;
    };
    let address = match name.as_bytes() {
        [b'@', abstract_name @ ..] => SocketAddr::from_abstract_name(abstract_name),
        _ => SocketAddr::from_pathname(&name),
    };
    let send = |address| {
        let socket = UnixDatagram::unbound()?;
        // A manager that does not read makes nothing wait.
        socket.set_nonblocking(true)?;
        socket.send_to_addr(message.as_bytes(), &address)
    };
    if let Err(error) = address.and_then(send) {
        tracing::debug!(%error, message, "cannot notify the service manager");
    }
}
