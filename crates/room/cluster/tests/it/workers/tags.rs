//! What clients ask about tags, over a real server.

use std::sync::Arc;
use std::time::Duration;

use nagaya_clock::SystemClock;
use nagaya_cluster::hot_tier::{Limits, RedisHotTier};
use nagaya_cluster::proxy::{
    Config, ListedTag, Outcome, Proxy, Service, TagAdmin, TagCommand, TagOrder, TagQuery, Tiering,
};
use nagaya_cluster::workers::{
    AccessConfig, AccessLog, ColdKeyService, ColdTierSink, LoadConfig, LoadPool, TagService, Tasks,
    TasksConfig,
};
use nagaya_testkit::{Redis, Reply, RespClient, wait};
use nagaya_tiering::cold::ColdTier;
use nagaya_tiering::loader::{Loader, LoaderConfig};
use nagaya_tiering::saver::SaverConfig;
use tokio::runtime::Runtime;

use crate::flaky::Flaky;

const LIMITS: Limits = Limits {
    lease: Duration::from_millis(300),
    allowance: Duration::from_millis(300),
    connect_limit: Duration::from_secs(2),
    reply_limit: Duration::from_secs(5),
};

/// A server with a tag_admin; tags are saved and nothing is evicted unless asked for.
struct Setup {
    client: RespClient,
    service: Arc<TagService>,
    _proxy: Proxy,
    _tasks: Tasks,
    _redis: Redis,
    _runtime: Runtime,
}

impl Setup {
    fn start() -> Setup {
        let (redis, runtime) = (Redis::start(), Runtime::new().unwrap());
        let cold: Arc<dyn ColdTier> = Arc::new(Flaky::default());
        let clock = Arc::new(SystemClock);
        let tier = |name: &str| {
            let url = redis.url().parse().unwrap();
            RedisHotTier::new(url, name, LIMITS, runtime.handle().clone()).unwrap()
        };
        let loader = Loader::new(
            Arc::new(tier("load")),
            cold.clone(),
            clock.clone(),
            LoaderConfig::default(),
        );
        let loads = Arc::new(LoadPool::start(loader, clock.clone(), LoadConfig::default()).unwrap());
        let sink = ColdTierSink { cold: cold.clone() };
        let accesses = AccessLog::start(sink, clock.clone(), AccessConfig::default()).unwrap();
        let service = Arc::new(TagService::new(
            tier("tags"),
            cold.clone(),
            clock.clone(),
            loads.clone(),
        ));
        let config = Config {
            tiering: Some(Tiering {
                lease: LIMITS.lease,
                margin: LIMITS.lease / 10,
                allowance: LIMITS.allowance,
                load_wait: Duration::from_secs(5),
                loads,
                accesses: Arc::new(accesses),
                cold_keys: Arc::new(
                    ColdKeyService::start(tier("scan"), cold.clone(), clock.clone()).unwrap(),
                ),
                tag_admin: service.clone(),
            }),
            ..Config::new("127.0.0.1:0".parse().unwrap(), redis.url().parse().unwrap())
        };
        let proxy = Service::bind(config).unwrap().start().unwrap();
        let config = TasksConfig {
            name: "one".into(),
            save: SaverConfig {
                max_staleness: Duration::from_millis(50),
                batch_tags: 64,
            },
            evict: Default::default(),
            savers: 1,
            shard_lease: Duration::from_secs(2),
        };
        let tasks = Tasks::start(tier("task"), cold, clock, config).unwrap();
        let client = RespClient::connect(proxy.address()).unwrap();
        client.set_timeout(Duration::from_secs(30)).unwrap();
        Setup {
            client,
            service,
            _proxy: proxy,
            _tasks: tasks,
            _redis: redis,
            _runtime: runtime,
        }
    }

    #[track_caller]
    fn say(&mut self, line: &str) -> Reply {
        let words: Vec<&str> = line.split(' ').collect();
        self.client.cmd(&words).unwrap()
    }

    #[track_caller]
    fn field(&mut self, tag: &str, name: &str) -> Reply {
        let status = self.say(&format!("ROOM.STATUS {tag}"));
        let items = status.items();
        let at = items.iter().position(|item| *item == Reply::bulk(name)).unwrap();
        items[at + 1].clone()
    }

    fn list(&self, order: TagOrder, limit: usize) -> (Vec<ListedTag>, Option<Vec<u8>>) {
        let (told, outcome) = std::sync::mpsc::channel();
        let wanted = Arc::new(());
        let command = TagCommand::List(TagQuery { order, limit });
        let done = move |ended| told.send(ended).unwrap();
        self.service.ask(command, Arc::downgrade(&wanted), Box::new(done));
        match outcome.recv().unwrap() {
            Ok(Outcome::Listed { tags, cursor }) => (tags, cursor),
            other => panic!("not a list: {other:?}"),
        }
    }
}

