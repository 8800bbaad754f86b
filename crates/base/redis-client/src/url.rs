//! The URL of a Redis.
//!
//! ```text
//! redis://[user:password@]host[:port][/db][?ns=NAME]
//! redis+unix:///path/to/socket[?db=N]
//! redis+sentinel://[user:password@]host[:port],host[:port].../service[/db]
//! redis+cluster://[user:password@]host[:port],host[:port]...
//! ```
//! `rediss` in place of `redis` means TLS, `ca=FILE` names the certificates to trust. User and
//! password are the data servers'; sentinels take theirs from `sentinel_user` and
//! `sentinel_password`. `ns` is the prefix of the caller's keys.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use nagaya_config::Secret;
use nagaya_net::url::{ENCODED, decode, decode_some, encode, host_and_port, without_secrets};
use percent_encoding::AsciiSet;

/// A namespace that is a hash tag stays readable.
const READABLE: &AsciiSet = &ENCODED.remove(b'{').remove(b'}');

pub(crate) const DEFAULT_PORT: u16 = 6379;
const DEFAULT_SENTINEL_PORT: u16 = 26379;

/// The address of one server.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Endpoint {
    Tcp { host: String, port: u16 },
    Unix(PathBuf),
}

/// The kind of deployment, and the servers that know the others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Topology {
    Single(Endpoint),
    Sentinel {
        sentinels: Vec<Endpoint>,
        service: String,
    },
    Cluster {
        seeds: Vec<Endpoint>,
    },
}

/// A parsed URL. It prints itself with secrets as `***`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RedisUrl {
    pub topology: Topology,
    pub tls: bool,
    /// Certificates to trust, PEM; the system's when absent.
    pub ca: Option<PathBuf>,
    pub user: Option<String>,
    pub password: Option<Secret>,
    pub sentinel_user: Option<String>,
    pub sentinel_password: Option<Secret>,
    pub db: u32,
    pub namespace: Option<String>,
}

/// Why a text is not the URL of a Redis.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{shown}: {reason}")]
pub struct ParseError {
    /// The URL without its secrets.
    shown: String,
    reason: String,
}

impl RedisUrl {
    /// Makes the URL of a single server at a host and port.
    pub fn single(host: impl Into<String>, port: u16) -> RedisUrl {
        let host = host.into();
        RedisUrl::new(Topology::Single(Endpoint::Tcp { host, port }))
    }

    fn new(topology: Topology) -> RedisUrl {
        RedisUrl {
            topology,
            tls: false,
            ca: None,
            user: None,
            password: None,
            sentinel_user: None,
            sentinel_password: None,
            db: 0,
            namespace: None,
        }
    }
}

impl FromStr for RedisUrl {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<RedisUrl, ParseError> {
        parse(text).map_err(|reason| ParseError {
            shown: without_secrets(text),
            reason,
        })
    }
}

fn parse(text: &str) -> Result<RedisUrl, String> {
    let (scheme, rest) = text.split_once("://").ok_or("has no scheme, such as redis://")?;
    let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
    let (authority, path) = match rest.find('/') {
        Some(at) => (&rest[..at], &rest[at + 1..]),
        None => (rest, ""),
    };
    let (login, hosts) = authority.rsplit_once('@').unwrap_or(("", authority));
    let (secure, kind) = match scheme.split_once('+').unwrap_or((scheme, "")) {
        ("redis", kind) => (false, kind),
        ("rediss", kind) => (true, kind),
        ("unix", "") => (false, "unix"),
        _ => {
            return Err(format!(
                "scheme {scheme} is not redis, rediss or one of their + forms"
            ));
        }
    };
    let mut url = RedisUrl::new(topology(kind, hosts, path)?);
    url.tls = secure;
    if kind == "unix" && secure {
        return Err("a unix socket has no tls".into());
    }
    let db = match kind {
        "sentinel" => path.split_once('/').map_or("", |(_, db)| db),
        "unix" => "",
        _ => path,
    };
    if !db.is_empty() {
        url.db = number(db, "database")?;
    }
    if !login.is_empty() {
        let (user, password) = login.split_once(':').unwrap_or((login, ""));
        url.user = decode_some(user)?;
        url.password = decode_some(password)?.map(Secret::new);
    }
    read_query(&mut url, query)?;
    if kind == "cluster" && url.db != 0 {
        return Err("a cluster has only database 0".into());
    }
    Ok(url)
}

