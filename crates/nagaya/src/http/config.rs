//! The `[http]` section.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{anyhow, ensure};
use nagaya_config::{ByteSize, Listen, Secret, Unset, settings};
use nagaya_http_kit::hosts::check_name;
use nagaya_http_kit::proxies::Proxies;

/// The shortest token, in bytes. Of random letters and digits it has 80 bits and more.
const TOKEN_BYTES_MIN: usize = 16;

settings! {
    /// The HTTP listener.
    pub struct HttpConfig in "http" {
        /// Where it listens. Any address but loopback needs a token or `house.insecure`.
        listen: Listen = "127.0.0.1:7400", fixed, flag "--http-listen";
        /// The token that callers send as `Authorization: Bearer TOKEN`; it may do everything. 16 bytes at
        /// least; `nagaya token random` makes one. Tokens made with `nagaya token create` work beside it:
        /// `admin` does everything, `read` may look. If it is not set, any client without a token may do
        /// everything, except web pages of another origin, and no other tokens can be made; where tokens
        /// exist already, one is needed. `/healthz` and `/readyz` are open in any case: what probes a server
        /// seldom has credentials.
        token: Option<Secret> = Unset, fixed;
        /// Names that the HTTP listeners answer to, besides `localhost`, loopback addresses and their own
        /// address: `jobs.example.com`, or `*.example.com` for all below a domain. A request under any other
        /// name is answered 421, so that no web page can reach the server under a name of its own. A listener
        /// with a token answers to every name as long as none is listed here.
        hosts: Vec<String> = [], fixed;
        /// Proxies, as networks or addresses, that are believed when they name the client's address in
        /// `X-Forwarded-For` or `Forwarded`. `connections_per_address` does not hold for them.
        trusted_proxies: Vec<String> = [], fixed;
        /// How many connections may be open at once. One more gets the place of the one that has waited
        /// longest for its client; when all are in use it is answered 503. A few more are there for
        /// `/healthz`, `/readyz` and `/metrics`.
        connections_max: usize = 1024, fixed, range 1 to 1000000, unit "connections";
        /// How many of them one address may have; 0 is half of all.
        connections_per_address: usize = 0, fixed, range 0 to 1000000, unit "connections";
        /// How long a client may take to send the head of its request, and how long a
        /// connection may stay idle. After it the connection is closed.
        head_timeout: Duration = "10s", fixed, range "100ms" to "10m";
        /// How long a client may take to send the body of a request, and a second more for each 10 kB; how
        /// long it may pause; and, six times as long, what the body may take in all of a client whose token
        /// was not checked yet. A slower one is answered 408.
        body_timeout: Duration = "10s", fixed, range "100ms" to "10m";
        /// How long a client may take nothing of what is sent to it. After it the connection is cut.
        write_timeout: Duration = "30s", fixed, range "100ms" to "10m";
        /// How large the head of a request may be. A larger one is answered 431.
        head_max: ByteSize = "16kb", fixed, range "8kb" to "1mb";
        /// How large the body of a request may be. A larger one is answered 413.
        body_max: ByteSize = "2mb", fixed, range "1kb" to "1gb";
        /// The bodies of all requests that are not answered yet together. A request beyond it is answered
        /// 503. Of those whose token was not checked yet, a quarter is held at most.
        bodies_max: ByteSize = "64mb", fixed, range "1kb" to "1tb";
        /// A PEM file with the certificate chain for TLS; needs `tls_key`. Not set, plain HTTP is spoken.
        /// SIGHUP reads it again.
        tls_cert: Option<PathBuf> = Unset, fixed;
        /// The PEM file with its private key.
        tls_key: Option<PathBuf> = Unset, fixed;
        /// A PEM file of authorities; only clients with a certificate of one of them are let in.
        tls_client_ca: Option<PathBuf> = Unset, fixed;
        /// A PEM file of certificates that the commands of this program trust when they speak to a server by
        /// `https`; not set, those of the system.
        ca: Option<PathBuf> = Unset, fixed;
    }
}

impl HttpConfig {
    /// Checks the settings against each other.
    pub(crate) fn check(&self) -> anyhow::Result<()> {
        check_token("http.token", self.token.as_ref())?;
        for name in &self.hosts {
            check_name(name).map_err(|error| anyhow!("`http.hosts`: {error}"))?;
        }
        self.proxies()?;
        check_tls("http", &self.tls_cert, &self.tls_key, &self.tls_client_ca)
    }

    pub(crate) fn proxies(&self) -> anyhow::Result<Proxies> {
        Proxies::parse(&self.trusted_proxies).map_err(|error| anyhow!("`http.trusted_proxies`: {error}"))
    }

    /// The scheme by which the listener is reached.
    pub(crate) fn scheme(&self) -> &'static str {
        scheme(self.tls_cert.is_some())
    }
}

pub(crate) fn scheme(is_tls: bool) -> &'static str {
    if is_tls { "https" } else { "http" }
}

/// Refuses tokens that can be guessed.
pub(crate) fn check_token(name: &str, token: Option<&Secret>) -> anyhow::Result<()> {
    let length = token.map(|token| token.reveal().len());
    ensure!(
        length.is_none_or(|length| length >= TOKEN_BYTES_MIN),
        "`{name}` has {} bytes and can be guessed; it needs {TOKEN_BYTES_MIN} at least, such as `nagaya token random` \
         makes them",
        length.unwrap_or(0)
    );
    Ok(())
}

/// Refuses a certificate without its key and the like.
pub(crate) fn check_tls(
    section: &str,
    cert: &Option<PathBuf>,
    key: &Option<PathBuf>,
    client_ca: &Option<PathBuf>,
) -> anyhow::Result<()> {
    ensure!(
        cert.is_some() == key.is_some(),
        "`{section}.tls_cert` and `{section}.tls_key` go together; set both or none"
    );
    ensure!(
        client_ca.is_none() || cert.is_some(),
        "`{section}.tls_client_ca` needs `{section}.tls_cert` and `{section}.tls_key`"
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(config: &HttpConfig) -> String {
        config.check().unwrap_err().to_string()
    }

    #[test]
    fn a_token_that_can_be_guessed_is_refused() {
        let with = |token: &str| HttpConfig {
            token: Some(Secret::new(token)),
            ..HttpConfig::default()
        };
        let error = refused(&with("a"));
        assert!(error.contains("http.token") && error.contains("16"), "{error}");
        assert!(refused(&with("fifteen-letters")).contains("15 bytes"));
        with("sixteen-letters!").check().unwrap();
        HttpConfig::default().check().unwrap();
    }

    #[test]
    fn names_networks_and_files_are_checked_before_anything_is_bound() {
        let config = HttpConfig {
            hosts: vec!["https://x".into()],
            ..HttpConfig::default()
        };
        assert!(refused(&config).contains("`http.hosts`"));
        let config = HttpConfig {
            trusted_proxies: vec!["proxy".into()],
            ..HttpConfig::default()
        };
        assert!(refused(&config).contains("`http.trusted_proxies`"));
        let config = HttpConfig {
            tls_cert: Some("c.pem".into()),
            ..HttpConfig::default()
        };
        assert!(refused(&config).contains("`http.tls_key`"));
    }
}
