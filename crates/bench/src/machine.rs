//! The machine and the versions that a run's figures belong to.

use std::fs;
use std::path::Path;
use std::process::Command;

use serde::Serialize;

use super::plan::Programs;

const UNKNOWN: &str = "unknown";

#[derive(Serialize)]
pub(super) struct Machine {
    cores: usize,
    cpu: String,
    memory: String,
    kernel: String,
}

#[derive(Serialize)]
pub(super) struct Versions {
    nagaya: String,
    redis_server: String,
    redis_benchmark: String,
}

impl Machine {
    pub(super) fn this() -> Machine {
        let field = |file: &str, name: &str| {
            let text = fs::read_to_string(file).unwrap_or_default();
            let value = text
                .lines()
                .find(|line| line.starts_with(name))
                .and_then(|line| line.split_once(':'));
            value.map_or_else(|| UNKNOWN.to_owned(), |(_, value)| value.trim().to_owned())
        };
        let kernel = fs::read_to_string("/proc/sys/kernel/osrelease");
        Machine {
            cores: std::thread::available_parallelism().map_or(0, usize::from),
            cpu: field("/proc/cpuinfo", "model name"),
            memory: field("/proc/meminfo", "MemTotal"),
            kernel: kernel.map_or_else(|_| UNKNOWN.to_owned(), |text| format!("Linux {}", text.trim())),
        }
    }

    pub(super) fn facts(&self) -> Vec<(&'static str, String)> {
        vec![
            ("cores", self.cores.to_string()),
            ("CPU", self.cpu.clone()),
            ("memory", self.memory.clone()),
            ("kernel", self.kernel.clone()),
        ]
    }
}

impl Versions {
    pub(super) fn of(programs: &Programs) -> Versions {
        Versions {
            nagaya: programs.nagaya.version.clone(),
            redis_server: first_line(&programs.redis_server),
            redis_benchmark: first_line(&programs.redis_benchmark),
        }
    }

    pub(super) fn facts(&self) -> Vec<(&'static str, String)> {
        vec![
            ("nagaya", self.nagaya.clone()),
            ("redis-server", self.redis_server.clone()),
            ("redis-benchmark", self.redis_benchmark.clone()),
        ]
    }
}

/// What a program says to `--version`.
fn first_line(program: &Path) -> String {
    let output = Command::new(program).arg("--version").output().ok();
    let text = output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned());
    let line = text.as_deref().and_then(|text| text.lines().next());
    line.unwrap_or(UNKNOWN).to_owned()
}
