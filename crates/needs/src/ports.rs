//! Ports for the servers that tests start.

use std::net::TcpListener;
use std::process;
use std::sync::atomic::{AtomicU16, Ordering};

/// How many ports one process may take.
const PORTS: u16 = 100;

/// A port of 127.0.0.1 that nobody has, and that nobody gets who asks for any port or connects to
/// somebody: it is below those that the kernel gives out.
///
/// # Panics
///
/// If all ports of this process are taken.
///
/// ```
/// let port = talaria_needs::free_port();
/// assert!(std::net::TcpListener::bind(("127.0.0.1", port)).is_ok());
/// assert_ne!(talaria_needs::free_port(), port);
/// ```
#[must_use]
pub fn free_port() -> u16 {
    static GIVEN: AtomicU16 = AtomicU16::new(0);
    let is_free = |port: &u16| TcpListener::bind(("127.0.0.1", *port)).is_ok();
    // Programs of several tests may run at the same time.
    let first = 20_000 + u16::try_from(process::id() % 100).expect("below 100") * PORTS;
    let mut ports = (0..PORTS).map(|_| first + GIVEN.fetch_add(1, Ordering::Relaxed) % PORTS);
    ports.find(is_free).expect("a free port")
}
