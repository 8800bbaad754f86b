//! The log of the latest commands that took long (SLOWLOG).

use std::collections::VecDeque;

use nagaya_command_spec::spec::SKIP_SLOWLOG;
use nagaya_command_spec::table::Command;
use nagaya_resp::Args;
use parking_lot::Mutex;

use crate::config::Config;
use crate::redact;
use crate::session::Session;

/// Arguments kept of a command; the last one says how many are missing.
const ARGS_MAX: usize = 32;
/// Bytes kept of an argument.
const ARG_BYTES_MAX: usize = 128;

/// The log, newest entry first.
#[derive(Default)]
pub struct SlowLog {
    log: Mutex<Log>,
}

#[derive(Default)]
struct Log {
    entries: VecDeque<SlowCommand>,
    next_id: i64,
}

/// A command that took long.
#[derive(Clone)]
pub struct SlowCommand {
    pub id: i64,
    /// When it ended, in Unix seconds.
    pub at_s: i64,
    pub spent_us: u64,
    pub args: Vec<Vec<u8>>,
    pub peer: Box<str>,
    pub client_name: Box<[u8]>,
}

impl SlowLog {
    /// Adds a command, if it took long enough and is one that is logged.
    pub fn note_command(
        &self,
        config: &Config,
        session: &Session,
        command: &Command,
        args: &Args<'_>,
        spent_ns: u64,
        now_s: i64,
    ) {
        let spent_us = spent_ns / 1000;
        let wanted = u64::try_from(config.slowlog_log_slower_than).is_ok_and(|least_us| spent_us >= least_us);
        if !wanted || command.spec.flags.has(SKIP_SLOWLOG) {
            return;
        }
        let args = clip(&redact::shown(command, args));
        let mut log = self.log.lock();
        let entry = SlowCommand {
            id: log.next_id,
            at_s: now_s,
            spent_us,
            args,
            peer: session.shared.peer.clone(),
            client_name: session.shared.name().unwrap_or_default(),
        };
        log.next_id += 1;
        log.entries.push_front(entry);
        log.entries.truncate(config.slowlog_max_len);
    }

    /// Returns the latest entries, newest first.
    pub fn latest(&self, limit: usize) -> Vec<SlowCommand> {
        self.log.lock().entries.iter().take(limit).cloned().collect()
    }

    /// Returns the number of entries.
    pub fn len(&self) -> usize {
        self.log.lock().entries.len()
    }

    /// Removes all entries.
    pub fn clear(&self) {
        self.log.lock().entries.clear();
    }
}

fn clip(args: &[&[u8]]) -> Vec<Vec<u8>> {
    let clip_one = |arg: &&[u8]| match arg.split_at_checked(ARG_BYTES_MAX) {
        Some((kept, rest)) if !rest.is_empty() => {
            [kept, format!("... ({} more bytes)", rest.len()).as_bytes()].concat()
        }
        _ => arg.to_vec(),
    };
    if args.len() <= ARGS_MAX {
        return args.iter().map(clip_one).collect();
    }
    let (kept, rest) = args.split_at(ARGS_MAX - 1);
    let more = format!("... ({} more arguments)", rest.len()).into_bytes();
    kept.iter().map(clip_one).chain([more]).collect()
}
