//! Child processes that never outlive their parent, process groups and signals. Linux only.
//!
//! Three means, because each has a gap. The kernel can kill a child when the thread that started it ends
//! ([`end_with_parent`]), but it does not reach the child's own children. A process group ([`Group`]) reaches all
//! of them that did not leave it, but somebody has to be alive to signal it. The [`Guardian`] is a second process
//! that is still alive when the parent was killed; it does not know a child that was started a moment ago. A
//! program that must find even those descendants that left the group adopts them ([`orphans`]).
//!
//! And the other way round: a process that outlives its data folder notices it ([`Ground`]).

mod child;
mod descendants;
mod ground;
mod group;
mod guardian;
pub mod orphans;
mod signals;
mod spawner;

pub use child::{end_with_parent, spawn_child};
pub use descendants::{descendants, is_alive};
pub use ground::{Ground, Lost};
pub use group::{Group, GuardedGroup};
pub use guardian::{Guardian, guard};
pub use rustix::process::{Pid, Signal};
pub use signals::{Signals, signal_name};
pub use spawner::Spawner;
