//! Random operations, compared with the reference and with the promises.

use std::collections::{BTreeSet, HashMap};
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;

use super::model::{Job, Model};
use super::{Harness, job, one, seconds, wants};
use crate::backoff::Backoff;
use crate::clock::span_ms;
use crate::error::Error;
use crate::id::JobId;
use crate::job::{Body, Concurrency, NewJob};
use crate::request::{Completed, Extension, Failed, Release, Released};
use crate::state::{FailureTerms, Next, State, Tries};
use crate::token::Lease;

/// A small generator, so that a seed means the same everywhere.
struct TestRng(u64);

impl TestRng {
    fn roll(&mut self, sides: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as usize % sides.max(1)
    }

    fn pick<'a, T>(&mut self, from: &'a [T]) -> Option<&'a T> {
        from.get(self.roll(from.len()))
    }
}

pub async fn random_operations_keep_every_promise(h: &Harness) {
    for seed in [11, 222, rand::random::<u64>() | 1] {
        eprintln!("seed {seed}");
        let mut run = Run {
            h,
            rng: TestRng(seed),
            model: Model::default(),
        };
        for step in 0..400 {
            run.step().await;
            run.settle().await;
            if step % 40 == 0 {
                run.compare().await;
            }
        }
        run.drain().await;
    }
}

struct Run<'a> {
    h: &'a Harness,
    rng: TestRng,
    model: Model,
}

