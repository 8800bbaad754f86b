//! The endpoints as a setting: a table of names, each with a URL and optional limits.

use std::collections::BTreeMap;
use std::time::Duration;

use nagaya_config::{Raw, Value};

use crate::target::Target;

/// Upper bound for the number of endpoints. Each costs memory, and the record of one request must fit in one
/// script call.
pub const ENDPOINTS_MAX: usize = 2000;

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
}

impl EndpointConfig {
    pub fn at(url: impl Into<String>) -> EndpointConfig {
        EndpointConfig {
            url: url.into(),
            timeout: None,
            concurrency: None,
        }
    }
}

impl Value for Endpoints {
    const KIND: &'static str = "a table of endpoints: `NAME = \"URL\"` or \
        `NAME = { url = \"URL\", timeout = \"300ms\", concurrency = 64 }` (outside TOML: `NAME=URL,NAME=URL`)";

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
            _ => return None,
        }
    }
    Some(read).filter(|read| !read.url.is_empty())
}

fn write(endpoint: &EndpointConfig) -> Raw {
    let url = Raw::from(endpoint.url.as_str());
    if endpoint.timeout.is_none() && endpoint.concurrency.is_none() {
        return url;
    }
    let mut rows = vec![("url".to_owned(), url)];
    rows.extend(
        endpoint
            .timeout
            .map(|timeout| ("timeout".to_owned(), timeout.write())),
    );
    let concurrency = endpoint.concurrency.map(|count| count.write());
    rows.extend(concurrency.map(|count| ("concurrency".to_owned(), count)));
    Raw::Table(rows)
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
