//! Starts and ends logging and tracing.

use std::io::IsTerminal;

use tracing_subscriber::layer::{Layer, SubscriberExt};
use tracing_subscriber::registry::Registry;
use tracing_subscriber::util::{SubscriberInitExt, TryInitError};

use crate::config::{LogFormat, TelemetryConfig};

/// Why telemetry could not be started.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("a logger is already installed in this process")]
    AlreadyStarted(#[source] TryInitError),
    #[error("cannot start trace export to {endpoint}")]
    Export {
        endpoint: String,
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}

/// Logging and trace export of this process, once started.
#[derive(Debug)]
pub struct Telemetry {
    #[cfg(feature = "otlp")]
    exporter: Option<crate::otlp::Exporter>,
}

/// A sink of log lines or spans, with its own filter.
pub(crate) type BoxedLayer = Box<dyn Layer<Registry> + Send + Sync>;

impl Telemetry {
    /// Installs the process-wide logger, and the trace exporter if one is configured.
    ///
    /// The exporter lives on the tokio runtime whose context this is called in; the runtime
    /// needs at least two workers and must outlive [`Telemetry::shutdown`].
    pub fn start(config: &TelemetryConfig) -> Result<Telemetry, Error> {
        let layers = vec![log_layer(config)];
        #[cfg(feature = "otlp")]
        let (exporter, layers) = crate::otlp::add_layer(config, layers)?;
        tracing_subscriber::registry()
            .with(layers)
            .try_init()
            .map_err(Error::AlreadyStarted)?;
        Ok(Telemetry {
            #[cfg(feature = "otlp")]
            exporter,
        })
    }

    /// Sends the spans that are still waiting, within the export timeout.
    ///
    /// Blocks: call it from a thread that runs no tasks, or the exporter's own tasks may have no thread to
    /// run on.
    pub fn shutdown(self) {
        #[cfg(feature = "otlp")]
        if let Some(exporter) = self.exporter {
            exporter.shutdown();
        }
    }
}

fn log_layer(config: &TelemetryConfig) -> BoxedLayer {
    let lines = tracing_subscriber::fmt::layer().with_writer(std::io::stderr);
    let targets = config.log_level.targets();
    match config.log_format {
        LogFormat::Text => lines
            .with_ansi(std::io::stderr().is_terminal())
            .with_filter(targets)
            .boxed(),
        LogFormat::Json => lines.json().flatten_event(true).with_filter(targets).boxed(),
    }
}