impl Run<'_> {
    async fn step(&mut self) {
        match self.rng.roll(21) {
            0..5 => self.enqueue().await,
            5..9 => self.claim().await,
            9..12 => self.complete().await,
            12..14 => self.fail().await,
            14 => self.extend().await,
            15 => self.report_late().await,
            16 => self.cancel().await,
            17 => self.retry().await,
            18 => self.release().await,
            _ => self.h.clock.advance(seconds(self.rng.roll(12) as u64)),
        }
    }

    fn random_job(&mut self) -> (NewJob, Job) {
        let mut new = job();
        let max_retries = self.rng.roll(3) as u32;
        let wait = seconds(self.rng.roll(2) as u64 * 5);
        let lease = seconds(3 + self.rng.roll(10) as u64);
        new.max_retries = Some(max_retries);
        new.timeout = Some(lease);
        new.priority = self.rng.roll(3) as i16;
        new.backoff = Some(Backoff::Fixed { delay: wait });
        if self.rng.roll(5) == 0 {
            new.run_at_ms = Some(self.h.now_ms() + 1 + self.rng.roll(9_000) as i64);
        }
        if self.rng.roll(4) == 0 {
            let key = format!("key {}", self.rng.roll(2));
            new.concurrency = Some(Concurrency { key, limit: 2 });
        }
        if self.rng.roll(6) == 0 {
            new.unique_key = Some(format!("unique {}", self.rng.roll(3)));
        }
        if self.rng.roll(4) == 0 {
            let ids: Vec<JobId> = self.model.jobs.keys().copied().collect();
            for _ in 0..1 + self.rng.roll(2) {
                new.depends_on.extend(self.rng.pick(&ids));
            }
        }
        let job = Job {
            state: State::Waiting,
            tries: Tries::fresh(max_retries),
            max_retries,
            backoff_ms: span_ms(wait),
            lease_ms: span_ms(lease),
            run_at_ms: new.run_at_ms,
            parents: new.depends_on.clone(),
            depends_on: new.depends_on.clone(),
            cancelled_by: Vec::new(),
            concurrency: new.concurrency.clone().map(|one| (one.key, one.limit)),
            unique_key: new.unique_key.clone(),
            live: None,
            dead: Vec::new(),
            endings: 0,
            revivals: 0,
        };
        (new, job)
    }

    async fn enqueue(&mut self) {
        let (new, mut job) = self.random_job();
        let answer = self.h.try_enqueue(new.clone()).await;
        if let Some(holder) = new.unique_key.as_deref().and_then(|key| self.model.holder(key)) {
            assert_eq!(answer.unwrap().id, holder);
            return;
        }
        let state = |id: &JobId| self.model.jobs[id].state;
        if job
            .parents
            .iter()
            .any(|id| matches!(state(id), State::Failed | State::Cancelled))
        {
            assert!(matches!(answer, Err(Error::DependencyFailed { .. })));
            return;
        }
        let enqueued = answer.unwrap();
        assert_eq!(enqueued.found_by, None);
        let pending: BTreeSet<JobId> = job
            .parents
            .iter()
            .copied()
            .filter(|id| !state(id).has_ended())
            .collect();
        job.parents = pending.into_iter().collect();
        if job.parents.is_empty() && job.run_at_ms.is_some() {
            job.state = State::Scheduled;
        }
        assert_eq!(enqueued.state, job.state);
        self.model.jobs.insert(enqueued.id, job);
    }

    async fn claim(&mut self) {
        let max = 1 + self.rng.roll(4);
        let claimed = self.h.claim("q", max).await;
        assert!(claimed.len() <= max);
        for job in claimed {
            self.model.claimed(job.lease, self.h.now_ms()).unwrap();
        }
    }

    fn live(&mut self) -> Option<Lease> {
        let live: Vec<Lease> = self
            .model
            .jobs
            .values()
            .filter_map(|job| Some(job.live?.0))
            .collect();
        self.rng.pick(&live).copied()
    }

    async fn complete(&mut self) {
        let Some(lease) = self.live() else {
            return;
        };
        let result = Some(Body::json(format!("{}", lease.attempt)));
        assert_eq!(
            self.h.complete(lease, result.clone()).await.unwrap(),
            Completed::Done
        );
        self.model.end(lease.id, State::Succeeded);
        if self.rng.roll(3) == 0 {
            assert_eq!(self.h.complete(lease, result).await.unwrap(), Completed::Repeated);
        }
    }

    async fn fail(&mut self) {
        let Some(lease) = self.live() else {
            return;
        };
        let terms = FailureTerms {
            permanent: self.rng.roll(6) == 0,
            retry_after: None,
        };
        let job = &self.model.jobs[&lease.id];
        let expected = match (terms.permanent || job.tries.are_over(), job.backoff_ms) {
            (true, _) => Next::Failed,
            (false, 0) => Next::Waiting,
            (false, ms) => Next::Scheduled {
                at_ms: self.h.now_ms() + ms,
            },
        };
        let wait_ms = job.backoff_ms;
        let answer = self.h.fail_with(lease, "x", terms).await.unwrap();
        assert_eq!(answer, Failed::Taken(expected));
        self.model
            .failed(lease.id, terms.permanent, wait_ms, self.h.now_ms());
        if self.rng.roll(3) == 0 {
            assert_eq!(
                self.h.fail_with(lease, "x", terms).await.unwrap(),
                Failed::Repeated
            );
        }
    }

    async fn release(&mut self) {
        let Some(lease) = self.live() else {
            return;
        };
        let delay = seconds(self.rng.roll(2) as u64 * 4);
        let answer = one(self
            .h
            .store
            .release(vec![Release { lease, delay }])
            .await
            .unwrap());
        let now_ms = self.h.now_ms();
        assert_eq!(answer.unwrap(), Released::after(delay, now_ms));
        self.model.released(lease.id, span_ms(delay), now_ms);
    }

    async fn extend(&mut self) {
        let Some(lease) = self.live() else {
            return;
        };
        let until_ms = one(self
            .h
            .store
            .extend(vec![Extension { lease, length: None }])
            .await
            .unwrap())
        .unwrap();
        let job = self.model.jobs.get_mut(&lease.id).unwrap();
        let live = job.live.as_mut().unwrap();
        live.1 = live.1.max(self.h.now_ms() + job.lease_ms);
        assert_eq!(until_ms, live.1);
    }

    /// Uses a lease that is over; a report that was never made before is refused whatever became of the job.
    async fn report_late(&mut self) {
        let dead: Vec<Lease> = self
            .model
            .jobs
            .values()
            .flat_map(|job| job.dead.clone())
            .collect();
        let Some(&lease) = self.rng.pick(&dead) else {
            return;
        };
        let answer = self.h.complete(lease, Some(Body::json("\"late\""))).await;
        assert!(matches!(answer, Err(Error::LeaseLost { .. })), "{answer:?}");
        let answer = self.h.fail_with(lease, "late", FailureTerms::default()).await;
        assert!(matches!(answer, Err(Error::LeaseLost { .. })), "{answer:?}");
    }

    fn any(&mut self) -> Option<JobId> {
        let ids: Vec<JobId> = self.model.jobs.keys().copied().collect();
        self.rng.pick(&ids).copied()
    }

    async fn cancel(&mut self) {
        let Some(id) = self.any() else {
            return;
        };
        let answer = self.h.cancel(id).await;
        match self.model.jobs[&id].state {
            State::Succeeded | State::Failed => assert!(matches!(answer, Err(Error::WrongState { .. }))),
            State::Cancelled => assert_eq!(answer.unwrap(), State::Cancelled),
            state => {
                assert_eq!(answer.unwrap(), state);
                self.model.end(id, State::Cancelled);
            }
        }
    }

    async fn retry(&mut self) {
        let Some(id) = self.any() else {
            return;
        };
        let job = &self.model.jobs[&id];
        let taken = job
            .unique_key
            .as_deref()
            .and_then(|key| self.model.holder(key))
            .is_some();
        let fine = job.state.has_ended() && !taken;
        let answer = self.h.retry(id).await;
        assert_eq!(answer.is_ok(), fine, "{answer:?} for {job:?}");
        if fine {
            self.model.retried(id);
        }
    }

    async fn settle(&mut self) {
        self.h.settle().await;
        self.model.settle(self.h.now_ms());
    }

    async fn compare(&mut self) {
        let ids: Vec<JobId> = self.model.jobs.keys().copied().collect();
        let states = self.h.store.states(ids.clone()).await.unwrap();
        for (id, state) in ids.iter().zip(states) {
            assert_eq!(
                state,
                Some(self.model.jobs[id].state),
                "job {id}: {:?}",
                self.model.jobs[id]
            );
        }
        self.h.check().await;
    }

    /// Runs everything to its end: nothing may be stuck.
    async fn drain(&mut self) {
        for _ in 0..10_000 {
            self.settle().await;
            self.claim().await;
            while self.live().is_some() {
                self.complete().await;
            }
            if self.model.jobs.values().all(|job| job.state.has_ended()) {
                return self.compare().await;
            }
            self.h.clock.advance(seconds(1));
        }
        panic!("jobs are stuck: {:?}", self.model);
    }
}

