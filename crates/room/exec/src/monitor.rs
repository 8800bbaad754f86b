//! The connections that are sent every command as it runs (MONITOR).

use std::fmt::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use nagaya_command_spec::spec::{ADMIN, SKIP_MONITOR};
use nagaya_command_spec::table::Command;
use nagaya_connections::client::{Client, ClientFlag, Message};
use nagaya_resp::Args;
use parking_lot::Mutex;

use crate::redact;
use crate::session::Session;

/// The connections that watch.
#[derive(Default)]
pub struct Monitors {
    /// How many there are, so that a command need not take the lock to find none.
    count: AtomicUsize,
    clients: Mutex<Vec<Arc<Client>>>,
}

impl Monitors {
    /// Returns whether any connection watches.
    #[inline]
    pub fn any(&self) -> bool {
        self.count.load(Ordering::Relaxed) != 0
    }

    /// Shows a command that has just run, unless it is one that is never shown.
    #[cold]
    pub fn feed_command(&self, now_us: i64, session: &Session, command: &Command, args: &Args<'_>) {
        if !command.spec.flags.has(SKIP_MONITOR.and(ADMIN)) {
            self.feed(now_us, session, command, args);
        }
    }

    /// Shows a command. Scripts call this themselves before they begin, so that they come before what
    /// they run.
    pub fn feed(&self, now_us: i64, session: &Session, command: &Command, args: &Args<'_>) {
        let line: Arc<[u8]> = line(now_us, session, command, args).into_bytes().into();
        for watcher in self.clients.lock().iter() {
            watcher.deliver(Message::Push(Arc::clone(&line)));
        }
    }

    /// Ends a connection's watch (RESET, and when it closes).
    pub fn leave(&self, client: &Client) {
        if client.has_flag(ClientFlag::MONITOR) {
            client.set_flag(ClientFlag::MONITOR, false);
            let mut clients = self.clients.lock();
            clients.retain(|other| other.id != client.id);
            self.count.store(clients.len(), Ordering::Relaxed);
        }
    }

    /// Adds a connection.
    pub fn join(&self, client: &Arc<Client>) {
        client.set_flag(ClientFlag::MONITOR, true);
        let mut clients = self.clients.lock();
        clients.push(Arc::clone(client));
        self.count.store(clients.len(), Ordering::Relaxed);
    }
}

fn line(now_us: i64, session: &Session, command: &Command, args: &Args<'_>) -> String {
    let (seconds, micros) = (now_us / 1_000_000, now_us % 1_000_000);
    let source = if session.in_script {
        "lua".to_owned()
    } else if session.shared.is_unix() {
        format!("unix:{}", session.shared.local.trim_end_matches(":0"))
    } else {
        session.shared.peer.to_string()
    };
    let mut line = format!("+{seconds}.{micros:06} [{} {source}]", session.database());
    for arg in redact::shown(command, args) {
        line.push(' ');
        push_quoted(&mut line, arg);
    }
    line.push_str("\r\n");
    line
}

/// Writes bytes in quotes with everything that is not printable escaped.
fn push_quoted(line: &mut String, bytes: &[u8]) {
    line.push('"');
    for byte in bytes {
        match byte {
            b'\\' | b'"' => line.extend(['\\', char::from(*byte)]),
            b'\n' => line.push_str("\\n"),
            b'\r' => line.push_str("\\r"),
            b'\t' => line.push_str("\\t"),
            0x07 => line.push_str("\\a"),
            0x08 => line.push_str("\\b"),
            b' '..=b'~' => line.push(char::from(*byte)),
            // Writing to a string cannot fail.
            _ => write!(line, "\\x{byte:02x}").unwrap_or(()),
        }
    }
    line.push('"');
}
