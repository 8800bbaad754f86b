//! Events on their way to the URLs that submitters named.
//!
//! A delivery is a row that the store makes in the transaction of its event. [`Deliverer`] takes those that are
//! due, sends each with a signature, and reports what came of it: done, again later, or given up. Whoever dies in
//! between leaves a delivery that is due again: targets drop duplicates by the id, which stays the same.

mod body;
mod deliverer;
mod outcome;
mod secrets;
mod signature;
mod target_queues;
mod targets;

pub use body::BodyConfig;
pub use deliverer::{Config, Deliverer, DeliveryStats};
pub use outcome::{TRIES_MAX, Verdict, judge};
pub use secrets::Secrets;
pub use signature::{Secret, SecretError, sign, verify};
pub use targets::{Admission, Targets};
