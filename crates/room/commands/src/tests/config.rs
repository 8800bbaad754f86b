//! CONFIG SET: every setting is in force, harmless or refused.

use std::sync::Arc;

use nagaya_exec::config::Config;
use nagaya_exec::settings::{self, Effect};
use nagaya_keyspace::effects::{Journal, JournalError, SyncWhen};
use parking_lot::Mutex;

use crate::testing::TestSession;

fn shown(session: &mut TestSession, name: &str) -> String {
    let reply = session.text(&format!("CONFIG GET {name}"));
    reply.split("\r\n").nth(4).unwrap_or_default().to_owned()
}

/// Settings that promise safety or a limit. None of them may answer OK and do nothing.
const PROMISES: &[&str] = &[
    "protected-mode",
    "requirepass",
    "masterauth",
    "maxmemory",
    "maxmemory-clients",
    "maxmemory-policy",
    "maxclients",
    "timeout",
    "tcp-keepalive",
    "client-output-buffer-limit",
    "client-query-buffer-limit",
    "proto-max-bulk-len",
    "min-replicas-to-write",
    "min-replicas-max-lag",
    "appendfsync",
    "aof-load-truncated",
    "aof-timestamp-enabled",
    "oom-score-adj",
    "enable-debug-command",
    "enable-module-command",
    "enable-protected-configs",
    "acl-pubsub-default",
    "notify-keyspace-events",
    "activedefrag",
];

#[test]
fn no_setting_that_promises_safety_or_a_limit_is_without_effect() {
    for name in PROMISES {
        let setting = settings::Setting::find(name.as_bytes()).unwrap();
        for on_redis in [false, true] {
            let effect = setting.effect(on_redis);
            assert!(!matches!(effect, Effect::Harmless(_)), "{name}: {effect:?}");
        }
    }
}

#[test]
fn every_setting_says_what_a_value_does_and_does_that() {
    let mut session = TestSession::new();
    let (mut in_force, mut harmless, mut refused, mut fixed) = (0, 0, 0, 0);
    for setting in settings::every() {
        let name = setting.name;
        let before = shown(&mut session, name);
        let request: [&[u8]; 4] = [b"CONFIG", b"SET", name.as_bytes(), before.as_bytes()];
        let same = String::from_utf8(session.run(&request)).unwrap();
        if setting.is_fixed() {
            fixed += 1;
            assert!(same.contains("can't set"), "{name}: {same}");
            continue;
        }
        assert_eq!(same, "+OK\r\n", "{name} takes the value it has");
        let other = another_value(name, &before);
        let request: [&[u8]; 4] = [b"CONFIG", b"SET", name.as_bytes(), other.as_bytes()];
        let reply = String::from_utf8(session.run(&request)).unwrap();
        let after = shown(&mut session, name);
        match setting.effect(false) {
            Effect::Refused(reason) => {
                refused += 1;
                assert!(reply.contains(reason), "{name} {other}: {reply}");
                assert_eq!(after, before, "{name}");
            }
            Effect::InForce | Effect::Harmless(_) if DISK.contains(&name) => {
                refused += 1;
                assert!(reply.contains("keeps nothing on disk"), "{name} {other}: {reply}");
                assert_eq!(after, before, "{name}");
            }
            Effect::InForce | Effect::Harmless(_) => {
                if setting.effect(false) == Effect::InForce {
                    in_force += 1;
                } else {
                    harmless += 1;
                }
                assert_eq!(reply, "+OK\r\n", "{name} {other}");
                assert_ne!(after, before, "{name} {other}");
            }
        }
        session = TestSession::new();
    }
    println!("{in_force} in force, {harmless} harmless, {refused} refused, {fixed} fixed");
    assert_eq!(in_force + harmless + refused + fixed, settings::every().count());
}

/// Settings about the disk, which an engine without one refuses to change.
const DISK: &[&str] = &["save", "appendonly", "appendfsync"];

/// Returns a value that is valid and not the one it has.
fn another_value(name: &str, value: &str) -> String {
    let chosen = match name {
        "maxmemory-policy" => "allkeys-lru",
        "notify-keyspace-events" => "KEA",
        "latency-tracking-info-percentiles" => "10",
        "client-output-buffer-limit" => "normal 5 5 5",
        "acl-pubsub-default" => "allchannels",
        "appendfsync" => "always",
        "save" => "10 10",
        "oom-score-adj" => "yes",
        "oom-score-adj-values" => "1 2 3",
        "loglevel" => "debug",
        "shutdown-on-sigint" | "shutdown-on-sigterm" => "now",
        "sanitize-dump-payload" => "clients",
        "repl-diskless-load" => "swapdb",
        "propagation-error-behavior" => "panic",
        "proto-max-bulk-len" | "client-query-buffer-limit" => "2000000",
        "bind" | "bind-source-addr" => "127.0.0.9",
        "port" => "9",
        "watchdog-period" => "500",
        "loading-process-events-interval-bytes" => "4096",
        "active-expire-effort" => "3",
        _ => "",
    };
    if !chosen.is_empty() {
        return chosen.to_owned();
    }
    match value {
        "yes" => "no".to_owned(),
        "no" => "yes".to_owned(),
        _ => value
            .parse::<i64>()
            .map_or("changed".to_owned(), |number| (number + 1).to_string()),
    }
}

