//! MONITOR: connections that are shown every command as it runs.

use nagaya_command_spec::error::CommandError;
use nagaya_command_spec::spec::{ADMIN, LOADING, NOSCRIPT, STALE};
use nagaya_connections::client::ClientFlag;
use nagaya_exec::ctx::Ctx;
use nagaya_exec::entry::{Entry, cmd};

pub(crate) const COMMANDS: &[Entry] = &[cmd("MONITOR", 1, monitor)
    .flags(ADMIN.and(NOSCRIPT).and(LOADING).and(STALE))
    .group("server")
    .about("Shows every command from now on as it runs.", "O(1) per command")];

/// MONITOR
fn monitor(ctx: &mut Ctx<'_, '_>) -> Result<(), CommandError> {
    if ctx.session.nesting > 0 {
        return Err(CommandError::err(
            "MONITOR isn't allowed for DENY BLOCKING client",
        ));
    }
    // Who watches already gets no second reply; so does Redis.
    if !ctx.session.shared.has_flag(ClientFlag::MONITOR) {
        ctx.server().monitors.join(&ctx.session.shared);
        ctx.out.ok();
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use crate::testing::TestSession;
    use nagaya_connections::client::Message;

    fn lines(watcher: &mut TestSession) -> Vec<String> {
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
        let mut session = TestSession::new();
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
        let mut session = TestSession::new();
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
        let mut session = TestSession::new();
        session.text("MULTI");
        session.text("MONITOR");
        session.check(
            "EXEC",
            "*1\r\n-ERR MONITOR isn't allowed for DENY BLOCKING client\r\n",
        );
    }
}
