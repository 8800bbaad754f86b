//! The proxy in front of real servers.
#![allow(clippy::unwrap_used, reason = "helpers of tests are not tests themselves")]

mod blocking;
mod faults;
mod forwarding;
mod key_events;
mod links;
mod monitor;
mod pubsub;
mod redirects;
mod rights;
mod script_rights;
mod scripts;
mod several_tags;
mod support;
mod tiering;
mod tracking;
mod transactions;
mod whole_server;
