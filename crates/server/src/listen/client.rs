//! The address of a client behind a proxy: `X-Forwarded-For` and the header of the PROXY protocol.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::str;

use ipnet::IpNet;

/// The address of every client whose proxy names it in a way that cannot be read. Nobody has this
/// address. So these clients share the limits of one network, which no list of exempt networks or
/// operators names.
const UNREADABLE: IpAddr = IpAddr::V4(Ipv4Addr::UNSPECIFIED);

/// Whether one of the networks has an address.
pub(super) fn is_in(nets: &[IpNet], address: IpAddr) -> bool {
    let address = address.to_canonical();
    nets.iter().any(|net| net.contains(&address))
}

/// The address of the client: that of the connection, or, if that is of a proxy in the settings,
/// the last one in `X-Forwarded-For` that is not of such a proxy. The client may have written all
/// that stands before it.
///
/// An entry that cannot be read gives [`UNREADABLE`], and never the address of the proxy.
pub(super) fn client_of(headers: &http::HeaderMap, address: IpAddr, proxies: &[IpNet]) -> IpAddr {
    let mut client = address;
    let lines = headers.get_all("x-forwarded-for").iter().rev();
    // Bytes, since the part of a client need not be text.
    for entry in lines.flat_map(|line| line.as_bytes().rsplit(|&byte| byte == b',')) {
        if !is_in(proxies, client) {
            break;
        }
        let Some(before) = address_in(entry) else { return UNREADABLE };
        client = before;
    }
    client
}

/// The address in an entry of `X-Forwarded-For`: `192.0.2.1`, `192.0.2.1:5`, `2001:db8::1`,
/// `[2001:db8::1]` or `[2001:db8::1]:5`.
fn address_in(entry: &[u8]) -> Option<IpAddr> {
    let text = str::from_utf8(entry.trim_ascii()).ok()?;
    let plain = text.parse().ok();
    let plain = plain.or_else(|| text.parse::<SocketAddr>().ok().map(|address| address.ip()));
    plain.or_else(|| {
        let inner = text.strip_prefix('[')?.strip_suffix(']')?;
        inner.parse::<Ipv6Addr>().ok().map(IpAddr::V6)
    })
}

/// The client in a header of version 1. `None` for `UNKNOWN`: the connection counts as one of the
/// proxy.
pub(super) fn v1_client(header: &ppp::v1::Header<'_>) -> Option<IpAddr> {
    match header.addresses {
        ppp::v1::Addresses::Tcp4(addresses) => Some(addresses.source_address.into()),
        ppp::v1::Addresses::Tcp6(addresses) => Some(addresses.source_address.into()),
        ppp::v1::Addresses::Unknown => None,
    }
}

