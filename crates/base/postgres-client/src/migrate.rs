//! Schemas and their history.
//!
//! Several parts of the house may live in one database, so each names its set of
//! migrations. A table keeps what was applied. All of it happens in one transaction
//! behind an advisory lock, so programs that start at once take turns and the later
//! ones find nothing to do; a program that dies half way leaves nothing behind.

use std::fmt::Write;
use std::time::Duration;

use sha2::{Digest, Sha256};

use crate::error::Error;
use crate::pool::Pool;
use crate::session::Session;

/// How long to wait for another program that migrates, and for one migration.
const LIMIT: Duration = Duration::from_secs(3600);

/// One step of a schema. Its text is never changed after its release.
#[derive(Clone, Copy, Debug)]
pub struct Migration {
    pub name: &'static str,
    pub up: &'static str,
    pub down: &'static str,
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
        u32::try_from(self.steps.len()).expect("a schema has few steps")
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
        for ((number, row), step) in (1..).zip(&rows).zip(self.steps) {
            let same = row.get::<_, i32>(0) == number
                && row.get::<_, &str>(1) == step.name
                && row.get::<_, &str>(2) == checksum(step.up);
            if !same {
                return Err(Error::SchemaChanged {
                    set: self.set,
                    number: number.unsigned_abs(),
                    name: step.name,
                });
            }
        }
        Ok(found)
    }

    async fn step(&self, session: &Session, applied: u32, target: u32) -> Result<(), Error> {
        let numbered = || (1u32..).zip(self.steps);
        for (number, step) in numbered().filter(|(number, _)| *number > applied && *number <= target) {
            session.batch_within(step.up, LIMIT).await?;
            session
                .execute(
                    include_str!("queries/migrations/insert.sql"),
                    &[&self.set, &as_int(number), &step.name, &checksum(step.up)],
                )
                .await?;
            tracing::info!(set = self.set, number, name = step.name, "migration applied");
        }
        let back = numbered().filter(|(number, _)| *number <= applied && *number > target);
        for (number, step) in back.collect::<Vec<_>>().into_iter().rev() {
            session.batch_within(step.down, LIMIT).await?;
            session
                .execute(
                    include_str!("queries/migrations/delete.sql"),
                    &[&self.set, &as_int(number)],
                )
                .await?;
            tracing::info!(set = self.set, number, name = step.name, "migration taken back");
        }
        Ok(())
    }
}

fn as_int(number: u32) -> i32 {
    i32::try_from(number).expect("a schema has few steps")
}

fn checksum(text: &str) -> String {
    let mut digits = String::new();
    for byte in Sha256::digest(text.as_bytes()) {
        write!(digits, "{byte:02x}").expect("writing to a string cannot fail");
    }
    digits
}
