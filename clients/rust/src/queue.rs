//! Queues as the house tells of them.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// A queue with its settings and counts.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Queue {
    pub name: String,
    #[serde(default)]
    pub paused: bool,
    /// All else, by the names of `/openapi.json`.
    #[serde(flatten)]
    pub rest: Map<String, Value>,
}
