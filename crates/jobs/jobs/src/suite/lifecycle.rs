//! From registration to the end.

use super::{Harness, job, job_with, one, queue, seconds, wants};
use crate::backoff::Backoff;
use crate::error::Error;
use crate::job::Body;
use crate::limits::LOG_LINES_MAX;
use crate::queue::QueueSettings;
use crate::request::{Completion, Extension, Failed, LogReport, ProgressReport};
use crate::state::{AttemptEnd, FailureTerms, Next, State};
use crate::view::Progress;

pub async fn a_job_goes_from_waiting_through_running_to_succeeded(h: &Harness) {
    let enqueued = h.try_enqueue(job()).await.unwrap();
    assert_eq!((enqueued.state, enqueued.found_by), (State::Waiting, None));
    let id = enqueued.id;
    assert_eq!(h.state(id).await, State::Waiting);
    let claimed = h.claim("q", 5).await;
    assert_eq!(claimed.len(), 1);
    assert_eq!((claimed[0].lease.id, claimed[0].lease.attempt), (id, 1));
    assert_eq!(claimed[0].lease_until_ms, h.now_ms() + 60_000);
    let view = h.view(id).await;
    assert_eq!(view.summary.state, State::Running);
    assert_eq!(view.lease.unwrap().worker, "w");
    h.clock.advance(seconds(3));
    h.complete(claimed[0].lease, Some(Body::json("[1]")))
        .await
        .unwrap();
    let view = h.view(id).await;
    assert_eq!(view.summary.state, State::Succeeded);
    assert_eq!(view.result, Some(Body::json("[1]")));
    assert_eq!(view.summary.ended_at_ms, Some(h.now_ms()));
    assert_eq!(view.attempts.len(), 1);
    let attempt = &view.attempts[0];
    assert_eq!((attempt.number, attempt.end), (1, Some(AttemptEnd::Succeeded)));
    assert_eq!(attempt.ended_at_ms, Some(attempt.started_at_ms + 3_000));
    assert!(h.claim("q", 5).await.is_empty());
    h.check().await;
}

pub async fn a_payload_comes_back_byte_for_byte(h: &Harness) {
    let bytes: Vec<u8> = (0..=255).cycle().take(100_000).collect();
    let payload = Body {
        content_type: Some("application/x-thing".into()),
        bytes: bytes.into(),
    };
    let id = h
        .enqueue(job_with(|job| {
            job.payload = payload.clone();
            job.kind = Some("resize".into());
            job.tags = vec!["a".into(), "b".into()];
        }))
        .await;
    let empty = h.enqueue(job_with(|job| job.payload = Body::json(""))).await;
    let claimed = h.claim("q", 2).await;
    assert_eq!(claimed[0].payload, payload);
    assert_eq!(claimed[0].kind.as_deref(), Some("resize"));
    assert_eq!(claimed[0].tags, ["a", "b"]);
    assert_eq!(claimed[1].payload, Body::json(""));
    assert_eq!(h.view(id).await.payload, payload);
    h.complete(claimed[0].lease, Some(payload.clone())).await.unwrap();
    assert_eq!(h.view(id).await.result, Some(payload));
    h.complete(claimed[1].lease, Some(Body::json(""))).await.unwrap();
    assert_eq!(
        h.view(empty).await.result,
        Some(Body::json("")),
        "an empty result is a result"
    );
}

pub async fn a_failed_attempt_is_tried_again_after_its_backoff(h: &Harness) {
    let id = h
        .enqueue(job_with(|job| {
            job.backoff = Some(Backoff::Fixed { delay: seconds(10) });
        }))
        .await;
    let first = h.take().await;
    let failed = h.fail(first).await;
    let at_ms = h.now_ms() + 10_000;
    assert_eq!(failed, Failed::Taken(Next::Scheduled { at_ms }));
    let view = h.view(id).await;
    assert_eq!(
        (view.summary.state, view.summary.run_at_ms),
        (State::Scheduled, Some(at_ms))
    );
    assert_eq!(view.attempts[0].error.as_deref(), Some("broken"));
    h.pass(seconds(9)).await;
    assert!(h.claim("q", 1).await.is_empty());
    h.pass(seconds(1)).await;
    assert_eq!(h.state(id).await, State::Waiting);
    assert_eq!(h.view(id).await.summary.attempt, 1);
    let second = h.take().await;
    assert_eq!((second.id, second.attempt), (id, 2));
    h.finish(second).await;
    let ends: Vec<_> = h
        .view(id)
        .await
        .attempts
        .iter()
        .map(|attempt| attempt.end.unwrap())
        .collect();
    assert_eq!(ends, [AttemptEnd::Failed, AttemptEnd::Succeeded]);
    h.check().await;
}

