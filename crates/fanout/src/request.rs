//! The part of a client's request that endpoints receive.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{ACCEPT_ENCODING, AUTHORIZATION, CONTENT_TYPE, HOST, USER_AGENT};
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Uri, Version};
use http_body_util::Full;
use nagaya_http_kit::server::Kept;

use crate::target::Target;
use crate::traced;

/// Carries the request's id to an endpoint.
pub const ID_HEADER: &str = "nagaya-request-id";
/// Carries the remaining time in milliseconds to an endpoint.
pub const DEADLINE_HEADER: &str = "nagaya-deadline-ms";
/// Lists the fan-outs that the request has passed. A fan-out that finds itself in it stops the request.
pub const VIA_HEADER: &str = "nagaya-fanout-via";

/// Headers that say nothing about the client but what its body is.
const NOT_THE_CLIENTS: [&str; 5] = [
    "accept-encoding",
    "user-agent",
    "content-type",
    ID_HEADER,
    VIA_HEADER,
];

const AGENT: &str = concat!("nagaya-fanout/", env!("CARGO_PKG_VERSION"));

/// What every endpoint receives.
#[derive(Clone, Debug)]
pub struct Outgoing {
    pub(crate) method: Method,
    /// Appended to the endpoint's own query.
    pub(crate) query: Option<String>,
    pub(crate) body: Bytes,
    pub(crate) headers: HeaderMap,
    /// Counts the body against the listener's limit until no endpoint needs it any more.
    pub(crate) kept: Option<Arc<Kept>>,
}

impl Outgoing {
    /// Extracts what is forwarded from a client's request.
    pub(crate) fn new(
        method: Method,
        query: Option<&str>,
        body: Bytes,
        sent: &HeaderMap,
        forwarded: &[HeaderName],
    ) -> Outgoing {
        let mut headers = HeaderMap::with_capacity(8);
        for name in forwarded {
            for value in sent.get_all(name) {
                headers.append(name.clone(), value.clone());
            }
        }
        for name in traced::HEADERS {
            if let Some(value) = sent.get(&name) {
                headers.insert(name, value.clone());
            }
        }
        if let Some(kind) = sent.get(CONTENT_TYPE).filter(|_| method == Method::POST) {
            headers.insert(CONTENT_TYPE, kind.clone());
        }
        headers.insert(ACCEPT_ENCODING, HeaderValue::from_static("gzip"));
        headers.insert(USER_AGENT, HeaderValue::from_static(AGENT));
        Outgoing {
            method,
            query: query.filter(|query| !query.is_empty()).map(str::to_owned),
            body,
            headers,
            kept: None,
        }
    }

    /// Adds the headers about the request itself.
    pub(crate) fn identify(&mut self, id: &str, via: &str) {
        for (name, text) in [(ID_HEADER, id), (VIA_HEADER, via)] {
            if let Ok(value) = HeaderValue::from_str(text) {
                self.headers.insert(HeaderName::from_static(name), value);
            }
        }
    }

    /// Builds the request for one endpoint. HTTP/1.1 names the host in a header, HTTP/2 in the URI.
    /// `None` if its query does not fit in.
    pub(crate) fn build(
        &self,
        target: &Target,
        version: Version,
        left: Duration,
    ) -> Option<Request<Full<Bytes>>> {
        let path = target.path_with(self.query.as_deref())?;
        let mut request = Request::new(Full::new(self.body.clone()));
        *request.method_mut() = self.method.clone();
        *request.headers_mut() = self.headers.clone();
        let headers = request.headers_mut();
        if version == Version::HTTP_11 {
            headers.insert(HOST, target.host_header.clone());
        }
        if let Some(login) = &target.login {
            headers.insert(AUTHORIZATION, login.clone());
        }
        let left = u64::try_from(left.as_millis()).unwrap_or(u64::MAX);
        headers.insert(HeaderName::from_static(DEADLINE_HEADER), HeaderValue::from(left));
        *request.uri_mut() = match version {
            Version::HTTP_2 => target.absolute(path),
            _ => Uri::from(path),
        };
        Some(request)
    }

