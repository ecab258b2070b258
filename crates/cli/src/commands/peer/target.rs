//! The host and port of a peer.

use std::fmt;
use std::str::FromStr;

use talaria_server::Peer;

/// The default port of gossip.
const PORT: u16 = 11370;

/// The host and port of a peer, as a user types them.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct Target {
    pub(super) host: String,
    pub(super) port: u16,
}

impl FromStr for Target {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, &'static str> {
        const SHAPE: &str = "a peer is HOST, HOST:PORT, [IPV6] or [IPV6]:PORT";
        if text.contains("://") {
            return Err("a peer is HOST or HOST:PORT, without http:// before it");
        }
        let (host, port) = if let Some(rest) = text.strip_prefix('[') {
            let (host, rest) = rest.split_once(']').ok_or(SHAPE)?;
            host.parse::<std::net::Ipv6Addr>().map_err(|_| SHAPE)?;
            match rest {
                "" => (host, None),
                _ => (host, Some(rest.strip_prefix(':').ok_or(SHAPE)?)),
            }
        } else if text.matches(':').count() > 1 {
            return Err("an IPv6 address goes in brackets: [2001:db8::1]:11370");
        } else {
            match text.split_once(':') {
                Some((host, port)) => (host, Some(port)),
                None => (text, None),
            }
        };
        if host.is_empty() || host.contains(|c: char| c.is_whitespace() || c == '/') {
            return Err(SHAPE);
        }
        let port =
            port.map_or(Ok(PORT), str::parse).map_err(|_| "a port is a number up to 65535")?;
        if port == 0 {
            return Err("nobody listens on port 0");
        }
        Ok(Self { host: host.to_lowercase(), port })
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { host, port } = self;
        if host.contains(':') { write!(f, "[{host}]:{port}") } else { write!(f, "{host}:{port}") }
    }
}

/// The name of a peer in the form that [`Target`] parses.
pub(super) fn name(peer: &Peer) -> String {
    Target { host: peer.host.clone(), port: peer.port }.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_split_into_host_and_port() {
        let cases = [
            ("keys.example.org", "keys.example.org:11370"),
            ("Keys.Example.org:80", "keys.example.org:80"),
            ("192.0.2.1", "192.0.2.1:11370"),
            ("[2001:db8::1]", "[2001:db8::1]:11370"),
            ("[2001:db8::1]:80", "[2001:db8::1]:80"),
        ];
        for (text, expected) in cases {
            let target: Target = text.parse().unwrap();
            assert_eq!(target.to_string(), expected);
            assert_eq!(target.to_string().parse(), Ok(target));
        }
        for bad in
            ["", ":80", "host:", "host:0", "host:99999", "2001:db8::1", "[::1", "[::1]80", "a b"]
        {
            assert!(bad.parse::<Target>().is_err(), "{bad}");
        }
        for url in ["http://127.0.0.1:11370", "https://keys.example.org", "hkp://a.example:11371"] {
            assert!(url.parse::<Target>().unwrap_err().contains("without http://"), "{url}");
        }
    }
}
