//! What the scripts must do beyond what every hot tier does.

use nagaya_redis_client::reply;
use nagaya_testkit::{Redis, RedisCluster};
use nagaya_tiering::cold::{ColdTier, Kind};
use nagaya_tiering::error::HotError;
use nagaya_tiering::hot::{Chunk, HotTier, Installed, SavedKeys};
use nagaya_tiering::protocol::{LoadStart, Part, Touched};

use super::bench::Bench;
use super::setup::Setup;

const LAST: Part = Part {
    generation: 1,
    saved: nagaya_tiering::cold::Version {
        generation: 0,
        snap: 0,
    },
    is_last: true,
};

fn empty() -> Chunk {
    Chunk {
        part: LAST,
        rows: Vec::new(),
        tombstones: Vec::new(),
    }
}

fn load(bench: &Bench, tag: &[u8]) {
    let token = bench.draw();
    assert_eq!(bench.tier.begin(tag, token).unwrap(), LoadStart::Begun);
    assert_eq!(bench.tier.install(tag, token, &empty()).unwrap(), Installed::Put);
}

#[test]
fn every_type_comes_back_from_an_eviction_as_it_was() {
    let redis = Redis::start();
    let setup = Setup::open(&redis.url());
    type Filled<'a> = (&'a [u8], Kind, &'a [&'a [u8]]);
    let fill: [Filled<'_>; 6] = [
        (b"{u}string", Kind::String, &[b"SET", b"{u}string", b"\0\xff"]),
        (b"{u}list", Kind::List, &[b"RPUSH", b"{u}list", b"a", b"b"]),
        // Numbers, because the payload of other sets has its members in no particular order.
        (b"{u}set", Kind::Set, &[b"SADD", b"{u}set", b"1", b"2"]),
        (b"{u}zset", Kind::SortedSet, &[b"ZADD", b"{u}zset", b"1.5", b"a"]),
        (b"{u}hash", Kind::Hash, &[b"HSET", b"{u}hash", b"f", b"v"]),
        (
            b"{u}stream",
            Kind::Stream,
            &[b"XADD", b"{u}stream", b"1-1", b"f", b"v"],
        ),
    ];
    let mut dumps = Vec::new();
    for (key, _, command) in fill {
        setup.write(key, command);
        dumps.push(setup.bench.call(key, &[b"DUMP", key]));
    }
    setup.evict(b"u");
    assert_eq!(redis.cmd(&["DBSIZE"]).int(), 0, "nothing of the tag is left");
    for ((key, kind, _), dump) in fill.into_iter().zip(dumps) {
        assert_eq!(setup.row(key).unwrap().kind, kind);
        setup.loader.load(b"u").unwrap();
        assert_eq!(setup.bench.call(key, &[b"DUMP", key]), dump);
    }
}

#[test]
fn expiry_is_kept_to_the_millisecond_and_goes_on_while_cold() {
    let redis = Redis::start();
    expiry_is_kept(&redis, "4102444800123", "4102444800123");
}

#[test]
fn expiry_is_kept_on_servers_that_cannot_tell_it_exactly() {
    let redis = Redis::with_config(&["rename-command PEXPIRETIME \"\""]);
    let setup = Setup::open(&redis.url());
    setup.write(b"{u}x", &[b"SET", b"{u}x", b"1", b"PXAT", b"4102444800123"]);
    setup.save();
    let kept = setup.row(b"{u}x").unwrap().expires_at_ms.unwrap();
    assert!((kept - 4_102_444_800_123).abs() < 1000, "{kept}");
}

fn expiry_is_kept(redis: &Redis, set: &str, expected: &str) {
    let setup = Setup::open(&redis.url());
    setup.write(b"{u}later", &[b"SET", b"{u}later", b"1", b"PXAT", set.as_bytes()]);
    setup.write(b"{u}soon", &[b"SET", b"{u}soon", b"1", b"PX", b"1500"]);
    setup.save();
    assert!(setup.row(b"{u}soon").is_some());
    // The row is older than the key's end; the load must not bring the key back.
    nagaya_testkit::wait::until("the key expires", std::time::Duration::from_secs(5), || {
        setup.bench.get(b"{u}soon").is_none()
    });
    assert!(setup.evictor().evict(&[b"u"]).unwrap().evicted == 1);
    assert_eq!(setup.get(b"{u}soon"), None);
    let at = setup.bench.call(b"{u}later", &["PEXPIRETIME", "{u}later"]);
    assert_eq!(reply::int(&at).unwrap().to_string(), expected);
}

#[test]
fn full_memory_stops_loads_but_neither_saving_nor_eviction() {
    let redis = Redis::start();
    let setup = Setup::open(&redis.url());
    setup.set(b"{u}x", b"1");
    setup.set(b"{u}y", b"1");
    redis.cmd(&["CONFIG", "SET", "maxmemory", "1"]);

    // A delete runs when memory is full, so its announcement must, too.
    setup.bench.write(b"{u}y", &["DEL", "{u}y"]);
    assert_eq!(setup.bench.tier.touch(&[b"u"]).unwrap(), [Touched::Granted]);
    let refused = setup.bench.tier.begin(b"other", setup.bench.draw());
    assert!(matches!(refused, Err(HotError::Full(_))), "{refused:?}");
    setup.evict(b"u");
    assert_eq!(redis.cmd(&["DBSIZE"]).int(), 0);

    redis.cmd(&["CONFIG", "SET", "maxmemory", "0"]);
    assert_eq!(setup.get(b"{u}x"), Some(b"1".to_vec()));
    assert_eq!(setup.get(b"{u}y"), None);
}

