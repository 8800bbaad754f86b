//! Joins the calls of many clients into batches.
//!
//! One batch is in flight at a time. Calls that arrive meanwhile form the next batch. With nothing in flight a
//! call is sent at once; no call waits for others to arrive.
//!
//! Items about one job never share a batch, so that a store may treat a batch as a set.

use std::collections::HashSet;
use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use nagaya_threads::vital;
use parking_lot::Mutex;
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;
use tokio_util::task::TaskTracker;

use super::pace::{Pace, PaceBounds};
use super::stats::Meter;
use crate::error::Error;
use crate::id::JobId;
use crate::job::NewJob;
use crate::request::{Completion, Extension, Failure, LogReport, ProgressReport, Release};

type Answers<T> = Result<Vec<Result<T, Error>>, Error>;

/// An item of a batch.
pub(super) trait Item: Send + 'static {
    /// The job that it concerns, if any.
    fn job(&self) -> Option<JobId>;
    /// Its approximate size in bytes.
    fn bytes(&self) -> usize;
}

/// Limits of a batcher.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bounds {
    /// Most items in a batch, unless a single call has more.
    pub(super) items_max: usize,
    pub(super) bytes_max: usize,
    /// Most items that wait; more are refused as busy.
    pub(super) waiting_max: usize,
    /// Most time that an item waits, by the pace of the store: what would wait longer is refused as busy.
    pub(super) wait_max: Duration,
}

impl Bounds {
    fn pace(&self) -> PaceBounds {
        PaceBounds {
            items_max: self.items_max,
            waiting_max: self.waiting_max,
            wait_max: self.wait_max,
        }
    }
}

struct Call<I, T> {
    items: Vec<I>,
    reply: oneshot::Sender<Answers<T>>,
}

pub(super) struct Batcher<I, T> {
    calls: Mutex<Option<mpsc::Sender<Call<I, T>>>>,
    waiting: Arc<AtomicUsize>,
    bounds: Bounds,
    pace: Arc<Pace>,
}

impl<I: Item, T: Send + 'static> Batcher<I, T> {
    /// Starts the task that sends batches. It ends when the batcher is closed and empty.
    pub(super) fn start<F, R>(bounds: Bounds, meter: Meter, tasks: &TaskTracker, send: F) -> Batcher<I, T>
    where
        F: Fn(Vec<I>) -> R + Send + 'static,
        R: Future<Output = Answers<T>> + Send + 'static,
    {
        // A call has at least one item, so the limit on items is reached first.
        let (calls, received) = mpsc::channel(bounds.waiting_max.max(1) * 2);
        let waiting = Arc::new(AtomicUsize::new(0));
        let pace = Arc::new(Pace::default());
        let load = Load {
            waiting: Arc::clone(&waiting),
            pace: Arc::clone(&pace),
        };
        let sending = run(bounds, meter, load, received, send);
        tasks.spawn(vital("jobs batcher", sending));
        Batcher {
            calls: Mutex::new(Some(calls)),
            waiting,
            bounds,
            pace,
        }
    }

    /// Submits items as part of a batch and returns the result of each.
    ///
    /// Not cancel safe: a caller that goes away does not withdraw its items.
    pub(super) async fn submit(&self, items: Vec<I>) -> Answers<T> {
        if items.is_empty() {
            return Ok(Vec::new());
        }
        let count = items.len();
        let before = self.waiting.fetch_add(count, Ordering::SeqCst);
        let is_full = before > 0 && before + count > self.bounds.waiting_max;
        if is_full || before > self.pace.limit(self.bounds.pace()) {
            self.waiting.fetch_sub(count, Ordering::SeqCst);
            return Err(Error::Busy);
        }
        let (reply, answer) = oneshot::channel();
        let sent = match &*self.calls.lock() {
            Some(calls) => calls.try_send(Call { items, reply }).is_ok(),
            None => false,
        };
        if !sent {
            self.waiting.fetch_sub(count, Ordering::SeqCst);
            return Err(stopped());
        }
        answer.await.unwrap_or_else(|_| Err(stopped()))
    }

    pub(super) fn close(&self) {
        self.calls.lock().take();
    }
}

fn stopped() -> Error {
    Error::Stopped {
        why: "the server is going down".into(),
    }
}

/// What waits, and how fast it gets less.
struct Load {
    waiting: Arc<AtomicUsize>,
    pace: Arc<Pace>,
}

