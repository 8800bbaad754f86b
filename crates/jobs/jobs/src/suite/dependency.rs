//! Jobs that run after others.

use super::{Harness, job, job_with, one, seconds};
use crate::error::Error;
use crate::id::JobId;
use crate::job::NewJob;
use crate::state::State;
use crate::view::Explanation;

fn after(parents: &[JobId]) -> NewJob {
    job_with(|job| job.depends_on = parents.to_vec())
}

pub async fn a_dependent_waits_for_all_its_parents(h: &Harness) {
    let parents = h.enqueue_many(vec![job(), job()]).await;
    let child = h.enqueue(after(&[parents[0], parents[1], parents[0]])).await;
    assert_eq!(h.state(child).await, State::Waiting);
    assert_eq!(h.view(child).await.pending_dependencies, parents);
    let leases = h.claim("q", 9).await;
    assert_eq!(leases.len(), 2, "the child cannot be claimed");
    h.finish(leases[0].lease).await;
    h.settle().await;
    assert!(h.claim("q", 9).await.is_empty());
    assert_eq!(
        h.store.explain(child).await.unwrap(),
        Some(Explanation::Dependencies(vec![parents[1]]))
    );
    h.finish(leases[1].lease).await;
    h.settle().await;
    assert_eq!(h.take().await.id, child);
    assert_eq!(h.view(child).await.depends_on.len(), 3);
    h.check().await;
}

pub async fn a_dependent_is_cancelled_when_a_parent_fails(h: &Harness) {
    let parents = h.enqueue_many(vec![job(), job()]).await;
    let child = h.enqueue(after(&parents)).await;
    let leases = h.claim("q", 9).await;
    h.fail_for_good(leases[0].lease).await;
    h.settle().await;
    let view = h.view(child).await;
    assert_eq!(view.summary.state, State::Cancelled);
    assert!(
        view.summary
            .error
            .unwrap()
            .contains(&leases[0].lease.id.to_string())
    );
    h.finish(leases[1].lease).await;
    h.settle().await;
    assert!(h.claim("q", 9).await.is_empty());
    h.check().await;
}

pub async fn cancelling_goes_down_the_whole_tree(h: &Harness) {
    let root = h.enqueue(job()).await;
    let child = h.enqueue(after(&[root])).await;
    let grandchild = h.enqueue(after(&[child])).await;
    h.cancel(root).await.unwrap();
    h.settle().await;
    assert_eq!(h.state(child).await, State::Cancelled);
    assert_eq!(h.state(grandchild).await, State::Cancelled);
    h.check().await;
}

pub async fn a_dependent_waits_for_its_time_too(h: &Harness) {
    let parent = h.enqueue(job()).await;
    let at_ms = h.now_ms() + 50_000;
    let child = h
        .enqueue(job_with(|job| {
            job.depends_on = vec![parent];
            job.run_at_ms = Some(at_ms);
        }))
        .await;
    h.finish(h.take().await).await;
    h.settle().await;
    assert_eq!(h.state(child).await, State::Scheduled);
    h.pass(seconds(50)).await;
    assert_eq!(h.take().await.id, child);
}

pub async fn unknown_and_failed_parents_refuse_a_registration(h: &Harness) {
    let missing = JobId::new(42).unwrap();
    let error = h.try_enqueue(after(&[missing])).await.unwrap_err();
    assert!(matches!(error, Error::DependencyUnknown { id } if id == missing));
    let failed = h.enqueue(job()).await;
    h.fail_for_good(h.take().await).await;
    let error = h.try_enqueue(after(&[failed])).await.unwrap_err();
    assert!(matches!(
        error,
        Error::DependencyFailed {
            state: State::Failed,
            ..
        }
    ));
    h.check().await;
}

pub async fn a_parent_that_had_succeeded_is_no_hindrance(h: &Harness) {
    let parent = h.enqueue(job()).await;
    h.finish(h.take().await).await;
    let child = h.enqueue(after(&[parent])).await;
    assert_eq!(h.take().await.id, child);
}

pub async fn a_cancelled_dependent_is_forgotten(h: &Harness) {
    let parent = h.enqueue(job()).await;
    let child = h.enqueue(after(&[parent])).await;
    assert_eq!(h.cancel(child).await.unwrap(), State::Waiting);
    h.finish(h.take().await).await;
    h.settle().await;
    assert_eq!(h.state(child).await, State::Cancelled);
    // A retry by hand does not wait for what it once depended on.
    h.retry(child).await.unwrap();
    assert_eq!(h.take().await.id, child);
    h.check().await;
}

pub async fn many_dependents_are_carried_along(h: &Harness) {
    let parent = h.enqueue(job()).await;
    let lease = h.take().await;
    h.enqueue_many(vec![after(&[parent]); 700]).await;
    h.finish(lease).await;
    h.settle().await;
    assert_eq!(h.claim("q", 1_000).await.len(), 700);
    h.check().await;
}

pub async fn retrying_a_parent_revives_the_children_it_cancelled(h: &Harness) {
    let parent = h.enqueue(job()).await;
    let on = |id| job_with(|job| job.depends_on = vec![id]);
    let child = h.enqueue(on(parent)).await;
    let grandchild = h.enqueue(on(child)).await;
    let other = h.enqueue(job_with(|job| job.depends_on = vec![parent])).await;
    h.fail_for_good(h.take().await).await;
    h.settle().await;
    for id in [child, grandchild, other] {
        assert_eq!(h.state(id).await, State::Cancelled);
    }
    h.cancel(other).await.unwrap();
    h.swapped().retry(parent).await.unwrap();
    for id in [child, grandchild, other] {
        assert_eq!(h.state(id).await, State::Waiting);
    }
    assert_eq!(h.view(grandchild).await.pending_dependencies, [child]);
    h.check().await;
    // One after the other, as if nothing had been.
    let claimed = h.claim("q", 9).await;
    assert_eq!(one(claimed.clone()).lease.id, parent);
    h.finish(claimed[0].lease).await;
    h.settle().await;
    for lease in [h.take().await, h.take().await] {
        h.finish(lease).await;
    }
    h.settle().await;
    let last = h.take().await;
    assert_eq!(last.id, grandchild);
    h.finish(last).await;
    h.check().await;
}

pub async fn a_child_with_two_failed_parents_waits_for_both_to_be_retried(h: &Harness) {
    let (first, second) = (h.enqueue(job()).await, h.enqueue(job()).await);
    let child = h
        .enqueue(job_with(|job| job.depends_on = vec![first, second]))
        .await;
    h.fail_for_good(h.take().await).await;
    h.settle().await;
    h.fail_for_good(h.take().await).await;
    h.settle().await;
    assert_eq!(h.state(child).await, State::Cancelled);
    h.retry(first).await.unwrap();
    assert_eq!(
        h.state(child).await,
        State::Cancelled,
        "the other one has failed, too"
    );
    h.retry(second).await.unwrap();
    assert_eq!(h.state(child).await, State::Waiting);
    assert_eq!(h.view(child).await.pending_dependencies, [first, second]);
    h.check().await;
    // A child that was cancelled by hand stays so.
    h.cancel(child).await.unwrap();
    h.cancel(first).await.unwrap();
    h.settle().await;
    h.retry(first).await.unwrap();
    assert_eq!(h.state(child).await, State::Cancelled);
}
