//! Parents and children of processes, read from `/proc`.

use std::fs;

/// Returns all living descendants of a process.
pub fn descendants(root: u32) -> Vec<u32> {
    let parents: Vec<(u32, u32)> = fs::read_dir("/proc")
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .filter_map(|pid| Some((pid, parent_of(pid)?)))
        .collect();
    let mut found = vec![root];
    let mut next = 0;
    while let Some(&parent) = found.get(next) {
        let children = parents.iter().filter(|(_, its_parent)| *its_parent == parent);
        found.extend(children.map(|(pid, _)| pid));
        next += 1;
    }
    found.split_off(1)
}

/// Returns whether a process exists and is not a zombie.
pub fn is_alive(pid: u32) -> bool {
    parent_of(pid).is_some()
}

/// Returns the parent of a living process; `None` for one that has ended or is a zombie.
fn parent_of(pid: u32) -> Option<u32> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name in parentheses may contain anything, so the fields are counted from its end.
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace();
    let alive = !matches!(fields.next()?, "Z" | "X");
    alive.then(|| fields.next()?.parse().ok()).flatten()
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn grandchildren_are_descendants_and_zombies_are_not() {
        let mut child = Command::new("sh")
            .args(["-c", "sleep 1000 & echo $!; wait"])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        let output = child.stdout.take().unwrap();
        std::io::BufRead::read_line(&mut std::io::BufReader::new(output), &mut line).unwrap();
        let grandchild: u32 = line.trim().parse().unwrap();
        assert_eq!(descendants(child.id()), [grandchild]);
        assert!(descendants(std::process::id()).contains(&grandchild));
        let pid = rustix::process::Pid::from_raw(grandchild.cast_signed()).unwrap();
        rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
        child.wait().unwrap();
        assert!(!is_alive(child.id()) && !is_alive(u32::MAX));
    }
}
