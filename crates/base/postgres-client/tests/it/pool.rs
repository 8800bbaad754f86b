use std::time::Duration;

use nagaya_postgres_client::{Error, Kind, Options, Pool};
use nagaya_testkit::{Direction, Postgres, TcpProxy, shared};

use crate::{block_on, impatient_pool, options, pool};

async fn one(pool: &Pool) -> Result<i32, Error> {
    let connection = pool.get().await?;
    Ok(connection.query_one("SELECT 1", &[]).await?.get(0))
}

/// Answers of the server until it gives one; errors on the way must be retryable.
async fn one_at_last(pool: &Pool) -> i32 {
    loop {
        match one(pool).await {
            Ok(answer) => return answer,
            Err(error) => assert!(error.is_retryable(), "{}", error.chain()),
        }
    }
}

#[test]
fn connections_are_used_again_and_set_up_once() {
    let url = shared::postgres().create_database();
    let setup = vec!["SET application_name = 'set up'".to_owned()];
    let options = Options { setup, ..options() };
    let pool = Pool::new(&url.parse().unwrap(), options).unwrap();
    block_on(async {
        let mut pids = Vec::new();
        for _ in 0..3 {
            let connection = pool.get().await.unwrap();
            let row = connection
                .query_one(
                    "SELECT pg_backend_pid(), current_setting('application_name')",
                    &[],
                )
                .await
                .unwrap();
            assert_eq!(row.get::<_, &str>(1), "set up");
            pids.push(row.get::<_, i32>(0));
        }
        pids.dedup();
        assert_eq!(pids.len(), 1);
        assert_eq!((pool.status().in_use, pool.status().idle), (0, 1));
        assert!(pool.close(Duration::from_secs(5)).await);
        assert!(matches!(pool.get().await, Err(Error::PoolClosed { .. })));
    });
}

#[test]
fn statements_are_prepared_once_per_connection() {
    let pool = pool(&shared::postgres().create_database());
    block_on(async {
        let connection = pool.get().await.unwrap();
        for number in 0..3i64 {
            let row = connection.query_one("SELECT $1::int8", &[&number]).await.unwrap();
            assert_eq!(row.get::<_, i64>(0), number);
        }
        let kept = "SELECT count(*) FROM pg_prepared_statements WHERE statement = 'SELECT $1::int8'";
        let row = connection.query_one(kept, &[]).await.unwrap();
        assert_eq!(row.get::<_, i64>(0), 1);
    });
}

#[test]
fn a_full_pool_makes_callers_wait_and_then_says_so() {
    let url = shared::postgres().create_database();
    let options = Options {
        connections_max: 1,
        acquire_timeout: Duration::from_millis(100),
        ..options()
    };
    let pool = Pool::new(&url.parse().unwrap(), options).unwrap();
    block_on(async {
        let held = pool.get().await.unwrap();
        let error = pool.get().await.unwrap_err();
        assert!(matches!(error, Error::Busy { .. }), "{error}");
        assert!(error.is_retryable() && !error.may_have_run());
        drop(held);
        one(&pool).await.unwrap();
    });
}

#[test]
fn errors_are_told_apart() {
    let postgres = shared::postgres();
    let url = postgres.create_database();
    let pool = pool(&url);
    block_on(async {
        let mut connection = pool.get().await.unwrap();
        let create =
            "CREATE TABLE t (a int8 PRIMARY KEY, CONSTRAINT small CHECK (a < 10)); INSERT INTO t VALUES (1)";
        connection.batch(create).await.unwrap();
        let insert = "INSERT INTO t VALUES ($1)";
        let twice = connection.execute(insert, &[&1i64]).await.unwrap_err();
        assert_eq!(
            (twice.kind(), twice.constraint()),
            (Kind::UniqueViolation, Some("t_pkey"))
        );
        assert!(!twice.is_retryable() && !twice.may_have_run());
        let large = connection.execute(insert, &[&11i64]).await.unwrap_err();
        assert_eq!(
            (large.kind(), large.constraint()),
            (Kind::Constraint, Some("small"))
        );
        let wrong = connection.query("SELECT nothing", &[]).await.unwrap_err();
        assert_eq!((wrong.kind(), wrong.code()), (Kind::Caller, Some("42703")));
        // A refused statement leaves the transaction to be undone and the connection in order.
        let transaction = connection.transaction().await.unwrap();
        transaction.execute(insert, &[&1i64]).await.unwrap_err();
        drop(transaction);
        assert_eq!(connection.execute(insert, &[&2i64]).await.unwrap(), 1);
    });
    let missing = url.rsplit_once('/').unwrap().0.to_owned() + "/nowhere";
    let error = block_on(async { crate::pool(&missing).get().await.map(drop).unwrap_err() });
    assert_eq!(error.kind(), Kind::Credentials, "{}", error.chain());
    assert!(error.chain().contains("nowhere"), "{}", error.chain());
}

