//! What nobody should send. Each gets Redis's own error or a limit with a name, and the engine serves on.

mod frames;
mod limits;
mod slow;
mod values;