#[test]
fn full_memory_in_mid_load_leaves_the_tag_loading() {
    let redis = Redis::start();
    let setup = Setup::open(&redis.url());
    setup.set(b"{u}x", b"1");
    setup.evict(b"u");
    let token = setup.bench.draw();
    let tier = &setup.bench.tier;
    tier.begin(b"u", token).unwrap();
    redis.cmd(&["CONFIG", "SET", "maxmemory", "1"]);
    let loaded = setup.cold.read(&[b"u"]).unwrap().remove(0).unwrap();
    let chunk = Chunk {
        rows: loaded.rows,
        ..empty()
    };
    let refused = tier.install(b"u", token, &chunk);
    assert!(matches!(refused, Err(HotError::Full(_))), "{refused:?}");
    assert_eq!(tier.touch(&[b"u"]).unwrap(), [Touched::Wait]);
    redis.cmd(&["CONFIG", "SET", "maxmemory", "0"]);
    assert_eq!(tier.install(b"u", token, &chunk).unwrap(), Installed::Put);
    assert_eq!(setup.bench.get(b"{u}x"), Some(b"1".to_vec()));
}

#[test]
fn a_payload_that_is_refused_leaves_the_tag_loading() {
    let redis = Redis::start();
    let setup = Setup::open(&redis.url());
    setup.set(b"{u}x", b"1");
    setup.evict(b"u");
    let mut chunk = Chunk {
        rows: setup.cold.read(&[b"u"]).unwrap().remove(0).unwrap().rows,
        ..empty()
    };
    chunk.rows[0].value.payload[0] ^= 0xff;
    let token = setup.bench.draw();
    setup.bench.tier.begin(b"u", token).unwrap();
    let refused = setup.bench.tier.install(b"u", token, &chunk);
    assert!(matches!(refused, Err(HotError::Failed(_))), "{refused:?}");
    assert_eq!(setup.bench.tier.touch(&[b"u"]).unwrap(), [Touched::Wait]);
    // The next server takes over.
    assert_eq!(setup.get(b"{u}x"), Some(b"1".to_vec()));
}

#[test]
fn scripts_that_a_server_has_forgotten_are_sent_again() {
    let redis = Redis::start();
    let bench = Bench::open(&redis.url());
    load(&bench, b"u");
    redis.cmd(&["SCRIPT", "FLUSH"]);
    assert_eq!(
        bench.tier.touch(&[b"u", b"v"]).unwrap(),
        [Touched::Granted, Touched::Cold]
    );
}

#[test]
fn odd_tags_go_through_a_whole_life_on_a_cluster() {
    let cluster = RedisCluster::start();
    let setup = Setup::open(&format!("redis+cluster://{}", cluster.addresses()[0]));
    for key in [&b""[..], b"}", b"a}b", b"{}x", b"x{", b"{{odd}}", b"\xff}\0"] {
        setup.set(key, b"1");
        let tag = nagaya_tiering::tag::tag_of(key);
        setup.evict(tag);
        assert_eq!(setup.bench.get(key), None, "{}", String::from_utf8_lossy(key));
        assert_eq!(setup.get(key), Some(b"1".to_vec()));
    }
}

#[test]
fn a_tag_without_changes_leaves_the_index() {
    let redis = Redis::start();
    let bench = Bench::open(&redis.url());
    load(&bench, b"u");
    bench.register(b"{u}x");
    let copy = bench.tier.snapshot(&[b"u"]).unwrap().remove(0).unwrap();
    assert_eq!(bench.tier.dirty_tags(None, 10).unwrap().tags.len(), 1);
    // As if the server had stopped between the two.
    bench.call(b"u", &["DEL", "_room:{u}:dirty"]);
    bench.tier.snapshot(&[b"u"]).unwrap();
    assert_eq!(bench.tier.dirty_tags(None, 10).unwrap().tags, []);
    let settled = SavedKeys {
        tag: b"u".to_vec(),
        generation: 1,
        keys: vec![(b"{u}x".to_vec(), copy.tokens[0])],
    };
    assert_eq!(bench.tier.remove(&[settled]).unwrap(), [true]);
}

#[test]
fn a_listing_begins_where_the_last_one_ended_and_skips_nothing() {
    let redis = Redis::start();
    let bench = Bench::open(&redis.url());
    // More than one turn of ZSCAN in one slot, and some elsewhere.
    let mut fill: Vec<String> = vec!["ZADD".into(), "_room:{la2}:index".into()];
    fill.extend((0..5000).flat_map(|number| ["1".to_owned(), format!("t{number}")]));
    redis.cmd(&fill);
    for tag in [b"a", b"b", b"c"] {
        load(&bench, tag);
        bench.register(tag);
    }
    let (mut listed, mut from, mut pages) = (Vec::new(), None, 0);
    loop {
        let page = bench.tier.dirty_tags(from, 10).unwrap();
        listed.extend(page.tags.into_iter().map(|dirty| dirty.tag));
        pages += 1;
        from = page.next;
        if from.is_none() {
            break;
        }
    }
    listed.sort();
    listed.dedup();
    assert_eq!(listed.len(), 5003);
    assert!(pages > 1);
    let elsewhere = bench.tier.within(1..=16383);
    assert_eq!(elsewhere.dirty_tags(None, 10).unwrap().tags.len(), 3);
}
