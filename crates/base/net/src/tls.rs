//! TLS settings of clients and listeners.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::crypto::CryptoProvider;
use rustls::server::WebPkiClientVerifier;
use rustls::{ClientConfig, RootCertStore, ServerConfig};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer, ServerName};

/// Where the common Linux distributions and the BSDs keep the certificates they trust.
const SYSTEM_BUNDLES: &[&str] = &[
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
];

/// Returns the cryptography of all TLS connections. It is passed explicitly: a process-wide default would
/// depend on which part of the program is started first.
pub fn crypto_provider() -> Arc<CryptoProvider> {
    Arc::new(rustls::crypto::ring::default_provider())
}

/// Builds the settings of a client that trusts the certificates of a file, or the system's without one.
pub fn client_config(ca: Option<&Path>) -> Result<ClientConfig, String> {
    let bundle = match ca {
        Some(path) => path,
        None => SYSTEM_BUNDLES
            .iter()
            .map(Path::new)
            .find(|path| path.exists())
            .ok_or("no system certificates found; name a file of certificates to trust")?,
    };
    let named = |error| format!("{}: {error}", bundle.display());
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_file_iter(bundle).map_err(named)? {
        // A bundle may hold a certificate that this library refuses; the others still count.
        if let Err(error) = roots.add(certificate.map_err(named)?) {
            tracing::debug!(%error, "certificate skipped");
        }
    }
    if roots.is_empty() {
        return Err(format!("{} holds no usable certificate", bundle.display()));
    }
    let builder = ClientConfig::builder_with_provider(crypto_provider())
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?;
    Ok(builder.with_root_certificates(roots).with_no_client_auth())
}

/// Returns the name that a server at `host` must show a certificate for.
pub fn server_name(host: &str) -> Result<ServerName<'static>, String> {
    ServerName::try_from(host.to_owned()).map_err(|error| format!("{host}: {error}"))
}

/// Why the settings of a listener could not be built.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("cannot read the TLS file {}", path.display())]
    File { path: PathBuf, source: std::io::Error },
    #[error("the TLS file {} holds no usable {what}", path.display())]
    Content { path: PathBuf, what: &'static str },
    #[error("the TLS settings do not fit together")]
    Settings(#[source] rustls::Error),
}

/// Builds the settings of a listener from PEM files: its certificate chain and key. With `client_ca`, only
/// clients with a certificate of that authority are let in.
pub fn server_config(cert: &Path, key: &Path, client_ca: Option<&Path>) -> Result<ServerConfig, Error> {
    let chain = certificates(cert)?;
    let key = PrivateKeyDer::from_pem_slice(&read(key)?).map_err(|_| Error::Content {
        path: key.to_owned(),
        what: "private key",
    })?;
    let builder = ServerConfig::builder_with_provider(crypto_provider())
        .with_safe_default_protocol_versions()
        .map_err(Error::Settings)?;
    let builder = match client_ca {
        None => builder.with_no_client_auth(),
        Some(path) => {
            let mut roots = RootCertStore::empty();
            for certificate in certificates(path)? {
                roots.add(certificate).map_err(Error::Settings)?;
            }
            let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), crypto_provider());
            let verifier = verifier.build().map_err(|_| Error::Content {
                path: path.to_owned(),
                what: "certificate authority",
            })?;
            builder.with_client_cert_verifier(verifier)
        }
    };
    builder.with_single_cert(chain, key).map_err(Error::Settings)
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, Error> {
    let pem = read(path)?;
    let certificates: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&pem).collect();
    match certificates {
        Ok(certificates) if !certificates.is_empty() => Ok(certificates),
        _ => Err(Error::Content {
            path: path.to_owned(),
            what: "certificate",
        }),
    }
}

fn read(path: &Path) -> Result<Vec<u8>, Error> {
    std::fs::read(path).map_err(|source| Error::File {
        path: path.to_owned(),
        source,
    })
}

#[cfg(test)]
mod tests {
    use rcgen::{CertifiedKey, generate_simple_self_signed};

    use super::*;

    struct Files {
        folder: tempfile::TempDir,
        cert: PathBuf,
        key: PathBuf,
    }

    impl Files {
        fn new() -> Files {
            let CertifiedKey { cert, signing_key } =
                generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
            let folder = tempfile::tempdir().unwrap();
            let (cert_path, key_path) = (folder.path().join("cert.pem"), folder.path().join("key.pem"));
            std::fs::write(&cert_path, cert.pem()).unwrap();
            std::fs::write(&key_path, signing_key.serialize_pem()).unwrap();
            Files {
                folder,
                cert: cert_path,
                key: key_path,
            }
        }
    }

    #[test]
    fn a_certificate_and_its_key_make_both_ends() {
        let files = Files::new();
        server_config(&files.cert, &files.key, None).unwrap();
        server_config(&files.cert, &files.key, Some(&files.cert)).unwrap();
        client_config(Some(&files.cert)).unwrap();
    }

    #[test]
    fn a_bad_file_is_named() {
        let (files, other) = (Files::new(), Files::new());
        let missing = files.folder.path().join("missing.pem");
        let told = |result: Result<ServerConfig, Error>| result.unwrap_err().to_string();
        let (cert, key) = (files.cert.display(), files.key.display());
        assert_eq!(
            told(server_config(&missing, &files.key, None)),
            format!("cannot read the TLS file {}", missing.display())
        );
        assert_eq!(
            told(server_config(&files.key, &files.key, None)),
            format!("the TLS file {key} holds no usable certificate")
        );
        assert_eq!(
            told(server_config(&files.cert, &files.cert, None)),
            format!("the TLS file {cert} holds no usable private key")
        );
        assert_eq!(
            told(server_config(&files.cert, &other.key, None)),
            "the TLS settings do not fit together"
        );
        let no_roots = client_config(Some(&files.key)).unwrap_err();
        assert_eq!(no_roots, format!("{key} holds no usable certificate"));
        assert!(client_config(Some(&missing)).unwrap_err().contains("missing.pem"));
    }

    #[test]
    fn names_and_addresses_are_server_names() {
        for host in ["example.com", "127.0.0.1", "::1"] {
            server_name(host).unwrap();
        }
        assert!(server_name("not a host").unwrap_err().starts_with("not a host: "));
    }
}
