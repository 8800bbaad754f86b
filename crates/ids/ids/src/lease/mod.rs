//! Holding one number: the rules, their lengths, what is kept on disk, and the task that does it.

mod holder;
mod machine;
mod state_dir;
mod timing;
mod window;

pub use holder::{End, Holder, HolderOptions, Status, pool_options};
pub use machine::{Held, Machine, Renewal, Step, Times};
pub use state_dir::{LockScope, Saved, StateDir, StateError};
pub use timing::{Timing, Wish};
pub use window::Window;
