//! The API's settings and limits.

use std::time::Duration;

/// Limits and durations of the API.
#[derive(Clone, Debug)]
pub struct ApiConfig {
    /// Largest body of a request, in bytes.
    pub body_bytes_max: usize,
    /// Most jobs or reports per batch.
    pub batch_max: usize,
    /// Longest wait of a claim or a read; longer requests are shortened to it.
    pub wait_max: Duration,
    /// How long a body may take to arrive.
    pub body_timeout: Duration,
    /// How often an idle event stream sends a keep-alive.
    pub heartbeat: Duration,
    /// How long an event reader may accept nothing before it is disconnected.
    pub stall_max: Duration,
}

impl Default for ApiConfig {
    fn default() -> ApiConfig {
        ApiConfig {
            body_bytes_max: 8 << 20,
            batch_max: 10_000,
            wait_max: Duration::from_secs(60),
            body_timeout: Duration::from_secs(30),
            heartbeat: Duration::from_secs(15),
            stall_max: Duration::from_secs(30),
        }
    }
}
