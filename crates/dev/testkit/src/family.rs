//! Process ancestry, read from `/proc`.

use std::fs;

/// All living descendants of a process.
pub(crate) fn descendants(root: u32) -> Vec<u32> {
    let parents: Vec<(u32, u32)> = fs::read_dir("/proc")
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .filter_map(|pid| Some((pid, parent_of(pid)?)))
        .collect();
    let mut found = vec![root];
    let mut seen = 0;
    while let Some(&parent) = found.get(seen) {
        found.extend(
            parents
                .iter()
                .filter(|(_, its_parent)| *its_parent == parent)
                .map(|(pid, _)| pid),
        );
        seen += 1;
    }
    found.split_off(1)
}

/// The parent of a living process; `None` for one that is gone or a zombie.
fn parent_of(pid: u32) -> Option<u32> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name in parentheses may hold anything, so the fields are counted from its end.
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace();
    let alive = !matches!(fields.next()?, "Z" | "X");
    alive.then(|| fields.next()?.parse().ok()).flatten()
}

/// Whether a process exists and is not an unreaped zombie.
pub fn is_alive(pid: u32) -> bool {
    parent_of(pid).is_some()
}
