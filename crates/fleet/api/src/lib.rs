//! The fleet over HTTP: a router that the server, or a manager on its own, merges into its routes.
//!
//! | call | what it does |
//! | --- | --- |
//! | `GET /v1/fleet` | instances, workers, and the state of the manager in this process |
//! | `GET /v1/fleet/plan` | what a rebalance would do, and its cost |
//! | `GET /v1/fleet/events?after=ID&count=N` | the history |
//! | `POST /v1/fleet/relocate` | `{"worker": W, "force": bool}` or `{"all": true, "policy": P}` |
//! | `POST /v1/fleet/drain` | `{"instance": I, "off": bool}` |
//! | `POST /v1/fleet/ask` | `{"key": K, "worker": W, "timeout_ms": N}` |
//! | `POST /v1/fleet/confirm` | `{"digest": D}`: releases held stops |
//! | `POST /v1/fleet/webhook` | reads the external list now; see [`webhook`] for its authentication |

mod http;
mod problem;
pub mod webhook;

use nagaya_fleet::manager::ManagerHandle;
use nagaya_fleet::protocol::Rebalance;
use nagaya_fleet::store::Store;
use nagaya_fleet::timing::Bounds;

pub use http::router;
pub use webhook::WEBHOOK_PATH;

/// State shared by the handlers.
#[derive(Clone, Debug)]
pub struct FleetApi {
    pub store: Store,
    /// The manager in this process.
    pub manager: ManagerHandle,
    pub rebalance: Rebalance,
    pub bounds: Bounds,
    pub webhook: webhook::Guard,
}
