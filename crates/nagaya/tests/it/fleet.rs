//! `nagaya fleet`: managers and agents as processes, and the commands around them.

use super::*;
use nagaya_testkit::{Redis, Signal, is_alive, wait};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::Path;

/// Short enough for tests and long enough for a busy machine.
pub(crate) const QUICK: [&str; 6] = ["--lease", "3s", "--heartbeat", "300ms", "--grace", "500ms"];

/// A worker that says where it runs, and as which process.
const WORKER: &str = r#"
cat > "$1.config"
echo "$NAGAYA_INSTANCE $$ $NAGAYA_EPOCH" > "$1.part" && mv "$1.part" "$1.runs"
while :; do sleep 0.05; done
"#;

/// A Redis, a folder with the list and the workers' notes, and the app's commands.
pub(crate) struct Stage {
    redis: Option<Redis>,
    pub(crate) folder: Folder,
    pub(crate) variables: Vec<(String, String)>,
}

impl Stage {
    fn new(workers: usize) -> Stage {
        let mut stage = Stage::without_redis(workers);
        stage.redis = Some(Redis::start());
        stage
    }

    pub(crate) fn without_redis(workers: usize) -> Stage {
        let folder = Folder::new("fleet");
        std::fs::write(folder.path().join("worker.sh"), WORKER).unwrap();
        let stage = Stage {
            redis: None,
            folder,
            variables: vec![("NAGAYA_FLEET__APP".to_owned(), "devices".to_owned())],
        };
        stage.write_list(0..workers);
        stage
    }

