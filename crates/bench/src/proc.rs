//! What the kernel knows about a process.

use std::fs;

use anyhow::Context;

/// Returns the CPU seconds the process has used, in user and kernel mode, over all its threads.
pub(super) fn cpu_seconds(pid: u32) -> anyhow::Result<f64> {
    let ticks = cpu_ticks(&read(pid, "stat")?).with_context(|| format!("/proc/{pid}/stat looks odd"))?;
    Ok(ticks as f64 / rustix::param::clock_ticks_per_second() as f64)
}

/// Returns the memory that the process occupies, in bytes.
pub(super) fn resident_bytes(pid: u32) -> anyhow::Result<u64> {
    resident(&read(pid, "status")?).with_context(|| format!("/proc/{pid}/status looks odd"))
}

fn read(pid: u32, file: &str) -> anyhow::Result<String> {
    fs::read_to_string(format!("/proc/{pid}/{file}")).context("a server has gone away")
}

/// Fields 14 and 15; counted from behind the name, which may hold anything.
fn cpu_ticks(stat: &str) -> Option<u64> {
    let (_, fields) = stat.rsplit_once(')')?;
    let mut times = fields.split_ascii_whitespace().skip(11);
    let user: u64 = times.next()?.parse().ok()?;
    let system: u64 = times.next()?.parse().ok()?;
    Some(user + system)
}

fn resident(status: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kilobytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kilobytes * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpu_time_is_read_behind_a_name_with_brackets() {
        let stat = "7 (a) b) S 1 7 7 0 -1 4194304 100 0 0 0 250 50 0 0 20 0 1 0 100 1000 200\n";
        assert_eq!(cpu_ticks(stat), Some(300));
        assert_eq!(cpu_ticks("7 (a) S 1"), None);
    }

    #[test]
    fn resident_memory_is_told_in_bytes() {
        assert_eq!(resident("VmHWM:\t 9 kB\nVmRSS:\t    2048 kB\n"), Some(2 << 20));
        assert_eq!(resident("Name: x\n"), None);
    }

    #[test]
    fn our_own_process_has_memory() {
        assert!(resident_bytes(std::process::id()).unwrap() > 0);
        assert!(cpu_seconds(std::process::id()).unwrap() >= 0.0);
    }
}
