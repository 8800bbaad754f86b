//! TLS of connections to PostgreSQL.
//!
//! `prefer` and a `require` without certificates only protect against eavesdropping, as in
//! libpq: an attacker in the middle can also pose as the server. `verify-full` is
//! what to use over shared networks.

use std::path::Path;
use std::sync::Arc;

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::{CertificateError, ClientConfig, DigitallySignedStruct, Error, RootCertStore, SignatureScheme};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, ServerName, UnixTime};

use crate::url::{PostgresUrl, TlsMode};

/// Builds what a URL asks for.
pub(crate) fn client_config(url: &PostgresUrl) -> Result<ClientConfig, String> {
    let provider = nagaya_net::tls::crypto_provider();
    let builder = ClientConfig::builder_with_provider(provider.clone())
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?;
    let roots = url.root_certificates.as_deref();
    let chain = match url.tls {
        TlsMode::Disable | TlsMode::Prefer => None,
        TlsMode::Require if roots.is_none() => None,
        TlsMode::Require | TlsMode::VerifyCa | TlsMode::VerifyFull => {
            let verifier =
                WebPkiServerVerifier::builder_with_provider(trusted(roots)?.into(), provider.clone());
            Some(verifier.build().map_err(|error| error.to_string())?)
        }
    };
    let verifier = Verifier {
        chain,
        names: url.tls == TlsMode::VerifyFull,
        provider,
    };
    Ok(builder
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(verifier))
        .with_no_client_auth())
}

fn trusted(file: Option<&Path>) -> Result<RootCertStore, String> {
    let certificates = match file {
        Some(path) => {
            let named = |error| format!("{}: {error}", path.display());
            let read = CertificateDer::pem_file_iter(path).map_err(named)?;
            read.collect::<Result<Vec<_>, _>>().map_err(named)?
        }
        None => rustls_native_certs::load_native_certs().certs,
    };
    let mut roots = RootCertStore::empty();
    // A bundle may hold a certificate that this library refuses; the others still count.
    roots.add_parsable_certificates(certificates);
    if !roots.is_empty() {
        return Ok(roots);
    }
    Err(match file {
        Some(path) => format!("{} holds no usable certificate", path.display()),
        None => "no system certificates found; name a file with sslrootcert=FILE".into(),
    })
}

/// Checks as much of a certificate as the mode asks for.
#[derive(Debug)]
struct Verifier {
    /// `None` when any certificate will do.
    chain: Option<Arc<WebPkiServerVerifier>>,
    names: bool,
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let Some(chain) = &self.chain else {
            return Ok(ServerCertVerified::assertion());
        };
        let verified = chain.verify_server_cert(certificate, intermediates, name, ocsp_response, now);
        match verified {
            // The chain is checked before the name.
            Err(Error::InvalidCertificate(
                CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
            )) if !self.names => Ok(ServerCertVerified::assertion()),
            verified => verified,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls12_signature(message, certificate, signature, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signature, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider
            .signature_verification_algorithms
            .supported_schemes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_certificate_file_is_named() {
        let url = "postgres://h?sslmode=verify-full&sslrootcert=/no/such.pem"
            .parse()
            .unwrap();
        let error = client_config(&url).unwrap_err();
        assert!(error.contains("/no/such.pem"), "{error}");
    }

    #[test]
    fn modes_that_check_nothing_need_no_certificates() {
        for mode in ["disable", "prefer", "require"] {
            client_config(&format!("postgres://h?sslmode={mode}").parse().unwrap()).unwrap();
        }
    }
}
