use nagaya_postgres_client::{Kind, Migration, Migrations};
use nagaya_testkit::shared;

use crate::{block_on, pool};

const FIRST: Migration = Migration {
    name: "one",
    up: "CREATE TABLE one (a int8); SELECT pg_sleep(0.05)",
    down: "DROP TABLE one",
};
const SECOND: Migration = Migration {
    name: "two",
    up: "ALTER TABLE one ADD b int8",
    down: "ALTER TABLE one DROP b",
};
const OLD: Migrations = Migrations {
    set: "test",
    steps: &[FIRST],
};
const NEW: Migrations = Migrations {
    set: "test",
    steps: &[FIRST, SECOND],
};

#[test]
fn programs_that_start_at_once_take_turns() {
    let url = shared::postgres().create_database();
    block_on(async {
        let starts = (0..6).map(|_| {
            let url = url.clone();
            tokio::spawn(async move { NEW.upgrade(&pool(&url)).await })
        });
        for start in starts.collect::<Vec<_>>() {
            start.await.unwrap().unwrap();
        }
    });
    let applied = shared::postgres().psql(&url, "SELECT number, name FROM nagaya_migrations ORDER BY 1");
    assert_eq!(applied, "1|one\n2|two");
}

#[test]
fn a_database_newer_than_the_program_is_refused_by_name() {
    let pool = pool(&shared::postgres().create_database());
    let error = block_on(async {
        NEW.upgrade(&pool).await.unwrap();
        OLD.upgrade(&pool).await.unwrap_err()
    });
    assert_eq!(error.kind(), Kind::Schema);
    let text = error.to_string();
    assert!(
        text.contains("version 2") && text.contains("use a newer program"),
        "{text}"
    );
}

#[test]
fn steps_can_be_taken_back_and_sets_do_not_meet() {
    const OTHER: Migrations = Migrations {
        set: "other",
        steps: &[Migration {
            name: "mine",
            up: "CREATE TABLE other (a int8)",
            down: "DROP TABLE other",
        }],
    };
    let url = shared::postgres().create_database();
    let pool = pool(&url);
    block_on(async {
        NEW.upgrade(&pool).await.unwrap();
        OTHER.upgrade(&pool).await.unwrap();
        NEW.to(&pool, 1).await.unwrap();
        OLD.upgrade(&pool).await.unwrap();
        NEW.to(&pool, 0).await.unwrap();
    });
    let tables = "SELECT string_agg(relname, ',' ORDER BY 1) FROM pg_class WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace";
    assert_eq!(shared::postgres().psql(&url, tables), "nagaya_migrations,other");
}

#[test]
fn a_changed_text_and_a_failing_step_leave_everything_as_it_was() {
    const CHANGED: Migrations = Migrations {
        set: "test",
        steps: &[Migration {
            up: "CREATE TABLE one (other int8)",
            ..FIRST
        }],
    };
    const BROKEN: Migrations = Migrations {
        set: "test",
        steps: &[
            FIRST,
            Migration {
                name: "broken",
                up: "ALTER TABLE one ADD c int8; ALTER TABLE missing ADD a int8",
                down: "",
            },
        ],
    };
    let url = shared::postgres().create_database();
    let pool = pool(&url);
    block_on(async {
        OLD.upgrade(&pool).await.unwrap();
        assert_eq!(CHANGED.upgrade(&pool).await.unwrap_err().kind(), Kind::Schema);
        let error = BROKEN.upgrade(&pool).await.unwrap_err();
        assert_eq!(error.code(), Some("42P01"), "{error}");
        OLD.upgrade(&pool).await.unwrap();
    });
    let columns = "SELECT count(*) FROM pg_attribute WHERE attrelid = 'one'::regclass AND attnum > 0";
    assert_eq!(shared::postgres().psql(&url, columns), "1");
}
