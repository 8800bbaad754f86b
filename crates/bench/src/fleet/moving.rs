//! Workers as processes: from a start, a kill, a leave and a cut until they run again.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use anyhow::{Context, bail};
use nagaya_clock::{BootTime, boot_now};
use nagaya_process::spawn_child;
use rustix::process::{Pid, Signal, kill_process};

use super::{Plan, Row};
use crate::progress;
use crate::servers::{Server, Side};

/// How long anything may take before the run is given up.
const PATIENCE: Duration = Duration::from_secs(60);
const POLL_INTERVAL: Duration = Duration::from_millis(5);

/// A worker that writes when it starts, on which instance, and when it was told to end.
const WORKER: &str = r#"
note() { echo "$1 $2 $NAGAYA_INSTANCE $(cut -d' ' -f1 /proc/uptime)" >> notes; }
trap 'note end "$1"; exit 0' TERM
note start "$1"
while :; do note alive "$1"; sleep 0.05; done
"#;

pub(super) fn measure(plan: &Plan, folder: &Path) -> anyhow::Result<Vec<Row>> {
    let server = Server::start_with(Side::Redis, &plan.programs, folder, &[])?;
    let stage = Stage::new(plan, folder)?;
    let count = plan.moved;
    let mut rows = Vec::new();

    let begun = boot_now();
    let _manager = stage.start(
        "manager",
        &["manager", "--source", "file:list.json"],
        server.address,
    )?;
    let first = stage.agent("first", server.address)?;
    stage.wait("the first worker runs", |notes| {
        !notes.running_on("first").is_empty()
    })?;
    let took = boot_now().since(begun);
    rows.push(Row::new("cold start to the first worker", "6.7 s", took, "-"));

    let _second = stage.agent("second", server.address)?;
    stage.wait("half of them run on each", |notes| {
        notes.running_on("first").len() == count / 2 && notes.running_on("second").len() == count / 2
    })?;
    let killed = boot_now();
    first.signal(Signal::KILL)?;
    stage.wait("all run on the second", |notes| {
        notes.running_on("second").len() == count
    })?;
    let took = boot_now().since(killed);
    rows.push(Row::new(
        "kill -9 until all run elsewhere",
        "19.5 s",
        took,
        "< 10 s",
    ));

    let third = stage.agent("third", server.address)?;
    stage.wait("half of them run on each", |notes| {
        notes.running_on("third").len() == count / 2
    })?;
    third.signal(Signal::TERM)?;
    stage.wait("all run on the second", |notes| {
        notes.running_on("second").len() == count
    })?;
    let dark = stage.notes()?.longest_gap("third", "second");
    rows.push(Row::new(
        "graceful leave, longest dark time",
        "12.5 s",
        dark,
        "< 1 s",
    ));

    let link = Link::start(server.address)?;
    let _fourth = stage.agent("fourth", link.address)?;
    stage.wait("half of them run on each", |notes| {
        notes.running_on("fourth").len() == count / 2
    })?;
    let seconds = plan.partition.as_secs();
    progress(&format!("an agent is cut off for {seconds} s"));
    link.cut(true);
    thread::sleep(plan.partition);
    link.cut(false);
    stage.wait("it has its share again", |notes| {
        notes.running_on("fourth").len() == count / 2
    })?;
    let double = stage.notes()?.double_run();
    let what = format!("agent cut off for {seconds} s: longest time with two copies");
    rows.push(Row::new(what, "146 s", double, "0 s"));
    Ok(rows)
}

struct Stage<'a> {
    plan: &'a Plan,
    folder: PathBuf,
}

/// A child that ends with us, and with this value.
struct Running(Child);

