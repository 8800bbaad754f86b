//! The address of an endpoint, parsed once.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::uri::{Authority, PathAndQuery, Scheme};
use http::{HeaderValue, Uri};
use percent_encoding::percent_decode_str;

/// A server: what a connection leads to.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Origin {
    pub(crate) https: bool,
    pub(crate) host: String,
    pub(crate) port: u16,
}

/// A URL to fetch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Target {
    pub(crate) origin: Origin,
    pub(crate) host_header: HeaderValue,
    /// User and password of the URL, as a header.
    pub(crate) login: Option<HeaderValue>,
    authority: Authority,
    path: PathAndQuery,
}

impl Target {
    /// Parses a URL; `None` if it is not one that we can fetch.
    pub(crate) fn parse(url: &str) -> Option<Target> {
        Target::from_uri(&url.parse().ok()?)
    }

    fn from_uri(uri: &Uri) -> Option<Target> {
        let https = match uri.scheme_str()? {
            "http" => false,
            "https" => true,
            _ => return None,
        };
        let authority = uri.authority()?;
        let (login, place) = match authority.as_str().rsplit_once('@') {
            Some((login, place)) => (Some(login), place),
            None => (None, authority.as_str()),
        };
        let host = authority.host();
        let host = host.trim_start_matches('[').trim_end_matches(']').to_owned();
        if host.is_empty() {
            return None;
        }
        let port = match place.strip_prefix(authority.host())?.strip_prefix(':') {
            None | Some("") => {
                if https {
                    443
                } else {
                    80
                }
            }
            Some(port) => port.parse().ok()?,
        };
        let login = match login {
            Some(login) => Some(basic(login)?),
            None => None,
        };
        Some(Target {
            origin: Origin { https, host, port },
            host_header: HeaderValue::from_str(place).ok()?,
            login,
            authority: place.parse().ok()?,
            path: uri
                .path_and_query()
                .cloned()
                .unwrap_or(PathAndQuery::from_static("/")),
        })
    }

    /// Returns the URL without login and query, which may hold secrets.
    pub(crate) fn shown(&self) -> String {
        let scheme = if self.origin.https { "https" } else { "http" };
        format!("{scheme}://{}{}", self.authority, self.path.path())
    }

    /// Returns the path with the endpoint's own query and the client's, joined as serinin does; `None` if that is
    /// longer than a URL may be.
    pub(crate) fn path_with(&self, query: Option<&str>) -> Option<PathAndQuery> {
        let Some(query) = query else {
            return Some(self.path.clone());
        };
        let own = self.path.as_str();
        let joint = match self.path.query() {
            None => "?",
            Some("") => "",
            Some(_) => "&",
        };
        let own = if self.path.query().is_none() {
            own.trim_end_matches('?')
        } else {
            own
        };
        // Both halves were parsed before; joined they can only be too long.
        format!("{own}{joint}{query}").parse().ok()
    }

    pub(crate) fn absolute(&self, path: PathAndQuery) -> Uri {
        let scheme = if self.origin.https {
            Scheme::HTTPS
        } else {
            Scheme::HTTP
        };
        let parts = Uri::builder()
            .scheme(scheme)
            .authority(self.authority.clone())
            .path_and_query(path)
            .build();
        parts.expect("scheme, authority and path are all there")
    }

    /// Resolves a `Location` header.
    pub(crate) fn follow(&self, location: &str) -> Option<Target> {
        let location = location.split('#').next()?;
        if let Some(rest) = location.strip_prefix("//") {
            let scheme = if self.origin.https { "https" } else { "http" };
            return Target::parse(&format!("{scheme}://{rest}"));
        }
        if location.contains("://") {
            return Target::parse(location);
        }
        let path = match location.as_bytes().first()? {
            b'/' => location.to_owned(),
            b'?' => format!("{}{location}", self.path.path()),
            _ => {
                let folder = self.path.path().rsplit_once('/').map_or("", |(folder, _)| folder);
                format!("{folder}/{location}")
            }
        };
        let mut next = self.clone();
        next.path = path.parse().ok()?;
        Some(next)
    }
}

/// Returns the header for the `user:password` of a URL.
fn basic(login: &str) -> Option<HeaderValue> {
    let (user, password) = login.split_once(':').unwrap_or((login, ""));
    let plain: Vec<u8> = percent_decode_str(user)
        .chain(*b":")
        .chain(percent_decode_str(password))
        .collect();
    let mut value = HeaderValue::from_str(&format!("Basic {}", STANDARD.encode(plain))).ok()?;
    value.set_sensitive(true);
    Some(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queries_are_joined_to_the_endpoints_own() {
        let join = |url: &str, query| Target::parse(url).unwrap().path_with(query).unwrap().to_string();
        assert_eq!(join("http://h", None), "/");
        assert_eq!(join("http://h", Some("a=1")), "/?a=1");
        assert_eq!(join("http://h/p", Some("a=1&b=%20")), "/p?a=1&b=%20");
        assert_eq!(join("http://h/p?x=0", Some("a=1")), "/p?x=0&a=1");
        assert_eq!(join("http://h/p?", Some("a=1")), "/p?a=1");
        assert_eq!(join("http://h/p?x=0", None), "/p?x=0");
    }

    #[test]
    fn urls_are_taken_apart() {
        let target = Target::parse("https://u%40:p@[::1]/x").unwrap();
        assert_eq!(target.origin.host, "::1");
        assert_eq!((target.origin.https, target.origin.port), (true, 443));
        assert_eq!(target.host_header, "[::1]");
        assert_eq!(target.login.unwrap(), "Basic dUA6cA==");
        for bad in ["/x", "ftp://h", "http://", "http://h:99999/"] {
            assert!(Target::parse(bad).is_none(), "{bad}");
        }
    }

    #[test]
    fn redirects_are_followed_from_where_they_came() {
        let follow = |location| {
            let target = Target::parse("http://h/a/b?x=1")
                .unwrap()
                .follow(location)
                .unwrap();
            target.absolute(target.path_with(None).unwrap()).to_string()
        };
        assert_eq!(follow("/c?y=2"), "http://h/c?y=2");
        assert_eq!(follow("c"), "http://h/a/c");
        assert_eq!(follow("?y"), "http://h/a/b?y");
        assert_eq!(follow("https://i/c#part"), "https://i/c");
        assert_eq!(follow("//i/c"), "http://i/c");
        assert!(
            Target::parse("http://h")
                .unwrap()
                .follow("javascript://x")
                .is_none()
        );
    }
}
