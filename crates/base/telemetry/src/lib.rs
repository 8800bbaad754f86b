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
mod process;
pub mod trace;

pub use config::{LogFormat, LogLevel, OtlpEndpoint, TelemetryConfig};
pub use logs::{Error, Telemetry};
