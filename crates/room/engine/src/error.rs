//! Why the engine could not start.

use crate::persistence::RecoveryError;

/// A failure to start the engine.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("cannot listen on {address}")]
    Bind { address: String, source: std::io::Error },
    #[error(transparent)]
    Tls(#[from] nagaya_net::tls::Error),
    #[error("cannot start a thread")]
    Thread(#[source] std::io::Error),
    #[error("the users cannot be read: {0}")]
    Users(String),
    #[error("the data could not be brought back")]
    Recovery(#[source] RecoveryError),
    #[error("cannot watch the data folder")]
    Ground(#[source] std::io::Error),
    #[error("cannot keep the engine's identity")]
    Identity(#[source] std::io::Error),
    #[error("cannot set up the event loop")]
    Poll(#[source] std::io::Error),
}
