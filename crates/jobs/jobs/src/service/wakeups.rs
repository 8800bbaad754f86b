//! Wakes tasks that wait for jobs or events when the store notifies.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;
use tokio::sync::{Notify, watch};
use tokio_util::sync::CancellationToken;

use crate::event::{Event, EventFilter, EventKind};
use crate::id::JobId;
use crate::name::QueueName;
use crate::request::Listener;

/// The waiting tasks. There is one lock per map, and none is held while another is taken.
pub(super) struct Wakeups {
    /// Queues that may have jobs; read by the task that claims.
    ready: Mutex<Vec<QueueName>>,
    pub(super) claims: Notify,
    /// The last known position of the log.
    head: watch::Sender<u64>,
    /// The position up to which followers were woken.
    read: AtomicU64,
    /// The end of the log when it was last read.
    seen: AtomicU64,
    followers: Mutex<Followers>,
    /// Those who hold leases, by job. They hear of cancellations only, which no log needs to be read for.
    holders: Mutex<HashMap<JobId, HashMap<u64, Arc<Notify>>>>,
    /// Signals that somebody follows.
    pub(super) followed: Notify,
    /// Signals that there are new deliveries.
    pub(super) deliveries: Notify,
    numbers: AtomicU64,
    waiting_workers: Mutex<HashMap<QueueName, usize>>,
    /// Cancelled when claims may no longer wait.
    pub(super) draining: CancellationToken,
}

#[derive(Default)]
struct Followers {
    by_job: HashMap<JobId, HashMap<u64, Arc<Notify>>>,
    by_queue: HashMap<QueueName, HashMap<u64, Arc<Notify>>>,
    of_all: HashMap<u64, Arc<Notify>>,
}

/// A registration for event wake-ups; dropping it unregisters.
pub(super) struct WakeupGuard {
    wakeups: Arc<Wakeups>,
    number: u64,
    filter: EventFilter,
    pub(super) wake: Arc<Notify>,
}

/// A registration for the events of several jobs; dropping it unregisters.
pub(super) struct JobsGuard {
    wakeups: Arc<Wakeups>,
    number: u64,
    jobs: Vec<JobId>,
    pub(super) wake: Arc<Notify>,
}

impl Wakeups {
    pub(super) fn new(head: u64) -> Wakeups {
        Wakeups {
            ready: Mutex::default(),
            claims: Notify::new(),
            head: watch::Sender::new(head),
            read: AtomicU64::new(head),
            seen: AtomicU64::new(head),
            followers: Mutex::default(),
            holders: Mutex::default(),
            followed: Notify::new(),
            deliveries: Notify::new(),
            numbers: AtomicU64::new(0),
            waiting_workers: Mutex::default(),
            draining: CancellationToken::new(),
        }
    }

    /// Takes the queues that may have new jobs since the last call.
    pub(super) fn take_ready(&self) -> Vec<QueueName> {
        std::mem::take(&mut *self.ready.lock())
    }

    pub(super) fn head(&self) -> watch::Receiver<u64> {
        self.head.subscribe()
    }

    /// Records that everything up to a position was passed on, in a log that reached `head` then.
    pub(super) fn passed_on(&self, position: u64, head: u64) {
        self.read.fetch_max(position, Ordering::Relaxed);
        self.seen.fetch_max(head, Ordering::Relaxed);
    }

    /// Returns the end of the log as far as this server knows, and the position up to which it was passed on.
    pub(super) fn log_positions(&self) -> (u64, u64) {
        let read = self.read.load(Ordering::Relaxed);
        let head = self.seen.load(Ordering::Relaxed).max(*self.head.borrow());
        (head.max(read), read)
    }

    /// Registers for events that match a filter. The narrowest part of the filter selects the group that is
    /// woken.
    pub(super) fn wait_for(self: &Arc<Self>, filter: &EventFilter) -> WakeupGuard {
        let number = self.numbers.fetch_add(1, Ordering::Relaxed);
        let wake = Arc::new(Notify::new());
        let mut followers = self.followers.lock();
        let group = match (filter.job, &filter.queue) {
            (Some(job), _) => followers.by_job.entry(job).or_default(),
            (None, Some(queue)) => followers.by_queue.entry(queue.clone()).or_default(),
            (None, None) => &mut followers.of_all,
        };
        group.insert(number, Arc::clone(&wake));
        drop(followers);
        self.followed.notify_one();
        WakeupGuard {
            wakeups: Arc::clone(self),
            number,
            filter: filter.clone(),
            wake,
        }
    }

    /// Registers for the events of several jobs.
    pub(super) fn wait_for_jobs(self: &Arc<Self>, jobs: &[JobId]) -> JobsGuard {
        let number = self.numbers.fetch_add(1, Ordering::Relaxed);
        let wake = Arc::new(Notify::new());
        let mut followers = self.followers.lock();
        for job in jobs {
            let group = followers.by_job.entry(*job).or_default();
            group.insert(number, Arc::clone(&wake));
        }
        drop(followers);
        self.followed.notify_one();
        JobsGuard {
            wakeups: Arc::clone(self),
            number,
            jobs: jobs.to_vec(),
            wake,
        }
    }

