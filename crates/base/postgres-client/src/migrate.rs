//! Schemas and their recorded history.
//!
//! Several services may share one database, so each names its set of
//! migrations. A table records what was applied. All of it happens in one transaction
//! behind an advisory lock, so processes that start at once take turns and the later
//! ones find nothing to do; a process that dies half way leaves nothing behind.

use std::time::Duration;

use nagaya_sql::{Changed, History, Migration, Recorded, Step, block, row};

use crate::error::Error;
use crate::pool::Pool;
use crate::session::Session;

/// Time limit of waiting for another process that migrates, and of one migration. Large tables take long.
const LIMIT: Duration = Duration::from_secs(3600);

const CREATE: &str = block(include_str!("queries/migrations.sql"), "create");
const DELETE: &str = block(include_str!("queries/migrations.sql"), "delete");
const INSERT: &str = block(include_str!("queries/migrations.sql"), "insert");
const LIST: &str = block(include_str!("queries/migrations.sql"), "list");
const LOCK: &str = block(include_str!("queries/migrations.sql"), "lock");

row! {
    postgres;
    struct MigrationRow { number: i32, name: String, checksum: String }
}

/// All steps of a schema in order; the first has number 1.
#[derive(Clone, Copy, Debug)]
pub struct Migrations {
    /// Names the schema among others in the same database.
    pub set: &'static str,
    pub steps: &'static [Migration],
}

impl Migrations {
    /// Returns the number of the newest schema.
    pub fn newest(&self) -> u32 {
        self.history().newest()
    }

    /// Brings the database to the newest schema.
    pub async fn upgrade(&self, pool: &Pool) -> Result<(), Error> {
        self.to(pool, self.newest()).await
    }

    /// Brings the database up or down to a schema.
    pub async fn to(&self, pool: &Pool, target: u32) -> Result<(), Error> {
        let mut connection = pool.get().await?;
        let transaction = connection.transaction().await?;
        let lock = transaction.driver().query(LOCK, &[]);
        transaction
            .call_within("grant the migration lock", LIMIT, lock)
            .await?;
        transaction.batch(CREATE).await?;
        let applied = self.applied(&transaction).await?;
        self.step(&transaction, applied, target.min(self.newest()))
            .await?;
        transaction.commit().await
    }

    /// Returns how many steps are applied, after comparing them with the program's own.
    async fn applied(&self, session: &Session) -> Result<u32, Error> {
        let rows = session.query(LIST, &[&self.set]).await?;
        let found = u32::try_from(rows.len()).unwrap_or(u32::MAX);
        if found > self.newest() {
            return Err(Error::SchemaNewer {
                set: self.set,
                found,
                known: self.newest(),
            });
        }
        let recorded: Vec<Recorded> = rows
            .iter()
            .map(MigrationRow::read)
            .map(|row| Recorded {
                number: row.number.unsigned_abs(),
                name: row.name,
                checksum: row.checksum,
            })
            .collect();
        let changed = |Changed { number, name }| Error::SchemaChanged {
            set: self.set,
            number,
            name,
        };
        self.history().verify(found, &recorded).map_err(changed)?;
        Ok(found)
    }

    async fn step(&self, session: &Session, applied: u32, target: u32) -> Result<(), Error> {
        for step in self.history().steps(applied, target) {
            match step {
                Step::Up { number, migration } => {
                    session.batch_within(migration.up, LIMIT).await?;
                    session
                        .execute(
                            INSERT,
                            &[&self.set, &as_int(number), &migration.name, &migration.checksum()],
                        )
                        .await?;
                    tracing::info!(set = self.set, number, name = migration.name, "migration applied");
                }
                Step::Down { number, migration } => {
                    session.batch_within(migration.down, LIMIT).await?;
                    session.execute(DELETE, &[&self.set, &as_int(number)]).await?;
                    tracing::info!(
                        set = self.set,
                        number,
                        name = migration.name,
                        "migration reverted"
                    );
                }
            }
        }
        Ok(())
    }

    fn history(&self) -> History {
        History(self.steps)
    }
}

fn as_int(number: u32) -> i32 {
    i32::try_from(number).expect("a schema has few steps")
}

#[cfg(test)]
mod tests {
    use nagaya_sql::{SCALAR, assert_columns, blocks_in};
    use nagaya_testkit::shared;

    use super::*;
    use crate::pool::Options;

    #[test]
    fn rows_have_the_columns_of_their_statements() {
        let url = shared::postgres().create_database();
        let pool = Pool::new(&url.parse().unwrap(), Options::default()).unwrap();
        let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("src/queries");
        let prepare = async {
            let session = pool.get().await.unwrap();
            session.batch(CREATE).await.unwrap();
            let mut found = std::collections::BTreeMap::new();
            for (name, sql) in blocks_in(&folder) {
                let statement = session.driver().prepare(&sql).await.unwrap();
                let columns = statement.columns().iter();
                found.insert(name, columns.map(|column| column.name().to_owned()).collect());
            }
            found
        };
        let runtime = tokio::runtime::Runtime::new().unwrap();
        assert_columns(
            &runtime.block_on(prepare),
            &[
                ("migrations/list", MigrationRow::COLUMNS),
                ("migrations/lock", SCALAR),
                ("notify/listen", SCALAR),
                ("notify/send", SCALAR),
            ],
        );
    }
}
