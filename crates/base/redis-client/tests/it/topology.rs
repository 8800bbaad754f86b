//! Sentinels and clusters.

use nagaya_redis_client::{Error, Frame};
use nagaya_testkit::{Failover, RedisCluster, RedisSentinel, SENTINEL_SERVICE};

use crate::{block_on, client};

#[test]
fn the_sentinels_primary_is_found_again_after_a_failover() {
    let trio = RedisSentinel::start();
    let list: Vec<String> = trio
        .sentinels()
        .iter()
        .map(|node| node.address().to_string())
        .collect();
    let client = client(&format!(
        "redis+sentinel://127.0.0.1:1,{}/{SENTINEL_SERVICE}",
        list.join(",")
    ));
    block_on(async {
        let before = client.connection(b"").await.unwrap();
        assert_eq!(before.address(), trio.primary_address().to_string());
        tokio::task::block_in_place(|| trio.failover());
        // Until the sentinels have demoted the old primary it goes on taking writes; then its connection
        // is closed, or refuses as a replica.
        let moved = async {
            loop {
                match client.call(b"k", &["SET", "k", "v"]).await {
                    Ok(_) => {
                        let now = client
                            .connection(b"")
                            .await
                            .map(|connection| connection.address().to_owned());
                        if now.is_ok_and(|address| address == trio.primary_address().to_string()) {
                            return;
                        }
                    }
                    Err(error) => assert!(error.is_retryable(), "{error}"),
                }
                tokio::time::sleep(std::time::Duration::from_millis(50)).await;
            }
        };
        tokio::time::timeout(crate::PATIENCE, moved).await.unwrap();
    });
}

#[test]
fn an_unknown_service_is_named() {
    let trio = RedisSentinel::start();
    let address = trio.sentinels()[0].address();
    block_on(async {
        let error = client(&format!("redis+sentinel://{address}/other"))
            .connection(b"")
            .await
            .unwrap_err();
        assert!(matches!(error, Error::NoPrimary { .. }), "{error}");
        assert!(error.to_string().contains("does not know other"), "{error}");
    });
}

#[test]
fn commands_reach_the_node_that_has_their_key() {
    let cluster = RedisCluster::start();
    let client = client(&format!("redis+cluster://{}", cluster.addresses()[0]));
    block_on(async {
        for key in ["a", "b", "c", "d", "{tag}1"] {
            client.call(key.as_bytes(), &["SET", key, key]).await.unwrap();
            let owner = &cluster.nodes()[cluster.owner_of(cluster.slot_of(key))];
            assert_eq!(owner.cmd(&["GET", key]).text(), key);
            assert_eq!(
                nagaya_redis_client::slot::of_key(key.as_bytes()),
                cluster.slot_of(key)
            );
        }
        // The slot moves; the map in the client is old, and the redirect is followed.
        let slot = cluster.slot_of("a");
        let to = (0..cluster.nodes().len())
            .find(|node| {
                *node != cluster.owner_of(slot) && (0..16384).any(|slot| cluster.owner_of(slot) == *node)
            })
            .unwrap();
        tokio::task::block_in_place(|| cluster.move_slot(slot, to));
        assert_eq!(
            client.call(b"a", &["GET", "a"]).await.unwrap(),
            Frame::Bulk(b"a".to_vec())
        );
    });
}

#[test]
fn a_slot_that_is_moving_is_asked_for_where_it_goes() {
    let cluster = RedisCluster::start();
    let client = client(&format!("redis+cluster://{}", cluster.addresses()[0]));
    block_on(async {
        client.call(b"a", &["SET", "a", "1"]).await.unwrap();
        let slot = cluster.slot_of("a");
        let owner = cluster.owner_of(slot);
        let to = cluster.owner_of((slot + 8192) % 16384);
        assert_ne!(owner, to);
        let moving = tokio::task::block_in_place(|| cluster.begin_slot_move(slot, to));
        tokio::task::block_in_place(|| moving.migrate_keys());
        assert_eq!(
            client.call(b"a", &["GET", "a"]).await.unwrap(),
            Frame::Bulk(b"1".to_vec())
        );
        tokio::task::block_in_place(|| moving.finish());
    });
}

#[test]
fn a_clusters_failover_is_followed() {
    let cluster = RedisCluster::start();
    let client = client(&format!("redis+cluster://{}", cluster.addresses()[0]));
    block_on(async {
        client.call(b"a", &["SET", "a", "1"]).await.unwrap();
        let replica = cluster.replica_of(cluster.owner_of(cluster.slot_of("a")));
        tokio::task::block_in_place(|| {
            cluster.failover(replica, Failover::Graceful);
            cluster.wait_until_primary(replica);
        });
        assert_eq!(
            client.call(b"a", &["GET", "a"]).await.unwrap(),
            Frame::Bulk(b"1".to_vec())
        );
    });
}
