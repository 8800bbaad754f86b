//! The peers: installed once under `target/`, run by the small scripts of `bench/peers`.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, bail};
use nagaya_process::spawn_child;
use serde::Deserialize;
use serde_json::json;

use super::options::{Plan, Subject};
use super::postgres::Postgres;
use super::report::Figure;
use crate::progress;
use crate::servers::free_address;

/// What npm installs; also a Node that is new enough for all of them.
pub(super) const NODE_PACKAGES: [&str; 6] = [
    "graphile-worker@0.18.0",
    "pg-boss@12.30.0",
    "bullmq@6.7.0",
    "ioredis@6.0.0",
    "pg@8.23.1",
    "node@22.23.3",
];
/// What pip installs.
pub(super) const PYTHON_PACKAGES: [&str; 1] = ["procrastinate==3.10.0"];
/// More than this takes the slowest peer the better part of an hour.
const PROCRASTINATE_JOBS_MAX: u64 = 2_000;

/// A line that a runner prints.
#[derive(Deserialize)]
struct Line {
    part: String,
    jobs: u64,
    seconds: f64,
    rate: Option<f64>,
    p50_ms: Option<f64>,
    p99_ms: Option<f64>,
}

pub(super) fn run(
    plan: &Plan,
    subject: Subject,
    postgres: Option<&Postgres>,
    folder: &Path,
) -> anyhow::Result<Vec<Figure>> {
    let scripts = checkout()?.join("bench/peers");
    let peers = std::path::absolute(&plan.peers)?;
    let mut command = match subject {
        Subject::GraphileWorker => node(&peers, &scripts, "graphile.mjs")?,
        Subject::PgBoss => node(&peers, &scripts, "pg-boss.mjs")?,
        Subject::Bullmq => node(&peers, &scripts, "bullmq.mjs")?,
        Subject::Procrastinate => python(&peers, &scripts)?,
        _ => bail!("{} is no peer", subject.name()),
    };
    let (url, redis) = match (subject, postgres) {
        (Subject::Bullmq, _) => (String::new(), Some(Redis::start(folder)?)),
        (_, Some(postgres)) => (postgres.database()?, None),
        (_, None) => bail!("PostgreSQL is not running"),
    };
    let slow = subject == Subject::Procrastinate;
    let share = |jobs: u64| {
        if slow {
            jobs.min(PROCRASTINATE_JOBS_MAX)
        } else {
            jobs
        }
    };
    let single: Vec<_> = plan
        .single
        .iter()
        .map(|&(clients, jobs)| (clients, share(jobs)))
        .collect();
    let told = json!({
        "url": url,
        "redis": redis.as_ref().map(|redis| redis.url.clone()),
        "jobs": share(plan.jobs),
        "single": single,
        "latency_seconds": plan.latency.as_secs(),
    });
    command.env("NAGAYA_BENCH_PLAN", told.to_string());
    command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null());
    let mut child = spawn_child(command).context("the runner cannot be started")?;
    let stdout = child.stdout.take().context("the runner has no output")?;
    let mut figures = Vec::new();
    for line in BufReader::new(stdout).lines() {
        let line: Line = match serde_json::from_str(&line?) {
            Ok(line) => line,
            Err(_) => continue,
        };
        progress(&format!(
            "  {}: {:.0} jobs/s",
            line.part,
            line.jobs as f64 / line.seconds
        ));
        figures.push(figure(subject, line));
    }
    let status = child.wait()?;
    if !status.success() {
        bail!("its runner ended with {status}");
    }
    Ok(figures)
}

fn figure(subject: Subject, line: Line) -> Figure {
    Figure {
        rate: line.rate,
        p50_ms: line.p50_ms,
        p99_ms: line.p99_ms,
        ..Figure::speed(subject.name(), line.part, line.jobs, line.seconds)
    }
}

/// A runner for Node. The script is copied to where the packages are: Node looks for them beside it.
fn node(peers: &Path, scripts: &Path, script: &str) -> anyhow::Result<Command> {
    let folder = peers.join("node");
    let marker = folder.join("node_modules/graphile-worker");
    if !marker.is_dir() {
        progress("installing the Node peers");
        fs::create_dir_all(&folder)?;
        fs::write(folder.join("package.json"), "{\"private\": true}\n")?;
        let mut install = Command::new("npm");
        install
            .args(["install", "--no-audit", "--no-fund", "--save-exact"])
            .args(NODE_PACKAGES);
        run_quietly(install.current_dir(&folder)).context("npm install failed")?;
    }
    for name in ["common.mjs", script] {
        fs::copy(scripts.join(name), folder.join(name))?;
    }
    let mut command = Command::new(folder.join("node_modules/.bin/node"));
    command.arg(folder.join(script));
    Ok(command)
}

fn python(peers: &Path, scripts: &Path) -> anyhow::Result<Command> {
    let folder = peers.join("python");
    let program = folder.join("bin/python");
    if !folder.join("bin/procrastinate").is_file() {
        progress("installing the Python peer");
        run_quietly(Command::new("python3").args(["-m", "venv"]).arg(&folder))?;
        run_quietly(
            Command::new(&program)
                .args(["-m", "pip", "install", "--quiet"])
                .args(PYTHON_PACKAGES),
        )
        .context("pip install failed")?;
    }
    let mut command = Command::new(program);
    command.arg(scripts.join("procrastinate_runner.py"));
    Ok(command)
}

fn run_quietly(command: &mut Command) -> anyhow::Result<()> {
    let output = command.stdin(Stdio::null()).output()?;
    if !output.status.success() {
        bail!("{}", String::from_utf8_lossy(&output.stderr).trim());
    }
    Ok(())
}

fn checkout() -> anyhow::Result<PathBuf> {
    let here = std::env::current_dir()?;
    let found = here
        .ancestors()
        .find(|folder| folder.join("bench/peers/common.mjs").is_file());
    found
        .map(Path::to_owned)
        .context("the peers' runners are in a checkout; run it from one")
}

/// A Redis for BullMQ, with the append-only file that its users have.
struct Redis {
    url: String,
    child: std::process::Child,
}

impl Redis {
    fn start(folder: &Path) -> anyhow::Result<Redis> {
        let folder = folder.join("bullmq-redis");
        fs::create_dir_all(&folder)?;
        let address = free_address()?;
        let mut command = Command::new("redis-server");
        command.args([
            "--port",
            &address.port().to_string(),
            "--bind",
            "127.0.0.1",
            "--save",
            "",
        ]);
        command
            .args(["--appendonly", "yes", "--appendfsync", "everysec", "--dir"])
            .arg(&folder);
        command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        let child = spawn_child(command).context("redis-server cannot be started")?;
        let redis = Redis {
            url: format!("redis://{address}"),
            child,
        };
        for _ in 0..200 {
            if std::net::TcpStream::connect(address).is_ok() {
                return Ok(redis);
            }
            std::thread::sleep(std::time::Duration::from_millis(50));
        }
        bail!("redis-server does not answer at {address}")
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}