fn names(tags: &[ListedTag]) -> Vec<String> {
    tags.iter()
        .map(|listed| String::from_utf8_lossy(&listed.tag).into_owned())
        .collect()
}

#[test]
fn a_tag_is_saved_evicted_warmed_and_erased_on_request() {
    let mut setup = Setup::start();
    assert_eq!(setup.field("u", "status"), Reply::bulk("absent"));
    setup.say("SET {u}a 1");
    setup.say("RPUSH {u}b x y");
    assert_eq!(setup.field("u", "status"), Reply::bulk("need_synced"));
    assert_eq!(setup.field("{u}a", "hot_keys"), Reply::Int(2));
    assert_eq!(setup.say("ROOM.WAITCOLD 20000"), Reply::Int(1));
    assert_eq!(setup.field("u", "cold_keys"), Reply::Int(2));
    assert_eq!(setup.say("ROOM.EVICT u"), Reply::Int(2));
    assert_eq!(setup.say("ROOM.EVICT u"), Reply::Int(0));
    assert_eq!(setup.field("u", "status"), Reply::bulk("cleaned"));
    assert_eq!(setup.field("u", "hot_keys"), Reply::Int(0));
    assert_eq!(setup.say("DBSIZE"), Reply::Int(2));
    assert_eq!(setup.say("ROOM.WARM u nowhere"), Reply::Int(1));
    assert_eq!(setup.field("u", "status"), Reply::bulk("synced"));
    setup.say("DEL {u}a");
    setup.say("SET {u}c 3");
    assert_eq!(setup.say("ROOM.ERASE u"), Reply::Int(2));
    assert_eq!(setup.say("ROOM.ERASE u"), Reply::Int(0));
    assert_eq!(setup.say("DBSIZE"), Reply::Int(0));
    assert_eq!(setup.say("ROOM.WAITCOLD 0 ALL"), Reply::Int(1));
    assert_eq!(setup.field("u", "cold_keys"), Reply::Int(0));
}

#[test]
fn a_wait_that_is_too_short_says_so() {
    let mut setup = Setup::start();
    setup.say("SET {u}a 1");
    // Nothing is saved within a millisecond of its write; a longer wait sees it.
    let told = setup.say("ROOM.WAITCOLD 1");
    assert!(matches!(told, Reply::Int(0 | 1)), "{told:?}");
    assert_eq!(setup.say("ROOM.WAITCOLD 20000"), Reply::Int(1));
}

#[test]
fn tags_are_listed_by_use_by_size_and_by_name() {
    let mut setup = Setup::start();
    for (number, size) in [(1, 10), (2, 3000), (3, 200)] {
        setup.say(&format!("SET {{user:{number}}}a {}", "x".repeat(size)));
    }
    setup.say("SET {other}a 1");
    assert_eq!(setup.say("ROOM.WAITCOLD 20000"), Reply::Int(1));
    assert_eq!(setup.say("ROOM.EVICT user:3"), Reply::Int(1));
    let (tags, cursor) = setup.list(TagOrder::Biggest, 2);
    assert_eq!(
        (names(&tags), cursor),
        (vec!["user:2".to_owned(), "user:3".to_owned()], None)
    );
    assert_eq!(
        tags.iter().map(ListedTag::place).collect::<Vec<_>>(),
        ["both", "disk"]
    );
    assert_eq!(tags[1].keys, 1);
    // Leases of tags that were in use a moment ago are still renewed, which counts as a use.
    let tags = wait::value(
        "the tag that alone is used is the hottest",
        Duration::from_secs(20),
        || {
            setup.say("GET {other}a");
            let (tags, _) = setup.list(TagOrder::Hottest, 10);
            (names(&tags)[0] == "other").then_some(tags)
        },
    );
    assert_eq!(tags.len(), 3, "{tags:?}");
    let prefix = |after: Option<&[u8]>| TagOrder::Prefix {
        prefix: b"user:".to_vec(),
        after: after.map(<[u8]>::to_vec),
    };
    let (tags, cursor) = setup.list(prefix(None), 2);
    assert_eq!(names(&tags), ["user:1", "user:2"]);
    let (tags, cursor) = setup.list(prefix(cursor.as_deref()), 2);
    assert_eq!((names(&tags), cursor), (vec!["user:3".to_owned()], None));
}
