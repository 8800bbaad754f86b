//! Delivers events to the URLs that submitters named.
//!
//! A delivery is a row that the store creates in the transaction of its event. [`Deliverer`] takes due ones,
//! sends each with a signature, and records the result: done, retry later, or given up. A process that dies
//! in between leaves a delivery that becomes due again. Targets drop duplicates by the id, which stays the
//! same.

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