    pub(crate) fn write_list(&self, ids: std::ops::Range<usize>) {
        let objects: Vec<String> = ids.map(|id| format!(r#"{{"id":"d{id}","big":[]}}"#)).collect();
        let path = self.folder.path().join("list.json");
        std::fs::write(path.with_extension("part"), format!("[{}]", objects.join(","))).unwrap();
        std::fs::rename(path.with_extension("part"), path).unwrap();
    }

    fn launch(&self, name: &str, args: &[&str]) -> Launch {
        let mut launch = Launch::new(name, BINARY).args(["fleet"]).args(args);
        if let Some(redis) = &self.redis {
            launch = launch.args(["--redis", &redis.url()]);
        }
        for (name, value) in &self.variables {
            launch = launch.env(name, value);
        }
        launch
    }

    pub(crate) fn start(&self, name: &str, args: &[&str]) -> Process {
        Process::start(self.launch(name, args), self.folder.path()).unwrap()
    }

    fn manager(&self, more: &[&str]) -> Process {
        let flags = ["--source", "file:list.json", "--source-interval", "200ms"];
        self.start("manager", &[&["manager"], &flags[..], &QUICK, more].concat())
    }

    pub(crate) fn agent(&self, name: &str, more: &[&str]) -> Process {
        let flags = ["agent", "--name", name, "--exec", "sh worker.sh {}"];
        self.start(name, &[&flags[..], &QUICK, more].concat())
    }

    /// Runs a command to its end.
    pub(crate) fn run(&self, args: &[&str]) -> Ran {
        static RUNS: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);
        let number = RUNS.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let launch = self.launch(&format!("command{number}"), args);
        finish(Process::start(launch, self.folder.path()).unwrap())
    }

    fn json(&self, args: &[&str]) -> Value {
        let ran = self.run(&[args, &["--json"]].concat());
        serde_json::from_str(&ran.stdout).unwrap_or_else(|_| panic!("{}{}", ran.stdout, ran.stderr))
    }

    /// Which living process runs which worker: instance and process.
    pub(crate) fn running(&self) -> BTreeMap<String, (String, u32)> {
        let mut running = BTreeMap::new();
        for entry in std::fs::read_dir(self.folder.path()).unwrap() {
            let path = entry.unwrap().path();
            if path.extension().is_none_or(|extension| extension != "runs") {
                continue;
            }
            let text = std::fs::read_to_string(&path).unwrap_or_default();
            let words: Vec<&str> = text.split_whitespace().collect();
            let [instance, pid, _epoch] = words[..] else {
                continue;
            };
            let pid: u32 = pid.parse().unwrap();
            if is_alive(pid) {
                let id = path.file_stem().unwrap().to_string_lossy().into_owned();
                running.insert(id, (instance.to_owned(), pid));
            }
        }
        running
    }

    pub(crate) fn runs_on(&self, instance: &str) -> usize {
        self.running().values().filter(|(on, _)| on == instance).count()
    }

    /// A manager, agents `a` and `b`, and all workers running on both.
    fn filled(workers: usize) -> (Stage, Process, Process, Process) {
        let stage = Stage::new(workers);
        let manager = stage.manager(&[]);
        let (a, b) = (stage.agent("a", &[]), stage.agent("b", &[]));
        wait::until("half of the workers run on each", LIMIT, || {
            stage.runs_on("a") == workers / 2 && stage.runs_on("b") == workers / 2
        });
        (stage, manager, a, b)
    }
}

fn list_of(path: &Path, name: &str) -> String {
    std::fs::read_to_string(path.join(name)).unwrap_or_default()
}

#[test]
fn a_killed_agents_workers_die_with_it_and_run_elsewhere() {
    let (stage, _manager, a, _b) = Stage::filled(6);
    let before = stage.running();
    assert!(a.stderr().contains("dark at most"), "{}", a.stderr());
    // Only the process itself: its children must end by other means.
    a.signal(Signal::KILL);
    a.wait(LIMIT).unwrap();
    wait::until("its workers are gone", LIMIT, || {
        before
            .values()
            .filter(|(on, _)| on == "a")
            .all(|(_, pid)| !is_alive(*pid))
    });
    wait::until("all run on the other", LIMIT, || stage.runs_on("b") == 6);
    let list = stage.json(&["list"]);
    assert_eq!(list["instances"][0]["state"], "dead", "{list}");
    assert!(
        list["workers"]
            .as_array()
            .unwrap()
            .iter()
            .all(|one| one["instance"] == "b")
    );
    let events = stage.run(&["events"]);
    assert!(events.stdout.contains("died"), "{}", events.stdout);
    assert_eq!(
        list_of(stage.folder.path(), "d1.config"),
        r#"{"id":"d1","big":[]}"#
    );
}

#[test]
fn a_terminated_agent_hands_its_workers_over_first() {
    let (stage, _manager, a, _b) = Stage::filled(4);
    a.terminate();
    assert_eq!(a.wait(LIMIT).unwrap().code(), Some(0), "{}", a.stderr());
    assert_eq!(stage.runs_on("a"), 0);
    wait::until("all run on the other", LIMIT, || stage.runs_on("b") == 4);
    let list = stage.json(&["list"]);
    assert_eq!(list["instances"].as_array().unwrap().len(), 1, "{list}");
    let events = stage.run(&["events", "--count", "1000", "--json"]).stdout;
    assert!(
        events.contains(r#""what":"left""#) && !events.contains("died"),
        "{events}"
    );
}

#[test]
fn workers_answer_and_who_does_not_is_named() {
    let stage = Stage::new(2);
    let _manager = stage.manager(&[]);
    let a = stage.agent("a", &["--request", "echo {key} of {}"]);
    wait::until("all run", LIMIT, || stage.runs_on("a") == 2);
    let all = stage.run(&["ask", "color"]);
    assert_eq!(all.code, Some(0), "{}", all.stderr);
    assert!(
        all.stdout.contains("color of d0") && all.stdout.contains("color of d1"),
        "{}",
        all.stdout
    );
    let one = stage.json(&["ask", "color", "--worker", "d1"]);
    assert_eq!(one["answers"], serde_json::json!({"d1": "color of d1"}));
    let nobody = stage.run(&["ask", "color", "--worker", "d9"]);
    assert_eq!(nobody.code, Some(1));
    assert!(nobody.stderr.contains("NOT_INSTALLED"), "{}", nobody.stderr);
    a.stop();
    let silent = stage.run(&["ask", "color", "--timeout", "500ms", "--json"]);
    assert_eq!(silent.code, Some(1));
    assert!(
        silent.stdout.contains("\"silent\": [\n    \"a\""),
        "{}",
        silent.stdout
    );
    a.cont();
}

#[test]
fn plans_are_shown_and_moves_and_drains_are_carried_out() {
    let stage = Stage::new(4);
    let _manager = stage.manager(&["--no-rebalance"]);
    let _a = stage.agent("a", &[]);
    wait::until("all run on one", LIMIT, || stage.runs_on("a") == 4);
    let refused = stage.run(&["relocate", "d0", "--force"]);
    assert_eq!(refused.code, Some(1));
    assert!(
        refused.stderr.contains("NO_OTHER_ACCEPTABLE_WORKER"),
        "{}",
        refused.stderr
    );
    let _b = stage.agent("b", &[]);
    wait::until("the other has joined", LIMIT, || {
        stage.json(&["list"])["instances"].as_array().unwrap().len() == 2
    });
    let plan = stage.json(&["plan"]);
    assert_eq!(
        (&plan["moves"], &plan["lower_bound"]),
        (&2.into(), &2.into()),
        "{plan}"
    );
    let shown = stage.run(&["plan"]).stdout;
    assert!(shown.contains("spread 4 -> 0"), "{shown}");
    assert_eq!(stage.runs_on("a"), 4, "showing it changed nothing");
    let unforced = stage.run(&["relocate", "d0"]);
    assert!(
        unforced.stderr.contains("NO_NEED_TO_RELOCATE"),
        "{}",
        unforced.stderr
    );
    assert_eq!(stage.run(&["relocate", "d0", "--force"]).stdout, "d0 goes to b\n");
    wait::until("it has moved", LIMIT, || stage.runs_on("b") == 1);
    let all = stage.run(&["relocate", "--all"]);
    assert_eq!(all.stdout, "1 workers are asked to move\n", "{}", all.stderr);
    wait::until("shares are equal", LIMIT, || {
        stage.runs_on("a") == 2 && stage.runs_on("b") == 2
    });
    let drained = stage.run(&["drain", "a"]);
    assert_eq!(
        drained.stdout, "a is drained of 2 workers\n",
        "{}",
        drained.stderr
    );
    wait::until("it is empty", LIMIT, || stage.runs_on("b") == 4);
    assert_eq!(stage.json(&["drain", "a", "--off"])["draining"], false);
}

#[test]
fn a_list_that_stops_too_much_is_held_until_it_is_confirmed() {
    let stage = Stage::new(10);
    let _manager = stage.manager(&[]);
    let _a = stage.agent("a", &["--capacity", "8"]);
    wait::until("as many run as fit", LIMIT, || stage.runs_on("a") == 8);
    let nothing = stage.run(&["confirm"]);
    assert_eq!(
        (nothing.code, nothing.stdout.as_str()),
        (Some(1), "nothing that fits is held\n")
    );
    stage.write_list(0..0);
    let confirmed = wait::value("the stops are held", LIMIT, || {
        let ran = stage.run(&["confirm"]);
        (ran.code == Some(0)).then_some(ran.stdout)
    });
    assert_eq!(confirmed, "the stops of 10 of 10 workers are confirmed\n");
    wait::until("all are stopped", LIMIT, || stage.running().is_empty());
}

#[test]
fn what_is_missing_is_named_with_its_remedy() {
    let check = |args: &[&str], code: i32, parts: &[&str]| {
        let ran = run([&["fleet"], args].concat());
        assert_eq!(ran.code, Some(code), "{args:?}: {}", ran.stderr);
        for part in parts {
            assert!(ran.stderr.contains(part), "{args:?}: {}", ran.stderr);
        }
    };
    check(&["list"], 1, &["nothing answers at", "nagaya up", "--redis"]);
    check(
        &["list", "--app", "x"],
        1,
        &["nothing answers at", "nagaya up", "--redis"],
    );
    check(&["agent", "--app", "x"], 2, &["--exec"]);
    check(&["relocate", "--app", "x"], 2, &["--all"]);
    let timing = ["simulate", "--death", "1s"];
    check(
        &timing,
        1,
        &["a death after 1s comes before the end of a lease of 5s"],
    );
    let open = ["manager", "--app", "x", "--http-listen", "0.0.0.0:0"];
    check(&open, 1, &["--insecure"]);
    check(
        &["manager", "--app", "x", "--source", "ftp://x"],
        1,
        &["--source cannot be used"],
    );
}

#[test]
fn the_simulator_finds_nothing_by_default_and_what_is_wrong_if_told() {
    let fine = run(["fleet", "simulate", "--seeds", "20"]);
    assert_eq!(fine.code, Some(0), "{}{}", fine.stdout, fine.stderr);
    assert!(
        fine.stdout.contains("20 worlds") && fine.stdout.contains("no world had two"),
        "{}",
        fine.stdout
    );
    let flags = ["--seeds", "400", "--death", "1s", "--unsafe-timing", "--json"];
    let wrong = run([&["fleet", "simulate"], &flags[..]].concat());
    assert_eq!(wrong.code, Some(1), "{}", wrong.stderr);
    let found: Value = serde_json::from_str(&wrong.stdout).unwrap();
    assert!(found["failure"]["violation"].is_string(), "{found}");
}