pub async fn a_job_fails_for_good_after_all_its_attempts(h: &Harness) {
    let id = h.enqueue(job_with(|job| job.backoff = Some(Backoff::None))).await;
    for attempt in 1..=6 {
        let lease = h.take().await;
        assert_eq!(lease.attempt, attempt);
        let next = match attempt {
            6 => Next::Failed,
            _ => Next::Waiting,
        };
        assert_eq!(h.fail(lease).await, Failed::Taken(next));
    }
    let view = h.view(id).await;
    assert_eq!((view.summary.state, view.attempts.len()), (State::Failed, 6));
    assert_eq!(view.summary.error.as_deref(), Some("broken"));
    h.pass(seconds(100_000)).await;
    assert!(h.claim("q", 1).await.is_empty());
    h.check().await;
}

pub async fn a_permanent_failure_skips_the_retries(h: &Harness) {
    let id = h.enqueue(job()).await;
    h.fail_for_good(h.take().await).await;
    assert_eq!(h.state(id).await, State::Failed);
    let none = h.enqueue(job_with(|job| job.max_retries = Some(0))).await;
    h.fail(h.take().await).await;
    assert_eq!(h.state(none).await, State::Failed);
    h.check().await;
}

pub async fn a_worker_may_ask_for_a_wait_of_its_own(h: &Harness) {
    let id = h.enqueue(job()).await;
    let terms = FailureTerms {
        permanent: false,
        retry_after: Some(seconds(90)),
    };
    h.fail_with(h.take().await, "busy", terms).await.unwrap();
    assert_eq!(h.view(id).await.summary.run_at_ms, Some(h.now_ms() + 90_000));
}

pub async fn a_lease_that_ran_out_counts_as_a_failed_attempt(h: &Harness) {
    let id = h.enqueue(job_with(|job| job.timeout = Some(seconds(5)))).await;
    h.take().await;
    h.pass(seconds(4)).await;
    assert_eq!(h.state(id).await, State::Running);
    h.pass(seconds(1)).await;
    assert_eq!(h.state(id).await, State::Waiting);
    let view = h.view(id).await;
    assert_eq!(view.attempts[0].end, Some(AttemptEnd::LeaseLost));
    let second = h.take().await;
    assert_eq!(second.attempt, 2);
    h.check().await;
}

pub async fn a_job_that_kills_its_workers_ends(h: &Harness) {
    let id = h.enqueue(job_with(|job| job.max_retries = Some(2))).await;
    for _ in 0..3 {
        h.take().await;
        h.pass(seconds(61)).await;
    }
    assert_eq!(h.state(id).await, State::Failed);
    assert!(h.claim("q", 1).await.is_empty());
    let throughput = h.queue("q").await.unwrap().throughput;
    assert_eq!(
        (
            throughput.leases_lost,
            throughput.attempts_failed,
            throughput.failed
        ),
        (3, 3, 1)
    );
    h.check().await;
}

pub async fn a_job_for_later_waits_for_its_time(h: &Harness) {
    let at_ms = h.now_ms() + 5_000;
    let later = h
        .try_enqueue(job_with(|job| job.run_at_ms = Some(at_ms)))
        .await
        .unwrap();
    assert_eq!(later.state, State::Scheduled);
    let past = h.now_ms() - 5_000;
    let now = h
        .try_enqueue(job_with(|job| job.run_at_ms = Some(past)))
        .await
        .unwrap();
    assert_eq!(now.state, State::Waiting);
    assert_eq!(h.take().await.id, now.id);
    assert!(h.claim("q", 1).await.is_empty());
    h.pass(seconds(5)).await;
    assert_eq!(h.take().await.id, later.id);
}

pub async fn higher_priority_goes_first_then_order_of_registration(h: &Harness) {
    let mut ids = Vec::new();
    for priority in [0, 5, -1, 5, 0] {
        ids.push(h.enqueue(job_with(|job| job.priority = priority)).await);
    }
    let claimed = h.claim("q", 10).await;
    let order: Vec<_> = claimed.iter().map(|job| job.lease.id).collect();
    assert_eq!(order, [ids[1], ids[3], ids[0], ids[4], ids[2]]);
}

pub async fn a_retry_goes_behind_those_that_wait(h: &Harness) {
    let first = h.enqueue(job_with(|job| job.backoff = Some(Backoff::None))).await;
    let second = h.enqueue(job()).await;
    h.fail(h.take().await).await;
    assert_eq!(h.take().await.id, second);
    assert_eq!(h.take().await.id, first);
}

