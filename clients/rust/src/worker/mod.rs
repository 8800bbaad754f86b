//! A worker: takes jobs of one queue, runs a handler for each, reports how they ended.
//!
//! As many attempts run at once as [`Worker::concurrency`] says; one call claims as many jobs as there are
//! free places. Each attempt has a keeper that extends its lease at a third of its length. When an
//! extension is refused, or none got through until shortly before the lease's end, the attempt is not ours
//! any more: [`Attempt::stopped`] resolves, the handler gets a moment to end, and nothing is reported.
//!
//! Cancelling the token given to [`Worker::run`] drains: nothing more is claimed, what runs is finished and
//! reported. After [`Worker::drain_limit`] the rest is told to stop and reported as failed, to be tried
//! again elsewhere.

mod attempt;
mod handler;
mod lease;
mod run;

pub use attempt::{Attempt, Stopped};
pub use handler::{Handler, Outcome};
pub use run::{Tally, Worker};
