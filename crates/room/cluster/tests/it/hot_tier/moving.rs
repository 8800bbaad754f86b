//! Slots that move to another node while tags in them are worked on.

use nagaya_redis_client::slot;
use nagaya_testkit::RedisCluster;
use nagaya_tiering::error::HotError;
use nagaya_tiering::hot::HotTier;
use nagaya_tiering::protocol::Touched;

use super::setup::Setup;

fn other_primary(cluster: &RedisCluster, than: usize) -> usize {
    (0..16384)
        .map(|slot| cluster.owner_of(slot))
        .find(|owner| *owner != than)
        .unwrap()
}

/// Moves single keys, as far as a real move has come at some moment.
fn migrate(cluster: &RedisCluster, from: usize, to: usize, keys: &[&str]) {
    let port = cluster.nodes()[to].port().to_string();
    let mut command = vec!["MIGRATE", "127.0.0.1", &port, "", "0", "5000", "KEYS"];
    command.extend(keys);
    assert_eq!(cluster.nodes()[from].cmd(&command).text(), "OK");
}

#[test]
fn a_key_that_has_moved_is_not_taken_for_deleted() {
    let cluster = RedisCluster::start();
    let setup = Setup::open(&format!("redis+cluster://{}", cluster.addresses()[0]));
    setup.set(b"{u}x", b"1");
    setup.set(b"{u}y", b"1");
    setup.save();
    setup.set(b"{u}x", b"2");
    setup.set(b"{u}y", b"2");
    let tier = &setup.bench.tier;
    let slot = slot::of_key(b"u");
    let from = cluster.owner_of(slot);
    let to = other_primary(&cluster, from);
    let moving = cluster.begin_slot_move(slot, to);

    // One of the changed keys is gone from here already, and everything of ours is still here.
    migrate(&cluster, from, to, &["{u}y"]);
    assert_eq!(tier.snapshot(&[b"u"]).unwrap(), [None]);
    let meta = |field: &str| {
        cluster.nodes()[from]
            .cmd(&["HGET", "_room:{u}:meta", field])
            .text()
    };
    let snap = meta("snap");
    assert_eq!(tier.snapshot(&[b"u"]).unwrap(), [None]);
    assert_eq!(meta("snap"), snap, "a snapshot that failed has changed nothing");
    assert_eq!(setup.saver().flush().unwrap().saved, 0);

    // Everything of ours is there already, and a changed key is still here.
    let index = String::from_utf8(nagaya_cluster::hot_tier::keys::index(slot)).unwrap();
    let used = String::from_utf8(nagaya_cluster::hot_tier::keys::used(slot)).unwrap();
    migrate(
        &cluster,
        from,
        to,
        &["_room:{u}:meta", "_room:{u}:dirty", &index, &used],
    );
    assert_eq!(tier.snapshot(&[b"u"]).unwrap(), [None]);
    assert!(matches!(tier.touch(&[b"u"]), Err(HotError::Unavailable(_))));
    assert_eq!(setup.saver().flush().unwrap().saved, 0);
    assert_eq!(tier.mark(&[b"u"], setup.bench.draw()).unwrap(), [false]);
    assert!(tier.coldest(10, std::time::Duration::ZERO).unwrap().is_empty());

    moving.migrate_keys();
    moving.finish();
    // The same node goes on, with the same keys: what another node wrote is suspect there.
    assert_eq!(tier.touch(&[b"u"]).unwrap(), [Touched::Suspect]);
    assert_eq!(setup.get(b"{u}x"), Some(b"2".to_vec()));
    assert_eq!(setup.get(b"{u}y"), Some(b"2".to_vec()));
    setup.evict(b"u");
    assert_eq!(setup.get(b"{u}y"), Some(b"2".to_vec()));
}

#[test]
fn an_eviction_that_meets_a_move_leaves_the_tag_whole() {
    let cluster = RedisCluster::start();
    let setup = Setup::open(&format!("redis+cluster://{}", cluster.addresses()[0]));
    setup.set(b"{u}x", b"1");
    setup.set(b"{u}y", b"1");
    setup.save();
    let tier = &setup.bench.tier;
    let token = setup.bench.draw();
    assert_eq!(tier.mark(&[b"u"], token).unwrap(), [true]);
    let slot = slot::of_key(b"u");
    let from = cluster.owner_of(slot);
    let to = other_primary(&cluster, from);
    let moving = cluster.begin_slot_move(slot, to);
    migrate(&cluster, from, to, &["{u}y"]);
    let names = [b"{u}x".to_vec(), b"{u}y".to_vec()];
    assert!(!tier.confirm(b"u", token, &names).unwrap());
    assert_eq!(cluster.nodes()[from].cmd(&["GET", "{u}x"]).text(), "1");
    moving.migrate_keys();
    moving.finish();
    assert_eq!(setup.get(b"{u}x"), Some(b"1".to_vec()));
    assert_eq!(setup.get(b"{u}y"), Some(b"1".to_vec()));
}

#[test]
fn tags_follow_their_slot_to_its_new_node() {
    let cluster = RedisCluster::start();
    let setup = Setup::open(&format!("redis+cluster://{}", cluster.addresses()[0]));
    for number in 0..50 {
        setup.set(format!("{{u}}{number}").as_bytes(), b"1");
    }
    let slot = slot::of_key(b"u");
    let to = other_primary(&cluster, cluster.owner_of(slot));
    cluster.move_slot(slot, to);
    for number in 0..50 {
        assert_eq!(
            setup.get(format!("{{u}}{number}").as_bytes()),
            Some(b"1".to_vec())
        );
    }
    setup.evict(b"u");
    assert_eq!(setup.get(b"{u}7"), Some(b"1".to_vec()));
}
