use crate::testing::TestSession;

/// Returns the value of a field.
fn field(text: &str, name: &str) -> String {
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix(&format!("{name}:")));
    line.unwrap_or_else(|| panic!("no {name} in {text}")).to_owned()
}

#[test]
fn sections_come_by_name_by_default_and_all() {
    let mut session = TestSession::new();
    for request in [
        "INFO",
        "INFO default",
        "INFO all",
        "INFO everything",
        "INFO cpu default",
    ] {
        let text = session.text(request);
        for part in [
            "redis_version:7.4.0\r\n",
            "used_cpu_user:",
            "used_memory:",
            "master_repl_offset:",
        ] {
            assert_eq!(text.matches(part).count(), 1, "{request}: {part}");
        }
        let everything = request.contains("all") || request.contains("everything");
        assert_eq!(text.contains("rejected_calls"), everything, "{request}");
    }
    let cpu = session.text("INFO CPU sentinel");
    assert!(
        cpu.contains("# CPU\r\nused_cpu_sys:") && !cpu.contains("used_memory"),
        "{cpu}"
    );
    assert_eq!(session.text("INFO sentinel"), "$0\r\n\r\n");
}

#[test]
fn keyspace_counts_keys() {
    let mut session = TestSession::new();
    assert!(session.text("INFO keyspace").ends_with("# Keyspace\r\n\r\n"));
    session.text("SET a 1");
    session.text("SET b 1 PX 5000");
    assert_eq!(
        field(&session.text("INFO keyspace"), "db0"),
        "keys=2,expires=1,avg_ttl=5000"
    );
}

#[test]
fn commands_and_their_failures_are_counted() {
    let mut session = TestSession::new();
    session.text("CONFIG RESETSTAT");
    session.text("SET k v");
    session.text("SET k");
    session.text("INCR k");
    session.text("NOSUCH");
    let text = session.text("INFO all");
    let set = field(&text, "cmdstat_set");
    assert!(
        set.starts_with("calls=1,usec=") && set.ends_with(",rejected_calls=1,failed_calls=0"),
        "{set}"
    );
    let incr = field(&text, "cmdstat_incr");
    assert!(
        incr.starts_with("calls=1,") && incr.ends_with(",rejected_calls=0,failed_calls=1"),
        "{incr}"
    );
    assert_eq!(field(&text, "errorstat_ERR"), "count=3");
    assert_eq!(field(&text, "total_error_replies"), "3");
    assert_eq!(field(&text, "rdb_changes_since_last_save"), "1");
    assert!(field(&text, "latency_percentiles_usec_set").starts_with("p50="));
    session.text("CONFIG RESETSTAT");
    let text = session.text("INFO all");
    assert!(
        !text.contains("errorstat_ERR") && !text.contains("cmdstat_set"),
        "{text}"
    );
}

#[test]
fn failures_inside_a_transaction_belong_to_their_command() {
    let mut session = TestSession::new();
    for request in ["SET k v", "CONFIG RESETSTAT", "MULTI", "INCR k", "EXEC", "EXEC"] {
        session.text(request);
    }
    let text = session.text("INFO all");
    assert!(field(&text, "cmdstat_incr").ends_with("failed_calls=1"));
    let exec = field(&text, "cmdstat_exec");
    assert!(
        exec.starts_with("calls=2,") && exec.ends_with("failed_calls=1"),
        "{exec}"
    );
    assert_eq!(field(&text, "total_error_replies"), "2");
}

#[test]
fn durations_can_be_switched_off() {
    let mut session = TestSession::new();
    session.text("CONFIG SET latency-tracking no");
    session.text("SET k v");
    assert!(!session.text("INFO latencystats").contains("usec_set"));
    session.text("CONFIG SET latency-tracking yes");
    session.text("CONFIG SET latency-tracking-info-percentiles 50");
    session.text("SET k v");
    assert!(field(&session.text("INFO latencystats"), "latency_percentiles_usec_set").starts_with("p50="));
}

#[test]
fn a_command_that_waited_is_counted_once() {
    let mut session = TestSession::new();
    let mut other = session.another();
    other.check("XREAD BLOCK 0 STREAMS s $", "");
    assert_eq!(field(&session.text("INFO clients"), "blocked_clients"), "1");
    session.text("XADD s 1-1 f v");
    assert_eq!(other.messages().len(), 1);
    let text = session.text("INFO all");
    assert!(field(&text, "cmdstat_xread").starts_with("calls=1,"), "{text}");
    assert_eq!(field(&text, "blocked_clients"), "0");
    assert_eq!(field(&text, "connected_clients"), "2");
}

#[test]
fn rates_need_time_to_pass() {
    let mut session = TestSession::new();
    session.text("INFO stats");
    for _ in 0..100 {
        session.text("GET k");
    }
    session.advance_ms(1000);
    let rate: u64 = field(&session.text("INFO stats"), "instantaneous_ops_per_sec")
        .parse()
        .unwrap();
    assert!((100..=102).contains(&rate), "{rate}");
}

#[test]
fn what_a_user_may_not_run_is_rejected() {
    let mut session = TestSession::new();
    for request in [
        "ACL SETUSER a on nopass +auth",
        "CONFIG RESETSTAT",
        "AUTH a x",
        "GET k",
        "AUTH default x",
    ] {
        session.text(request);
    }
    let text = session.text("INFO all");
    assert!(field(&text, "cmdstat_get").starts_with("calls=0,"), "{text}");
    assert!(
        field(&text, "cmdstat_get").contains(",rejected_calls=1,"),
        "{text}"
    );
    assert_eq!(field(&text, "errorstat_NOPERM"), "count=1");
}