/// The client in a header of version 2. `None` for `LOCAL`, whose addresses have to be ignored, and
/// for `UNIX` and `UNSPEC`: the connection counts as one of the proxy.
pub(super) fn v2_client(header: &ppp::v2::Header<'_>) -> Option<IpAddr> {
    if header.command == ppp::v2::Command::Local {
        return None;
    }
    match header.addresses {
        ppp::v2::Addresses::IPv4(addresses) => Some(addresses.source_address.into()),
        ppp::v2::Addresses::IPv6(addresses) => Some(addresses.source_address.into()),
        ppp::v2::Addresses::Unix(_) | ppp::v2::Addresses::Unspecified => None,
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;
    use crate::config::{Config, Rates};
    use crate::request::Via;

    /// The client of a request with these lines of `X-Forwarded-For`.
    fn of(address: &str, lines: &[&[u8]]) -> String {
        let proxies = ["10.0.0.0/8", "192.0.2.1/32", "2001:db8:9::/48"];
        let mut headers = http::HeaderMap::new();
        for line in lines {
            headers.append("x-forwarded-for", HeaderValue::from_bytes(line).unwrap());
        }
        let proxies = proxies.map(|net| net.parse().unwrap());
        client_of(&headers, address.parse().unwrap(), &proxies).to_string()
    }

    #[test]
    fn only_named_proxies_speak_for_clients() {
        assert_eq!(of("198.51.100.1", &[b"203.0.113.9"]), "198.51.100.1");
        assert_eq!(of("198.51.100.1", &[b"\xff"]), "198.51.100.1");
        assert_eq!(of("192.0.2.1", &[b"203.0.113.9"]), "203.0.113.9");
        assert_eq!(of("192.0.2.1", &[]), "192.0.2.1");
    }

    #[test]
    fn the_last_entry_that_is_no_proxy_counts() {
        // The client wrote the entries before it.
        assert_eq!(of("192.0.2.1", &[b"10.9.9.9, 127.0.0.1, 203.0.113.9"]), "203.0.113.9");
        assert_eq!(of("192.0.2.1", &[b"127.0.0.1", b"203.0.113.9"]), "203.0.113.9");
        assert_eq!(of("192.0.2.1", &[b"203.0.113.9", b"127.0.0.1,198.51.100.7"]), "198.51.100.7");
        // Two proxies one behind the other.
        assert_eq!(of("192.0.2.1", &[b"127.0.0.1, 203.0.113.9, 10.0.0.7"]), "203.0.113.9");
        assert_eq!(of("192.0.2.1", &[b"127.0.0.1, 203.0.113.9", b"10.0.0.7"]), "203.0.113.9");
        // A proxy asks for itself.
        assert_eq!(of("192.0.2.1", &[b"10.0.0.6, 10.0.0.7"]), "10.0.0.6");
    }

    #[test]
    fn unreadable_entries_before_the_one_that_counts_change_nothing() {
        for before in [&b"\xff"[..], b"unknown", b"\xff, 127.0.0.1", b"", b",,", b"\t\xc3\xa9"] {
            let line = [before, b", 203.0.113.9"].concat();
            assert_eq!(of("192.0.2.1", &[&line]), "203.0.113.9", "{before:?}");
            assert_eq!(of("192.0.2.1", &[before, b"203.0.113.9"]), "203.0.113.9", "{before:?}");
            let line = [before, b", 203.0.113.9 ,10.0.0.7"].concat();
            assert_eq!(of("192.0.2.1", &[&line]), "203.0.113.9", "{before:?}");
        }
    }

    #[test]
    fn an_entry_may_have_a_port() {
        for (entry, address) in [
            ("198.51.100.9:5555", "198.51.100.9"),
            ("2001:db8::1", "2001:db8::1"),
            ("[2001:db8::1]", "2001:db8::1"),
            ("[2001:db8::1]:5555", "2001:db8::1"),
            ("\t198.51.100.9  ", "198.51.100.9"),
        ] {
            assert_eq!(of("192.0.2.1", &[entry.as_bytes()]), address);
        }
        // Those of proxies too.
        let proxies = b"10.0.0.7:2, [2001:db8:9::1]:3, [2001:db8:9::2], ::ffff:10.0.0.8";
        assert_eq!(of("192.0.2.1", &[b"127.0.0.1, 203.0.113.9:1", proxies]), "203.0.113.9");
    }

    #[test]
    fn a_client_that_cannot_be_read_is_neither_its_proxy_nor_exempt_nor_an_operator() {
        let unreadable: [&[u8]; 14] = [
            b"unknown",
            b"\xff",
            b"203.0.113.9, x",
            b"127.0.0.1, \xff",
            b"127.0.0.1,",
            b"",
            b"unix:",
            b"_hidden",
            b"198.51.100.9:",
            b"198.51.100.9:65536",
            b"[198.51.100.9]",
            b"[2001:db8::1]5",
            b"[2001:db8::1",
            b"\"198.51.100.9\"",
        ];
        for entry in unreadable {
            assert_eq!(of("192.0.2.1", &[entry]), UNREADABLE.to_string(), "{entry:?}");
            // Behind a second proxy.
            let line = [entry, b", 10.0.0.7"].concat();
            assert_eq!(of("192.0.2.1", &[&line]), UNREADABLE.to_string(), "{entry:?}");
        }
        // Even if all addresses are those of proxies.
        let mut headers = http::HeaderMap::new();
        headers.insert("x-forwarded-for", HeaderValue::from_static("127.0.0.1, unknown"));
        let all = ["0.0.0.0/0".parse().unwrap()];
        assert_eq!(client_of(&headers, "192.0.2.1".parse().unwrap(), &all), UNREADABLE);
        let network = Rates::default().network(UNREADABLE, Via::Public);
        assert!(network.is_some());
        assert_ne!(network, Rates::default().network("192.0.2.1".parse().unwrap(), Via::Public));
        assert!(!is_in(&Config::default().http.operators, UNREADABLE));
    }

    #[test]
    fn the_proxy_protocol_names_a_client_or_the_connection_is_of_the_proxy() {
        let v1 = |text: &'static str| v1_client(&ppp::v1::Header::try_from(text).unwrap());
        let client = Some("198.51.100.7".parse().unwrap());
        assert_eq!(v1("PROXY TCP4 198.51.100.7 192.0.2.9 4660 80\r\n"), client);
        assert_eq!(v1("PROXY UNKNOWN\r\n"), None);
        assert_eq!(v1("PROXY UNKNOWN 198.51.100.7 192.0.2.9 4660 80\r\n"), None);
        let v2 = |command: u8, family: u8, addresses: &[u8]| {
            let length = u16::try_from(addresses.len()).unwrap().to_be_bytes();
            let head = [b"\r\n\r\n\0\r\nQUIT\n", &[0x20 | command, family][..], &length].concat();
            v2_client(&ppp::v2::Header::try_from(&[&head[..], addresses].concat()[..]).unwrap())
        };
        let addresses = [198, 51, 100, 7, 192, 0, 2, 9, 0x12, 0x34, 0, 80];
        let (local, proxy) = (0, 1);
        assert_eq!(v2(proxy, 0x11, &addresses), client);
        assert_eq!(v2(local, 0x11, &addresses), None);
        assert_eq!(v2(local, 0x21, &[1; 36]), None);
        assert_eq!(v2(local, 0, b""), None);
        assert_eq!(v2(proxy, 0, &addresses), None);
        assert_eq!(v2(proxy, 0x31, &[b'/'; 216]), None);
    }
}
