//! Telling people what became of their jobs.
//!
//! [`webhook`] carries events to the targets that submitters named; [`notify`] tells administrators of jobs that
//! failed for good and of results that did not arrive. Whatever goes out to an address that somebody else chose
//! goes through [`guard`].

pub mod guard;

pub mod webhook;

pub mod undelivered;

pub mod notify;

pub mod api;
