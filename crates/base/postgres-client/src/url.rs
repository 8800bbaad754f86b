//! Where a PostgreSQL is, as one line of text.
//!
//! ```text
//! postgres://[user[:password]@]host[:port][,host[:port]...][/database][?setting=value&...]
//! postgres://[user@]%2Frun%2Fpostgresql/database
//! postgres:///database?host=/run/postgresql&port=5433
//! ```
//! Settings: `sslmode` (disable, prefer, require, verify-ca, verify-full), `sslrootcert` (a PEM file, or
//! `system`), `application_name`, `options`, `host`, `port`, `user`, `password`, `dbname`. Of several hosts
//! the first that takes writes is used.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use nagaya_config::Secret;
use nagaya_net::url::{ENCODED, decode, decode_some, encode, host_and_port, without_secrets};

const DEFAULT_PORT: u16 = 5432;

/// One place to connect to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Host {
    Tcp {
        host: String,
        port: u16,
    },
    /// The folder of the socket; its file name follows from the port.
    Unix {
        folder: PathBuf,
        port: u16,
    },
}

/// How much of TLS is wanted, in the words of libpq.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TlsMode {
    Disable,
    /// TLS when the server has it; certificates are not checked.
    #[default]
    Prefer,
    /// TLS or nothing; certificates are checked only against a given `sslrootcert`.
    Require,
    /// The certificate must be signed by a trusted authority.
    VerifyCa,
    /// As before, and it must be the host's.
    VerifyFull,
}

impl TlsMode {
    const ALL: [(TlsMode, &'static str); 5] = [
        (TlsMode::Disable, "disable"),
        (TlsMode::Prefer, "prefer"),
        (TlsMode::Require, "require"),
        (TlsMode::VerifyCa, "verify-ca"),
        (TlsMode::VerifyFull, "verify-full"),
    ];

    fn name(self) -> &'static str {
        let found = TlsMode::ALL.iter().find(|(mode, _)| *mode == self);
        found.map_or("", |(_, name)| name)
    }
}

/// A parsed URL. It prints itself with secrets as `***`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PostgresUrl {
    pub hosts: Vec<Host>,
    /// Without one, the name of the user that runs the program.
    pub user: Option<String>,
    pub password: Option<Secret>,
    /// Without one, the user's name.
    pub database: Option<String>,
    pub tls: TlsMode,
    /// Certificates to trust, PEM; the system's when absent.
    pub root_certificates: Option<PathBuf>,
    pub application_name: Option<String>,
    /// Command-line options for the server's session, such as `-c search_path=room`.
    pub options: Option<String>,
}

/// Why a text is not the URL of a PostgreSQL.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{shown}: {reason}")]
pub struct ParseError {
    /// The URL without its secrets.
    shown: String,
    reason: String,
}

impl FromStr for PostgresUrl {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<PostgresUrl, ParseError> {
        parse(text).map_err(|reason| ParseError {
            shown: without_secrets(text),
            reason,
        })
    }
}

fn parse(text: &str) -> Result<PostgresUrl, String> {
    let (scheme, rest) = text
        .split_once("://")
        .ok_or("has no scheme, such as postgres://")?;
    if scheme != "postgres" && scheme != "postgresql" {
        return Err(format!("scheme {scheme} is not postgres"));
    }
    let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
    let (authority, database) = rest.split_once('/').unwrap_or((rest, ""));
    let (login, hosts) = authority.rsplit_once('@').unwrap_or(("", authority));
    let (user, password) = login.split_once(':').unwrap_or((login, ""));
    let mut url = PostgresUrl {
        hosts: Vec::new(),
        user: decode_some(user)?,
        password: decode_some(password)?.map(Secret::new),
        database: decode_some(database)?,
        tls: TlsMode::default(),
        root_certificates: None,
        application_name: None,
        options: None,
    };
    let named = read_query(&mut url, query)?;
    let hosts = if named.host.is_empty() { hosts } else { &named.host };
    let hosts = hosts.split(',').map(|host| endpoint(host, named.port));
    url.hosts = hosts.collect::<Result<_, String>>()?;
    let local = url.hosts.iter().any(|host| matches!(host, Host::Unix { .. }));
    if local && !matches!(url.tls, TlsMode::Disable | TlsMode::Prefer) {
        return Err("a unix socket has no tls".into());
    }
    Ok(url)
}

/// The place as far as settings name it.
struct Named {
    host: String,
    port: u16,
}

fn read_query(url: &mut PostgresUrl, query: &str) -> Result<Named, String> {
    let mut named = Named {
        host: String::new(),
        port: DEFAULT_PORT,
    };
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        let text = decode_some(value)?;
        match name {
            "host" => named.host = text.unwrap_or_default(),
            "port" => named.port = port(value)?,
            "user" => url.user = text,
            "password" => url.password = text.map(Secret::new),
            "dbname" => url.database = text,
            "sslmode" => url.tls = tls_mode(value)?,
            "sslrootcert" => url.root_certificates = text.filter(|path| path != "system").map(PathBuf::from),
            "application_name" => url.application_name = text,
            "options" => url.options = text,
            _ => {
                let known =
                    "sslmode, sslrootcert, application_name, options, host, port, user, password, dbname";
                return Err(format!("unknown setting {name}; known are {known}"));
            }
        }
    }
    Ok(named)
}

