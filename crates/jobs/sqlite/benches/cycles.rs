//! Whole cycles of jobs on SQLite: `cargo bench -p nagaya-jobs-sqlite -- [JOBS] [CLIENTS]`.
//!
//! A cycle is registration, claim and completion, each on the disk when it returns, with all events. The file
//! is made in the directory for temporary files; that is the disk which is measured. On a machine that others
//! use, look at the CPU time.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a bench ends at its first failure and prints its result"
)]
// A bench is there to read the clock.
#![allow(clippy::disallowed_methods, reason = "a bench measures real time")]

use std::sync::Arc;
use std::time::{Duration, Instant};

use nagaya_jobs::clock::SystemClock;
use nagaya_jobs::job::{Body, NewJob};
use nagaya_jobs::queue::{EventDetail, QueueSettings};
use nagaya_jobs::request::{ClaimRequest, Completion};
use nagaya_jobs::service::{Config, Jobs};
use nagaya_jobs::{JobStore, QueueName, TenantId};
use nagaya_jobs_sqlite::{Options, SqliteJobs};

fn queue(name: &str) -> QueueName {
    QueueName::new(name).unwrap()
}

fn job(name: &str) -> NewJob {
    let payload = Body::json(vec![b'1'; 200]);
    NewJob::new(TenantId::default_tenant(), queue(name), payload)
}

fn wants(name: &str, max: usize) -> ClaimRequest {
    ClaimRequest {
        worker: "bench".into(),
        queues: vec![queue(name)],
        tenant: None,
        max,
        lease: None,
    }
}

fn main() {
    let mut numbers = std::env::args()
        .skip(1)
        .filter_map(|word| word.parse::<usize>().ok());
    let jobs = numbers.next().unwrap_or(100_000);
    let clients = numbers.next().unwrap_or(256);
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build();
    runtime.unwrap().block_on(async {
        let place = tempfile::TempDir::new().unwrap();
        let path = place.path().join("jobs.db");
        let store: Arc<dyn JobStore> =
            Arc::new(SqliteJobs::open(path, &Options::default(), Arc::new(SystemClock)).unwrap());
        let ends = QueueSettings {
            events: EventDetail::Ends,
            ..QueueSettings::default()
        };
        store.put_queue(queue("ends"), ends).await.unwrap();
        for (name, events) in [("all", "all events"), ("ends", "endings only")] {
            for batch in [32, 256, 1024] {
                let label = format!("cycles in batches of {batch}, {events}");
                timed(&label, jobs, cycles(&store, name, jobs, batch)).await;
            }
        }
        let service = Jobs::start(Arc::clone(&store), Config::default()).await.unwrap();
        for name in ["all", "ends"] {
            let label = format!("single calls of {clients} clients, queue {name}");
            timed(&label, jobs, singles(&service, name, jobs, clients)).await;
        }
        service.stop().await;
        let waiting = jobs * 5;
        fill(&store, "all", waiting).await;
        let label = format!("cycles in batches of 256 in front of {waiting} waiting");
        timed(&label, jobs, cycles(&store, "all", jobs, 256)).await;
        store.close().await;
    });
}

async fn timed(what: &str, count: usize, work: impl Future<Output = ()>) {
    let (start, before) = (Instant::now(), cpu());
    work.await;
    let (took, cpu) = (start.elapsed(), cpu() - before);
    let rate = count as f64 / took.as_secs_f64();
    let each = cpu.as_secs_f64() * 1e6 / count as f64;
    println!("{what}: {rate:.0}/s, {each:.1} us of CPU each");
}

/// CPU time of this process, from its own accounts.
fn cpu() -> Duration {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap();
    let ticks: u64 = stat
        .rsplit(") ")
        .next()
        .unwrap()
        .split(' ')
        .skip(11)
        .take(2)
        .map(|word| word.parse::<u64>().unwrap())
        .sum();
    Duration::from_millis(ticks * 10)
}

async fn fill(store: &Arc<dyn JobStore>, name: &str, jobs: usize) {
    for _ in 0..jobs.div_ceil(1_000) {
        store.enqueue(vec![job(name); 1_000]).await.unwrap();
    }
}

async fn cycles(store: &Arc<dyn JobStore>, name: &str, jobs: usize, batch: usize) {
    for _ in 0..jobs.div_ceil(batch) {
        store.enqueue(vec![job(name); batch]).await.unwrap();
        let claimed = store.claim(vec![wants(name, batch)]).await.unwrap().remove(0);
        let reports = claimed.iter().map(|job| Completion {
            lease: job.lease,
            result: Some(Body::json(vec![b'2'; 50])),
        });
        store.complete(reports.collect()).await.unwrap();
    }
}

async fn singles(service: &Jobs, name: &'static str, jobs: usize, clients: usize) {
    let mut tasks = tokio::task::JoinSet::new();
    for _ in 0..clients {
        let service = service.clone();
        tasks.spawn(async move {
            for _ in 0..jobs.div_ceil(clients) {
                service.enqueue(vec![job(name)]).await.unwrap().remove(0).unwrap();
                for claimed in service
                    .claim(wants(name, 1), Duration::from_secs(10))
                    .await
                    .unwrap()
                {
                    let report = Completion {
                        lease: claimed.job.lease,
                        result: Some(Body::json(vec![b'2'; 50])),
                    };
                    service.complete(vec![report]).await.unwrap().remove(0).unwrap();
                }
            }
        });
    }
    while let Some(ended) = tasks.join_next().await {
        ended.unwrap();
    }
}
