//! The service against misbehaving endpoints and stores, one file per kind of fault.

#![allow(clippy::unwrap_used, reason = "helpers of tests may fail as tests do")]

mod fan;
mod scripted;

mod call;
mod compat;
mod deadline;
mod endpoint_faults;
mod overload;
mod own_settings;
mod read_back;
mod readers;
mod reload;
mod safety;
mod shapes;
mod shutdown;
mod store_faults;
mod tls;
mod ttl;
