//! What every hot tier must do, on one server and on a cluster.

use std::sync::{Mutex, PoisonError};

use nagaya_redis_client::slot;
use nagaya_testkit::{Failover, Redis, RedisCluster, shared};
use nagaya_tiering::hot::HotTier;
use nagaya_tiering::suite::hot::HotBench;

use super::bench::Bench;

struct OnRedis<'a, S> {
    bench: Bench,
    server: &'a S,
    begin_new_life: fn(&S),
}

impl<S> HotBench for OnRedis<'_, S> {
    fn tier(&self) -> &dyn HotTier {
        &self.bench.tier
    }

    fn set(&self, key: &[u8], value: &[u8]) {
        self.bench.write(key, &[b"SET", key, value]);
    }

    fn delete(&self, key: &[u8]) {
        self.bench.write(key, &[b"DEL", key]);
    }

    fn peek(&self, key: &[u8]) -> Option<Vec<u8>> {
        self.bench.get(key)
    }

    fn begin_new_life(&self) -> bool {
        (self.begin_new_life)(self.server);
        true
    }
}

mod standalone {
    use super::*;

    fn with_redis(case: fn(&dyn HotBench)) {
        let redis = Redis::with_config(&["appendonly yes"]);
        case(&OnRedis {
            bench: Bench::open(&redis.url()),
            server: &redis,
            begin_new_life: Redis::restart,
        });
    }

    nagaya_tiering::hot_suite!(with_redis);
}

mod cluster {
    use super::*;

    /// Cases share one cluster, one after the other.
    static TURN: Mutex<()> = Mutex::new(());

    fn with_cluster(case: fn(&dyn HotBench)) {
        let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
        let cluster = shared::cluster();
        for node in cluster.nodes() {
            // Replicas refuse, and follow their primaries.
            node.cmd(&["FLUSHALL"]);
        }
        let url = format!("redis+cluster://{}", cluster.addresses()[0]);
        case(&OnRedis {
            bench: Bench::open(&url),
            server: cluster,
            begin_new_life: fail_over,
        });
    }

    /// The suite's cases that need a new life work on tag `a`.
    fn fail_over(cluster: &RedisCluster) {
        let owner = cluster.owner_of(slot::of_key(b"a"));
        cluster.failover(cluster.replica_of(owner), Failover::Graceful);
    }

    nagaya_tiering::hot_suite!(with_cluster);
}
