//! What the operating system knows about this process, read from /proc.

/// Processor time in seconds.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct CpuTimes {
    pub(super) user: f64,
    pub(super) system: f64,
    pub(super) children_user: f64,
    pub(super) children_system: f64,
}

/// Clock ticks per second in /proc; Linux shows 100 on every architecture we run on.
const TICKS_PER_SECOND: f64 = 100.0;

impl CpuTimes {
    /// Reads the times of this process.
    pub(super) fn of_process() -> CpuTimes {
        CpuTimes::read("/proc/self/stat").unwrap_or_default()
    }

    /// Reads the times of the calling thread.
    pub(super) fn of_thread() -> CpuTimes {
        CpuTimes::read("/proc/thread-self/stat").unwrap_or_default()
    }

    fn read(path: &str) -> Option<CpuTimes> {
        let text = std::fs::read_to_string(path).ok()?;
        // The name in parentheses may hold anything; the numbers begin after it.
        let fields: Vec<&str> = text[text.rfind(')')? + 1..].split_whitespace().collect();
        let seconds = |at: usize| -> Option<f64> {
            let ticks: f64 = fields.get(at)?.parse().ok()?;
            Some(ticks / TICKS_PER_SECOND)
        };
        Some(CpuTimes {
            user: seconds(11)?,
            system: seconds(12)?,
            children_user: seconds(13)?,
            children_system: seconds(14)?,
        })
    }
}

/// Returns the machine's memory, in bytes.
pub(super) fn system_bytes() -> usize {
    kib("/proc/meminfo", "MemTotal:").unwrap_or(0) << 10
}

fn kib(path: &str, field: &str) -> Option<usize> {
    let text = std::fs::read_to_string(path).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix(field))?;
    line.split_whitespace().next()?.parse().ok()
}

/// Returns the system's name, release and architecture.
pub(super) fn system_name() -> String {
    let read = |name| std::fs::read_to_string(format!("/proc/sys/kernel/{name}")).unwrap_or_default();
    let (kind, release) = (read("ostype"), read("osrelease"));
    format!("{} {} {}", kind.trim(), release.trim(), std::env::consts::ARCH)
}

/// Writes a number of bytes for people.
pub(super) fn human(bytes: usize) -> String {
    const UNITS: [(&str, u32); 4] = [("T", 40), ("G", 30), ("M", 20), ("K", 10)];
    match UNITS.iter().find(|(_, shift)| bytes >> shift > 0) {
        Some((unit, shift)) => format!("{:.2}{unit}", bytes as f64 / (1u64 << shift) as f64),
        None => format!("{bytes}B"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nagaya_keyspace::memory::resident_bytes;

    #[test]
    fn sizes_are_shown_as_redis_shows_them() {
        for (bytes, text) in [
            (0, "0B"),
            (1023, "1023B"),
            (1536, "1.50K"),
            (1 << 20, "1.00M"),
            (5 << 30, "5.00G"),
        ] {
            assert_eq!(human(bytes), text);
        }
    }

    #[test]
    fn the_process_has_used_memory_and_time() {
        assert!(resident_bytes() > 1 << 20 && system_bytes() > resident_bytes());
        assert!(CpuTimes::read("/proc/self/stat").is_some());
        assert!(CpuTimes::read("/proc/thread-self/stat").is_some());
    }
}
