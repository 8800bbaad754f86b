//! Queues as the server returns them.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// A queue with its settings and counts.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Queue {
    pub name: String,
    #[serde(default)]
    pub paused: bool,
    /// All other fields, as in `/openapi.json`.
    #[serde(flatten)]
    pub rest: Map<String, Value>,
}
