//! Holding one number: the rules, their lengths, what is kept on disk, and the task that does it.

mod holder;
mod state;
mod state_dir;
mod timing;
mod window;

pub use holder::{End, Holder, HolderOptions, Status, pool_options};
pub use state::{Held, LeaseAction, LeaseState, Renewal, Times};
pub use state_dir::{LockScope, Saved, StateDir, StateError};
pub use timing::{Timing, TimingOptions};
pub use window::Window;
