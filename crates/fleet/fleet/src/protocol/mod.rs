//! The decisions of agents and managers, without a clock or I/O. The real loops and the simulator run the
//! same code.

mod agent;
mod decide;
mod watch;

pub use agent::{AgentAction, AgentCore, Refused};
pub use decide::{Decision, Rebalance, decide, fleet_of};
pub use watch::{Overdue, Watch};
