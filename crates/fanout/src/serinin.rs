//! Reads serinin's JSON config file unchanged.
//!
//! What the file omits or sets to zero gets our defaults instead of no limit; every such change is listed in
//! [`Imported::warnings`]. Keys that serinin does not know are rejected, as serinin does. Duplicate endpoint
//! names are rejected too; serinin would drop one of them.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

use nagaya_config::{Listen, Secret};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde::Deserialize;
use serde::de::{Deserializer, Error as _, MapAccess, Visitor};

use crate::config::{FanoutConfig, NodeChoice, StoreKind};
use crate::endpoints::{EndpointConfig, Endpoints, known_url};
use crate::error::Error;
use crate::go_duration::GoDuration;

/// The file's content in our terms.
#[derive(Clone, Debug)]
pub struct Imported {
    pub config: FanoutConfig,
    /// The address named no host. serinin would listen on all interfaces; `config.listen` is loopback.
    pub listens_to_all: bool,
    /// How long running work may take to finish at shutdown; `None` for no limit.
    pub shutdown_timeout: Option<Duration>,
    /// One sentence for everything that is not applied as written.
    pub warnings: Vec<String>,
}

/// Flags of serinin that override the file.
#[derive(Clone, Debug, Default)]
pub struct Overrides {
    pub handlers: Option<usize>,
    pub workers: Option<usize>,
    pub store_type: Option<String>,
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields, default)]
struct File {
    addr: String,
    shutdown_timeout: GoDuration,
    max_handlers: i64,
    worker_num: i64,
    http_client_timeout: GoDuration,
    endpoints: NamedOnce,
    store_type: String,
    redis: Option<Redis>,
    memcache: Option<Memcache>,
    binmemcache: Option<Memcache>,
    gocache: Option<GoCache>,
}

#[derive(Default)]
struct NamedOnce(BTreeMap<String, Endpoint>);

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Endpoint {
    url: String,
    #[serde(default)]
    timeout: GoDuration,
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields, default)]
struct Redis {
    addr: String,
    password: String,
    dbnum: u32,
    expire_in: GoDuration,
    /// Accepted and unused: our store pipelines writes over one connection.
    #[serde(rename = "pool_size")]
    _pool_size: i64,
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields, default)]
struct Memcache {
    addrs: Vec<String>,
    expire_in: GoDuration,
    #[serde(rename = "max_idle_conns")]
    _max_idle_conns: i64,
    #[serde(rename = "conns_per_node")]
    _conns_per_node: i64,
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields, default)]
struct GoCache {
    expire_in: GoDuration,
}

/// Applies the file's text on top of `base`.
pub fn import(name: &str, text: &str, base: FanoutConfig, overrides: &Overrides) -> Result<Imported, Error> {
    let refuse = |message: String| Error::SerininFile {
        file: name.to_owned(),
        message,
    };
    let file: File = serde_json::from_str(text).map_err(|error| refuse(error.to_string()))?;
    let mut imported = Imported {
        config: base,
        listens_to_all: false,
        shutdown_timeout: file.shutdown_timeout.given(),
        warnings: Vec::new(),
    };
    imported.listen(&file.addr).map_err(refuse)?;
    imported.limits(&file, overrides);
    imported.endpoints(&file).map_err(refuse)?;
    imported.store(&file, overrides).map_err(refuse)?;
    imported.config.check()?;
    Ok(imported)
}

impl Imported {
    fn listen(&mut self, addr: &str) -> Result<(), String> {
        let addr = if addr.is_empty() { ":80" } else { addr };
        let cannot = || format!("\"addr\" is \"{addr}\", which is no address to listen on");
        let (host, port) = addr.rsplit_once(':').ok_or_else(cannot)?;
        let port: u16 = port.parse().map_err(|_| cannot())?;
        let host = host.trim_start_matches('[').trim_end_matches(']');
        self.listens_to_all = host.is_empty();
        let ip = match host {
            "" | "localhost" => IpAddr::V4(Ipv4Addr::LOCALHOST),
            host => host.parse().map_err(|_| cannot())?,
        };
        self.config.listen = Listen(SocketAddr::new(ip, port));
        Ok(())
    }

