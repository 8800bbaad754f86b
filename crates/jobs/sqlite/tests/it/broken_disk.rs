//! A disk that fails in the middle of a write.
//!
//! A limit on the size of files makes the kernel refuse a write with another error than a full disk, which
//! SQLite cannot distinguish from a broken one.

use std::io::Write;
use std::path::Path;

use nagaya_jobs::store::{JobQueue, JobReader, QueueAdmin, StoreControl};
use nagaya_jobs::{Error, JobId, State};

use crate::support::{assert_sound, block_on, child, child_path, job, one_test, open};

const TEST: &str = "broken_disk::a_failed_write_stops_the_store_and_loses_nothing_acknowledged";

#[test]
fn a_failed_write_stops_the_store_and_loses_nothing_acknowledged() {
    if let Some(path) = child_path() {
        return write_until_it_breaks(&path);
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("jobs.db");
    // The signal is ignored, so that the write fails instead of ending the process.
    let script = "trap '' XFSZ; ulimit -f 3000; exec \"$0\" \"$@\"";
    let binary = std::env::current_exe().unwrap();
    let mut shell = child("bash", &path);
    shell.args(["-c", script]).arg(binary).args(one_test(TEST));
    let output = shell.output().unwrap();
    let said = String::from_utf8(output.stdout).unwrap();
    assert!(said.contains("stopped for good"), "{said}");
    let ids: Vec<JobId> = said
        .lines()
        .filter_map(|line| line.strip_prefix("told ")?.parse().ok())
        .collect();
    assert!(ids.len() > 20, "{said}");
    block_on(async {
        let store = open(&path);
        assert_sound(&store).await;
        let states = store.states(ids).await.unwrap();
        assert!(states.iter().all(|state| *state == Some(State::Waiting)));
        store.close().await;
    });
}

fn write_until_it_breaks(path: &Path) {
    block_on(async {
        let store = open(path);
        let mut stdout = std::io::stdout();
        for _ in 0..10_000 {
            match store.enqueue(vec![job(20_000)]).await {
                Ok(answers) => {
                    let id = answers.into_iter().next().unwrap().unwrap().id;
                    writeln!(stdout, "told {id}").unwrap();
                }
                Err(Error::Stopped { .. }) => break,
                Err(error) => panic!("{error:?}"),
            }
        }
        // Not even a small write is accepted: the state on disk is unknown.
        for _ in 0..3 {
            let answer = store.enqueue(vec![job(1)]).await;
            assert!(matches!(answer, Err(Error::Stopped { .. })));
        }
        assert!(
            store
                .set_paused(nagaya_jobs::QueueName::new("q").unwrap(), true)
                .await
                .is_err()
        );
        writeln!(stdout, "stopped for good").unwrap();
    });
}
