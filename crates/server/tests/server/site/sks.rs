//! An SKS of the system on loopback.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use talaria_cert::Cert;
use talaria_needs::free_port;
use talaria_recon::{Decoder, Exchange, ExchangeRole, GossipMessage, Outbox, PrefixTree, Settings};

use super::wait_for;

/// Both processes of a server, which end with the test.
pub(crate) struct Sks {
    processes: Vec<Child>,
    pub(crate) recon: SocketAddr,
}

impl Drop for Sks {
    fn drop(&mut self) {
        for process in &mut self.processes {
            let _ = process.kill();
            let _ = process.wait();
        }
    }
}

pub(crate) fn is_installed() -> bool {
    Command::new("sks").arg("version").output().is_ok()
}

impl Sks {
    /// Builds and starts an SKS server with these certificates. Its only peers are at `peers`; it
    /// never connects to its own address, 127.0.0.1.
    pub(crate) fn start(base: &Path, certs: &[Cert], peers: &[SocketAddr]) -> Self {
        for part in [
            "etc/sks",
            "var/lib/sks/dump",
            "var/lib/sks/www",
            "var/log/sks",
            "var/run/sks",
            "var/spool/sks/messages",
            "var/spool/sks/failed_messages",
        ] {
            fs::create_dir_all(base.join(part)).unwrap();
        }
        let (hkp_port, recon_port) = (free_port(), free_port());
        let configuration = format!(
            "hostname: localhost\nnodename: test\nhkp_address: 127.0.0.1\nhkp_port: {hkp_port}\n\
             recon_address: 127.0.0.1\nrecon_port: {recon_port}\npagesize: 16\n\
             ptree_pagesize: 16\ndisable_mailsync:\ngossip_interval: 0.1\n\
             membership_reload_interval: 0.01\ndebuglevel: 6\n"
        );
        fs::write(base.join("etc/sks/sksconf"), configuration).unwrap();
        let membership: String =
            peers.iter().map(|peer| format!("{} {}\n", peer.ip(), peer.port())).collect();
        fs::write(base.join("etc/sks/membership"), membership).unwrap();
        let dump = base.join("var/lib/sks/dump/0.pgp");
        fs::write(&dump, certs.iter().flat_map(Cert::as_bytes).copied().collect::<Vec<_>>())
            .unwrap();
        let sks = |arguments: &[&str]| {
            let mut sks = Command::new("sks");
            sks.args(arguments).arg("-basedir").arg(base);
            sks.stdout(Stdio::null()).stderr(Stdio::null());
            sks
        };
        let build = ["build", dump.to_str().unwrap(), "-n", "10", "-cache", "50"];
        let tree = ["pbuild", "-cache", "20", "-ptree_cache", "70"];
        for arguments in [&build[..], &["cleandb"], &tree] {
            assert!(sks(arguments).status().unwrap().success(), "{arguments:?}");
        }
        let recon = SocketAddr::from(([127, 0, 0, 1], recon_port));
        let mut server = Self { processes: vec![sks(&["db"]).spawn().unwrap()], recon };
        // The other process connects to this one at its start, and ends without an answer.
        wait_for("SKS starts", || TcpStream::connect(("127.0.0.1", hkp_port)).is_ok());
        server.processes.push(sks(&["recon"]).spawn().unwrap());
        server
    }

    /// Whether SKS has exactly these digests, if it answers now. 127.0.0.1 must be
    /// one of its peers.
    pub(crate) fn has(&self, tree: &PrefixTree) -> bool {
        // While it fetches or starts, it does not listen or closes at once.
        let Ok(mut stream) = TcpStream::connect(self.recon) else { return false };
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        let (mut outbox, mut decoder) = (Outbox::new(), Decoder::new());
        let mut exchange =
            Exchange::start(ExchangeRole::Initiator, Settings::default(), 1, &mut outbox);
        let mut buffer = vec![0; 4096];
        loop {
            if stream.write_all(&outbox.take_due()).is_err() {
                return false;
            }
            match stream.read(&mut buffer) {
                Ok(0) | Err(_) => return false,
                Ok(n) => decoder.feed(&buffer[..n]),
            }
            while let Some(message) = decoder.next_message().unwrap() {
                // Its first request covers its complete set. The exchange ends here: if it went on,
                // SKS would try to fetch from us what it lacks, and refuse other exchanges
                // meanwhile.
                match &message {
                    GossipMessage::Poly { prefix, len, values } => {
                        let ours = tree.at(*prefix);
                        return *len as usize == ours.len() && **values == ours.values();
                    }
                    GossipMessage::Full { digests, .. } => {
                        return digests.len() == tree.len()
                            && digests.iter().all(|digest| tree.contains(digest));
                    }
                    _ => {}
                }
                let Ok(next) = exchange.step(message, tree, &mut outbox) else { return false };
                exchange = next;
            }
        }
    }
}
