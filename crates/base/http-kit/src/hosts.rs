//! Which names a listener answers to, and which web pages may speak to it.
//!
//! A page in a browser can reach a listener on loopback in two ways. It can send requests to the listener's
//! own address: then the browser tells the page's origin (`Origin`, `Sec-Fetch-Site`). Or its owner points a
//! name of his own at loopback (DNS rebinding): then the browser takes the listener for a part of the page's
//! own site, and only the name in `Host` gives it away. Both are judged here, from the head of a request and
//! before anything else of it is read. Every listener uses this rule.
//!
//! A listener that asks every request for a token is not helped by the name: a page that has no token learns
//! nothing under any name, and cookies are bound to the name they were set for. It therefore answers to every
//! name until names are listed.

use std::fmt;
use std::net::{IpAddr, SocketAddr};

use http::{HeaderMap, Method, Request, Version, header};

/// What a listener answers to.
#[derive(Clone, Debug, Default)]
pub struct HostRule {
    /// Names besides those that need no listing; see [`check_name`].
    pub names: Vec<String>,
    /// Whether every request needs a token, but for probes.
    pub asks_token: bool,
    /// Whether the listener is on loopback. Beyond it, any address is taken for the listener's own: an address
    /// cannot be pointed elsewhere, and behind a NAT the listener does not know the one that its clients use.
    pub is_loopback: bool,
    /// Whether a link of another site may lead here: true for listeners whose GETs change nothing.
    pub takes_links: bool,
}

/// Why a request is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The name is none of the listener's (421).
    Misdirected { host: String },
    /// A page of another origin sent it (403).
    ForeignPage,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refusal::Misdirected { host } if host.is_empty() => f.write_str("the request names no host"),
            Refusal::Misdirected { host } => write!(f, "this listener does not answer to the name {host}"),
            Refusal::ForeignPage => f.write_str("a page of another origin needs a token"),
        }
    }
}

impl HostRule {
    /// Judges the head of a request that came to the address `own`.
    pub fn judge<B>(&self, head: &Request<B>, own: IpAddr) -> Result<(), Refusal> {
        let hosts = hosts(head);
        let answers_to_all = self.asks_token && self.names.is_empty();
        if !answers_to_all {
            // A client that speaks HTTP/1.0 may name no host; browsers always do.
            if hosts.is_empty() && head.version() > Version::HTTP_10 {
                return Err(Refusal::Misdirected { host: String::new() });
            }
            if let Some(host) = hosts.iter().find(|host| !self.answers_to(host, own)) {
                let host = crate::problem::echo(host, 100);
                return Err(Refusal::Misdirected { host });
            }
        }
        if !self.asks_token && self.is_foreign(head, hosts.first().copied()) {
            return Err(Refusal::ForeignPage);
        }
        Ok(())
    }

    fn answers_to(&self, authority: &str, own: IpAddr) -> bool {
        let Some((host, _)) = split(authority) else {
            return false;
        };
        match address(host) {
            Some(address) => {
                address.is_loopback()
                    || address == own.to_canonical()
                    || !self.is_loopback
                    || self.lists(host)
            }
            None => is_local_name(host) || self.lists(host),
        }
    }

    fn lists(&self, host: &str) -> bool {
        let host = host.strip_suffix('.').unwrap_or(host);
        self.names.iter().any(|name| match name.strip_prefix("*.") {
            Some(domain) => host.len().checked_sub(domain.len() + 1).is_some_and(|dot| {
                dot > 0 && host.as_bytes()[dot] == b'.' && host[dot + 1..].eq_ignore_ascii_case(domain)
            }),
            None => host.eq_ignore_ascii_case(name),
        })
    }

    /// Returns whether a browser sent this for a page of another origin.
    fn is_foreign<B>(&self, head: &Request<B>, host: Option<&str>) -> bool {
        let mut origins = head.headers().get_all(header::ORIGIN).iter().peekable();
        if origins.peek().is_some() {
            return !origins.all(|origin| {
                let origin = origin.to_str().unwrap_or_default();
                is_same(origin, host) || self.lists_origin(origin)
            });
        }
        // Requests for images, scripts and the like carry no origin, but browsers of today tell their kind.
        match word(head.headers(), "sec-fetch-site") {
            Some("cross-site" | "same-site") => {
                let is_link = matches!(*head.method(), Method::GET | Method::HEAD)
                    && word(head.headers(), "sec-fetch-mode") == Some("navigate");
                !(is_link && self.takes_links)
            }
            _ => false,
        }
    }

    fn lists_origin(&self, origin: &str) -> bool {
        let authority = origin.split_once("://").map(|(_, authority)| authority);
        authority
            .and_then(split)
            .is_some_and(|(host, _)| self.lists(host))
    }
}

