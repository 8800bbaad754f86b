//! Certificates of the HTTP listeners, read at the start and again on SIGHUP.

use std::path::PathBuf;

use anyhow::Context;
use nagaya_http_kit::server::Tls;
use nagaya_net::tls::{ServerConfig, server_config};
use tokio::signal::unix::{SignalKind, signal};
use tracing::{info, warn};

/// Where the certificate of a listener is.
#[derive(Clone, Debug)]
pub(crate) struct TlsFiles {
    pub(crate) section: &'static str,
    pub(crate) cert: PathBuf,
    pub(crate) key: PathBuf,
    pub(crate) client_ca: Option<PathBuf>,
}

/// A listener's TLS and the files that it is made of.
#[derive(Clone)]
pub(crate) struct ReloadingTls {
    pub(crate) tls: Tls,
    files: TlsFiles,
}

impl TlsFiles {
    /// Nothing for a listener without TLS.
    pub(crate) fn of(
        section: &'static str,
        cert: &Option<PathBuf>,
        key: &Option<PathBuf>,
        client_ca: &Option<PathBuf>,
    ) -> Option<TlsFiles> {
        Some(TlsFiles {
            section,
            cert: cert.clone()?,
            key: key.clone()?,
            client_ca: client_ca.clone(),
        })
    }

    fn read(&self) -> anyhow::Result<ServerConfig> {
        server_config(&self.cert, &self.key, self.client_ca.as_deref())
            .with_context(|| format!("TLS of `{}` cannot be used", self.section))
    }

    pub(crate) fn open(self) -> anyhow::Result<ReloadingTls> {
        Ok(ReloadingTls {
            tls: Tls::new(self.read()?),
            files: self,
        })
    }
}

impl ReloadingTls {
    /// Reads the files again at every SIGHUP. Never returns. Files that cannot be used change nothing.
    pub(crate) async fn reload_on_hangup(self) {
        let section = self.files.section;
        let mut hangups = match signal(SignalKind::hangup()) {
            Ok(hangups) => hangups,
            Err(error) => {
                warn!(%error, "cannot listen for SIGHUP; certificates are not read again");
                return std::future::pending().await;
            }
        };
        while hangups.recv().await.is_some() {
            match self.files.read() {
                Ok(config) => {
                    self.tls.replace(config);
                    info!(section, "the certificate was read again");
                }
                Err(error) => warn!(
                    section,
                    error = format!("{error:#}"),
                    "the certificate stays as it is"
                ),
            }
        }
        std::future::pending().await
    }
}

/// Runs a future, with reloads beside it where there is TLS.
pub(crate) async fn beside_reloads<T>(tls: Option<ReloadingTls>, work: impl Future<Output = T>) -> T {
    let Some(tls) = tls else {
        return work.await;
    };
    tokio::select! {
        done = work => done,
        () = tls.reload_on_hangup() => unreachable!("it never ends"),
    }
}
