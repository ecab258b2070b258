//! The software of peers, as they name it over HTTP. The handshake of gossip has only the version
//! of the protocol: every Hockeypuck calls itself 1.1.6 there.

use std::io::Read as _;
use std::net::SocketAddr;
use std::time::Duration;

use http::header;
use serde::Deserialize;

/// Seconds after which a peer is asked again.
pub(super) const ASK_AGAIN_S: u32 = 3600;

/// The time for an answer.
const PATIENCE: Duration = Duration::from_secs(10);

/// Bytes of statistics that are read.
const STATISTICS_BYTES_MAX: u64 = 1 << 20;

/// Characters of a name that are kept.
const NAME_MAX: usize = 64;

/// The fields of Hockeypuck's statistics, which talaria has, too.
#[derive(Deserialize)]
struct Statistics {
    software: String,
    version: String,
}

/// The software of a keyserver and its version: from its statistics, or else from the header
/// `Server`, as SKS has it. `None` if it says neither.
pub(super) fn of(address: SocketAddr) -> Option<String> {
    let agent: ureq::Agent = ureq::Agent::config_builder()
        .timeout_global(Some(PATIENCE))
        .max_redirects(0)
        // SKS refuses before it has counted, and names itself all the same.
        .http_status_as_error(false)
        .build()
        .into();
    let url = format!("http://{address}/pks/lookup?op=stats&options=mr");
    let answer = agent.get(url).call().ok()?;
    let server = answer.headers().get(header::SERVER);
    let server = server.and_then(|server| server.to_str().ok()).map(str::to_owned);
    let mut body = Vec::new();
    let read = answer.into_body().into_reader().take(STATISTICS_BYTES_MAX).read_to_end(&mut body);
    let statistics: Option<Statistics> = read.ok().and_then(|_| serde_json::from_slice(&body).ok());
    let named = statistics.map(|named| format!("{} {}", named.software, named.version));
    named.or(server).map(|name| plain(&name)).filter(|name| !name.is_empty())
}

/// The first characters of a name that strangers wrote.
fn plain(name: &str) -> String {
    let is_plain = |c: &char| c.is_ascii_graphic() || *c == ' ';
    name.chars().filter(is_plain).take(NAME_MAX).collect::<String>().trim().to_owned()
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;
    use std::net::TcpListener;

    use super::*;

    /// What is made of an answer with this head and body.
    fn named(head: &str, body: &str) -> Option<String> {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let length = body.len();
        let answer = format!("HTTP/1.1 200 OK\r\n{head}content-length: {length}\r\n\r\n{body}");
        let server = std::thread::spawn(move || {
            let (mut client, _) = listener.accept().unwrap();
            let mut request = [0; 1024];
            assert!(client.read(&mut request).unwrap() > 0);
            client.write_all(answer.as_bytes()).unwrap();
        });
        let named = of(address);
        server.join().unwrap();
        named
    }

    #[test]
    fn a_peer_names_its_software_in_statistics_or_in_a_header() {
        let hockeypuck =
            r#"{"now": "x", "version": "2.3.3", "software": "Hockeypuck", "Total": 1}"#;
        assert_eq!(named("server: nginx\r\n", hockeypuck).as_deref(), Some("Hockeypuck 2.3.3"));
        let sks = named("Server: sks_www/1.1.6\r\n", "<html>SKS</html>");
        assert_eq!(sks.as_deref(), Some("sks_www/1.1.6"));
        assert_eq!(named("", "<html></html>"), None);
        let long = format!(r#"{{"software": "\u202e{}", "version": "\n1"}}"#, "a".repeat(100));
        assert_eq!(named("", &long).unwrap(), "a".repeat(NAME_MAX));
    }
}
