use std::process::{Command, Stdio};

use nagaya_testkit::{Postgres, is_alive, shared, wait};

use crate::LIMIT;

#[test]
fn databases_of_a_shared_postgres_are_apart() {
    let postgres = shared::postgres();
    let (first, second) = (postgres.create_database(), postgres.create_database());
    postgres.psql(&first, "create table t (n int)");
    postgres.psql(&second, "create table t (n int)");
    assert_eq!(postgres.psql(&first, "show fsync"), "on");
    let socket = postgres
        .socket_folder()
        .join(format!(".s.PGSQL.{}", postgres.port()));
    assert!(socket.exists());
}

#[test]
fn postgres_survives_kill_9_and_restart() {
    let postgres = Postgres::start();
    let url = postgres.create_database();
    postgres.psql(
        &url,
        "create table t (n int); insert into t select generate_series(1, 1000)",
    );
    let pids = postgres.process().pids();
    assert!(pids.len() > 1, "a running server has background processes");
    postgres.kill9();
    assert!(!pids.into_iter().any(is_alive));
    assert!(postgres.try_psql(&url, "select 1").is_err());
    postgres.restart();
    assert_eq!(
        postgres.psql(&url, "select count(*), sum(n) from t"),
        "1000|500500"
    );
    assert!(
        postgres
            .process()
            .stderr()
            .contains("automatic recovery in progress")
    );
}

#[test]
fn a_running_postgres_restarts_under_an_open_session() {
    let postgres = Postgres::with_settings(&["application_name=kit"]);
    let url = postgres.create_database();
    postgres.psql(&url, "create table t (n int)");
    let mut session = Command::new("psql")
        .args(["-X", "-d", &url, "-c", "select pg_sleep(1000)"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    wait::until("the session sleeps", LIMIT, || {
        postgres.psql(
            &url,
            "select count(*) from pg_stat_activity where wait_event = 'PgSleep'",
        ) == "1"
    });
    postgres.restart();
    assert!(!session.wait().unwrap().success());
    assert_eq!(postgres.psql(&url, "select count(*) from t"), "0");
}

#[test]
fn a_stopped_postgres_answers_when_it_continues() {
    let postgres = Postgres::start();
    let url = postgres.url("postgres");
    postgres.stop();
    std::thread::scope(|scope| {
        let answer = scope.spawn(|| postgres.psql(&url, "select 7"));
        // Long enough for an answer to come if the server were not frozen, and no longer than psql waits.
        let early = std::sync::mpsc::channel::<()>()
            .1
            .recv_timeout(std::time::Duration::from_millis(300));
        assert!(early.is_err() && !answer.is_finished());
        postgres.cont();
        assert_eq!(answer.join().unwrap(), "7");
    });
}
