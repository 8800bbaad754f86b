//! Schemas and their history.
//!
//! Several parts of the house may live in one database, so each names its set of
//! migrations. A table keeps what was applied. All of it happens in one transaction
//! behind an advisory lock, so programs that start at once take turns and the later
//! ones find nothing to do; a program that dies half way leaves nothing behind.

use std::time::Duration;

use nagaya_sql::{Changed, History, Migration, Recorded, Step, row};

use crate::error::Error;
use crate::pool::Pool;
use crate::session::Session;

/// How long to wait for another program that migrates, and for one migration.
const LIMIT: Duration = Duration::from_secs(3600);

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
    /// The number of the newest schema.
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
        let lock = transaction
            .driver()
            .query(include_str!("queries/migrations/lock.sql"), &[]);
        transaction.call_within("let us migrate", LIMIT, lock).await?;
        transaction
            .batch(include_str!("queries/migrations/create.sql"))
            .await?;
        let applied = self.applied(&transaction).await?;
        self.step(&transaction, applied, target.min(self.newest()))
            .await?;
        transaction.commit().await
    }

    /// Returns how many steps are applied, after comparing them with ours.
    async fn applied(&self, session: &Session) -> Result<u32, Error> {
        let rows = session
            .query(include_str!("queries/migrations/list.sql"), &[&self.set])
            .await?;
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
                            include_str!("queries/migrations/insert.sql"),
                            &[&self.set, &as_int(number), &migration.name, &migration.checksum()],
                        )
                        .await?;
                    tracing::info!(set = self.set, number, name = migration.name, "migration applied");
                }
                Step::Down { number, migration } => {
                    session.batch_within(migration.down, LIMIT).await?;
                    session
                        .execute(
                            include_str!("queries/migrations/delete.sql"),
                            &[&self.set, &as_int(number)],
                        )
                        .await?;
                    tracing::info!(
                        set = self.set,
                        number,
                        name = migration.name,
                        "migration taken back"
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