pub async fn a_later_queue_is_asked_for_what_the_first_could_not_give(h: &Harness) {
    let low = h.enqueue(job_with(|job| job.queue = queue("low"))).await;
    let high = h.enqueue(job_with(|job| job.queue = queue("high"))).await;
    let mut request = wants("high", 1);
    request.queues.push(queue("nowhere"));
    request.queues.push(queue("low"));
    assert_eq!(h.ask(request.clone()).await[0].lease.id, high);
    let rest = h.ask(request).await;
    assert_eq!((rest[0].lease.id, &rest[0].queue), (low, &queue("low")));
}

pub async fn a_claim_takes_no_more_than_it_asks_for(h: &Harness) {
    h.enqueue_many(vec![job(); 10]).await;
    let answers = h
        .store
        .claim(vec![wants("q", 3), wants("q", 4), wants("q", 9)])
        .await
        .unwrap();
    let sizes: Vec<_> = answers.iter().map(Vec::len).collect();
    assert_eq!(sizes, [3, 4, 3]);
    h.check().await;
}

pub async fn queues_lend_their_settings_to_jobs(h: &Harness) {
    let settings = QueueSettings {
        lease: seconds(7),
        max_retries: 1,
        backoff: Backoff::None,
        ..QueueSettings::default()
    };
    h.store.put_queue(queue("q"), settings).await.unwrap();
    let id = h.enqueue(job()).await;
    h.store
        .put_queue(queue("q"), QueueSettings::default())
        .await
        .unwrap();
    let claimed = h.claim("q", 1).await;
    assert_eq!(claimed[0].lease_length, seconds(7));
    assert_eq!(claimed[0].max_retries, 1);
    assert_eq!(h.fail(claimed[0].lease).await, Failed::Taken(Next::Waiting));
    h.fail(h.take().await).await;
    assert_eq!(h.state(id).await, State::Failed);
}

pub async fn an_extension_keeps_a_lease_alive(h: &Harness) {
    let id = h.enqueue(job_with(|job| job.timeout = Some(seconds(10)))).await;
    let lease = h.take().await;
    for _ in 0..5 {
        h.pass(seconds(9)).await;
        let extension = Extension { lease, length: None };
        let until_ms = one(h.store.extend(vec![extension]).await.unwrap()).unwrap();
        assert_eq!(until_ms, h.now_ms() + 10_000);
    }
    assert_eq!(h.state(id).await, State::Running);
    h.finish(lease).await;
}

pub async fn an_extension_never_shortens_a_lease(h: &Harness) {
    h.enqueue(job()).await;
    let lease = h.take().await;
    let extend = |length| Extension {
        lease,
        length: Some(length),
    };
    let until_ms = h.now_ms() + 60_000;
    assert_eq!(
        one(h.store.extend(vec![extend(seconds(1))]).await.unwrap()).unwrap(),
        until_ms
    );
    let longer = one(h.store.extend(vec![extend(seconds(100))]).await.unwrap()).unwrap();
    assert_eq!(longer, h.now_ms() + 100_000);
}

pub async fn progress_and_log_lines_show_on_the_job(h: &Harness) {
    let id = h.enqueue(job()).await;
    let lease = h.take().await;
    let progress = Progress {
        per_mille: Some(250),
        message: Some("a quarter".into()),
        data: Some("{\"rows\":5}".into()),
        at_ms: 0,
    };
    let report = ProgressReport {
        lease,
        progress: progress.clone(),
    };
    one(h.store.progress(vec![report]).await.unwrap()).unwrap();
    let lines = LogReport {
        lease,
        lines: vec!["one".into(), "two".into()],
    };
    one(h.store.log(vec![lines.clone()]).await.unwrap()).unwrap();
    one(h.store.log(vec![lines]).await.unwrap()).unwrap();
    let view = h.view(id).await;
    let at_ms = h.now_ms();
    assert_eq!(view.progress, Some(Progress { at_ms, ..progress }));
    assert_eq!(view.log_lines, 4);
    let lines = h.store.log_lines(id, 1, 2).await.unwrap();
    let texts: Vec<_> = lines
        .iter()
        .map(|line| (line.number, line.text.as_str()))
        .collect();
    assert_eq!(texts, [(2, "two"), (3, "one")]);
}

pub async fn only_the_newest_log_lines_are_kept(h: &Harness) {
    let id = h.enqueue(job()).await;
    let lease = h.take().await;
    let lines = LogReport {
        lease,
        lines: (0..700).map(|number| format!("line {number}")).collect(),
    };
    one(h.store.log(vec![lines.clone()]).await.unwrap()).unwrap();
    one(h.store.log(vec![lines]).await.unwrap()).unwrap();
    let lines = h.store.log_lines(id, 0, 5_000).await.unwrap();
    assert_eq!(lines.len() as u64, LOG_LINES_MAX);
    assert_eq!(lines[0].number, 401);
    assert_eq!(h.view(id).await.log_lines, 1_400);
}