/// The answers that several workers got, all together.
#[derive(Default)]
struct Told {
    registered: BTreeSet<JobId>,
    succeeded: HashMap<JobId, u32>,
    failed_for_good: HashMap<JobId, u32>,
    cancelled: HashMap<JobId, u32>,
}

pub async fn random_operations_by_many_at_once_lose_nothing(h: &Harness) {
    let seed = rand::random::<u64>() | 1;
    eprintln!("seed {seed}");
    let told = Mutex::new(Told::default());
    let over = AtomicBool::new(false);
    let workers = (0..8).map(|number| worker(h, &told, TestRng(seed.wrapping_add(number * 977) | 1)));
    let work = async {
        futures_util::future::join_all(workers).await;
        over.store(true, Ordering::SeqCst);
    };
    let upkeep = async {
        while !over.load(Ordering::SeqCst) {
            h.clock.advance(seconds(1));
            h.store.sweep_expired(10).await.unwrap();
            h.store.move_due(10).await.unwrap();
        }
    };
    futures_util::future::join(work, upkeep).await;
    finish_all(h, &told).await;
    let told = told.into_inner();
    let ids: Vec<JobId> = told.registered.iter().copied().collect();
    let states = h.store.states(ids.clone()).await.unwrap();
    for (id, state) in ids.into_iter().zip(states) {
        let times = |of: &HashMap<JobId, u32>| of.get(&id).copied().unwrap_or(0);
        let heard = (
            times(&told.succeeded),
            times(&told.failed_for_good),
            times(&told.cancelled),
        );
        match state.expect("an acknowledged job is there") {
            State::Succeeded => assert_eq!(heard, (1, 0, 0)),
            State::Cancelled => assert_eq!(heard, (0, 0, 1)),
            // A lease that ran out ends a job without a word to its worker.
            State::Failed => assert!(heard.0 == 0 && heard.1 <= 1 && heard.2 == 0, "{heard:?}"),
            state => panic!("job {id} is still {state}"),
        }
    }
    h.check().await;
}

async fn worker(h: &Harness, told: &Mutex<Told>, mut rng: TestRng) {
    let mut leases = Vec::new();
    for _ in 0..120 {
        match rng.roll(8) {
            0..3 => {
                let mut new = job();
                new.max_retries = Some(2);
                new.timeout = Some(seconds(20));
                new.backoff = Some(Backoff::Fixed { delay: seconds(2) });
                let id = h.enqueue(new).await;
                told.lock().registered.insert(id);
            }
            3..5 => leases.extend(h.ask(wants("q", 2)).await.into_iter().map(|job| job.lease)),
            5 => {
                if let Some(lease) = leases.pop() {
                    settle_lease(h, told, lease, rng.roll(4) == 0).await;
                }
            }
            6 => {
                if let Some(lease) = leases.pop() {
                    settle_lease(h, told, lease, false).await;
                }
            }
            _ => {
                let ids: Vec<JobId> = told.lock().registered.iter().copied().collect();
                if let Some(&id) = rng.pick(&ids)
                    && rng.roll(4) == 0
                    && !matches!(h.cancel(id).await, Ok(State::Cancelled) | Err(_))
                {
                    *told.lock().cancelled.entry(id).or_default() += 1;
                }
            }
        }
    }
}

/// Reports on an attempt and notes what came of it.
async fn settle_lease(h: &Harness, told: &Mutex<Told>, lease: Lease, fail: bool) {
    if fail {
        let answer = h.fail_with(lease, "x", FailureTerms::default()).await;
        if let Ok(Failed::Taken(Next::Failed)) = answer {
            *told.lock().failed_for_good.entry(lease.id).or_default() += 1;
        }
    } else if let Ok(Completed::Done) = h.complete(lease, None).await {
        *told.lock().succeeded.entry(lease.id).or_default() += 1;
    }
}

async fn finish_all(h: &Harness, told: &Mutex<Told>) {
    for _ in 0..1_000 {
        h.pass(seconds(5)).await;
        for job in h.claim("q", 100).await {
            settle_lease(h, told, job.lease, false).await;
        }
        let ids: Vec<JobId> = told.lock().registered.iter().copied().collect();
        let states = h.store.states(ids).await.unwrap();
        if states.iter().all(|state| state.is_some_and(State::has_ended)) {
            return;
        }
    }
    panic!("jobs are stuck");
}
