//! Holding one number: the rules, their lengths, what is kept on disk, and the task that does it.

mod holder;
mod state;
mod state_dir;
mod task;
mod timing;
mod user_clocks;
mod window;

pub use holder::{End, Holder, HolderOptions, LeaseStats, Status, Usage, pool_options};
pub use state::{Held, LeaseAction, LeaseState, Opening, Renewal, Times};
pub use state_dir::{LockScope, Saved, StateDir, StateError};
pub use timing::{Timing, TimingOptions, TooLong, USE_MAX_CAP, USE_MAX_STANDARD};
pub use window::Window;
