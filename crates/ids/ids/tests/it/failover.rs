//! Failovers that lose something, and what the holders make of it.

use nagaya_ids::lease::{End, Status};
use nagaya_ids::permit::Permit;

use crate::stage::{Stage, Watchman, is_usable, opened, reaches, start};
use crate::support::{block_on, quick_timing};

#[test]
fn a_failover_that_loses_the_grant_never_makes_two_users() {
    let stage = Stage::start(1);
    block_on(async {
        stage.cut_replication();
        let first = start(stage.pool(), "first");
        let before = opened(&first).await;
        let watch = Watchman::begin(&[&first]);
        stage.fail_over();
        // The new primary never heard of the first holder and gives its number away.
        let second = start(stage.pool(), "second");
        watch.follow(&second);
        let after = opened(&second).await;
        assert_eq!(after.worker(), before.worker());
        assert!(after.fence() > before.fence());
        assert!(!is_usable(&before));
        let windows = watch.end().await;
        assert!(windows.len() >= 2);
    });
}

#[test]
fn a_failover_that_loses_a_renewal_is_not_noticed_by_the_user() {
    let stage = Stage::start(1);
    block_on(async {
        let holder = start(stage.pool(), "first");
        let window = opened(&holder).await;
        stage.wait_replicated();
        stage.cut_replication();
        let cut_at = window.until();
        while window.until() <= cut_at {
            tokio::time::sleep(quick_timing().interval / 4).await;
        }
        stage.fail_over();
        let failed_at = window.until();
        let goes_on = async {
            while window.until() <= failed_at + quick_timing().use_for {
                assert!(!window.is_ended(), "the window broke");
                tokio::time::sleep(quick_timing().interval / 4).await;
            }
        };
        tokio::time::timeout(crate::stage::PATIENCE, goes_on)
            .await
            .unwrap();
        assert!(is_usable(&window), "the same grant, with the same fence");
    });
}

#[test]
fn a_failover_that_loses_a_release_ends_the_next_holder_and_nobody_shares() {
    let stage = Stage::start(1);
    block_on(async {
        let first = start(stage.pool(), "first");
        let before = opened(&first).await;
        stage.wait_replicated();
        stage.cut_replication();
        assert_eq!(first.stop().await, End::Released);
        let second = start(stage.pool(), "second");
        let watch = Watchman::begin(&[&second]);
        let taken = opened(&second).await;
        assert_eq!(taken.worker(), before.worker());
        stage.fail_over();
        // The new primary says that the first one holds it: the second is refused, and waits until
        // that reservation is over.
        reaches(&second, "the number is lost", |status| {
            matches!(status, Status::Seeking { .. })
        })
        .await;
        assert!(taken.is_ended());
        let again = opened(&second).await;
        assert!(again.fence() > taken.fence());
        watch.end().await;
    });
}

#[test]
fn a_returning_name_does_not_begin_at_once_after_a_failover() {
    let stage = Stage::start(1);
    block_on(async {
        let first = start(stage.pool(), "same");
        let before = opened(&first).await;
        assert_eq!(first.stop().await, End::Released);
        stage.wait_replicated();
        stage.fail_over();
        let second = start(stage.pool(), "same");
        let waiting = |status: &Status| matches!(status, Status::Waiting { .. } | Status::Open(_));
        let status = reaches(&second, "a grant", waiting).await;
        assert!(matches!(status, Status::Waiting { .. }), "{status:?}");
        let after = opened(&second).await;
        assert!(after.fence() > before.fence());
    });
}

#[test]
fn an_old_primary_that_comes_back_changes_nothing() {
    let stage = Stage::start(2);
    block_on(async {
        let holder = start(stage.pool(), "first");
        opened(&holder).await;
        stage.wait_replicated();
        stage.primary.stop();
        stage.replica.cmd(&["REPLICAOF", "NO", "ONE"]);
        stage.signpost.point_to(stage.replica.address());
        let second = start(stage.pool(), "second");
        let watch = Watchman::begin(&[&holder, &second]);
        opened(&second).await;
        stage.primary.cont();
        opened(&holder).await;
        watch.end().await;
    });
}
