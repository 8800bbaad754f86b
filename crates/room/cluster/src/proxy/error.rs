//! Why a proxy could not start.

use std::net::SocketAddr;
use std::path::PathBuf;

/// A failure to start.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("cannot listen on {address}")]
    Bind {
        address: SocketAddr,
        source: std::io::Error,
    },
    #[error("cannot listen on {}", path.display())]
    BindUnix { path: PathBuf, source: std::io::Error },
    #[error("the users cannot be read: {0}")]
    Users(String),
    #[error("cannot start a thread")]
    Thread(#[source] std::io::Error),
    #[error("cannot set up the event loop")]
    Poll(#[source] std::io::Error),
    #[error("cannot use TLS to the servers: {0}")]
    Tls(String),
    #[error("cannot use the address of the servers")]
    Redis(#[source] nagaya_redis_client::Error),
}