fn topology(kind: &str, hosts: &str, path: &str) -> Result<Topology, String> {
    match kind {
        "" => {
            if hosts.contains(',') {
                return Err("several hosts need redis+sentinel:// or redis+cluster://".into());
            }
            Ok(Topology::Single(endpoint(hosts, DEFAULT_PORT)?))
        }
        "unix" if path.is_empty() || !hosts.is_empty() => {
            Err("a unix socket is written redis+unix:///path/to/socket".into())
        }
        "unix" => Ok(Topology::Single(Endpoint::Unix(
            format!("/{}", decode(path)?).into(),
        ))),
        "sentinel" => {
            let service = decode(path.split('/').next().unwrap_or_default())?;
            if service.is_empty() {
                return Err("names no service: redis+sentinel://host,host/SERVICE".into());
            }
            let sentinels = endpoints(hosts, DEFAULT_SENTINEL_PORT)?;
            Ok(Topology::Sentinel { sentinels, service })
        }
        "cluster" => Ok(Topology::Cluster {
            seeds: endpoints(hosts, DEFAULT_PORT)?,
        }),
        other => Err(format!("redis+{other} is not unix, sentinel or cluster")),
    }
}

fn read_query(url: &mut RedisUrl, query: &str) -> Result<(), String> {
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        match name {
            "ns" => url.namespace = decode_some(value)?,
            "db" => url.db = number(value, "database")?,
            "ca" => url.ca = decode_some(value)?.map(PathBuf::from),
            "sentinel_user" => url.sentinel_user = decode_some(value)?,
            "sentinel_password" => url.sentinel_password = decode_some(value)?.map(Secret::new),
            _ => {
                let known = "ns, db, ca, sentinel_user, sentinel_password";
                return Err(format!("unknown setting {name}; known are {known}"));
            }
        }
    }
    Ok(())
}

fn endpoints(hosts: &str, default_port: u16) -> Result<Vec<Endpoint>, String> {
    hosts
        .split(',')
        .map(|host| endpoint(host, default_port))
        .collect()
}

/// `host`, `host:port`, `:port`, `[v6]` or `[v6]:port`.
pub(crate) fn endpoint(text: &str, default_port: u16) -> Result<Endpoint, String> {
    let (host, port) = host_and_port(text)?;
    let port = match port {
        None => default_port,
        Some(port) => number(port, "port")?,
    };
    let host = if host.is_empty() { "localhost" } else { host };
    let host = host.to_owned();
    Ok(Endpoint::Tcp { host, port })
}

fn number<T: FromStr>(text: &str, what: &str) -> Result<T, String> {
    text.parse()
        .map_err(|_| format!("{what} {text} is not a number in range"))
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Endpoint::Tcp { host, port } if host.contains(':') => write!(f, "[{host}]:{port}"),
            Endpoint::Tcp { host, port } => write!(f, "{host}:{port}"),
            Endpoint::Unix(path) => write!(f, "{}", path.display()),
        }
    }
}