async fn run<I: Item, T, F, R>(
    bounds: Bounds,
    meter: Meter,
    load: Load,
    mut calls: mpsc::Receiver<Call<I, T>>,
    send: F,
) where
    F: Fn(Vec<I>) -> R,
    R: Future<Output = Answers<T>>,
{
    let mut next = None;
    loop {
        let first = match next.take() {
            Some(call) => call,
            None => match calls.recv().await {
                Some(call) => call,
                None => return,
            },
        };
        let mut batch = Batch::new(first);
        while batch.has_room(&bounds)
            && let Ok(call) = calls.try_recv()
        {
            match batch.add(call, &bounds) {
                Ok(()) => (),
                Err(call) => {
                    next = Some(call);
                    break;
                }
            }
        }
        let count = batch.items.len();
        meter.sent(count);
        let began = Instant::now();
        let answers = send(batch.items).await;
        load.pace.note(bounds.pace(), count, began.elapsed());
        load.waiting.fetch_sub(count, Ordering::SeqCst);
        answer(batch.replies, answers);
    }
}

struct Batch<I, T> {
    items: Vec<I>,
    bytes: usize,
    jobs: HashSet<JobId>,
    /// The number of items of each caller and its reply channel, in order.
    replies: Vec<(usize, oneshot::Sender<Answers<T>>)>,
}

impl<I: Item, T> Batch<I, T> {
    /// The first call is accepted whatever its size. Repeats of a job inside of one call are left to the store.
    fn new(call: Call<I, T>) -> Batch<I, T> {
        Batch {
            bytes: call.items.iter().map(Item::bytes).sum(),
            jobs: call.items.iter().filter_map(Item::job).collect(),
            replies: vec![(call.items.len(), call.reply)],
            items: call.items,
        }
    }

    fn has_room(&self, bounds: &Bounds) -> bool {
        self.items.len() < bounds.items_max && self.bytes < bounds.bytes_max
    }

    /// Adds a call, or returns it when it does not fit.
    fn add(&mut self, call: Call<I, T>, bounds: &Bounds) -> Result<(), Call<I, T>> {
        let bytes: usize = call.items.iter().map(Item::bytes).sum();
        let fits =
            self.items.len() + call.items.len() <= bounds.items_max && self.bytes + bytes <= bounds.bytes_max;
        let met = call
            .items
            .iter()
            .filter_map(Item::job)
            .any(|job| self.jobs.contains(&job));
        if !fits || met {
            return Err(call);
        }
        self.bytes += bytes;
        self.jobs.extend(call.items.iter().filter_map(Item::job));
        self.replies.push((call.items.len(), call.reply));
        self.items.extend(call.items);
        Ok(())
    }
}

/// Sends each caller its part of the answers. A caller may have gone away.
fn answer<T>(replies: Vec<(usize, oneshot::Sender<Answers<T>>)>, answers: Answers<T>) {
    match answers {
        Ok(answers) => {
            let mut answers = answers.into_iter();
            for (count, reply) in replies {
                reply.send(Ok(answers.by_ref().take(count).collect())).ok();
            }
        }
        Err(error) => {
            for (_, reply) in replies {
                reply.send(Err(error.again())).ok();
            }
        }
    }
}

impl Item for NewJob {
    fn job(&self) -> Option<JobId> {
        None
    }

    fn bytes(&self) -> usize {
        self.payload.bytes.len() + 200
    }
}

impl Item for Completion {
    fn job(&self) -> Option<JobId> {
        Some(self.lease.id)
    }

    fn bytes(&self) -> usize {
        self.result.as_ref().map_or(0, |result| result.bytes.len()) + 100
    }
}

impl Item for Failure {
    fn job(&self) -> Option<JobId> {
        Some(self.lease.id)
    }

    fn bytes(&self) -> usize {
        self.error.len() + 100
    }
}

impl Item for Release {
    fn job(&self) -> Option<JobId> {
        Some(self.lease.id)
    }

    fn bytes(&self) -> usize {
        50
    }
}

impl Item for Extension {
    fn job(&self) -> Option<JobId> {
        Some(self.lease.id)
    }

    fn bytes(&self) -> usize {
        50
    }
}

impl Item for ProgressReport {
    fn job(&self) -> Option<JobId> {
        Some(self.lease.id)
    }

    fn bytes(&self) -> usize {
        let length = |text: &Option<String>| text.as_ref().map_or(0, String::len);
        length(&self.progress.message) + length(&self.progress.data) + 100
    }
}

