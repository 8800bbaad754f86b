//! The examples work.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use crate::fake::Fake;

fn example(name: &str) -> Command {
    let test = std::env::current_exe().unwrap();
    let folder: PathBuf = test.ancestors().nth(2).unwrap().join("examples");
    Command::new(folder.join(name))
}

#[tokio::test(flavor = "multi_thread")]
async fn the_examples_shout_together() {
    let fake = Fake::start().await;
    let mut worker = example("worker")
        .arg(&fake.url)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let url = fake.url.clone();
    let asked = tokio::task::spawn_blocking(move || example("enqueue").args([&url, "quiet"]).output());
    let output = asked.await.unwrap().unwrap();
    worker.kill().unwrap();
    worker.wait().unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stdout), "QUIET\n");
}
