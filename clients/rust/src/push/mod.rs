//! Passes jobs on to an HTTP endpoint.
//!
//! The endpoint gets the payload as the body, and headers that identify the job and attempt and authenticate
//! the sender (Standard Webhooks 1.0). Its response ends the attempt: 2xx is success with the body as the
//! result; 409, 410 and 422 are permanent failures; everything else is retried.
//!
//! The lease is extended for as long as the response takes, so an endpoint may be slow. It also gets the
//! attempt's token and may report progress or extend the lease itself.

mod endpoint;
mod handler;
mod signature;

pub use endpoint::{Delivery, Endpoint};
pub use handler::Push;
pub use signature::{Secret, SecretError};
