//! What the followers of a request are told, whether by events or over a WebSocket.

use serde_json::Value;

use super::call::CallEvents;
use super::events::Events;

/// One message: its name, and a JSON object on one line.
pub(super) struct Told {
    pub(super) name: &'static str,
    pub(super) data: String,
}

impl Told {
    pub(super) fn new(name: &'static str, data: &Value) -> Told {
        Told {
            name,
            data: data.to_string(),
        }
    }
}

/// Where messages come from.
pub(super) enum Source {
    /// A request in the store, which any process may run.
    Stored(Events),
    /// A request of this process, whose client waits.
    Called(CallEvents),
}

impl Source {
    /// Returns the next message; `None` after the last. Not cancel safe.
    pub(super) async fn next(&mut self) -> Option<Told> {
        match self {
            Source::Stored(events) => events.next().await,
            Source::Called(events) => events.next().await,
        }
    }
}
