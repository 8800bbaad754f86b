//! The fleet against real Redis servers, whole and broken.

#![allow(clippy::unwrap_used, reason = "helpers of tests are tests")]

mod agent;
mod application;
mod children;
mod defects;
mod faults;
mod health;
mod http_runner;
mod ledger;
mod manager;
mod model;
mod operations;
mod replicas;
mod scripts;
mod seed;
mod sources;
mod support;
mod topologies;
