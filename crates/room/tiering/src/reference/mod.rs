//! Both tiers in plain memory: the slow and obvious versions that tests compare
//! the real ones with, and that tests of other crates run on.

mod cold;
mod hot;

pub use cold::MemoryCold;
pub use hot::MemoryHot;
