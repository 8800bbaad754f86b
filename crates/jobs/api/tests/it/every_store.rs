//! The sequences against a server in this process, over SQLite and over PostgreSQL.

use nagaya_testkit::Postgres;

use super::sequences::{self, for_each_sequence};
use super::test_server::TestServer;

/// Generates one test per sequence on SQLite, and a single one for all of them on PostgreSQL, which starts
/// slowly.
macro_rules! on_every_store {
    ($($name:ident),* $(,)?) => {
        mod sqlite {
            use super::{TestServer, sequences};

            $(#[tokio::test(flavor = "multi_thread")]
            async fn $name() {
                sequences::$name(&TestServer::start().await.endpoints()).await;
            })*
        }

        #[tokio::test(flavor = "multi_thread")]
        async fn all_sequences_run_on_postgresql_too() {
            let postgres = tokio::task::spawn_blocking(Postgres::start).await.unwrap();
            $(sequences::$name(&TestServer::on_postgres(&postgres.create_database()).await.endpoints()).await;)*
        }
    };
}

for_each_sequence!(on_every_store);
