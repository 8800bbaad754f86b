//! A watchdog for processes that must not run past a moment: the leash.
//!
//! A supervisor renews the right of its children to run. If it is killed, stopped or starved, nobody ends them when
//! that right is over. So a second, small process (the watchdog) starts them, knows until when they may run, and ends
//! them by itself. The supervisor watches as well, and each of the two covers for the other:
//!
//! | | rule | who |
//! |---|---|---|
//! | 1 | The watchdog is the parent of every leader, and an order to start carries `until`: no group is unknown to it at any time. | watchdog |
//! | 2 | The supervisor sends a later `until` after each renewal. Telling it late only ends the group early. | supervisor |
//! | 3 | The group is killed at `until` - 2 [`MARGIN`], whatever the supervisor does. | watchdog |
//! | 4 | It is killed at `until` - [`MARGIN`] if the watchdog has not said that it is gone. | supervisor |
//! | 5 | When the supervisor's end of the socket closes: TERM, KILL after the grace and never later than rule 3. | watchdog |
//! | 6 | When the leader has ended by itself, what it left behind is ended before the group is called gone. | watchdog |
//! | 7 | A leader's zombie is kept until the supervisor lets go of it. Till then the group's number cannot go to a stranger, so both may signal it; neither does afterwards. | both |
//! | 8 | The kernel kills leaders when the watchdog ends, and the supervisor adopts what is left and ends it. | supervisor |
//! | 9 | What the group was entitled to is given up only after it is gone. | supervisor |
//!
//! Both out of order at once, as on a frozen machine, is not covered: then only what the group writes to can refuse it.
//!
//! Descendants that left the group are found as soon as their parents have ended, because the watchdog is their
//! subreaper. It reaps all of them at once.

mod rules;

mod family;
mod wire;

mod supervisor;
mod watchdog;

pub use family::has_living;
pub use rules::{MARGIN, Step, Tether};
pub use supervisor::{Event, Leash, Leashed, Start};
pub use watchdog::watch;
pub use wire::Cause;
