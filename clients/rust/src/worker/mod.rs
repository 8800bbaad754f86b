//! A worker: claims jobs of one queue, runs a handler for each, and reports how they ended.
//!
//! Up to [`Worker::concurrency`] attempts run at once; one call claims as many jobs as there are free slots.
//! A task per attempt extends its lease at a third of its length. When an extension is refused, or none
//! succeeded until shortly before the lease's end, the attempt is lost: [`Attempt::stopped`] resolves, the
//! handler gets a moment to end, and nothing is reported.
//!
//! Cancelling the token given to [`Worker::run`] drains: nothing more is claimed, and running attempts are
//! finished and reported. After [`Worker::drain_limit`] the rest is told to stop and reported as failed, to
//! be retried elsewhere.

mod attempt;
mod handler;
mod lease;
mod run;

pub use attempt::{Attempt, Stopped};
pub use handler::{Handler, Outcome};
pub use run::{Tally, Worker};
