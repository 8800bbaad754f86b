//! Jobs in PostgreSQL, shared by any number of servers.
//!
//! Rows are moved, not updated: `jobs_ready` to `jobs_running` to `jobs_done`, with `jobs_delayed` and
//! `jobs_blocked` aside. So the index that claims walk holds nothing but jobs that can be claimed, and history
//! slows nobody. What most jobs need is one statement for a whole batch ([`enqueue`], [`claim`], [`complete`]);
//! whatever is rarer (keys, places, dependencies, webhooks, failures) is a transaction of a few ([`step`]).
//!
//! Events are numbered behind a gate, an advisory lock taken as the last thing before the commit: the order of
//! the numbers is the order of the commits, so a reader's position is one number and nothing appears behind it.

mod clock;
mod error;
mod flags;
mod names;

mod claim;
mod complete;
mod enqueue;

mod step;

mod cancel;
mod constrained_enqueue;
mod report;
mod retry;
mod stale_report;

mod explain;
mod list;
mod read;

mod deliveries;
mod events;
mod maintenance;
mod queues;
mod schedules;
mod tenants;

mod check;
mod notifications;
mod open;
mod sql;
mod store;
mod throughput;

pub use open::Options;
pub use store::PgStore;
