//! The sequences against a server in this process, over SQLite and over PostgreSQL.

use nagaya_testkit::Postgres;

use super::house::House;
use super::sequences::{self, for_each_sequence};

/// Makes a test of each sequence on SQLite, and one of all of them on PostgreSQL, which takes long to start.
macro_rules! on_every_store {
    ($($name:ident),* $(,)?) => {
        mod sqlite {
            use super::{House, sequences};

            $(#[tokio::test(flavor = "multi_thread")]
            async fn $name() {
                sequences::$name(&House::start().await.door()).await;
            })*
        }

        #[tokio::test(flavor = "multi_thread")]
        async fn all_sequences_run_on_postgresql_too() {
            let server = tokio::task::spawn_blocking(Postgres::start).await.unwrap();
            $(sequences::$name(&House::on_postgres(&server.create_database()).await.door()).await;)*
        }
    };
}

for_each_sequence!(on_every_store);
