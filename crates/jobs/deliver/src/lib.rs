//! Delivers the results of jobs.
//!
//! [`webhook`] sends events to the targets that submitters named. [`notify`] notifies administrators of
//! permanently failed jobs and undelivered results. Everything sent to an address that a third party chose
//! goes through [`guard`].

pub mod guard;

pub mod webhook;

pub mod undelivered;

pub mod notify;

pub mod api;