    fn limits(&mut self, file: &File, overrides: &Overrides) {
        let given = |flag: Option<usize>, file: i64| {
            let flag = flag.filter(|count| *count > 0);
            flag.or(usize::try_from(file).ok().filter(|count| *count > 0))
        };
        let config = &mut self.config;
        match given(overrides.handlers, file.max_handlers) {
            Some(count) => config.handlers = count,
            None => self.warnings.push(format!(
                "\"max_handlers\" is not set: {} requests at once are taken",
                config.handlers
            )),
        }
        match given(overrides.workers, file.worker_num) {
            Some(count) => config.workers = count,
            None => self.warnings.push(format!(
                "\"worker_num\" is not set: {} endpoints at once are asked",
                config.workers
            )),
        }
        match file.http_client_timeout.given() {
            Some(timeout) => config.timeout = timeout,
            None => self.warnings.push(format!(
                "\"http_client_timeout\" is not set: endpoints have {:?}",
                config.timeout
            )),
        }
    }

    fn endpoints(&mut self, file: &File) -> Result<(), String> {
        let mut endpoints = Endpoints::default();
        for (name, endpoint) in &file.endpoints.0 {
            let url = known_url(&endpoint.url)
                .ok_or_else(|| format!("endpoint \"{name}\": \"{}\" is no URL to fetch", endpoint.url))?;
            let config = EndpointConfig {
                timeout: endpoint.timeout.given(),
                ..EndpointConfig::at(url)
            };
            endpoints.0.insert(name.clone(), config);
        }
        if endpoints.0.is_empty() {
            return Err("no endpoints".to_owned());
        }
        self.config.endpoints = endpoints;
        Ok(())
    }

    fn store(&mut self, file: &File, overrides: &Overrides) -> Result<(), String> {
        let kind = overrides
            .store_type
            .as_deref()
            .filter(|kind| !kind.is_empty())
            .unwrap_or(&file.store_type);
        let missing = || format!("\"store_type\" is \"{kind}\", but \"{kind}\" is not configured");
        let config = &mut self.config;
        let expire_in = match kind {
            "" | "discard" => {
                config.store = StoreKind::Discard;
                return Ok(());
            }
            "redis" => {
                let redis = file.redis.as_ref().ok_or_else(missing)?;
                config.store = StoreKind::Redis;
                config.redis = Some(redis_url(redis));
                redis.expire_in
            }
            "memcache" | "binmemcache" => {
                let (settings, nodes) = match kind {
                    "memcache" => (&file.memcache, NodeChoice::Crc32),
                    _ => (&file.binmemcache, NodeChoice::Jump),
                };
                let settings = settings.as_ref().ok_or_else(missing)?;
                config.store = StoreKind::Memcached;
                config.memcached = settings.addrs.clone();
                config.memcached_nodes = nodes;
                settings.expire_in
            }
            "gocache" => {
                config.store = StoreKind::Memory;
                file.gocache.as_ref().ok_or_else(missing)?.expire_in
            }
            other => return Err(format!("unsupported \"store_type\": \"{other}\"")),
        };
        match expire_in.given() {
            Some(expire_in) => config.expire_in = expire_in.max(Duration::from_millis(1)),
            None => self.warnings.push(format!(
                "\"expire_in\" is not set: answers are kept for {:?}, not for ever",
                config.expire_in
            )),
        }
        Ok(())
    }
}

/// Returns the same server as a URL. go-redis takes an empty address for the local default.
fn redis_url(redis: &Redis) -> Secret {
    let addr = match redis.addr.as_str() {
        "" => "127.0.0.1:6379".to_owned(),
        addr if addr.starts_with(':') => format!("127.0.0.1{addr}"),
        addr => addr.to_owned(),
    };
    let login = if redis.password.is_empty() {
        String::new()
    } else {
        format!(":{}@", utf8_percent_encode(&redis.password, NON_ALPHANUMERIC))
    };
    Secret::new(format!("redis://{login}{addr}/{}", redis.dbnum))
}

impl<'de> Deserialize<'de> for NamedOnce {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<NamedOnce, D::Error> {
        struct Names;
        impl<'de> Visitor<'de> for Names {
            type Value = NamedOnce;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("endpoints by name")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<NamedOnce, A::Error> {
                let mut named = BTreeMap::new();
                while let Some((name, endpoint)) = map.next_entry::<String, Endpoint>()? {
                    if named.contains_key(&name) {
                        return Err(A::Error::custom(format!("endpoint \"{name}\" is there twice")));
                    }
                    named.insert(name, endpoint);
                }
                Ok(NamedOnce(named))
            }
        }
        deserializer.deserialize_map(Names)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Everything that serinin's own sample sets.
    fn sample(store_type: &str) -> String {
        let endpoints: Vec<String> = (1..=6)
            .map(|n| format!(r#""dst{n}": {{ "url": "http://127.0.0.1:1000{n}" }}"#))
            .collect();
        format!(
            r#"{{"addr": ":8000", "shutdown_timeout": "30s", "max_handlers": 16, "worker_num": 96,
                "http_client_timeout": "0.2s", "endpoints": {{ {} }}, "store_type": "{store_type}",
                "redis": {{ "addr": "127.0.0.1:6379", "expire_in": "60s" }},
                "memcache": {{ "addrs": [ "127.0.0.1:11211" ], "expire_in": "60s" }},
                "binmemcache": {{ "addrs": [ "127.0.0.1:11211" ], "expire_in": "60s" }},
                "gocache": {{ "expire_in": "60s" }} }}"#,
            endpoints.join(", ")
        )
    }

