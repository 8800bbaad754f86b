//! Jobs passed on to an HTTP endpoint.
//!
//! The endpoint is called with the payload as the body, and with headers that say which job and attempt it
//! is and prove who sent it (Standard Webhooks 1.0). What it answers ends the attempt: 2xx is success with
//! the body as the result, 409, 410 and 422 are a failure that no retry will mend, all else is tried again.
//! The lease is kept for as long as the answer takes, so an endpoint may be slow; it gets the attempt's
//! token and may report progress or extend by itself.

mod endpoint;
mod handler;
mod signature;

pub use endpoint::{Delivery, Endpoint};
pub use handler::Push;
pub use signature::{Secret, SecretError};
