//! What our clients of other servers share: parts of URLs, and waits before trying again.

mod backoff;
pub mod url;

pub use backoff::Backoff;
