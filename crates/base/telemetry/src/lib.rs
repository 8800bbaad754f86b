//! What the house tells about itself (logs, metrics, traces), and what time it is.
//!
//! The one crate that may read the clocks of the system: everybody else is handed a
//! [`Clock`]. Services declare their metrics in their own crates and register them with
//! [`metrics::Metrics`].

mod clock;
mod config;
pub mod history;
mod logs;
pub mod metrics;
#[cfg(feature = "otlp")]
mod otlp;
mod process;
pub mod trace;

pub use clock::{Clock, ManualClock, SystemClock};
pub use config::{LogFormat, LogLevel, OtlpEndpoint, TelemetryConfig};
pub use logs::{Error, Telemetry};