    /// Returns what an endpoint with a method or headers of its own gets.
    pub(crate) fn for_endpoint(
        &self,
        method: Option<&Method>,
        headers: &[(HeaderName, HeaderValue)],
    ) -> Outgoing {
        let mut own = self.clone();
        if let Some(method) = method {
            own.method = method.clone();
            if matches!(*method, Method::GET | Method::DELETE) {
                own.body = Bytes::new();
                own.headers.remove(CONTENT_TYPE);
            }
        }
        for (name, value) in headers {
            own.headers.insert(name.clone(), value.clone());
        }
        own
    }

    /// Returns what may be sent to a redirect target: nothing that was meant for the endpoint alone.
    pub(crate) fn for_redirect(&self, status: u16, same_origin: bool) -> Outgoing {
        let mut next = self.clone();
        // The new URL is complete.
        next.query = None;
        if matches!(status, 301..=303) && next.method == Method::POST {
            next.method = Method::GET;
            next.body = Bytes::new();
            next.headers.remove(CONTENT_TYPE);
        }
        if !same_origin {
            // What the client sent was meant for the endpoint; any of it may be a secret.
            let ours = |name: &HeaderName| {
                NOT_THE_CLIENTS.contains(&name.as_str()) || traced::HEADERS.contains(name)
            };
            let names: Vec<HeaderName> = next.headers.keys().filter(|name| !ours(name)).cloned().collect();
            for name in names {
                next.headers.remove(name);
            }
        }
        next
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target(url: &str) -> Target {
        Target::parse(url).unwrap()
    }

    fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        let pair = |(name, value): &(&'static str, &'static str)| {
            (HeaderName::from_static(name), HeaderValue::from_static(value))
        };
        pairs.iter().map(pair).collect()
    }

    #[test]
    fn only_what_is_allowed_goes_on() {
        let sent = headers(&[
            ("content-type", "text/x"),
            ("cookie", "c=1"),
            ("x-trace", "t"),
            ("traceparent", "p"),
            ("nagaya-request-id", "forged"),
        ]);
        let allowed = [HeaderName::from_static("x-trace")];
        let mut post = Outgoing::new(Method::POST, Some("a=1"), "body".into(), &sent, &allowed);
        post.identify("id-1", "me");
        let request = post.build(
            &target("http://h:81/p"),
            Version::HTTP_11,
            Duration::from_millis(7),
        );
        let request = request.unwrap();
        assert_eq!(request.uri(), "/p?a=1");
        let header = |name: &str| request.headers().get(name).map(|value| value.to_str().unwrap());
        assert_eq!(header("host"), Some("h:81"));
        assert_eq!(header("content-type"), Some("text/x"));
        assert_eq!(header("x-trace"), Some("t"));
        assert_eq!(header("traceparent"), Some("p"));
        assert_eq!(header("cookie"), None);
        assert_eq!(header("nagaya-request-id"), Some("id-1"));
        assert_eq!(header("nagaya-deadline-ms"), Some("7"));
        assert_eq!(header("nagaya-fanout-via"), Some("me"));
        let get = Outgoing::new(Method::GET, None, Bytes::new(), &sent, &[]);
        assert!(!get.headers.contains_key("content-type"));
    }

    #[test]
    fn redirects_get_what_go_would_send() {
        let sent = headers(&[
            ("content-type", "text/x"),
            ("authorization", "secret"),
            ("x-api-key", "secret"),
        ]);
        let allowed = [AUTHORIZATION, HeaderName::from_static("x-api-key")];
        let post = Outgoing::new(Method::POST, Some("a=1"), "body".into(), &sent, &allowed);
        let seen = post.for_redirect(302, true);
        assert_eq!((seen.method, seen.body.len(), seen.query), (Method::GET, 0, None));
        assert!(seen.headers.contains_key("authorization"));
        let kept = post.for_redirect(307, false);
        assert_eq!((kept.method, kept.body.len()), (Method::POST, 4));
        let mut names: Vec<&str> = kept.headers.keys().map(HeaderName::as_str).collect();
        names.sort_unstable();
        assert_eq!(names, ["accept-encoding", "content-type", "user-agent"]);
    }
}