    fn read(text: &str) -> Result<Imported, Error> {
        import("f.json", text, FanoutConfig::default(), &Overrides::default())
    }

    #[track_caller]
    fn refused(text: &str, told: &str) {
        let error = read(text).unwrap_err().to_string();
        assert!(error.contains(told), "{error}");
    }

    #[test]
    fn the_sample_is_read_as_it_is() {
        let imported = read(&sample("discard")).unwrap();
        let config = imported.config;
        assert_eq!(config.listen.to_string(), "127.0.0.1:8000");
        assert!(imported.listens_to_all && imported.warnings.is_empty());
        assert_eq!((config.handlers, config.workers), (16, 96));
        assert_eq!(config.timeout, Duration::from_millis(200));
        assert_eq!(config.endpoints.0.len(), 6);
        assert_eq!(imported.shutdown_timeout, Some(Duration::from_secs(30)));
        assert_eq!(config.store, StoreKind::Discard);
    }

    #[test]
    fn every_store_name_is_known() {
        let store = |name: &str| read(&sample(name)).unwrap().config;
        let redis = store("redis");
        assert_eq!(redis.redis_url().unwrap().to_string(), "redis://127.0.0.1:6379/0");
        assert_eq!(redis.expire_in, Duration::from_secs(60));
        assert_eq!(store("memcache").memcached_nodes, NodeChoice::Crc32);
        assert_eq!(store("binmemcache").memcached_nodes, NodeChoice::Jump);
        assert_eq!(store("gocache").store, StoreKind::Memory);
        assert_eq!(store("").store, StoreKind::Discard);
        refused(&sample("none"), "unsupported \"store_type\": \"none\"");
        refused(&sample("binmemcached"), "unsupported");
    }

    #[test]
    fn flags_override_the_file() {
        let overrides = Overrides {
            handlers: Some(3),
            workers: Some(0),
            store_type: Some("redis".into()),
        };
        let config = import("f", &sample("discard"), FanoutConfig::default(), &overrides)
            .unwrap()
            .config;
        assert_eq!((config.handlers, config.workers), (3, 96));
        assert_eq!(config.store, StoreKind::Redis);
    }

    #[test]
    fn what_is_left_out_gets_our_defaults_and_is_told() {
        let text = r#"{"addr": "127.0.0.1:1", "endpoints": {"a": {"url": "http://h", "timeout": 300000000}},
            "store_type": "redis", "redis": {"addr": "h:1", "password": "p@ss/w", "dbnum": 2}}"#;
        let imported = read(text).unwrap();
        assert_eq!(imported.warnings.len(), 4, "{:?}", imported.warnings);
        assert_eq!(imported.config.timeout, Duration::from_millis(200));
        assert_eq!(
            imported.config.endpoints.0["a"].timeout,
            Some(Duration::from_millis(300))
        );
        assert_eq!(imported.shutdown_timeout, None);
        let url = imported.config.redis_url().unwrap();
        assert_eq!(url.password.unwrap().reveal(), "p@ss/w");
        assert_eq!(url.db, 2);
    }

    #[test]
    fn what_serinin_refuses_is_refused() {
        refused(r#"{"unknown": 1}"#, "unknown field");
        refused(r#"{"endpoints": {}}"#, "no endpoints");
        refused(
            r#"{"endpoints": {"a": {"url": "http://h", "x": 1}}}"#,
            "unknown field",
        );
        refused(r#"{"endpoints": {"a": {"url": "nonsense"}}}"#, "no URL");
        refused(
            r#"{"endpoints": {"a": {"url": "http://h"}, "a": {"url": "http://i"}}}"#,
            "twice",
        );
        refused(
            r#"{"endpoints": {"_id": {"url": "http://h"}}, "store_type": "discard"}"#,
            "taken",
        );
        refused(
            r#"{"endpoints": {"a": {"url": "http://h"}}, "store_type": "redis"}"#,
            "not configured",
        );
        refused(r#"{"addr": "example.com", "endpoints": {}}"#, "no address");
    }
}
