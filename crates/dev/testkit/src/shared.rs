//! Servers shared by all tests of one test binary, started at first use.
//!
//! Keep apart what you write: keys with a prefix of your own, a database from
//! [`Postgres::create_database`]. Faults belong to instances of your own. A
//! shared server is never dropped; it ends with the test process.

use std::sync::OnceLock;

use crate::{Postgres, Redis, RedisCluster};

#[track_caller]
pub fn redis() -> &'static Redis {
    static REDIS: OnceLock<Redis> = OnceLock::new();
    REDIS.get_or_init(Redis::start)
}

#[track_caller]
pub fn cluster() -> &'static RedisCluster {
    static CLUSTER: OnceLock<RedisCluster> = OnceLock::new();
    CLUSTER.get_or_init(RedisCluster::start)
}

#[track_caller]
pub fn postgres() -> &'static Postgres {
    static POSTGRES: OnceLock<Postgres> = OnceLock::new();
    POSTGRES.get_or_init(Postgres::start)
}
