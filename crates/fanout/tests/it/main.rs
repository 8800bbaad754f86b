//! The service against endpoints and stores that misbehave, one file per kind of trouble.

#![allow(clippy::unwrap_used, reason = "helpers of tests may fail as tests do")]

mod fan;
mod scripted;

mod compat;
mod deadline;
mod endpoint_faults;
mod overload;
mod read_back;
mod readers;
mod reload;
mod safety;
mod shapes;
mod shutdown;
mod store_faults;
mod tls;
mod ttl;
