//! Every eviction policy beside redis-server: under the same limit the engine holds about as many keys, and it
//! refuses nothing while something can go.

use std::sync::Arc;

use nagaya_cold::{Options, SqliteCold};
use nagaya_engine::{Bound, Engine, RoomConfig, Storage};
use nagaya_testkit::{Folder, Redis, Reply, RespClient};
use nagaya_threads::Account;
use parking_lot::{Mutex, MutexGuard};

use crate::harness::{LIMIT, ask, client, request};

const LIMIT_BYTES: usize = 12 << 20;
const VALUE_BYTES: usize = 1000;
/// More than twice as many as fit.
const KEYS: usize = 25_000;
const BATCH: usize = 100;

const POLICIES: [&str; 7] = [
    "allkeys-lru",
    "allkeys-lfu",
    "allkeys-random",
    "volatile-lru",
    "volatile-lfu",
    "volatile-random",
    "volatile-ttl",
];

/// One engine at a time is on the account that no other test uses: what others allocate must not count.
static ACCOUNT: Mutex<()> = Mutex::new(());

struct Alone {
    engine: Engine,
    _folder: Folder,
    _turn: MutexGuard<'static, ()>,
}

/// Starts an engine whose memory is counted apart; `persists` puts a log and a cold tier behind it.
fn alone(persists: bool) -> Alone {
    let turn = ACCOUNT.lock();
    let folder = Folder::new("eviction");
    let mut config = RoomConfig::default();
    config.listen.0.set_port(0);
    config.max_memory.0 = LIMIT_BYTES as u64;
    let storage = persists.then(|| {
        let file = folder.path().join("cold.db");
        let cold = SqliteCold::open(file, Options::default()).unwrap();
        Storage::new(Arc::new(cold), folder.path().join("log"))
    });
    let bound = Bound::bind(config).unwrap().on_account(Account::Backroom);
    Alone {
        engine: bound.start(storage).unwrap(),
        _folder: folder,
        _turn: turn,
    }
}

fn redis() -> (Redis, RespClient) {
    let redis = Redis::with_config(&[&format!("maxmemory {LIMIT_BYTES}")]);
    let client = redis.client();
    client.set_timeout(LIMIT).unwrap();
    (redis, client)
}

/// Sets many keys and returns how many are there at the end, and how many were refused.
fn fill(client: &mut RespClient, policy: &str, keys: usize, value_bytes: usize) -> (i64, usize) {
    ask(client, &["FLUSHALL"]);
    ask(client, &["CONFIG", "SET", "maxmemory-policy", policy]);
    let value = "x".repeat(value_bytes);
    let mut refused = 0;
    for first in (0..keys).step_by(BATCH) {
        let batch: Vec<u8> = (first..first + BATCH)
            .flat_map(|number| request(&["SET", &format!("key:{number}"), &value, "EX", "100000"]))
            .collect();
        client.send_raw(&batch).unwrap();
        for _ in 0..BATCH {
            refused += usize::from(client.receive().unwrap().error().is_some());
        }
    }
    (ask(client, &["DBSIZE"]).int(), refused)
}

#[test]
fn under_every_policy_as_many_keys_stay_as_in_redis_and_none_is_refused() {
    let ours = alone(true);
    let (mut client, (_redis, mut redis)) = (client(&ours.engine), redis());
    for policy in POLICIES {
        let (theirs, refused) = fill(&mut redis, policy, KEYS, VALUE_BYTES);
        assert_eq!(refused, 0, "redis-server, {policy}");
        let (kept, refused) = fill(&mut client, policy, KEYS, VALUE_BYTES);
        assert_eq!(refused, 0, "{policy}");
        assert!(
            kept * 100 >= theirs * 95,
            "{policy}: {kept} keys, redis-server has {theirs}"
        );
        // The newest are there, as far as the policy cares for that.
        if policy != "allkeys-random" && policy != "volatile-random" {
            let last = format!("key:{}", KEYS - 1);
            assert_eq!(ask(&mut client, &["EXISTS", &last]).int(), 1, "{policy}");
        }
    }
}

#[test]
fn small_keys_make_room_for_small_keys() {
    let ours = alone(true);
    let mut client = client(&ours.engine);
    // What is remembered of a removed key until the cold tier has followed is as large as such a key itself.
    let (kept, refused) = fill(&mut client, "allkeys-lru", 100_000, 10);
    assert_eq!(refused, 0);
    assert!(kept > 40_000, "{kept} keys");
}

#[test]
fn without_a_policy_everything_stays_or_what_does_not_fit_is_refused() {
    {
        let ours = alone(true);
        let mut client = client(&ours.engine);
        let (kept, refused) = fill(&mut client, "noeviction", KEYS, VALUE_BYTES);
        assert_eq!((kept, refused), (KEYS as i64, 0), "tags go to the cold tier");
        assert_eq!(
            ask(&mut client, &["STRLEN", "key:0"]),
            Reply::Int(VALUE_BYTES as i64)
        );
    }
    let ours = alone(false);
    let (mut client, (_redis, mut redis)) = (client(&ours.engine), redis());
    let (theirs, refused_there) = fill(&mut redis, "noeviction", KEYS, VALUE_BYTES);
    let (kept, refused) = fill(&mut client, "noeviction", KEYS, VALUE_BYTES);
    assert_eq!(
        (theirs as usize + refused_there, kept as usize + refused),
        (KEYS, KEYS)
    );
    assert!(
        kept * 100 >= theirs * 95,
        "{kept} keys, redis-server has {theirs}"
    );
}
