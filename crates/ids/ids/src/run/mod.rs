//! `ids run`: gives a number to a command for as long as it runs.
//!
//! The command gets a process group of its own, on a leash (see `nagaya_leash`): when its number is lost, or was not
//! renewed in time, the group is asked to end (TERM) early enough that it can be made to (KILL) before the number may
//! be another holder's, even if this supervisor is killed, stopped or starved. The command's single ids are not
//! checked; what it writes elsewhere is protected by the fence that it gets.
//!
//! At the end no process is left: descendants that outlive the command, even those that left its group, are ended
//! too, before the number is given back.

mod arguments;
mod flags;
mod supervisor;

pub use arguments::replace;
pub use flags::{BadDuration, parse_duration, with_two_dashes};
pub use supervisor::{BOUND_CODE, LOST_CODE, RunError, RunOptions, run, run_timing};
