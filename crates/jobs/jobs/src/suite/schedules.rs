//! Schedules and their runs.

use super::{Harness, START_MS, job_with, one, tenant};
use crate::job::Idempotency;
use crate::request::Firing;
use crate::schedule::{Missed, Schedule, ScheduleView, Times, run_key};

fn hourly(name: &str) -> Schedule {
    Schedule {
        tenant: tenant("t"),
        name: name.into(),
        cron: "0 * * * *".into(),
        time_zone: "UTC".into(),
        missed: Missed::Once,
        paused: false,
        template: job_with(|job| {
            job.tenant = tenant("t");
            job.kind = Some(name.into());
        }),
    }
}

/// The runs of a schedule that are due, as a server starts them.
fn firing(view: &ScheduleView, now_ms: i64) -> Firing {
    let schedule = &view.schedule;
    let times = Times::parse(&schedule.cron, &schedule.time_zone).unwrap();
    let next_run_was_ms = view.next_run_ms.unwrap();
    let due = times.due(next_run_was_ms, now_ms, schedule.missed);
    let job = |run_ms: &i64| {
        let mut job = schedule.template.clone();
        job.idempotency = Some(Idempotency {
            key: run_key(&schedule.name, *run_ms),
            window: None,
        });
        job
    };
    Firing {
        tenant: schedule.tenant.clone(),
        schedule: schedule.name.clone(),
        next_run_was_ms,
        next_run_ms: due.next_run_ms,
        last_run_ms: due.runs_ms.last().copied(),
        jobs: due.runs_ms.iter().map(job).collect(),
    }
}

pub async fn a_schedule_runs_once_for_each_time(h: &Harness) {
    let view = h.store.put_schedule(hourly("report")).await.unwrap();
    let first_ms = view.next_run_ms.unwrap();
    assert!(first_ms > START_MS && first_ms <= START_MS + 3_600_000);
    assert_eq!(h.store.next_times().await.unwrap().schedule_ms, Some(first_ms));
    assert!(h.store.due_schedules(10).await.unwrap().is_empty());
    for run in 0..3 {
        let now_ms = first_ms + run * 3_600_000;
        h.clock.set(now_ms);
        let due = h.store.due_schedules(10).await.unwrap();
        assert_eq!(due.len(), 1);
        assert!(one(h.store.fire(vec![firing(&due[0], now_ms)]).await.unwrap()).unwrap());
        assert!(h.store.due_schedules(10).await.unwrap().is_empty());
        let claimed = h.claim("q", 9).await;
        assert_eq!(claimed.len(), 1);
        assert_eq!(claimed[0].kind.as_deref(), Some("report"));
    }
    let view = one(h.store.schedules(None).await.unwrap());
    assert_eq!(view.last_run_ms, Some(first_ms + 2 * 3_600_000));
    h.check().await;
}

pub async fn of_two_servers_one_fires(h: &Harness) {
    let view = h.store.put_schedule(hourly("report")).await.unwrap();
    let now_ms = view.next_run_ms.unwrap();
    h.clock.set(now_ms);
    let due = one(h.store.due_schedules(10).await.unwrap());
    let firing = firing(&due, now_ms);
    let calls = (0..4).map(|_| h.store.fire(vec![firing.clone()]));
    let fired = futures_util::future::join_all(calls).await;
    let moved = fired
        .into_iter()
        .filter(|answer| matches!(answer.as_deref(), Ok([Ok(true)])));
    assert_eq!(moved.count(), 1);
    assert_eq!(h.claim("q", 9).await.len(), 1);
}

pub async fn a_paused_schedule_has_no_next_run(h: &Harness) {
    h.store.put_schedule(hourly("report")).await.unwrap();
    let mut paused = hourly("report");
    paused.paused = true;
    let view = h.store.put_schedule(paused).await.unwrap();
    assert_eq!(view.next_run_ms, None);
    h.clock.set(START_MS + 10 * 3_600_000);
    assert!(h.store.due_schedules(10).await.unwrap().is_empty());
    let view = h.store.put_schedule(hourly("report")).await.unwrap();
    assert!(view.next_run_ms.unwrap() > START_MS + 10 * 3_600_000);
}

pub async fn schedules_are_listed_replaced_and_deleted(h: &Harness) {
    h.store.put_schedule(hourly("b")).await.unwrap();
    h.store.put_schedule(hourly("a")).await.unwrap();
    let mut other = hourly("a");
    other.tenant = tenant("s");
    other.missed = Missed::All { max: 3 };
    other.time_zone = "Asia/Tokyo".into();
    h.store.put_schedule(other.clone()).await.unwrap();
    let all = h.store.schedules(None).await.unwrap();
    let names: Vec<_> = all
        .iter()
        .map(|view| (view.schedule.tenant.as_str(), view.schedule.name.as_str()))
        .collect();
    assert_eq!(names, [("s", "a"), ("t", "a"), ("t", "b")]);
    assert_eq!(all[0].schedule, other);
    let mut bad = hourly("bad");
    bad.cron = "not cron".into();
    assert!(h.store.put_schedule(bad).await.is_err());
    assert!(h.store.delete_schedule(tenant("t"), "a".into()).await.unwrap());
    assert!(!h.store.delete_schedule(tenant("t"), "a".into()).await.unwrap());
    assert_eq!(h.store.schedules(Some(tenant("t"))).await.unwrap().len(), 1);
}
