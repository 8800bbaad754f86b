//! Opens connections: name resolution, TCP, TLS, HTTP handshake.

use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use http_body_util::Full;
use hyper::client::conn::{http1, http2};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use nagaya_net::tls;
use rustix::io::Errno;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::sync::Semaphore;
use tokio_rustls::TlsConnector;
use tokio_util::task::TaskTracker;

use super::FetchError;
use super::pool::{Transport, chain};
use crate::target::Origin;

/// Concurrent name lookups. The system resolver blocks one thread per lookup for as long as it takes, and
/// cannot be cancelled.
const LOOKUPS_MAX: usize = 16;
/// Longest response head, in bytes.
const HEAD_BYTES_MAX: usize = 64 * 1024;
/// HTTP/2 flow-control window of one response, in bytes.
const WINDOW_BYTES: u32 = 256 * 1024;

pub(crate) struct Connector {
    ca: Option<PathBuf>,
    /// Made when there are `https` endpoints, or for the first redirect to one.
    tls: Arc<OnceLock<Result<TlsConnector, String>>>,
    lookups: Arc<Semaphore>,
    /// The tasks that drive the connections. Each ends when its connection is dropped.
    drivers: TaskTracker,
}

impl Connector {
    pub(crate) fn new(ca: Option<PathBuf>) -> Connector {
        Connector {
            ca,
            tls: Arc::default(),
            lookups: Arc::new(Semaphore::new(LOOKUPS_MAX)),
            drivers: TaskTracker::new(),
        }
    }

    /// Opens a connection. Cancel safe.
    pub(super) async fn connect(&self, origin: &Origin) -> Result<Transport, FetchError> {
        let stream = self.open(origin).await?;
        if !origin.https {
            return self.http1(stream).await;
        }
        let connector = self.tls().await?;
        let name = tls::server_name(&origin.host);
        let name = name.map_err(|error| FetchError::Refused(format!("tls: {error}")))?;
        let stream = connector.connect(name, stream).await;
        let stream = stream.map_err(|error| FetchError::Refused(format!("tls: {error}")))?;
        match stream.get_ref().1.alpn_protocol() {
            Some(b"h2") => self.http2(stream).await,
            _ => self.http1(stream).await,
        }
    }

    /// Reads the certificates to trust, which takes some ten milliseconds.
    pub(super) fn prepare_tls(&self) {
        self.tls.get_or_init(|| tls_connector(self.ca.as_deref()));
    }

    async fn tls(&self) -> Result<&TlsConnector, FetchError> {
        if self.tls.get().is_none() {
            let (tls, ca) = (Arc::clone(&self.tls), self.ca.clone());
            let made = move || {
                tls.get_or_init(|| tls_connector(ca.as_deref()));
            };
            let made = tokio::task::spawn_blocking(made).await;
            made.map_err(|error| FetchError::Refused(format!("tls: {error}")))?;
        }
        match self.tls.get() {
            Some(Ok(connector)) => Ok(connector),
            Some(Err(reason)) => Err(FetchError::Refused(format!("tls: {reason}"))),
            None => Err(FetchError::Refused("tls: it is not ready".to_owned())),
        }
    }

    async fn open(&self, origin: &Origin) -> Result<TcpStream, FetchError> {
        let addresses = self.look_up(origin).await.map_err(|error| {
            refused(&error, || {
                format!("the name {} cannot be looked up: {error}", origin.host)
            })
        })?;
        let mut last = io::Error::from(io::ErrorKind::NotFound);
        for address in addresses {
            match TcpStream::connect(address).await {
                Ok(stream) => {
                    if let Err(error) = stream.set_nodelay(true) {
                        tracing::debug!(%error, "cannot set TCP_NODELAY");
                    }
                    return Ok(stream);
                }
                Err(error) => last = error,
            }
        }
        Err(refused(&last, || format!("cannot connect: {last}")))
    }

    async fn look_up(&self, origin: &Origin) -> io::Result<Vec<SocketAddr>> {
        if let Ok(ip) = origin.host.parse() {
            return Ok(vec![SocketAddr::new(ip, origin.port)]);
        }
        let permit = Arc::clone(&self.lookups).acquire_owned().await;
        let permit = permit.expect("the semaphore is never closed");
        let (host, port) = (origin.host.clone(), origin.port);
        let look_up = move || {
            // Held by the blocking thread, which may outlive the caller.
            let _permit = permit;
            (host.as_str(), port).to_socket_addrs().map(Iterator::collect)
        };
        tokio::task::spawn_blocking(look_up)
            .await
            .map_err(io::Error::other)?
    }

    async fn http1<S>(&self, stream: S) -> Result<Transport, FetchError>
    where
        S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
    {
        let mut builder = http1::Builder::new();
        builder.max_buf_size(HEAD_BYTES_MAX);
        let opened = builder.handshake::<_, Full<Bytes>>(TokioIo::new(stream)).await;
        let (sender, connection) = opened.map_err(|error| FetchError::Refused(chain(&error)))?;
        // A caller that waits for a response sees the failure itself; an idle connection may fail silently.
        self.drivers.spawn(async move { drop(connection.await) });
        Ok(Transport::Http1(sender))
    }

    async fn http2<S>(&self, stream: S) -> Result<Transport, FetchError>
    where
        S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
    {
        let mut builder = http2::Builder::new(TokioExecutor::new());
        builder
            .timer(TokioTimer::new())
            .initial_stream_window_size(WINDOW_BYTES)
            .max_header_list_size(HEAD_BYTES_MAX as u32);
        let opened = builder.handshake::<_, Full<Bytes>>(TokioIo::new(stream)).await;
        let (sender, connection) = opened.map_err(|error| FetchError::Refused(chain(&error)))?;
        self.drivers.spawn(async move { drop(connection.await) });
        Ok(Transport::Http2(sender))
    }
}

/// Returns whose fault it is that there is no connection.
fn refused(error: &io::Error, reason: impl FnOnce() -> String) -> FetchError {
    let errno = error.raw_os_error().map(Errno::from_raw_os_error);
    match errno {
        Some(Errno::MFILE | Errno::NFILE) => FetchError::NoFiles,
        _ => FetchError::Refused(reason()),
    }
}

fn tls_connector(ca: Option<&Path>) -> Result<TlsConnector, String> {
    let mut config = tls::client_config(ca)?;
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(TlsConnector::from(Arc::new(config)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_want_of_file_descriptors_is_not_the_endpoints_fault() {
        for errno in [Errno::MFILE, Errno::NFILE] {
            let error = refused(&io::Error::from(errno), || unreachable!("it was not asked"));
            assert!(matches!(error, FetchError::NoFiles), "{errno}");
        }
        let error = refused(&io::Error::from(Errno::CONNREFUSED), || "reason".to_owned());
        assert!(matches!(error, FetchError::Refused(reason) if reason == "reason"));
    }
}
