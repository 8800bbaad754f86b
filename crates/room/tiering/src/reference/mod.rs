//! Both tiers in plain memory: the slow and obvious versions that tests compare
//! the real ones with, and that tests of other crates run on.

mod clock;
mod cold;
mod hot;

pub use clock::ManualClock;
pub use cold::MemoryCold;
pub use hot::MemoryHot;
