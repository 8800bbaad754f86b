//! TLS of a listener, whose certificate can be replaced while it runs.

use std::sync::{Arc, PoisonError, RwLock};

use rustls::ServerConfig;
use tokio_rustls::TlsAcceptor;

/// Protocols that are offered, the better one first.
const PROTOCOLS: [&[u8]; 2] = [b"h2", b"http/1.1"];

/// The TLS settings of a listener. Clones share them.
#[derive(Clone)]
pub struct Tls(Arc<RwLock<Arc<ServerConfig>>>);

impl Tls {
    pub fn new(config: ServerConfig) -> Tls {
        Tls(Arc::new(RwLock::new(prepared(config))))
    }

    /// Serves connections from now on with other settings; open ones keep theirs.
    pub fn replace(&self, config: ServerConfig) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = prepared(config);
    }

    pub(super) fn acceptor(&self) -> TlsAcceptor {
        let config = self.0.read().unwrap_or_else(PoisonError::into_inner);
        TlsAcceptor::from(Arc::clone(&config))
    }
}

impl std::fmt::Debug for Tls {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Tls")
    }
}

fn prepared(mut config: ServerConfig) -> Arc<ServerConfig> {
    config.alpn_protocols = PROTOCOLS.map(<[u8]>::to_vec).into();
    Arc::new(config)
}
