//! What clients of other servers and listeners share: parts of URLs, pauses between retries, TLS.

mod backoff;
pub mod tls;
pub mod url;

pub use backoff::Backoff;
