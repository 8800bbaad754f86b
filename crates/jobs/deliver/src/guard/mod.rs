//! Keeps what we send from places where it must not go.
//!
//! A target is a URL that a stranger chose. Its name is resolved here, each address is judged, and the connection
//! goes to that very address: an answer that changes between the look and the connection changes nothing. There
//! are no redirects.

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
