//! The endpoints as a setting: a table of names, each with a URL and optional limits.

use std::collections::BTreeMap;
use std::time::Duration;

use http::header::{CONTENT_TYPE, USER_AGENT};
use http::{HeaderName, HeaderValue, Method};
use nagaya_config::{Raw, Secret, Value};

use crate::config::{NOT_FORWARDED, Redirects};
use crate::target::Target;

/// Upper bound for the number of endpoints. Each costs memory, and the record of one request must fit in one
/// script call.
pub const ENDPOINTS_MAX: usize = 2000;

/// Further tries of one call at most.
const RETRIES_MAX: u32 = 5;

/// All endpoints by name, in the order of the names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Endpoints(pub BTreeMap<String, EndpointConfig>);

/// One endpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EndpointConfig {
    /// Where copies are sent: `http://` or `https://`, optionally with a path and a query.
    pub url: String,
    /// Instead of `fanout.timeout`.
    pub timeout: Option<Duration>,
    /// Instead of `fanout.endpoint_concurrency`.
    pub concurrency: Option<usize>,
    /// Instead of the client's method.
    pub method: Option<Method>,
    /// Sent besides the client's, and in place of those with the same name.
    pub headers: Vec<(HeaderName, Secret)>,
    /// Instead of `fanout.redirects`.
    pub redirects: Option<Redirects>,
    /// Requests a second at most; further ones are shed.
    pub rate: Option<u32>,
    /// Further tries of a call that failed, in the same time.
    pub retries: u32,
    /// A second call when the first takes longer than most.
    pub hedge: bool,
}

impl EndpointConfig {
    pub fn at(url: impl Into<String>) -> EndpointConfig {
        EndpointConfig {
            url: url.into(),
            timeout: None,
            concurrency: None,
            method: None,
            headers: Vec::new(),
            redirects: None,
            rate: None,
            retries: 0,
            hedge: false,
        }
    }
}

impl Value for Endpoints {
    const KIND: &'static str = "a table of endpoints: `NAME = \"URL\"` or \
        `NAME = { url = \"URL\", timeout = \"300ms\", concurrency = 64, method = \"POST\", headers = { X-Key = \"...\" }, \
        redirects = \"none\", rate = 50, retries = 1, hedge = true }` (outside TOML: `NAME=URL,NAME=URL`)";

    fn read(raw: &Raw) -> Option<Endpoints> {
        match raw {
            Raw::Unset => Some(Endpoints::default()),
            Raw::Table(rows) => {
                let read = |(name, value): &(String, Raw)| Some((name.clone(), endpoint(value)?));
                rows.iter().map(read).collect::<Option<_>>().map(Endpoints)
            }
            Raw::Words(words) => words
                .split(',')
                .map(str::trim)
                .filter(|item| !item.is_empty())
                .map(|item| {
                    let (name, url) = item.split_once('=')?;
                    Some((name.trim().to_owned(), EndpointConfig::at(known_url(url.trim())?)))
                })
                .collect::<Option<_>>()
                .map(Endpoints),
            _ => None,
        }
    }

    fn write(&self) -> Raw {
        if self.0.is_empty() {
            return Raw::Unset;
        }
        let rows = self
            .0
            .iter()
            .map(|(name, endpoint)| (name.clone(), write(endpoint)));
        Raw::Table(rows.collect())
    }
}

fn endpoint(raw: &Raw) -> Option<EndpointConfig> {
    let rows = match raw {
        Raw::Text(url) => return Some(EndpointConfig::at(known_url(url)?)),
        Raw::Table(rows) => rows,
        _ => return None,
    };
    let mut read = EndpointConfig::at("");
    for (key, value) in rows {
        match key.as_str() {
            "url" => read.url = known_url(value.text()?)?.to_owned(),
            "timeout" => read.timeout = Some(Duration::read(value)?),
            "concurrency" => read.concurrency = Some(usize::read(value).filter(|count| *count > 0)?),
            "method" => read.method = Some(method(value.text()?)?),
            "headers" => read.headers = headers(value)?,
            "redirects" => read.redirects = Some(Redirects::read(value)?),
            "rate" => read.rate = Some(u32::read(value).filter(|rate| *rate > 0)?),
            "retries" => read.retries = u32::read(value).filter(|retries| *retries <= RETRIES_MAX)?,
            "hedge" => read.hedge = bool::read(value)?,
            _ => return None,
        }
    }
    Some(read).filter(|read| !read.url.is_empty())
}

/// Reads a method that endpoints may be asked with.
fn method(text: &str) -> Option<Method> {
    let known = [
        Method::GET,
        Method::POST,
        Method::PUT,
        Method::PATCH,
        Method::DELETE,
    ];
    known.into_iter().find(|method| method.as_str() == text)
}

/// Reads a table of headers. Their values may be secrets, and are never shown.
fn headers(raw: &Raw) -> Option<Vec<(HeaderName, Secret)>> {
    let Raw::Table(rows) = raw else {
        return None;
    };
    let read = |(name, value): &(String, Raw)| {
        let name = HeaderName::from_bytes(name.as_bytes()).ok()?;
        let value = Secret::read(value)?;
        let is_ours = NOT_FORWARDED.contains(&name.as_str()) && name != CONTENT_TYPE && name != USER_AGENT;
        let is_ours = is_ours || name.as_str().starts_with("nagaya-");
        (!is_ours && HeaderValue::from_str(value.reveal()).is_ok()).then_some((name, value))
    };
    rows.iter().map(read).collect()
}

