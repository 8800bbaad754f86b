//! The job store on PostgreSQL, shared by any number of servers.
//!
//! Rows are moved, not updated: `jobs_ready` to `jobs_running` to `jobs_done`, with `jobs_delayed` and
//! `jobs_blocked` aside. So the index that claims scan holds only jobs that can be claimed, and history does
//! not slow it down. The common case is one statement for a whole batch ([`enqueue`], [`claim`], [`complete`]).
//! The rare cases (unique keys, concurrency keys, dependencies, webhooks, failures) are a transaction of a few
//! ([`step`]).
//!
//! Events are numbered behind a gate, an advisory lock that is taken last before the commit. So the order of
//! the numbers is the order of the commits, a reader's position is one number, and no event appears behind it.

mod clock;
mod error;
mod flags;
mod names;

mod claim;
mod complete;
mod edit;
mod enqueue;

mod rows;
mod step;

mod cancel;
mod constrained_enqueue;
mod report;
mod retry;
mod revive;
mod stale_report;

mod explain;
mod lease_clock;
mod leases;
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
