//! Whose word is taken for the address of a client.
//!
//! Behind a proxy every connection comes from the proxy, which names the client in a header that any client
//! can write as well. The header is read from its end, where the nearest proxy has written, and only as far as
//! the writers are trusted.

use std::net::IpAddr;

use http::HeaderMap;
use http::header::FORWARDED;
use ipnet::IpNet;

/// The header that most proxies add to.
const X_FORWARDED_FOR: &str = "x-forwarded-for";

/// Networks of trusted proxies.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Proxies(Vec<IpNet>);

impl Proxies {
    /// Reads networks (`10.0.0.0/8`) and single addresses.
    pub fn parse(texts: &[String]) -> Result<Proxies, String> {
        let read = |text: &String| {
            let single = || text.parse::<IpAddr>().ok().map(IpNet::from);
            let network = text.parse().ok().or_else(single);
            network.ok_or_else(|| format!("`{text}` is no network; write it as 10.0.0.0/8 or as one address"))
        };
        texts.iter().map(read).collect::<Result<_, _>>().map(Proxies)
    }

    pub fn trust(&self, address: IpAddr) -> bool {
        let address = address.to_canonical();
        self.0.iter().any(|network| network.contains(&address))
    }

    /// Returns the address of the client that sent a request: the last one named that is no trusted proxy.
    pub fn client(&self, peer: IpAddr, headers: &HeaderMap) -> IpAddr {
        let mut client = peer.to_canonical();
        for named in named(headers).into_iter().rev() {
            if !self.trust(client) {
                break;
            }
            match named {
                Some(address) => client = address,
                // A proxy that hides the address, or nonsense: the proxy is the nearest that is known.
                None => break,
            }
        }
        client
    }
}

/// Returns the addresses that proxies wrote, in their order; `Forwarded` (RFC 7239) only without the older header.
fn named(headers: &HeaderMap) -> Vec<Option<IpAddr>> {
    let items = |name: &str| -> Vec<String> {
        let lines = headers
            .get_all(name)
            .iter()
            .map(|value| value.to_str().unwrap_or("?"));
        lines
            .flat_map(|line| line.split(',').map(|item| item.trim().to_owned()))
            .collect()
    };
    let older = items(X_FORWARDED_FOR);
    if !older.is_empty() {
        return older.iter().map(|item| address(item)).collect();
    }
    items(FORWARDED.as_str())
        .iter()
        .map(|item| {
            let pairs = item.split(';').filter_map(|pair| pair.trim().split_once('='));
            let mut wanted = pairs.filter(|(name, _)| name.eq_ignore_ascii_case("for"));
            address(wanted.next()?.1.trim_matches('"'))
        })
        .collect()
}

/// Reads an address, with or without a port.
fn address(text: &str) -> Option<IpAddr> {
    let bare = text.strip_prefix('[').and_then(|rest| rest.split_once(']'));
    let address = match bare {
        Some((address, _)) => address.parse().ok(),
        None => text.parse().ok().or_else(|| {
            let (host, _) = text.split_once(':')?;
            host.parse().ok()
        }),
    };
    address.map(|address: IpAddr| address.to_canonical())
}

#[cfg(test)]
mod tests {
    use http::{HeaderName, HeaderValue};

    use super::*;

    fn client(proxies: &[&str], peer: &str, headers: &[(&'static str, &'static str)]) -> String {
        let proxies: Vec<String> = proxies.iter().map(|text| text.to_string()).collect();
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.append(HeaderName::from_static(name), HeaderValue::from_static(value));
        }
        let proxies = Proxies::parse(&proxies).unwrap();
        proxies.client(peer.parse().unwrap(), &map).to_string()
    }

    #[test]
    fn strangers_cannot_choose_their_address() {
        let sent = [("x-forwarded-for", "203.0.113.9")];
        assert_eq!(client(&[], "198.51.100.1", &sent), "198.51.100.1");
        assert_eq!(client(&["10.0.0.0/8"], "198.51.100.1", &sent), "198.51.100.1");
    }

    #[test]
    fn the_last_untrusted_address_is_the_client() {
        let proxies = ["10.0.0.0/8", "127.0.0.1"];
        let sent = [
            ("x-forwarded-for", "1.1.1.1, 203.0.113.9"),
            ("x-forwarded-for", "10.0.0.3"),
        ];
        assert_eq!(client(&proxies, "127.0.0.1", &sent), "203.0.113.9");
        assert_eq!(client(&proxies, "::ffff:10.0.0.9", &sent), "203.0.113.9");
        assert_eq!(client(&proxies, "10.0.0.9", &[]), "10.0.0.9");
        let odd = [("x-forwarded-for", "203.0.113.9, unknown")];
        assert_eq!(client(&proxies, "10.0.0.9", &odd), "10.0.0.9");
    }

    #[test]
    fn both_headers_and_all_ways_to_write_addresses_are_read() {
        let proxies = ["::1"];
        for (header, value) in [
            ("x-forwarded-for", "203.0.113.9:4711"),
            ("forwarded", "for=203.0.113.9;proto=https;by=10.0.0.1"),
            ("forwarded", "For=\"203.0.113.9:80\""),
        ] {
            assert_eq!(
                client(&proxies, "::1", &[(header, value)]),
                "203.0.113.9",
                "{value}"
            );
        }
        let v6 = [("forwarded", "for=\"[2001:db8::7]:80\"")];
        assert_eq!(client(&proxies, "::1", &v6), "2001:db8::7");
        assert!(Proxies::parse(&["10.0.0.0/99".into()]).is_err());
    }
}
