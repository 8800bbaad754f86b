//! The schema and its history.
//!
//! The number of the last migration applied is the file's `user_version`; a table keeps what was applied. All
//! of it changes in one transaction that holds the write lock from its start.

use std::fmt::Write;
use std::path::Path;

use rusqlite::{Connection, OptionalExtension, params};
use sha2::{Digest, Sha256};

use super::error::OpenError;
use super::sql::query;

/// Marks a file as a job store of ours: "ngjb". SQLite keeps it in the header for this use.
const APPLICATION_ID: i32 = 0x6e67_6a62;

struct Migration {
    name: &'static str,
    up: &'static str,
    down: &'static str,
}

/// In order; the first has number 1. A text is never changed after its release.
const MIGRATIONS: &[Migration] = &[Migration {
    name: "jobs",
    up: include_str!("migrations/0001_jobs.up.sql"),
    down: include_str!("migrations/0001_jobs.down.sql"),
}];

/// The number of the newest schema.
pub(super) const NEWEST: u32 = MIGRATIONS.len() as u32;

/// Brings a file up or down to a schema, or makes the schema in an empty file.
pub(super) fn to(connection: &Connection, path: &Path, target: u32) -> Result<(), OpenError> {
    let failed = |error: rusqlite::Error| OpenError::failed(path, error);
    connection.execute_batch("BEGIN IMMEDIATE").map_err(failed)?;
    let moved = version_of(connection, path).and_then(|found| {
        connection
            .execute_batch(query!("migrations/create"))
            .map_err(failed)?;
        verify(connection, path, found)?;
        step(connection, found, target).map_err(failed)
    });
    let end = if moved.is_ok() { "COMMIT" } else { "ROLLBACK" };
    connection.execute_batch(end).map_err(failed)?;
    moved
}

/// Returns the number of the file's schema; 0 for an empty file.
fn version_of(connection: &Connection, path: &Path) -> Result<u32, OpenError> {
    let read = |pragma| connection.pragma_query_value(None, pragma, |row| row.get::<_, i32>(0));
    let facts = || -> rusqlite::Result<(i32, i32, u32)> {
        let objects = connection.query_row(query!("migrations/count_objects"), [], |row| row.get(0))?;
        Ok((read("application_id")?, read("user_version")?, objects))
    };
    let (application, version, objects) = facts().map_err(|error| OpenError::failed(path, error))?;
    let not_ours = || OpenError::NotOurs {
        path: path.to_owned(),
    };
    let empty = application == 0 && version == 0 && objects == 0;
    if application != APPLICATION_ID && !empty {
        return Err(not_ours());
    }
    let found = u32::try_from(version).map_err(|_| not_ours())?;
    if found > NEWEST {
        return Err(OpenError::Newer {
            path: path.to_owned(),
            found,
            known: NEWEST,
        });
    }
    Ok(found)
}

/// Compares the migrations that were applied with ours.
fn verify(connection: &Connection, path: &Path, applied: u32) -> Result<(), OpenError> {
    for (number, migration) in (1..=applied).zip(MIGRATIONS) {
        let found: Option<(String, String)> = connection
            .query_row(query!("migrations/find"), [number], |row| {
                Ok((row.get(0)?, row.get(1)?))
            })
            .optional()
            .map_err(|error| OpenError::failed(path, error))?;
        if found != Some((migration.name.to_owned(), checksum(migration.up))) {
            return Err(OpenError::Changed {
                path: path.to_owned(),
                number,
                name: migration.name,
            });
        }
    }
    Ok(())
}

fn step(connection: &Connection, found: u32, target: u32) -> rusqlite::Result<()> {
    for (number, migration) in (1..).zip(MIGRATIONS) {
        if number > found && number <= target {
            connection.execute_batch(migration.up)?;
            let row = params![number, migration.name, checksum(migration.up)];
            connection.execute(query!("migrations/insert"), row)?;
        }
    }
    for (number, migration) in (1..).zip(MIGRATIONS).collect::<Vec<_>>().into_iter().rev() {
        if number <= found && number > target {
            connection.execute_batch(migration.down)?;
            connection.execute(query!("migrations/delete"), [number])?;
        }
    }
    connection.pragma_update(None, "application_id", APPLICATION_ID)?;
    connection.pragma_update(None, "user_version", target)
}

fn checksum(text: &str) -> String {
    let mut digits = String::new();
    for byte in Sha256::digest(text.as_bytes()) {
        write!(digits, "{byte:02x}").expect("writing to a string cannot fail");
    }
    digits
}

#[cfg(test)]
mod tests {
    use super::*;

    fn memory() -> Connection {
        Connection::open_in_memory().unwrap()
    }

    fn here() -> &'static Path {
        Path::new("jobs.db")
    }

    fn objects(connection: &Connection) -> Vec<String> {
        let mut names = connection
            .prepare("SELECT name FROM sqlite_schema WHERE name NOT LIKE 'sqlite_%' ORDER BY name")
            .unwrap();
        let names = names.query_map([], |row| row.get(0)).unwrap();
        names.map(Result::unwrap).collect()
    }

    #[test]
    fn every_migration_can_be_taken_back() {
        let connection = memory();
        for target in 0..=NEWEST {
            to(&connection, here(), target).unwrap();
            let there = objects(&connection);
            to(&connection, here(), NEWEST).unwrap();
            to(&connection, here(), target).unwrap();
            assert_eq!(objects(&connection), there, "schema {target}");
        }
        to(&connection, here(), 0).unwrap();
        assert_eq!(objects(&connection), ["schema_migrations"]);
    }

    #[test]
    fn a_newer_schema_is_refused_by_name() {
        let connection = memory();
        to(&connection, here(), NEWEST).unwrap();
        connection
            .pragma_update(None, "user_version", NEWEST + 1)
            .unwrap();
        let error = to(&connection, here(), NEWEST).unwrap_err();
        assert!(matches!(error, OpenError::Newer { found, .. } if found == NEWEST + 1));
    }

    #[test]
    fn a_changed_migration_is_refused() {
        let connection = memory();
        to(&connection, here(), NEWEST).unwrap();
        connection
            .execute("UPDATE schema_migrations SET checksum = 'other'", [])
            .unwrap();
        let error = to(&connection, here(), NEWEST).unwrap_err();
        assert!(matches!(error, OpenError::Changed { number: 1, .. }));
    }

    #[test]
    fn a_database_of_something_else_is_left_alone() {
        let connection = memory();
        connection.execute_batch("CREATE TABLE theirs (a)").unwrap();
        let error = to(&connection, here(), NEWEST).unwrap_err();
        assert!(matches!(error, OpenError::NotOurs { .. }));
        assert_eq!(objects(&connection), ["theirs"]);
    }
}
