//! The schema of a file and its recorded history.
//!
//! The number of the last migration applied is the file's `user_version`; a table
//! keeps what was applied. All of it changes in one transaction that holds the
//! write lock from its start, so two programs that open a file at once take turns
//! and the second finds nothing to do.

use std::path::{Path, PathBuf};

use nagaya_sql::{Changed, History, Migration, Recorded, Step, block, row};
use rusqlite::{Connection, OptionalExtension, params};

use crate::scalar::scalar;

const COUNT_OBJECTS: &str = block(include_str!("queries/migrations.sql"), "count_objects");
const CREATE: &str = block(include_str!("queries/migrations.sql"), "create");
const DELETE: &str = block(include_str!("queries/migrations.sql"), "delete");
const FIND: &str = block(include_str!("queries/migrations.sql"), "find");
const INSERT: &str = block(include_str!("queries/migrations.sql"), "insert");

row! {
    sqlite;
    struct MigrationRow { name: String, checksum: String }
}

/// The schema of one kind of file.
#[derive(Debug)]
pub struct Schema {
    /// A description with an article, for error texts.
    pub what: &'static str,
    /// Marks a file as one of these. SQLite keeps it in the header for this use.
    pub application_id: i32,
    /// In order; the first has number 1.
    pub migrations: &'static [Migration],
}

/// Why a file does not have the schema that it should.
#[derive(Debug, thiserror::Error)]
pub enum SchemaError {
    #[error("{path} is not {what}: it is a database of something else")]
    NotOurs { path: PathBuf, what: &'static str },
    #[error("{path} has schema {found}, this program knows schemas up to {known}: use a newer program")]
    Newer { path: PathBuf, found: u32, known: u32 },
    #[error(
        "{path} has schema {found}, reading it needs schema {known}: start the server once to bring it up to date"
    )]
    Older { path: PathBuf, found: u32, known: u32 },
    #[error("{path} was made by another text of migration {number} ({name})")]
    Changed {
        path: PathBuf,
        number: u32,
        name: &'static str,
    },
    #[error("schema {wanted} is unknown, the newest is {known}")]
    Unknown { wanted: u32, known: u32 },
    #[error("{path} cannot be opened")]
    Failed {
        path: PathBuf,
        #[source]
        source: rusqlite::Error,
    },
}

impl SchemaError {
    fn failed(path: &Path) -> impl Fn(rusqlite::Error) -> SchemaError + Copy {
        move |source| SchemaError::Failed {
            path: path.to_owned(),
            source,
        }
    }
}

impl Schema {
    /// Returns the number of the newest schema.
    pub const fn newest(&self) -> u32 {
        self.history().newest()
    }

    /// Brings a file to the newest schema, or makes the schema in an empty file.
    pub fn upgrade(&self, connection: &Connection, path: &Path) -> Result<(), SchemaError> {
        if self.version_of(connection, path)? == self.newest() {
            return self.verify(connection, path, self.newest());
        }
        self.to(connection, path, self.newest())
    }

    /// Brings a file up or down to a schema.
    pub fn to(&self, connection: &Connection, path: &Path, target: u32) -> Result<(), SchemaError> {
        if target > self.newest() {
            return Err(SchemaError::Unknown {
                wanted: target,
                known: self.newest(),
            });
        }
        let failed = SchemaError::failed(path);
        connection.execute_batch("BEGIN IMMEDIATE").map_err(failed)?;
        let moved = self.version_of(connection, path).and_then(|found| {
            connection.execute_batch(CREATE).map_err(failed)?;
            self.verify(connection, path, found)?;
            self.step(connection, found, target).map_err(failed)
        });
        let end = if moved.is_ok() { "COMMIT" } else { "ROLLBACK" };
        connection.execute_batch(end).map_err(failed)?;
        moved
    }

    /// Returns whether the file is ours and new enough to be read as it is.
    pub fn require_newest(&self, connection: &Connection, path: &Path) -> Result<(), SchemaError> {
        let found = self.version_of(connection, path)?;
        if found < self.newest() {
            return Err(SchemaError::Older {
                path: path.to_owned(),
                found,
                known: self.newest(),
            });
        }
        self.verify(connection, path, found)
    }

    /// Returns the number of the file's schema; 0 for an empty file.
    pub fn version_of(&self, connection: &Connection, path: &Path) -> Result<u32, SchemaError> {
        let read = |pragma| connection.pragma_query_value(None, pragma, scalar::<i32>);
        let facts = || -> rusqlite::Result<(i32, i32, u32)> {
            let objects = connection.query_row(COUNT_OBJECTS, [], scalar)?;
            Ok((read("application_id")?, read("user_version")?, objects))
        };
        let (application, version, objects) = facts().map_err(SchemaError::failed(path))?;
        let not_ours = || SchemaError::NotOurs {
            path: path.to_owned(),
            what: self.what,
        };
        let empty = application == 0 && version == 0 && objects == 0;
        if application != self.application_id && !empty {
            return Err(not_ours());
        }
        let found = u32::try_from(version).map_err(|_| not_ours())?;
        if found > self.newest() {
            return Err(SchemaError::Newer {
                path: path.to_owned(),
                found,
                known: self.newest(),
            });
        }
        Ok(found)
    }

