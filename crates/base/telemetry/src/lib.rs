//! Logs, metrics and traces of the process.
//!
//! Services declare their metrics in their own crates and register them with [`metrics::Metrics`].

pub mod components;
mod config;
pub mod history;
mod logs;
pub mod metrics;
#[cfg(feature = "otlp")]
mod otlp;
#[cfg(feature = "otlp")]
mod otlp_client;
mod process;
pub mod trace;

pub use config::{LogFormat, LogLevel, OtlpEndpoint, OtlpProtocol, TelemetryConfig};
pub use logs::{Error, Telemetry};