pub async fn a_waiting_job_can_be_cancelled(h: &Harness) {
    let waiting = h.enqueue(job()).await;
    let at_ms = h.now_ms() + 1_000;
    let scheduled = h.enqueue(job_with(|job| job.run_at_ms = Some(at_ms))).await;
    assert_eq!(h.cancel(waiting).await.unwrap(), State::Waiting);
    assert_eq!(h.cancel(scheduled).await.unwrap(), State::Scheduled);
    assert_eq!(h.cancel(waiting).await.unwrap(), State::Cancelled, "a repeat");
    h.pass(seconds(5)).await;
    assert!(h.claim("q", 5).await.is_empty());
    let view = h.view(waiting).await;
    assert_eq!(view.summary.state, State::Cancelled);
    assert_eq!(view.summary.error.as_deref(), Some("no longer wanted"));
    let missing = crate::id::JobId::new(7).unwrap();
    assert!(matches!(h.cancel(missing).await, Err(Error::NotFound { .. })));
    h.check().await;
}

pub async fn a_running_job_can_be_cancelled(h: &Harness) {
    let id = h.enqueue(job()).await;
    h.take().await;
    assert_eq!(h.cancel(id).await.unwrap(), State::Running);
    let view = h.view(id).await;
    assert_eq!(view.attempts[0].end, Some(AttemptEnd::Cancelled));
    // After a retry it stands elsewhere than where it first stood.
    let again = h.enqueue(job_with(|job| job.backoff = Some(Backoff::None))).await;
    h.fail(h.take().await).await;
    assert_eq!(h.cancel(again).await.unwrap(), State::Waiting);
    assert!(h.claim("q", 5).await.is_empty());
    h.check().await;
}

pub async fn a_job_that_ended_cannot_be_cancelled(h: &Harness) {
    let id = h.enqueue(job()).await;
    h.finish(h.take().await).await;
    let error = h.cancel(id).await.unwrap_err();
    assert!(matches!(
        error,
        Error::WrongState {
            state: State::Succeeded,
            ..
        }
    ));
    assert_eq!(h.state(id).await, State::Succeeded);
}

pub async fn a_failed_job_can_be_retried_with_all_its_attempts(h: &Harness) {
    let id = h
        .enqueue(job_with(|job| {
            job.max_retries = Some(1);
            job.backoff = Some(Backoff::None);
        }))
        .await;
    assert!(matches!(h.retry(id).await, Err(Error::WrongState { .. })));
    for round in 0..2 {
        for attempt in 1..=2 {
            let lease = h.take().await;
            assert_eq!(lease.attempt, round * 2 + attempt);
            h.fail(lease).await;
        }
        assert_eq!(h.state(id).await, State::Failed);
        h.retry(id).await.unwrap();
        assert_eq!(h.state(id).await, State::Waiting);
        assert!(
            matches!(h.retry(id).await, Err(Error::WrongState { .. })),
            "a repeat"
        );
    }
    let view = h.view(id).await;
    assert_eq!((view.attempts.len(), view.summary.attempt), (4, 4));
    h.finish(h.take().await).await;
    h.check().await;
}

pub async fn a_succeeded_job_can_be_retried_and_keeps_its_history(h: &Harness) {
    let id = h.enqueue(job()).await;
    h.complete(h.take().await, Some(Body::json("1"))).await.unwrap();
    h.retry(id).await.unwrap();
    assert_eq!(h.view(id).await.result, None);
    h.complete(h.take().await, Some(Body::json("2"))).await.unwrap();
    let view = h.view(id).await;
    assert_eq!(view.result, Some(Body::json("2")));
    let ends: Vec<_> = view.attempts.iter().map(|attempt| attempt.end.unwrap()).collect();
    assert_eq!(ends, [AttemptEnd::Succeeded; 2]);
    h.check().await;
}

pub async fn items_of_one_call_are_judged_one_by_one(h: &Harness) {
    h.enqueue_many(vec![job(); 3]).await;
    let claimed = h.claim("q", 3).await;
    let mut reports: Vec<_> = claimed
        .iter()
        .map(|job| Completion {
            lease: job.lease,
            result: None,
        })
        .collect();
    reports[1].lease.nonce ^= 1;
    let answers = h.store.complete(reports).await.unwrap();
    let fine: Vec<_> = answers.iter().map(Result::is_ok).collect();
    assert_eq!(fine, [true, false, true]);
    h.check().await;
}
