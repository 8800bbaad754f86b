//! MONITOR: connections that are shown every command as it runs.

use std::fmt::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use nagaya_resp::Args;
use parking_lot::Mutex;

use crate::client::{Client, ClientShared, Mark, Message};
use crate::command_table::Command;
use crate::ctx::Ctx;
use crate::entry::{Entry, cmd};
use crate::error::CommandError;
use crate::redact;
use crate::spec::{ADMIN, LOADING, NOSCRIPT, SKIP_MONITOR, STALE};

pub(crate) const COMMANDS: &[Entry] = &[cmd("MONITOR", 1, monitor)
    .flags(ADMIN.and(NOSCRIPT).and(LOADING).and(STALE))
    .group("server")
    .about("Shows every command from now on as it runs.", "O(1) per command")];

/// The connections that watch.
#[derive(Default)]
pub(crate) struct Monitors {
    /// How many there are, so that a command need not take the lock to find none.
    count: AtomicUsize,
    clients: Mutex<Vec<Arc<ClientShared>>>,
}

impl Monitors {
    /// Tells whether anybody watches.
    #[inline]
    pub(crate) fn any(&self) -> bool {
        self.count.load(Ordering::Relaxed) != 0
    }

    /// Shows a command that has just run, unless it is one that is never shown.
    #[cold]
    pub(crate) fn feed_command(&self, now_us: i64, client: &Client, command: &Command, args: &Args<'_>) {
        if !command.spec.flags.has(SKIP_MONITOR.and(ADMIN)) {
            self.feed(now_us, client, command, args);
        }
    }

    /// Shows a command. Scripts call this themselves before they begin, so that they come before what
    /// they run.
    pub(crate) fn feed(&self, now_us: i64, client: &Client, command: &Command, args: &Args<'_>) {
        let line: Arc<[u8]> = line(now_us, client, command, args).into_bytes().into();
        for watcher in self.clients.lock().iter() {
            watcher.deliver(Message::Push(Arc::clone(&line)));
        }
    }

    /// Ends a connection's watch (RESET, and when it closes).
    pub(crate) fn leave(&self, client: &ClientShared) {
        if client.has_mark(Mark::MONITOR) {
            client.set_mark(Mark::MONITOR, false);
            let mut clients = self.clients.lock();
            clients.retain(|other| other.id != client.id);
            self.count.store(clients.len(), Ordering::Relaxed);
        }
    }

    fn join(&self, client: &Arc<ClientShared>) {
        client.set_mark(Mark::MONITOR, true);
        let mut clients = self.clients.lock();
        clients.push(Arc::clone(client));
        self.count.store(clients.len(), Ordering::Relaxed);
    }
}

/// MONITOR
fn monitor(ctx: &mut Ctx<'_, '_>) -> Result<(), CommandError> {
    if ctx.client.nesting > 0 {
        return Err(CommandError::err(
            "MONITOR isn't allowed for DENY BLOCKING client",
        ));
    }
    // Who watches already gets no second reply; so does Redis.
    if !ctx.client.shared.has_mark(Mark::MONITOR) {
        ctx.core.server.monitors.join(&ctx.client.shared);
        ctx.out.ok();
    }
    Ok(())
}

fn line(now_us: i64, client: &Client, command: &Command, args: &Args<'_>) -> String {
    let (seconds, micros) = (now_us / 1_000_000, now_us % 1_000_000);
    let source = if client.in_script {
        "lua".to_owned()
    } else if client.shared.is_unix() {
        format!("unix:{}", client.shared.local.trim_end_matches(":0"))
    } else {
        client.shared.peer.to_string()
    };
    let mut line = format!("+{seconds}.{micros:06} [0 {source}]");
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

#[cfg(test)]
mod tests {
    use crate::client::Message;
    use crate::testing::Session;

    fn lines(watcher: &mut Session) -> Vec<String> {
        let messages = watcher.messages().into_iter();
        messages
            .map(|message| match message {
                Message::Push(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
                other => panic!("{other:?}"),
            })
            .collect()
    }

    #[test]
    fn a_watcher_sees_commands_as_redis_shows_them() {
        let mut session = Session::new();
        let mut watcher = session.another();
        watcher.check("MONITOR", "+OK\r\n");
        watcher.check("MONITOR", "");
        session.run(&[b"SET", b"k\"\\\n\x01", b"v v\xff"]);
        session.check("CONFIG SET timeout 0", "+OK\r\n");
        let expected =
            "+1700000000.000000 [0 127.0.0.1:40001] \"SET\" \"k\\\"\\\\\\n\\x01\" \"v v\\xff\"\r\n";
        assert_eq!(lines(&mut watcher), [expected]);
        assert!(session.text("CLIENT LIST").contains(" flags=O "));
        watcher.disconnect();
        session.check("GET k", "$-1\r\n");
        assert_eq!(lines(&mut watcher), [""; 0]);
    }

    #[test]
    fn exec_comes_after_what_it_runs() {
        let mut session = Session::new();
        let mut watcher = session.another();
        watcher.check("MONITOR", "+OK\r\n");
        for request in ["MULTI", "GET k", "EXEC"] {
            session.text(request);
        }
        let seen = lines(&mut watcher);
        let order: Vec<bool> = ["\"MULTI\"", "\"GET\"", "\"EXEC\""]
            .iter()
            .zip(&seen)
            .map(|(word, line)| line.contains(word))
            .collect();
        assert_eq!((order, seen.len()), (vec![true; 3], 3));
    }

    #[test]
    fn a_transaction_cannot_become_a_watcher() {
        let mut session = Session::new();
        session.text("MULTI");
        session.text("MONITOR");
        session.check(
            "EXEC",
            "*1\r\n-ERR MONITOR isn't allowed for DENY BLOCKING client\r\n",
        );
    }
}
