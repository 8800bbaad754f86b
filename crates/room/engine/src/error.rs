//! Why the engine could not start.

use std::path::PathBuf;

use crate::tiers::RecoveryError;

/// A failure to start the engine.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("cannot listen on {address}")]
    Bind { address: String, source: std::io::Error },
    #[error("cannot read the TLS file {}", path.display())]
    TlsFile { path: PathBuf, source: std::io::Error },
    #[error("the TLS file {} holds no usable {what}", path.display())]
    TlsContent { path: PathBuf, what: &'static str },
    #[error("the TLS settings do not fit together")]
    Tls(#[source] rustls::Error),
    #[error("cannot start a thread")]
    Thread(#[source] std::io::Error),
    #[error("the data could not be brought back")]
    Recovery(#[source] RecoveryError),
    #[error("cannot set up the event loop")]
    Poll(#[source] std::io::Error),
}