    /// Returns a number for registrations of one holder of leases.
    pub(super) fn holder(&self) -> u64 {
        self.numbers.fetch_add(1, Ordering::Relaxed)
    }

    /// Registers a holder of a lease for the cancellation of its job.
    pub(super) fn hold(&self, job: JobId, holder: u64, wake: &Arc<Notify>) {
        let mut holders = self.holders.lock();
        holders.entry(job).or_default().insert(holder, Arc::clone(wake));
    }

    pub(super) fn let_go(&self, job: JobId, holder: u64) {
        forget(&mut self.holders.lock(), job, holder);
    }

    /// Returns whether anybody follows the log.
    pub(super) fn has_followers(&self) -> bool {
        let followers = self.followers.lock();
        !(followers.by_job.is_empty() && followers.by_queue.is_empty() && followers.of_all.is_empty())
    }

    /// Wakes the followers of these events.
    pub(super) fn wake_for(&self, events: &[Event]) {
        let followers = self.followers.lock();
        if events.is_empty() {
            return;
        }
        followers.of_all.values().for_each(|wake| wake.notify_one());
        for event in events {
            let by_job = followers.by_job.get(&event.job);
            by_job
                .into_iter()
                .flat_map(HashMap::values)
                .for_each(|wake| wake.notify_one());
            let by_queue = followers.by_queue.get(&event.queue);
            by_queue
                .into_iter()
                .flat_map(HashMap::values)
                .for_each(|wake| wake.notify_one());
        }
    }

    fn wake_jobs(&self, jobs: &[(JobId, EventKind)]) {
        let followers = self.followers.lock();
        for (job, _) in jobs {
            let by_job = followers.by_job.get(job);
            by_job
                .into_iter()
                .flat_map(HashMap::values)
                .for_each(|wake| wake.notify_one());
        }
    }

    pub(super) fn add_workers(&self, queues: &[QueueName]) {
        let mut waiting = self.waiting_workers.lock();
        for queue in queues {
            *waiting.entry(queue.clone()).or_default() += 1;
        }
    }

    pub(super) fn remove_workers(&self, queues: &[QueueName]) {
        let mut waiting = self.waiting_workers.lock();
        for queue in queues {
            if let Some(count) = waiting.get_mut(queue) {
                *count -= 1;
                if *count == 0 {
                    waiting.remove(queue);
                }
            }
        }
    }

    pub(super) fn waiting_workers(&self, queue: &QueueName) -> usize {
        self.waiting_workers.lock().get(queue).copied().unwrap_or(0)
    }

    /// Wakes all tasks, so that they see the shutdown.
    pub(super) fn close(&self) {
        self.claims.notify_one();
        let followers = self.followers.lock();
        let groups = followers.by_job.values().chain(followers.by_queue.values());
        for wake in groups.chain([&followers.of_all]).flat_map(HashMap::values) {
            wake.notify_one();
        }
    }
}

impl Listener for Wakeups {
    fn ready(&self, queues: &[QueueName]) {
        {
            let mut ready = self.ready.lock();
            for queue in queues {
                if !ready.contains(queue) {
                    ready.push(queue.clone());
                }
            }
        }
        self.claims.notify_one();
    }

    fn logged(&self, head: u64) {
        self.head.send_if_modified(|known| {
            let grown = head > *known;
            *known = (*known).max(head);
            grown
        });
    }

    fn ended(&self, jobs: &[(JobId, EventKind)]) {
        self.wake_jobs(jobs);
        let cancelled = jobs.iter().filter(|(_, kind)| *kind == EventKind::Cancelled);
        let holders = self.holders.lock();
        for (job, _) in cancelled {
            let of_job = holders.get(job);
            of_job
                .into_iter()
                .flat_map(HashMap::values)
                .for_each(|wake| wake.notify_one());
        }
    }

    fn deliveries(&self) {
        self.deliveries.notify_one();
    }
}

impl Drop for WakeupGuard {
    fn drop(&mut self) {
        let mut followers = self.wakeups.followers.lock();
        match (self.filter.job, &self.filter.queue) {
            (Some(job), _) => forget(&mut followers.by_job, job, self.number),
            (None, Some(queue)) => {
                if let Some(group) = followers.by_queue.get_mut(queue) {
                    group.remove(&self.number);
                    if group.is_empty() {
                        followers.by_queue.remove(queue);
                    }
                }
            }
            (None, None) => {
                followers.of_all.remove(&self.number);
            }
        }
    }
}

impl Drop for JobsGuard {
    fn drop(&mut self) {
        let mut followers = self.wakeups.followers.lock();
        for job in &self.jobs {
            forget(&mut followers.by_job, *job, self.number);
        }
    }
}

/// Removes one registration, and the job's entry with its last one.
fn forget(groups: &mut HashMap<JobId, HashMap<u64, Arc<Notify>>>, job: JobId, number: u64) {
    if let Some(group) = groups.get_mut(&job) {
        group.remove(&number);
        if group.is_empty() {
            groups.remove(&job);
        }
    }
}