fn write(endpoint: &EndpointConfig) -> Raw {
    let mut rows = vec![("url".to_owned(), Raw::from(endpoint.url.as_str()))];
    let mut put = |name: &str, value: Option<Raw>| rows.extend(value.map(|value| (name.to_owned(), value)));
    put("timeout", endpoint.timeout.map(|timeout| timeout.write()));
    put("concurrency", endpoint.concurrency.map(|count| count.write()));
    put(
        "method",
        endpoint.method.as_ref().map(|method| Raw::from(method.as_str())),
    );
    let headers = endpoint.headers.iter();
    let headers: Vec<(String, Raw)> = headers
        .map(|(name, value)| (name.to_string(), value.write()))
        .collect();
    put("headers", (!headers.is_empty()).then_some(Raw::Table(headers)));
    put("redirects", endpoint.redirects.map(|redirects| redirects.write()));
    put("rate", endpoint.rate.map(|rate| rate.write()));
    put(
        "retries",
        (endpoint.retries > 0).then(|| endpoint.retries.write()),
    );
    put("hedge", endpoint.hedge.then(|| endpoint.hedge.write()));
    match rows.len() {
        1 => rows.remove(0).1,
        _ => Raw::Table(rows),
    }
}

/// Returns the text if it is a URL that we can fetch.
pub(crate) fn known_url(text: &str) -> Option<&str> {
    Target::parse(text).map(|_| text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endpoints_are_read_from_tables_and_from_words() {
        let own = Raw::Table(vec![
            ("url".into(), Raw::from("https://b/x?y=1")),
            ("timeout".into(), Raw::from("300ms")),
            ("concurrency".into(), Raw::from(9)),
        ]);
        let table = Raw::Table(vec![("b".into(), own), ("a".into(), Raw::from("http://a"))]);
        let read = Endpoints::read(&table).unwrap();
        assert_eq!(read.0["a"], EndpointConfig::at("http://a"));
        assert_eq!(read.0["b"].timeout, Some(Duration::from_millis(300)));
        assert_eq!(read.0["b"].concurrency, Some(9));
        assert_eq!(Endpoints::read(&read.write()), Some(read));
        let words = Endpoints::read(&Raw::Words("a=http://a, b=http://b/?x=1".into())).unwrap();
        assert_eq!(words.0["b"].url, "http://b/?x=1");
        assert_eq!(Endpoints::read(&Raw::Unset), Some(Endpoints::default()));
    }

    fn table(rows: &[(&str, Raw)]) -> Raw {
        let row = |(key, value): &(&str, Raw)| (key.to_string(), value.clone());
        Raw::Table(rows.iter().map(row).collect())
    }

    #[test]
    fn each_endpoint_has_its_own_settings_and_its_headers_are_secret() {
        let own = [
            ("url", Raw::from("http://a")),
            ("method", Raw::from("PUT")),
            ("headers", table(&[("X-Api-Key", Raw::from("hunter2"))])),
            ("redirects", Raw::from("none")),
            ("rate", Raw::from(50)),
            ("retries", Raw::from(2)),
            ("hedge", Raw::Bool(true)),
        ];
        let read = Endpoints::read(&table(&[("a", table(&own))])).unwrap();
        let endpoint = &read.0["a"];
        assert_eq!(
            (endpoint.method.clone(), endpoint.rate),
            (Some(Method::PUT), Some(50))
        );
        assert_eq!((endpoint.redirects, endpoint.retries), (Some(Redirects::None), 2));
        assert_eq!(
            (endpoint.headers[0].1.reveal(), endpoint.hedge),
            ("hunter2", true)
        );
        let shown = format!("{:?} {endpoint:?}", read.write());
        assert!(
            !shown.contains("hunter2") && shown.contains("x-api-key"),
            "{shown}"
        );
    }

    #[test]
    fn settings_of_an_endpoint_that_cannot_be_used_are_refused() {
        for (key, value) in [
            ("method", Raw::from("get")),
            ("method", Raw::from("CONNECT")),
            ("headers", table(&[("Host", Raw::from("x"))])),
            ("headers", table(&[("Nagaya-Request-Id", Raw::from("x"))])),
            ("headers", table(&[("a b", Raw::from("x"))])),
            ("headers", table(&[("X-Key", Raw::from("a\r\nb: c"))])),
            ("headers", table(&[("X-Key", Raw::from(""))])),
            ("redirects", Raw::from("some")),
            ("rate", Raw::from(0)),
            ("retries", Raw::from(6)),
            ("hedge", Raw::from(1)),
        ] {
            let own = table(&[("url", Raw::from("http://a")), (key, value.clone())]);
            assert_eq!(Endpoints::read(&table(&[("a", own)])), None, "{key} {value:?}");
        }
    }

    #[test]
    fn what_is_no_endpoint_is_refused() {
        let one = |value: Raw| Endpoints::read(&Raw::Table(vec![("a".into(), value)]));
        assert_eq!(one(Raw::from("ftp://a")), None);
        assert_eq!(one(Raw::from("/path")), None);
        assert_eq!(one(Raw::from(1)), None);
        assert_eq!(one(Raw::Table(Vec::new())), None);
        assert_eq!(one(Raw::Table(vec![("uri".into(), Raw::from("http://a"))])), None);
        assert_eq!(Endpoints::read(&Raw::Words("http://a".into())), None);
    }
}
