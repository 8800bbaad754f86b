//! Making one connection.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::timeout;
use tokio_postgres::config::{SslMode, TargetSessionAttrs};
use tokio_postgres::tls::MakeTlsConnect;
use tokio_postgres::{Client, Config, Socket};
use tokio_postgres_rustls::MakeRustlsConnect;

use crate::error::Error;
use crate::url::{Host, PostgresUrl, TlsMode};

/// The driver's other half of a connection: polling it moves the bytes.
pub(crate) type Wire =
    tokio_postgres::Connection<Socket, <MakeRustlsConnect as MakeTlsConnect<Socket>>::Stream>;

/// How long sent bytes may stay unacknowledged before the kernel closes the connection, and how soon a silent peer
/// is probed. Both end connections to a machine that lost its power.
const UNACKNOWLEDGED_MAX: Duration = Duration::from_secs(15);
const KEEPALIVE_IDLE: Duration = Duration::from_secs(15);
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(5);
const KEEPALIVE_RETRIES: u32 = 3;

/// Connects to the server of a URL; cheap to clone.
#[derive(Clone)]
pub struct Connector {
    config: Arc<Config>,
    tls: MakeRustlsConnect,
    address: Arc<str>,
    limit: Duration,
}

impl Connector {
    /// Reads the certificates that the URL names, without connecting. `connect_timeout` is per host.
    pub fn new(
        url: &PostgresUrl,
        application_name: &str,
        connect_timeout: Duration,
    ) -> Result<Connector, Error> {
        let hosts = url.hosts.iter().map(Host::to_string).collect::<Vec<_>>();
        let address: Arc<str> = hosts.join(",").into();
        let tls = crate::tls::client_config(url).map_err(|reason| Error::Tls {
            address: address.to_string(),
            reason,
        })?;
        let tries = u32::try_from(url.hosts.len()).unwrap_or(1).max(1);
        Ok(Connector {
            config: Arc::new(config(url, application_name, connect_timeout)),
            tls: MakeRustlsConnect::new(tls),
            address,
            limit: connect_timeout * tries,
        })
    }

    /// Returns where it connects to, for messages; without secrets.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// Connects. No bytes move on the connection until its second half is polled.
    pub(crate) async fn connect(&self) -> Result<(Client, Wire), Error> {
        let connected = timeout(self.limit, self.config.connect(self.tls.clone())).await;
        connected
            .map_err(|_| Error::Unreachable {
                address: self.address.to_string(),
                limit: self.limit,
            })?
            .map_err(|source| Error::Connect {
                address: self.address.to_string(),
                source,
            })
    }
}

impl std::fmt::Debug for Connector {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Connector")
            .field("address", &self.address)
            .finish_non_exhaustive()
    }
}

fn config(url: &PostgresUrl, application_name: &str, connect_timeout: Duration) -> Config {
    let mut config = Config::new();
    for host in &url.hosts {
        match host {
            Host::Tcp { host, port } => config.host(host).port(*port),
            Host::Unix { folder, port } => config.host_path(folder).port(*port),
        };
    }
    if let Some(user) = &url.user {
        config.user(user);
    }
    if let Some(password) = &url.password {
        config.password(password.reveal());
    }
    if let Some(database) = &url.database {
        config.dbname(database);
    }
    if let Some(options) = &url.options {
        config.options(options);
    }
    config.application_name(url.application_name.as_deref().unwrap_or(application_name));
    let local = url.hosts.iter().all(|host| matches!(host, Host::Unix { .. }));
    config.ssl_mode(match url.tls {
        TlsMode::Disable => SslMode::Disable,
        TlsMode::Prefer if local => SslMode::Disable,
        TlsMode::Prefer => SslMode::Prefer,
        TlsMode::Require | TlsMode::VerifyCa | TlsMode::VerifyFull => SslMode::Require,
    });
    if url.hosts.len() > 1 {
        config.target_session_attrs(TargetSessionAttrs::ReadWrite);
    }
    config
        .connect_timeout(connect_timeout)
        .tcp_user_timeout(UNACKNOWLEDGED_MAX)
        .keepalives(true)
        .keepalives_idle(KEEPALIVE_IDLE)
        .keepalives_interval(KEEPALIVE_INTERVAL)
        .keepalives_retries(KEEPALIVE_RETRIES);
    config
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connector_does_not_print_its_password() {
        let url = "postgres://u:hunter2@h,i:7/d".parse().unwrap();
        let connector = Connector::new(&url, "test", Duration::from_secs(1)).unwrap();
        assert_eq!(connector.address(), "h:5432,i:7");
        assert!(!format!("{connector:?}").contains("hunter"));
    }
}
