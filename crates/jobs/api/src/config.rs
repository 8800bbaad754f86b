//! What an operator sets, and what everybody has to keep to.

use std::time::Duration;

/// Limits and lengths of the API.
#[derive(Clone, Debug)]
pub struct ApiConfig {
    /// Largest body of a request, in bytes.
    pub body_bytes_max: usize,
    /// Most jobs or reports in one batch.
    pub batch_max: usize,
    /// Longest wait that a claim or a read may ask for; a longer one is shortened to it.
    pub wait_max: Duration,
    /// How long a body may take to arrive.
    pub body_timeout: Duration,
    /// How often an idle stream of events shows that it is alive.
    pub heartbeat: Duration,
    /// How long a reader of events may take nothing before it loses its connection.
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
