//! TLS towards a Redis, and towards whatever else the services call.

use std::path::Path;
use std::sync::Arc;

use rustls::{ClientConfig, RootCertStore};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, ServerName};

pub use tokio_rustls::TlsConnector;

/// Where the common Linux distributions and the BSDs keep the certificates they trust.
const SYSTEM_BUNDLES: &[&str] = &[
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
];

/// Builds a connector as [`config`] describes.
pub fn connector(ca: Option<&Path>) -> Result<TlsConnector, String> {
    config(ca).map(TlsConnector::from)
}

/// Builds the settings of a client that trusts the certificates of a file, or the system's without one.
pub fn config(ca: Option<&Path>) -> Result<Arc<ClientConfig>, String> {
    let bundle = match ca {
        Some(path) => path,
        None => SYSTEM_BUNDLES
            .iter()
            .map(Path::new)
            .find(|path| path.exists())
            .ok_or("no system certificates found; name a file with ca=FILE")?,
    };
    let mut roots = RootCertStore::empty();
    let read = CertificateDer::pem_file_iter(bundle);
    for certificate in read.map_err(|error| format!("{}: {error}", bundle.display()))? {
        let certificate = certificate.map_err(|error| format!("{}: {error}", bundle.display()))?;
        // A bundle may hold a certificate that this library refuses; the others still count.
        if let Err(error) = roots.add(certificate) {
            tracing::debug!(%error, "certificate skipped");
        }
    }
    if roots.is_empty() {
        return Err(format!("{} holds no usable certificate", bundle.display()));
    }
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(Arc::new(config))
}

/// Returns the name that a server at `host` must show a certificate for.
pub fn server_name(host: &str) -> Result<ServerName<'static>, String> {
    ServerName::try_from(host.to_owned()).map_err(|error| format!("{host}: {error}"))
}
