//! kill -9 in the middle of everything.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use nagaya_jobs::backoff::Backoff;
use nagaya_jobs::job::{Concurrency, NewJob};
use nagaya_jobs::request::{Completion, Failed, Failure};
use nagaya_jobs::state::{FailureTerms, Next};
use nagaya_jobs::store::{JobQueue, JobReader, Maintenance, StoreControl};
use nagaya_jobs::{JobId, State};
use nagaya_jobs_sqlite::SqliteJobs;

use crate::support::{assert_sound, block_on, child_path, job, open, start_child, wants};

const TEST: &str = "crash::nothing_acknowledged_is_lost_by_kill_9";
const KILLS: usize = 15;
const WORKERS: u64 = 6;

/// What children have said before they died.
#[derive(Default)]
struct Said {
    enqueued: BTreeSet<JobId>,
    ended: BTreeMap<JobId, State>,
}

#[test]
fn nothing_acknowledged_is_lost_by_kill_9() {
    if let Some(path) = child_path() {
        work_for_ever(&path);
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("jobs.db");
    let mut said = Said::default();
    for kill in 0..KILLS {
        let mut child = start_child(TEST, &path);
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let deadline = 5 + (kill * 37) % 211;
        let mut heard = 0;
        for line in lines.map_while(Result::ok) {
            if said.hear(&line) {
                heard += 1;
            }
            if heard == deadline {
                child.kill().unwrap();
            }
        }
        child.wait().unwrap();
        assert!(heard >= deadline, "the child ended by itself");
        check(&path, &said);
    }
    assert!(said.ended.len() > 50, "too little was done to prove anything");
}

impl Said {
    fn hear(&mut self, line: &str) -> bool {
        let mut words = line.split(' ');
        let (Some("told"), Some(what), Some(id)) = (words.next(), words.next(), words.next()) else {
            return false;
        };
        let Ok(id) = id.parse() else {
            return false;
        };
        match what {
            "enqueued" => assert!(self.enqueued.insert(id), "{id} was made twice"),
            _ => {
                let before = self.ended.insert(id, State::named(what).unwrap());
                assert_eq!(before, None, "{id} ended twice");
            }
        }
        true
    }
}

/// Everything that was acknowledged is there, and the file is sound.
fn check(path: &Path, said: &Said) {
    block_on(async {
        let store = open(path);
        assert_sound(&store).await;
        let ids: Vec<JobId> = said.enqueued.iter().copied().collect();
        let states = store.states(ids.clone()).await.unwrap();
        for (id, state) in ids.into_iter().zip(states) {
            let state = state.unwrap_or_else(|| panic!("job {id} is lost"));
            if let Some(ended) = said.ended.get(&id) {
                assert_eq!(state, *ended, "the ending of job {id} is lost");
            }
        }
        store.close().await;
    });
}

fn work_for_ever(path: &Path) -> ! {
    let store = Arc::new(open(path));
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build();
    runtime.unwrap().block_on(async {
        let mut tasks = tokio::task::JoinSet::new();
        for number in 0..WORKERS {
            tasks.spawn(worker(Arc::clone(&store), number));
        }
        tasks.spawn(upkeep(Arc::clone(&store)));
        while let Some(ended) = tasks.join_next().await {
            ended.unwrap();
        }
    });
    unreachable!("the parent kills this process")
}

async fn upkeep(store: Arc<SqliteJobs>) {
    loop {
        store.sweep_expired(50).await.unwrap();
        store.move_due(50).await.unwrap();
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

fn some_job(round: u64) -> NewJob {
    let mut job = job(300);
    job.max_retries = Some(1);
    job.backoff = Some(Backoff::None);
    if round.is_multiple_of(4) {
        let key = format!("{}", round % 3);
        job.concurrency = Some(Concurrency { key, limit: 2 });
    }
    job
}

async fn worker(store: Arc<SqliteJobs>, number: u64) {
    for round in number.. {
        let new = vec![some_job(round), some_job(round + 1)];
        for answer in store.enqueue(new).await.unwrap() {
            say("enqueued", answer.unwrap().id);
        }
        for job in store.claim(vec![wants(2)]).await.unwrap().remove(0) {
            let lease = job.lease;
            if round.is_multiple_of(5) {
                let failure = Failure {
                    lease,
                    error: "x".into(),
                    terms: FailureTerms::default(),
                };
                let answer = store.fail(vec![failure]).await.unwrap().remove(0);
                if let Ok(Failed::Taken(Next::Failed)) = answer {
                    say("failed", lease.id);
                }
            } else {
                let report = Completion { lease, result: None };
                if store.complete(vec![report]).await.unwrap().remove(0).is_ok() {
                    say("succeeded", lease.id);
                }
            }
        }
    }
}

fn say(what: &str, id: JobId) {
    // One write for each line, so that none is torn by the end.
    let line = format!("told {what} {id}\n");
    std::io::stdout().lock().write_all(line.as_bytes()).ok();
}