#[test]
fn transactions_end_as_asked_and_are_undone_when_dropped() {
    let pool = pool(&shared::postgres().create_database());
    block_on(async {
        let mut connection = pool.get().await.unwrap();
        connection.batch("CREATE TABLE t (a int8)").await.unwrap();
        let insert = "INSERT INTO t VALUES ($1)";
        let kept = connection.transaction().await.unwrap();
        kept.execute(insert, &[&1i64]).await.unwrap();
        kept.commit().await.unwrap();
        let undone = connection.transaction().await.unwrap();
        undone.execute(insert, &[&2i64]).await.unwrap();
        undone.rollback().await.unwrap();
        let dropped = connection.transaction().await.unwrap();
        dropped.execute(insert, &[&3i64]).await.unwrap();
        drop(dropped);
        let rows = connection.query("SELECT a FROM t", &[]).await.unwrap();
        assert_eq!(rows.iter().map(|row| row.get(0)).collect::<Vec<i64>>(), [1]);
    });
}

#[test]
fn a_transaction_with_a_failed_statement_cannot_be_committed() {
    let pool = pool(&shared::postgres().create_database());
    block_on(async {
        let mut connection = pool.get().await.unwrap();
        let transaction = connection.transaction().await.unwrap();
        transaction.query("SELECT 1 / 0", &[]).await.unwrap_err();
        let error = transaction.commit().await.unwrap_err();
        assert!(matches!(error, Error::Aborted), "{error}");
        let transaction = connection.transaction().await.unwrap();
        transaction.query("SELECT 1", &[]).await.unwrap();
        transaction.commit().await.unwrap();
    });
}

#[test]
fn a_wrong_password_is_not_tried_again() {
    let postgres = Postgres::start();
    let url = postgres.url("postgres");
    postgres.psql(&url, "ALTER USER postgres PASSWORD 'hunter2'");
    let hba = postgres.psql(&url, "SHOW hba_file");
    std::fs::write(hba, "host all all all scram-sha-256\n").unwrap();
    postgres.psql(&url, "SELECT pg_reload_conf()");
    let with = |password| url.replace("postgres@", &format!("postgres:{password}@"));
    let refused = || postgres.try_psql(&url, "SELECT 1").is_err();
    nagaya_testkit::wait::until("passwords are asked for", crate::PATIENCE, refused);
    block_on(async {
        let error = one(&pool(&with("hunter3"))).await.unwrap_err();
        assert_eq!(error.kind(), Kind::Credentials, "{}", error.chain());
        assert!(!error.chain().contains("hunter") && !format!("{error:?}").contains("hunter"));
        assert_eq!(one(&pool(&with("hunter2"))).await.unwrap(), 1);
    });
}

#[test]
fn sockets_are_reached_by_their_folder() {
    let postgres = shared::postgres();
    let folder = postgres.socket_folder().display();
    let url = format!(
        "postgres://postgres@/postgres?host={folder}&port={}",
        postgres.port()
    );
    assert_eq!(block_on(one(&pool(&url))).unwrap(), 1);
}

#[test]
fn of_several_hosts_one_that_answers_is_used() {
    let postgres = shared::postgres();
    let dead = nagaya_testkit::free_port();
    let url = format!(
        "postgres://postgres@127.0.0.1:{dead},127.0.0.1:{}/postgres",
        postgres.port()
    );
    assert_eq!(block_on(one(&pool(&url))).unwrap(), 1);
}

