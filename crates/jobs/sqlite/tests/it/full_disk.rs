//! A disk with no room left.

use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use nagaya_jobs::error::Fault;
use nagaya_jobs::queue::Counted;
use nagaya_jobs::request::Completion;
use nagaya_jobs::store::{JobQueue, JobReader, QueueAdmin, StoreControl};
use nagaya_jobs::{Error, JobId, State, Visibility};
use nagaya_jobs_sqlite::{Options, SqliteJobs};

use crate::support::{assert_sound, block_on, job, open, open_with, wants};

/// Registers jobs, several callers at a time, until nothing fits any more. Returns those acknowledged.
async fn fill(store: &SqliteJobs) -> Vec<JobId> {
    let mut ids = Vec::new();
    loop {
        let calls = (0..4).map(|_| store.enqueue(vec![job(20_000), job(100)]));
        let mut full = false;
        for answer in futures_util::future::join_all(calls).await {
            match answer {
                Ok(answers) => ids.extend(answers.into_iter().map(|answer| answer.unwrap().id)),
                Err(error @ Error::Full(_)) => {
                    assert!(error.is_retryable() && error.fault() == Fault::Store);
                    full = true;
                }
                Err(error) => panic!("{error:?}"),
            }
        }
        if full {
            return ids;
        }
    }
}

async fn assert_there(store: &SqliteJobs, ids: &[JobId]) {
    let states = store.states(ids.to_vec()).await.unwrap();
    assert!(states.iter().all(|state| *state == Some(State::Waiting)));
    let depth = store
        .queues(Visibility::everything(), Counted::All)
        .await
        .unwrap()[0]
        .depth;
    assert_eq!(
        depth.ready,
        ids.len() as u64,
        "what was refused left nothing behind"
    );
    assert_sound(store).await;
}

async fn finish_all(store: &SqliteJobs, count: usize) {
    let mut finished = 0;
    while finished < count {
        for job in store.claim(vec![wants(100)]).await.unwrap().remove(0) {
            let report = Completion {
                lease: job.lease,
                result: None,
            };
            store.complete(vec![report]).await.unwrap().remove(0).unwrap();
            finished += 1;
        }
    }
    assert_sound(store).await;
}

#[test]
fn a_full_database_refuses_and_goes_on_with_more_room() {
    block_on(async {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("jobs.db");
        let options = Options {
            database_bytes_max: Some(4 << 20),
            ..Options::default()
        };
        let store = open_with(&path, &options);
        let ids = fill(&store).await;
        assert!(ids.len() > 50);
        assert_there(&store, &ids).await;
        store.close().await;
        let store = open(&path);
        assert_there(&store, &ids).await;
        finish_all(&store, ids.len()).await;
    });
}

/// A small file system in memory, until it is dropped.
struct SmallDisk(tempfile::TempDir);

impl SmallDisk {
    /// Nothing when this process may not mount; then only the bound of the database above is tested.
    fn mount(size: &str) -> Option<SmallDisk> {
        let folder = tempfile::tempdir().unwrap();
        let mount = |path: &Path| {
            let size = format!("size={size}");
            let mut command = Command::new("mount");
            command.args(["-t", "tmpfs", "-o", &size, "tmpfs"]).arg(path);
            command.output().is_ok_and(|output| output.status.success())
        };
        mount(folder.path()).then_some(SmallDisk(folder))
    }

    fn resize(&self, size: &str) {
        let size = format!("remount,size={size}");
        let mut command = Command::new("mount");
        let status = command.args(["-o", &size]).arg(self.0.path()).status();
        assert!(status.unwrap().success());
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        Command::new("umount").arg(self.0.path()).status().unwrap();
    }
}

#[test]
fn a_full_disk_refuses_and_the_same_store_goes_on_with_room() {
    let Some(disk) = SmallDisk::mount("6m") else {
        eprintln!("not tested: this process may not mount a tmpfs");
        return;
    };
    block_on(async {
        let path = disk.0.path().join("jobs.db");
        let store = Arc::new(open(&path));
        let ids = fill(&store).await;
        assert!(ids.len() > 20);
        assert_there(&store, &ids).await;
        disk.resize("64m");
        finish_all(&store, ids.len()).await;
        store.close().await;
        drop(store);
        let store = open(&path);
        assert_sound(&store).await;
        let states = store.states(ids).await.unwrap();
        assert!(states.iter().all(|state| *state == Some(State::Succeeded)));
        store.close().await;
    });
}
