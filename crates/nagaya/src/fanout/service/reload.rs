//! Reads the endpoints again on SIGHUP.

use std::sync::Arc;

use nagaya_config::Flag;
use nagaya_fanout::{Fanout, FanoutConfig};
use tokio::signal::unix::{SignalKind, signal};
use tracing::{info, warn};

use crate::app::settings;
use crate::cli::GlobalArgs;

/// Reads the section anew from where it came.
pub(crate) type Reload = Arc<dyn Fn() -> anyhow::Result<FanoutConfig> + Send + Sync>;

/// From the settings: file, environment and flags.
pub(crate) fn reload_from_settings(global: GlobalArgs, flags: Vec<Flag>) -> Reload {
    Arc::new(move || Ok(settings::load(&global, flags.clone())?.section()))
}

/// Reloads the endpoints at every SIGHUP. Never returns. Invalid settings change nothing.
pub(super) async fn on_hangup(fanout: &Fanout, reload: &Reload) {
    let mut hangups = match signal(SignalKind::hangup()) {
        Ok(hangups) => hangups,
        Err(error) => {
            warn!(%error, "cannot listen for SIGHUP; endpoints are not read again");
            return std::future::pending().await;
        }
    };
    while hangups.recv().await.is_some() {
        let reloaded = reload().and_then(|config| Ok(fanout.reload(&config)?));
        match reloaded {
            Ok(()) => info!(
                endpoints = fanout.endpoints().iter().len(),
                "endpoints were read again"
            ),
            Err(error) => warn!(error = format!("{error:#}"), "endpoints stay as they are"),
        }
    }
}
