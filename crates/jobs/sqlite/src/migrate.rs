//! The schema of a job store's file.

use nagaya_sqlite_client::{Migration, Schema};

pub(crate) const SCHEMA: Schema = Schema {
    what: "a job store",
    // "ngjb"
    application_id: 0x6e67_6a62,
    migrations: &[
        Migration {
            name: "jobs",
            up: include_str!("migrations/0001_jobs.up.sql"),
            down: include_str!("migrations/0001_jobs.down.sql"),
        },
        Migration {
            name: "isolation",
            up: include_str!("migrations/0002_isolation.up.sql"),
            down: include_str!("migrations/0002_isolation.down.sql"),
        },
    ],
};

#[cfg(test)]
mod tests {
    use std::path::Path;

    use rusqlite::Connection;

    use super::*;

    #[test]
    fn every_migration_can_be_taken_back() {
        let connection = Connection::open_in_memory().unwrap();
        let here = Path::new("jobs.db");
        for target in (0..=SCHEMA.newest()).rev() {
            SCHEMA.upgrade(&connection, here).unwrap();
            SCHEMA.to(&connection, here, target).unwrap();
            assert_eq!(SCHEMA.version_of(&connection, here).unwrap(), target);
        }
    }
}
