//! Logs, metrics and traces of the process.
//!
//! The one crate that declares metrics: each has its unit and help text in [`metrics`].

mod config;
mod fanout;
mod fleet;
pub mod history;
mod ids;
mod jobs;
mod logs;
pub mod metrics;
#[cfg(feature = "otlp")]
mod otlp;
mod process;
mod room;
mod tiers;
pub mod trace;

pub use config::{LogFormat, LogLevel, OtlpEndpoint, TelemetryConfig};
pub use fanout::{EndpointFigures, FanoutFigures, LatencyFigures, StoreFigures};
pub use fleet::FleetFigures;
pub use ids::IdsFigures;
pub use jobs::{CallFigures, JobsFigures, QueueFigures};
pub use logs::{Error, Telemetry};
pub use nagaya_clock::{Clock, ManualClock, SystemClock};
pub use room::{CommandFigures, RoomFigures, TierFigures};
pub use tiers::TiersFigures;
