//! Writes that count only when replicas have them.

use std::time::Duration;

use nagaya_redis_client::{Error, Frame, Need, Script};
use nagaya_testkit::{Redis, RedisReplicas};

use crate::{block_on, client};

static SET: Script = Script::new(
    "set",
    "redis.call('SET', KEYS[1], ARGV[1]) return 'done'",
    &["key"],
    &["value"],
);

fn need(replicas: u32) -> Need {
    Need {
        replicas,
        limit: Duration::from_millis(300),
    }
}

/// For replicas that are there and have their time on a busy machine.
fn patient(replicas: u32) -> Need {
    Need {
        replicas,
        limit: crate::PATIENCE,
    }
}

#[test]
fn a_confirmed_write_is_on_the_replicas_and_names_its_connection() {
    let servers = RedisReplicas::start(2);
    block_on(async {
        let connection = client(&servers.primary().url()).connection(b"").await.unwrap();
        let confirmed = connection
            .write_and_wait(&SET, &[b"k"], &[b"v"], patient(2))
            .await
            .unwrap();
        assert_eq!(confirmed.reply, Frame::Bulk(b"done".to_vec()));
        assert_eq!(confirmed.acknowledged, 2);
        assert_eq!(confirmed.connection_id, connection.id());
        assert_eq!(confirmed.run, connection.run().await.unwrap());
        for replica in servers.replicas() {
            assert_eq!(replica.cmd(&["GET", "k"]).text(), "v");
        }
    });
}

#[test]
fn a_frozen_replica_is_missed_on_the_writing_connection_and_not_on_another() {
    let servers = RedisReplicas::start(2);
    block_on(async {
        let client = client(&servers.primary().url());
        let connection = client.connection(b"").await.unwrap();
        connection
            .write_and_wait(&SET, &[b"k"], &[b"u"], patient(2))
            .await
            .unwrap();
        servers.replicas()[0].stop();
        let error = connection
            .write_and_wait(&SET, &[b"k"], &[b"v"], need(2))
            .await
            .unwrap_err();
        let Error::TooFewReplicas {
            wanted, acknowledged, ..
        } = error
        else {
            panic!("{error}")
        };
        assert_eq!((wanted, acknowledged), (2, 1));
        // What a WAIT says that is the first command of another connection, and why it is not asked there.
        let elsewhere = servers.primary().cmd(&["WAIT", "2", "100"]);
        assert_eq!(elsewhere.int(), 2);
        servers.replicas()[0].cont();
    });
}

#[test]
fn fewer_replicas_than_required_is_a_failure() {
    let redis = Redis::start();
    block_on(async {
        let connection = client(&redis.url()).connection(b"").await.unwrap();
        let error = connection
            .write_and_wait(&SET, &[b"k"], &[b"v"], need(1))
            .await
            .unwrap_err();
        assert!(
            matches!(error, Error::TooFewReplicas { acknowledged: 0, .. }),
            "{error}"
        );
        assert!(error.may_have_run() && error.is_retryable());
        connection
            .write_and_wait(&SET, &[b"k"], &[b"v"], Need::PRIMARY_ONLY)
            .await
            .unwrap();
    });
}

#[test]
fn a_server_that_was_demoted_and_promoted_again_has_another_run() {
    let (redis, other) = (Redis::start(), Redis::start());
    block_on(async {
        let connection = client(&redis.url()).connection(b"").await.unwrap();
        let before = connection.run().await.unwrap();
        redis.follow(&other);
        let error = connection
            .write_and_wait(&SET, &[b"k"], &[b"v"], Need::PRIMARY_ONLY)
            .await
            .unwrap_err();
        assert!(error.to_string().contains("READONLY"), "{error}");
        assert!(!connection.is_open(), "nothing more is sent to a replica");
        redis.promote();
        let connection = client(&redis.url()).connection(b"").await.unwrap();
        let after = connection.run().await.unwrap();
        assert_eq!(before.run_id, after.run_id);
        assert_ne!(before.replication_id, after.replication_id);
        // Demoted and promoted between two writes: the connection never noticed.
        redis.follow(&other);
        redis.promote();
        let error = connection
            .write_and_wait(&SET, &[b"k"], &[b"v"], Need::PRIMARY_ONLY)
            .await
            .unwrap_err();
        assert!(matches!(error, Error::RunChanged { .. }), "{error}");
        assert!(!connection.is_open());
    });
}
