//! What the house tells about itself (logs, metrics, traces), and what time it is.
//!
//! The one crate that may read the clocks of the system: everybody else is handed a
//! [`Clock`]. The one crate that declares metrics: each has its unit and help text in
//! [`metrics`].

mod clock;
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

pub use clock::{Clock, ManualClock, SystemClock};
pub use config::{LogFormat, LogLevel, OtlpEndpoint, TelemetryConfig};
pub use fanout::{EndpointFigures, FanoutFigures, StoreFigures};
pub use fleet::FleetFigures;
pub use ids::IdsFigures;
pub use jobs::{CallFigures, JobsFigures, QueueFigures};
pub use logs::{Error, Telemetry};
pub use metrics::LatencyFigures;
pub use room::{CommandFigures, RoomFigures, TierFigures};
pub use tiers::TiersFigures;