impl Item for LogReport {
    fn job(&self) -> Option<JobId> {
        Some(self.lease.id)
    }

    fn bytes(&self) -> usize {
        self.lines.iter().map(String::len).sum::<usize>() + 100
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::service::stats::Call;
    use crate::token::Lease;

    fn extension(id: i64) -> Extension {
        Extension {
            lease: Lease {
                id: JobId::new(id).unwrap(),
                attempt: 1,
                nonce: 0,
            },
            length: None,
        }
    }

    struct TestBatcher {
        batcher: Batcher<Extension, i64>,
        /// The batches that were sent, and permits for them to return.
        batches: Arc<Mutex<Vec<Vec<i64>>>>,
        gate: Arc<tokio::sync::Semaphore>,
        tasks: TaskTracker,
    }

    fn test(items_max: usize, waiting_max: usize) -> TestBatcher {
        let batches = Arc::new(Mutex::new(Vec::new()));
        let gate = Arc::new(tokio::sync::Semaphore::new(0));
        let bounds = Bounds {
            items_max,
            bytes_max: 1 << 20,
            waiting_max,
            wait_max: Duration::MAX,
        };
        let tasks = TaskTracker::new();
        let (seen, opened) = (Arc::clone(&batches), Arc::clone(&gate));
        let meter = Meter {
            call: Call::Extend,
            counts: Arc::default(),
        };
        let batcher = Batcher::start(bounds, meter, &tasks, move |items: Vec<Extension>| {
            let ids: Vec<i64> = items.iter().map(|item| item.lease.id.get()).collect();
            seen.lock().push(ids.clone());
            let gate = Arc::clone(&opened);
            async move {
                gate.acquire().await.unwrap().forget();
                Ok(ids.into_iter().map(Ok).collect())
            }
        });
        TestBatcher {
            batcher,
            batches,
            gate,
            tasks,
        }
    }

    async fn submit(batcher: &Batcher<Extension, i64>, ids: &[i64]) -> Vec<i64> {
        let answers = batcher
            .submit(ids.iter().copied().map(extension).collect())
            .await
            .unwrap();
        answers.into_iter().map(Result::unwrap).collect()
    }

    #[tokio::test]
    async fn calls_gather_while_a_batch_is_out() {
        let test = test(100, 1_000);
        let batcher = &test.batcher;
        let first = async {
            while test.batches.lock().is_empty() {
                tokio::task::yield_now().await;
            }
            test.gate.add_permits(2);
        };
        let (a, b, c, ()) = tokio::join!(
            submit(batcher, &[1]),
            async { submit(batcher, &[2, 3]).await },
            submit(batcher, &[4]),
            first
        );
        assert_eq!((a, b, c), (vec![1], vec![2, 3], vec![4]), "each hears of its own");
        assert!(test.batches.lock().len() <= 2);
        test.batcher.close();
        test.tasks.close();
        test.tasks.wait().await;
    }

    #[tokio::test]
    async fn items_about_one_job_go_one_after_the_other() {
        let test = test(100, 1_000);
        test.gate.add_permits(10);
        let batcher = &test.batcher;
        tokio::join!(
            submit(batcher, &[1, 2]),
            submit(batcher, &[3]),
            submit(batcher, &[2]),
            submit(batcher, &[4])
        );
        assert_eq!(*test.batches.lock(), [vec![1, 2, 3], vec![2, 4]]);
    }

    #[tokio::test]
    async fn a_batch_has_its_bound() {
        let test = test(3, 1_000);
        test.gate.add_permits(10);
        let batcher = &test.batcher;
        tokio::join!(
            submit(batcher, &[1, 2]),
            submit(batcher, &[3, 4]),
            submit(batcher, &[5, 6, 7, 8])
        );
        assert_eq!(*test.batches.lock(), [vec![1, 2], vec![3, 4], vec![5, 6, 7, 8]]);
    }

    #[tokio::test]
    async fn too_many_that_wait_are_refused_as_busy() {
        let test = test(2, 4);
        let batcher = &test.batcher;
        let (first, second, third, ()) = tokio::join!(
            batcher.submit(vec![extension(1), extension(2), extension(3)]),
            batcher.submit(vec![extension(4), extension(5)]),
            batcher.submit(vec![extension(6)]),
            // Nothing returns before all have been sent.
            async { test.gate.add_permits(10) },
        );
        assert!(first.is_ok() && third.is_ok());
        assert!(matches!(second, Err(Error::Busy)));
    }
}