/// Returns what is wrong with an entry of a list of names, if anything.
pub fn check_name(name: &str) -> Result<(), String> {
    let host = name.strip_prefix("*.").unwrap_or(name);
    let is_name = !host.is_empty()
        && host
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.'))
        && !host.starts_with('.')
        && !host.ends_with('.');
    if is_name || host.parse::<IpAddr>().is_ok() {
        Ok(())
    } else {
        Err(format!(
            "`{name}` is no host name; write it without scheme and port, such as jobs.example.com or *.example.com"
        ))
    }
}

/// Returns every host that a request names: the authority of its target, which is where HTTP/2 has it, and the
/// header. Different ones are a trick, so all of them must be right.
fn hosts<B>(head: &Request<B>) -> Vec<&str> {
    let target = head.uri().authority().map(|authority| authority.as_str());
    let named = head.headers().get_all(header::HOST).iter();
    // What is no text is no name either, and is refused as such.
    target
        .into_iter()
        .chain(named.map(|value| value.to_str().unwrap_or("?")))
        .collect()
}

/// Splits `host`, `host:port` and `[v6]:port`.
fn split(authority: &str) -> Option<(&str, Option<u16>)> {
    let (host, port) = match authority.strip_prefix('[') {
        Some(rest) => {
            let (host, rest) = rest.split_once(']')?;
            (host, rest.strip_prefix(':').or((rest.is_empty()).then_some(""))?)
        }
        None => authority.split_once(':').unwrap_or((authority, "")),
    };
    let port = match port {
        "" => None,
        digits => Some(digits.parse().ok()?),
    };
    Some((host, port))
}

fn address(host: &str) -> Option<IpAddr> {
    host.parse::<IpAddr>().ok().map(|address| address.to_canonical())
}

/// Names that no name server may point elsewhere (RFC 6761).
fn is_local_name(host: &str) -> bool {
    let host = host.strip_suffix('.').unwrap_or(host).to_ascii_lowercase();
    host == "localhost"
        || host
            .strip_suffix(".localhost")
            .is_some_and(|name| !name.is_empty())
}

/// Returns whether an origin is that of the host, with the port that its scheme means.
fn is_same(origin: &str, host: Option<&str>) -> bool {
    let (Some((scheme, origin)), Some(host)) = (origin.split_once("://"), host) else {
        return false;
    };
    let usual = match scheme {
        "http" => 80,
        "https" => 443,
        _ => return false,
    };
    let (Some((origin, origin_port)), Some((host, port))) = (split(origin), split(host)) else {
        return false;
    };
    origin.eq_ignore_ascii_case(host) && origin_port.unwrap_or(usual) == port.unwrap_or(usual)
}

fn word<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name).and_then(|value| value.to_str().ok())
}

/// Returns whether only this machine can reach an address.
pub fn is_loopback(address: SocketAddr) -> bool {
    address.ip().to_canonical().is_loopback()
}

#[cfg(test)]
mod tests {
    use super::*;

