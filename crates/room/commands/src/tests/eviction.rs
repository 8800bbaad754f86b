//! Keys are removed when memory runs out.

use crate::testing::TestSession;

/// Makes an engine that believes to use as many bytes as there are keys.
fn full(policy: &str) -> TestSession {
    let mut session = TestSession::new();
    session.check("CONFIG SET maxmemory-policy noeviction", "+OK\r\n");
    session.check("SET old v", "+OK\r\n");
    session.advance_ms(5_000);
    session.check("SET new v EX 100", "+OK\r\n");
    session.check(&format!("CONFIG SET maxmemory-policy {policy}"), "+OK\r\n");
    session.check("CONFIG SET maxmemory 1", "+OK\r\n");
    session
}

#[test]
fn without_a_policy_writes_are_refused_and_reads_go_on() {
    let mut session = full("noeviction");
    session.check(
        "SET k v",
        "-OOM command not allowed when used memory > 'maxmemory'.\r\n",
    );
    session.check("GET old", "$1\r\nv\r\n");
    session.check("DEL old", ":1\r\n");
}

#[test]
fn volatile_policies_leave_keys_without_an_expiry_alone() {
    let mut session = full("volatile-lru");
    // Everything that may go has gone, and one byte is still too little.
    session.check(
        "SET k v",
        "-OOM command not allowed when used memory > 'maxmemory'.\r\n",
    );
    session.check("EXISTS old new", ":1\r\n");
}

#[test]
fn other_policies_take_any_key() {
    let mut session = full("allkeys-lru");
    session.check(
        "SET k v",
        "-OOM command not allowed when used memory > 'maxmemory'.\r\n",
    );
    session.check("DBSIZE", ":0\r\n");
}
