//! Whole cycles of jobs on PostgreSQL: `cargo bench -p nagaya-jobs-postgres -- [JOBS] [CLIENTS]`.
//!
//! A cycle is registration, claim and completion, each on the disk when it returns. The server is one of the
//! bench's own with full durability, on the same machine, so it shares the cores. CPU is that of both, parted.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a bench ends at its first failure and prints its result"
)]
// A bench is there to read the clock.
#![allow(clippy::disallowed_methods, reason = "a bench measures real time")]

use std::sync::Arc;
use std::time::{Duration, Instant};

use nagaya_jobs::job::{Body, NewJob};
use nagaya_jobs::queue::{EventDetail, QueueSettings};
use nagaya_jobs::request::{ClaimRequest, Completion};
use nagaya_jobs::service::{Config, Jobs};
use nagaya_jobs::{JobStore, QueueName, TenantId};
use nagaya_jobs_postgres::{Options, PgStore};
use nagaya_testkit::Postgres;

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
    let jobs = numbers.next().unwrap_or(50_000);
    let clients = numbers.next().unwrap_or(256);
    let postgres = Postgres::with_settings(&["shared_buffers=512MB", "max_wal_size=4GB"]);
    let url = postgres.create_database();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build();
    runtime.unwrap().block_on(async {
        let store = PgStore::open(&url.parse().unwrap(), Options::default())
            .await
            .unwrap();
        let store: Arc<dyn JobStore> = Arc::new(store);
        let ends = QueueSettings {
            events: EventDetail::Ends,
            ..QueueSettings::default()
        };
        store.put_queue(queue("ends"), ends).await.unwrap();
        let server = Cpu(postgres.port());
        for (name, events) in [("all", "all events"), ("ends", "endings only")] {
            for batch in [32, 256, 1_000] {
                for lanes in [1, 2] {
                    let label = format!("cycles in batches of {batch}, {lanes} lanes, {events}");
                    timed(&label, &server, jobs, cycles(&store, name, jobs, batch, lanes)).await;
                }
            }
        }
        let service = Jobs::start(Arc::clone(&store), Config::default()).await.unwrap();
        for name in ["all", "ends"] {
            let label = format!("single calls of {clients} clients, queue {name}");
            timed(&label, &server, jobs, singles(&service, name, jobs, clients)).await;
        }
        service.stop().await;
        let waiting = jobs * 5;
        fill(&store, "all", waiting).await;
        let label = format!("cycles in batches of 256 in front of {waiting} waiting");
        timed(&label, &server, jobs, cycles(&store, "all", jobs, 256, 2)).await;
        store.close().await;
    });
}

/// CPU time of a PostgreSQL server with all its sessions, known by its port.
struct Cpu(u16);

impl Cpu {
    /// Ended sessions are counted by their parent.
    fn read(&self) -> Duration {
        let port = format!("-p\0{}\0", self.0);
        let processes: Vec<String> = std::fs::read_dir("/proc")
            .unwrap()
            .filter_map(|entry| entry.unwrap().file_name().into_string().ok())
            .filter(|name| name.bytes().all(|byte| byte.is_ascii_digit()))
            .collect();
        let parent = processes.iter().find(|id| {
            std::fs::read_to_string(format!("/proc/{id}/cmdline")).is_ok_and(|line| line.contains(&port))
        });
        let parent = parent.expect("the server runs");
        let of_all = processes.iter().filter_map(|id| stat(id).ok());
        of_all
            .filter(|one| one.id == *parent || one.parent == *parent)
            .map(|one| {
                one.own
                    + if one.id == *parent {
                        one.children
                    } else {
                        Duration::ZERO
                    }
            })
            .sum()
    }
}

struct Stat {
    id: String,
    parent: String,
    own: Duration,
    children: Duration,
}

fn stat(id: &str) -> std::io::Result<Stat> {
    let text = std::fs::read_to_string(format!("/proc/{id}/stat"))?;
    // The name before may hold anything, also spaces.
    let words: Vec<&str> = text.rsplit(") ").next().unwrap_or("").split(' ').collect();
    let ticks = |from: usize| -> Duration {
        let sum: u64 = words[from..from + 2]
            .iter()
            .map(|word| word.parse::<u64>().unwrap())
            .sum();
        Duration::from_millis(sum * 10)
    };
    Ok(Stat {
        id: id.to_owned(),
        parent: words[1].to_owned(),
        own: ticks(11),
        children: ticks(13),
    })
}

async fn timed(what: &str, server: &Cpu, count: usize, work: impl Future<Output = ()>) {
    let own = || stat("self").unwrap().own;
    let (start, before, before_server) = (Instant::now(), own(), server.read());
    work.await;
    let took = start.elapsed();
    let each = |cpu: Duration| cpu.as_secs_f64() * 1e6 / count as f64;
    let rate = count as f64 / took.as_secs_f64();
    let (own, server) = (each(own() - before), each(server.read() - before_server));
    println!("{what}: {rate:.0}/s, CPU each: {server:.1} us server, {own:.1} us here");
}

async fn fill(store: &Arc<dyn JobStore>, name: &str, jobs: usize) {
    for _ in 0..jobs.div_ceil(1_000) {
        store.enqueue(vec![job(name); 1_000]).await.unwrap();
    }
}

async fn cycles(store: &Arc<dyn JobStore>, name: &'static str, jobs: usize, batch: usize, lanes: usize) {
    let mut tasks = tokio::task::JoinSet::new();
    for _ in 0..lanes {
        let store = Arc::clone(store);
        tasks.spawn(async move {
            for _ in 0..jobs.div_ceil(batch * lanes) {
                store.enqueue(vec![job(name); batch]).await.unwrap();
                let claimed = store.claim(vec![wants(name, batch)]).await.unwrap().remove(0);
                let reports = claimed.iter().map(|job| Completion {
                    lease: job.lease,
                    result: Some(Body::json(vec![b'2'; 50])),
                });
                store.complete(reports.collect()).await.unwrap();
            }
        });
    }
    while let Some(ended) = tasks.join_next().await {
        ended.unwrap();
    }
}

async fn singles(service: &Jobs, name: &'static str, jobs: usize, clients: usize) {
    let mut tasks = tokio::task::JoinSet::new();
    for _ in 0..clients {
        let service = service.clone();
        tasks.spawn(async move {
            for _ in 0..jobs.div_ceil(clients) {
                service.enqueue(vec![job(name)]).await.unwrap().remove(0).unwrap();
                let claimed = service
                    .claim(wants(name, 1), Duration::from_secs(10))
                    .await
                    .unwrap();
                for one in claimed {
                    let report = Completion {
                        lease: one.job.lease,
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