    /// Compares the migrations that were applied with ours.
    fn verify(&self, connection: &Connection, path: &Path, applied: u32) -> Result<(), SchemaError> {
        let mut recorded = Vec::new();
        for number in 1..=applied {
            let found = connection
                .query_row(FIND, [number], MigrationRow::read)
                .optional()
                .map_err(SchemaError::failed(path))?;
            recorded.extend(found.map(|row| Recorded {
                number,
                name: row.name,
                checksum: row.checksum,
            }));
        }
        let changed = |Changed { number, name }| SchemaError::Changed {
            path: path.to_owned(),
            number,
            name,
        };
        self.history().verify(applied, &recorded).map_err(changed)
    }

    fn step(&self, connection: &Connection, found: u32, target: u32) -> rusqlite::Result<()> {
        for step in self.history().steps(found, target) {
            match step {
                Step::Up { number, migration } => {
                    connection.execute_batch(migration.up)?;
                    let row = params![number, migration.name, migration.checksum()];
                    connection.execute(INSERT, row)?;
                }
                Step::Down { number, migration } => {
                    connection.execute_batch(migration.down)?;
                    connection.execute(DELETE, [number])?;
                }
            }
        }
        connection.pragma_update(None, "application_id", self.application_id)?;
        connection.pragma_update(None, "user_version", target)
    }

    const fn history(&self) -> History {
        History(self.migrations)
    }
}

#[cfg(test)]
mod tests {
    use nagaya_sql::{SCALAR, assert_columns, blocks};

    use super::*;

    const SCHEMA: Schema = Schema {
        what: "a list of houses",
        application_id: 7,
        migrations: &[
            Migration {
                name: "houses",
                up: "CREATE TABLE houses (name TEXT PRIMARY KEY) STRICT;",
                down: "DROP TABLE houses;",
            },
            Migration {
                name: "rooms",
                up: "CREATE TABLE rooms (house TEXT) STRICT; CREATE INDEX rooms_by_house ON rooms (house);",
                down: "DROP TABLE rooms;",
            },
        ],
    };

    fn memory() -> Connection {
        Connection::open_in_memory().unwrap()
    }

    fn here() -> &'static Path {
        Path::new("houses.db")
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
        for target in 0..=SCHEMA.newest() {
            SCHEMA.to(&connection, here(), target).unwrap();
            let there = objects(&connection);
            SCHEMA.to(&connection, here(), SCHEMA.newest()).unwrap();
            SCHEMA.to(&connection, here(), target).unwrap();
            assert_eq!(objects(&connection), there, "schema {target}");
        }
        SCHEMA.to(&connection, here(), 0).unwrap();
        assert_eq!(objects(&connection), ["schema_migrations"]);
    }

    #[test]
    fn upgrading_twice_changes_nothing() {
        let connection = memory();
        SCHEMA.upgrade(&connection, here()).unwrap();
        let there = objects(&connection);
        SCHEMA.upgrade(&connection, here()).unwrap();
        assert_eq!(objects(&connection), there);
        assert_eq!(SCHEMA.version_of(&connection, here()).unwrap(), 2);
    }

    #[test]
    fn a_newer_schema_is_refused_by_name() {
        let connection = memory();
        SCHEMA.upgrade(&connection, here()).unwrap();
        connection.pragma_update(None, "user_version", 3).unwrap();
        let error = SCHEMA.upgrade(&connection, here()).unwrap_err();
        assert!(matches!(error, SchemaError::Newer { found: 3, .. }));
        assert!(error.to_string().contains("use a newer program"), "{error}");
    }

    #[test]
    fn an_older_schema_is_not_read_as_it_is() {
        let connection = memory();
        SCHEMA.to(&connection, here(), 1).unwrap();
        let error = SCHEMA.require_newest(&connection, here()).unwrap_err();
        assert!(matches!(error, SchemaError::Older { found: 1, .. }));
    }

    #[test]
    fn a_changed_migration_is_refused() {
        let connection = memory();
        SCHEMA.upgrade(&connection, here()).unwrap();
        connection
            .execute(
                "UPDATE schema_migrations SET checksum = 'other' WHERE number = 1",
                [],
            )
            .unwrap();
        let error = SCHEMA.upgrade(&connection, here()).unwrap_err();
        assert!(matches!(error, SchemaError::Changed { number: 1, .. }));
    }

    #[test]
    fn a_database_of_something_else_is_left_alone() {
        let connection = memory();
        connection.execute_batch("CREATE TABLE theirs (a)").unwrap();
        let error = SCHEMA.upgrade(&connection, here()).unwrap_err();
        assert!(error.to_string().contains("is not a list of houses"), "{error}");
        assert_eq!(objects(&connection), ["theirs"]);
    }

    #[test]
    fn an_unknown_schema_is_refused() {
        let error = SCHEMA.to(&memory(), here(), 3).unwrap_err();
        assert!(matches!(error, SchemaError::Unknown { .. }));
    }

    #[test]
    fn rows_have_the_columns_of_their_statements() {
        let connection = memory();
        SCHEMA.upgrade(&connection, here()).unwrap();
        let columns = |sql| {
            let statement = connection.prepare(sql).unwrap();
            statement.column_names().map(str::to_owned).collect()
        };
        let found = blocks(include_str!("queries/migrations.sql"))
            .into_iter()
            .map(|(name, sql)| (name.to_owned(), columns(sql)))
            .collect();
        assert_columns(
            &found,
            &[("count_objects", SCALAR), ("find", MigrationRow::COLUMNS)],
        );
    }
}
