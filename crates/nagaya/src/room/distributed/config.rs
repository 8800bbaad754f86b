//! The `[tiers]` section: the room on real engines.

use std::time::Duration;

use nagaya_config::{ByteSize, Listen, Unset, settings};

settings! {
    /// The room on Redis and PostgreSQL, when `house.redis` and `house.postgres` are set. All processes that
    /// share them must have the same `lease` and `allowance`.
    pub struct TiersConfig in "tiers" {
        /// How long a server may use a tag after it has asked for it; it asks again before, while the tag is
        /// in use. A longer one costs fewer commands and makes evictions wait longer.
        lease: Duration = "5s", fixed, range "1s" to "5m";
        /// The longest that a command may take to its node. A connection that takes longer is given up.
        allowance: Duration = "2s", fixed, range "100ms" to "1m";
        /// How long a request whose tag is not in memory waits while PostgreSQL does not answer; then it gets the
        /// error TRYAGAIN. Requests for tags in memory do not wait.
        cold_wait: Duration = "5s", fixed, range "0s" to "5m";
        /// Threads that save changed tags.
        savers: usize = 2, fixed, range 1 to 64;
        /// Tags that one server loads at a time.
        loaders: usize = 16, fixed, range 1 to 256;
        /// Connections to PostgreSQL.
        connections: usize = 8, fixed, range 1 to 256;
        /// Where a node counts as full, in hundredths of its own `maxmemory`; the tags used least recently
        /// are evicted down from there.
        memory_percent: u64 = 80, fixed, range 1 to 100;
        /// Where a node counts as full, in bytes, whatever its own limit is; 0 sets none.
        memory_max: ByteSize = "0b", fixed, range "0b" to "16384gb";
        /// Let MSET write keys of several tags, one tag after the other: others may see a part of it.
        split_mset: bool = false, fixed;
        /// The collector to which servers send which tags are used. Not set, they write it to PostgreSQL
        /// themselves.
        collector: Option<Listen> = Unset, fixed;
    }
}
