//! Connects only to addresses that were checked.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use futures_util::future::BoxFuture;
use http::Uri;
use hyper::rt::{Read, ReadBufCursor, Write};
use hyper_util::client::legacy::connect::{Connected, Connection};
use hyper_util::rt::TokioIo;
use nagaya_net::tls;
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use super::address::{Refusal, refusal};
use super::allow::Allow;
use super::resolve::Resolve;

/// Addresses tried per name.
const ADDRESSES_MAX: usize = 8;

/// Why there is no connection.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    #[error("the URL names no host")]
    NoHost,
    #[error("only https is allowed")]
    NotHttps,
    #[error("{host} leads to {address}, {why}; such targets must be listed in jobs.webhooks.allow")]
    Refused {
        host: String,
        address: IpAddr,
        why: Refusal,
    },
    #[error("{host} has no address: {source}")]
    Resolve {
        host: String,
        #[source]
        source: io::Error,
    },
    #[error("could not connect to {host}: {source}")]
    Connect {
        host: String,
        #[source]
        source: io::Error,
    },
    #[error("no TLS with {host}: {why}")]
    Tls { host: String, why: String },
    #[error("{host} did not accept a connection within {limit:?}")]
    TimedOut { host: String, limit: Duration },
}

impl ConnectError {
    /// Returns whether retrying is pointless while the settings stay as they are.
    pub fn is_refusal(&self) -> bool {
        matches!(
            self,
            ConnectError::NoHost | ConnectError::NotHttps | ConnectError::Refused { .. }
        )
    }
}

/// Opens connections for a client.
#[derive(Clone)]
pub(super) struct Connector {
    pub(super) allow: Arc<Allow>,
    pub(super) resolver: Arc<dyn Resolve>,
    pub(super) tls: TlsConnector,
    pub(super) https_only: bool,
    pub(super) limit: Duration,
}

impl Connector {
    async fn connect(self, uri: Uri) -> Result<Stream, ConnectError> {
        let host = uri.host().ok_or(ConnectError::NoHost)?;
        let host = host.trim_start_matches('[').trim_end_matches(']').to_owned();
        let is_tls = uri.scheme_str() == Some("https");
        if self.https_only && !is_tls {
            return Err(ConnectError::NotHttps);
        }
        let port = uri.port_u16().unwrap_or(if is_tls { 443 } else { 80 });
        let limit = self.limit;
        let name = host.clone();
        let opening = async move {
            let addresses = self.addresses(&host).await?;
            let stream = dial(&host, &addresses, port).await?;
            if is_tls {
                self.shake_hands(&host, stream).await
            } else {
                Ok(Stream::Plain(TokioIo::new(stream)))
            }
        };
        match timeout(limit, opening).await {
            Ok(opened) => opened,
            Err(_) => Err(ConnectError::TimedOut { host: name, limit }),
        }
    }

    /// Resolves a host and checks every address. One refused address makes the whole name refused.
    async fn addresses(&self, host: &str) -> Result<Vec<IpAddr>, ConnectError> {
        let mut addresses = match host.parse::<IpAddr>() {
            Ok(address) => vec![address],
            Err(_) => {
                let found = self.resolver.resolve(host).await;
                found.map_err(|source| ConnectError::Resolve {
                    host: host.to_owned(),
                    source,
                })?
            }
        };
        addresses.truncate(ADDRESSES_MAX);
        if !self.allow.has_name(host) {
            for &address in &addresses {
                if let Some(why) = refusal(address).filter(|_| !self.allow.has_address(address)) {
                    return Err(ConnectError::Refused {
                        host: host.to_owned(),
                        address,
                        why,
                    });
                }
            }
        }
        Ok(addresses)
    }

    async fn shake_hands(&self, host: &str, stream: TcpStream) -> Result<Stream, ConnectError> {
        let failed = |why: String| ConnectError::Tls {
            host: host.to_owned(),
            why,
        };
        let name = tls::server_name(host).map_err(failed)?;
        let stream = self.tls.connect(name, stream).await;
        let stream = stream.map_err(|error| failed(error.to_string()))?;
        Ok(Stream::Tls(Box::new(TokioIo::new(stream))))
    }
}

async fn dial(host: &str, addresses: &[IpAddr], port: u16) -> Result<TcpStream, ConnectError> {
    let mut last = io::Error::new(io::ErrorKind::NotFound, "no address");
    for &address in addresses {
        match TcpStream::connect(SocketAddr::new(address, port)).await {
            Ok(stream) => {
                // A failure only costs latency.
                stream.set_nodelay(true).ok();
                return Ok(stream);
            }
            Err(error) => last = error,
        }
    }
    Err(ConnectError::Connect {
        host: host.to_owned(),
        source: last,
    })
}

impl tower::Service<Uri> for Connector {
    type Response = Stream;
    type Error = ConnectError;
    type Future = BoxFuture<'static, Result<Stream, ConnectError>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), ConnectError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, uri: Uri) -> Self::Future {
        Box::pin(self.clone().connect(uri))
    }
}

/// A connection with or without TLS.
pub(super) enum Stream {
    Plain(TokioIo<TcpStream>),
    Tls(Box<TokioIo<TlsStream<TcpStream>>>),
}

impl Connection for Stream {
    fn connected(&self) -> Connected {
        Connected::new()
    }
}

impl Read for Stream {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Stream::Plain(stream) => Pin::new(stream).poll_read(context, buffer),
            Stream::Tls(stream) => Pin::new(stream).poll_read(context, buffer),
        }
    }
}

impl Write for Stream {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Stream::Plain(stream) => Pin::new(stream).poll_write(context, bytes),
            Stream::Tls(stream) => Pin::new(stream).poll_write(context, bytes),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Stream::Plain(stream) => Pin::new(stream).poll_flush(context),
            Stream::Tls(stream) => Pin::new(stream).poll_flush(context),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Stream::Plain(stream) => Pin::new(stream).poll_shutdown(context),
            Stream::Tls(stream) => Pin::new(stream).poll_shutdown(context),
        }
    }
}