fn tls_mode(text: &str) -> Result<TlsMode, String> {
    let found = TlsMode::ALL.iter().find(|(_, name)| *name == text);
    found.map(|(mode, _)| *mode).ok_or_else(|| {
        let names = TlsMode::ALL.map(|(_, name)| name).join(", ");
        format!("sslmode {text} is none of {names}")
    })
}

/// `host`, `host:port`, `:port`, `[v6]`, `[v6]:port` or the folder of a socket.
fn endpoint(text: &str, default_port: u16) -> Result<Host, String> {
    let (host, digits) = host_and_port(text)?;
    let port = match digits {
        None => default_port,
        Some(digits) => port(digits)?,
    };
    let host = decode(host)?;
    if host.starts_with('/') {
        let folder = host.into();
        return Ok(Host::Unix { folder, port });
    }
    let host = if host.is_empty() { "localhost".into() } else { host };
    Ok(Host::Tcp { host, port })
}

fn port(text: &str) -> Result<u16, String> {
    text.parse()
        .ok()
        .filter(|port| *port != 0)
        .ok_or_else(|| format!("port {text} is not a number from 1 to 65535"))
}

impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Host::Tcp { host, port } if host.contains(':') => write!(f, "[{host}]:{port}"),
            Host::Tcp { host, port } => write!(f, "{host}:{port}"),
            Host::Unix { folder, port } => write!(f, "{}:{port}", encode(&folder.to_string_lossy(), ENCODED)),
        }
    }
}

impl fmt::Display for PostgresUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("postgres://")?;
        if self.user.is_some() || self.password.is_some() {
            f.write_str(&encode(self.user.as_deref().unwrap_or_default(), ENCODED))?;
            f.write_str(if self.password.is_some() { ":***@" } else { "@" })?;
        }
        let hosts = self.hosts.iter().map(Host::to_string).collect::<Vec<_>>();
        f.write_str(&hosts.join(","))?;
        if let Some(database) = &self.database {
            write!(f, "/{}", encode(database, ENCODED))?;
        }
        let mut query = Vec::new();
        if self.tls != TlsMode::default() {
            query.push(format!("sslmode={}", self.tls.name()));
        }
        let roots = self
            .root_certificates
            .as_ref()
            .map(|path| path.display().to_string());
        let texts = [
            ("sslrootcert", &roots),
            ("application_name", &self.application_name),
            ("options", &self.options),
        ];
        for (name, text) in texts {
            query.extend(
                text.as_ref()
                    .map(|text| format!("{name}={}", encode(text, ENCODED))),
            );
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
        let url: PostgresUrl = text.parse().unwrap();
        assert_eq!(url.to_string(), printed, "{text}");
    }

    fn check_refused(text: &str, reason: &str) {
        let error = text.parse::<PostgresUrl>().unwrap_err().to_string();
        assert!(error.contains(reason), "{text}: {error}");
    }

    #[test]
    fn every_form_is_read_and_printed() {
        check("postgres://h/db", "postgres://h:5432/db");
        check("postgresql://", "postgres://localhost:5432");
        check("postgres://u:p@h:1/db", "postgres://u:***@h:1/db");
        check("postgres://u%40x@[::1]:7/d%2Fb", "postgres://u%40x@[::1]:7/d%2Fb");
        check(
            "postgres://a,b:5/db?sslmode=verify-full",
            "postgres://a:5432,b:5/db?sslmode=verify-full",
        );
        check(
            "postgres:///db?host=/run/pg&port=7",
            "postgres://%2Frun%2Fpg:7/db",
        );
        check("postgres://%2Frun%2Fpg/db", "postgres://%2Frun%2Fpg:5432/db");
        check(
            "postgres://h/db?sslmode=require&sslrootcert=/c.pem&application_name=a",
            "postgres://h:5432/db?sslmode=require&sslrootcert=%2Fc.pem&application_name=a",
        );
    }

    #[test]
    fn logins_are_decoded() {
        let url: PostgresUrl = "postgres://us%3Aer:p%40%2Fss@h".parse().unwrap();
        assert_eq!(url.user.as_deref(), Some("us:er"));
        assert_eq!(url.password.unwrap().reveal(), "p@/ss");
        let url: PostgresUrl = "postgres://h?user=u&password=p&dbname=d".parse().unwrap();
        assert_eq!(
            (url.user.as_deref(), url.database.as_deref()),
            (Some("u"), Some("d"))
        );
        assert_eq!(url.password.unwrap().reveal(), "p");
    }

    #[test]
    fn bad_urls_say_what_is_wrong_and_hide_secrets() {
        check_refused("localhost:5432", "no scheme");
        check_refused("mysql://h", "scheme mysql");
        check_refused("postgres://h:99999", "port 99999");
        check_refused("postgres://h:0", "port 0");
        check_refused("postgres://h?sslmode=on", "sslmode on is none of disable, prefer");
        check_refused("postgres://h?ssl=1", "unknown setting ssl");
        check_refused("postgres://%zz", "two hex digits");
        check_refused("postgres://%2Frun/db?sslmode=require", "unix socket");
        let error = "postgres://u:hunter2@h:x/db?password=hunter3".parse::<PostgresUrl>();
        let shown = error.unwrap_err().to_string();
        assert!(!shown.contains("hunter"), "{shown}");
    }

    #[test]
    fn passwords_are_not_shown_by_debug() {
        let url: PostgresUrl = "postgres://u:hunter2@h".parse().unwrap();
        assert!(!format!("{url:?}").contains("hunter"));
    }
}