    const OWN: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(127, 0, 0, 1));

    fn local() -> HostRule {
        HostRule {
            is_loopback: true,
            takes_links: true,
            ..HostRule::default()
        }
    }

    fn head(pairs: &[(&str, &str)]) -> Request<()> {
        let mut request = Request::builder().uri("/v1/tokens");
        for (name, value) in pairs {
            request = request.header(*name, *value);
        }
        request.body(()).unwrap()
    }

    fn judge(rule: &HostRule, pairs: &[(&str, &str)]) -> Option<u16> {
        match rule.judge(&head(pairs), OWN) {
            Ok(()) => None,
            Err(Refusal::Misdirected { .. }) => Some(421),
            Err(Refusal::ForeignPage) => Some(403),
        }
    }

    #[test]
    fn only_names_that_nobody_else_can_point_here_are_local() {
        for good in [
            "127.0.0.1:7400",
            "127.9.9.9",
            "[::1]:7400",
            "[::1]",
            "[::ffff:127.0.0.1]:1",
            "localhost:7400",
            "LOCALHOST",
            "localhost.",
            "app.localhost:7400",
        ] {
            assert_eq!(judge(&local(), &[("host", good)]), None, "{good}");
        }
        for bad in [
            "evil.test:7400",
            "localhost.evil.test",
            "127.0.0.1.evil.test",
            "evil-localhost",
            ".localhost",
            "10.0.0.7:80",
            "0.0.0.0:7400",
            "",
            "user@localhost",
            "localhost:port",
            "[::1",
            "[::1]x",
            "2130706433",
            "127.1",
        ] {
            assert_eq!(judge(&local(), &[("host", bad)]), Some(421), "{bad}");
        }
    }

    #[test]
    fn the_listeners_own_address_is_a_name_of_it() {
        let own = "192.0.2.7".parse().unwrap();
        let rule = HostRule {
            is_loopback: false,
            ..local()
        };
        assert!(rule.judge(&head(&[("host", "192.0.2.7:7400")]), own).is_ok());
        // What is beyond loopback may be behind a NAT and have any address, but no name.
        assert!(rule.judge(&head(&[("host", "198.51.100.1")]), own).is_ok());
        assert!(rule.judge(&head(&[("host", "evil.test")]), own).is_err());
        assert!(local().judge(&head(&[("host", "192.0.2.7:7400")]), own).is_ok());
    }

    #[test]
    fn listed_names_are_answered_to_and_nothing_near_them() {
        let rule = HostRule {
            names: vec!["jobs.example.com".into(), "*.lan".into()],
            ..local()
        };
        for good in [
            "jobs.example.com",
            "Jobs.Example.com:8443",
            "jobs.example.com.",
            "a.lan",
            "a.b.lan:1",
        ] {
            assert_eq!(judge(&rule, &[("host", good)]), None, "{good}");
        }
        for bad in [
            "x.jobs.example.com",
            "jobs.example.com.evil.test",
            "lan",
            ".lan",
            "alan",
            "example.com",
        ] {
            assert_eq!(judge(&rule, &[("host", bad)]), Some(421), "{bad}");
        }
    }

    #[test]
    fn a_listener_with_a_token_answers_to_all_names_until_some_are_listed() {
        let rule = HostRule {
            asks_token: true,
            ..local()
        };
        assert_eq!(judge(&rule, &[("host", "jobs.example.com")]), None);
        let rule = HostRule {
            names: vec!["jobs.example.com".into()],
            ..rule
        };
        assert_eq!(judge(&rule, &[("host", "jobs.example.com")]), None);
        assert_eq!(judge(&rule, &[("host", "other.example.com")]), Some(421));
    }

    #[test]
    fn every_host_that_a_request_names_must_be_right() {
        assert_eq!(
            judge(&local(), &[("host", "localhost"), ("host", "evil.test")]),
            Some(421)
        );
        assert_eq!(judge(&local(), &[]), Some(421));
        let mut parts = head(&[("host", "localhost")]);
        *parts.uri_mut() = "http://evil.test:7400/v1/tokens".parse().unwrap();
        assert!(local().judge(&parts, OWN).is_err());
        let mut parts = head(&[]);
        *parts.version_mut() = Version::HTTP_2;
        *parts.uri_mut() = "http://localhost:7400/v1/tokens".parse().unwrap();
        assert!(local().judge(&parts, OWN).is_ok());
        let mut parts = head(&[]);
        *parts.version_mut() = Version::HTTP_10;
        assert!(local().judge(&parts, OWN).is_ok());
    }

    #[test]
    fn pages_of_another_origin_are_foreign() {
        let from = |origin: &str| judge(&local(), &[("host", "127.0.0.1:7400"), ("origin", origin)]);
        assert_eq!(from("http://127.0.0.1:7400"), None);
        for foreign in [
            "http://evil.test",
            "http://127.0.0.1:7401",
            "http://localhost:7400",
            "https://127.0.0.1:7400x",
            "null",
            "",
            "file://",
            "chrome-extension://127.0.0.1:7400",
        ] {
            assert_eq!(from(foreign), Some(403), "{foreign}");
        }
        let named = HostRule {
            names: vec!["jobs.example.com".into()],
            ..local()
        };
        let from = |origin: &str| judge(&named, &[("host", "jobs.example.com"), ("origin", origin)]);
        assert_eq!(from("https://jobs.example.com"), None);
        // A proxy that drops the port from Host.
        assert_eq!(from("https://jobs.example.com:8443"), None);
        assert_eq!(from("https://evil.test"), Some(403));
    }

    #[test]
    fn what_pages_load_without_an_origin_is_known_by_its_kind() {
        let sent = |rule: &HostRule, site, mode| {
            judge(
                rule,
                &[
                    ("host", "127.0.0.1:7400"),
                    ("sec-fetch-site", site),
                    ("sec-fetch-mode", mode),
                ],
            )
        };
        assert_eq!(sent(&local(), "same-origin", "cors"), None);
        assert_eq!(sent(&local(), "none", "navigate"), None);
        assert_eq!(sent(&local(), "cross-site", "no-cors"), Some(403));
        assert_eq!(sent(&local(), "same-site", "no-cors"), Some(403));
        assert_eq!(sent(&local(), "cross-site", "navigate"), None);
        let fanout = HostRule {
            takes_links: false,
            ..local()
        };
        assert_eq!(sent(&fanout, "cross-site", "navigate"), Some(403));
    }

    #[test]
    fn entries_of_the_list_are_names() {
        for good in ["jobs.example.com", "*.example.com", "nagaya", "192.0.2.7", "a_b"] {
            check_name(good).unwrap();
        }
        for bad in ["", "http://x", "x:80", "*", "a b", "x/", ".x", "x."] {
            assert!(check_name(bad).is_err(), "{bad}");
        }
    }
}