#[test]
fn a_killed_server_is_waited_for() {
    let postgres = Postgres::start();
    let pool = pool(&postgres.url("postgres"));
    block_on(async {
        let mut connection = pool.get().await.unwrap();
        connection.batch("CREATE TABLE t (a int8)").await.unwrap();
        let transaction = connection.transaction().await.unwrap();
        transaction
            .execute("INSERT INTO t VALUES (1)", &[])
            .await
            .unwrap();
        tokio::task::block_in_place(|| postgres.kill9());
        let error = transaction.commit().await.unwrap_err();
        assert_eq!(error.kind(), Kind::OutcomeUnknown, "{}", error.chain());
        assert!(error.is_retryable() && error.may_have_run());
        drop(connection);
        let waiting = tokio::spawn({
            let pool = pool.clone();
            async move { one_at_last(&pool).await }
        });
        tokio::task::block_in_place(|| postgres.restart());
        assert_eq!(waiting.await.unwrap(), 1);
        let connection = pool.get().await.unwrap();
        let rows = connection.query("SELECT a FROM t", &[]).await.unwrap();
        assert!(rows.is_empty());
    });
}

#[test]
fn a_server_that_is_down_is_an_error_within_the_limit() {
    let options = Options {
        acquire_timeout: Duration::from_millis(300),
        ..options()
    };
    let url = format!("postgres://127.0.0.1:{}/x", nagaya_testkit::free_port());
    let pool = Pool::new(&url.parse().unwrap(), options).unwrap();
    let error = block_on(one(&pool)).unwrap_err();
    assert_eq!(error.kind(), Kind::Unavailable, "{}", error.chain());
    assert!(!error.may_have_run());
}

#[test]
fn a_dead_machine_costs_one_limit_and_its_connections() {
    let postgres = shared::postgres();
    let proxy = TcpProxy::start(postgres.address());
    let pool = impatient_pool(&format!("postgres://postgres@{}/postgres", proxy.address()));
    block_on(async {
        let connection = pool.get().await.unwrap();
        connection.query_one("SELECT 1", &[]).await.unwrap();
        proxy.half_open();
        let error = connection.query_one("SELECT 1", &[]).await.unwrap_err();
        assert!(matches!(error, Error::TimedOut { .. }), "{error}");
        assert!(error.may_have_run());
        drop(connection);
        assert_eq!(pool.status().idle, 0);
        proxy.restore();
        assert_eq!(one_at_last(&pool).await, 1);
        // One that died while it rested is found out before it is handed out.
        assert_eq!(pool.status().idle, 1);
        proxy.half_open();
        let waiting = tokio::spawn({
            let pool = pool.clone();
            async move { pool.get().await.map(drop) }
        });
        let gone = || pool.status().idle == 0;
        tokio::task::block_in_place(|| {
            nagaya_testkit::wait::until("the connection is taken out", crate::PATIENCE, gone);
        });
        proxy.restore();
        match waiting.await.unwrap() {
            Ok(()) => (),
            Err(error) => assert!(error.is_retryable(), "{}", error.chain()),
        }
        assert_eq!(one_at_last(&pool).await, 1);
    });
}

#[test]
fn a_commit_whose_answer_is_lost_is_told_as_unknown() {
    let postgres = shared::postgres();
    let url = postgres.create_database();
    postgres.psql(&url, "CREATE TABLE t (a int8)");
    let proxy = TcpProxy::start(postgres.address());
    let database = url.rsplit_once('/').unwrap().1;
    let pool = impatient_pool(&format!("postgres://postgres@{}/{database}", proxy.address()));
    block_on(async {
        let mut connection = pool.get().await.unwrap();
        let transaction = connection.transaction().await.unwrap();
        transaction
            .execute("INSERT INTO t VALUES (1)", &[])
            .await
            .unwrap();
        proxy.cut(Direction::ToClient);
        let error = transaction.commit().await.unwrap_err();
        assert_eq!(error.kind(), Kind::OutcomeUnknown, "{}", error.chain());
        proxy.restore();
    });
    assert_eq!(postgres.psql(&url, "SELECT a FROM t"), "1");
}

#[test]
fn a_call_that_is_given_up_does_not_burden_the_next_user() {
    let pool = pool(&shared::postgres().create_database());
    block_on(async {
        let connection = pool.get().await.unwrap();
        let slow = connection.query("SELECT pg_sleep(60)", &[]);
        let given_up = tokio::time::timeout(Duration::from_millis(50), slow).await;
        assert!(given_up.is_err());
        drop(connection);
        assert_eq!(one(&pool).await.unwrap(), 1);
    });
}
