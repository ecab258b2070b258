//! A line to a server, which fails when it is told to.

use std::io::{Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;

/// How the line fails.
#[derive(Clone, Copy, Debug)]
pub(super) enum Fault {
    None,
    /// Connections end at once.
    Refuse,
    /// Nothing comes through, and the connections stay.
    Stall,
    /// A connection ends after this many bytes to the server.
    CutUpload(usize),
    /// A connection ends before every answer of this number comes through. The server has done its
    /// work.
    LoseAnswers(usize),
}

/// A listener that passes connections on.
pub(super) struct Line {
    address: SocketAddr,
    shared: Arc<Shared>,
}

struct Shared {
    server: SocketAddr,
    fault: Mutex<Fault>,
    answers: AtomicUsize,
    faults: AtomicUsize,
}

impl Line {
    pub(super) fn to(server: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let shared = Arc::new(Shared {
            server,
            fault: Mutex::new(Fault::None),
            answers: AtomicUsize::new(0),
            faults: AtomicUsize::new(0),
        });
        thread::spawn({
            let shared = Arc::clone(&shared);
            move || {
                for client in listener.incoming().map_while(Result::ok) {
                    let shared = Arc::clone(&shared);
                    thread::spawn(move || shared.pass(&client));
                }
            }
        });
        Self { address, shared }
    }

    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }

    pub(super) fn set(&self, fault: Fault) {
        *self.shared.fault.lock().unwrap() = fault;
    }

    /// How many times the line failed.
    pub(super) fn faults(&self) -> usize {
        self.shared.faults.load(Ordering::Relaxed)
    }
}

impl Shared {
    fn fault(&self) -> Fault {
        *self.fault.lock().unwrap()
    }

    fn pass(&self, client: &TcpStream) {
        let Ok(server) = TcpStream::connect(self.server) else { return };
        thread::scope(|scope| {
            scope.spawn(|| {
                self.copy(client, &server, true);
                let _ = server.shutdown(Shutdown::Both);
                let _ = client.shutdown(Shutdown::Both);
            });
            self.copy(&server, client, false);
            let _ = server.shutdown(Shutdown::Both);
            let _ = client.shutdown(Shutdown::Both);
        });
    }

    fn copy(&self, mut from: &TcpStream, mut to: &TcpStream, is_upload: bool) {
        let (mut buffer, mut total) = (vec![0; 32 << 10], 0);
        while let Ok(count @ 1..) = from.read(&mut buffer) {
            total += count;
            let cut = match (self.fault(), is_upload) {
                (Fault::Refuse, _) => true,
                // The bytes are lost, and nobody is told.
                (Fault::Stall, _) => continue,
                (Fault::CutUpload(after), true) => total > after,
                (Fault::LoseAnswers(every), false) => {
                    self.answers.fetch_add(1, Ordering::Relaxed) % every == every - 1
                }
                _ => false,
            };
            if cut {
                self.faults.fetch_add(1, Ordering::Relaxed);
                return;
            }
            if to.write_all(&buffer[..count]).is_err() {
                return;
            }
        }
    }
}