impl Running {
    fn signal(&self, signal: Signal) -> anyhow::Result<()> {
        let pid = i32::try_from(self.0.id()).ok().and_then(Pid::from_raw);
        kill_process(pid.context("a process has an id")?, signal).context("the signal was not sent")
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Stage<'_> {
    fn new<'a>(plan: &'a Plan, folder: &Path) -> anyhow::Result<Stage<'a>> {
        let folder = folder.join("moving");
        fs::create_dir_all(&folder)?;
        fs::write(folder.join("worker.sh"), WORKER)?;
        fs::write(folder.join("notes"), "")?;
        let ids: Vec<String> = (0..plan.moved)
            .map(|at| format!("{{\"id\":\"w{at}\"}}"))
            .collect();
        fs::write(folder.join("list.json"), format!("[{}]", ids.join(",")))?;
        Ok(Stage { plan, folder })
    }

    fn start(&self, name: &str, words: &[&str], redis: SocketAddr) -> anyhow::Result<Running> {
        let log = File::create(self.folder.join(format!("{name}.log")))?;
        let mut command = Command::new(&self.plan.programs.nagaya.path);
        command
            .arg("fleet")
            .args(words)
            .args(["--app", "bench", "--redis", &format!("redis://{redis}")]);
        command.current_dir(&self.folder).stdin(Stdio::null());
        command.stdout(log.try_clone()?).stderr(log);
        let child = spawn_child(command).with_context(|| format!("cannot start {name}"))?;
        Ok(Running(child))
    }

    fn agent(&self, name: &str, redis: SocketAddr) -> anyhow::Result<Running> {
        let words = ["agent", "--name", name, "--exec", "sh worker.sh {}"];
        self.start(name, &words, redis)
    }

    fn notes(&self) -> anyhow::Result<Notes> {
        let text = fs::read_to_string(self.folder.join("notes"))?;
        Ok(Notes {
            lines: text.lines().filter_map(Note::parse).collect(),
        })
    }

    fn wait(&self, what: &str, is_so: impl Fn(&Notes) -> bool) -> anyhow::Result<()> {
        let begun = boot_now();
        while !is_so(&self.notes()?) {
            if boot_now().since(begun) > PATIENCE + self.plan.partition {
                bail!("not in time: {what}; see the logs in {}", self.folder.display());
            }
            thread::sleep(POLL_INTERVAL);
        }
        Ok(())
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum What {
    Start,
    Alive,
    End,
}

struct Note {
    what: What,
    worker: String,
    instance: String,
    at: Duration,
}

impl Note {
    fn parse(line: &str) -> Option<Note> {
        let words: Vec<&str> = line.split(' ').collect();
        let [what, worker, instance, at] = words[..] else {
            return None;
        };
        let what = match what {
            "start" => What::Start,
            "alive" => What::Alive,
            _ => What::End,
        };
        Some(Note {
            what,
            worker: worker.to_owned(),
            instance: instance.to_owned(),
            at: Duration::from_secs_f64(at.parse().ok()?),
        })
    }
}

/// All that the workers wrote, in the order in which it was written.
struct Notes {
    lines: Vec<Note>,
}

/// A live worker has written within this time.
const ALIVE_WITHIN: Duration = Duration::from_millis(400);

impl Notes {
    /// Workers whose last start was on this instance.
    fn running_on(&self, instance: &str) -> Vec<&str> {
        let mut last: BTreeMap<&str, &Note> = BTreeMap::new();
        for note in &self.lines {
            last.insert(&note.worker, note);
        }
        let now = boot_now().since(BootTime::ZERO);
        let lives = |note: &&Note| {
            note.what != What::End && note.instance == instance && note.at + ALIVE_WITHIN > now
        };
        last.into_iter()
            .filter(|(_, note)| lives(note))
            .map(|(worker, _)| worker)
            .collect()
    }

    /// The longest time between a worker's end on one instance and its start on another.
    fn longest_gap(&self, from: &str, to: &str) -> Duration {
        let mut ended: BTreeMap<&str, Duration> = BTreeMap::new();
        let mut longest = Duration::ZERO;
        for note in &self.lines {
            if note.what == What::End && note.instance == from {
                ended.insert(&note.worker, note.at);
            } else if note.what == What::Start && note.instance == to {
                let gap = ended
                    .remove(note.worker.as_str())
                    .map(|end| note.at.saturating_sub(end));
                longest = longest.max(gap.unwrap_or_default());
            }
        }
        longest
    }

    /// The longest time for which a worker wrote on after another copy of it had started.
    fn double_run(&self) -> Duration {
        let mut starts: BTreeMap<&str, (&str, Duration)> = BTreeMap::new();
        let mut longest = Duration::ZERO;
        for note in &self.lines {
            if note.what == What::Start {
                starts.insert(&note.worker, (&note.instance, note.at));
            } else if let Some((instance, since)) = starts.get(note.worker.as_str())
                && *instance != note.instance
            {
                longest = longest.max(note.at.saturating_sub(*since));
            }
        }
        longest
    }
}

/// A way to Redis that can be cut.
struct Link {
    address: SocketAddr,
    is_cut: Arc<AtomicBool>,
    open: Arc<Mutex<Vec<TcpStream>>>,
}

impl Link {
    fn start(server: SocketAddr) -> anyhow::Result<Link> {
        let listener = TcpListener::bind("127.0.0.1:0").context("cannot listen")?;
        let link = Link {
            address: listener.local_addr()?,
            is_cut: Arc::default(),
            open: Arc::default(),
        };
        let (is_cut, open) = (link.is_cut.clone(), link.open.clone());
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                if is_cut.load(Ordering::Relaxed) {
                    continue;
                }
                // The client retries when a connection cannot be made.
                let _ = join(client, server, &open);
            }
        });
        Ok(link)
    }

    fn cut(&self, cut: bool) {
        self.is_cut.store(cut, Ordering::Relaxed);
        for stream in self.open.lock().expect("nothing panics here").drain(..) {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }
}

fn join(client: TcpStream, server: SocketAddr, open: &Mutex<Vec<TcpStream>>) -> std::io::Result<()> {
    let server = TcpStream::connect(server)?;
    let pairs = [
        (client.try_clone()?, server.try_clone()?),
        (server.try_clone()?, client.try_clone()?),
    ];
    open.lock().expect("nothing panics here").extend([client, server]);
    for (from, to) in pairs {
        thread::spawn(move || pump(from, to));
    }
    Ok(())
}

fn pump(mut from: TcpStream, mut to: TcpStream) {
    let mut buffer = [0; 16 * 1024];
    while let Ok(read @ 1..) = from.read(&mut buffer) {
        if to.write_all(&buffer[..read]).is_err() {
            break;
        }
    }
    let _ = to.shutdown(Shutdown::Both);
}
