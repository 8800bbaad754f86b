//! The TLS settings of a client, for the callers that still ask here.

use std::path::Path;
use std::sync::Arc;

pub use nagaya_net::tls::server_name;
use rustls::ClientConfig;

/// Builds the settings as [`nagaya_net::tls::client_config`] does.
pub fn config(ca: Option<&Path>) -> Result<Arc<ClientConfig>, String> {
    nagaya_net::tls::client_config(ca).map(Arc::new)
}