impl fmt::Display for RedisUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.tls { "rediss" } else { "redis" };
        let mut login = String::new();
        if self.user.is_some() || self.password.is_some() {
            login.push_str(&encode(self.user.as_deref().unwrap_or_default(), ENCODED));
            login.push_str(if self.password.is_some() { ":***@" } else { "@" });
        }
        let mut query = Vec::new();
        let list = |all: &[Endpoint]| all.iter().map(Endpoint::to_string).collect::<Vec<_>>().join(",");
        match &self.topology {
            Topology::Single(Endpoint::Unix(path)) => {
                write!(f, "redis+unix://{login}{}", path.display())?;
                if self.db != 0 {
                    query.push(format!("db={}", self.db));
                }
            }
            Topology::Single(server) => write!(f, "{scheme}://{login}{server}/{}", self.db)?,
            Topology::Sentinel { sentinels, service } => {
                write!(
                    f,
                    "{scheme}+sentinel://{login}{}/{service}/{}",
                    list(sentinels),
                    self.db
                )?;
            }
            Topology::Cluster { seeds } => write!(f, "{scheme}+cluster://{login}{}", list(seeds))?,
        }
        let mut add = |name: &str, value: &str| {
            let mut pair = format!("{name}=");
            pair.push_str(&encode(value, READABLE));
            query.push(pair);
        };
        if let Some(namespace) = &self.namespace {
            add("ns", namespace);
        }
        if let Some(ca) = &self.ca {
            add("ca", &ca.display().to_string());
        }
        if let Some(user) = &self.sentinel_user {
            add("sentinel_user", user);
        }
        if self.sentinel_password.is_some() {
            query.push("sentinel_password=***".into());
        }
        if query.is_empty() {
            return Ok(());
        }
        write!(f, "?{}", query.join("&"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, printed: &str) {
        let url: RedisUrl = text.parse().unwrap();
        assert_eq!(url.to_string(), printed, "{text}");
    }

    fn check_refused(text: &str, reason: &str) {
        let error = text.parse::<RedisUrl>().unwrap_err().to_string();
        assert!(error.contains(reason), "{text}: {error}");
    }

    #[test]
    fn every_form_is_read_and_printed() {
        check(
            "redis://localhost:6379/0?ns=yaraus",
            "redis://localhost:6379/0?ns=yaraus",
        );
        check("redis://", "redis://localhost:6379/0");
        check("redis://:7000/3", "redis://localhost:7000/3");
        check("rediss://[::1]:7000", "rediss://[::1]:7000/0");
        check(
            "redis+unix:///run/redis.sock?db=2",
            "redis+unix:///run/redis.sock?db=2",
        );
        check(
            "redis+sentinel://a,b:5/main/4?sentinel_password=x",
            "redis+sentinel://a:26379,b:5/main/4?sentinel_password=***",
        );
        check(
            "rediss+cluster://a:1,b:2?ns={p}",
            "rediss+cluster://a:1,b:2?ns={p}",
        );
        check("redis://u%40x:p@h", "redis://u%40x:***@h:6379/0");
    }

    #[test]
    fn logins_are_decoded() {
        let url: RedisUrl = "redis://us%3Aer:p%40%2Fss@h:1/2".parse().unwrap();
        assert_eq!(url.user.as_deref(), Some("us:er"));
        assert_eq!(url.password.unwrap().reveal(), "p@/ss");
        let only_password: RedisUrl = "redis://:pw@h".parse().unwrap();
        assert_eq!((only_password.user, only_password.db), (None, 0));
    }

    #[test]
    fn bad_urls_say_what_is_wrong_and_hide_secrets() {
        check_refused("localhost:6379", "no scheme");
        check_refused("http://h", "scheme http");
        check_refused("redis://h/zero", "database zero");
        check_refused("redis://h:99999", "port 99999");
        check_refused("redis://a,b", "redis+sentinel");
        check_refused("redis+sentinel://a", "names no service");
        check_refused("redis+cluster://a/3", "only database 0");
        check_refused("redis://h?nss=x", "unknown setting nss");
        check_refused("redis://h?ns=%zz", "two hex digits");
        let error = "redis://u:hunter2@h/x?sentinel_password=hunter3".parse::<RedisUrl>();
        let shown = error.unwrap_err().to_string();
        assert!(!shown.contains("hunter"), "{shown}");
    }
}
