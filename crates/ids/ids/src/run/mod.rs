//! `ids run`: gives a number to a command for as long as it runs.
//!
//! The command gets a process group of its own. When its number is lost, or was not renewed in time,
//! the group is asked to end (TERM) early enough that it can be made to (KILL) before the number may
//! be another holder's. The command's single ids are not checked: this holds while the supervisor is
//! scheduled, and what the command writes elsewhere is protected by the fence that it gets.
//!
//! At the end no process is left: descendants that outlive the command, even those that left its
//! group, are reparented to the supervisor (their subreaper) and ended too, before the number is given
//! back.

mod arguments;
mod flags;
mod supervisor;

pub use arguments::replace;
pub use flags::{BadDuration, parse_duration, with_two_dashes};
pub use supervisor::{RunError, RunOptions, run, run_timing};
