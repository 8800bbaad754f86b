//! Prevents server-side request forgery.
//!
//! A target is a URL chosen by an untrusted party. Its name is resolved here, every address is checked, and
//! the connection goes to exactly the address that was checked. So a DNS answer that changes between check
//! and connection has no effect. Redirects are not followed.

mod address;
mod allow;
mod client;
mod connector;
mod resolve;

pub use address::{Refusal, refusal};
pub use allow::{Allow, ParseError};
pub use client::{Client, Limits, Reply, SendError};
pub use connector::ConnectError;
pub use resolve::{Resolve, SystemResolver};
