//! What the tests share.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use nagaya_jobs::clock::SystemClock;
use nagaya_jobs::job::{Body, NewJob};
use nagaya_jobs::request::{ClaimRequest, Finding};
use nagaya_jobs::store::StoreControl;
use nagaya_jobs::{QueueName, TenantId};
use nagaya_jobs_sqlite::{Options, SqliteJobs};

/// Where a child finds the path of its store.
const CHILD: &str = "NAGAYA_JOBS_TEST_CHILD";

/// The path of the store when this process is a child that a test started.
pub(crate) fn child_path() -> Option<PathBuf> {
    std::env::var_os(CHILD).map(PathBuf::from)
}

/// The arguments with which this test binary runs one test.
pub(crate) fn one_test(test: &str) -> [&str; 4] {
    [test, "--exact", "--nocapture", "--test-threads=1"]
}

/// A program that will find the path of the store and whose words are heard.
pub(crate) fn child(program: impl AsRef<OsStr>, path: &Path) -> Command {
    let mut command = Command::new(program);
    command
        .env(CHILD, path)
        .stdout(Stdio::piped())
        .stderr(Stdio::null());
    command
}

pub(crate) fn start_child(test: &str, path: &Path) -> Child {
    let mut command = child(std::env::current_exe().unwrap(), path);
    command.args(one_test(test)).spawn().unwrap()
}

pub(crate) fn open_with(path: &Path, options: &Options) -> SqliteJobs {
    SqliteJobs::open(path, options, Arc::new(SystemClock)).unwrap()
}

pub(crate) fn open(path: &Path) -> SqliteJobs {
    open_with(path, &Options::default())
}

pub(crate) fn block_on<T>(work: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.unwrap().block_on(work)
}

pub(crate) fn job(bytes: usize) -> NewJob {
    let payload = Body::json(vec![b'1'; bytes]);
    let mut job = NewJob::new(TenantId::default_tenant(), QueueName::new("q").unwrap(), payload);
    job.timeout = Some(Duration::from_secs(1));
    job
}

pub(crate) fn wants(max: usize) -> ClaimRequest {
    ClaimRequest {
        worker: "w".into(),
        queues: vec![QueueName::new("q").unwrap()],
        tenant: None,
        max,
        lease: None,
    }
}

pub(crate) async fn assert_sound(store: &SqliteJobs) {
    assert_eq!(store.check().await.unwrap(), Vec::<Finding>::new());
}
