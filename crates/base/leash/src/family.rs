//! The processes that belong to a group: its members, their descendants, and strays that nobody else owns.

use std::collections::{HashMap, HashSet};
use std::fs;

use rustix::io::Errno;
use rustix::process::{Pid, Signal, getpid, kill_process, kill_process_group};

use nagaya_process::orphans;

/// One line of `/proc/PID/stat`.
struct Stat {
    parent: i32,
    group: i32,
    is_alive: bool,
}

/// Returns whether a process of the leader's family lives: a member of its group, a descendant of one, or, with
/// `and_strays`, any other descendant of this process that is not of another leader's family.
pub fn has_living(leader: Pid, others: &[Pid], and_strays: bool) -> bool {
    Processes::read().has_living(leader, others, and_strays)
}

/// The processes of the machine at about one moment. Reading them takes a system call each, so one look at many groups
/// shares them.
pub(crate) struct Processes(HashMap<i32, Stat>);

impl Processes {
    pub(crate) fn read() -> Processes {
        let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
        let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        Processes(pids.filter_map(|pid| Some((pid, stat_of(pid)?))).collect())
    }

    /// [`has_living`] in these processes. The leader may be among `others`.
    pub(crate) fn has_living(&self, leader: Pid, others: &[Pid], and_strays: bool) -> bool {
        let other_groups: HashSet<i32> = others.iter().map(|other| other.as_raw_pid()).collect();
        let (me, leader) = (getpid().as_raw_pid(), leader.as_raw_pid());
        self.0
            .iter()
            .filter(|(pid, stat)| stat.is_alive && **pid != me)
            .any(|(pid, _)| belongs(*pid, &self.0, (me, leader), &other_groups, and_strays))
    }
}

/// Looks from a process upwards for the leader's group, for another leader's, or for this process.
fn belongs(
    pid: i32,
    processes: &HashMap<i32, Stat>,
    (me, leader): (i32, i32),
    others: &HashSet<i32>,
    and_strays: bool,
) -> bool {
    let mut at = pid;
    // The snapshot is not of one moment, so parents might seem to go in a circle.
    for _ in 0..processes.len() {
        let Some(stat) = processes.get(&at) else {
            return false;
        };
        if at == leader || stat.group == leader {
            return true;
        }
        if others.contains(&at) || others.contains(&stat.group) {
            return false;
        }
        if stat.parent == me {
            return and_strays;
        }
        at = stat.parent;
    }
    false
}

/// Sends a signal to the group and, with `and_strays`, to each orphan that this process has adopted. The leader must
/// not have been reaped; it may be among `others`. Only children of this process are signalled by their number: nobody
/// else can reap them.
pub(crate) fn signal_family(leader: Pid, others: &[Pid], and_strays: bool, signal: Signal) {
    match kill_process_group(leader, signal) {
        Ok(()) | Err(Errno::SRCH) => (),
        Err(error) => tracing::warn!(%error, ?signal, "signal not sent to a process group"),
    }
    if !and_strays {
        return;
    }
    for child in orphans::children() {
        let group = stat_of(child.as_raw_pid()).map(|stat| stat.group);
        let is_others =
            others.contains(&child) || others.iter().any(|other| group == Some(other.as_raw_pid()));
        if child != leader && group != Some(leader.as_raw_pid()) && !is_others {
            kill_process(child, signal).ok();
        }
    }
}

fn stat_of(pid: i32) -> Option<Stat> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name in parentheses may contain anything, so the fields are counted from its end.
    let mut fields = text.rsplit_once(')')?.1.split_whitespace();
    Some(Stat {
        is_alive: !matches!(fields.next()?, "Z" | "X"),
        parent: fields.next()?.parse().ok()?,
        group: fields.next()?.parse().ok()?,
    })
}
