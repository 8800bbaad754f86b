//! Problem documents, HTTP client and server parts that all services share.
//!
//! Nothing here knows a service's errors or settings: a service maps its own errors to problems and passes its
//! own limits. Each part is a feature, so that a client library does not link a server.

#[cfg(feature = "bearer")]
pub mod bearer;
#[cfg(feature = "client")]
pub mod client;
#[cfg(feature = "server")]
pub mod hosts;
#[cfg(feature = "problem")]
pub mod problem;
#[cfg(feature = "server")]
pub mod proxies;
#[cfg(feature = "server")]
pub mod server;
#[cfg(any(test, feature = "testing"))]
pub mod testing;

#[cfg(feature = "client")]
pub use client::Client;
#[cfg(feature = "problem")]
pub use problem::Problem;