#[test]
fn writes_are_refused_while_they_need_replicas() {
    const REFUSED: &str = "-NOREPLICAS Not enough good replicas to write.\r\n";
    let mut session = TestSession::new();
    session.check("SET k 1", "+OK\r\n");
    session.check("CONFIG SET min-slaves-to-write 1", "+OK\r\n");
    session.check("GET k", "$1\r\n1\r\n");
    session.check("SET k 2", REFUSED);
    session.check("MULTI", "+OK\r\n");
    session.check("SET k 2", REFUSED);
    session.check(
        "EXEC",
        "-EXECABORT Transaction discarded because of previous errors.\r\n",
    );
    let script: [&[u8]; 4] = [b"EVAL", b"return redis.call('SET', KEYS[1], 2)", b"1", b"k"];
    let reply = String::from_utf8(session.run(&script)).unwrap();
    assert!(reply.starts_with("-NOREPLICAS"), "{reply}");
    session.check("GET k", "$1\r\n1\r\n");
    session.check("CONFIG SET min-replicas-max-lag 0", "+OK\r\n");
    session.check("SET k 2", "+OK\r\n");
    session.check(
        "CONFIG SET min-replicas-max-lag 10 min-replicas-to-write 0",
        "+OK\r\n",
    );
    session.check("SET k 3", "+OK\r\n");
    let mut writer = session.another();
    writer.check("MULTI", "+OK\r\n");
    writer.check("SET k 4", "+QUEUED\r\n");
    session.check("CONFIG SET min-replicas-to-write 2", "+OK\r\n");
    writer.check(
        "EXEC",
        "-EXECABORT Transaction discarded because of: NOREPLICAS Not enough good replicas to write.\r\n",
    );
}

#[test]
fn debug_and_module_are_for_nobody_unless_the_settings_say_so() {
    let request = |session: &mut TestSession, request: &str| session.text(request);
    let mut session = TestSession::new();
    let set = |session: &TestSession, value: &'static str| {
        session.engine.server.update_config(|config| {
            config.enable_debug_command = value;
            config.enable_module_command = value;
        });
    };
    assert_eq!(Config::default().enable_debug_command, "no");
    assert_eq!(Config::default().enable_module_command, "no");
    set(&session, "no");
    let reply = request(&mut session, "DEBUG SLEEP 0");
    assert!(
        reply.starts_with("-ERR DEBUG command not allowed. If the enable-debug-command option is set to"),
        "{reply}"
    );
    assert!(request(&mut session, "MODULE LOAD x").starts_with("-ERR MODULE command not allowed."));
    session.check("MODULE LIST", "*0\r\n");
    session.check("MULTI", "+OK\r\n");
    assert!(request(&mut session, "DEBUG SLEEP 0").starts_with("-ERR DEBUG command not allowed."));
    session.check("DISCARD", "+OK\r\n");
    // The sessions of tests come from this machine.
    set(&session, "local");
    session.check("DEBUG SLEEP 0", "+OK\r\n");
}

/// Notes when it is told to make records durable.
#[derive(Default)]
struct Told(Mutex<Vec<SyncWhen>>);

impl Journal for Told {
    fn append(&self, _: &[u8]) -> Result<u64, JournalError> {
        Ok(1)
    }

    fn set_sync(&self, when: SyncWhen) {
        self.0.lock().push(when);
    }
}

#[test]
fn appendfsync_is_the_journals_way_from_then_on() {
    let mut session = TestSession::new();
    let journal = Arc::<Told>::default();
    assert!(session.engine.server.set_journal(journal.clone()));
    session
        .engine
        .server
        .update_config(|config| config.persists = true);
    journal.0.lock().clear();
    for (value, when) in [
        ("always", SyncWhen::Always),
        ("no", SyncWhen::Never),
        ("everysec", SyncWhen::EverySecond),
    ] {
        session.check(&format!("CONFIG SET appendfsync {value}"), "+OK\r\n");
        assert_eq!(journal.0.lock().last(), Some(&when));
        assert_eq!(shown(&mut session, "appendfsync"), value);
    }
    session.check(
        "CONFIG SET appendonly yes save 10 appendfsync sometimes",
        "-ERR CONFIG SET failed (possibly related to argument 'save') - Invalid save parameters\r\n",
    );
    assert_eq!(shown(&mut session, "appendonly"), "yes");
    session.check("CONFIG SET appendonly yes", "+OK\r\n");
}
