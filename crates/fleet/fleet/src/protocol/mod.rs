//! The decisions of agents and managers, without a clock or I/O. The real loops and the simulator run the
//! same code.

mod agent;
mod care;
mod decide;
mod watch;

pub use agent::{AgentAction, AgentCore, Refused};
pub use care::{AVOID_FOR, Care, Judgement};
pub use decide::{Decision, Rebalance, decide, fleet_of};
pub use watch::{Overdue, Watch};
