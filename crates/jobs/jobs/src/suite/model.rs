//! A reference of what jobs do, small enough to be seen to be right.
//!
//! It knows what a store may answer to each call. Which of several ready jobs a claim gives is the store's
//! choice; everything else is decided here too, and compared.

use std::collections::{BTreeMap, VecDeque};

use crate::id::JobId;
use crate::state::{State, Tries};
use crate::token::Lease;

/// What the reference knows of one job.
#[derive(Clone, Debug)]
pub struct Job {
    pub state: State,
    pub tries: Tries,
    pub max_retries: u32,
    /// Wait after a failure, milliseconds.
    pub backoff_ms: i64,
    pub lease_ms: i64,
    pub run_at_ms: Option<i64>,
    pub parents: Vec<JobId>,
    /// All that it was registered with.
    pub depends_on: Vec<JobId>,
    /// The parents whose retry makes it come back.
    pub cancelled_by: Vec<JobId>,
    /// Key and limit.
    pub concurrency: Option<(String, u32)>,
    pub unique_key: Option<String>,
    /// The running attempt and when its lease ends.
    pub live: Option<(Lease, i64)>,
    /// Leases that are over.
    pub dead: Vec<Lease>,
    pub endings: u32,
    pub revivals: u32,
}

#[derive(Clone, Debug, Default)]
pub struct Model {
    pub jobs: BTreeMap<JobId, Job>,
}

impl Model {
    /// Finds the job that holds a unique key.
    pub fn holder(&self, key: &str) -> Option<JobId> {
        let holds = |job: &Job| job.unique_key.as_deref() == Some(key) && !job.state.has_ended();
        self.jobs.iter().find(|(_, job)| holds(job)).map(|(id, _)| *id)
    }

    /// Records that a store handed out a job, and returns what is wrong with that.
    pub fn claimed(&mut self, lease: Lease, now_ms: i64) -> Result<(), String> {
        let job = self
            .jobs
            .get_mut(&lease.id)
            .ok_or("a job that nobody registered")?;
        if job.state != State::Waiting || !job.parents.is_empty() {
            return Err(format!("a job that cannot run: {job:?}"));
        }
        job.tries.attempt += 1;
        if lease.attempt != job.tries.attempt || job.tries.attempt > job.tries.attempt_max {
            return Err(format!("attempt {} of {job:?}", lease.attempt));
        }
        job.state = State::Running;
        job.live = Some((lease, now_ms + job.lease_ms));
        let concurrency = job.concurrency.clone();
        if let Some((key, limit)) = concurrency {
            let of_key = |job: &&Job| {
                job.state == State::Running
                    && job.concurrency.as_ref().is_some_and(|(other, _)| *other == key)
            };
            let running = self.jobs.values().filter(of_key).count();
            if running > limit as usize {
                return Err(format!("{running} jobs of key {key}, whose limit is {limit}"));
            }
        }
        Ok(())
    }

    /// Ends the running attempt of a job.
    fn let_go(&mut self, id: JobId) {
        if let Some(job) = self.jobs.get_mut(&id)
            && let Some((lease, _)) = job.live.take()
        {
            job.dead.push(lease);
        }
    }

    pub fn end(&mut self, id: JobId, state: State) {
        self.let_go(id);
        if let Some(job) = self.jobs.get_mut(&id) {
            job.state = state;
            job.endings += 1;
            job.parents.clear();
        }
        let children: Vec<_> = self
            .jobs
            .iter_mut()
            .filter(|(_, job)| job.parents.contains(&id))
            .collect();
        let mut cancelled = Vec::new();
        for (child, job) in children {
            match state {
                State::Succeeded => job.parents.retain(|parent| *parent != id),
                _ => cancelled.push(*child),
            }
        }
        for child in cancelled {
            if let Some(job) = self.jobs.get_mut(&child) {
                job.cancelled_by.push(id);
            }
            self.end(child, State::Cancelled);
        }
    }

    /// Notes that an attempt did not succeed.
    pub fn failed(&mut self, id: JobId, permanent: bool, wait_ms: i64, now_ms: i64) {
        self.let_go(id);
        let Some(job) = self.jobs.get_mut(&id) else {
            return;
        };
        if permanent || job.tries.are_over() {
            return self.end(id, State::Failed);
        }
        match wait_ms {
            0 => job.state = State::Waiting,
            _ => {
                job.state = State::Scheduled;
                job.run_at_ms = Some(now_ms + wait_ms);
            }
        }
    }

    /// Notes that a job was given back.
    pub fn released(&mut self, id: JobId, wait_ms: i64, now_ms: i64) {
        self.let_go(id);
        let Some(job) = self.jobs.get_mut(&id) else {
            return;
        };
        job.tries.attempt -= 1;
        match wait_ms {
            0 => job.state = State::Waiting,
            _ => {
                job.state = State::Scheduled;
                job.run_at_ms = Some(now_ms + wait_ms);
            }
        }
    }

    /// Lets a job run again by hand.
    pub fn retried(&mut self, id: JobId) {
        if let Some(job) = self.jobs.get_mut(&id) {
            job.state = State::Waiting;
            job.tries = job.tries.renewed(job.max_retries);
            job.revivals += 1;
            job.cancelled_by.clear();
        }
        let mut parents = VecDeque::from([id]);
        while let Some(parent) = parents.pop_front() {
            let is_child = |job: &Job| job.cancelled_by.contains(&parent);
            let children: Vec<JobId> = self
                .jobs
                .iter()
                .filter(|(_, job)| is_child(job))
                .map(|(id, _)| *id)
                .collect();
            parents.extend(children.into_iter().filter(|child| self.revive(*child)));
        }
    }

    /// Lets a job wait again that was cancelled because of another one. Returns whether it does.
    fn revive(&mut self, id: JobId) -> bool {
        let job = &self.jobs[&id];
        let key = job.unique_key.clone();
        if job.state != State::Cancelled {
            return false;
        }
        let mut pending = Vec::new();
        for parent in job.depends_on.clone() {
            match self.jobs[&parent].state {
                State::Succeeded => (),
                State::Failed | State::Cancelled => {
                    self.jobs.get_mut(&id).expect("known").cancelled_by.push(parent);
                    return false;
                }
                _ => pending.push(parent),
            }
        }
        if pending.is_empty() || key.is_some_and(|key| self.holder(&key).is_some()) {
            return false;
        }
        let job = self.jobs.get_mut(&id).expect("known");
        job.state = State::Waiting;
        job.tries = Tries::fresh(job.max_retries);
        job.revivals += 1;
        job.cancelled_by.clear();
        job.parents = pending;
        true
    }

    /// Does what time brings: leases run out, times come.
    pub fn settle(&mut self, now_ms: i64) {
        let expired: Vec<JobId> = self
            .jobs
            .iter()
            .filter(|(_, job)| job.live.is_some_and(|(_, until_ms)| until_ms <= now_ms))
            .map(|(id, _)| *id)
            .collect();
        for id in expired {
            self.failed(id, false, 0, now_ms);
        }
        for job in self.jobs.values_mut() {
            if job.state == State::Scheduled && job.run_at_ms.is_some_and(|at_ms| at_ms <= now_ms) {
                job.state = State::Waiting;
            }
            // A job whose parents are done may still have to wait for its time.
            if job.state == State::Waiting
                && job.parents.is_empty()
                && job.tries.attempt == 0
                && job.run_at_ms.is_some_and(|at_ms| at_ms > now_ms)
                && job.revivals == 0
            {
                job.state = State::Scheduled;
            }
        }
    }
}
