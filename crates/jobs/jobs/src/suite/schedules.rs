//! Schedules and their runs.

use parking_lot::Mutex;

use super::{Harness, START_MS, job_with, one, queue, tenant};
use crate::queue::QueueSettings;
use crate::request::{Fired, Firing};
use crate::schedule::{Missed, Schedule, ScheduleView, Times};
use crate::service::maintenance::fire_due;

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
    let job = |_: &i64| schedule.template.clone();
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
        let fired = one(h.store.fire(vec![firing(&due[0], now_ms)]).await.unwrap()).unwrap();
        assert!(fired.advanced && fired.refused.is_empty());
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
        .filter(|answer| matches!(answer.as_deref(), Ok([Ok(Fired { advanced: true, .. })])));
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

/// A queue that takes one job, and has it.
async fn full_queue(h: &Harness) {
    let settings = QueueSettings {
        depth_max: Some(1),
        ..QueueSettings::default()
    };
    h.store.put_queue(queue("full"), settings).await.unwrap();
    h.enqueue(job_with(|job| job.queue = queue("full"))).await;
}

fn into_full(name: &str) -> Schedule {
    let mut schedule = hourly(name);
    schedule.template.queue = queue("full");
    schedule
}

pub async fn a_refused_run_is_recorded_and_the_schedule_goes_on(h: &Harness) {
    full_queue(h).await;
    let failed = h.enqueue(job_with(|job| job.tenant = tenant("t"))).await;
    h.cancel(failed).await.unwrap();
    let mut depends = hourly("depends");
    depends.template.depends_on = vec![failed];
    let first_ms = h
        .store
        .put_schedule(into_full("full"))
        .await
        .unwrap()
        .next_run_ms
        .unwrap();
    h.store.put_schedule(depends).await.unwrap();
    for run in 0..2 {
        let now_ms = first_ms + run * 3_600_000;
        h.clock.set(now_ms);
        for due in h.store.due_schedules(10).await.unwrap() {
            let fired = one(h.store.fire(vec![firing(&due, now_ms)]).await.unwrap()).unwrap();
            assert!(fired.advanced, "{}", due.schedule.name);
            assert_eq!(fired.refused.len(), 1);
        }
        for view in h.swapped().store.schedules(None).await.unwrap() {
            assert_eq!(
                view.next_run_ms,
                Some(now_ms + 3_600_000),
                "{}",
                view.schedule.name
            );
            let refused = view.refused.unwrap();
            assert_eq!(refused.at_ms, now_ms);
            let why = if view.schedule.name == "full" {
                "full"
            } else {
                "depends"
            };
            assert!(refused.why.contains(why), "{}", refused.why);
        }
    }
    h.check().await;
}

pub async fn refused_schedules_do_not_hold_up_others(h: &Harness) {
    full_queue(h).await;
    for number in 0..64 {
        h.store
            .put_schedule(into_full(&format!("full-{number}")))
            .await
            .unwrap();
    }
    let mut healthy = hourly("healthy");
    healthy.tenant = tenant("z");
    healthy.template.tenant = tenant("z");
    let mut next_ms = h.store.put_schedule(healthy).await.unwrap().next_run_ms.unwrap();
    let clock = Mutex::default();
    for _ in 0..3 {
        h.clock.set(next_ms);
        while fire_due(&*h.store, &clock).await.unwrap() {}
        assert_eq!(h.claim("q", 9).await.len(), 1, "the healthy one ran");
        assert!(h.store.due_schedules(10).await.unwrap().is_empty());
        next_ms += 3_600_000;
    }
}

pub async fn a_schedule_that_never_comes_is_refused(h: &Harness) {
    let mut never = hourly("never");
    never.cron = "0 0 31 2 *".into();
    let refused = h.store.put_schedule(never.clone()).await.unwrap_err();
    assert!(refused.to_string().starts_with("cron"), "{refused}");
    never.paused = true;
    assert!(h.store.put_schedule(never).await.is_err());
    assert!(h.store.schedules(None).await.unwrap().is_empty());
}

pub async fn cron_goes_on_after_the_clock_steps_back(h: &Harness) {
    let first_ms = h
        .store
        .put_schedule(hourly("report"))
        .await
        .unwrap()
        .next_run_ms
        .unwrap();
    let clock = Mutex::default();
    let fire = async |now_ms: i64| {
        h.clock.set(now_ms);
        while fire_due(&*h.store, &clock).await.unwrap() {}
        h.claim("q", 9).await.len()
    };
    assert_eq!(fire(first_ms).await, 1);
    // The clock was three hours ahead and is set right: runs go on by the right clock, not three hours later.
    assert_eq!(fire(first_ms + 3 * 3_600_000).await, 1);
    assert_eq!(fire(first_ms + 600_000).await, 0, "it ran for this hour");
    assert_eq!(fire(first_ms + 3_600_000).await, 1);
    assert_eq!(fire(first_ms + 2 * 3_600_000).await, 1);
    h.check().await;
}
