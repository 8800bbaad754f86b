//! `nagaya jobs work`: commands, their exit codes, and their ends.

use nagaya_testkit::{is_alive, wait};

use super::jobs_tools::Server;
use super::*;

/// A worker on the queue `q` that runs a shell script.
fn worker(folder: &Folder, server: &Server, script: &str) -> Process {
    let words = [
        "jobs",
        "work",
        "--queue",
        "q",
        "--grace",
        "300ms",
        "--url",
        &server.url,
        "--",
        "sh",
        "-c",
        script,
    ];
    let launch = Launch::new("nagaya", BINARY)
        .args(words)
        .env("JOB_FOLDER", folder.path());
    Process::start(launch, folder.path()).unwrap()
}

/// Waits for a file that a command writes a process id into.
fn pid_in(folder: &Folder, name: &str) -> u32 {
    let path = folder.path().join(name);
    wait::until("the command to write its process id", LIMIT, || {
        std::fs::read_to_string(&path).is_ok_and(|text| text.ends_with('\n'))
    });
    std::fs::read_to_string(&path).unwrap().trim().parse().unwrap()
}

fn gone(pid: u32) {
    wait::until("the process to end", LIMIT, || !is_alive(pid));
}

#[test]
fn a_commands_output_is_the_result_and_its_errors_are_the_log() {
    let (server, folder) = (Server::start(), Folder::new("work"));
    let script = "echo 0.25 >&3; echo one >&2; \
                  cmp -s - $NAGAYA_JOB_PAYLOAD_FILE && echo \"{\\\"queue\\\": \\\"$NAGAYA_JOB_QUEUE\\\"}\"";
    let worker = worker(&folder, &server, script);
    let ran = server.jobs(&["enqueue", "q", "{\"a\": 1}", "--wait", "--json"]);
    assert_eq!(ran.code, Some(0), "{}{}", ran.stderr, worker.output());
    let job: serde_json::Value = serde_json::from_str(&ran.stdout).unwrap();
    assert_eq!(job["result"]["queue"], "q");
    assert_eq!(job["progress"]["progress"], 0.25);
    assert_eq!(job["log_lines"], 1);
}

#[test]
fn exit_codes_say_whether_a_job_is_tried_again() {
    let (server, folder) = (Server::start(), Folder::new("work"));
    let script =
        "read code; echo $NAGAYA_JOB_ATTEMPT; echo sorry >&2; [ $NAGAYA_JOB_ATTEMPT = 2 ] || exit $code";
    let worker = worker(&folder, &server, script);
    let ran = server.jobs(&["enqueue", "q", "65\n", "--wait"]);
    assert_eq!(ran.code, Some(1), "{}", worker.output());
    assert!(ran.stderr.contains("exit code 65: sorry"), "{}", ran.stderr);
    let ran = server.jobs(&["enqueue", "q", "75", "--wait"]);
    assert_eq!(
        (ran.code, ran.stdout.as_str()),
        (Some(0), "2\n"),
        "{}",
        worker.output()
    );
}

#[test]
fn a_cancelled_job_ends_its_command_and_all_its_children() {
    let (server, folder) = (Server::start(), Folder::new("work"));
    let _worker = worker(
        &folder,
        &server,
        "sleep 600 & echo $! > $JOB_FOLDER/pid; trap '' TERM; wait; wait",
    );
    let id = server.fine(&["enqueue", "q", "1", "--timeout", "1s"]);
    let pid = pid_in(&folder, "pid");
    server.fine(&["cancel", id.trim()]);
    gone(pid);
}

const WAIT_FOR_GO: &str = "echo $$ > $JOB_FOLDER/pid; \
                           while [ ! -e $JOB_FOLDER/go ]; do sleep 0.05; done; echo done";

#[test]
fn sigterm_finishes_what_runs() {
    let (server, folder) = (Server::start(), Folder::new("work"));
    let worker = worker(&folder, &server, WAIT_FOR_GO);
    let id = server.fine(&["enqueue", "q", "1"]);
    pid_in(&folder, "pid");
    worker.terminate();
    std::fs::write(folder.path().join("go"), "").unwrap();
    assert_eq!(worker.wait(LIMIT).unwrap().code(), Some(0), "{}", worker.output());
    assert_eq!(server.show(&id)["result"], "done");
}

#[test]
fn a_second_sigterm_kills_what_runs_and_gives_the_job_back() {
    let (server, folder) = (Server::start(), Folder::new("work"));
    let worker = worker(&folder, &server, WAIT_FOR_GO);
    let id = server.fine(&["enqueue", "q", "1", "--max-retries", "0"]);
    let pid = pid_in(&folder, "pid");
    worker.terminate();
    // Two signals at once would be one.
    wait::until("the drain to begin", LIMIT, || {
        worker.output().contains("finishing what runs")
    });
    worker.terminate();
    assert_eq!(worker.wait(LIMIT).unwrap().code(), Some(1), "{}", worker.output());
    gone(pid);
    let job = server.show(&id);
    assert!(
        job["error"].as_str().unwrap().contains("killed the command"),
        "{job}"
    );
}

#[test]
fn a_killed_worker_takes_its_commands_and_their_children_along() {
    let (server, folder) = (Server::start(), Folder::new("work"));
    let worker = worker(
        &folder,
        &server,
        "echo $$ > $JOB_FOLDER/pid; sleep 600 & echo $! > $JOB_FOLDER/child; wait",
    );
    server.fine(&["enqueue", "q", "1"]);
    let (command, child) = (pid_in(&folder, "pid"), pid_in(&folder, "child"));
    // Only the worker itself: the kit's kill would take its whole family.
    let pid = worker.pid().unwrap();
    let ended = std::process::Command::new("kill")
        .args(["-9", &pid.to_string()])
        .status()
        .unwrap();
    assert!(ended.success());
    gone(command);
    gone(child);
}
